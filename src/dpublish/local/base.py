"""What every randomizer of the local model is: a private map from one person's value to a report,
and a tally of reports.

The value never leaves the device; the report may be given to anyone. `randomize` works on many
people at once only so that simulations and shared tablets are fast: each report depends on one
value and on fresh coins.

Tallies add up: several collectors may each keep one and merge them. They hold nothing private.
"""

from __future__ import annotations

import abc
import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Words
from dpublish.errors import InputError, PlanError
from dpublish.local.coins import Coins, DeviceCoins, checked_epsilon
from dpublish.local.estimates import Frequencies, Sums, frequencies
from dpublish.privacy.cost import Amount, Cost

Reports = NDArray[Any]
Counts = NDArray[np.int64]
Law = dict[int, Fraction]

# Small enough that a chunk and what is computed from it stay in the processor's cache.
CHUNK = 1 << 16


class Randomizer(abc.ABC):
    """An epsilon-local randomizer (Kasiviswanathan et al. 2008; Roth 2010, definition 21)."""

    method: str
    error_of: str = "a count of people"

    def __init__(self, epsilon: Amount) -> None:
        self.epsilon = checked_epsilon(epsilon)

    @property
    def cost(self) -> Cost:
        """What one report costs the person who gives it."""
        return Cost.pure(self.epsilon)

    @abc.abstractmethod
    def protocol(self) -> dict[str, Any]:
        """The public facts that both sides must agree on, as plain JSON values."""

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the protocol."""
        return hashlib.sha256(json.dumps(self.protocol(), sort_keys=True).encode()).hexdigest()[:16]

    @abc.abstractmethod
    def check_values(self, values: Any) -> NDArray[Any]:
        """The values as an array of what `_reports` takes. Raises without quoting a value."""

    @abc.abstractmethod
    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        """One report for each checked value."""

    @abc.abstractmethod
    def law(self, value: Any) -> Law:
        """The exact probability of every report for one value. For audits; small alphabets only."""

    @property
    @abc.abstractmethod
    def alphabet(self) -> int:
        """How many different counts a tally keeps: one for each report, or for each bit of one."""

    def check_reports(self, reports: Any) -> Reports:
        """The reports as an array, or an InputError that names the first one outside the
        protocol."""
        return report_codes(reports, self.alphabet)

    def count(self, reports: Reports) -> Counts:
        """What the estimate needs to know of checked reports: sums, so that parts can be added."""
        return count_codes(reports, self.alphabet)

    @abc.abstractmethod
    def expected_error(self, people: int) -> float:
        """The standard error to expect of what `error_of` names, before anybody answers."""

    def randomize(self, values: Any, *, coins: Coins | None = None) -> Reports:
        """One report for each value. `coins` is for tests and simulations; the default is the
        operating system."""
        checked = self.check_values(values)
        source = DeviceCoins() if coins is None else coins
        chunk = self._chunk()
        if len(checked) <= chunk:
            return self._reports(checked, source)
        first = self._reports(checked[:chunk], source)
        reports = np.empty((len(checked), *first.shape[1:]), dtype=first.dtype)
        reports[:chunk] = first
        for start in range(chunk, len(checked), chunk):
            reports[start : start + chunk] = self._reports(checked[start : start + chunk], source)
        return reports

    def randomize_one(self, value: Any, *, coins: Coins | None = None) -> Any:
        """The report of one person, as it is written to a file: an integer, or text for unary
        encoding."""
        return self.written(self.randomize([value], coins=coins))[0]

    def written(self, reports: Reports) -> list[Any]:
        """Reports as they stand in a file."""
        return [int(report) for report in reports]

    def read(self, texts: Sequence[str]) -> Reports:
        """Reports from the texts of a file."""
        return self.check_reports(np.array([_whole(text) for text in texts], dtype=np.uint64))

    def tally(self, reports: Any = None) -> Tally:
        """An empty tally, or the tally of `reports`."""
        tally = Tally(self)
        if reports is not None:
            tally.add(reports)
        return tally

    def _chunk(self) -> int:
        return CHUNK


class FrequencyOracle(Randomizer):
    """A randomizer of one level of many, from whose reports the number of people at every level is
    estimated (Wang, Blocki, Li and Jha 2017)."""

    def __init__(self, levels: int | Iterable[str], epsilon: Amount) -> None:
        super().__init__(epsilon)
        self.levels = level_names(levels)

    @abc.abstractmethod
    def settings(self) -> dict[str, int]:
        """What both sides must agree on beyond levels and epsilon."""

    @property
    @abc.abstractmethod
    def variance(self) -> float:
        """Variance of an estimated count, for each person, when few people hold the level and the
        others are spread evenly."""

    @abc.abstractmethod
    def sums(self, tally: Tally) -> Sums:
        """The sums that the numbers of people are estimated from."""

    def protocol(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "levels": list(self.levels),
            "epsilon": str(self.epsilon),
            **self.settings(),
        }

    def check_values(self, values: Any) -> NDArray[Any]:
        return level_codes(values, len(self.levels))

    def aggregate(
        self, reports: Any, *, level: float = 0.95, together: bool = False
    ) -> Frequencies:
        """Unbiased counts with error bars from reports, or from their tally."""
        tally = tallied(self, reports)
        return frequencies(
            self.sums(tally),
            levels=self.levels,
            people=tally.people,
            epsilon=self.epsilon,
            level=level,
            together=together,
        )

    def expected_error(self, people: int) -> float:
        return math.sqrt(self.variance * people)


class Tally:
    """Sums over reports, which are added as they come in."""

    def __init__(self, randomizer: Randomizer) -> None:
        self.randomizer = randomizer
        self.people = 0
        self._counts: Counts | None = None

    @property
    def counts(self) -> Counts:
        if self._counts is None:
            raise InputError("There are no reports to estimate from.")
        return self._counts

    def add(self, reports: Any) -> None:
        checked = self.randomizer.check_reports(reports)
        if len(checked):
            counts = self.randomizer.count(checked)
            self._counts = counts if self._counts is None else self._counts + counts
            self.people += len(checked)


def tallied(randomizer: Randomizer, reports: Any) -> Tally:
    """`reports` as a tally of this protocol, whether it is one already or not."""
    if not isinstance(reports, Tally):
        return randomizer.tally(reports)
    if reports.randomizer.digest != randomizer.digest:
        raise InputError(
            "The tally belongs to another protocol: level, epsilon and method must be the same."
        )
    return reports


def level_names(levels: int | Iterable[str]) -> tuple[str, ...]:
    """The names of the levels; a number stands for "0", "1", ..."""
    if isinstance(levels, int) and not isinstance(levels, bool):
        if not 2 <= levels <= 1 << 26:
            raise PlanError(f"A question needs 2 to {1 << 26} levels, not {levels}.")
        return tuple(map(str, range(levels)))
    if isinstance(levels, str | bool) or not isinstance(levels, Iterable):
        raise PlanError("levels must be a list of names, or how many there are.")
    names = tuple(str(level) for level in levels)
    if len(names) < 2:
        raise PlanError(f"A question needs at least 2 levels, not {len(names)}.")
    if len(set(names)) != len(names):
        raise PlanError("levels names a level twice.")
    return names


def level_codes(values: Any, size: int) -> Words:
    """Values as codes below `size`. What was wrong with which value is not told: the values are
    private."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iub" and array.size):
        raise InputError(
            f"Values must be a list of level codes: whole numbers from 0 to {size - 1}."
        )
    if array.size and (int(array.min()) < 0 or int(array.max()) >= size):
        raise InputError(f"A value is not a level code: they run from 0 to {size - 1}.")
    return array.astype(np.uint64)


def report_codes(reports: Any, size: int) -> Words:
    """Reports as codes below `size`. A report is public, so the error may quote it."""
    array = np.asarray(reports)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InputError("Reports must be a list of whole numbers.")
    bad = (
        np.flatnonzero((array < 0) | (array >= size)) if array.size else np.empty(0, dtype=np.int64)
    )
    if bad.size:
        place = int(bad[0])
        raise InputError(
            f"Report {int(array[place])} (number {place + 1}) is outside the protocol, which has "
            f"reports 0 to {size - 1}."
        )
    return array.astype(np.uint64, copy=False)


def count_codes(codes: Words, size: int) -> Counts:
    return np.bincount(codes.view(np.int64), minlength=size).astype(np.int64, copy=False)


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) >= 1 << 64:
        raise InputError(f"Report '{text[:30]}' is not a whole number.")
    return int(text)
