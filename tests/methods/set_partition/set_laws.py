"""The partitioning written down naively, with exact probabilities: what the fast engine is compared
with."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.declare.taxonomy import Taxonomy
from dpublish.methods.set_partition.engine import QUANTA, Outcome, Partitioning, Rules
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.noise.enumerator import Enumerator, tail_mass

Record = frozenset[int]
Law = dict[Any, Fraction]


def baskets(records: Iterable[Iterable[int]]) -> Baskets:
    rows = [sorted(set(record)) for record in records]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Baskets(offsets, np.array([item for row in rows for item in row], dtype=np.uint16))


def all_records(items: int) -> list[tuple[int, ...]]:
    return [c for size in range(1, items + 1) for c in itertools.combinations(range(items), size)]


def small_rules(
    *,
    epsilon: Fraction = Fraction(1),
    sensitivity: int = 1,
    threshold: int = 1,
    typical_items: int | None = None,
) -> Rules:
    return Rules(
        epsilon=epsilon,
        sensitivity=Fraction(sensitivity),
        partition_threshold=lambda quanta, width, height: threshold,
        leaf_threshold=lambda quanta, width, height: threshold,
        step_bits=2,
        leaf_bits=3,
        max_partitions=1000,
        typical_items=typical_items,
    )


def outcome_of(work: Partitioning) -> Outcome:
    while work.waiting:
        work.split_next()
    return work.count_itemsets()


def result(noise: Any, records: Sequence[Iterable[int]], taxonomy: Taxonomy, rules: Rules) -> Any:
    """What a run publishes, in a form that does not depend on the order of work."""
    return readable(outcome_of(Partitioning(noise, baskets(records), taxonomy, rules)), taxonomy)


def readable(found: Any, taxonomy: Taxonomy) -> Any:
    names = taxonomy.order
    starts = np.cumsum([0, *found.itemsets["size"]])
    members = [
        frozenset(int(names[m]) for m in found.members[a:b]) for a, b in itertools.pairwise(starts)
    ]
    sets = frozenset(zip(members, found.itemsets["count"].tolist(), strict=True))
    parts, cuts = found.partitions, {0: ((0,), ())}
    kept = []
    for row in range(1, parts["parent"].size):
        queue, items = cuts[int(parts["parent"][row])]
        cuts[row] = split_cut(taxonomy, queue, items, int(parts["mask"][row]))
        kept.append((cuts[row], int(parts["count"][row])))
    return frozenset(kept), sets


def split_cut(
    taxonomy: Taxonomy, queue: tuple[int, ...], items: tuple[int, ...], mask: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    chosen = [child for place, child in enumerate(taxonomy.children(queue[0])) if mask >> place & 1]
    return (*queue[1:], *(~c for c in chosen if c < 0)), tuple(
        sorted([*items, *(c for c in chosen if c >= 0)])
    )


class Indicators(Enumerator):
    """Tells only whether a cell passed; its value is always the least that passes. Few branches,
    same control flow."""

    def sparse_laplace(
        self, cells, counts, *, domain_size, threshold, sensitivity, epsilon, label=""
    ):  # type: ignore[no-untyped-def]
        ratio = self.power(-Fraction(epsilon) / sensitivity)
        held = dict(zip(np.asarray(cells).tolist(), np.asarray(counts).tolist(), strict=True))
        kept = []
        for cell in range(domain_size):
            passed = tail_mass(ratio, threshold + 1 - held.get(cell, 0))
            if self._branch(f"cell {label}", ((False, 1 - passed), (True, passed))):
                kept.append(cell)
        return np.array(kept, dtype=np.uint64), np.full(len(kept), threshold + 1, dtype=np.int64)


def naive_law(
    power: Any, records: Sequence[Iterable[int]], taxonomy: Taxonomy, rules: Rules, top: int | None
) -> Law:
    """The law of the published partitions and itemsets by brute force: all cells, all answers
    (clipped at `top`)."""
    position = {int(item): place for place, item in enumerate(taxonomy.order)}
    rows = [frozenset(position[item] for item in record) for record in records]

    def leading(value: int, bits: int) -> int:
        shift = max(0, value.bit_length() - bits)
        return value >> shift << shift

    def answers(count: int, quanta: int, threshold: int) -> list[tuple[int | None, Fraction]]:
        ratio = power(-rules.epsilon_of(quanta) / rules.sensitivity)
        passed = [
            tail_mass(ratio, v - count) for v in range(threshold + 1, (top or threshold + 1) + 1)
        ]
        points = [p - q for p, q in itertools.pairwise([*passed, Fraction(0)])]
        return [
            (None, 1 - passed[0]),
            *zip(range(threshold + 1, threshold + 1 + len(points)), points, strict=True),
        ]

    def likely(queue: tuple[int, ...]) -> int:
        here = list(queue)
        counts: dict[int, int] = {}
        for node in here:  # grows while it is walked
            counts[int(taxonomy.depth[node])] = counts.get(int(taxonomy.depth[node]), 0) + 1
            here += [~child for child in taxonomy.children(node) if child < 0]
        return sum(min(count, rules.typical_items or count) for count in counts.values())

    def below(queue: tuple[int, ...], items: tuple[int, ...], here: list[Record], left: int) -> Law:
        ahead = sum(int(taxonomy.internal[node]) for node in queue)
        if ahead == 0:
            law: Law = {}
            for value, mass in answers(
                len(here), leading(QUANTA + left, rules.leaf_bits), rules.leaf_threshold(0, 1, 0)
            ):
                found = (
                    frozenset()
                    if value is None
                    else frozenset([(frozenset(map(int, taxonomy.order[list(items)])), value)])
                )
                law[frozenset(), found] = law.get((frozenset(), found), Fraction(0)) + mass
            return law
        node, final = queue[0], ahead == 1
        width = len(taxonomy.children(node))
        quanta = (
            leading(QUANTA + left, rules.leaf_bits)
            if final
            else leading(left // likely(queue), rules.step_bits)
        )
        total: Law = {(frozenset(), frozenset()): Fraction(1)}
        for mask in range(1, 1 << width):
            cut = split_cut(taxonomy, queue, items, mask)
            mine = [r for r in here if touched(taxonomy, node, r) == mask]
            one: Law = {}
            for value, mass in answers(
                len(mine),
                quanta,
                (rules.leaf_threshold if final else rules.partition_threshold)(0, 0, 0),
            ):
                if value is None:
                    deeper: Law = {(frozenset(), frozenset()): Fraction(1)}
                elif final:
                    named = frozenset(int(taxonomy.order[item]) for item in cut[1])
                    deeper = {(frozenset(), frozenset([(named, value)])): Fraction(1)}
                else:
                    deeper = {
                        (parts | {(cut, value)}, sets): share
                        for (parts, sets), share in below(*cut, mine, left - quanta).items()
                    }
                for outcome, share in deeper.items():
                    one[outcome] = one.get(outcome, Fraction(0)) + mass * share
            total = {
                (a[0] | b[0], a[1] | b[1]): p * q
                for (a, p), (b, q) in itertools.product(total.items(), one.items())
            }
        return total

    return below((0,), (), rows, QUANTA)


def touched(taxonomy: Taxonomy, node: int, record: Record) -> int:
    mask = 0
    for place, child in enumerate(taxonomy.children(node)):
        low, high = (
            (child, child + 1)
            if child >= 0
            else (int(taxonomy.start[~child]), int(taxonomy.stop[~child]))
        )
        if any(low <= item < high for item in record):
            mask |= 1 << place
    return mask
