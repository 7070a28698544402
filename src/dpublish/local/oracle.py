"""The oracle of the local model: the only way to a person's record, and each person has a budget
(Roth 2010, definition 22).

`LocalOracle` holds the records of a simulation or of one device. Whoever asks names people and a
randomizer, never sees a record, and is refused, before any record is read, when somebody's total
would exceed the budget (definition 23).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.errors import BudgetExceeded, InputError, QueryError
from dpublish.local.base import Randomizer, Reports
from dpublish.local.coins import Coins
from dpublish.privacy.cost import Amount, positive, show


class LocalOracle:
    """Answers questions about people within a total of `epsilon` for each.

    Parameters
    ----------
    records : sequence or array
        One entry a person: what the randomizers that will be asked take as a value. A matrix has
        one row per person, and `column` then says which value a question is about.
    epsilon : number
        The total that each person can lose, for ever.
    coins : Coins, optional
        For tests and simulations; the default is the operating system.
    """

    def __init__(self, records: Any, *, epsilon: Amount, coins: Coins | None = None) -> None:
        self.__records = np.asarray(records)
        if self.__records.dtype.kind not in "biuf" or not 1 <= self.__records.ndim <= 2:
            # among other objects, whether a question fits could depend on a single record
            raise InputError(
                "Records must be numbers: one for each person, or a matrix with a row for each."
            )
        self.epsilon = positive(epsilon, "epsilon")
        self._nobody: NDArray[Any] = np.zeros(
            (1, *self.__records.shape[1:]), dtype=self.__records.dtype
        )
        self._coins = coins
        self._lock = threading.Lock()
        # people with the same total share a class, so that a million exact totals cost no more than
        # a few
        self._totals: list[Fraction] = [Fraction(0)]
        self._class: NDArray[np.int64] = np.zeros(len(self.__records), dtype=np.int64)

    @property
    def people(self) -> int:
        return len(self._class)

    def spent(self, person: int) -> Fraction:
        """What one person has spent so far."""
        return self._totals[int(self._class[self._checked([person])[0]])]

    def left(self, person: int) -> Fraction:
        return self.epsilon - self.spent(person)

    def ask(self, person: int, randomizer: Randomizer, *, column: int | None = None) -> Any:
        """One report of one person."""
        return randomizer.written(self.ask_many(randomizer, people=[person], column=column))[0]

    def ask_many(
        self,
        randomizer: Randomizer,
        *,
        people: Sequence[int] | NDArray[Any] | None = None,
        column: int | None = None,
    ) -> Reports:
        """One report of each of `people` (all when left out). Either all are asked, or, when one
        cannot afford it, none."""
        asked = np.arange(self.people) if people is None else self._checked(people)
        if column is not None and (
            self.__records.ndim != 2 or not 0 <= column < self.__records.shape[1]
        ):
            raise QueryError(f"The records have no column {column}.")
        # whether the question fits the shape of a record is public, and found out before anybody
        # pays
        randomizer.check_values(self._nobody if column is None else self._nobody[:, column])
        self._debit(asked, randomizer.epsilon)
        values = self.__records[asked] if column is None else self.__records[asked, column]
        return randomizer.randomize(_in_domain(randomizer, values), coins=self._coins)

    def _debit(self, asked: NDArray[np.int64], epsilon: Fraction) -> None:
        with self._lock:
            held = self._class[asked]
            after: dict[int, int] = {}
            for name in np.unique(held).tolist():
                total = self._totals[name] + epsilon
                if total > self.epsilon:
                    raise BudgetExceeded(
                        f"A question of epsilon = {show(epsilon)} would bring somebody to "
                        f"{show(total)}, above the "
                        f"{show(self.epsilon)} that was promised to each person. Nobody was asked."
                    )
                if total not in self._totals:
                    self._totals.append(total)
                after[name] = self._totals.index(total)
            move = np.arange(len(self._totals))
            for name, new in after.items():
                move[name] = new
            self._class[asked] = move[held]

    def _checked(self, people: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
        asked = np.asarray(people)
        if asked.ndim != 1 or (asked.dtype.kind not in "iu" and asked.size):
            raise QueryError("people must be a list of whole numbers.")
        if asked.size and (int(asked.min()) < 0 or int(asked.max()) >= self.people):
            raise QueryError(f"People are numbered from 0 to {self.people - 1}.")
        if np.unique(asked).size != asked.size:
            raise QueryError("Somebody is named twice. Ask twice instead, and pay twice.")
        return asked.astype(np.int64)


def _in_domain(randomizer: Randomizer, values: NDArray[Any]) -> NDArray[Any]:
    """The values, those outside the question's domain taken as zero: the asker chose the domain, so
    an error would tell."""
    try:
        randomizer.check_values(values)
        return values
    except InputError:
        distinct, place = np.unique(values, axis=0, return_inverse=True)
        for i in range(len(distinct)):
            try:
                randomizer.check_values(distinct[i : i + 1])
            except InputError:
                distinct[i] = 0
        settled: NDArray[Any] = distinct[place.reshape(-1)]
        return settled
