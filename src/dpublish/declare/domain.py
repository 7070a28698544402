"""The finite product domain that a release counts over: one axis per column, each with a public
list of codes.

Both sides of the wall use it: the private side encodes rows into cells of a domain, the public side
decodes cells into labels. It holds public facts only and is written into every manifest.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, cast

from dpublish.declare.calendar import (
    CALENDAR,
    DAY,
    Moment,
    fine_seconds,
    moment_of,
    number_of,
    spelled,
)
from dpublish.declare.columns import MISSING, OTHER, WORDING, Bound, Column, Kind, Wording
from dpublish.errors import SchemaError, did_you_mean

if TYPE_CHECKING:
    from dpublish.declare.rules import Rule

MAX_CELLS = 1 << 63


def lei_bins(rows: int, dimensions: int) -> int:
    """Lei's number of bins a numeric column for `rows` rows in `dimensions` columns: ceil(1 / bw(n,
    d-1) - 1/2)."""
    if rows < 3:
        return 1
    bandwidth = float((math.log(rows) / rows) ** (1.0 / max(dimensions, 1)))
    return max(1, math.ceil(1.0 / bandwidth - 0.5))


@dataclass(frozen=True)
class Axis:
    """One column with its codes: 0..base-1 for declared values or bins, then '(other)', then
    '(missing)', where declared.

    Numeric bins are [edge_i, edge_{i+1}); edges of integers, dates and times are whole numbers
    (`declare/calendar.py` has those of days and seconds) with the last edge one past the largest
    value; the last bin of a real column includes its upper edge.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    edges: tuple[float, ...] | tuple[int, ...] = ()
    other: bool = False
    missing: bool = False
    outside: str = "clip"
    wording: Wording = field(default_factory=Wording, compare=False, repr=False)
    tilts: tuple[float, ...] = field(default=(), compare=False, repr=False)
    """How rows lie inside each bin, where a release has a guess (`models.bin_shapes`); evenly,
    where it has none."""

    @property
    def numeric(self) -> bool:
        return bool(self.edges)

    @property
    def ordered(self) -> bool:
        return self.numeric or self.kind == "ordinal"

    @property
    def base(self) -> int:
        """How many codes stand for declared values."""
        return len(self.edges) - 1 if self.edges else len(self.levels)

    @property
    def cardinality(self) -> int:
        return self.base + int(self.other) + int(self.missing)

    @property
    def other_code(self) -> int | None:
        return self.base if self.other else None

    @property
    def missing_code(self) -> int | None:
        return self.base + int(self.other) if self.missing else None

    @property
    def exact_values(self) -> bool:
        """True when every base code stands for one value, so that a code can be shown as that
        value."""
        return not self.numeric or (
            self.kind != "real" and all(b - a == 1 for a, b in itertools.pairwise(self.edges))
        )

    def label(self, code: int) -> str:
        """What a person reads for a code."""
        if code == self.other_code:
            return OTHER
        if code == self.missing_code:
            return MISSING
        if not self.numeric:
            return self.levels[code]
        low, high = self.edges[code], self.edges[code + 1]
        if self.kind == "real":
            if math.nextafter(low, math.inf) >= high:
                return f"{low:g}"
            # a round number with a bin of its own, or at the end of this one, is told by its length
            first, last = (math.nextafter(one, -math.inf) for one in (low, high))
            after, upto = len(repr(first)) < len(repr(low)), len(repr(last)) < len(repr(high))
            start = f"({first:g}" if after else f"[{low:g}"
            if code == self.base - 1:
                return f"{start}, {high:g}]"
            return f"{start}, {last:g}]" if upto else f"{start}, {high:g})"
        return (
            self._whole_label(int(low))
            if high - low == 1
            else f"{self._whole_label(int(low))}..{self._whole_label(int(high) - 1)}"
        )

    def _whole_label(self, value: int) -> str:
        return spelled(self.kind, value) if self.kind in CALENDAR else str(value)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return tuple(self.label(code) for code in range(self.cardinality))

    def midpoint(self, code: int) -> float:
        """The middle of a numeric bin (dates and times: the number)."""
        low, high = self.edges[code], self.edges[code + 1]
        return (low + high) / 2 if self.kind == "real" else (low + high - 1) / 2

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "outside": self.outside,
            **({"edges": list(self.edges)} if self.numeric else {"levels": list(self.levels)}),
            "other": self.other,
            "missing": self.missing,
            **self.wording.to_dict(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Axis:
        return cls(
            name=str(data["name"]),
            kind=cast(Kind, data["kind"]),
            levels=tuple(str(level) for level in data.get("levels", ())),
            edges=tuple(data.get("edges", ())),
            other=bool(data["other"]),
            missing=bool(data["missing"]),
            outside=str(data["outside"]),
            wording=Wording(**{key: data[key] for key in WORDING if key in data}),
        )


@dataclass(frozen=True)
class Domain:
    """The product of axes. Cells are numbered in mixed radix, the first axis most significant.

    >>> ill = Axis(name="ill", kind="boolean", levels=("false", "true"), outside="refuse")
    >>> Domain((ill,)).size
    2
    """

    axes: tuple[Axis, ...]
    rules: tuple[Rule, ...] = ()
    """What the rows obey that are counted here; not written into manifests with the axes."""

    @cached_property
    def size(self) -> int:
        return math.prod(axis.cardinality for axis in self.axes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.cardinality for axis in self.axes)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """How far apart two cells are that differ by one in an axis."""
        steps = itertools.accumulate(self.shape[:0:-1], operator.mul, initial=1)
        return tuple(steps)[::-1][: len(self.axes)]

    def axis(self, name: str) -> Axis:
        if name in self.names:
            return self.axes[self.names.index(name)]
        raise SchemaError(
            f"No column '{name}' here.{did_you_mean(name, self.names)} Columns: "
            f"{', '.join(self.names)}."
        )

    def to_json(self) -> list[dict[str, Any]]:
        return [axis.to_json() for axis in self.axes]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]]) -> Domain:
        return cls(tuple(Axis.from_json(item) for item in data))


