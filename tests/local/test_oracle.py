"""The oracle holds every person to their total and refuses before it reads a record."""

from __future__ import annotations

import threading
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import pytest

from dpublish.errors import BudgetExceeded, QueryError
from dpublish.local import BinaryResponse, KaryResponse, LocalOracle
from dpublish.noise.source import SeededNoise


class Unreadable:
    """Stands for records: looking at one is a failure of the test."""

    def __init__(self, people: int) -> None:
        self.shape, self.ndim = (people,), 1

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, asked: Any) -> Any:
        raise AssertionError("a record was read")


def test_the_question_that_would_exceed_is_refused() -> None:
    oracle = LocalOracle([0, 1, 1], epsilon=1)
    half, third = BinaryResponse("1/2"), BinaryResponse("1/3")
    oracle.ask(1, half)
    oracle.ask(1, third)
    assert oracle.spent(1) == Fraction(5, 6)
    assert oracle.left(1) == Fraction(1, 6)
    with pytest.raises(BudgetExceeded, match="Nobody was asked"):
        oracle.ask(1, third)
    oracle.ask(1, BinaryResponse("1/6"))
    assert oracle.left(1) == 0
    with pytest.raises(BudgetExceeded):
        oracle.ask(1, BinaryResponse("1/1000"))
    assert oracle.spent(0) == 0


def test_all_are_asked_or_nobody_is() -> None:
    oracle = LocalOracle(np.zeros(100, dtype=int), epsilon=1)
    oracle.ask(42, BinaryResponse("2/3"))
    with pytest.raises(BudgetExceeded):
        oracle.ask_many(BinaryResponse("1/2"))
    assert [oracle.spent(person) for person in (0, 41, 42)] == [0, 0, Fraction(2, 3)]
    others = [person for person in range(100) if person != 42]
    assert len(oracle.ask_many(BinaryResponse("1/2"), people=others)) == 99
    assert oracle.spent(0) == Fraction(1, 2)


def test_a_refusal_reads_no_record() -> None:
    oracle = LocalOracle([0] * 3, epsilon=1)
    oracle._LocalOracle__records = Unreadable(3)  # type: ignore[attr-defined]
    with pytest.raises(BudgetExceeded):
        oracle.ask(0, BinaryResponse(2))
    with pytest.raises(AssertionError, match="read"):
        oracle.ask(0, BinaryResponse(1))
    assert oracle.spent(0) == 1  # debited before the record was read


def test_a_failed_question_stays_paid() -> None:
    class Broken(SeededNoise):
        def integers(self, bound: int, *, size: int, label: str = "") -> NoReturn:
            raise OSError("no more words")

    oracle = LocalOracle([7], epsilon=1, coins=Broken(1))
    with pytest.raises(OSError, match="no more words"):
        oracle.ask(0, KaryResponse(8, "1/2"))
    assert oracle.spent(0) == Fraction(1, 2)


def test_columns_of_records() -> None:
    records = np.array([[0, 2], [1, 1]])
    oracle = LocalOracle(records, epsilon=48, coins=SeededNoise(1))
    sure = KaryResponse(3, 24)
    assert oracle.ask_many(sure, column=1).tolist() == [2, 1]
    assert oracle.ask(1, sure, column=0) == 1
    for column in (2, -1):
        with pytest.raises(QueryError):
            oracle.ask_many(sure, column=column)


@pytest.mark.parametrize("people", [[3], [-1], [0, 0], [0.5], [[0]], ["a"]])
def test_bad_people_are_refused(people: Any) -> None:
    oracle = LocalOracle([0, 1, 1], epsilon=1)
    with pytest.raises(QueryError):
        oracle.ask_many(BinaryResponse(1), people=people)
    assert [oracle.spent(person) for person in range(3)] == [0, 0, 0]


def test_threads_cannot_overspend() -> None:
    oracle = LocalOracle([1], epsilon=1)
    answered: list[int] = []

    def ask() -> None:
        for _ in range(20):
            try:
                oracle.ask(0, BinaryResponse("1/10"))
                answered.append(1)
            except BudgetExceeded:
                pass

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answered) == 10
    assert oracle.left(0) == 0


def test_a_million_people() -> None:
    oracle = LocalOracle(np.zeros(1_000_000, dtype=np.int64), epsilon=1)
    for _ in range(3):
        oracle.ask_many(BinaryResponse("1/3"))
    assert oracle.spent(999_999) == 1
