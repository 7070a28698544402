"""A plan: what a release will cost, show and probably achieve, worked out from public facts alone.

A plan is made before any budget is spent and before any row is read. It is what the curator reads,
what the gate debits, and (as JSON) what the manifest of the release quotes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.privacy.cost import Cost
from dpublish.privacy.statement import guesses


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One release, priced.

    `kind` names the class that reads the release. `parameters` are the method's settings (JSON
    values, enough to make the same plan again). `facts` are numbers computed from public facts:
    threshold, noise scale, expected support, expected error. `sentences` say the same in words.
    """

    method: str
    kind: str
    schema: Schema
    cost: Cost
    parameters: Mapping[str, Any] = field(default_factory=dict)
    domain: Domain | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

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
            "facts": dict(self.facts),
            "sentences": list(self.sentences),
            "warnings": list(self.warnings),
        }

    def text(self) -> str:
        """The plan as a person reads it."""
        said = (*self.sentences, *self.meaning)
        lines = [f"{self.method} of '{self.schema.name}'", *(f"  {sentence}" for sentence in said)]
        return "\n".join([*lines, *(f"  warning: {warning}" for warning in self.warnings)])
