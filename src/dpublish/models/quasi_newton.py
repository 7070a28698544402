"""An approximate inverse Hessian that learns from the steps taken since it was made (limited-memory
BFGS, two-loop form)."""

from __future__ import annotations

from collections.abc import Callable

from dpublish.arrays import Floats


class InverseHessian:
    """`solve` applies the inverse of a Hessian that may be rough or old; `learn` corrects it by
    what gradients really did."""

    def __init__(self, solve: Callable[[Floats], Floats]) -> None:
        self._solve = solve
        self._seen: list[tuple[Floats, Floats, float]] = []

    def learn(self, change: Floats, bend: Floats) -> None:
        """A move of the point, and the move of the gradient that it made."""
        product = float(bend @ change)
        if product > 0.0:
            self._seen.append((change, bend, product))

    def times(self, vector: Floats) -> Floats:
        found, shares = vector.copy(), []
        for change, bend, product in reversed(self._seen):
            share = float(change @ found) / product
            shares.append(share)
            found -= share * bend
        found = self._solve(found)
        for (change, bend, product), share in zip(self._seen, reversed(shares), strict=True):
            found = found + (share - float(bend @ found) / product) * change
        return found
