"""Query classes: sets of counting queries over a domain, as objects that a method can be asked to
answer all at once.

    dp.Marginals(2)                                every cell of every table of at most two columns
    dp.Parities(3), dp.Intervals("age"), dp.HalfspaceQueries(count=50)
    dp.Predicates(["age >= 40", "age < 30 and sex = 'F'"])
    dp.LinearQueries([[0, 0.5, 1], [1, 0, 0]])     values in [0, 1], one column per cell
    dp.RandomSubsets(100_000)                      so many random sets of cells, always the same
    dp.MixedQueries([dp.Marginals(2), "intervals:age"])     several of these in one list

A class knows nothing of any data. `table(domain)` gives the values of its queries on the cells as
whole numbers from 0 to `unit`, which stand for 0 to 1, so that everything downstream is exact. It
is filled row by row, one or two bytes per value.
"""

from __future__ import annotations

import abc
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.errors import PlanError, QueryError, did_you_mean

Table = NDArray[np.uint8] | NDArray[np.uint16]
MAX_BYTES = 1 << 28
LINEAR_UNIT = 1000


class QueryClass(abc.ABC):
    """A finite class of queries with values in [0, 1]."""

    unit: int = 1

    @abc.abstractmethod
    def size(self, domain: Domain) -> int:
        """How many queries the class has over this domain; cheap, so that a plan can refuse."""

    @abc.abstractmethod
    def rows(self, domain: Domain) -> Iterator[Any]:
        """The queries one by one, as arrays over the cells."""

    @abc.abstractmethod
    def text(self) -> str:
        """The class as text that `query_class` reads."""

    def labels(self, domain: Domain) -> Iterator[str]:
        """What each query asks, in the order of `rows`, for people to read."""
        return (f"query {place:,}" for place in range(self.size(domain)))

    def table(self, domain: Domain) -> Table:
        """All queries: one row per query, one column per cell."""
        size = self.size(domain)
        if size < 1:
            raise PlanError(
                f"The class '{self.text()}' has no query over {', '.join(domain.names)}."
            )
        kind = np.uint8 if self.unit < 1 << 8 else np.uint16
        if size * domain.size * np.dtype(kind).itemsize > MAX_BYTES:
            most = MAX_BYTES // np.dtype(kind).itemsize
            raise PlanError(
                f"{size:,} queries over {domain.size:,} cells do not fit into memory (at most "
                f"{most:,} values). "
                "Choose fewer columns, fewer bins or a smaller class."
            )
        table = np.empty((size, domain.size), dtype=kind)
        for place, row in enumerate(self.rows(domain)):
            table[place] = row
        return table

    def describe(self, domain: Domain) -> str:
        return f"{self.size(domain):,} queries ({self.text()})"


def _codes(domain: Domain) -> Ints:
    """Codes of every cell, one row per column."""
    return np.stack([code.reshape(-1) for code in np.indices(domain.shape)]).astype(np.int64)


@dataclass(frozen=True)
class Marginals(QueryClass):
    """Conjunctions of exactly one level in each of at most `width` columns: all cells of all small
    tables.

    >>> Marginals(2).text()
    'marginals:2'
    """

    width: int = 2

    def size(self, domain: Domain) -> int:
        subsets = (
            s for w in range(1, self.width + 1) for s in itertools.combinations(domain.shape, w)
        )
        return sum(math.prod(subset) for subset in subsets)

    def rows(self, domain: Domain) -> Iterator[Any]:
        codes = _codes(domain)
        for cell in self._cells(domain):
            yield sum(codes[axis] == level for axis, level in cell) == len(cell)

    def labels(self, domain: Domain) -> Iterator[str]:
        for cell in self._cells(domain):
            yield " and ".join(
                f"{domain.axes[axis].name} = {domain.axes[axis].label(level)}"
                for axis, level in cell
            )

    def _cells(self, domain: Domain) -> Iterator[tuple[tuple[int, int], ...]]:
        """Columns with a level of each."""
        for width in range(1, self.width + 1):
            for axes in itertools.combinations(range(len(domain.axes)), width):
                for levels in itertools.product(*(range(domain.shape[axis]) for axis in axes)):
                    yield tuple(zip(axes, levels, strict=True))

    def text(self) -> str:
        return f"marginals:{self.width}"


