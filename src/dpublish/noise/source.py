"""The production tap: every method of `Noise` on top of a stream of words.

`SystemNoise` is what a release uses. `SeededNoise` repeats itself, for tests, benchmarks and simulations, and says that it
must not be published.

Counts and answers are clamped to +-2^61. Clamping the counts moves neighbours no further apart, and clamping the sum is
post-processing; the samplers saturate at 2^62, so the answer is that of unbounded integer noise, clamped (source.proof.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpublish.errors import PlanError, PrivateSideError
from dpublish.noise.base import BoundedScores, CellArray, ChoiceRule, IntArray, Noise
from dpublish.noise.gaussian import discrete_gaussian
from dpublish.noise.geometric import MAX_TRIALS, pass_probability, ranks_to_cells, survivors, tail
from dpublish.noise.kernels.cells import cells_in_order, clamp_sums, merge_cells
from dpublish.noise.laplace import discrete_laplace
from dpublish.noise.uniform import MAX_BOUND, uniform_below
from dpublish.noise.words import SeededStream, SystemStream, WordStream

LIMIT = 1 << 61
"""Counts and noisy counts are clamped to plus and minus this."""

MAX_EXPECTED_SURVIVORS = 1 << 30
"""A sparse release that expects more empty cells than this to pass its threshold is refused: it would not fit in memory."""


class StreamNoise(Noise):
    """Exact noise from any stream of words. Not publishable, because the stream may be anything."""

    def __init__(self, stream: WordStream) -> None:
        self._stream = stream

    @property
    def publishable(self) -> bool:
        return False

    def laplace(self, values: IntArray, *, sensitivity: Fraction, epsilon: Fraction, label: str = "") -> IntArray:
        scale = _positive("sensitivity", sensitivity) / _positive("epsilon", epsilon)
        values = _integers(values)
        return add_clamped(values, discrete_laplace(self._stream, scale, values.size).reshape(values.shape))

    def sparse_laplace(
        self,
        cells: CellArray,
        counts: IntArray,
        *,
        domain_size: int,
        threshold: int,
        sensitivity: Fraction,
        epsilon: Fraction,
        label: str = "",
    ) -> tuple[CellArray, IntArray]:
        scale = _positive("sensitivity", sensitivity) / _positive("epsilon", epsilon)
        _check_whole("domain_size", domain_size, 1, MAX_TRIALS)
        _check_whole("threshold", threshold, 0, LIMIT - 1)
        _check_expected_survivors(domain_size, scale, threshold)
        cells, counts = _cells(cells, domain_size), _integers(counts)
        if counts.shape != cells.shape:
            raise PrivateSideError()
        noisy = add_clamped(counts, discrete_laplace(self._stream, scale, counts.size))
        kept = noisy > threshold
        ranks = survivors(self._stream, domain_size - cells.size, scale, threshold)
        empty = ranks_to_cells(ranks, cells)
        empty_values = np.minimum(tail(self._stream, scale, threshold + 1, empty.size), LIMIT)
        return _merged(cells[kept], noisy[kept], empty, empty_values)

    def gaussian(self, values: IntArray, *, sensitivity: Fraction, rho: Fraction, label: str = "") -> IntArray:
        variance = _variance(sensitivity, rho)
        values = _integers(values)
        return add_clamped(values, discrete_gaussian(self._stream, variance, values.size).reshape(values.shape))

    def choose(
        self,
        scores: Sequence[Fraction] | Sequence[int] | IntArray,
        *,
        sensitivity: Fraction,
        epsilon: Fraction,
        monotone: bool = False,
        rule: ChoiceRule = "permute-and-flip",
        label: str = "",
    ) -> int:
        from dpublish.noise.select import choose_index

        exponent = _positive("epsilon", epsilon) / _positive("sensitivity", sensitivity)
        return choose_index(self._stream, scores, exponent=exponent if monotone else exponent / 2, rule=rule)

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
        from dpublish.noise.bounded import choose_bounded_index

        exponent = _positive("epsilon", epsilon) / _positive("sensitivity", sensitivity)
        return choose_bounded_index(self._stream, scores, exponent=exponent if monotone else exponent / 2, rule=rule)

    def gamma_norm(
        self, values: Sequence[Fraction], *, grid: Fraction, sensitivity: Fraction, epsilon: Fraction, label: str = ""
    ) -> list[int]:
        from dpublish.noise.lattice import gamma_norm_multiples

        scale = _positive("sensitivity", sensitivity) / _positive("epsilon", epsilon)
        return gamma_norm_multiples(self._stream, values, grid=_positive("grid", grid), scale=scale)

    def lattice_gaussian(
        self, values: Sequence[Fraction], *, grid: Fraction, sensitivity: Fraction, rho: Fraction, label: str = ""
    ) -> IntArray:
        from dpublish.noise.lattice import gaussian_multiples

        return gaussian_multiples(self._stream, values, grid=_positive("grid", grid), variance=_variance(sensitivity, rho))

    def integers(self, bound: int, *, size: int, label: str = "") -> CellArray:
        _check_whole("bound", bound, 1, MAX_BOUND)
        _check_whole("size", size, 0, MAX_TRIALS)
        return uniform_below(self._stream, bound, size)

    def key(self, *, label: str = "") -> bytes:
        return self._stream.bits(128).to_bytes(16, "little")


class SystemNoise(StreamNoise):
    """Noise fit for a release: keyed by the operating system, never repeated, new key after a fork."""

    def __init__(self) -> None:
        super().__init__(SystemStream())

    @property
    def publishable(self) -> bool:
        return True


class SeededNoise(StreamNoise):
    """The same noise for the same seed. For tests, benchmarks and simulations only."""

    def __init__(self, seed: int) -> None:
        super().__init__(SeededStream(seed))


def add_clamped(values: IntArray, noise: IntArray) -> IntArray:
    """clamp(clamp(values) + noise) to +-2^61, for noise saturated at +-2^62. `noise` is overwritten with the answer.

    A saturated noise value always lands on the limit, so the answer does not show that the noise was cut short.
    """
    clamp_sums(values.ravel(), np.int64(LIMIT), noise.reshape(-1))
    return noise


def _merged(first: CellArray, first_values: IntArray, second: CellArray, second_values: IntArray) -> tuple[CellArray, IntArray]:
    cells = np.empty(first.size + second.size, dtype=np.uint64)
    values = np.empty(cells.size, dtype=np.int64)
    merge_cells(first, first_values, second, second_values, cells, values)
    return cells, values


def _positive(name: str, value: Fraction) -> Fraction:
    # A float would be exact too, but almost never the number that was meant.
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise PlanError(f"{name} must be an exact Fraction or integer, not {type(value).__name__}.")
    if value <= 0:
        raise PlanError(f"{name} must be above 0, not {value}.")
    return Fraction(value)


def _variance(sensitivity: Fraction, rho: Fraction) -> Fraction:
    return _positive("sensitivity", sensitivity) ** 2 / (2 * _positive("rho", rho))


def _check_whole(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PlanError(f"{name} must be an integer from {low} to {high}, not {value!r}.")


def _check_expected_survivors(domain_size: int, scale: Fraction, threshold: int) -> None:
    """Judged from public facts alone: the number of occupied cells does not enter."""
    with ctx.workprec(64):
        expected = pass_probability(scale, threshold) * arb(domain_size)
        if not expected <= arb(MAX_EXPECTED_SURVIVORS):
            raise PlanError(
                f"About {float(expected):.1e} empty cells of the {domain_size} in the domain would pass threshold {threshold}. "
                f"Raise the threshold or make the domain smaller; the limit is {MAX_EXPECTED_SURVIVORS}."
            )


def _integers(values: IntArray) -> NDArray[np.int64]:
    """The array as 64-bit integers; anything that is not integers is a mistake of the mechanism, told without a value."""
    array = np.asarray(values)
    if array.dtype != np.int64:
        raise PrivateSideError()
    return array


def _cells(cells: CellArray, domain_size: int) -> NDArray[np.uint64]:
    array = np.ascontiguousarray(cells)
    if array.dtype != np.uint64 or array.ndim != 1 or not cells_in_order(array, np.uint64(domain_size)):
        raise PrivateSideError()
    return array
