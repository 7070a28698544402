"""Every randomizer against its stated law and its claim: enumerated, in closed form, by the calls
it makes, and by sampling."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq
from scipy.stats import chi2

from dpublish import audit
from dpublish.local import Randomizer
from dpublish.local.base import Law
from dpublish.noise.enumerator import Enumerator, freeze
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder
from local.subjects import BELOW_E, CASES, Case, mechanism_of, written

each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def worst_ratio(laws: list[Law]) -> Fraction:
    return max(
        one[report] / other[report]
        for one, other in itertools.permutations(laws, 2)
        for report in one
    )


def within(ratio: Fraction, epsilon: Fraction) -> bool:
    with ctx.workprec(400):
        return bool(
            arb(fmpq(ratio.numerator, ratio.denominator))
            <= arb(fmpq(epsilon.numerator, epsilon.denominator)).exp()
        )


@each_case
def test_the_code_has_the_stated_law(case: Case) -> None:
    randomizer = case.small
    for value in case.values:
        found = Enumerator(max_branches=2_000_000).law(mechanism_of(randomizer), value)
        stated = randomizer.law(value)
        assert sum(stated.values()) == 1
        assert {freeze(report): mass for report, mass in stated.items() if mass} == found


@each_case
def test_tier_a_every_pair_of_values(case: Case) -> None:
    randomizer = case.small
    pairs = list(itertools.combinations(case.values, 2))
    report = audit.exact(
        mechanism_of(randomizer),
        pairs,
        epsilon=randomizer.epsilon,
        base=BELOW_E,
        max_branches=2_000_000,
    )
    assert report.passed, report.summary()


@each_case
def test_the_law_of_full_coins_is_within_epsilon(case: Case) -> None:
    randomizer = case.usual if "unary" not in case.name else case.make(32)
    laws = [randomizer.law(value) for value in case.values]
    ratio = worst_ratio(laws)
    assert within(ratio, randomizer.epsilon)
    # and the claim is not wasted: the loss is within 1e-6 of it (the mean's grid cannot reach its
    # ends exactly)
    assert not within(ratio, randomizer.epsilon * (1 - Fraction(1, 10**6)))


@each_case
def test_tier_b_the_calls_never_depend_on_the_value(case: Case) -> None:
    """The taps here take no private value, so equal calls (kind, bound, shape, order) for all
    values are what replay asks."""
    tapes = []
    for value in case.values:
        recorder = Recorder(SeededNoise(5))
        mechanism_of(case.usual if "unary" not in case.name else case.make(32))(recorder, value)
        tapes.append([tap.draw for tap in recorder.tape.taps])
    assert all(tape == tapes[0] for tape in tapes)


@each_case
def test_tier_c_sampled(case: Case) -> None:
    """False alarm at most 1e-6 a case; an epsilon twice the claim would be caught (see the planted
    bugs)."""
    randomizer = case.usual if "unary" not in case.name else case.make(32)
    report = audit.sampled(
        mechanism_of(randomizer),
        [(case.values[0], case.values[-2])],
        epsilon=randomizer.epsilon,
        samples=2000,
        first_seed=11,
    )
    assert report.passed, report.summary()


@pytest.mark.nightly
@each_case
def test_tier_c_sampled_at_length(case: Case) -> None:
    """Every pair of values; false alarm at most 1e-6 a case. The smallest epsilon caught is in the
    report (`detectable`)."""
    randomizer = case.usual if "unary" not in case.name else case.make(32)
    pairs = list(itertools.combinations(case.values, 2))[:10]
    report = audit.sampled(
        mechanism_of(randomizer), pairs, epsilon=randomizer.epsilon, samples=10_000, first_seed=101
    )
    assert report.passed, report.summary()


@each_case
def test_many_at_once_is_one_by_one(case: Case) -> None:
    """A batch has the law of single reports: chi-square, false alarm 1e-6, fixed seed; catches 10 %
    on a common report."""
    randomizer = case.usual if "unary" not in case.name else case.make(32)
    value = case.values[1]
    people = 20_000
    reports = randomizer.randomize([value] * people, coins=SeededNoise(21))
    counts: dict[int, int] = {}
    for place in range(people):
        code = written(randomizer, reports[place : place + 1])
        counts[code] = counts.get(code, 0) + 1
    law = randomizer.law(value)
    statistic = sum(
        (counts.get(y, 0) - people * float(p)) ** 2 / (people * float(p))
        for y, p in law.items()
        if p
    )
    assert chi2.sf(statistic, len(law) - 1) > 1e-6


class Planted:
    """A randomizer with one thing changed; `tier` names the audit that must find it."""

    def __init__(self, name: str, case: str, tier: str, change: Any) -> None:
        self.name, self.case, self.tier, self.change = name, case, tier, change

    def build(self, *, small: bool) -> tuple[Randomizer, Case]:
        case = next(case for case in CASES if case.name == self.case)
        bits = case.small_bits if small else (32 if "unary" in case.name else 64)
        randomizer = case.make(bits)
        self.change(randomizer)
        return randomizer, case


def _floor_other(randomizer: Any) -> None:
    coin = randomizer.coin
    coin._other -= 1
    coin._start += coin.categories - 1


def _half_other(randomizer: Any) -> None:
    coin = randomizer.coin
    coin._other //= 2
    coin._start = (1 << coin.bits) - (coin.categories - 1) * coin._other


def _unary_full_hit(randomizer: Any) -> None:
    """The true bit always 1: pays for one of its two sides only."""
    original = randomizer._reports

    def reports(values: Any, coins: Any) -> Any:
        out = original(values, coins)
        out[np.arange(len(values)), values.astype(np.int64) // 8] |= (
            1 << (values.astype(np.int64) % 8)
        ).astype(np.uint8)
        return out

    randomizer._reports = reports


def _hash_by_value(randomizer: Any) -> None:
    """The hash function depends on the value: the report names it."""
    original = randomizer._reports

    def reports(values: Any, coins: Any) -> Any:
        out = original(values, coins)
        per = np.uint64(randomizer.buckets)
        return out % per + (values + np.uint64(1)) * per

    randomizer._reports = reports


def _place_not_random(randomizer: Any) -> None:
    """The place within a half is the row itself, so the row can be read off."""
    from dpublish.local.hashing import half_member

    def reports(values: Any, coins: Any) -> Any:
        return half_member(values + np.uint64(1), values, randomizer.coin.draw(coins, len(values)))

    randomizer._reports = reports


def _mean_unclipped(randomizer: Any) -> None:
    """A number beyond the bounds keeps its own step."""
    inner = randomizer.check_values

    def check(values: Any) -> Any:
        steps = inner(values)
        return np.where(np.asarray(values, dtype=float) > 3, np.uint64(randomizer.steps + 1), steps)

    randomizer.check_values = check


def _set_by_record(randomizer: Any) -> None:
    """Asks everybody without attributes about the first set."""
    original = randomizer._reports

    def reports(values: Any, coins: Any) -> Any:
        out = original(values, coins)
        return np.where(values == 0, out & np.uint64(1), out)

    randomizer._reports = reports


def _skip_missing(randomizer: Any) -> None:
    """Draws nothing for level 0."""
    original = randomizer._reports

    def reports(values: Any, coins: Any) -> Any:
        return values if bool((values == 0).all()) else original(values, coins)

    randomizer._reports = reports


PLANTED = [
    Planted("other rounded down", "kary 3 levels", "exact", _floor_other),
    Planted("twice the truth", "binary 1", "exact", _half_other),
    Planted("twice the truth, sampled", "binary 1", "sampled", _half_other),
    Planted("true bit always set", "unary 3 levels", "exact", _unary_full_hit),
    Planted("true bit always set, sampled", "unary 3 levels", "sampled", _unary_full_hit),
    Planted("hash function from the value", "hashing 5 levels", "exact", _hash_by_value),
    Planted("place from the value", "hadamard 3 levels", "exact", _place_not_random),
    Planted("mean not clipped", "mean", "exact", _mean_unclipped),
    Planted("set from the record", "conjunctions", "exact", _set_by_record),
    Planted("no coin for level 0", "kary 5 levels", "calls", _skip_missing),
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_planted_bugs_are_found(planted: Planted) -> None:
    randomizer, case = planted.build(small=planted.tier == "exact")
    pairs = list(itertools.combinations(case.values, 2))
    mechanism = mechanism_of(randomizer)
    if planted.tier == "exact":
        found = audit.exact(
            mechanism, pairs, epsilon=randomizer.epsilon, base=BELOW_E, max_branches=2_000_000
        )
        assert not found.passed
    elif planted.tier == "sampled":
        assert not audit.sampled(
            mechanism, pairs[:1], epsilon=randomizer.epsilon, samples=4000, first_seed=3
        ).passed
    else:
        lengths = set()
        for value in case.values:
            recorder = Recorder(SeededNoise(5))
            mechanism(recorder, value)
            lengths.add(len(recorder.tape.taps))
        assert len(lengths) > 1