@dataclass(frozen=True)
class Parities(QueryClass):
    """Parities of up to `width` two-level columns (definition 15).

    >>> Parities(2).text()
    'parities:2'
    """

    width: int = 2

    def _axes(self, domain: Domain) -> list[int]:
        return [axis for axis, size in enumerate(domain.shape) if size == 2]

    def size(self, domain: Domain) -> int:
        return sum(math.comb(len(self._axes(domain)), width) for width in range(1, self.width + 1))

    def rows(self, domain: Domain) -> Iterator[Any]:
        codes = _codes(domain)
        for axes in self.subsets(domain):
            yield codes[list(axes)].sum(axis=0) % 2 == 0

    def labels(self, domain: Domain) -> Iterator[str]:
        for axes in self.subsets(domain):
            seconds = (f"{domain.axes[axis].name} = {domain.axes[axis].label(1)}" for axis in axes)
            yield f"an even number of: {', '.join(seconds)}"

    def subsets(self, domain: Domain) -> Iterator[tuple[int, ...]]:
        """The columns of each parity, by their places."""
        for width in range(1, self.width + 1):
            yield from itertools.combinations(self._axes(domain), width)

    def text(self) -> str:
        return f"parities:{self.width}"


@dataclass(frozen=True)
class Intervals(QueryClass):
    """All intervals of codes of one ordered column, or of each when none is named.

    >>> Intervals("age").text()
    'intervals:age'
    """

    column: str | None = None

    def axes(self, domain: Domain) -> list[int]:
        """The columns whose intervals are asked for, by their places."""
        if self.column is None:
            return [index for index, axis in enumerate(domain.axes) if axis.ordered]
        axis = domain.axis(self.column)
        if not axis.ordered:
            raise PlanError(
                f"Column '{self.column}' is {axis.kind}; intervals need an ordered column."
            )
        return [domain.axes.index(axis)]

    def size(self, domain: Domain) -> int:
        return sum(
            domain.axes[axis].base * (domain.axes[axis].base + 1) // 2 for axis in self.axes(domain)
        )

    def rows(self, domain: Domain) -> Iterator[Any]:
        codes = _codes(domain)
        for axis, low, high in self._ranges(domain):
            yield (codes[axis] >= low) & (codes[axis] <= high)

    def labels(self, domain: Domain) -> Iterator[str]:
        for place, low, high in self._ranges(domain):
            axis = domain.axes[place]
            yield f"{axis.name} = {axis.label(low)}" + (
                f" to {axis.label(high)}" if high > low else ""
            )

    def _ranges(self, domain: Domain) -> Iterator[tuple[int, int, int]]:
        """A column, and the first and last code of an interval."""
        for axis in self.axes(domain):
            for low, high in itertools.combinations_with_replacement(
                range(domain.axes[axis].base), 2
            ):
                yield axis, low, high

    def text(self) -> str:
        return "intervals" if self.column is None else f"intervals:{self.column}"


@dataclass(frozen=True)
class HalfspaceQueries(QueryClass):
    """`count` halfspaces over the codes of ordered columns, scaled to [-1, 1], in directions spread
    evenly.

    >>> HalfspaceQueries(10).text()
    'halfspaces:10'
    """

    count: int = 50

    def size(self, domain: Domain) -> int:
        return self.count if any(axis.ordered for axis in domain.axes) else 0

    def rows(self, domain: Domain) -> Iterator[Any]:
        from dpublish.models.hierarchical_counts import spread_points

        axes = [index for index, axis in enumerate(domain.axes) if axis.ordered]
        codes = _codes(domain)[axes].astype(np.float64)
        scaled = 2 * codes / np.maximum(codes.max(axis=1, keepdims=True), 1) - 1
        for point in spread_points(self.count, len(axes) + 1):
            yield (2 * point[:-1] - 1) @ scaled >= point[-1] - 0.5

    def text(self) -> str:
        return f"halfspaces:{self.count}"


def refused(text: str, error: QueryError) -> PlanError:
    """What is wrong with a condition of a list."""
    said = f"Predicate '{text[:80]}': {error}"
    if "computes something" in said and set("+*") & set(text):
        said += " Conditions on sums of columns are answered by the method halfspaces."
    return PlanError(said)


