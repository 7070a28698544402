"""Distributional privacy: the thesis's counter-example is caught, a mechanism with enough noise
survives."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit import neighbours
from dpublish.errors import InputError
from dpublish.noise.base import Noise
from dpublish.workloads import theory

POPULATION = (0, 1) * 40
ROWS = 24


def mirrored(noise: Noise, rows: Any) -> int:
    """Theorem 13's example: epsilon-DP with epsilon 1/2, because the wave has slope 1."""
    folded = np.array([theory.mirrored_mod(sum(rows), 3)], dtype=np.int64)
    return int(noise.laplace(folded, sensitivity=Fraction(1), epsilon=Fraction(1, 2))[0])


def careful(noise: Noise, rows: Any) -> int:
    """A count whose noise covers what samples of 24 rows differ by: six standard deviations of the
    difference, about 18."""
    count = np.array([sum(rows)], dtype=np.int64)
    return int(noise.laplace(count, sensitivity=Fraction(1), epsilon=Fraction(1, 36))[0])


def test_the_planted_counter_example_is_private_for_neighbours_and_refuted_for_samples() -> None:
    pairs = list(neighbours.replace_one((0, 1), rows=4))
    assert audit.exact(mirrored, pairs, epsilon=Fraction(1, 2), window=(-3, 6)).passed
    report = audit.distributional(mirrored, POPULATION, rows=ROWS, alpha=Fraction(1, 2), beta=0.05)
    assert not report.passed
    assert report.loss == pytest.approx(1.0)
    assert report.lower_bound > 0.05
    assert {finding.check for finding in report.findings} == {"distribution"}
    assert "population" in report.summary()
    assert report.to_json()["tier"] == "distributional"


def test_enough_noise_survives() -> None:
    """No chance is involved: the pairs are fixed, and none is beyond alpha unless counts differ by
    more than 18."""
    report = audit.distributional(
        careful, POPULATION, rows=ROWS, alpha=Fraction(1, 2), window=(-5, 30)
    )
    assert report.passed
    assert report.beyond == 0
    assert 0 < report.loss <= 0.5


def test_a_few_bad_pairs_are_allowed() -> None:
    """A claim with beta above the share of bad pairs is not refuted, though bad pairs were seen."""
    report = audit.distributional(mirrored, POPULATION, rows=ROWS, alpha=Fraction(1, 2), beta=0.9)
    assert report.passed
    assert report.beyond > 0


def test_samples_are_drawn_without_replacement() -> None:
    seen: list[Any] = []

    def record(noise: Noise, rows: Any) -> int:
        seen.append(rows)
        return 0

    audit.distributional(record, tuple(range(30)), rows=10, alpha=1, pairs=5)
    assert all(len(set(rows)) == 10 for rows in seen)
    assert len(set(seen)) == 10


@pytest.mark.parametrize(
    "settings",
    [
        {"rows": 0},
        {"rows": 81},
        {"alpha": 0},
        {"beta": 1},
        {"beta": -0.1},
        {"pairs": 0},
        {"false_alarm": 0},
    ],
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        audit.distributional(mirrored, POPULATION, **{"rows": 4, "alpha": 1, **settings})
