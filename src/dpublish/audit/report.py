"""What an audit found. A report says "survived" or "failed": no audit verifies privacy, it fails to
refute it.

Reports quote measured distances, outcomes and probabilities of the inputs they were given. Audit on
made-up inputs; a report made on real rows is as private as the rows.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One reason why a mechanism did not survive: which check, on which pair of inputs (by
    position), and what was seen."""

    check: str
    pair: int
    text: str


NOTHING_RAN = Finding(
    check="raised", pair=0, text="every run ended in an exception, so nothing was audited"
)


@dataclass(frozen=True, kw_only=True)
class Report(abc.ABC):
    """Common to all tiers. `pairs` is how many neighbouring pairs were tried."""

    tier: ClassVar[str]

    mechanism: str
    pairs: int
    findings: tuple[Finding, ...] = ()

    @property
    def passed(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    @abc.abstractmethod
    def scope(self) -> str:
        """One sentence: what was tried, and how closely."""

    def summary(self) -> str:
        """Text for people."""
        verdict = (
            f"survived the {self.tier} audit" if self.passed else f"FAILED the {self.tier} audit"
        )
        lines = [f"{self.mechanism}: {verdict}. {self.scope()}"]
        lines += [f"  [{one.check}] pair {one.pair + 1}: {one.text}" for one in self.findings[:10]]
        if len(self.findings) > 10:
            lines.append(f"  and {len(self.findings) - 10} more")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; exact numbers are text such as "3/4"."""
        return {"tier": self.tier, "passed": self.passed, **plain(self)}


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "infinite" if value > 0 else "-infinite"
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return repr(value)


def name_of(mechanism: object) -> str:
    """How a report calls a mechanism."""
    name = getattr(mechanism, "name", None) or getattr(mechanism, "__qualname__", None)
    return name if isinstance(name, str) else type(mechanism).__name__