@dataclass(frozen=True)
class Predicates(QueryClass):
    """Counting queries in the language of `estimate`. A bin that a predicate cuts counts in
    proportion.

    >>> Predicates(["age < 30", "ill = true"]).text()
    'predicates:age < 30;ill = true'
    """

    predicates: tuple[str, ...]
    unit = LINEAR_UNIT

    def __init__(self, predicates: Sequence[str]) -> None:
        if (
            isinstance(predicates, str)
            or not predicates
            or not all(isinstance(text, str) for text in predicates)
        ):
            raise PlanError('Give a list of predicates, such as ["age >= 40"].')
        for text in predicates:
            # a list is kept as one text, so each predicate must be found in it again
            if (
                _pieces(text) != [text.strip()]
                or set("'\"") & set(_QUOTED.sub("", text))
                or _NEXT.match(text)
            ):
                raise PlanError(
                    f"Predicate '{text[:80]}': write one condition, with every quote closed and "
                    "with ';' only inside quotes."
                )
        object.__setattr__(self, "predicates", tuple(text.strip() for text in predicates))

    def size(self, domain: Domain) -> int:
        return len(self.predicates)

    def rows(self, domain: Domain) -> Iterator[Any]:
        from dpublish.query.masks import select
        from dpublish.query.predicate import parse_predicate

        codes = _codes(domain)
        for text in self.predicates:
            try:
                selection = select(parse_predicate(text, domain), domain)
            except QueryError as error:
                raise refused(text, error) from None
            share = selection.cover(lambda axis: codes[axis], domain.size).share
            yield np.rint(share * self.unit)

    def labels(self, domain: Domain) -> Iterator[str]:
        return iter(self.predicates)

    def text(self) -> str:
        return "predicates:" + ";".join(self.predicates)


_QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")
_PIECE = re.compile(rf"""(?:[^;'"]|{_QUOTED.pattern}|['"].*)+""", re.DOTALL)


def _pieces(text: str) -> list[str]:
    """What stands between semicolons, but for those inside quotes; a quote that is not closed
    takes all that follows."""
    return [piece.strip() for piece in _PIECE.findall(text) if piece.strip()]


@dataclass(frozen=True)
class LinearQueries(QueryClass):
    """An explicit table of values in [0, 1], rounded to thousandths.

    >>> LinearQueries([[0, 0.5, 1]]).text()
    'linear:0,0.5,1'
    """

    values: tuple[tuple[float, ...], ...]
    unit = LINEAR_UNIT

    def __init__(self, values: Sequence[Sequence[float]]) -> None:
        listed = tuple(tuple(float(value) for value in row) for row in values)
        if not listed or len({len(row) for row in listed}) != 1:
            raise PlanError(
                "Linear queries are a table: one row per query, all of the same length."
            )
        if not all(0 <= value <= 1 for row in listed for value in row):
            raise PlanError("Linear queries have values from 0 to 1.")
        object.__setattr__(self, "values", listed)

    def size(self, domain: Domain) -> int:
        if len(self.values[0]) != domain.size:
            raise PlanError(
                f"The queries have {len(self.values[0])} values each, but the domain has "
                f"{domain.size} cells."
            )
        return len(self.values)

    def rows(self, domain: Domain) -> Iterator[Any]:
        for row in self.values:
            yield np.rint(np.array(row) * self.unit)

    def text(self) -> str:
        return "linear:" + ";".join(",".join(f"{value:g}" for value in row) for row in self.values)


@dataclass(frozen=True)
class RandomSubsets(QueryClass):
    """`count` sets of cells, each cell in or out by a fair coin of a public stream: a class that no
    structure helps with.

    >>> RandomSubsets(10).text()
    'random:10:1'
    """

    count: int = 1000
    seed: int = 1

    def size(self, domain: Domain) -> int:
        return self.count

    def rows(self, domain: Domain) -> Iterator[Any]:
        import hashlib

        # a hash and not a generator: the sets are named by the release, so every version must draw
        # the same ones
        for place in range(self.count):
            drawn = hashlib.shake_128(f"{self.seed}:{place}".encode()).digest(
                (domain.size + 7) // 8
            )
            yield np.unpackbits(np.frombuffer(drawn, dtype=np.uint8))[: domain.size]

    def text(self) -> str:
        return f"random:{self.count}:{self.seed}"


