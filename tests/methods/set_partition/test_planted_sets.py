"""Bugs planted into the partitioning, each with the tier that must catch it; the engine itself
survives the same audits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.declare.taxonomy import context_free, written
from dpublish.methods.set_partition.engine import QUANTA, Partitioning
from methods.set_partition.set_laws import baskets, outcome_of, readable, small_rules

TREE = context_free(9, 3)
CHAIN = written([["a", "b"]], ["a", "b"])
ROWS = [[0, 1], [0, 1], [0, 4], [8], [8], [8]]
PAIRS = [(ROWS, ROWS[:-1]), (ROWS, [*ROWS, [2, 5, 7]])]
TINY = [((), ((0,),)), (((1,),), ((1,), (0,)))]


def run(
    engine: type[Partitioning], noise: Any, rows: Any, tree: Any = TREE, rules: Any = None
) -> Any:
    return readable(
        outcome_of(engine(noise, baskets(rows), tree, rules or small_rules(epsilon=Fraction(4)))),
        tree,
    )


class SkipsEmptyParts(Partitioning):
    """Only occupied cells are noised; an empty combination of children never appears."""

    def _noisy(
        self, cells: Any, counts: Any, domain_size: int, quanta: int, threshold: int, label: str
    ) -> Any:
        kept, values, law = super()._noisy(cells, counts, domain_size, quanta, threshold, label)
        real = np.isin(kept, cells)
        return kept[real], values[real], law


class ReusesTheLeafBudget(Partitioning):
    """Itemsets are counted with the whole epsilon, although half of it went into the partitions
    above them."""

    def _enqueue(self, new: int, stop: int) -> None:
        left = self._store.column["left"][new:stop]
        left[self._store.column["ahead"][new:stop] <= 1] = QUANTA
        super()._enqueue(new, stop)


class ThresholdByTrueCount(Partitioning):
    """A large partition gets a higher bar: the bar tells its true size."""

    def _noisy(
        self, cells: Any, counts: Any, domain_size: int, quanta: int, threshold: int, label: str
    ) -> Any:
        return super()._noisy(
            cells, counts, domain_size, quanta, threshold + int(counts.sum()), label
        )


class SplitsOnlyOccupiedParts(Partitioning):
    """Partitions without records are dropped to save time."""

    def _enqueue(self, new: int, stop: int) -> None:
        column = self._store.column
        super()._enqueue(new, stop)
        for buckets in (self._waiting, self._leaves):
            for quanta, lists in list(buckets.items()):
                held = [ids[column["last"][ids] > column["first"][ids]] for ids in lists]
                buckets[quanta] = held = [ids for ids in held if ids.size]
                if not held:
                    del buckets[quanta]


def observed_taxonomy(noise: Any, rows: Any) -> Any:
    seen = sorted({item for row in rows for item in row})
    place = {item: number for number, item in enumerate(seen)}
    tree = context_free(max(1, len(seen)), 3)
    return readable(
        outcome_of(
            Partitioning(
                noise, baskets([[place[i] for i in row] for row in rows]), tree, small_rules()
            )
        ),
        tree,
    )


def claimed(mechanism: Callable[..., Any]) -> Any:
    return audit.replay(mechanism, PAIRS, epsilon=4, runs=12)


BUGS = {
    "leaf budget reused": (lambda n, r: run(ReusesTheLeafBudget, n, r), claimed, "claim"),
    "threshold by true count": (lambda n, r: run(ThresholdByTrueCount, n, r), claimed, "settings"),
    "taxonomy from observed items": (observed_taxonomy, claimed, "shape"),
    "empty partitions dropped later": (
        lambda n, r: run(SplitsOnlyOccupiedParts, n, r),
        claimed,
        None,
    ),
    "empty sub-partitions skipped": (
        lambda n, r: run(SkipsEmptyParts, n, r, CHAIN, small_rules()),
        lambda mechanism: audit.exact(mechanism, TINY, epsilon=1, window=(-1, 4)),
        "privacy",
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_caught(name: str) -> None:
    mechanism, tier, check = BUGS[name]
    report = tier(mechanism)
    assert not report.passed, name
    if check is not None:
        assert check in {finding.check for finding in report.findings}, report.summary()


def test_the_engine_survives_the_same_audits() -> None:
    assert claimed(lambda n, r: run(Partitioning, n, r)).passed
    tiny = lambda n, r: run(Partitioning, n, r, CHAIN, small_rules())  # noqa: E731
    assert audit.exact(tiny, TINY, epsilon=1, window=(-1, 4)).passed


def test_a_claim_below_the_cost_is_refuted() -> None:
    rules = replace(small_rules(), epsilon=Fraction(2))
    report = audit.exact(
        lambda n, r: run(Partitioning, n, r, CHAIN, rules), TINY, epsilon=1, window=(-1, 4)
    )
    assert not report.passed
