"""What an online session shows: its answers and its status. All public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpublish.curator.sessions.files import canonical
from dpublish.estimate import Estimate


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
