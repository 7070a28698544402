"""Hypotheses: the listed ones are all there, the sampled ones have the right law, and both agree
with the answers."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.errors import PlanError
from dpublish.methods.online.kernels import mean_closeness, reweight, tilt, walk_flags, walk_shares
from dpublish.methods.online.median.mechanism import (
    SAMPLES,
    ListedHypotheses,
    SampledHypotheses,
    listed_count,
)

SEED = bytes(range(16))


def flags(*cells: int, size: int = 4) -> np.ndarray:
    out = np.zeros(size)
    out[list(cells)] = 1
    return out


def test_listed_hypotheses_are_all_databases() -> None:
    listed = ListedHypotheses(3, 4)
    assert listed_count(3, 4) == 15
    values = listed.values(flags(0, size=3))
    assert sorted(np.rint(values * 4).astype(int)) == [0] * 5 + [1] * 4 + [2] * 3 + [3] * 2 + [4]
    listed.learn(flags(0, size=3), 0.5, 0.01)
    assert np.allclose(listed.values(flags(0, size=3)), 0.5)
    assert len(listed.values(flags(1, size=3))) == 3
    listed.learn(flags(1, size=3), 0.1, 0.01)
    assert listed.values(flags(0, size=3)).size == 0
    with pytest.raises(PlanError, match="use sampling"):
        ListedHypotheses(1000, 10)


@pytest.mark.parametrize("linear", [False, True])
def test_samples_agree_with_the_answers(linear: bool) -> None:
    rng = np.random.default_rng(2)
    cells = 60
    truth = rng.dirichlet(np.ones(cells))
    made = SampledHypotheses(cells, SEED)
    queries = [
        rng.random(cells) if linear and i % 2 else (rng.random(cells) < 0.5).astype(float)
        for i in range(12)
    ]
    for query in queries:
        made.learn(query, float(query @ truth), 0.002)
    assert made.table.shape == (SAMPLES, cells)
    assert made.table.min() >= 0
    assert np.allclose(made.table.sum(axis=1), 1)
    for query in queries:
        assert np.abs(made.values(query) - query @ truth).max() <= 0.002 + 1e-6


def test_same_answers_same_samples() -> None:
    def made(seed: bytes) -> np.ndarray:
        one = SampledHypotheses(20, seed)
        one.learn(flags(0, 1, size=20), 0.3, 0.01)
        one.learn(flags(2, size=20), 0.1, 0.01)
        return one.table

    assert np.array_equal(made(SEED), made(SEED))
    assert not np.array_equal(made(SEED), made(bytes(16)))


def test_contradicting_answers_widen_the_bands() -> None:
    made = SampledHypotheses(4, SEED)
    made.learn(flags(0, 1), 0.2, 0.001)
    made.learn(flags(0), 0.6, 0.001)
    values = made.values(flags(0, 1))
    assert np.all(np.isfinite(values))
    assert values.min() > 0.1
    assert made.table.min() >= 0


def test_the_walk_is_uniform_on_the_simplex_and_on_a_cut() -> None:
    """4,000 states 3 sweeps apart on 3 cells. A coordinate of the uniform law on the simplex has
    F(t) = 1 - (1 - t)^2; cut to x0 <= 1/2 it has F / (3/4). Kolmogorov distance below 0.05: with
    1,000 or more independent states the false-alarm rate is below 2 exp(-2 * 1000 * 0.05^2) =
    0.013, and the seed is fixed; a walk that favours corners or the middle by 10% is seen."""
    for cut, top in ((2.0, 1.0), (0.5, 0.75)):
        state = np.array([7], dtype=np.uint64)
        x = np.full(3, 1 / 3)
        matrix = flags(0, size=3).astype(np.float32)[:, None]
        seen = np.empty(4000)
        for i in range(seen.size):
            off = x[:1] - (cut - 1.0)
            walk_flags(x, matrix, off, 1.0, 9, state)
            seen[i] = x[0]
        assert seen.max() <= min(cut, 1.0) + 1e-9
        law = (1 - (1 - np.sort(seen)) ** 2) / top
        assert np.abs(law - (np.arange(seen.size) + 0.5) / seen.size).max() < 0.05


@pytest.mark.parametrize(("steps", "apart"), [(50, 1e-12), (2000, 1e-3)])
def test_fast_walk_is_the_slow_walk(steps: int, apart: float) -> None:
    """The same moves; rounding differs in the last bit and is magnified step by step."""
    rng = np.random.default_rng(3)
    queries = (rng.random((10, 40)) < 0.5).astype(float)
    start = rng.dirichlet(np.ones(40))
    ends = []
    for walk, kind in ((walk_flags, np.float32), (walk_shares, np.float64)):
        x, state = start.copy(), np.array([11], dtype=np.uint64)
        off = queries @ x - queries @ start
        walk(x, np.ascontiguousarray(queries.T, dtype=kind), off, 0.01, steps, state)
        assert np.allclose(off, queries @ x - queries @ start, atol=1e-12)
        ends.append(x)
    assert np.allclose(ends[0], ends[1], atol=apart)


def test_tilting_meets_the_targets_and_keeps_the_rest_even() -> None:
    x = np.full(8, 1 / 8)
    queries = np.array([flags(0, 1, size=8), np.linspace(0, 1, 8)])
    assert tilt(x, queries, np.array([0.5, 0.4]), 1e-6, 500) <= 1e-6
    assert np.allclose(queries @ x, [0.5, 0.4], atol=1e-5)
    assert x.sum() == pytest.approx(1)
    one = np.full(8, 1 / 8)
    tilt(one, queries[:1], np.array([0.5]), 1e-9, 5)
    assert np.allclose(one, [0.25, 0.25] + [0.5 / 6] * 6)


def test_reweighting_moves_towards_the_answers() -> None:
    x = np.full(8, 1 / 8)
    query = flags(0, size=8)[None, :]
    reweight(x, query, np.array([0.6]), 200)
    assert x[0] == pytest.approx(0.6, abs=0.02)
    assert np.allclose(x[1:], x[1])


def test_mean_closeness_is_the_mean() -> None:
    points = np.sort(np.random.default_rng(4).normal(size=50)) * 100
    slow = np.exp(-np.abs(points[:, None] - points[None, :]) / 30).mean(axis=1)
    assert np.allclose(mean_closeness(points, 30.0), slow)
