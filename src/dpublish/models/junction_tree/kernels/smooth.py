"""Counts of ordered levels from noisy ones: the most likely curve, for one idea of its roughness
after another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit

Floats = NDArray[np.float64]

STEPS = 40
SMALL_STEP = 1e-3
NOTHING = 1e-9
LONGEST = 3.0
"""A step changes no count by more than a factor of exp(3)."""


@njit(cache=True, nogil=True)
def smooth_counts(
    noisy: Floats, precision: Floats, base: Floats, priors: Floats, volumes: Floats
) -> tuple[Floats, float]:
    """The average of the fits, each weighted by how likely it makes the noisy counts (its
    evidence).

    The fit for a prior Q is base * exp(f), f least in

        (1/2) (base e^f - noisy)' precision (base e^f - noisy) + (1/2) f' Q f

    found by Gauss and Newton's steps, each halved until it goes down. Priors go from stiff to
    loose, and each fit begins where the one before ended; `volumes` are the logarithms of their
    determinants. The evidence is Laplace's approximation around the fit. The second number is how
    many counts the fit could follow freely (its degrees of freedom): of the noise, about that share
    of all levels is left.
    """
    fits, levels = len(priors), len(noisy)
    curve = np.zeros(levels)
    found, evidence = np.zeros((fits, levels)), np.zeros(fits)
    for place in range(fits):
        prior = priors[place]
        counts = base * np.exp(curve)
        away, pull = counts - noisy, prior @ curve
        least = 0.5 * (away @ (precision @ away)) + 0.5 * (curve @ pull)
        for _ in range(STEPS):
            slope = counts * (precision @ away) + pull
            bend = prior + precision * counts * counts.reshape(-1, 1)
            step = np.linalg.solve(bend, -slope)
            step *= min(1.0, LONGEST / max(1e-300, np.abs(step).max()))
            length, gain = 1.0, 0.0
            while length > SMALL_STEP:
                tried = curve + length * step
                counts = base * np.exp(tried)
                away, pull = counts - noisy, prior @ tried
                now = 0.5 * (away @ (precision @ away)) + 0.5 * (tried @ pull)
                gain = least - now
                if gain > 0.0:
                    break
                length /= 2.0
            if not gain > 0.0:
                break
            curve, least = tried, now
            if gain < SMALL_STEP:
                break
        counts = base * np.exp(curve)
        bend = prior + precision * counts * counts.reshape(-1, 1)
        found[place] = counts
        evidence[place] = -least + 0.5 * (volumes[place] - np.linalg.slogdet(bend)[1])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    freedom = 0.0
    for place in range(fits):
        if weights[place] > NOTHING:
            bend = priors[place] + precision * found[place] * found[place].reshape(-1, 1)
            freedom += weights[place] * (levels - np.trace(np.linalg.solve(bend, priors[place])))
    return weights @ found, freedom
