"""Exact uniform integers: whole arrays for bounds up to 2^64, Python integers for any bound.

Lemire's method (2019): the upper half of word * bound; the few words that would favour some values
are drawn again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import InputError
from dpublish.noise.kernels.uniform import scale_words
from dpublish.noise.words import WordStream

MAX_BOUND = 1 << 64


def uniform_below(stream: WordStream, bound: int, size: int) -> NDArray[np.uint64]:
    """Independent uniform draws from range(bound), 1 <= bound <= 2^64."""
    if not 1 <= bound <= MAX_BOUND:
        raise InputError("The bound must lie between 1 and 2^64.")
    words = stream.words(size)
    if bound == MAX_BOUND:
        return words
    out, places = _scale(words, bound)
    while places.size:
        values, again = _scale(stream.words(places.size), bound)
        out[places] = values
        places = places[again]
    return out


def _scale(words: NDArray[np.uint64], bound: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    out = np.empty(words.size, dtype=np.uint64)
    rejected = np.empty(words.size, dtype=np.int64)
    found = scale_words(words, np.uint64(bound), np.uint64(MAX_BOUND % bound), out, rejected)
    return out, rejected[:found]


def uniform_below_any(stream: WordStream, bound: int, size: int) -> list[int]:
    """Independent uniform draws from range(bound), for a bound of any size."""
    return [stream.below(bound) for _ in range(size)]
