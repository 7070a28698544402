"""Cases of sentences that name an alternative: how they are drawn, measured and counted."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from dpublish.curator.rehearse import release_of
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.sources.sources import open_source

WIN = 0.05
"""A method that errs so much less wins; one that errs so much more is behind."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A generated table at a cost: whether the plan names the alternative there, and the errors of
    the method and of the alternative in a run of a seed. Less is better."""

    warned: bool
    errors: Callable[[int], tuple[float, float]]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """What a plan says, and tables to hold it against.

    `slack`: an alternative that costs nothing is as good where it errs more by no more than that.
    `again`: added to the seed, where a limit was set back after a look at fresh cases.
    """

    method: str
    names: str
    case: Callable[[np.random.Generator], Case | None]
    cases: int = 16
    least: int = 4
    most: int = 12
    slack: float = 0.0
    again: int = 0

    @property
    def title(self) -> str:
        return f"{self.method}: {self.names}"


def measure(sentence: Sentence, seed: int, number: int) -> dict[str, Any]:
    """One case. Runs go on, up to `most`, until the difference exceeds two standard errors."""
    draw = np.random.default_rng(
        [seed + sentence.again, zlib.crc32(sentence.title.encode()), number]
    )
    try:
        case = sentence.case(draw)
    except PlanError as refused:
        return {"title": sentence.title, "number": number, "refused": str(refused)}
    if case is None:
        return {"title": sentence.title, "number": number, "refused": "no such case"}
    first = int(draw.integers(1 << 30))
    found: list[tuple[float, float]] = []
    while len(found) < sentence.most:
        found.append(case.errors(first + len(found)))
        gaps = [own - other for own, other in found]
        if len(found) >= sentence.least and abs(np.mean(gaps)) > 2 * standard_error(gaps):
            break
    own, other = np.mean(found, axis=0)
    return {
        "title": sentence.title,
        "number": number,
        "warned": bool(case.warned),
        "own": float(own),
        "other": float(other),
        "error": standard_error([one - two for one, two in found]),
        "runs": len(found),
        **case.facts,
    }


def standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf


def line_of(sentence: Sentence, found: Sequence[dict[str, Any]]) -> str:
    """A line of the table, of all cases of one sentence."""
    held = [one for one in found if "own" in one]
    warned = [one for one in held if one["warned"]]
    silent = [one for one in held if not one["warned"]]
    right = sum(one["own"] >= (1 - sentence.slack) * one["other"] for one in warned)
    wins = [one for one in warned if one["own"] <= (1 - WIN) * one["other"]]
    sure = sum(one["other"] - one["own"] > 2 * one["error"] for one in wins)
    near = sum(abs(one["own"] - one["other"]) <= 2 * one["error"] for one in warned)
    behind = sum(
        one["own"] > (1 + WIN) * one["other"] and one["own"] - one["other"] > 2 * one["error"]
        for one in silent
    )
    share = f" ({right / len(warned):.0%})" if warned else ""
    return (
        f"| {sentence.method} | {sentence.names} | {len(held)} | {len(warned)} | {right}{share} | "
        f"{near} | {len(wins)}{f' ({sure} sure)' if wins else ''} | {behind} of {len(silent)} |"
    )


HEAD = (
    "| plan of | names | cases | warnings | right | of them too near to tell | method wins by 5% | "
    "behind by 5% without a word |\n| --- | --- | --- | --- | --- | --- | --- | --- |"
)


def says(plan: Plan[Any], words: str) -> bool:
    """Whether the words stand in what a plan says."""
    return words in " ".join([*plan.warnings, *plan.sentences])


def published(method: Any, schema: Schema, cost: Cost, frame: pl.DataFrame, seed: int) -> Any:
    """A release with seeded noise, which protects nobody."""
    return release_of(method, method.plan(schema, cost), open_source(frame), seed)


def log_uniform(draw: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))
