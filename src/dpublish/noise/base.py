"""The one tap: every private number that leaves dpublish passes through a method of `Noise`.

A method takes the private value itself, not just a noise scale, and returns the noisy answer. It
only writes down what is asked as a `Draw`; `answer` does the rest. That shape is what makes the
audits cheap: a recorder keeps draws and answers, a replayer hands out the recorded answer while it
measures how far the new value is from the old one, and an enumerator explores every answer with its
exact probability. Each of them is one `answer`.

Privacy parameters are exact `Fraction`s. `sensitivity` is the distance between neighbouring inputs
that the caller has proved (L1 for Laplace, L2 for Gaussian and gamma-norm, L-infinity for choices).
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from dpublish.arrays import Ints, Words

ChoiceRule = Literal["permute-and-flip", "exponential"]
DrawKind = Literal[
    "laplace",
    "sparse-laplace",
    "partitions",
    "gaussian",
    "choose",
    "choose-bounded",
    "gamma-norm",
    "lattice-gaussian",
    "integers",
    "key",
]


class BoundedScores(abc.ABC):
    """Scores of many candidates, known to bounds for whole groups of them and exactly on demand.

    Group g holds candidates starts[g], ..., starts[g + 1] - 1; their scores are whole numbers from
    low[g] to high[g].
    """

    starts: Ints
    low: Ints
    high: Ints

    @abc.abstractmethod
    def exact(self, candidates: Ints) -> Ints:
        """The scores of these candidates."""


def saturated(multiples: Sequence[int]) -> Ints:
    """Whole numbers moved to the nearest that 64 bits hold: post-processing of a noisy answer, and
    of nothing else."""
    return np.array(
        [min(max(multiple, -(1 << 63)), (1 << 63) - 1) for multiple in multiples], dtype=np.int64
    )


class Draw(NamedTuple):
    """What a mechanism asks of the tap. `private` is the private value; everything else is public.

    A parameter that a kind of draw does not have keeps its default, 0, which no check of an amount
    lets pass.
    """

    kind: DrawKind
    label: str
    private: tuple[Any, ...] = ()
    sensitivity: Fraction = Fraction(0)
    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    grid: Fraction = Fraction(0)
    domain_size: int = 0
    threshold: int = 0
    bound: int = 0
    size: int = 0
    monotone: bool = False
    rule: ChoiceRule = "permute-and-flip"

    def listed(self) -> Draw:
        """The same draw, a choice from bounded scores as one from the exact scores of all
        candidates."""
        if self.kind != "choose-bounded":
            return self
        (scores,) = self.private
        return self._replace(
            kind="choose",
            private=(scores.exact(np.arange(int(scores.starts[-1]), dtype=np.int64)),),
        )


class Noise(abc.ABC):
    """What a mechanism may ask of randomness. `label` names the step in recordings and error texts
    (public text only)."""

    @property
    def publishable(self) -> bool:
        """False when draws are seeded, replayed or enumerated: a release made with them must never
        be published."""
        return False

    @abc.abstractmethod
    def answer(self, draw: Draw) -> Any:
        """The answer to a draw, of the law and the type that the method of its kind states."""

    def laplace(
        self, values: Ints, *, sensitivity: Fraction, epsilon: Fraction, label: str = ""
    ) -> Ints:
        """Integers plus independent discrete Laplace noise of scale sensitivity / epsilon."""
        return cast(Ints, self.answer(Draw("laplace", label, (values,), sensitivity, epsilon)))

    def sparse_laplace(
        self,
        cells: Words,
        counts: Ints,
        *,
        domain_size: int,
        threshold: int,
        sensitivity: Fraction,
        epsilon: Fraction,
        label: str = "",
    ) -> tuple[Words, Ints]:
        """Noise on all `domain_size` cells (up to 2^63), keeping those whose noisy count is above
        `threshold` (>= 0).

        `cells` are the sorted distinct occupied cells, `counts` their positive counts; the answer
        is sorted by cell. The law is that of the dense mechanism, at a cost proportional to
        occupied plus kept cells.
        """
        draw = Draw("sparse-laplace", label, (cells, counts), sensitivity, epsilon)
        return cast(
            tuple[Words, Ints],
            self.answer(draw._replace(domain_size=domain_size, threshold=threshold)),
        )

    def partitions(
        self,
        values: Sequence[str],
        counts: Ints,
        *,
        threshold: int,
        sensitivity: Fraction,
        epsilon: Fraction,
        label: str = "",
    ) -> tuple[tuple[str, ...], Ints]:
        """Of values that occur, with their positive counts, those whose noisy count is above
        `threshold` (>= 1), and these noisy counts; in the order of the values, which are sorted.

        What occurs is private too, and nothing else can come out: whoever asks needs a delta for
        values that one unit alone has.
        """
        draw = Draw("partitions", label, (tuple(values), counts), sensitivity, epsilon)
        return cast(tuple[tuple[str, ...], Ints], self.answer(draw._replace(threshold=threshold)))

    def gaussian(
        self, values: Ints, *, sensitivity: Fraction, rho: Fraction, label: str = ""
    ) -> Ints:
        """Integers plus independent discrete Gaussian noise with sigma^2 = sensitivity^2 / (2 rho):
        rho-zCDP."""
        return cast(Ints, self.answer(Draw("gaussian", label, (values,), sensitivity, rho=rho)))

    def choose(
        self,
        scores: Sequence[Fraction] | Sequence[int] | Ints,
        *,
        sensitivity: Fraction,
        epsilon: Fraction,
        monotone: bool = False,
        rule: ChoiceRule = "permute-and-flip",
        label: str = "",
    ) -> int:
        """Index of a high score, epsilon-DP. `monotone`: one unit moves all scores the same way,
        which halves the noise."""
        return cast(
            int,
            self.answer(
                Draw("choose", label, (scores,), sensitivity, epsilon, monotone=monotone, rule=rule)
            ),
        )

    def choose_bounded(
        self,
        scores: BoundedScores,
        *,
        sensitivity: Fraction,
        epsilon: Fraction,
        monotone: bool = False,
        rule: ChoiceRule = "permute-and-flip",
        label: str = "",
    ) -> int:
        """`choose` from the exact scores of all candidates. A tap may leave out those that cannot
        win."""
        return cast(
            int,
            self.answer(
                Draw(
                    "choose-bounded",
                    label,
                    (scores,),
                    sensitivity,
                    epsilon,
                    monotone=monotone,
                    rule=rule,
                )
            ),
        )

    def gamma_norm(
        self,
        values: Sequence[Fraction],
        *,
        grid: Fraction,
        sensitivity: Fraction,
        epsilon: Fraction,
        label: str = "",
    ) -> list[int]:
        """Vector plus noise of density prop. to exp(-epsilon |z|_2 / sensitivity), rounded to the
        grid: multiples of `grid`.

        They have any size: a mechanism that goes on to compute with them may rely on the rounding.
        `saturated` fits them into 64 bits where they are published.
        """
        return cast(
            list[int],
            self.answer(Draw("gamma-norm", label, (values,), sensitivity, epsilon, grid=grid)),
        )

    def lattice_gaussian(
        self,
        values: Sequence[Fraction],
        *,
        grid: Fraction,
        sensitivity: Fraction,
        rho: Fraction,
        label: str = "",
    ) -> Ints:
        """Vector plus continuous Gaussian noise (rho-zCDP), rounded to multiples of `grid`: the
        multiples."""
        return cast(
            Ints,
            self.answer(
                Draw("lattice-gaussian", label, (values,), sensitivity, rho=rho, grid=grid)
            ),
        )

    def integers(self, bound: int, *, size: int, label: str = "") -> Words:
        """`size` uniform draws from range(bound), 1 <= bound <= 2^64. Both must be public: no
        private value enters."""
        return cast(Words, self.answer(Draw("integers", label, bound=bound, size=size)))

    def key(self, *, label: str = "") -> bytes:
        """Sixteen fresh random bytes, for keyed choices inside the private side (which rows of a
        unit to keep)."""
        return cast(bytes, self.answer(Draw("key", label)))
