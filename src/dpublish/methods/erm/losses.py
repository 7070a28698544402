"""Convex losses of a margin, with the constants that a privacy proof needs.

For every loss here: convex, differentiable, |derivative| <= 1, and the derivative moves by at most
`curvature_bound` times the move of the margin. A larger margin is better, so derivatives are never
positive.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from dpublish.arrays import Floats
from dpublish.noise.balls import fraction_ball

EXP_ERROR = 2.0**-46
"""Trusted: numpy's exp has a relative error below this (128 units in the last place; good libraries
stay below 1)."""


class Loss(abc.ABC):
    @property
    @abc.abstractmethod
    def curvature_bound(self) -> Fraction:
        """The Lipschitz constant of the derivative."""

    @property
    @abc.abstractmethod
    def slope_error(self) -> float:
        """How far `slopes` may be from the derivative at the same double."""

    @abc.abstractmethod
    def values(self, margins: Floats) -> Floats: ...

    @abc.abstractmethod
    def slopes(self, margins: Floats) -> Floats:
        """Derivatives."""

    @abc.abstractmethod
    def slope_ball(self, margin: arb) -> arb:
        """The derivative, as a ball that surely holds it wherever in its ball the margin lies."""

    @abc.abstractmethod
    def curvatures(self, margins: Floats) -> Floats:
        """Second derivatives, where they exist. They steer the solver and nothing else."""


@dataclass(frozen=True)
class LogisticLoss(Loss):
    """log(1 + exp(-margin))."""

    @property
    def curvature_bound(self) -> Fraction:
        return Fraction(1, 4)

    @property
    def slope_error(self) -> float:
        return 2.0 * EXP_ERROR

    def values(self, margins: Floats) -> Floats:
        # small arguments of exp only, so that nothing overflows
        return np.log1p(np.exp(-np.abs(margins))) + np.maximum(-margins, 0.0)

    def slopes(self, margins: Floats) -> Floats:
        decay = np.exp(-np.abs(margins))
        return -np.where(margins > 0.0, decay, 1.0) / (1.0 + decay)

    def slope_ball(self, margin: arb) -> arb:
        # the exponential of a negative number, so that nothing overflows
        if margin.mid() > 0:
            decay = (-margin).exp()
            return -decay / (1 + decay)
        return -1 / (1 + margin.exp())

    def curvatures(self, margins: Floats) -> Floats:
        decay = np.exp(-np.abs(margins))
        return decay / (1.0 + decay) ** 2


@dataclass(frozen=True)
class HuberLoss(Loss):
    """The hinge max(0, 1 - margin) with its corner replaced by a parabola of half-width `width`."""

    width: Fraction

    @property
    def curvature_bound(self) -> Fraction:
        return 1 / (2 * self.width)

    @property
    def slope_error(self) -> float:
        # below 16 roundings of numbers no larger than 1 + 1/width, plus the conversion of the width
        # itself
        return float(1 + 1 / self.width) * 2.0**-48

    def values(self, margins: Floats) -> Floats:
        width = float(self.width)
        short = 1.0 + width - margins
        bent = np.clip(short, 0.0, 2.0 * width) ** 2 / (4.0 * width)
        return bent + np.maximum(short - 2.0 * width, 0.0)

    def slopes(self, margins: Floats) -> Floats:
        width = float(self.width)
        return -np.clip((1.0 + width - margins) / (2.0 * width), 0.0, 1.0)

    def slope_ball(self, margin: arb) -> arb:
        width = fraction_ball(self.width)
        short = (1 + width - margin) / (2 * width)
        middle = short.mid()
        # clipping moves no two numbers apart, so the radius stays
        return -arb(arb(0) if middle < 0 else arb(1) if middle > 1 else middle, short.rad())

    def curvatures(self, margins: Floats) -> Floats:
        width = float(self.width)
        return np.where(np.abs(1.0 - margins) <= width, 1.0 / (2.0 * width), 0.0)
