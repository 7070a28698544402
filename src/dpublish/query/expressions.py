"""Expressions over the cells of a release: a bin is many values, and an expression has a range of
them.

An expression is evaluated by the engine that runs SQL, at points of every bin: its ends, its
middle, every constant of the expression that lies in it, and all values where they are whole
numbers and few. The least and the largest result are the range of a cell. That is right for
expressions that rise or fall along each column between such points; others are not given a range.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.arrays import Floats
from dpublish.declare.calendar import CALENDAR, series_of
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.models.bin_shapes import bin_means
from dpublish.query.aggregates import Chosen, Numbers
from dpublish.query.constants import Tree, bare
from dpublish.query.predicate import parse_sql
from dpublish.query.sql import run_sql
from dpublish.releases.frames import column_values, free_name, other_names

MAX_POINTS = 400_000
MAX_WHOLE = 4_096
_STEADY = (
    *(exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Null, exp.Boolean, exp.Neg),
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Case, exp.If, exp.Cast, exp.DataType, exp.Coalesce),
    *(exp.Round, exp.Floor, exp.Ceil, exp.Abs, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.LT),
    *(exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is, exp.Nullif),
)


class NotSteady(QueryError):
    """An expression whose range within a bin is not known."""


def places_in(tree: Tree, domain: Domain) -> tuple[int, ...]:
    """The columns that an expression names, in the order of the domain; a flag stands for its
    column."""
    flags = {flag.lower(): name for name, flag in other_names(domain.axes).items()}
    lower = {name.lower(): place for place, name in enumerate(domain.names)}
    found = set()
    for column in tree.find_all(exp.Column):
        name = column.name.lower()
        if name not in lower and name in flags:
            name = flags[name].lower()
        if name not in lower:
            raise QueryError(
                f"There is no column '{column.name[:80]}'. Columns: {', '.join(domain.names[:40])}."
            )
        found.add(lower[name])
    return tuple(sorted(found))


def expression_numbers(text: str | Tree, domain: Domain) -> Numbers | None:
    """The range of a numeric expression over cells; None for a condition or a text."""
    tree = parse_sql(text, example="age") if isinstance(text, str) else text
    if tree.find(exp.Select, exp.Subquery, exp.AggFunc):
        raise QueryError("Write an expression over columns, without select and aggregates.")
    places = places_in(tree, domain)
    if not places:
        return None
    found = evaluated(tree, domain, places)
    if not found.values.dtype.is_numeric():
        return None
    values = found.values.cast(pl.Float64).fill_null(math.nan).to_numpy()
    return Numbers(places, *found.ends(values))


def expression_chosen(tree: Tree, domain: Domain) -> Chosen:
    """The cells that a condition selects, however it is written."""
    places = places_in(tree, domain)
    found = evaluated(tree, domain, places)
    if found.values.dtype != pl.Boolean:
        raise QueryError("A WHERE takes a condition.")
    return found.chosen(places, found.values)


def constant_condition(tree: Tree, domain: Domain) -> bool | None:
    """Whether a comparison of constants holds; None of any other, and where it is unknown."""
    if not isinstance(tree, exp.Predicate) or tree.find(exp.Column, exp.Query) is not None:
        return None
    found = evaluated(tree, domain, ()).values
    return found.item() if found.dtype == pl.Boolean else None


def expression_keys(tree: Tree, domain: Domain) -> dict[object, Chosen]:
    """For every value that an expression has, the cells in which it may."""
    places = places_in(tree, domain)
    found = evaluated(tree, domain, places)
    return {
        value: found.chosen(
            places, found.values.is_null() if value is None else found.values == value
        )
        for value in found.values.unique(maintain_order=True).to_list()
    }


class Evaluated:
    """Results at points: `values` by point, `cells` says of which cell each is, `central` which
    stand for their cell."""

    def __init__(
        self,
        values: pl.Series,
        cells: NDArray[np.int64],
        central: NDArray[np.bool_],
        shape: Sequence[int],
    ) -> None:
        self.values, self._cells, self._central, self._shape = values, cells, central, tuple(shape)

    def ends(self, values: Floats) -> tuple[Floats, Floats, Floats]:
        """The least, the largest and the middle result of every cell; NaN where one is null."""
        size = math.prod(self._shape)
        low, high = np.full(size, np.inf), np.full(size, -np.inf)
        with np.errstate(invalid="ignore"):  # a null makes its whole cell one
            np.minimum.at(low, self._cells, values)
            np.maximum.at(high, self._cells, values)
        middle = np.full(size, math.nan)
        middle[self._cells[self._central]] = values[self._central]
        none = np.isnan(low) | np.isnan(high)
        tables = (np.where(none, math.nan, one) for one in (low, high, middle))
        return tuple(one.reshape(self._shape) for one in tables)  # type: ignore[return-value]

    def chosen(self, places: tuple[int, ...], holds: pl.Series) -> Chosen:
        """The cells in which a condition that was worked out at the points holds."""
        low, high, middle = self.ends(holds.fill_null(False).cast(pl.Float64).to_numpy())
        return Chosen(places, low > 0, high > 0, middle)


def evaluated(tree: Tree, domain: Domain, places: tuple[int, ...]) -> Evaluated:
    """An expression at the points of every cell."""
    axes = [domain.axes[place] for place in places]
    constants = sorted(_constants(tree))
    points = [_points(axis, constants) for axis in axes]
    _check_steady(tree, axes, [whole for *_, whole in points])
    counts = [len(series) for series, *_ in points]
    if math.prod(counts) > MAX_POINTS:
        raise NotSteady("The expression has too many values to be worked out bin by bin.")
    # a condition of constants, such as 1 = 1, has a single cell of no column
    grids = np.unravel_index(np.arange(math.prod(counts)), counts) if counts else ()
    frame, codes, central = [], [], np.ones(math.prod(counts), dtype=np.bool_)
    flags = other_names(domain.axes)
    for axis, (series, code, middle, _), grid in zip(axes, points, grids, strict=True):
        frame.append(series.gather(pl.Series(grid.astype(np.uint32))).alias(axis.name))
        if axis.name in flags:
            frame.append(pl.Series(flags[axis.name], code[grid] == axis.other_code))
        codes.append(code[grid])
        central &= middle[grid]
    shape = tuple(axis.cardinality for axis in axes)
    taken = (*domain.names, *flags.values())
    name, place = free_name("value", taken), free_name("row_place", taken)
    frame.append(pl.Series(place, np.arange(len(central))))
    weight = pl.Series(free_name("weight", taken), np.ones(len(central)))
    columns = (*(axis.name for axis in axes), place)
    text = f'select ({tree.sql(dialect="postgres")}) as "{name}", "{place}" from release'
    result = run_sql(text, pl.DataFrame([*frame, weight]), columns, tuple(axes)).sort(place)
    cells = np.ravel_multi_index(codes, shape) if shape else np.zeros(1, dtype=np.int64)
    return Evaluated(result.get_column(name), cells, central, shape)


def _points(
    axis: Axis, constants: Sequence[float]
) -> tuple[pl.Series, NDArray[np.int64], NDArray[np.bool_], bool]:
    """Points of a column, the code of each, which of them stand for their code, and whether they
    are all the values there are."""
    every = np.arange(axis.cardinality, dtype=np.int64)
    if not axis.numeric or axis.exact_values:
        return column_values(axis, every), every, np.ones(len(every), dtype=np.bool_), True
    edges = np.array(axis.edges, dtype=np.float64)
    real = axis.kind == "real"
    whole = not real and edges[-1] - edges[0] <= MAX_WHOLE
    values, codes, central = [], [], []
    for code, mean in enumerate(bin_means(axis).tolist()):
        low, high = edges[code], edges[code + 1] if real else edges[code + 1] - 1
        middle = mean if real else math.floor(mean)
        if whole:
            some = set(np.arange(low, high + 1).tolist())
        else:
            near = [step for c in constants for step in _beside(c, real) if low <= step <= high]
            some = {float(low), float(high), *near, *([0.0] if low < 0 < high else [])}
        some.discard(middle)
        values += [middle, *sorted(some)]
        codes += [code] * (len(some) + 1)
        central += [True] + [False] * len(some)
    extra = axis.cardinality - axis.base
    numbers = pl.Series(values, dtype=pl.Float64)
    if axis.kind == "integer":
        numbers = numbers.cast(pl.Int64)
    elif axis.kind in CALENDAR:
        numbers = series_of(axis.kind, np.floor(numbers.to_numpy()).astype(np.int64))
    series = numbers.extend(pl.Series([None] * extra, dtype=numbers.dtype)) if extra else numbers
    return (
        series,
        np.array([*codes, *range(axis.base, axis.cardinality)], dtype=np.int64),
        np.array([*central, *[True] * extra]),
        whole,
    )


def _beside(constant: float, real: bool) -> tuple[float, float, float]:
    if real:
        return math.nextafter(constant, -math.inf), constant, math.nextafter(constant, math.inf)
    return math.ceil(constant) - 1.0, float(round(constant)), math.floor(constant) + 1.0


def _constants(tree: Tree) -> set[float]:
    found = {0.0}
    for literal in tree.find_all(exp.Literal):
        try:
            value = float(str(literal.this))
        except ValueError:
            continue
        found |= {value, -value}
    return found


def _check_steady(tree: Tree, axes: Sequence[Axis], whole: Sequence[bool]) -> None:
    """Raise unless the points tell the range of the expression in every bin."""
    loose = {axis.name.lower() for axis, known in zip(axes, whole, strict=True) if not known}
    if not loose:
        return
    for node in tree.walk():
        if type(node) not in _STEADY and any(
            column.name.lower() in loose for column in node.find_all(exp.Column)
        ):
            raise NotSteady(f"How '{node.key}' varies within a bin is not worked out.")
    for branch in _branches(bare(tree)):
        named = [
            column.name.lower()
            for column in branch.find_all(exp.Column)
            if column.name.lower() in loose and not column.find_ancestor(*_CONDITIONS)
        ]
        if len(named) != len(set(named)):
            raise NotSteady("An expression that names a binned column twice is not worked out.")
    for node in tree.find_all(exp.Div):
        if any(column.name.lower() in loose for column in node.expression.find_all(exp.Column)):
            raise NotSteady("Division by a binned column is not worked out.")


def _branches(tree: Tree) -> list[Tree]:
    """What a CASE may give; the expression itself where it is none."""
    if not isinstance(tree, exp.Case):
        return [tree]
    branches = tree.args.get("ifs") or ()
    parts = [*(branch.args["true"] for branch in branches), tree.args.get("default")]
    return [part for part in parts if part is not None]


_CONDITIONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is)
