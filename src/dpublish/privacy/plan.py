"""A plan: what a release will cost, show and probably achieve, worked out from public facts alone.

A plan is made before any budget is spent and before any row is read. It is what the curator reads,
what the gate debits, and (as JSON) what the manifest of the release quotes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Generic

from typing_extensions import TypeVar

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.privacy.cost import Cost
from dpublish.privacy.statement import guesses


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a method works with, worked out by its plan: a frozen dataclass of exact amounts.

    `run` reads these fields; nobody reads their JSON. A field with `shown=False` in its metadata
    (`hidden()`), and the domain, are left out of the facts that a manifest quotes.
    """

    def facts(self) -> dict[str, Any]:
        """The fields as JSON values, in the words of the format."""
        shown = {
            one.name: getattr(self, one.name)
            for one in dataclasses.fields(self)
            if one.metadata.get("shown", True)
        }
        return {
            name: as_json(value) for name, value in shown.items() if not isinstance(value, Domain)
        }


def hidden(**rest: Any) -> Any:
    """A field of `Settings` that no manifest quotes."""
    return field(metadata={"shown": False}, **rest)


def as_json(value: Any) -> Any:
    """An amount as the format writes it: fractions as text, tuples as lists."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value


S = TypeVar("S", bound=Settings, covariant=True, default=Any)


def some_of(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence: a few of them, and how many more there are.

    >>> some_of(["a", "b", "c"], 2), some_of(["a", "b"])
    ('a, b and 1 more', 'a, b')
    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def some(number: int, what: str) -> str:
    """A number of things.

    >>> some(1, "public total"), some(2500, "pair")
    ('1 public total', '2,500 pairs')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@dataclass(frozen=True, kw_only=True)
class Plan(Generic[S]):
    """One release, priced.

    `kind` names the class that reads the release. `parameters` are the method's fields as they were
    asked for (JSON values, enough to make the same plan again). `settings` is what the method works
    with, of its own type: thresholds, scales, shares, domain. `forecast` is what to expect of the
    release, for people. `sentences` say the same in words.

    >>> from dpublish import Cost, Histogram, Schema
    >>> schema = Schema.from_toml('''
    ... [dataset]
    ... name = "visits"
    ... unit = "row"
    ... size = 1000
    ... [columns.ill]
    ... kind = "boolean"
    ... ''')
    >>> Histogram().plan(schema, Cost.pure("1/2")).cost.describe()
    'epsilon = 0.5 (pure differential privacy)'
    """

    method: str
    kind: str
    schema: Schema
    cost: Cost
    settings: S
    parameters: Mapping[str, Any] = field(default_factory=dict)
    forecast: Mapping[str, Any] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rules = "; ".join(rule.describe() for rule in self.schema.rules)
        said = f"Rows that break a declared rule are left out, each by itself: {rules}."
        if rules and said not in self.sentences:
            object.__setattr__(self, "sentences", (*self.sentences, said))

    @property
    def domain(self) -> Domain | None:
        """What the release counts over, where the method fixes it beforehand."""
        found: Domain | None = getattr(self.settings, "domain", None)
        return found

    @property
    def facts(self) -> dict[str, Any]:
        """Settings and forecast in the words of the format, for manifests and the ledger."""
        return {**self.settings.facts(), **as_json(self.forecast)}

    @property
    def meaning(self) -> list[str]:
        """What the cost means: the most that a guess about one unit can gain."""
        return guesses(
            self.cost,
            self.schema.neighbours,
            what="session" if self.kind == "online" else "release",
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "kind": self.kind,
            "dataset": self.schema.name,
            "schema_digest": self.schema.digest,
            "neighbours": self.schema.neighbours,
            "unit": self.schema.unit.describe(),
            "cost": self.cost.to_json(),
            "meaning": self.meaning,
            "parameters": dict(self.parameters),
            "facts": self.facts,
            "sentences": list(self.sentences),
            "warnings": list(self.warnings),
        }

    def text(self) -> str:
        """The plan as a person reads it."""
        lines = [
            f"{self.method} of '{self.schema.name}'",
            *(f"  {sentence}" for sentence in (*self.sentences, *self.meaning)),
            *(f"  warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)
