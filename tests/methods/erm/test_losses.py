"""The losses: what a privacy proof assumes of them, checked against 200-bit arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from dpublish.methods.erm.losses import HuberLoss, LogisticLoss, Loss

LOSSES: list[Loss] = [
    LogisticLoss(),
    HuberLoss(Fraction(1, 2)),
    HuberLoss(Fraction(1, 16)),
    HuberLoss(Fraction(3)),
]
POINTS = np.concatenate(
    [np.linspace(-40, 40, 4001), [-750.0, -1e-300, 0.0, 1e-300, 750.0, 0.5, 1.5, 1e6, -1e6]]
)


def exact_slope(loss: Loss, margin: float) -> arb:
    z = arb(margin)
    if isinstance(loss, LogisticLoss):
        return -1 / (1 + z.exp())
    assert isinstance(loss, HuberLoss)
    short = (1 + loss.width - Fraction(margin)) / (2 * loss.width)
    bounded = min(max(short, Fraction(0)), Fraction(1))
    return -arb(bounded.numerator) / arb(bounded.denominator)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_slopes_are_within_the_stated_error(loss: Loss) -> None:
    computed = loss.slopes(POINTS)
    with ctx.workprec(200):
        for margin, slope in zip(POINTS.tolist(), computed.tolist(), strict=True):
            assert abs(arb(slope) - exact_slope(loss, margin)) <= arb(loss.slope_error)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_slopes_are_bounded_monotone_and_lipschitz(loss: Loss) -> None:
    points = np.linspace(-20, 20, 20_001)
    slopes = loss.slopes(points)
    assert np.all(slopes <= 0)
    assert np.all(slopes >= -1)
    assert np.all(np.diff(slopes) >= -1e-15)
    steepest = float((np.diff(slopes) / np.diff(points)).max())
    assert steepest <= float(loss.curvature_bound) * (1 + 1e-9)
    # the constant is tight: half of it would not do
    assert steepest > 0.9 * float(loss.curvature_bound)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_values_slopes_and_curvatures_belong_together(loss: Loss) -> None:
    points = np.linspace(-6, 6, 1201) + 1e-4  # off the corners of the Huber loss
    step = 1e-5
    slopes = (loss.values(points + step) - loss.values(points - step)) / (2 * step)
    assert np.allclose(slopes, loss.slopes(points), atol=1e-8)
    curvatures = (loss.slopes(points + step) - loss.slopes(points - step)) / (2 * step)
    assert np.allclose(curvatures, loss.curvatures(points), atol=1e-5)


def test_values_at_known_points() -> None:
    assert LogisticLoss().values(np.array([0.0, 800.0, -800.0])) == pytest.approx(
        [np.log(2), 0.0, 800.0]
    )
    huber = HuberLoss(Fraction(1, 2))
    assert huber.values(np.array([2.0, 1.0, 0.0, -3.0])) == pytest.approx([0.0, 0.125, 1.0, 4.0])
