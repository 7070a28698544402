"""Heavy hitters: the common values of a declared domain that is too large to count, such as words,
pages or part numbers.

Each person draws a stage and reports the first bits of their value's code, as many as the stage
looks at, by one-block Hadamard response (the prefix-extending protocol of Wang, Li and Jha 2019).
The collector keeps the best prefixes of a stage and extends them in the next. Stages are answered
by different people, so the estimates of the last stage are unbiased for the values that reached it.
A domain of up to 2^16 values needs one stage, and is simply counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Words
from dpublish.errors import InputError, PlanError
from dpublish.estimate import Estimate
from dpublish.local.base import (
    Counts,
    Law,
    Randomizer,
    Reports,
    level_codes,
    level_names,
)
from dpublish.local.coins import Coin, Coins
from dpublish.local.estimates import Sums, frequencies
from dpublish.local.hashing import half_member, parity, transform
from dpublish.privacy.cost import Amount

MAX_DOMAIN_BITS = 48
FIRST_BITS = 16
STEP_BITS = 6


@dataclass(frozen=True)
class Hitter:
    """A common value. `estimate` is the number of people who hold it."""

    code: int
    name: str
    estimate: Estimate


class HeavyHitters(Randomizer):
    """One number about the first bits of a value's code.

    Input: one code of the declared domain, of up to 2^48 values. Neighbours: any two values of one
    person.
    Output: report x stages + stage.
    Privacy: epsilon (theorem 7 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: the stage, which has nothing to do with the value, and a Hadamard response about
    a prefix.
    Accuracy: with g stages, values held by more than about z sqrt(g n) (e^eps + 1) / (e^eps - 1)
    people are found.
    """

    method = "heavy-hitters"

    def __init__(self, domain: int | Iterable[str], epsilon: Amount, *, bits: int = 64) -> None:
        super().__init__(epsilon)
        self.names: tuple[str, ...] | None = None
        if isinstance(domain, int):
            if isinstance(domain, bool) or not 2 <= domain <= 1 << MAX_DOMAIN_BITS:
                raise PlanError(f"A domain has 2 to 2^{MAX_DOMAIN_BITS} values, not {domain}.")
            self.domain = domain
        else:
            self.names = level_names(domain)
            self.domain = len(self.names)
        self.length = (self.domain - 1).bit_length()
        self.prefixes = tuple(_prefixes(self.length))
        self.coin = Coin(2, self.epsilon, bits)

    def protocol(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "domain": self.domain if self.names is None else list(self.names),
            "prefixes": list(self.prefixes),
            "epsilon": str(self.epsilon),
            "bits": self.coin.bits,
        }

    def check_values(self, values: Any) -> NDArray[Any]:
        return level_codes(values, self.domain)

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        people, stages = len(values), np.uint64(len(self.prefixes))
        stage = coins.integers(len(self.prefixes), size=people, label="stage")
        lengths = np.array(self.prefixes, dtype=np.uint64)[stage.view(np.int64)]
        prefix = values >> (np.uint64(self.length) - lengths)
        # a place for the longest prefix, of which a shorter one uses the low bits: uniform too
        places = coins.integers(1 << self.length, size=people, label="place")
        places &= (np.uint64(1) << lengths) - np.uint64(1)
        answer = half_member(_row(prefix), places, self.coin.draw(coins, people))
        return answer * stages + stage

    def law(self, value: Any) -> Law:
        law: Law = {}
        for stage, length in enumerate(self.prefixes):
            row = _row(np.array([int(value) >> (self.length - length)], dtype=np.uint64))
            share = Fraction(1, len(self.prefixes) << length)
            for answer in range(2 << length):
                even = int(parity(row & np.uint64(answer))[0]) == 0
                law[answer * len(self.prefixes) + stage] = share * (
                    self.coin.truth if even else self.coin.other
                )
        return law

    @property
    def alphabet(self) -> int:
        return (2 << self.length) * len(self.prefixes)

    def check_reports(self, reports: Any) -> Reports:
        codes = super().check_reports(reports)
        if len(self.prefixes) == 1:
            return codes
        answers, stage_of = self._split(codes)
        bad = (
            answers
            >= np.array([2 << length for length in self.prefixes], dtype=np.uint64)[
                stage_of.view(np.int64)
            ]
        )
        if bool(bad.any()):
            place = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"Report {int(codes[place])} (number {place + 1}) is outside the protocol."
            )
        return codes

    def _split(self, codes: Words) -> tuple[Words, Words]:
        """The answer and the stage of each report."""
        if len(self.prefixes) == 1:
            return codes, np.zeros(codes.size, dtype=np.uint64)
        stages = np.uint64(len(self.prefixes))
        answers = codes // stages
        return answers, codes - answers * stages

    def count(self, reports: Reports) -> Counts:
        """How many people answered each stage. The estimate needs the reports themselves; see
        `aggregate`."""
        return np.bincount(
            self._split(reports)[1].view(np.int64), minlength=len(self.prefixes)
        ).astype(np.int64)

    def expected_error(self, people: int) -> float:
        return math.sqrt(self.variance * people)

    @property
    def variance(self) -> float:
        """Variance of an estimated count, for each person, when few people hold the value."""
        return len(self.prefixes) / float(self.coin.truth - self.coin.other) ** 2

    def aggregate(
        self, reports: Any, *, most: int = 20, keep: int = 64, level: float = 0.95
    ) -> list[Hitter]:
        """Up to `most` values whose number of holders is above 0 beyond doubt, the most common
        first.

        `keep` prefixes are extended at each stage. The intervals of the answer hold together, with
        probability `level`.
        """
        if most < 1 or keep < 1:
            raise PlanError("most and keep must be at least 1.")
        codes = self.check_reports(reports)
        answers, stage_of = self._split(codes)
        candidates = np.zeros(1, dtype=np.uint64)
        sums, seen, before = np.zeros(1), 0, 0
        for stage, length in enumerate(self.prefixes):
            answered = answers[stage_of == np.uint64(stage)]
            if answered.size == 0:
                return []
            sums = _extend(candidates, answered, length - before)
            candidates = (candidates[:, None] << np.uint64(length - before)) | np.arange(
                1 << (length - before), dtype=np.uint64
            )
            candidates, sums = candidates.ravel(), sums.ravel()
            inside = candidates << np.uint64(self.length - length) < np.uint64(self.domain)
            candidates, sums, seen, before = candidates[inside], sums[inside], answered.size, length
            if length < self.length:
                best = np.sort(np.argsort(-sums, kind="stable")[:keep])
                candidates = candidates[best]
        return self._judge(candidates, sums, seen, len(codes), most, level)

    def _judge(
        self, candidates: Words, sums: Floats, seen: int, people: int, most: int, level: float
    ) -> list[Hitter]:
        gain = float(self.coin.truth - self.coin.other)
        share = seen / people
        # everyone answers this stage with the same chance, so a holder adds share x gain on average
        moments = Sums(
            sums=sums,
            gain=gain * share,
            spread=np.full(sums.shape, float(seen)),
            holder_spread=-((gain * share) ** 2),
        )
        names = tuple(
            self.names[int(code)] if self.names else str(int(code)) for code in candidates
        )
        found = frequencies(
            moments, levels=names, people=people, epsilon=self.epsilon, level=level, together=True
        )
        return [
            Hitter(code=int(candidates[i]), name=names[i], estimate=found.of(names[i]))
            for i in np.argsort(-found.counts, kind="stable")[:most]
            if found.low[i] > 0
        ]


def _row(prefix: Words) -> Words:
    """The Hadamard row of a prefix: never 0, and its bits above the lowest are those of the
    prefix."""
    return (prefix << np.uint64(1)) | np.uint64(1)


def _extend(prefixes: Words, answers: Words, step: int) -> Floats:
    """For every prefix and each of its 2^step extensions, the sum over reports of the sign of its
    row.

    The sign of a row splits into that of the prefix, of the extension and of the last bit, so one
    pass over the reports and a small transform serve all extensions of a prefix.
    """
    one = np.uint64(1)
    extension = ((answers >> one) & np.uint64((1 << step) - 1)).view(np.int64)
    high, last = answers >> np.uint64(step + 1), answers & one
    out = np.empty((prefixes.size, 1 << step))
    for place, prefix in enumerate(prefixes):
        odd = (
            parity(high & prefix) ^ last if prefix else last
        )  # nothing is known yet at the first stage
        folded = np.bincount(extension + (odd.view(np.int64) << step), minlength=2 << step).astype(
            np.int64
        )
        out[place] = transform((folded[: 1 << step] - folded[1 << step :]).reshape(1, -1))[0]
    return out


def _prefixes(length: int) -> list[int]:
    """How many bits each stage looks at: everything if it can be counted, else steps that a stage
    can try one by one."""
    if length <= FIRST_BITS:
        return [length]
    rest = length - FIRST_BITS
    steps = -(-rest // STEP_BITS)
    return [FIRST_BITS + rest * step // steps for step in range(steps + 1)]