def resolve_axis(column: Column, *, schema_name: str, default_bins: int | None) -> Axis:
    """Turn a declared column into an axis; `default_bins` is used for numeric columns that declare
    no bins of their own."""
    if column.discover:
        raise SchemaError(
            f"Column '{column.name}' of schema '{schema_name}' says discover = true: "
            f"{'bounds' if column.numeric else 'levels'} are still to be found. 'dpublish schema "
            "discover' writes a schema that has them."
        )
    return Axis(
        name=column.name,
        kind=column.kind,
        levels=column.levels,
        edges=_edges(column, schema_name, default_bins) if column.numeric else (),
        other=column.outside == "other",
        missing=column.missing,
        outside=column.outside,
        wording=column.wording,
    )


_MAX_EDGES = 1 << 22


def _edges(
    column: Column, schema_name: str, default_bins: int | None
) -> tuple[float, ...] | tuple[int, ...]:
    if column.edges is not None:
        if column.kind == "real":
            return tuple(float(cast(float, edge)) for edge in column.edges)
        whole = [whole_bound(edge) for edge in column.edges]
        whole[-1] += 1  # the last declared edge is the largest value, and belongs to the last bin
        return tuple(whole)
    lower, upper = column.require_bounds(schema_name)
    if column.kind == "real":
        low, high = Fraction(cast(float, lower)), Fraction(cast(float, upper))
        if column.precision is not None:
            # decimal reading of the bounds, so that 0.1 steps from 0 to 1 make 10 bins and not 11
            low, high = Fraction(repr(lower)), Fraction(repr(upper))
            bins = math.ceil((high - low) / column.precision)
            _check_bins(column, bins)
            return tuple(float(min(low + i * column.precision, high)) for i in range(bins + 1))
        bins = column.bins or default_bins or 1
        _check_bins(column, bins)
        if column.spacing == "log":
            ratio = float(high) / float(low)
            inner = (float(low) * ratio ** (i / bins) for i in range(1, bins))
            edges = (float(low), *inner, float(high))
        else:
            edges = tuple(float(low + (high - low) * i / bins) for i in range(bins + 1))
        if any(a >= b for a, b in itertools.pairwise(edges)):
            raise SchemaError(
                f"Column '{column.name}': {bins} bins are finer than the numbers between its "
                f"bounds."
            )
        return edges
    first, last = whole_bound(lower), whole_bound(upper)
    span = last - first + 1
    bins = min(span, column.bins or default_bins or span)
    _check_bins(column, bins)
    if column.spacing == "log":  # small numbers may be nearer to each other than bins: each once
        ends = {math.ceil(first * ((last + 1) / first) ** (i / bins)) for i in range(1, bins)}
        return (first, *sorted(ends - {first, last + 1}), last + 1)
    return tuple(first + (i * span) // bins for i in range(bins + 1))


FINE_DIGITS = 3
FINE_DECADES = 9
"""Values are told apart by three significant digits, down to a billionth of the column's range."""
FINE_EVEN, FINE_DATES = 400, 4096


def fine_edges(column: Column, *, schema_name: str) -> tuple[float, ...] | tuple[int, ...]:
    """Edges of fine cells of a numeric column, from which bins can be made: numbers of up to three
    significant digits stand alone, since rows heap there, and so do both bounds, where what lies
    beyond is put, and what is between two such numbers.
    Near 0 cells are narrower, as the numbers of incomes, times and sizes are. Dates are even runs
    of days, times of day and timestamps round parts of hours and days."""
    lower, upper = column.require_bounds(schema_name)
    if column.kind == "real":
        return _fine_reals(cast(float, lower), cast(float, upper))
    if column.kind in ("time", "timestamp"):
        return fine_seconds(whole_bound(lower), whole_bound(upper), FINE_DATES)
    return _fine_integers(whole_bound(lower), whole_bound(upper), column.kind == "integer")


def _round_numbers(lower: Fraction, upper: Fraction, least: int) -> tuple[list[int], int]:
    """Numbers between two bounds that a person would write: of up to three significant digits, and
    some hundreds in even steps. In units of 10^least, which is the second number, or 1 over it."""
    unit = Fraction(10) ** least
    low, high = math.ceil(lower / unit), math.floor(upper / unit)
    digits = 10**FINE_DIGITS
    found, step = set(range(-digits, digits + 1)), 1
    while step * digits <= max(abs(low), abs(high)):
        step *= 10
        sizes = range(step * digits // 10, step * digits + 1, step)
        found |= {*sizes, *(-size for size in sizes)}
    even = max(1, 10 ** (len(str((high - low) // FINE_EVEN)) - 1))
    found.update(range(-(-low // even) * even, high + 1, even))
    return sorted(one for one in found if low <= one <= high), 10 ** abs(least)


@lru_cache(maxsize=256)
def _fine_reals(lower: float, upper: float) -> tuple[float, ...]:
    least = math.floor(math.log10(upper - lower)) - FINE_DECADES
    numbers, unit = _round_numbers(Fraction(lower), Fraction(upper), least)
    inner = [float(one * unit) if least > 0 else one / unit for one in numbers]
    alone = {lower, upper, *(one for one in inner if lower < one < upper)}
    edges = alone | {math.nextafter(one, math.inf) for one in alone}
    return tuple(sorted(edge for edge in edges if edge < math.inf))


@lru_cache(maxsize=256)
def _fine_integers(first: int, last: int, heaps: bool) -> tuple[int, ...]:
    span = last - first + 1
    if not heaps:
        cells = min(span, FINE_DATES)
        return tuple(first + i * span // cells for i in range(cells + 1))
    inner, _ = _round_numbers(Fraction(first), Fraction(last), 0)
    alone = {first, last, *(one for one in inner if first < one < last)}
    return tuple(sorted(alone | {one + 1 for one in alone}))


_DECADES = {"integer": range(18), "real": range(-6, 16)}
_YEARS = range(1850, 2151)


def public_grid(column: Column) -> tuple[float, ...] | tuple[int, ...]:
    """Round numbers (1, 2 and 5 times powers of ten, either sign) or first days of years, inside
    declared bounds where there are some."""
    points: set[Any]
    if column.kind in CALENDAR:
        day = 1 if column.kind == "date" else DAY
        points = {dt.date(year, 1, 1).toordinal() * day for year in _YEARS}
    else:
        whole = column.kind == "integer"
        sizes: set[Any] = {
            digit * 10**k if whole else float(f"{digit}e{k}")
            for k in _DECADES[column.kind]
            for digit in (1, 2, 5)
        }
        points = {0 if whole else 0.0, *sizes, *(-size for size in sizes)}
    low, high = (
        number_of(bound) if isinstance(bound, Moment) else bound
        for bound in (column.lower, column.upper)
    )
    last = None if high is None else high + 1 if column.kind != "real" else high
    inner = {p for p in points if (low is None or p > low) and (last is None or p < last)}
    ends = {end for end in (low, last) if end is not None}
    grid = tuple(sorted(inner | ends))
    if len(grid) < 2:
        raise SchemaError(f"Column '{column.name}': there is nothing to find between its bounds.")
    return cast(tuple[float, ...], grid)


def edge_bound(column: Column, edge: float, *, last: bool = False) -> Bound:
    """An edge of a public grid as a bound; the last one of a column of dates is the day before
    it, of timestamps the second before it."""
    if column.kind in CALENDAR:
        return moment_of(column.kind, int(edge) - int(last))
    if column.kind == "real":
        return float(edge)
    beyond = last and column.upper is not None and int(edge) > int(cast(int, column.upper))
    return int(edge) - int(beyond)


def _check_bins(column: Column, bins: int) -> None:
    if bins > _MAX_EDGES:
        raise SchemaError(
            f"Column '{column.name}' would have {bins} bins; at most {_MAX_EDGES} are supported. "
            "Use fewer bins or a coarser precision."
        )


def whole_bound(bound: Bound) -> int:
    """A bound of whole numbers, days or seconds as a number."""
    return number_of(bound) if isinstance(bound, Moment) else int(bound)
