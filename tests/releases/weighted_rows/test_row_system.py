"""Error bars without matrices: the same as with them."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.declare.domain import Axis
from dpublish.models.linear_features import WeightFeatures
from dpublish.releases.weighted_rows import means as weighted_means
from dpublish.releases.weighted_rows.means import Noise, Propagation, RowSystem

LEVELS = (4, 3, 6)


def propagation(rows: int = 400) -> tuple[Propagation, np.ndarray]:
    rng = np.random.default_rng(8)
    axes = tuple(
        Axis(f"c{place}", "categorical", levels=tuple(f"v{i}" for i in range(size)))
        for place, size in enumerate(LEVELS)
    )
    features = WeightFeatures(axes, ((0, 1), (1, 2)))
    # one level of the last column has no row
    codes = [rng.integers(0, size - (size == 6), rows) for size in LEVELS]
    masses = rng.dirichlet(np.full(rows, 3.0))
    size = features.dimension
    noise = Noise(
        balanced=False,
        ridge=rng.uniform(1e-4, 1e-2, size),
        gradient=rng.uniform(1e-3, 1e-2, size),
        coefficient=0.0,
        rows=5000.0,
    )
    made = Propagation(
        features, codes, masses, np.full(rows, 1 / rows), rng.normal(0, 0.3, size), noise
    )
    return made, masses


@pytest.mark.parametrize("question", ["one level", "two columns", "beyond the features"])
def test_both_ways_agree(question: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dense, masses = propagation()
    monkeypatch.setattr(weighted_means, "MAX_DENSE", 0)
    large, _ = propagation()
    codes = dense._codes
    values = {
        "one level": (codes[0] == 2).astype(float),
        "two columns": (codes[0] < 2) * (codes[2] == 1) * 1.0,
        "beyond the features": np.random.default_rng(1).normal(0, 1, len(masses)),
    }[question]
    mean = float(masses @ values)
    slope = dense._features.sums(codes, masses * (values - mean))
    assert large._large is not None
    assert large.errors(slope) == pytest.approx(dense.errors(slope), rel=5e-3, abs=1e-6)
    variance = float(masses @ (values - mean) ** 2)
    assert large.explained(slope, variance) == pytest.approx(
        dense.explained(slope, variance), abs=1e-3
    )


def test_a_question_without_slope() -> None:
    dense, masses = propagation()
    system = RowSystem(dense._features, dense._codes, masses, dense._noise.ridge)
    zero = np.zeros(dense._features.dimension)
    assert not system.solve(zero).any()
    assert system.explained(zero) == 0.0
    assert system.variance(zero) == 0.0
