"""What an online session shows: its answers and its status. All public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.curator.sessions.files import canonical
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.estimate import Estimate
from dpublish.methods.online.state import Query

if TYPE_CHECKING:
    from dpublish.query.masks import Selection


@dataclass(frozen=True, kw_only=True)
class OnlineAnswer:
    """One answer of a session. `estimate` is in rows; `label` says whether the data was asked
    ("hard") or not ("easy")."""

    number: int
    key: str
    query: str
    label: str
    estimate: Estimate
    hard_left: int

    def __str__(self) -> str:
        return f"{self.estimate} [{self.label}; {self.hard_left} hard answers left]"

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "key": self.key,
            "query": self.query,
            "label": self.label,
            "estimate": self.estimate.to_json(),
            "hard_left": self.hard_left,
        }

    def to_bytes(self) -> bytes:
        """The answer as it is handed out: the same bytes whenever the same key is asked again."""
        return canonical(self.to_json())


@dataclass(frozen=True, kw_only=True)
class SessionStatus:
    dataset: str
    method: str
    cost: str
    asked: int
    hard: int
    hard_left: int
    state: str
    publishable: bool

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


def answer_of(entry: Mapping[str, Any]) -> OnlineAnswer:
    """The answer that a line of the transcript holds."""
    return OnlineAnswer(
        number=entry["number"],
        key=entry["key"],
        query=entry["query"],
        label=entry["label"],
        estimate=Estimate(
            **{name: entry[name] for name in ("value", "standard_error", "low", "high", "level")}
        ),
        hard_left=entry["hard_left"],
    )


# Queries of an online session as people write them, turned into whole weights for the cells of the
# domain. All public.

LINEAR = "(linear query)"


def read_query(
    query: str | Sequence[float] | NDArray[np.float64],
    domain: Domain,
    resolution: int,
    support: Ints | None = None,
) -> Query:
    """A predicate, or one weight from 0 to 1 a cell, rounded to multiples of 1 / resolution. With a
    `support` of rows, one array of codes per column, a predicate alone."""
    if isinstance(query, str):
        selection = checked_selection(query, domain)
        if support is not None:

            def holds(rows: Ints) -> Ints:
                return selection.cover(rows.__getitem__, rows.shape[1]).inside.astype(np.int64)

            return Query(holds(support) * resolution, query, holds)
        return Query(predicate_flags(selection, domain) * resolution, query)
    if support is not None:
        raise QueryError(
            f"This session's domain has {domain.size:,} cells, too many for one weight each. Ask "
            "with a predicate."
        )
    try:
        weights = np.asarray(query, dtype=np.float64)
    except (TypeError, ValueError):
        raise QueryError(
            "A query is a predicate, or a list of one weight from 0 to 1 for every cell."
        ) from None
    if weights.shape != (domain.size,):
        raise QueryError(
            f"A linear query has one weight for each of the {domain.size:,} cells of the domain."
        )
    if not bool(np.all((weights >= 0) & (weights <= 1))):  # also false for what is not a number
        raise QueryError("The weights of a linear query must lie between 0 and 1.")
    return Query(np.rint(weights * resolution).astype(np.int64), LINEAR)


def checked_selection(text: str, domain: Domain) -> Selection:
    """What a predicate selects. Refuses one that no cell satisfies, and one that cuts a bin: counts
    inside a bin are not kept."""
    from dpublish.query.masks import select
    from dpublish.query.predicate import columns_of, parse_predicate

    node = parse_predicate(text, domain)
    selection = select(node, domain)
    if not selection.touched:
        # the answer is 0 whatever the rows are: a question that buys nothing is a mistake
        raise QueryError(
            f"'{text}' holds for no value of the declared domain. Ask for values inside the "
            f"declared bounds."
        )
    if selection.touched != selection.inside:
        axes = (domain.axes[index] for index in sorted(columns_of(node)))
        edges = "; ".join(f"{axis.name}: {_edges_text(axis)}" for axis in axes if axis.numeric)
        raise QueryError(
            f"'{text}' cuts a bin, and a session counts whole bins. Use the edges of the bins "
            f"({edges})."
        )
    return selection


def predicate_flags(selection: Selection, domain: Domain) -> Ints:
    """1 for every cell that is selected."""
    cells = np.arange(domain.size, dtype=np.int64)

    def codes(index: int) -> NDArray[np.int64]:
        return (cells // domain.strides[index]) % domain.axes[index].cardinality

    return selection.cover(codes, domain.size).inside.astype(np.int64)


def _edges_text(axis: Axis) -> str:
    return ", ".join(axis.labels[:6]) + (", ..." if len(axis.labels) > 6 else "")
