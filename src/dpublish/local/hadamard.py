"""Hadamard response (Acharya, Sun and Zhang 2019): one number of about log2(k) bits, and a fast
transform to read it.

Level x owns one half-block C_x: half of the 2s numbers of its block, those where its Hadamard row
is +1. A report is a number from C_x with probability `truth`, and one from each of the other 2B - 1
half-blocks with probability `other`; within a half-block all s numbers are equally likely. With one
block (small epsilon) this is the one-bit protocol of Bassily and Smith; more blocks help when e^eps
is large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import PlanError
from dpublish.local.base import FrequencyOracle, Law, Reports, Tally
from dpublish.local.coins import Coin, Coins, Words
from dpublish.local.estimates import Sums
from dpublish.privacy.cost import Amount

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