@dataclass(frozen=True)
class MixedQueries(QueryClass):
    """Several classes in one list, one after the other. Values are in the finest of their units.

    >>> MixedQueries(["marginals:2", "intervals:age"]).text()
    'marginals:2;intervals:age'
    """

    members: tuple[QueryClass, ...]

    def __init__(self, members: Sequence[QueryClass | str]) -> None:
        if isinstance(members, str) or not members:
            raise PlanError('Give a list of query classes, such as ["marginals:2", "intervals"].')
        listed: list[QueryClass] = []
        for one in map(query_class, members):
            listed += one.members if isinstance(one, MixedQueries) else [one]
        object.__setattr__(self, "members", tuple(listed))
        object.__setattr__(self, "unit", math.lcm(*(one.unit for one in listed)))

    def size(self, domain: Domain) -> int:
        return sum(one.size(domain) for one in self.members)

    def rows(self, domain: Domain) -> Iterator[Any]:
        for one in self.members:
            times = self.unit // one.unit
            for row in one.rows(domain):
                yield np.asarray(row).astype(np.int64) * times

    def labels(self, domain: Domain) -> Iterator[str]:
        return itertools.chain.from_iterable(one.labels(domain) for one in self.members)

    def text(self) -> str:
        said = (one.text() for one in self.members)
        return ";".join(text if ":" in text else f"{text}:" for text in said)


def members_of(queries: QueryClass) -> tuple[QueryClass, ...]:
    """The classes that a list consists of."""
    return queries.members if isinstance(queries, MixedQueries) else (queries,)


NAMES = ("marginals", "parities", "intervals", "halfspaces", "predicates", "linear", "random")
_NEXT = re.compile(rf"\s*(?:{'|'.join(NAMES)}):")


def _classes(text: str) -> list[str]:
    """The classes of a list: a semicolon outside quotes ends one where the name of another and a
    colon follow."""
    found: list[str] = []
    for piece in _PIECE.findall(text):
        if found and not _NEXT.match(piece):
            found[-1] += ";" + piece
        else:
            found.append(piece)
    return found


def query_class(given: QueryClass | str) -> QueryClass:
    """A class from its text: "marginals:2", "parities:3", "intervals:age", "halfspaces:50",
    "predicates:a > 1;b = 2"; or several: "marginals:2;intervals:age;predicates:a > 1"."""
    if isinstance(given, QueryClass):
        return given
    if len(several := _classes(str(given))) > 1:
        return MixedQueries([one.strip() for one in several])
    kind, _, rest = str(given).partition(":")
    if kind == "predicates":
        return Predicates(_pieces(rest))
    if kind == "intervals":
        return Intervals(rest or None)
    if kind == "linear":
        try:
            return LinearQueries(
                [[float(value) for value in row.split(",")] for row in rest.split(";")]
            )
        except ValueError:
            raise PlanError(
                "linear: values are numbers separated by commas, queries by semicolons."
            ) from None
    if kind == "random":
        count, _, seed = rest.partition(":")
        if (
            not (count or "1000").isdecimal()
            or not (seed or "1").isdecimal()
            or not 1 <= int(count or 1000) <= MAX_BYTES
        ):
            raise PlanError(
                "random: give a number of queries, and perhaps a seed, as in random:1000:7."
            )
        return RandomSubsets(int(count or 1000), int(seed or 1))
    if kind in NAMES:
        try:
            number = int(rest) if rest else {"marginals": 2, "parities": 2, "halfspaces": 50}[kind]
        except ValueError:
            why = f"{kind}: '{rest[:40]}' is not a whole number."
            if ";" in rest:
                why += (
                    " The next class of a list begins with its name and a colon, as in "
                    "marginals:2;predicates:age > 40."
                )
            raise PlanError(why) from None
        if number < 1:
            raise PlanError(f"{kind}: {number} must be at least 1.")
        if kind == "halfspaces":
            return HalfspaceQueries(number)
        return Marginals(number) if kind == "marginals" else Parities(number)
    raise PlanError(
        f"There is no query class '{kind[:40]}'.{did_you_mean(kind, NAMES)} Classes: "
        f"{', '.join(NAMES)}."
    )
