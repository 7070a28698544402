"""The production tap: every kind of draw on top of a stream of words.

`SystemNoise` is what a release uses. `SeededNoise` repeats itself, for tests, benchmarks and
simulations, and says that it must not be published.

Counts and answers are clamped to +-2^61. Clamping the counts moves neighbours no further apart, and
clamping the sum is post-processing; the samplers saturate at 2^62, so the answer is that of
unbounded integer noise, clamped (source.proof.md).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpublish.arrays import Ints, Words
from dpublish.errors import PlanError, PrivateSideError
from dpublish.noise.base import Draw, DrawKind, Noise
from dpublish.noise.gaussian import discrete_gaussian, discrete_laplace
from dpublish.noise.geometric import (
    MAX_TRIALS,
    cells_in_order,
    clamp_sums,
    merge_cells,
    pass_probability,
    ranks_to_cells,
    survivors,
    tail,
)
from dpublish.noise.words import MAX_BOUND, SeededStream, SystemStream, WordStream, uniform_below

LIMIT = 1 << 61
"""Counts and noisy counts are clamped to plus and minus this."""

MAX_EXPECTED_SURVIVORS = 1 << 30
"""A sparse release that expects more empty cells than this to pass its threshold is refused: it
would not fit in memory."""


class StreamNoise(Noise):
    """Exact noise from any stream of words. Not publishable, because the stream may be anything."""

    def __init__(self, stream: WordStream) -> None:
        self._stream = stream

    def answer(self, draw: Draw) -> Any:
        return self._BY_KIND[draw.kind](self, draw)

    def _laplace(self, draw: Draw) -> Ints:
        scale, values = _scale(draw), _integers(draw.private[0])
        return add_clamped(
            values, discrete_laplace(self._stream, scale, values.size).reshape(values.shape)
        )

    def _sparse_laplace(self, draw: Draw) -> tuple[Words, Ints]:
        scale, threshold = _scale(draw), draw.threshold
        _check_whole("domain_size", draw.domain_size, 1, MAX_TRIALS)
        _check_whole("threshold", threshold, 0, LIMIT - 1)
        _check_expected_survivors(draw.domain_size, scale, threshold)
        cells, counts = _cells(draw.private[0], draw.domain_size), _integers(draw.private[1])
        if counts.shape != cells.shape:
            raise PrivateSideError()
        noisy = add_clamped(counts, discrete_laplace(self._stream, scale, counts.size))
        kept = noisy > threshold
        ranks = survivors(self._stream, draw.domain_size - cells.size, scale, threshold)
        empty = ranks_to_cells(ranks, cells)
        empty_values = np.minimum(tail(self._stream, scale, threshold + 1, empty.size), LIMIT)
        return _merged(cells[kept], noisy[kept], empty, empty_values)

    def _partitions(self, draw: Draw) -> tuple[tuple[str, ...], Ints]:
        scale = _scale(draw)
        _check_whole("threshold", draw.threshold, 1, LIMIT - 1)
        values, counts = draw.private[0], _integers(draw.private[1])
        if counts.shape != (len(values),):
            raise PrivateSideError()
        noisy = add_clamped(counts, discrete_laplace(self._stream, scale, counts.size))
        kept = noisy > draw.threshold
        return tuple(values[i] for i in np.flatnonzero(kept)), noisy[kept]

    def _gaussian(self, draw: Draw) -> Ints:
        variance, values = _variance(draw), _integers(draw.private[0])
        return add_clamped(
            values, discrete_gaussian(self._stream, variance, values.size).reshape(values.shape)
        )

    def _choose(self, draw: Draw) -> int:
        from dpublish.noise.select import choose_index

        return choose_index(self._stream, draw.private[0], exponent=_exponent(draw), rule=draw.rule)

    def _choose_bounded(self, draw: Draw) -> int:
        from dpublish.noise.select import choose_bounded_index

        return choose_bounded_index(
            self._stream, draw.private[0], exponent=_exponent(draw), rule=draw.rule
        )

    def _gamma_norm(self, draw: Draw) -> list[int]:
        from dpublish.noise.lattice import gamma_norm_multiples

        return gamma_norm_multiples(
            self._stream, draw.private[0], scale=_scale(draw), grid=_positive("grid", draw.grid)
        )

    def _lattice_gaussian(self, draw: Draw) -> Ints:
        from dpublish.noise.lattice import gaussian_multiples

        return gaussian_multiples(
            self._stream,
            draw.private[0],
            grid=_positive("grid", draw.grid),
            variance=_variance(draw),
        )

    def _integers(self, draw: Draw) -> Words:
        _check_whole("bound", draw.bound, 1, MAX_BOUND)
        _check_whole("size", draw.size, 0, MAX_TRIALS)
        return uniform_below(self._stream, draw.bound, draw.size)

    def _key(self, draw: Draw) -> bytes:
        return self._stream.bits(128).to_bytes(16, "little")

    _BY_KIND: ClassVar[dict[DrawKind, Callable[[StreamNoise, Draw], Any]]] = {
        "laplace": _laplace,
        "sparse-laplace": _sparse_laplace,
        "partitions": _partitions,
        "gaussian": _gaussian,
        "choose": _choose,
        "choose-bounded": _choose_bounded,
        "gamma-norm": _gamma_norm,
        "lattice-gaussian": _lattice_gaussian,
        "integers": _integers,
        "key": _key,
    }


class SystemNoise(StreamNoise):
    """Noise fit for a release: keyed by the operating system, never repeated, new key after a
    fork."""

    def __init__(self) -> None:
        super().__init__(SystemStream())

    @property
    def publishable(self) -> bool:
        return True


class SeededNoise(StreamNoise):
    """The same noise for the same seed. For tests, benchmarks and simulations only."""

    def __init__(self, seed: int) -> None:
        super().__init__(SeededStream(seed))


def add_clamped(values: Ints, noise: Ints) -> Ints:
    """clamp(clamp(values) + noise) to +-2^61, for noise saturated at +-2^62. `noise` is overwritten
    with the answer.

    A saturated noise value always lands on the limit, so the answer does not show that the noise
    was cut short.
    """
    clamp_sums(values.ravel(), np.int64(LIMIT), noise.reshape(-1))
    return noise


def _merged(
    first: Words, first_values: Ints, second: Words, second_values: Ints
) -> tuple[Words, Ints]:
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


def _scale(draw: Draw) -> Fraction:
    return _positive("sensitivity", draw.sensitivity) / _positive("epsilon", draw.epsilon)


def _exponent(draw: Draw) -> Fraction:
    exponent = _positive("epsilon", draw.epsilon) / _positive("sensitivity", draw.sensitivity)
    return exponent if draw.monotone else exponent / 2


def _variance(draw: Draw) -> Fraction:
    return _positive("sensitivity", draw.sensitivity) ** 2 / (2 * _positive("rho", draw.rho))


def _check_whole(name: str, value: int, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise PlanError(f"{name} must be an integer from {low} to {high}, not {value!r}.")


def _check_expected_survivors(domain_size: int, scale: Fraction, threshold: int) -> None:
    """Judged from public facts alone: the number of occupied cells does not enter."""
    with ctx.workprec(64):
        expected = pass_probability(scale, threshold) * arb(domain_size)
        if not expected <= arb(MAX_EXPECTED_SURVIVORS):
            raise PlanError(
                f"About {float(expected):.1e} empty cells of the {domain_size} in the domain "
                f"would pass threshold {threshold}. "
                f"Raise the threshold or make the domain smaller; the limit is "
                f"{MAX_EXPECTED_SURVIVORS}."
            )


def _integers(values: Ints) -> NDArray[np.int64]:
    """The array as 64-bit integers; anything that is not integers is a mistake of the mechanism,
    told without a value."""
    array = np.asarray(values)
    if array.dtype != np.int64:
        raise PrivateSideError()
    return array


def _cells(cells: Words, domain_size: int) -> NDArray[np.uint64]:
    array = np.ascontiguousarray(cells)
    if (
        array.dtype != np.uint64
        or array.ndim != 1
        or not cells_in_order(array, np.uint64(domain_size))
    ):
        raise PrivateSideError()
    return array
