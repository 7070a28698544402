"""The engine against its naive definition: exact laws, exact privacy, replay, and what each record
costs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.declare.taxonomy import Taxonomy, context_free, written
from dpublish.methods.set_partition.engine import Partitioning
from dpublish.noise.enumerator import Enumerator, freeze
from dpublish.noise.source import SeededNoise
from methods.set_partition.set_laws import (
    Indicators,
    all_records,
    baskets,
    naive_law,
    outcome_of,
    readable,
    result,
    small_rules,
)

ONE = Fraction(1)
UNEVEN = written([["a", "b"], "c"], ["a", "b", "c"])
CHAIN = written([["a", "b"]], ["a", "b"])
FORK = written([["a"], ["b"]], ["a", "b"])
COMB = written([["a"], ["b"], ["c"]], ["a", "b", "c"])


def enumerated(
    noise: Enumerator, records: Sequence[Any], taxonomy: Taxonomy, rules: Any
) -> dict[Any, Fraction]:
    """The engine's law by its outcomes."""
    seen: dict[Any, Any] = {}

    def run(tap: Any, rows: Any) -> Any:
        outcome = result(tap, rows, taxonomy, rules)
        seen[freeze(outcome)] = outcome
        return outcome

    law = noise.law(run, records)
    return {seen[key]: mass for key, mass in law.items()}


@pytest.mark.parametrize(
    "records", [(), ((0,),), ((0, 2), (1,)), ((0, 1, 2), (0, 1, 2), (2,))], ids=str
)
@pytest.mark.parametrize(
    "taxonomy", [context_free(3, 2), context_free(3, 3), UNEVEN], ids=["deep", "flat", "uneven"]
)
def test_the_engine_has_the_naive_law(
    taxonomy: Taxonomy, records: tuple[tuple[int, ...], ...]
) -> None:
    """Every outcome, in rational arithmetic: which cells pass. Control flow depends on nothing
    else."""
    noise = Indicators()
    law = enumerated(noise, records, taxonomy, small_rules())
    assert law == naive_law(noise.power, records, taxonomy, small_rules(), None)
    assert sum(law.values()) == 1


@pytest.mark.parametrize("records", [(), ((0, 1), (1,), (1,))], ids=str)
def test_published_values_have_the_naive_law(records: tuple[tuple[int, ...], ...]) -> None:
    noise = Enumerator(window=(-1, 4))
    law = enumerated(noise, records, CHAIN, small_rules())
    assert law == naive_law(noise.power, records, CHAIN, small_rules(), 4)


@pytest.mark.parametrize("records", [(), ((0, 1), (0, 1), (1,))], ids=str)
def test_budgets_for_typical_records_have_the_naive_law(
    records: tuple[tuple[int, ...], ...],
) -> None:
    """Two groups and one typical item: a record in both groups is longer than budgets were shared
    out for."""
    noise, rules = Indicators(), small_rules(typical_items=1)
    law = enumerated(noise, records, FORK, rules)
    assert law == naive_law(noise.power, records, FORK, rules, None)


@pytest.mark.nightly
@pytest.mark.parametrize("records", [(), ((0, 1, 2), (0, 1, 2), (2,))], ids=str)
def test_budgets_for_typical_records_have_the_naive_law_in_three_groups(
    records: tuple[tuple[int, ...], ...],
) -> None:
    """Three groups and two typical items: a record in all three groups is longer than budgets were
    shared out for."""
    noise, rules = Indicators(), small_rules(typical_items=2)
    law = enumerated(noise, records, COMB, rules)
    assert law == naive_law(noise.power, records, COMB, rules, None)
    assert law != naive_law(noise.power, records, COMB, small_rules(), None)


def test_long_records_never_run_out_of_budget() -> None:
    """Every split of a long record takes a share of what is left, until a share is too small to be
    worth asking."""
    rules = small_rules(epsilon=Fraction(10**7), threshold=0, typical_items=2)
    tree = written([[[str(item)]] for item in range(24)], [str(item) for item in range(24)])
    rows = [list(range(24))] * 50 + [[3]] * 50
    outcome = outcome_of(Partitioning(SeededNoise(1), baskets(rows), tree, rules))
    assert readable(outcome, tree)[1] == {(frozenset([3]), 50)}
    report = audit.replay(
        lambda noise, data: result(noise, data, tree, rules), [(rows, rows[1:])], epsilon=10**7
    )
    assert report.passed, report.summary()


@pytest.mark.nightly
def test_the_engine_has_the_naive_law_on_four_items() -> None:
    noise, tree = Indicators(max_branches=10**6), context_free(4, 2)
    records = ((0, 1, 2), (1, 3), (1, 3))
    assert enumerated(noise, records, tree, small_rules()) == naive_law(
        noise.power, records, tree, small_rules(), None
    )


