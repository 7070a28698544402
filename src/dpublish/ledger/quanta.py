"""Amounts as whole numbers, so that a database can compare them exactly.

Epsilon and rho are counted in units of 1e-15, delta in units of 1e-18; both fit 64-bit integers.
Costs are rounded up and caps down: the true spending is never above what the ledger shows.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, NamedTuple

from dpublish.errors import PlanError
from dpublish.privacy.cost import Budget, Cost

EPSILON_QUANTUM: Final = Fraction(1, 10**15)
RHO_QUANTUM: Final = Fraction(1, 10**15)
DELTA_QUANTUM: Final = Fraction(1, 10**18)
LARGEST: Final = 2**63 - 1


class Quanta(NamedTuple):
    """Three whole numbers of quanta."""

    epsilon: int = 0
    delta: int = 0
    rho: int = 0

    @classmethod
    def of_cost(cls, cost: Cost) -> Quanta:
        """The smallest amounts that cover the cost."""
        return cls(
            math.ceil(cost.epsilon / EPSILON_QUANTUM),
            math.ceil(cost.delta / DELTA_QUANTUM),
            math.ceil(cost.rho / RHO_QUANTUM),
        )

    @classmethod
    def of_cap(cls, budget: Budget) -> Quanta:
        """The largest amounts within the budget."""
        cap = budget.cap
        amounts = cls(
            math.floor(cap.epsilon / EPSILON_QUANTUM),
            math.floor(cap.delta / DELTA_QUANTUM),
            math.floor(cap.rho / RHO_QUANTUM),
        )
        if max(amounts) > LARGEST:
            raise PlanError(
                "A ledger holds at most epsilon or rho = 9223. A budget that large protects "
                "nobody; give a smaller one."
            )
        if amounts.epsilon == 0 and amounts.rho == 0:
            raise PlanError(
                "The budget is below the smallest amount a ledger counts, 1e-15. Give a larger one."
            )
        return amounts

    def cost(self) -> Cost:
        return Cost(
            epsilon=self.epsilon * EPSILON_QUANTUM,
            delta=self.delta * DELTA_QUANTUM,
            rho=self.rho * RHO_QUANTUM,
        )

    def plus(self, other: Quanta) -> Quanta:
        return Quanta(self.epsilon + other.epsilon, self.delta + other.delta, self.rho + other.rho)

    def minus(self, other: Quanta) -> Quanta:
        return Quanta(self.epsilon - other.epsilon, self.delta - other.delta, self.rho - other.rho)

    def within(self, other: Quanta) -> bool:
        return self.epsilon <= other.epsilon and self.delta <= other.delta and self.rho <= other.rho

    def beyond(self, other: Quanta) -> Quanta:
        """What this has above the other, component by component."""
        return Quanta(
            max(self.epsilon - other.epsilon, 0),
            max(self.delta - other.delta, 0),
            max(self.rho - other.rho, 0),
        )
