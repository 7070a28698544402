"""What the solvers ask the private side for, and the shape of the answers. Names of vertices, sites
and elements are public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.compiled import njit
from dpublish.methods.base import Statistic
from dpublish.sources.objects import series_from_objects

Labels = tuple[str, ...] | None
"""Public names in the order of their numbers; None when the numbers 0, 1, ... are the names."""

BLANK = r"\s\x1c-\x1f"


def names_of(values: Iterable[object]) -> list[str]:
    """Public names as rows are matched with them: numbers spelled as in rows, a run of blanks as
    one, none around.

    Where a name enters, it goes through here: one that kept its blanks would match no row, and
    nobody would be told.
    """
    held = list(values)
    texts = series_from_objects(held).to_list()
    return [
        " ".join((str(value) if text is None else text).split())
        for value, text in zip(held, texts, strict=True)
    ]


def list_marks(labels: Labels) -> str:
    """What separates names in a text: line ends and tabs, and of blank, comma and semicolon those
    that no name holds.

    Public names alone decide it. A name may hold a blank, and a text cut there would never name it.
    """
    held = "" if labels is None else "".join(labels)
    return "\t\r\n" + "".join(mark for mark in " ,;" if mark not in held)


def cut_pattern(marks: str) -> str:
    """A pattern for one or more of `marks`; a blank among them stands for every kind of blank.

    Python counts four control characters among blanks and polars does not, so they are named.
    """
    return f"[{marks.replace(' ', BLANK)}]+"


@dataclass(frozen=True)
class GraphEdges(Statistic):
    """A statistic: the set of edges between `size` public vertices. Answered by `Edges`."""

    size: int
    labels: Labels = None


@dataclass(frozen=True)
class PresentItems(Statistic):
    """A statistic: how many rows name each of `size` public items (sites, elements). Answered by an
    array of counts.

    `distinct`: count each item at most once, for problems in which an element is there or not.
    """

    size: int
    labels: Labels = None
    distinct: bool = False


@dataclass(frozen=True)
class AgentLists(Statistic):
    """A statistic: for every agent (row) the public resources it names. Answered by `Lists`."""

    size: int
    labels: Labels = None


@dataclass(frozen=True)
class AgentRows(Statistic):
    """A statistic: every agent's row as a mapping, for a valuation that the caller wrote. Answered
    by a list of dicts."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class Edges:
    """Distinct undirected edges without loops, `heads[i] < tails[i]`, sorted. Private."""

    heads: Ints
    tails: Ints

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "Edges(private)"

    def __len__(self) -> int:
        return len(self.heads)


@dataclass(frozen=True)
class Lists:
    """Rows of distinct item numbers: row i holds items[starts[i]:starts[i + 1]]. Private when they
    are agents'."""

    starts: Ints
    items: Ints

    def __repr__(self) -> str:
        return "Lists(private)"

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def owners(self) -> Ints:
        """The row of every item."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))

    def row(self, number: int) -> Ints:
        return self.items[self.starts[number] : self.starts[number + 1]]


def edges_of(pairs: Any) -> Edges:
    """Edges from any array of vertex numbers: loops dropped, each edge once, sorted."""
    array = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
    low, high = array.min(axis=1, initial=np.iinfo(np.int64).max), array.max(axis=1, initial=-1)
    keep = low < high
    low, high = low[keep], high[keep]
    order = np.lexsort((high, low))
    low, high = low[order], high[order]
    fresh = np.ones(len(low), dtype=bool)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return Edges(np.ascontiguousarray(low[fresh]), np.ascontiguousarray(high[fresh]))


def lists_of(rows: Any) -> Lists:
    """Lists from rows of item numbers; an item counts once a row."""
    distinct = [np.unique(np.asarray(list(row), dtype=np.int64)) for row in rows]
    items = np.concatenate([np.empty(0, dtype=np.int64), *distinct])
    return Lists(starts_of([len(row) for row in distinct]), items)


def transposed(lists: Lists, size: int) -> Lists:
    """For each of `size` items, the rows that hold it."""
    order = np.argsort(lists.items, kind="stable")
    return Lists(starts_of(np.bincount(lists.items, minlength=size)), lists.owners[order])


def starts_of(lengths: Any) -> Ints:
    """Where each of several rows starts when they stand one after the other, and where the last
    one ends."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))


# Loops of the greedy covers: what becomes of the counts of all sets when one set has been
# output.

Numbers = NDArray[np.int64] | NDArray[np.float64]


@njit(cache=True, nogil=True)
def lower_gains(
    chosen: int,
    starts: Ints,
    items: Ints,
    holder_starts: Ints,
    holders: Ints,
    wanted: Numbers,
    left: Ints,
    gains: Numbers,
) -> int:
    """Cover the items of `chosen` that are left: what is wanted of them leaves the gain of every
    set that holds them. Returns how many there were."""
    covered = 0
    for place in range(starts[chosen], starts[chosen + 1]):
        item = items[place]
        if left[item]:
            for index in range(holder_starts[item], holder_starts[item + 1]):
                gains[holders[index]] -= wanted[item]
            left[item] = 0
            covered += 1
    return covered
