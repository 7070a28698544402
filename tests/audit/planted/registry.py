"""What a planted bug is, and how each tier is run on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from dpublish import audit
from dpublish.audit.report import Report

Tier = Literal["exact", "replay", "sampled", "twin"]
ONE = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """`checks`: the findings that count as catching it; a failure for another reason does not."""

    name: str
    tier: Tier
    checks: frozenset[str]
    broken: Any
    correct: Any
    run: Callable[[Any], Report]


# Several bugs share one correct version; it is audited once.
remembered = lru_cache(maxsize=None)


def exactly(
    pairs: Iterable[tuple[Any, Any]], epsilon: Fraction = ONE, **options: Any
) -> Callable[[Any], Report]:
    listed = list(pairs)
    return remembered(lambda mechanism: audit.exact(mechanism, listed, epsilon=epsilon, **options))


def replayed(pairs: Iterable[tuple[Any, Any]], **options: Any) -> Callable[[Any], Report]:
    listed = list(pairs)
    return remembered(lambda mechanism: audit.replay(mechanism, listed, **options))


def by_samples(
    pairs: Iterable[tuple[Any, Any]], epsilon: Fraction = ONE, **options: Any
) -> Callable[[Any], Report]:
    listed = list(pairs)
    return remembered(
        lambda mechanism: audit.sampled(mechanism, listed, epsilon=epsilon, **options)
    )


def bug(
    name: str, tier: Tier, checks: str, *, broken: Any, correct: Any, run: Callable[[Any], Report]
) -> Planted:
    return Planted(
        name=name,
        tier=tier,
        checks=frozenset(checks.split(",")),
        broken=broken,
        correct=correct,
        run=run,
    )


def whole(values: Any) -> Any:
    return np.array(values, dtype=np.int64)


def counts(rows: Iterable[int], cells: int) -> Any:
    return np.bincount(whole(list(rows)), minlength=cells).astype(np.int64)
