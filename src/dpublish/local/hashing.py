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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import PlanError
from dpublish.local.base import Counts, FrequencyOracle, Law, Reports, Tally
from dpublish.local.coins import Coin, Coins, Words
from dpublish.local.estimates import Floats, Sums, indicator_sums
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
        named = self._support(tally.counts)
        return indicator_sums(named, tally.people, self.coin.truth, self.stranger)

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
