"""The sparse vector through the tap: its law, its privacy, and the broken variants that an audit
must catch."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.errors import PlanError
from dpublish.methods.online.sparse_vector import LIMIT, SparseVector, exact_laplace
from dpublish.noise.base import Noise
from dpublish.noise.select import sparse_vector_scales
from dpublish.noise.source import SeededNoise

ONE = Fraction(1)
# Query values on neighbouring data; each moves by at most 1, not all the same way.
PAIRS = [((1, 1, 1), (0, 0, 0)), ((0, 1, 0), (1, 0, 1)), ((0, 0, 1), (1, 1, 0))]
LONG = [((1,) * 100 + (0,) * 100, (0,) * 100 + (1,) * 100)]
EXACT: dict[str, Any] = {"epsilon": 1, "window": (-3, 4)}


def session(noise: Noise, answers: tuple[int, ...], *, max_hits: int = 1) -> tuple[bool, ...]:
    vector = SparseVector(epsilon=ONE, sensitivity=1, max_hits=max_hits)
    threshold = vector.draw_threshold(noise, 0)
    shown: list[bool] = []
    for answer in answers:
        shown.append(vector.reaches(noise, answer, threshold))
        if sum(shown) == max_hits:
            break
    return tuple(shown)


def draw(noise: Noise, value: int, epsilon: Fraction) -> int:
    return int(
        noise.laplace(np.array([value], dtype=np.int64), sensitivity=ONE, epsilon=epsilon)[0]
    )


def algorithm_3(noise: Noise, answers: tuple[int, ...]) -> tuple[int | None, ...]:
    """Shows the very noisy value that was compared (Lyu, Su and Li, algorithm 3)."""
    threshold = draw(noise, 0, Fraction(1, 4))
    shown: list[int | None] = []
    for answer in answers:
        noisy = draw(noise, answer, Fraction(3, 8))
        shown.append(noisy if noisy >= threshold else None)
        if shown[-1] is not None:
            break
    return tuple(shown)


def algorithm_4(noise: Noise, answers: tuple[int, ...]) -> tuple[bool, ...]:
    """The noise of the values lacks the factor 2c (algorithm 4)."""
    threshold = draw(noise, 0, Fraction(1, 4))
    shown: list[bool] = []
    for answer in answers:
        shown.append(draw(noise, answer, Fraction(3, 4)) >= threshold)
        if shown[-1]:
            break
    return tuple(shown)


def algorithm_5(noise: Noise, answers: tuple[int, ...]) -> tuple[bool, ...]:
    """The values have no noise, and there is no limit on hits (algorithm 5)."""
    threshold = draw(noise, 0, ONE)
    return tuple(answer >= threshold for answer in answers)


def algorithm_6(noise: Noise, answers: tuple[int, ...]) -> tuple[bool, ...]:
    """No limit on hits (algorithm 6)."""
    threshold = draw(noise, 0, Fraction(1, 2))
    noisy = noise.laplace(
        np.array(answers, dtype=np.int64), sensitivity=ONE, epsilon=Fraction(1, 4)
    )
    return tuple((noisy >= threshold).tolist())


def fixed_threshold(noise: Noise, answers: tuple[int, ...]) -> tuple[bool, ...]:
    """The threshold has no noise."""
    shown: list[bool] = []
    for answer in answers:
        shown.append(draw(noise, answer, Fraction(1, 2)) >= 0)
        if shown[-1]:
            break
    return tuple(shown)


def threshold_drawn_again(noise: Noise, answers: tuple[int, ...]) -> tuple[bool, ...]:
    """Every query gets a fresh threshold, as a session would that forgot its secret at each
    restart."""
    thresholds = noise.laplace(
        np.zeros(len(answers), dtype=np.int64), sensitivity=ONE, epsilon=Fraction(1, 3)
    )
    noisy = noise.laplace(
        np.array(answers, dtype=np.int64), sensitivity=ONE, epsilon=Fraction(1, 3)
    )
    return tuple((noisy >= thresholds).tolist())


def early_less_late(shown: tuple[bool, ...]) -> int:
    return sum(shown[:100]) - sum(shown[100:])


@pytest.mark.parametrize("broken", [algorithm_3, algorithm_4, algorithm_5, fixed_threshold])
def test_broken_variants_are_caught_exactly(broken: Any) -> None:
    report = audit.exact(broken, PAIRS, **EXACT)
    assert not report.passed
    assert {finding.check for finding in report.findings} == {"privacy"}


@pytest.mark.parametrize("broken", [algorithm_6, threshold_drawn_again])
def test_broken_variants_are_caught_by_samples(broken: Any) -> None:
    report = audit.sampled(broken, LONG, epsilon=1, samples=600, statistics=[early_less_late])
    assert not report.passed


def test_the_shipped_one_survives_the_same_audits() -> None:
    """Sampled: false-alarm rate 1e-3 as `audit.sampled` states; the exact one is exact."""
    report = audit.exact(session, PAIRS, **EXACT)
    assert report.passed, report.summary()
    assert 0.3 < report.loss <= 1 + 1e-9
    sampled = audit.sampled(session, LONG, epsilon=1, samples=200, statistics=[early_less_late])
    assert sampled.passed, sampled.summary()


def test_replay_sees_the_private_value() -> None:
    assert audit.replay(session, PAIRS, runs=4).passed

    def hidden(noise: Noise, answers: tuple[int, ...]) -> bool:
        vector = SparseVector(epsilon=ONE, sensitivity=1, max_hits=1)
        return vector.reaches(noise, 3 * answers[0], vector.draw_threshold(noise, 0))

    report = audit.replay(hidden, PAIRS)
    assert {finding.check for finding in report.findings} == {"distance"}


def test_scales_are_those_of_the_exact_sampler() -> None:
    vector = SparseVector(epsilon=Fraction(1, 2), sensitivity=7, max_hits=20)
    expected = sparse_vector_scales(epsilon=Fraction(1, 2), sensitivity=Fraction(7), max_hits=20)
    assert vector.scales == expected
    # the loss adds up: e1 + 2 c e2 = epsilon, where a scale is sensitivity / e
    assert 7 / expected[0] + 2 * 20 * 7 / expected[1] == Fraction(1, 2)


class Saturating(SeededNoise):
    """A tap whose first answers are at the limit, as the real one's are once in exp(2^61 /
    scale)."""

    def __init__(self, *answers: int) -> None:
        super().__init__(1)
        self.answers = list(answers)

    def laplace(self, values: Any, **rest: Any) -> Any:
        return np.array([self.answers.pop(0)]) if self.answers else super().laplace(values, **rest)


def test_beyond_the_limit_the_noise_goes_on() -> None:
    def value(*answers: int) -> int:
        return exact_laplace(Saturating(*answers), 3, sensitivity=ONE, epsilon=ONE, label="x")

    assert value(12) == 12
    assert value(LIMIT, -1, -5, 4) == LIMIT + 4
    assert value(-LIMIT, LIMIT, 2) == -2 * LIMIT - 2


def test_law_of_a_comparison() -> None:
    """Mean and spread of 4,000 draws; five standard errors, so the false-alarm rate is below 1e-6;
    sees a scale off by 15%."""
    noise = SeededNoise(5)
    drawn = np.array(
        [
            exact_laplace(noise, 10, sensitivity=ONE, epsilon=Fraction(1, 4), label="x")
            for _ in range(4000)
        ]
    )
    deviation = math.sqrt(2) * 4
    assert abs(drawn.mean() - 10) < 5 * deviation / math.sqrt(4000)
    assert abs(np.abs(drawn - 10).mean() - 4) < 5 * 4 / math.sqrt(4000)


@pytest.mark.parametrize("wrong", [{"epsilon": Fraction(0)}, {"sensitivity": 0}, {"max_hits": 0}])
def test_wrong_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        SparseVector(**{"epsilon": ONE, "sensitivity": 1, "max_hits": 1, **wrong})
