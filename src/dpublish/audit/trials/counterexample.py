"""The thesis's counter-example (Roth 2010, theorem 13): differentially private, and refuted for
samples of one population."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.audit import neighbours
from dpublish.audit.trials.trial import Distributional, Sampled, Trial
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.workloads import theory

MODULUS = 3
EPSILON = Fraction(1, 2)
POPULATION = (0, 1) * 40
ROWS = 24


def folded_count(noise: Noise, rows: Any) -> int:
    """A count folded into a wave of slope 1: a row moves it by at most 1, and a sample takes it
    anywhere."""
    folded = np.array([theory.mirrored_mod(sum(rows), MODULUS)], dtype=np.int64)
    return int(noise.laplace(folded, sensitivity=Fraction(1), epsilon=EPSILON)[0])


def mirrored_mod() -> Iterator[Trial]:
    """Survives the tiers about neighbours and fails the one about samples, as it must."""
    yield Trial(
        method="mirrored-mod",
        case="replace-one",
        neighbours="replace-one",
        claim=Cost.pure(EPSILON),
        call=folded_count,
        pairs=list(neighbours.replace_one((0, 1), rows=4)),
        sampled=Sampled(runs=2000),
        twin="it is an example, which no command publishes",
        distributional=Distributional(population=POPULATION, rows=ROWS, alpha=EPSILON),
    )
