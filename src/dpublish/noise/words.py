"""Streams of random 64-bit words: the only place where dpublish asks for randomness.

`SystemStream` is for releases: a ChaCha20 key stream whose key comes from the operating system.
`SeededStream` is the same cipher with a key derived from a seed, for tests, benchmarks and
simulations; nothing drawn from it may be published.

Both are safe to share between threads: a lock hands each word to exactly one caller (which caller
gets which word is then up to the scheduler). After a fork a `SystemStream` takes a new key in the
child, so parent and child never share a word.
"""

from __future__ import annotations

import abc
import hashlib
import os
import threading
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.typing import NDArray

from dpublish.arrays import Words
from dpublish.compiled import njit
from dpublish.errors import InputError

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


# ChaCha20 repeats after 2^38 bytes under one key; a fresh key long before that also bounds what a
# stolen key would reveal.
REKEY_BYTES = 1 << 30
_PIECE = 1 << 20
_RESERVE = 1 << 12
_ZEROS = memoryview(bytes(_PIECE))

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


# The process id alone is not enough: a grandchild may be given the id of a dead ancestor.
os.register_at_fork(after_in_child=_count_fork)


def _process() -> tuple[int, int]:
    return _forks, os.getpid()


class WordStream(abc.ABC):
    """Independent uniform 64-bit words. A subclass need only say how to fill an array."""

    @abc.abstractmethod
    def fill(self, out: Words) -> None:
        """Overwrite a contiguous array with fresh words."""

    def words(self, n: int) -> Words:
        """An array of `n` fresh words."""
        out = np.empty(n, dtype=np.uint64)
        self.fill(out)
        return out

    def bits(self, n: int) -> int:
        """A uniform integer of `n` bits."""
        if n == 0:
            return 0
        raw = int.from_bytes(self.words((n + 63) // 64).tobytes(), "little")
        return raw & ((1 << n) - 1)

    def below(self, bound: int) -> int:
        """A uniform integer from range(bound), for a bound of any size."""
        if bound < 1:
            raise InputError("The bound must be at least 1.")
        width = (bound - 1).bit_length()
        while True:
            value = self.bits(width)
            if value < bound:
                return value


class _KeyStream:
    """One cipher state and its lock. It belongs to one process and is thrown away, lock included,
    after a fork."""

    def __init__(self, key_source: _KeySource, rekey_bytes: int) -> None:
        self.owner = _process()
        self._lock = threading.Lock()
        self._key_source = key_source
        self._rekey_bytes = rekey_bytes
        self._left = 0
        self._encryptor: Any = None
        self._reserve = bytearray(_RESERVE)
        self._used = _RESERVE

    def write(self, view: memoryview) -> None:
        with self._lock:
            self._write(view)

    def take(self, size: int) -> bytes:
        """A few bytes, cut from a reserve because calling the cipher for each would cost more than
        the bytes."""
        with self._lock:
            if size > _RESERVE // 4:
                large = bytearray(size)
                self._write(memoryview(large))
                return bytes(large)
            if self._used + size > _RESERVE:
                self._write(memoryview(self._reserve))
                self._used = 0
            start = self._used
            self._used += size
            return bytes(self._reserve[start : self._used])

    def _write(self, view: memoryview) -> None:
        start = 0
        while start < len(view):
            if self._left == 0:
                self._encryptor = Cipher(
                    algorithms.ChaCha20(self._key_source(), bytes(16)), mode=None
                ).encryptor()
                self._left = self._rekey_bytes
            size = min(len(view) - start, _PIECE, self._left)
            self._encryptor.update_into(_ZEROS[:size], view[start : start + size])
            self._left -= size
            start += size


class _KeySource(abc.ABC):
    @abc.abstractmethod
    def __call__(self) -> bytes:
        """The next 32-byte key."""


class _SystemKeys(_KeySource):
    def __call__(self) -> bytes:
        return os.urandom(32)


class _SeededKeys(_KeySource):
    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._count = 0

    def __call__(self) -> bytes:
        text = f"dpublish seeded stream/{self._seed}/{self._count}"
        self._count += 1
        return hashlib.sha256(text.encode()).digest()


class _CipherStream(WordStream):
    """What the two ciphered streams share: `_current` says which key stream this process may
    use."""

    @abc.abstractmethod
    def _current(self) -> _KeyStream: ...

    def fill(self, out: Words) -> None:
        if out.size:
            self._current().write(out.data.cast("B"))

    def bits(self, n: int) -> int:
        size = (n + 7) // 8
        return int.from_bytes(self._current().take(size), "little") >> (8 * size - n)


class SystemStream(_CipherStream):
    """Words fit for a release. A copy or a pickle of the stream is a new stream with its own
    key."""

    def __init__(self, *, rekey_bytes: int = REKEY_BYTES) -> None:
        if rekey_bytes < 1:
            raise InputError("A stream must be allowed at least one byte per key.")
        self._rekey_bytes = rekey_bytes
        self._stream = _KeyStream(_SystemKeys(), rekey_bytes)

    def _current(self) -> _KeyStream:
        stream = self._stream
        if stream.owner != _process():
            # Two threads may both get here; each then draws from a key of its own, which is just as
            # good.
            stream = self._stream = _KeyStream(_SystemKeys(), self._rekey_bytes)
        return stream

    def __reduce__(self) -> tuple[Any, ...]:
        return _fresh_system_stream, (self._rekey_bytes,)


def _fresh_system_stream(rekey_bytes: int) -> SystemStream:
    return SystemStream(rekey_bytes=rekey_bytes)


class SeededStream(_CipherStream):
    """The same words for the same seed, on every run and in every process. Never for a release."""

    def __init__(self, seed: int, *, rekey_bytes: int = REKEY_BYTES) -> None:
        if rekey_bytes < 1:
            raise InputError("A stream must be allowed at least one byte per key.")
        self._stream = _KeyStream(_SeededKeys(seed), rekey_bytes)

    def _current(self) -> _KeyStream:
        return self._stream


# Uniform integers below a bound.


@njit(cache=True, nogil=True)
def high_product(a: np.uint64, b: np.uint64) -> np.uint64:
    """The upper 64 bits of the 128-bit product."""
    half = np.uint64(32)
    mask = np.uint64(0xFFFFFFFF)
    a_high, a_low = a >> half, a & mask
    b_high, b_low = b >> half, b & mask
    middle = a_high * b_low + ((a_low * b_low) >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half)


@njit(cache=True, nogil=True)
def scale_words(
    words: NDArray[np.uint64],
    bound: np.uint64,
    reject_below: np.uint64,
    out: NDArray[np.uint64],
    rejected: NDArray[np.int64],
) -> int:
    """out = floor(word * bound / 2^64); words whose low product is under `reject_below` (2^64 mod
    bound) are listed."""
    found = 0
    for i in range(words.size):
        out[i] = high_product(words[i], bound)
        rejected[found] = i
        found += int(words[i] * bound < reject_below)
    return found
