"""Exact draws from a finite law with irrational probabilities, one table look-up each.

The table holds integer masses, each surely at most 2^bits times its probability. What is missing is
the mass of one more symbol, the residual; a word that lands there is resolved by ball arithmetic
from the exact remainders, so the law is that of the real numbers and not of a rounding of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from dpublish.compiled import njit
from dpublish.noise.balls import floor_below
from dpublish.noise.words import WordStream

Law = Callable[[], Sequence[arb]]
"""The probabilities of all symbols as balls at the current working precision; their true values add
up to one."""

CHUNK = 1 << 15
_GUARD_BITS = 64


class AliasTable:
    """Symbols 0, 1, ... of a law. `bits` is how many leading bits of a word choose the symbol; the
    others stay unused.

    `residual` is the number of the symbol that stands for "not decided by these bits"; `symbols`
    never returns it.
    """

    def __init__(self, law: Law, *, bits: int = 64) -> None:
        self.law = law
        self.bits = bits
        with ctx.workprec(bits + 2 * _GUARD_BITS):
            scale = arb(1 << bits)
            self.masses = [max(0, floor_below(p * scale)) for p in law()]
        self.residual = len(self.masses)
        self.residual_mass = (1 << bits) - sum(self.masses)
        if self.residual_mass < 0:
            raise ArithmeticError("the masses of an alias table exceed one")
        self.columns_log2 = max(1, self.residual.bit_length())
        if self.columns_log2 > bits:
            raise ArithmeticError("an alias table has more symbols than its words can tell apart")
        thresholds, aliases = _columns(
            [*self.masses, self.residual_mass],
            1 << self.columns_log2,
            1 << (bits - self.columns_log2),
        )
        self.thresholds = np.array([t << (64 - bits) for t in thresholds], dtype=np.uint64)
        self.aliases = np.array(aliases, dtype=np.int32)

    def symbols(self, stream: WordStream, size: int) -> NDArray[np.int64]:
        """Independent symbols of the exact law."""
        out = np.empty(size, dtype=np.int64)
        rare = np.empty(min(size, CHUNK), dtype=np.int64)
        words = np.empty(min(size, CHUNK), dtype=np.uint64)
        for start in range(0, size, CHUNK):
            part = out[start : start + CHUNK]
            stream.fill(words[: part.size])
            found = alias_symbols(
                words[: part.size],
                self.thresholds,
                self.aliases,
                self.columns_log2,
                self.residual,
                part,
                rare,
            )
            for place in rare[:found]:
                part[place] = self.resolve(stream)
        return out

    def symbol(self, stream: WordStream, word: int) -> int:
        """The symbol that `word` chooses, resolved exactly if the word is not enough."""
        shift = 64 - self.columns_log2
        column = word >> shift
        if (word & ((1 << shift) - 1)) < int(self.thresholds[column]):
            chosen = column
        else:
            chosen = int(self.aliases[column])
        return self.resolve(stream) if chosen == self.residual else chosen

    def resolve(self, stream: WordStream) -> int:
        """A symbol given that the word chose the residual: probability proportional to 2^bits p -
        mass.

        A uniform real below the residual mass is compared with the running sum of the remainders.
        Its bits are drawn as they are needed, so it is the same real number at every precision.
        """
        place = stream.below(self.residual_mass)
        drawn = 0
        while True:
            place = (place << 64) | stream.bits(64)
            drawn += 64
            found = self._locate(place, drawn)
            if found is not None:
                return found

    def _locate(self, place: int, drawn: int) -> int | None:
        with ctx.workprec(self.bits + drawn + 2 * _GUARD_BITS):
            scale, unit = arb(1 << self.bits), arb(1 << drawn)
            reached = arb(0)
            probabilities = self.law()
            for symbol, mass in enumerate(self.masses[:-1]):
                reached += probabilities[symbol] * scale - mass
                edge = reached * unit
                if arb(place + 1) <= edge:
                    return symbol
                if not arb(place) >= edge:
                    return None
        return len(self.masses) - 1


def _columns(masses: Sequence[int], count: int, capacity: int) -> tuple[list[int], list[int]]:
    """Walker's alias columns in integers: column c gives symbol c below its threshold and its alias
    otherwise."""
    left = [*masses, *([0] * (count - len(masses)))]
    thresholds, aliases = [capacity] * count, list(range(count))
    small = [c for c in range(count) if left[c] < capacity]
    large = [c for c in range(count) if left[c] >= capacity]
    while small:
        poor, rich = small.pop(), large[-1]
        thresholds[poor], aliases[poor] = left[poor], rich
        left[rich] -= capacity - left[poor]
        if left[rich] < capacity:
            small.append(large.pop())
    built = [0] * count
    for column in range(count):
        built[column] += thresholds[column]
        built[aliases[column]] += capacity - thresholds[column]
    # The check makes the law a fact about this table rather than about the loop above.
    if built != [*masses, *([0] * (count - len(masses)))]:
        raise ArithmeticError("an alias table does not hold its masses")
    return thresholds, aliases


# Table look-ups: one word, one symbol.


@njit(cache=True, nogil=True)
def alias_symbols(
    words: NDArray[np.uint64],
    thresholds: NDArray[np.uint64],
    aliases: NDArray[np.int32],
    columns_log2: int,
    first_rare: int,
    out: NDArray[np.int64],
    rare: NDArray[np.int64],
) -> int:
    """Write one symbol per word; note the places of symbols >= `first_rare` and return how many
    there are."""
    shift = np.uint64(64 - columns_log2)
    mask = (np.uint64(1) << shift) - np.uint64(1)
    found = 0
    for i in range(words.size):
        word = words[i]
        column = word >> shift
        # Both loads and the note are unconditional: a branch on random bits costs more than all of
        # them.
        alias = np.int64(aliases[column])
        symbol = np.int64(column) if (word & mask) < thresholds[column] else alias
        out[i] = symbol
        rare[found] = i
        found += int(symbol >= first_rare)
    return found
