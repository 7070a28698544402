"""Means, sums, shares, ratios, quantiles and differences between groups: calls that all releases of
tables share.

A kind says how its cells were counted (`cell_counts`, `cell_sums`); `query.aggregates` does the
rest. Every answer has limits, and a note that says what they rest on and what would make them
narrower.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, spelled
from dpublish.declare.domain import Domain
from dpublish.errors import QueryError
from dpublish.estimate import Estimate, Measure, check_level
from dpublish.models.integer_limits import integer_rows
from dpublish.query.aggregates import (
    MAX_TABLE,
    CellSums,
    Chosen,
    Found,
    Numbers,
    Places,
    Table,
    both,
    chosen_by,
    column_numbers,
    difference,
    indicator,
    mean_from_counts,
    quantile,
    quantile_from_counts,
    ratio_from_counts,
    share_from_counts,
)
from dpublish.query.constants import Tree, bare, shown
from dpublish.query.expressions import expression_numbers
from dpublish.query.predicate import (
    Constant,
    Node,
    columns_of,
    parse_predicate,
    parse_select,
    parse_sql,
)
from dpublish.query.ruled import RULED_OUT, Ruled
from dpublish.query.sql_limits import COUNTED, Where, column_or_none
from dpublish.releases.base import Release
from dpublish.releases.frames import (
    Codes,
    Weights,
    marginal_frame,
    named_columns,
    named_target,
    other_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = (
    "counted in bins: the interval covers the noise and wherever in its bin a number lies. Most of "
    "its width comes from the bins of {column}{widest}; a release with finer bins would narrow it"
)
PARTS = (
    "counted in parts that hold several values: the interval covers the noise, and wherever in its "
    "part a row lies, which makes most of its width. A release with finer parts of {column} would "
    "narrow it"
)
MIXED = (
    "these rows were counted as one with others, whose numbers differ: the interval is all that "
    "the column allows. A release with more budget, or of fewer columns, would tell them apart"
)
CUT = (
    "the condition cuts bins or groups of values that were counted as one: the interval covers the "
    "noise, and all or none of what is cut"
)
APART = (
    "{columns} were not counted together: the interval holds whatever their dependence is, within "
    "what was counted, and is wide. A release that counts them together would narrow it"
)
CLIPPED = "values of {column} beyond its declared bounds were moved to the nearest bound"


@dataclass(frozen=True)
class PartSums:
    """Sums over cells that were counted in parts: cell `codes` i is in part `owner` i. A part takes
    the least amount of its cells, whatever of it lies where; `low_of` knows the noise of parts."""

    owner: NDArray[np.int64]
    codes: tuple[NDArray[np.int64], ...]
    parts: int
    estimates: Floats
    low_of: Callable[[Floats, float], float]
    independent: bool = False

    @property
    def mixed(self) -> bool:
        """Whether a part holds more than one cell."""
        return self.owner.size > np.unique(self.owner).size

    def value(self, amounts: Floats) -> float:
        return float((amounts * self.estimates).sum())

    def sure(self, amounts: Floats) -> float:
        return self.low_of(self._least(amounts), 0.5)  # noise is as often above as below

    def _least(self, amounts: Floats) -> Floats:
        least = np.full(self.parts, np.inf)
        np.minimum.at(least, self.owner, amounts[self.codes])
        return least

    def low(self, amounts: Floats, alpha: float) -> float:
        least = self._least(amounts)
        # noise is drawn in whole numbers
        return self.low_of(least, alpha) - 0.5 * float(np.abs(least).max(initial=0.0))


@dataclass(frozen=True)
class Asked:
    """What is averaged: a number per cell, or where `node` is given the share that meets it."""

    text: str
    numbers: Numbers
    node: Node | None = None
    place: int | None = None

    @property
    def measure(self) -> Measure:
        return "mean" if self.node is None else "share"


class AggregatesRelease(Release):
    """A release that counts the cells of a domain."""

    domain: Domain

    @abc.abstractmethod
    def cell_counts(self, places: Places) -> Floats:
        """The estimated rows of every combination of codes of some columns."""

    @abc.abstractmethod
    def cell_sums(self, places: Places) -> CellSums | None:
        """Sums over the same cells with their errors; None where they were not counted
        together."""

    @abc.abstractmethod
    def estimate(self, predicate: Any, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate, which may have been read already."""

    @cached_property
    def _ruled(self) -> Ruled:
        return Ruled.read(self.manifest.get("rules", []), self.domain)

    def ruled_out(self, node: Node, level: float) -> Estimate | None:
        """That there are no rows, where only rows that break a rule of the schema could meet a
        condition: those were left out before anything was counted."""
        if not self._ruled.forbid(node):
            return None
        return Estimate(0.0, 0.0, 0.0, 0.0, check_level(level), note=RULED_OUT)

    def by_columns(self, places: Sequence[int], figures: Mapping[str, Any]) -> pl.DataFrame:
        """The table of counts by columns: nobody is where a rule of the schema forbids it."""
        if self._ruled.broken:
            kept = self._ruled.kept(places).ravel()
            figures = {name: np.where(kept, values, 0.0) for name, values in figures.items()}
        return marginal_frame(self.domain, places, figures)

    def met(self, node: Node, level: float) -> Estimate:
        """How many rows meet a condition that was read already."""
        return self.estimate(node, level=level)

    def counted_together(self, *columns: str) -> bool:
        """Whether the noisy counts themselves say how columns go together; what else is said of
        them is a model's guess, or a bound."""
        places = tuple(sorted(named_columns(self.domain, columns)))
        size = math.prod(self.domain.axes[place].cardinality for place in places)
        return len(places) < 2 or (size <= MAX_TABLE and self.cell_sums(places) is not None)

    def mean(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """The mean of a column, or of an expression such as "hours * 52", over the rows that meet
        `where`. Rows without the number do not count."""
        asked = self._asked(of)
        if asked.node is not None:
            raise QueryError(f"'{of}' is a condition. Its share is release.share({of!r}).")
        return self.aggregate("mean", asked, self._where(where), level)

    def sum(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """The sum of a column, or of an expression, over the rows that meet `where`."""
        return self.aggregate("sum", self._asked(of), self._where(where), level)

    def share(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """Of the rows that meet `where`, the share that meets a condition."""
        asked = self._asked(of)
        if asked.node is None:
            raise QueryError(f"'{of}' is not a condition. Its mean is release.mean({of!r}).")
        return self.aggregate("mean", asked, self._where(where), level)

    def ratio(self, of: str, to: str, *, level: float = 0.95) -> Estimate:
        """How many rows meet one condition for each row that meets another."""
        first, second = (parse_predicate(text, self.domain) for text in (of, to))
        found = ratio_from_counts(self, first, second, 1 - check_level(level))
        note = "" if math.isfinite(found.high) else "there may be no row to compare with"
        return found.estimate(level, "ratio", note)

    def median(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """The value that half of the rows are not above."""
        return self.quantile(of, 0.5, where=where, level=level)

    def quantile(
        self, of: str, share: float = 0.5, *, where: str | None = None, level: float = 0.95
    ) -> Estimate:
        """The value of a numeric column that this share of the rows that meet `where` is not
        above."""
        names = self.domain.names
        name = of if of in names else column_or_none(bare(parse_sql(of, example="age")), names)
        if name is None or not self.domain.axis(name).numeric:
            raise QueryError(
                f"A quantile is that of a column of numbers or dates, and '{of}' is none."
            )
        if isinstance(share, bool) or not 0 < share < 1:
            raise QueryError(f"share must lie between 0 and 1, not {share!r}. The median is 0.5.")
        return self._quantile(self._asked_column(name), share, self._where(where), level)

    def difference(self, of: str, first: str, second: str, *, level: float = 0.95) -> Estimate:
        """The mean of a number (of a condition: its share) among the rows that meet `first`, less
        that among the rows that meet `second`."""
        alpha = 1 - check_level(level)
        asked = self._asked(of)
        nodes = [self._where(one) for one in (first, second)]
        tables = [self._table(asked, node) for node in nodes]
        together = (
            isinstance(tables[0], Table)
            and isinstance(tables[1], Table)
            and tables[0].places == tables[1].places
            and tables[0].sums is not None
            and tables[0].sums.independent
            and not (tables[0].touched & tables[1].touched).any()
        )
        part = alpha if together else alpha / 2
        found = [self._mean(asked, node, part)[0] for node in nodes]
        notes = [self._note(asked, *one) for one in zip(nodes, found, tables, strict=True)]
        note = next((one for one in notes if one != COUNTED), COUNTED)
        return difference(*found, independent=together).estimate(level, "difference", note)

    # -- what SQL and the calls above share

    def count_of(self, where: Where, level: float) -> Estimate:
        """How many rows a condition, or cells that were chosen, have."""
        if not isinstance(where, Chosen):
            return self.met(where, level)
        left = where.touched
        if self._ruled.broken:
            left = left & self._ruled.kept(where.places)
        if where.touched.any() and not left.any():
            return Estimate(0.0, 0.0, 0.0, 0.0, check_level(level), note=RULED_OUT)
        ones = np.ones(())
        one = self.aggregate("sum", Asked("rows", Numbers((), ones, ones, ones)), where, level)
        low, high = (float(end) for end in integer_rows(one.low, one.high))
        return replace(one, measure="count", low=max(0.0, low), high=max(0.0, high))

    def aggregate_of(self, kind: str, tree: Tree, where: Where, level: float) -> Estimate:
        """A mean or a sum of an expression of SQL."""
        return self.aggregate(kind, self._asked_tree(tree), where, level)

    def quantile_of(self, tree: Tree, share: float, where: Where, level: float) -> Estimate:
        """A quantile of a column that SQL names."""
        name = column_or_none(bare(tree), self.domain.names)
        if name is None or not self.domain.axis(name).numeric:
            raise QueryError(
                f"a quantile is that of a column of numbers or dates, not of '{shown(tree)}'"
            )
        return self._quantile(self._asked_column(name), share, where, level)

    def _quantile(self, asked: Asked, share: float, where: Where, level: float) -> Estimate:
        alpha = 1 - check_level(level)
        assert asked.place is not None
        table = self._table(asked, where)
        if table is not None and not table.touched.any():
            raise QueryError("No row can meet the condition, so there is no quantile.")
        if table is not None and table.sums is not None:
            found = quantile(table, asked.place, self.domain, share, alpha)
            note = self._note(asked, where, found, table)
        elif isinstance(where, Chosen):
            raise QueryError(f"{self._apart(asked, where)}.")
        else:
            found = quantile_from_counts(self, self.domain, where, asked.place, share, alpha)
            note = self._apart(asked, where)
        axis, one = self.domain.axes[asked.place], found.estimate(level, "quantile", note)
        return as_moment(one, axis.kind, int(axis.edges[-1]) - 1) if axis.kind in CALENDAR else one

    def aggregate(self, kind: str, asked: Asked, where: Where, level: float) -> Estimate:
        """A mean or a sum of what was read already."""
        found, table = self._mean(asked, where, 1 - check_level(level), total=kind == "sum")
        measure: Measure = "sum" if kind == "sum" else asked.measure
        return found.estimate(level, measure, self._note(asked, where, found, table))

    def _mean(
        self, asked: Asked, where: Where, alpha: float, *, total: bool = False
    ) -> tuple[Found, Table | None]:
        table = self._table(asked, where)
        if table is not None and not table.touched.any():
            raise QueryError("No row can meet the condition, so there is nothing to average.")
        if table is not None and table.sums is not None:
            return (table.sum(alpha) if total else table.mean(alpha)), table
        if isinstance(where, Chosen):
            raise QueryError(f"{self._apart(asked, where)}.")
        if asked.node is not None and not total:
            return share_from_counts(self, asked.node, where, alpha), None
        if asked.node is not None:
            one = self.met(both(asked.node, where), 1 - alpha)
            return Found(one.value, one.low, one.high, counted=False), None
        if asked.place is None and len({*asked.numbers.places, *_places(where)}) < 2:
            raise QueryError(
                f"This release bounds counts and columns, not '{asked.text}'. Ask for the share "
                "of each of its conditions."
            )
        if asked.place is None:
            raise QueryError(
                f"{self._apart(asked, where)}. Ask for columns one by one instead of "
                f"'{asked.text}'."
            )
        mean, added = mean_from_counts(self, self.domain, where, asked.place, alpha)
        return (added if total else mean), None

    def _table(self, asked: Asked, where: Where) -> Table | None:
        """All cells of the columns in question; None where they are too many."""
        places = {*asked.numbers.places, *_places(where)}
        if math.prod(self.domain.axes[place].cardinality for place in places) > MAX_TABLE:
            return None
        chosen = where if isinstance(where, Chosen) else chosen_by(where, self.domain)
        return Table(self, self.domain, chosen, asked.numbers)

    def _asked(self, text: str) -> Asked:
        """What a text asks for: a column, an expression, or a condition."""
        if not isinstance(text, str):
            raise QueryError(f"Name a column or write an expression as text, not {text!r}.")
        if text in self.domain.names and self.domain.axis(text).numeric:
            return self._asked_column(text)
        return self._asked_tree(parse_sql(text, example="age"))

    def _asked_column(self, name: str) -> Asked:
        place = self.domain.names.index(name)
        return Asked(name, column_numbers(place, self.domain.axes[place]), place=place)

    def _asked_tree(self, tree: Tree) -> Asked:
        tree = bare(tree)
        name = column_or_none(tree, self.domain.names)
        if name is not None and self.domain.axis(name).kind in ("integer", "real"):
            return self._asked_column(name)
        text = shown(tree)
        condition = _condition_of(tree)
        if condition is None:
            numbers = expression_numbers(tree, self.domain)
            if numbers is not None:
                return Asked(text, numbers)
            condition = tree
        node = parse_predicate(condition.sql(dialect="postgres"), self.domain)
        return Asked(text, indicator(chosen_by(node, self.domain)), node)

    def _where(self, where: str | None) -> Node:
        return Constant(True) if where is None else parse_predicate(where, self.domain)

    def _note(self, asked: Asked, where: Where, found: Found, table: Table | None) -> str:
        """What an interval rests on, and what would help."""
        if not found.counted or table is None:
            return self._apart(asked, where)
        width, open_width = found.high - found.low, found.sure_high - found.sure_low
        note = COUNTED
        if math.isfinite(open_width) and open_width > 0.5 * width:
            numbers = asked.node is None and asked.numbers.places  # a count has none
            note = self._bins_note(asked, table) if numbers else CUT
            least, most = table.bounds
            if (
                asked.node is None
                and np.unique(table.low[table.touched]).size > 1
                and found.sure_low <= least
                and most <= found.sure_high
            ):
                note = MIXED
        axis = None if asked.place is None else self.domain.axes[asked.place]
        if axis is not None and axis.outside == "clip":
            note += "; " + CLIPPED.format(column=f"'{axis.name}'")
        return note

    def _bins_note(self, asked: Asked, table: Table) -> str:
        names = ", ".join(f"'{self.domain.axes[place].name}'" for place in asked.numbers.places)
        if isinstance(table.sums, PartSums) and table.sums.mixed:
            return PARTS.format(column=names)
        if asked.place is None:
            return BINS.format(column=names, widest="")
        axis = self.domain.axes[asked.place]
        rest = tuple(at for at, place in enumerate(table.places) if place != asked.place)
        rows = table.weights.sum(axis=rest)[: axis.base]
        spans = rows * np.diff(np.array(axis.edges, dtype=np.float64))
        widest = int(np.argmax(spans))
        part = 0.0 if rows.sum() <= 0 else float(rows[widest] / rows.sum())
        said = f" (about {part:.0%} of the rows are in {axis.label(widest)})" if part > 0 else ""
        return BINS.format(column=names, widest=said)

    def _apart(self, asked: Asked, where: Where) -> str:
        places = sorted({*asked.numbers.places, *_places(where)})
        names = " and ".join(f"'{self.domain.axes[place].name}'" for place in places)
        return APART.format(columns=names) if len(places) > 1 else COUNTED


def _places(where: Where) -> Collection[int]:
    return where.places if isinstance(where, Chosen) else columns_of(where)


def places_named(query: str, domain: Domain) -> list[int]:
    """The columns that a SELECT names, all for a bare star; the flag of a column stands for it."""
    tree = parse_select(query, domain.names)
    if any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star)):
        return list(range(len(domain.names)))
    named = {column.name.lower() for column in tree.find_all(exp.Column)}
    flags = other_names(domain.axes)
    return [
        place
        for place, name in enumerate(domain.names)
        if named & {name.lower(), flags.get(name, name).lower()}
    ]


def _condition_of(tree: Tree) -> Tree | None:
    """The condition of a CASE that is 1 where it holds and 0 elsewhere."""
    if not isinstance(tree, exp.Case) or tree.this is not None or len(tree.args["ifs"]) != 1:
        return None
    branch = tree.args["ifs"][0]
    ends = [branch.args["true"], tree.args.get("default")]
    if not all(isinstance(end, exp.Literal) and not end.is_string for end in ends):
        return None
    return branch.this if [float(end.this) for end in ends] == [1.0, 0.0] else None


# What releases share that consist of weighted cells of a domain: training, and pictures of counts
# by column.


class CellsRelease(AggregatesRelease):
    """Cells of `domain` with counts or weights."""

    @abc.abstractmethod
    def weighted_codes(self, columns: Sequence[str]) -> tuple[list[Codes], Weights]:
        """The codes of the cells along some columns, and how many rows each stands for."""

    @abc.abstractmethod
    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high."""

    @property
    def target(self) -> str | None:
        """The column that the release was made to predict, or else the schema's, when the release
        has it."""
        return named_target(self.manifest, self.domain)

    def fit(
        self, estimator: Any, *, target: str | None = None, features: Sequence[str] | None = None
    ) -> Any:
        """Train a scikit-learn estimator on the weighted cells. The fitted pipeline takes raw
        rows."""
        from dpublish.analyse.learn import fit_pipeline

        return fit_pipeline(self, estimator, target=target, features=features)

    def plot(self, *columns: str, level: float = 0.95, top: int = 25) -> Figure:
        """A bar chart with error bars for one column, a heat map for two."""
        from dpublish.present.figures import plot_marginal

        return plot_marginal(self, columns, level=level, top=top)


def as_moment(one: Estimate, kind: str, last: int) -> Estimate:
    """An estimate in days or seconds, as whole ones that are no later than the last."""
    value, low = (min(math.floor(end), last) for end in (one.value, one.low))
    high = min(math.ceil(one.high), last)
    said = {
        name: spelled(kind, number)
        for name, number in (("moment", value), ("low_moment", low), ("high_moment", high))
    }
    return replace(
        one,
        value=float(value),
        low=float(low),
        high=float(high),
        details={**one.details, "calendar": kind, **said},
    )
