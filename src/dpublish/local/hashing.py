"""Optimal local hashing (Wang, Blocki, Li and Jha 2017) with a family of hash functions whose
collisions are known exactly.

The device picks a public hash function v -> (a v + b mod P) mod g, hashes its level to one of g
buckets, and gives a g-ary randomised response about the bucket. P is prime and at least k, and (a,
b) is uniform over all pairs with 1 <= a < P: the hashed places of two levels are a uniform pair of
different residues, so that the collision probability, and with it the estimate, is exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Words
from dpublish.errors import PlanError
from dpublish.local.base import Counts, FrequencyOracle, Law, Reports, Tally
from dpublish.local.coins import Coin, Coins
from dpublish.local.estimates import Sums, indicator_sums
from dpublish.privacy.cost import Amount

MAX_ALPHABET = 1 << 25
"""A tally counts every (hash function, bucket) on its own; this many counts take 256 MB."""


class LocalHashing(FrequencyOracle):
    """A hash function and a bucket.

    Input: one level code. Neighbours: any two values of one person.
    Output: ((a - 1) P + b) g + bucket.
    Privacy: epsilon (theorem 4 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: the hash function, which has nothing to do with the value, and a noisy bucket.
    Accuracy: standard error of a count about 2 sqrt(n) e^(eps/2) / (e^eps - 1), whatever k.
    """

    method = "hashing"

    def __init__(
        self,
        levels: int | Iterable[str],
        epsilon: Amount,
        *,
        buckets: int | None = None,
        bits: int = 64,
    ) -> None:
        super().__init__(levels, epsilon)
        self.buckets = (
            max(2, round(math.exp(min(float(self.epsilon), 10.0))) + 1)
            if buckets is None
            else buckets
        )
        self.coin = Coin(self.buckets, self.epsilon, bits)
        self.prime = _prime_from(max(len(self.levels), self.buckets))
        if self.alphabet > MAX_ALPHABET:
            raise PlanError(
                f"Local hashing of {len(self.levels)} levels into {self.buckets} buckets has "
                f"{self.alphabet:,} different "
                f"reports; at most {MAX_ALPHABET:,} can be tallied. Use hadamard, which has no "
                f"such limit."
            )

    @property
    def functions(self) -> int:
        """How many hash functions there are. The one with a = 0 would send all levels to one
        bucket, and is left out."""
        return (self.prime - 1) * self.prime

    @property
    def alphabet(self) -> int:
        return self.functions * self.buckets

    @property
    def collision(self) -> Fraction:
        """The exact probability that two different levels are hashed to the same bucket."""
        whole, extra = divmod(self.prime, self.buckets)
        return Fraction(
            extra * (whole + 1) * whole + (self.buckets - extra) * whole * (whole - 1),
            self.functions,
        )

    @property
    def stranger(self) -> Fraction:
        """The exact probability that the report of somebody with another level names the bucket of
        this one."""
        return self.collision * self.coin.truth + (1 - self.collision) * self.coin.other

    def settings(self) -> dict[str, int]:
        return {"buckets": self.buckets, "bits": self.coin.bits}

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        people = len(values)
        buckets = np.uint64(self.buckets)
        function = coins.integers(self.functions, size=people, label="hash function")
        bucket = self._bucket(function, values) + self.coin.draw(coins, people)
        bucket -= buckets * (bucket >= buckets)
        return function * buckets + bucket

    def _bucket(self, function: Words, values: Words) -> Words:
        prime = np.uint64(self.prime)
        a = function // prime
        b = function - a * prime
        return (((a + np.uint64(1)) * values + b) % prime) % np.uint64(self.buckets)

    def law(self, value: Any) -> Law:
        functions = np.arange(self.functions, dtype=np.uint64)
        true = self._bucket(functions, np.full(functions.size, value, dtype=np.uint64))
        share = Fraction(1, self.functions)
        return {
            function * self.buckets + bucket: share
            * (self.coin.truth if bucket == true[function] else self.coin.other)
            for function in range(functions.size)
            for bucket in range(self.buckets)
        }

    def sums(self, tally: Tally) -> Sums:
        return indicator_sums(
            self._support(tally.counts), tally.people, self.coin.truth, self.stranger
        )

    def _support(self, counts: Counts) -> Floats:
        """For every level, how many reports name its bucket.

        For one a, that is a cyclic correlation over b with the indicator of each bucket, so Fourier
        transforms count all levels at once. They are off by far less than a half, so rounding gives
        the exact whole numbers.
        """
        table = counts.reshape(self.prime - 1, self.prime, self.buckets)
        places = np.arange(self.prime)
        shape = (places[:, None] % self.buckets == np.arange(self.buckets)).astype(float)
        pattern = np.fft.rfft(shape, axis=0)
        levels = np.arange(len(self.levels))
        out = np.zeros(len(self.levels))
        for a in range(1, self.prime):
            spectrum = (np.fft.rfft(table[a - 1], axis=0).conj() * pattern).sum(axis=1)
            out += np.rint(np.fft.irfft(spectrum, n=self.prime))[a * levels % self.prime]
        return out

    @property
    def variance(self) -> float:
        stranger = self.stranger
        return float(stranger * (1 - stranger) / (self.coin.truth - stranger) ** 2)


def _prime_from(least: int) -> int:
    """The smallest prime that is at least `least`."""
    candidate = max(2, least)
    while any(candidate % d == 0 for d in range(2, math.isqrt(candidate) + 1)):
        candidate += 1
    return candidate


# Hadamard response (Acharya, Sun and Zhang 2019): one number of about log2(k) bits, and a fast
# transform to read it. Level x owns one half-block C_x: half of the 2s numbers of its block,
# those where its Hadamard row is +1. A report is a number from C_x with probability `truth`, and
# one from each of the other 2B - 1 half-blocks with probability `other`; within a half-block all
# s numbers are equally likely. With one block (small epsilon) this is the one-bit protocol of
# Bassily and Smith; more blocks help when e^eps is large.


Number = TypeVar("Number", np.int64, np.float64)


def parity(words: Words) -> Words:
    """0 or 1: the number of set bits of each word, mod 2. The words are overwritten."""
    for shift in (32, 16, 8, 4, 2, 1):
        words ^= words >> np.uint64(shift)
    words &= np.uint64(1)
    return words


def transform(rows: NDArray[Number]) -> NDArray[Number]:
    """The transform of each row of a matrix; the length of a row is a power of two. Exact on
    integers."""
    out = rows.copy()
    height, width = out.shape
    half = 1
    while half < width:
        pairs = out.reshape(height, width // (2 * half), 2, half)
        first = pairs[:, :, 0, :] + pairs[:, :, 1, :]
        pairs[:, :, 1, :] = pairs[:, :, 0, :] - pairs[:, :, 1, :]
        pairs[:, :, 0, :] = first
        half *= 2
    return out


def half_member(rows: Words, places: Words, odd: Words) -> Words:
    """The place-th y of those whose parity with the row is `odd`: a bijection from [0, b/2) onto
    that half of [0, b).

    Rows must not be 0. The lowest set bit of the row is left open by `places` and then set so that
    the parity comes out.
    """
    lowest = rows & (~rows + np.uint64(1))
    low = lowest - np.uint64(1)
    out = ((places & ~low) << np.uint64(1)) | (places & low)
    wrong = parity(rows & out) ^ odd
    out |= lowest * wrong
    return out


class HadamardResponse(FrequencyOracle):
    """One number that the true level makes likelier.

    Input: one level code. Neighbours: any two values of one person.
    Output: one of B x 2s numbers, at most about 4k.
    Privacy: epsilon (theorem 3 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: one number, which half of all levels make likelier.
    Accuracy: standard error of a count about sqrt(n) (e^eps + 1) / (e^eps - 1) with one block,
    whatever k; with B blocks,
        sqrt(n / B) (e^eps + 2 B - 1) / (e^eps - 1). Unary encoding, with its long reports, is never
        less accurate.
    """

    method = "hadamard"

    def __init__(
        self,
        levels: int | Iterable[str],
        epsilon: Amount,
        *,
        blocks: int | None = None,
        bits: int = 64,
    ) -> None:
        super().__init__(levels, epsilon)
        size = len(self.levels)
        self.blocks = _best_blocks(size, float(self.epsilon)) if blocks is None else blocks
        if (
            not isinstance(self.blocks, int)
            or self.blocks < 1
            or self.blocks & (self.blocks - 1)
            or self.blocks > size
        ):
            raise PlanError(
                f"blocks must be a power of two and at most the number of levels, not {blocks!r}."
            )
        # row 0 is +1 everywhere and says nothing, so a block of 2s numbers serves 2s - 1 levels
        rows = -(-size // self.blocks)
        self.block_size = 1 << rows.bit_length()
        self.coin = Coin(2 * self.blocks, self.epsilon, bits)

    @property
    def alphabet(self) -> int:
        return self.blocks * self.block_size

    def settings(self) -> dict[str, int]:
        return {"blocks": self.blocks, "bits": self.coin.bits}

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        people = len(values)
        steps = self.coin.draw(coins, people)
        places = coins.integers(self.block_size // 2, size=people, label="place")
        per_block, one = np.uint64(self.block_size - 1), np.uint64(1)
        if self.blocks == 1:
            return half_member(values + one, places, steps)
        block = values // per_block
        rows = values - block * per_block + one
        odd = steps & one
        inside = half_member(rows, places, odd)
        # another block is hit evenly, so any way of cutting it in two halves will do
        outside = (places << one) | odd
        block = (block + (steps >> one)) & np.uint64(self.blocks - 1)
        return block * np.uint64(self.block_size) + np.where(steps < np.uint64(2), inside, outside)

    def law(self, value: Any) -> Law:
        block, row = divmod(int(value), self.block_size - 1)
        half = self.block_size // 2
        law: Law = {}
        for report in range(self.alphabet):
            y = np.array([(row + 1) & (report % self.block_size)], dtype=np.uint64)
            likely = report // self.block_size == block and int(parity(y)[0]) == 0
            law[report] = (self.coin.truth if likely else self.coin.other) / half
        return law

    def sums(self, tally: Tally) -> Sums:
        counts = tally.counts.reshape(self.blocks, self.block_size)
        sums = transform(counts)[:, 1:].ravel()[: len(self.levels)].astype(float)
        gain = float(self.coin.truth - self.coin.other)
        # each report in the block adds +1 or -1, so the number of them estimates the sum of second
        # moments without bias; its expectation is at least this public number
        least = tally.people * 2 * float(self.coin.other)
        in_block = np.maximum(counts.sum(axis=1), least).astype(float)
        spread = np.repeat(in_block, self.block_size - 1)[: len(self.levels)]
        return Sums(sums=sums, gain=gain, spread=spread, holder_spread=-gain * gain)

    @property
    def variance(self) -> float:
        return _variance(self.blocks, float(self.coin.truth / self.coin.other))


def _variance(blocks: int, ratio: float) -> float:
    """For each person: 1 / B of them share the block of the level and hit it with truth + other,
    the rest with 2 other."""
    total = ratio + 2 * blocks - 1
    second = ((ratio + 1) / blocks + 2 * (1 - 1 / blocks)) / total
    return second * (total / (ratio - 1)) ** 2


def _best_blocks(size: int, epsilon: float) -> int:
    """The power of two of least variance: 1 for small epsilon, of the order of e^eps for large
    ones."""
    choices = [1 << power for power in range(size.bit_length()) if 1 << power <= min(size, 1 << 12)]
    return min(choices, key=lambda blocks: (_variance(blocks, math.exp(epsilon)), blocks))
