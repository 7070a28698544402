"""Floating-point noise and scales that only samples show.

Each audit has a false-alarm rate of 1e-6 and fixed seeds; what it would miss is stated by the
report's `detectable`.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from .registry import ONE, bug, by_samples, whole

COUNT = [((), (1,))]


def uniform(noise):
    return (int(noise.integers(2**53, size=1)[0]) + 1) / (2**53 + 1)


def float_laplace(noise, rows):
    """The textbook sampler: holes in its range depend on the true count (Mironov 2012)."""
    size = -math.log(uniform(noise))
    return len(rows) + (size if uniform(noise) < 0.5 else -size)


def integer_laplace(noise, rows):
    return int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0])


def lattice_laplace(noise, rows):
    """Real-valued output on a public grid: multiples of 2^-10."""
    return (
        int(
            noise.gamma_norm(
                [Fraction(len(rows))], grid=Fraction(1, 1024), sensitivity=ONE, epsilon=ONE
            )[0]
        )
        / 1024
    )


def float_exponential(noise, scores):
    """Weights overflow: a score of 1420 weighs infinity, 1419 does not."""
    with np.errstate(over="ignore", invalid="ignore"):
        weights = np.exp(0.5 * np.array(scores, dtype=float))
        edges = np.cumsum(weights / weights.sum())
    return int(np.searchsorted(edges, uniform(noise)))


def exact_exponential(noise, scores):
    return noise.choose(list(scores), sensitivity=ONE, epsilon=ONE, rule="exponential")


def half_the_noise(noise, rows):
    return int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=2 * ONE)[0])


def gaussian_half_the_noise(noise, rows):
    return int(noise.gaussian(whole([len(rows)]), sensitivity=ONE, rho=4 * ONE)[0])


def gaussian(noise, rows):
    return int(noise.gaussian(whole([len(rows)]), sensitivity=ONE, rho=Fraction(1, 50))[0])


FLOATS = (
    bug(
        "floating-point Laplace",
        "sampled",
        "privacy",
        broken=float_laplace,
        correct=lattice_laplace,
        run=by_samples(COUNT, samples=1000),
    ),
    bug(
        "floating-point exponential mechanism that overflows",
        "sampled",
        "privacy",
        broken=float_exponential,
        correct=exact_exponential,
        run=by_samples([((1419, 1419), (1419, 1420))], samples=1000),
    ),
    bug(
        "half the Laplace noise",
        "sampled",
        "privacy",
        broken=half_the_noise,
        correct=integer_laplace,
        run=by_samples(COUNT),
    ),
    bug(
        "half the Gaussian noise",
        "sampled",
        "privacy",
        broken=gaussian_half_the_noise,
        correct=gaussian,
        run=by_samples(COUNT, delta=Fraction(1, 1000), samples=1500),
    ),
)
