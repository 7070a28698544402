"""Estimates are unbiased, to the last digit; intervals cover; consistent counts are the nearest
ones."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import binom

from dpublish.errors import InputError, QueryError
from dpublish.local import (
    BinaryResponse,
    HadamardResponse,
    KaryResponse,
    LocalHashing,
    MeanResponse,
    Randomizer,
    UnaryEncoding,
)
from dpublish.local.estimates import frequencies, indicator_sums, normal_quantile, onto_simplex
from dpublish.noise.source import SeededNoise

BY_LEVEL: list[Any] = [
    BinaryResponse(1),
    KaryResponse(5, 1),
    KaryResponse(["a", "b", "c"], "1/3", bits=9),
    UnaryEncoding(4, 2),
    LocalHashing(5, 1),
    LocalHashing(4, 2, buckets=3, bits=10),
    HadamardResponse(5, 1),
    HadamardResponse(6, 2, blocks=2),
    HadamardResponse(9, 3, blocks=4, bits=12),
]
named = pytest.mark.parametrize(
    "randomizer", BY_LEVEL, ids=lambda r: f"{r.method} {len(r.levels)} {r.epsilon}"
)


def one_report(randomizer: Randomizer, code: int) -> np.ndarray:
    if isinstance(randomizer, UnaryEncoding):
        return np.array([[code]], dtype=np.uint8)
    return np.array([code], dtype=np.uint64)


@named
def test_the_expected_estimate_is_the_truth(randomizer: Any) -> None:
    """Exactly: the estimate is linear in the reports, so the law of one report settles it. Also
    with coarse coins."""
    for value in range(len(randomizer.levels)):
        law = randomizer.law(value)
        expected = sum(
            float(mass) * randomizer.aggregate(one_report(randomizer, y)).counts
            for y, mass in law.items()
        )
        assert expected == pytest.approx(np.eye(len(randomizer.levels))[value], abs=1e-9)


@named
def test_the_stated_variance_is_that_of_the_law(randomizer: Any) -> None:
    """Of the sum of estimates over everybody who holds each level once."""
    size = len(randomizer.levels)
    variance = np.zeros(size)
    for value in range(size):
        law = randomizer.law(value)
        seen = np.array([randomizer.aggregate(one_report(randomizer, y)).counts for y in law])
        mass = np.array([float(p) for p in law.values()])
        variance += mass @ seen**2 - (mass @ seen) ** 2
    # strangers have `variance`, the holder may differ by less than the square of what one report
    # can say
    assert variance == pytest.approx(np.full(size, size * randomizer.variance), rel=0.6)


@named
def test_intervals_cover(randomizer: Any) -> None:
    """60 surveys of 2,000 people, 95 % intervals. Levels of one survey are dependent, so the bound
    is on surveys and level 0: 57 are expected to cover; below 48 has probability 1.6e-4 at true
    coverage 95 %, and coverage of 70 % is caught 94 times in 100."""
    size = len(randomizer.levels)
    people = np.minimum(np.arange(2000) % (2 * size), size - 1)
    true = np.bincount(people, minlength=size)
    hits = np.zeros(size)
    for seed in range(60):
        found = randomizer.aggregate(randomizer.randomize(people, coins=SeededNoise(seed)))
        assert found.people == 2000
        hits += (found.low <= true) & (true <= found.high)
    assert binom.cdf(47, 60, 0.95) < 2e-4
    assert hits.min() >= 46
    assert hits.mean() >= 52


def test_intervals_that_hold_together_are_wider() -> None:
    randomizer = KaryResponse(20, 1)
    reports = randomizer.randomize(np.arange(4000) % 20, coins=SeededNoise(1))
    alone, together = randomizer.aggregate(reports), randomizer.aggregate(reports, together=True)
    assert (together.high - together.low > alone.high - alone.low).all()
    assert normal_quantile(0.95, parts=20) == pytest.approx(3.0233, abs=1e-3)


def test_tallies_add_up_and_keep_to_their_protocol() -> None:
    randomizer = HadamardResponse(10, 1)
    reports = randomizer.randomize(np.arange(1000) % 10, coins=SeededNoise(1))
    whole, first = randomizer.tally(reports), randomizer.tally(reports[:300])
    before = first.counts
    kept = before.copy()
    first.add(reports[300:])
    first.add(reports[:0])
    assert (first.counts == whole.counts).all()
    assert (before == kept).all()
    assert first.people == 1000
    assert (randomizer.aggregate(first).counts == randomizer.aggregate(reports).counts).all()
    with pytest.raises(InputError, match="protocol"):
        HadamardResponse(10, 2).aggregate(first)
    with pytest.raises(InputError, match="no reports"):
        randomizer.aggregate(randomizer.tally())


def test_consistent_counts_are_the_nearest() -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        values = rng.normal(0, 10, 6)
        nearest = onto_simplex(values, 12.0)
        assert nearest.min() >= 0
        assert nearest.sum() == pytest.approx(12)
        found = minimize(
            lambda x, v=values: ((x - v) ** 2).sum(),
            np.full(6, 2.0),
            bounds=[(0, None)] * 6,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 12},
        )
        assert ((nearest - values) ** 2).sum() <= found.fun + 1e-4


def test_frequencies_answer_by_name() -> None:
    randomizer = KaryResponse(["a", "b", "c"], 2)
    found = randomizer.aggregate(randomizer.randomize([0] * 700 + [1] * 300, coins=SeededNoise(2)))
    assert found.top(1)[0][0] == "a"
    assert found.of("b").value == pytest.approx(found.counts[1])
    assert found.shares.sum() == pytest.approx(1)
    assert found.consistent().sum() == pytest.approx(1000)
    assert [row["level"] for row in found.to_json()["levels"]] == ["a", "b", "c"]
    assert "95%" in str(found.of("a"))
    with pytest.raises(QueryError):
        found.of("z")
    for level in (0.3, 1.0, True, "x"):
        with pytest.raises(QueryError):
            randomizer.aggregate([0, 1], level=level)


def test_the_mean_is_unbiased_on_its_grid() -> None:
    randomizer = MeanResponse(-2, 6, 1, grid_bits=3, bits=10)
    for step in range(9):
        law = randomizer.law(-2 + step)
        expected = sum(float(mass) * randomizer.aggregate([y]).value for y, mass in law.items())
        assert expected == pytest.approx(-2 + step, abs=1e-9)


def test_the_interval_of_a_mean_covers() -> None:
    """100 surveys of 500 people at 95 %: fewer than 85 has probability 4e-5 at true coverage 95 %;
    70 % is always caught."""
    randomizer = MeanResponse(0, 10, 1)
    values = np.linspace(1, 6, 500)
    hits = 0
    for seed in range(100):
        found = randomizer.aggregate(randomizer.randomize(values, coins=SeededNoise(seed)))
        hits += found.low <= values.mean() <= found.high
    assert hits >= 85


@pytest.mark.parametrize("values", [[0, 5], [-1], [0.5], ["a"], [[0]], None])
def test_bad_values_are_refused_without_being_quoted(values: Any) -> None:
    for randomizer in (
        KaryResponse(5, 1),
        HadamardResponse(5, 1),
        UnaryEncoding(5, 1),
        LocalHashing(5, 1),
    ):
        with pytest.raises(InputError) as caught:
            randomizer.randomize(values)
        assert "0.5" not in str(caught.value)
        assert "-1" not in str(caught.value)


@pytest.mark.parametrize("values", [["x"], [[1.0]], [object()]])
def test_bad_numbers_are_refused(values: Any) -> None:
    with pytest.raises(InputError):
        MeanResponse(0, 1, 1).randomize(values)


@pytest.mark.parametrize("reports", [[5], [-1], [0.5], ["a"], [[0]], [1 << 63]])
def test_a_report_outside_the_protocol_is_named(reports: Any) -> None:
    with pytest.raises(InputError, match=r"[Rr]eport"):
        KaryResponse(5, 1).aggregate(reports)


def test_reports_survive_a_file() -> None:
    for randomizer in BY_LEVEL:
        reports = randomizer.randomize(np.arange(50) % len(randomizer.levels), coins=SeededNoise(8))
        texts = [str(report) for report in randomizer.written(reports)]
        assert (randomizer.read(texts) == reports).all()
        assert str(randomizer.randomize_one(1, coins=SeededNoise(8))) in {
            str(code) for code in randomizer.law(1)
        } | {f"{code:02x}" for code in range(256)}
        for text in ("", "-1", "1.0", "zz", "9" * 30, "\u0661"):
            with pytest.raises(InputError):
                randomizer.read([text])


def test_protocols_are_told_apart() -> None:
    more = [
        KaryResponse(5, 2),
        KaryResponse(6, 1),
        KaryResponse(5, 1, bits=32),
        MeanResponse(0, 1, 1),
        MeanResponse(0, 2, 1),
    ]
    digests = [randomizer.digest for randomizer in (*BY_LEVEL, *more)]
    assert len(set(digests)) == len(digests)


@pytest.mark.parametrize("people", [60, 150])
@pytest.mark.parametrize(
    "levels", [0, 2, 50], ids=lambda levels: f"{levels} levels" if levels else "unary"
)
def test_intervals_hold_at_any_epsilon(levels: int, people: int) -> None:
    """By the exact law of the sum. Where hardly anybody lies, limits that stop between whole
    numbers held 80% of the time."""
    for epsilon in (0.25, 0.75, 2.0, 4.0, 6.0, 8.0, 12.0):
        ratio = math.exp(epsilon)
        rates = (
            (ratio / (ratio + levels - 1), 1 / (ratio + levels - 1))
            if levels
            else (0.5, 1 / (ratio + 1))
        )
        holder, stranger = (Fraction(rate) for rate in rates)
        sums = indicator_sums(np.arange(people + 1.0), people, holder, stranger)
        every = tuple(
            str(hits) for hits in range(people + 1)
        )  # what each number of hits would lead to
        found = frequencies(
            sums, levels=every, people=people, epsilon=Fraction(epsilon), level=0.95, together=False
        )
        for held in range(0, people + 1, people // 15):
            truths, lies = (
                binom.pmf(np.arange(n + 1), n, rate)
                for n, rate in zip((held, people - held), rates, strict=True)
            )
            law = np.convolve(truths, lies)
            assert law[(found.low <= held) & (held <= found.high)].sum() >= 0.93, (epsilon, held)
