"""A choice from bounds gives the answer of a choice from all exact scores, and asks for few of
them."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpublish.errors import PrivateSideError
from dpublish.noise.base import BoundedScores
from dpublish.noise.select import choose_bounded_index, choose_index
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder
from dpublish.noise.words import SeededStream

RULES = ("permute-and-flip", "exponential")


class Bounded(BoundedScores):
    """Scores in groups with bounds that are off by a random amount; remembers how many were asked
    for."""

    def __init__(
        self, scores: np.ndarray, starts: np.ndarray, slack: int, rng: np.random.Generator
    ) -> None:
        self.scores, self.starts, self.asked = scores, starts, 0
        spans = list(itertools.pairwise(starts.tolist()))
        self.low = np.array([scores[a:b].min(initial=99) for a, b in spans]) - rng.integers(
            0, slack + 1, len(spans)
        )
        self.high = np.array([scores[a:b].max(initial=-99) for a, b in spans]) + rng.integers(
            0, slack + 1, len(spans)
        )

    def exact(self, candidates: np.ndarray) -> np.ndarray:
        self.asked += len(candidates)
        return self.scores[candidates]


@pytest.mark.parametrize("rule", RULES)
def test_bounded_scores_give_the_same_choice_word_for_word(rule: str) -> None:
    """The answer is that of `choose_index` on all exact scores and the same stream; some groups are
    empty."""
    rng = np.random.default_rng(26)
    for seed in range(400):
        count = int(rng.integers(1, 60))
        scores = rng.integers(-30, 30, count)
        starts = np.concatenate(
            [[0], np.sort(rng.integers(0, count + 1, int(rng.integers(0, 8)))), [count]]
        ).astype(np.int64)
        exponent = Fraction(int(rng.integers(0, 60)), 100)
        bounded = Bounded(scores, starts, int(rng.integers(0, 25)), rng)
        lazy = choose_bounded_index(SeededStream(seed), bounded, exponent=exponent, rule=rule)
        assert lazy == choose_index(SeededStream(seed), scores, exponent=exponent, rule=rule)
    tape = SeededNoise(1)
    for noise in (tape, Recorder(SeededNoise(1))):
        chosen = noise.choose_bounded(
            bounded, sensitivity=Fraction(1), epsilon=Fraction(1), rule=rule
        )
        assert chosen == SeededNoise(1).choose(
            scores, sensitivity=Fraction(1), epsilon=Fraction(1), rule=rule
        )


def test_few_bounded_scores_are_asked_for_and_false_bounds_are_noticed() -> None:
    rng = np.random.default_rng(27)
    scores = np.sort(rng.integers(0, 10_000, 20_000))
    bounded = Bounded(scores, np.arange(0, 20_001, 100), 5, rng)
    choose_bounded_index(
        SeededStream(1), bounded, exponent=Fraction(1, 200), rule="permute-and-flip"
    )
    assert bounded.asked < 200
    bounded.high -= 9000
    bounded.low -= 9000
    with pytest.raises(PrivateSideError):
        choose_bounded_index(
            SeededStream(1), bounded, exponent=Fraction(1, 200), rule="permute-and-flip"
        )
