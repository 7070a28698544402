"""Answers to a list of queries, measured: noisy tables from which every count that they hold has an
unbiased estimate with an exact variance."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from dpublish.arrays import Floats
from dpublish.declare.domain import Domain
from dpublish.errors import BundleError, PublishError, QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import half_width, integer_rows
from dpublish.models.residuals import Coarsening, Form, Grouping, Measured, Residuals, Resolution
from dpublish.present.report import (
    Block,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    column_charts,
    how_it_was_made,
    listed,
    usage,
)
from dpublish.privacy.budget_split import laplace_variance
from dpublish.query.masks import Coverage, cover_table
from dpublish.query.predicate import Node, columns_of, parse_predicate
from dpublish.releases.aggregates import AggregatesRelease
from dpublish.releases.bundle.manifest import fraction, read_domain, table, text, whole
from dpublish.releases.frames import marginal_shape, named_columns
from dpublish.workloads.query_classes import (
    Intervals,
    Marginals,
    Predicates,
    QueryClass,
    members_of,
    query_class,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


MAX_TABLES = 1 << 14
MAX_CELLS = 1 << 24
MAX_NOISE = 1 << 62
CHUNK = 1 << 22
MEASURED_SCHEMA: dict[str, Any] = {"table": pl.UInt32, "value": pl.Int64}
ANSWERS_SCHEMA: dict[str, Any] = {"value": pl.Int64}
COUNTED = "an unbiased estimate with an exact variance, whatever the rows are"


class WorkloadRelease(AggregatesRelease):
    """Measured tables, or measured answers, of a list of queries."""

    kind: ClassVar[str] = "workload"
    own: ClassVar[tuple[str, ...]] = ("answers", "covariance")

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        self.domain: Domain = read_domain(manifest.get("domain"), limit=None)
        facts = table(manifest, "facts", "manifest")
        how, self.law = text(facts, "how", "facts"), text(facts, "law", "facts")
        if how not in ("tables", "queries", "lists") or self.law not in ("laplace", "gaussian"):
            raise BundleError("facts: 'how' or 'law' is not known.")
        self.rows = (
            None if facts.get("rows") is None else whole(facts, "rows", "facts", limit=1 << 52)
        )
        try:
            self.queries: QueryClass = query_class(text(facts, "queries", "facts"))
            """The list that the release was made for."""
        except PublishError as error:
            raise BundleError(f"facts: 'queries' cannot be read: {str(error)[:200]}") from None
        self.residuals: Residuals | None = None
        self.lists: list[tuple[tuple[int, ...], WorkloadRelease]] = []
        """Where classes of the list were measured apart: which, and what was measured for them."""
        if how == "lists":
            self.lists = self._read_lists(facts)
        elif how == "tables":
            self.residuals = self._read_tables(facts, _only(tables, "measured", MEASURED_SCHEMA))
        else:
            self.variance = _variance(facts, self.law, "facts")
            self.values = _only(tables, "answers", ANSWERS_SCHEMA)["value"].to_numpy()
            self.seen = _read_columns(facts, self.domain)
            self.asked = Domain(tuple(self.domain.axes[place] for place in self.seen))
            if self.asked.size > MAX_CELLS:
                raise BundleError("The domain is larger than one that answers can be made for.")
            try:
                count = self.queries.size(self.asked)
            except PublishError as error:
                raise BundleError(f"facts: 'queries': {str(error)[:200]}") from None
            if count != len(self.values):
                raise BundleError("answers.parquet does not hold one answer per query.")

    def _read_lists(
        self, facts: Mapping[str, Any]
    ) -> list[tuple[tuple[int, ...], WorkloadRelease]]:
        listed = facts.get("lists")
        if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
            raise BundleError("facts: 'lists' must list what was measured for which classes.")
        found, every = [], members_of(self.queries)
        for place, one in enumerate(listed, start=1):
            classes = one.get("classes")
            if not isinstance(classes, list) or not all(
                isinstance(some, int) and not isinstance(some, bool) and 0 <= some < len(every)
                for some in classes
            ):
                raise BundleError("facts: lists: 'classes' must be places of classes.")
            own = {
                name.removesuffix(f"_{place}"): frame
                for name, frame in self.tables.items()
                if name.endswith(f"_{place}")
            }
            if one.get("how") == "lists":
                raise BundleError("facts: lists: a list does not hold lists.")
            part = WorkloadRelease({**self.manifest, "facts": one}, own)
            if members_of(part.queries) != tuple(every[some] for some in classes):
                raise BundleError("facts: lists: 'queries' are not those of the classes.")
            found.append((tuple(classes), part))
        if sorted(some for classes, _ in found for some in classes) != list(range(len(every))):
            raise BundleError("facts: 'lists' must hold every class once.")
        if len(self.tables) != len(found):
            raise BundleError("This release must hold one table per list.")
        return found

    def _read_tables(self, facts: Mapping[str, Any], frame: pl.DataFrame) -> Residuals:
        grouping = _read_grouping(facts, self.domain)
        listed = facts.get("measured")
        if not isinstance(listed, list) or not 0 < len(listed) <= MAX_TABLES:
            raise BundleError("facts: 'measured' must list the measured tables.")
        measured = [_read_measured(one, grouping, self.law) for one in listed]
        sizes = [grouping.cells(one.at) for one in measured]
        places = np.repeat(np.arange(len(sizes), dtype=np.uint32), sizes)
        if sum(sizes) != frame.height or not np.array_equal(frame["table"].to_numpy(), places):
            raise BundleError("measured.parquet does not hold the tables that the facts list.")
        values = np.split(frame["value"].to_numpy(), np.cumsum(sizes)[:-1])
        shaped = [
            part.reshape(grouping.shape(one.at)) for part, one in zip(values, measured, strict=True)
        ]
        return Residuals(grouping, measured, shaped, rows=self.rows)

    # -- questions

    def estimate(self, predicate: str | Node, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate that the measured tables can answer. `low` and `high`
        allow for all or none of a bin that is cut."""
        check_level(level)
        node = parse_predicate(predicate, self.domain)
        if (none := self.ruled_out(node, level)) is not None:
            return none
        if self.lists:
            return self._nearest(node).estimate(node, level=level)
        found, value, variance = self._measured(node)
        low, high = self._limits(value, variance, level)
        least, most = float(low[1]), float(high[2])
        error = math.sqrt(float(variance[0]))
        if np.any(found.inside != found.touched):
            error = max(error, float(value[2] - value[1]) / math.sqrt(12))
        middle = min(max(float(value[0]), least), most)
        return Estimate(middle, error, least, most, level, note=COUNTED)

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high."""
        check_level(level)
        places = named_columns(self.domain, columns)
        marginal_shape(self.domain, places)
        if self.lists:
            return self._holding(tuple(places)).marginal(*columns, level=level)
        value, variance = self._estimated(tuple(places))
        return self.by_columns(places, self._figures(value.reshape(-1), variance, level))

    def answers(self, *, level: float = 0.95) -> pl.DataFrame:
        """The answers to the list that the release was made for, in its order: query, count,
        standard_error, low, high."""
        check_level(level)
        if self.lists:
            each: dict[int, pl.DataFrame] = {}
            for classes, part in self.lists:
                answers, start = part.answers(level=level), 0
                for place, one in zip(classes, members_of(part.queries), strict=True):
                    count = one.size(part.asked if part.residuals is None else self.domain)
                    each[place] = answers.slice(start, count)
                    start += count
            return pl.concat(each[place] for place in sorted(each))
        if self.residuals is None:
            unit = self.queries.unit
            value = self.values / unit
            variance = np.full(len(value), self.variance / unit**2)
        else:
            parts = [part for one in members_of(self.queries) for part in self._listed(one)]
            value, variance = (np.concatenate([one[side] for one in parts]) for side in (0, 1))
        over = self.asked if self.residuals is None else self.domain
        labels = pl.Series(list(self.queries.labels(over)), dtype=pl.String)
        return pl.DataFrame({"query": labels, **self._figures(value, variance, level)})

    def covariance(self, first: str | Node, second: str | Node) -> float:
        """Of the errors of two estimates, exactly: what the error bar of their difference or sum
        needs. Bins that are cut count in proportion."""
        nodes = [parse_predicate(one, self.domain) for one in (first, second)]
        if self.lists:
            near = [self._nearest(node) for node in nodes]
            # what was measured apart has noise of its own
            return near[0].covariance(nodes[0], nodes[1]) if near[0] is near[1] else 0.0
        places = self._small_table(columns_of(nodes[0]) | columns_of(nodes[1]))
        both = [cover_table(node, self.domain, places).share for node in nodes]
        if self.residuals is None:
            one, other = (self._listed_row(share, places) for share in both)
            return float(one == other) * self.variance / self.queries.unit**2
        at = self.residuals.grouping.finest(places)
        arrays = [self._leaves(share[None], at)[0] for share in both]
        for array in arrays:
            self._check(at, places, array)
        return self.residuals.covariance(arrays[0], arrays[1], at)

    def cell_counts(self, places: tuple[int, ...]) -> Floats:
        return (self._holding(places) if self.lists else self)._estimated(places)[0]

    def cell_sums(self, places: tuple[int, ...]) -> None:
        """Limits follow from those of counts."""

    def counted_together(self, *columns: str) -> bool:
        """Whether the table of these columns can be estimated."""
        places = named_columns(self.domain, columns)
        if self.lists:
            return any(part.counted_together(*columns) for _, part in self.lists)
        return self.residuals is not None and self.residuals.answerable(
            self.residuals.grouping.finest(places)
        )

    def plot(self, *columns: str, level: float = 0.95, top: int = 25) -> Figure:
        """A bar chart with error bars for one column, a heat map for two."""
        from dpublish.present.figures import plot_marginal

        return plot_marginal(self, columns, level=level, top=top)

    def summary(self) -> dict[str, str]:
        return {
            **super().summary(),
            "columns": ", ".join(self.domain.names),
            "made for": self.queries.text()[:200],
        }

    # -- how they are answered

    def _measured(self, node: Node) -> tuple[Coverage, Floats, Floats]:
        """What a condition covers; values and variances of its share of all cells, of those that
        are wholly inside, and of those that it touches."""
        places = self._small_table(columns_of(node))
        found = cover_table(node, self.domain, places)
        given = np.stack([found.share, found.inside, found.touched]).astype(np.float64)
        return found, *self._answers(given, places)

    def _small_table(self, columns: Collection[int]) -> tuple[int, ...]:
        """Some columns in order, if a table of them can be made."""
        places = tuple(sorted(columns))
        if math.prod(self.domain.shape[place] for place in places) > MAX_CELLS:
            raise QueryError(self._cannot(places))
        return places

    def _nearest(self, node: Node) -> WorkloadRelease:
        """Of what was measured apart, that which answers with the least noise."""
        return self._least_noisy(columns_of(node), lambda part: part._measured(node)[2])

    def _holding(self, places: tuple[int, ...]) -> WorkloadRelease:
        """Of what was measured apart, that which holds a table of some columns with the least
        noise."""
        return self._least_noisy(places, lambda part: part._estimated(places)[1])

    def _least_noisy(
        self, columns: Collection[int], variances: Callable[[WorkloadRelease], Floats]
    ) -> WorkloadRelease:
        """The first variance decides, which depends on no noise."""
        found = []
        for _, part in self.lists:
            with contextlib.suppress(QueryError):
                found.append((float(variances(part)[0]), part))
        if not found:
            raise QueryError(self._cannot(tuple(sorted(columns))))
        return min(found, key=lambda one: one[0])[1]

    def _answers(self, given: Floats, places: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Values and variances of queries over the codes of some columns."""
        if self.residuals is None:
            rows = [self._listed_row(one, places) for one in given]
            unit = self.queries.unit
            value = [
                (
                    self.values[place] / unit
                    if place >= 0
                    else (self.rows or 0) - self.values[~place] / unit
                )
                for place in rows
            ]
            return np.array(value), np.full(len(rows), self.variance / unit**2)
        at = self.residuals.grouping.finest(places)
        queries = self._leaves(given, at)
        self._check(at, places, queries)
        return self.residuals.answers(queries, at)

    def _leaves(self, given: Floats, at: Resolution) -> Floats:
        assert self.residuals is not None
        room = zip(self.residuals.grouping.shape(at), given.shape[1:], strict=True)
        return np.pad(given, [(0, 0), *((0, leaves - codes) for leaves, codes in room)])

    def _check(self, at: Resolution, places: tuple[int, ...], query: Floats) -> None:
        assert self.residuals is not None
        if not self.residuals.answerable(at, query):
            raise QueryError(self._cannot(places))

    def _cannot(self, places: tuple[int, ...]) -> str:
        names = ", ".join(self.domain.axes[place].name for place in places)
        return (
            f"This release was made for {self.queries.text()[:200]}: what was measured for that "
            f"says nothing sure about this question over {names}."
        )

    def _listed_row(self, share: Floats, places: tuple[int, ...]) -> int:
        """Which answer of the list a condition is; ~place for the rows that one leaves."""
        if not set(places) <= set(self.seen):
            raise QueryError(self._cannot(places))
        wide = [self.domain.shape[place] if place in places else 1 for place in self.seen]
        cells = np.broadcast_to(share.reshape(wide), self.asked.shape).reshape(-1)
        asked = np.rint(cells * self.queries.unit)
        for place, row in enumerate(self.queries.rows(self.asked)):
            values = np.asarray(row, dtype=np.float64)
            if np.array_equal(values, asked):
                return place
            if self.rows is not None and np.array_equal(self.queries.unit - values, asked):
                return ~place
        raise QueryError(
            "This release holds the answers of its list and nothing else: ask for one of them "
            "(release.answers() shows all)."
        )

    def _estimated(self, places: tuple[int, ...]) -> tuple[Floats, Floats]:
        if self.residuals is None:
            raise QueryError(
                "This release holds the answers of its list and no tables (release.answers())."
            )
        order = tuple(sorted(places))
        at = self.residuals.grouping.finest(order)
        if not self.residuals.answerable(at):
            raise QueryError(self._cannot(order))
        cut = tuple(slice(0, self.domain.shape[place]) for place in order)
        values = self.residuals.table(at)[cut].transpose([order.index(place) for place in places])
        return values, np.full(values.size, self.residuals.cell_variance(at))

    def _listed(self, queries: QueryClass) -> Iterator[tuple[Floats, Floats]]:
        """Values and variances of a class of the list, in parts."""
        assert self.residuals is not None
        if isinstance(queries, Marginals):
            for width in range(1, queries.width + 1):
                for places in combinations(range(len(self.domain.axes)), width):
                    value, variance = self._estimated(places)
                    yield value.reshape(-1), variance
            return
        if isinstance(queries, Predicates):
            for predicate in queries.predicates:
                node = parse_predicate(predicate, self.domain)
                places = tuple(sorted(columns_of(node)))
                yield self._answers(cover_table(node, self.domain, places).share[None], places)
            return
        if isinstance(queries, Intervals):
            yield from self._ranges(queries)
            return
        places = tuple(range(len(self.domain.axes)))
        rows = iter(queries.rows(self.domain))
        while some := list(islice(rows, -(-CHUNK // self.domain.size))):
            given = np.array(some, dtype=np.float64) / queries.unit
            yield self._answers(given.reshape(-1, *self.domain.shape), places)

    def _ranges(self, queries: Intervals) -> Iterator[tuple[Floats, Floats]]:
        for place in queries.axes(self.domain):
            axis = self.domain.axes[place]
            ends = np.array(
                [(low, high) for low in range(axis.base) for high in range(low, axis.base)]
            )
            step = max(1, CHUNK // axis.cardinality)
            codes = np.arange(axis.cardinality)
            for start in range(0, len(ends), step):
                some = ends[start : start + step]
                inside = (codes >= some[:, :1]) & (codes <= some[:, 1:])
                yield self._answers(inside.astype(np.float64), (place,))

    def _limits(self, value: Floats, variance: Floats, level: float) -> tuple[Floats, Floats]:
        unit = 1 if self.residuals is not None else self.queries.unit
        reach = half_width(variance * unit**2, (1 - level) / 2, self.law) / unit
        reach = np.where(variance > 0, reach, 0.0)  # what is known has no noise
        low, high = integer_rows(value - reach, value + reach)
        return np.clip(low, 0.0, self.max_rows), np.clip(high, 0.0, self.max_rows)

    def _figures(self, value: Floats, variance: Floats, level: float) -> dict[str, Floats]:
        low, high = self._limits(value, variance, level)
        return {
            "count": np.clip(value, low, high),
            "standard_error": np.sqrt(variance),
            "low": low,
            "high": high,
        }

    def sections(self) -> Report:
        count = self.queries.size(self.domain)
        answers = self.answers()
        spread = float(answers["standard_error"].to_numpy().mean())
        return Report(
            lead=(
                "This release answers a list of ",
                Strong(f"{count:,} queries"),
                f" over {listed(self.domain.names)}. The rows themselves are not in it.",
            ),
            tiles=[
                (f"{count:,}", "queries"),
                (f"± {spread:,.3g}", "rows: standard error of an answer, on average"),
            ],
            sections=[
                how_it_was_made(self),
                Section("Answers", _answers(answers)),
                *_charts(self),
                usage(
                    self,
                    "release.answers()            # of the whole list, with limits",
                    "release.covariance(one, other)            # of the errors of two of them",
                ),
            ],
            limits=[
                "Every answer is unbiased before it is kept within its limits, and its standard "
                "error is exact; limits hold for each answer by itself at the stated level.",
                "Questions that the list does not hold are refused, unless they follow from what "
                "was measured for it.",
            ],
        )


def _only(tables: Mapping[str, pl.DataFrame], name: str, schema: dict[str, Any]) -> pl.DataFrame:
    if set(tables) != {name}:
        raise BundleError(f"This release must hold one table, {name}.parquet.")
    frame = tables[name]
    if dict(frame.schema) != schema or any(frame[column].null_count() for column in schema):
        raise BundleError(f"{name}.parquet must have the columns {', '.join(schema)}, no nulls.")
    if not frame.height or int(frame["value"].abs().max()) > MAX_NOISE:  # type: ignore[arg-type]
        raise BundleError(f"{name}.parquet is empty, or holds a number that is not believable.")
    return frame


def _read_columns(facts: Mapping[str, Any], domain: Domain) -> tuple[int, ...]:
    """The columns that answers were measured over; all where none are named."""
    named = facts.get("columns")
    if named is None:
        return tuple(range(len(domain.axes)))
    if not isinstance(named, list) or not named or not set(map(str, named)) <= set(domain.names):
        raise BundleError("facts: 'columns' must name columns of the domain.")
    places = [domain.names.index(str(name)) for name in named]
    if places != sorted(set(places)):
        raise BundleError("facts: 'columns' must have the order of the domain.")
    return tuple(places)


def _variance(facts: Mapping[str, Any], law: str, where: str) -> float:
    scale = float(fraction(facts, "scale", where))
    if not 0 < scale < 1e30:
        raise BundleError(f"{where}: 'scale' must be above 0 and believable.")
    return laplace_variance(scale) if law == "laplace" else scale


def _read_grouping(facts: Mapping[str, Any], domain: Domain) -> Grouping:
    listed = facts.get("coarsenings")
    if not isinstance(listed, list) or len(listed) != len(domain.axes):
        raise BundleError("facts: 'coarsenings' must list one coarsening per column.")
    columns = []
    for one, axis in zip(listed, domain.axes, strict=True):
        if (
            not isinstance(one, list)
            or not 0 < len(one) <= 32
            or not all(
                isinstance(part, int) and not isinstance(part, bool) and 0 < part <= MAX_CELLS
                for part in one
            )
            or not axis.cardinality <= math.prod(one) <= 16 * axis.cardinality + 16
        ):
            raise BundleError(
                f"facts: the coarsening of column '{axis.name[:80]}' does not fit it."
            )
        columns.append(Coarsening(tuple(one)))
    return Grouping(tuple(columns))


def _read_measured(given: Any, grouping: Grouping, law: str) -> Measured:
    where = "facts: measured"
    if not isinstance(given, dict) or given.get("form") not in ("table", "residual"):
        raise BundleError(f"{where}: a table has a form, columns and a scale.")
    form: Form = "table" if given["form"] == "table" else "residual"
    at, last = [], -1
    for level in given["at"] if isinstance(given.get("at"), list) else [None]:
        if (
            not isinstance(level, list)
            or len(level) != 2
            or not all(isinstance(part, int) and not isinstance(part, bool) for part in level)
            or not last < level[0] < len(grouping.columns)
            or not 0 < level[1] <= grouping.columns[level[0]].finest
        ):
            raise BundleError(f"{where}: a resolution does not fit the columns.")
        last = level[0]
        at.append((level[0], level[1]))
    if len(at) > 32 or grouping.cells(tuple(at)) > MAX_CELLS:
        raise BundleError(f"{where}: a table is larger than can be measured.")
    return Measured(form, tuple(at), _variance(given, law, where))


SHOWN = 20


def _answers(answers: pl.DataFrame) -> list[Block]:
    rows = [
        (str(query), f"{count:,.0f}", f"{low:,.0f} to {high:,.0f}")
        for query, count, _, low, high in answers.head(SHOWN).iter_rows()
    ]
    more = answers.height - len(rows)
    said = f"The first {len(rows)} answers; {more:,} more are in the release." if more else ""
    table = Table(("query", "count", "95% limits"), rows, right=(1, 2))
    return [Paragraph(said), table] if said else [table]


def _charts(release: WorkloadRelease) -> list[Section]:
    try:
        charts = column_charts(release.domain, release.marginal)
    except QueryError:  # some column is not in the measured tables by itself
        return []
    return [Section("Counts by column", charts)] if charts else []