@pytest.mark.parametrize(
    ("taxonomy", "items", "base"),
    [(context_free(3, 2), 3, [(), ((0, 2),)]), (UNEVEN, 3, [(), ((0, 1, 2),), ((2,),)])],
    ids=["deep", "uneven"],
)
def test_adding_a_record_costs_at_most_epsilon_exactly(
    taxonomy: Taxonomy, items: int, base: list[Any]
) -> None:
    """Brute force over all outputs of neighbouring pairs: no ratio above base^epsilon, and the
    worst one comes close to it."""
    noise, rules = Indicators(base=2**64), small_rules()
    pairs = [(rows, (*rows, record)) for rows in base for record in all_records(items)]
    laws: dict[Any, Any] = {}
    for rows in itertools.chain.from_iterable(pairs):
        if rows not in laws:
            laws[rows] = naive_law(noise.power, rows, taxonomy, rules, None)
    allowed, worst = noise.power(ONE), Fraction(0)
    for one, other in pairs:
        assert laws[one].keys() == laws[other].keys()
        ratios = [laws[one][outcome] / laws[other][outcome] for outcome in laws[one]]
        worst = max(worst, *ratios, *(1 / ratio for ratio in ratios))
    assert worst <= allowed
    assert worst > noise.power(ONE / 2)


def test_exact_audit_with_values() -> None:
    pairs = [((), ((0,),)), (((0, 1),), ((0, 1), (0, 1))), (((1,),), ((1,), (0,)))]
    report = audit.exact(
        lambda noise, rows: result(noise, rows, CHAIN, small_rules()),
        pairs,
        epsilon=1,
        window=(-1, 4),
    )
    assert report.passed, report.summary()


def test_two_records_a_unit_and_replacement_cost_epsilon() -> None:
    """Sensitivity 2: two records may come, or one goes while another comes."""
    rules = small_rules(sensitivity=2)
    pairs = [((), ((0,), (0, 1))), (((0,),), ((1,),)), ((), ((1,), (1,)))]
    run = lambda noise, rows: result(noise, rows, CHAIN, rules)  # noqa: E731
    assert audit.exact(run, pairs, epsilon=1, window=(-1, 4)).passed
    assert not audit.exact(run, [((), ((0,), (0,), (0,)))], epsilon=1, window=(-1, 4)).passed


def random_records(seed: int, records: int, items: int) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [
        rng.choice(items, size=int(rng.integers(1, 1 + min(4, items))), replace=False).tolist()
        for _ in range(records)
    ]


def replay_pairs(items: int) -> list[tuple[Any, Any]]:
    pairs = []
    for seed in range(2):
        rows = random_records(seed, 60, items)
        pairs += [(rows, rows[:-1]), (rows, [*rows, list(range(items))])]
    return pairs


@pytest.mark.parametrize(
    ("taxonomy", "threshold"),
    [(context_free(30, 3), 4), (context_free(20, 7), 6), (UNEVEN, 2)],
    ids=["deep", "wide", "uneven"],
)
def test_replay_sees_no_difference_and_the_chain_adds_up_to_epsilon(
    taxonomy: Taxonomy, threshold: int
) -> None:
    report = audit.replay(
        lambda noise, rows: result(
            noise, rows, taxonomy, small_rules(epsilon=Fraction(3), threshold=threshold)
        ),
        replay_pairs(taxonomy.items),
        epsilon=3,
    )
    assert report.passed, report.summary()
    assert report.loss > Fraction(3, 2)


def test_sampled_audit() -> None:
    """Clopper-Pearson lower bounds at family-wise error 1e-3 stay below the claim."""
    report = audit.sampled(
        lambda noise, rows: result(noise, rows, context_free(3, 2), small_rules()),
        [((), ((0, 1, 2),))],
        epsilon=1,
        samples=300,
    )
    assert report.passed, report.summary()


def test_large_run_is_the_same_however_records_lie() -> None:
    """The order of the input is no part of the answer: same noise, same release."""
    rows = random_records(7, 3000, 40)
    tree, rules = context_free(40, 4), small_rules(epsilon=Fraction(20), threshold=6)
    first = readable(outcome_of(Partitioning(SeededNoise(3), baskets(rows), tree, rules)), tree)
    again = readable(
        outcome_of(Partitioning(SeededNoise(3), baskets(rows[::-1]), tree, rules)), tree
    )
    assert first == again
    assert len(first[1]) > 30


def test_counts_are_exact_when_noise_is_negligible() -> None:
    rows = random_records(1, 2000, 12)
    tree, rules = context_free(12, 3), small_rules(epsilon=Fraction(4000), threshold=0)
    _, sets = readable(outcome_of(Partitioning(SeededNoise(1), baskets(rows), tree, rules)), tree)
    truth: dict[frozenset[int], int] = {}
    for row in rows:
        truth[frozenset(row)] = truth.get(frozenset(row), 0) + 1
    assert dict(sets) == truth


def test_the_input_is_left_as_it_was() -> None:
    data = baskets(random_records(2, 500, 30))
    before = (data.offsets.copy(), data.items.copy())
    outcome_of(
        Partitioning(SeededNoise(1), data, context_free(30, 3), small_rules(epsilon=Fraction(30)))
    )
    assert np.array_equal(before[0], data.offsets)
    assert np.array_equal(before[1], data.items)


def test_too_many_partitions_are_cut_off() -> None:
    rules = small_rules(epsilon=Fraction(4000), threshold=0)
    few = type(rules)(**{**rules.__dict__, "max_partitions": 3})
    outcome = outcome_of(
        Partitioning(SeededNoise(1), baskets(random_records(3, 500, 30)), context_free(30, 3), few)
    )
    assert outcome.truncated
    assert outcome.partitions["parent"].size <= 3
