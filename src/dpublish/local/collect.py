"""Files of a survey: answers in, reports out on the device; reports in, estimates out at the
collector.

A report file is CSV: a column `survey` with the survey's digest, then one column per question.
Files of many devices may be put one after the other, headers and all. Reports are public; answers
and wallets are not.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from dpublish.errors import InputError, QueryError
from dpublish.local.base import FrequencyOracle, Reports
from dpublish.local.coins import Coins
from dpublish.local.conjunctions import Conjunctions
from dpublish.local.device_ledger import DeviceLedger, person_name
from dpublish.local.estimates import Frequencies, normal_quantile
from dpublish.local.hitters import HeavyHitters, Hitter
from dpublish.local.mean import MeanResponse
from dpublish.local.survey import Survey
from dpublish.outputs import keep_apart


def header_and_rows(source: TextIO) -> tuple[list[str], Iterator[dict[str, str]]]:
    """Column names and rows of CSV text that was opened with newline=""; absent cells are empty."""
    lines = _Lines(source)
    table = csv.reader(lines)
    header = next(table, [])
    lines.settle()
    return header, _rows(table, header)


def _rows(table: Iterator[list[str]], header: list[str]) -> Iterator[dict[str, str]]:
    for cells in table:
        if cells or len(header) == 1:
            yield dict(zip(header, [*cells, *[""] * (len(header) - len(cells))], strict=False))


class _Lines:
    """The lines of a text whose line end is settled by the one read last."""

    def __init__(self, source: TextIO) -> None:
        self._source: Iterator[str] = source
        self._last = ""
        self._ends: tuple[str, ...] = ("",)  # any line end will do

    def settle(self) -> None:
        held: list[str] = []
        if self._last.endswith("\r"):
            while (not held or held[-1] == "\r") and (
                piece := next(self._source, None)
            ) is not None:
                held.append(piece)
            # with nothing but more carriage returns before a line feed, the line feed is what ends
            # the header
            if held[-1:] != ["\r\n"]:
                self._source, self._ends = itertools.chain(held, self._source), ("\r", "\r\n")
                return
        self._ends = ("\n",)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        parts = [next(self._source)]
        while not parts[-1].endswith(self._ends) and (more := next(self._source, None)) is not None:
            parts[-1] = parts[-1].rstrip("\r\n") + " "
            parts.append(more)
        self._last = parts[-1]
        return "".join(parts)


KEPT = 64
"""Prefixes of heavy hitters that are extended, unless more values are asked for."""

ROWS_AT_ONCE = 1 << 16
MARK = "survey"
LONGEST_ANSWER = (1 << 31) - 1
"""In characters."""


def randomize_file(
    survey: Survey,
    answers: Path,
    out: Path,
    *,
    wallet: DeviceLedger | None = None,
    person: str | None = None,
    coins: Coins | None = None,
) -> None:
    """Write one row of reports for each row of answers. With a wallet, each person is charged
    first, or nobody is."""
    if wallet is None and person is not None:
        raise InputError("A person column is of use only with a wallet.")
    keep_apart(out, answers, None if wallet is None else wallet.path)
    with _opened(answers, errors="replace") as source:
        rows = _answers(source, answers, survey, person)
        if wallet is not None:
            _write(out, survey, [_with_wallet(survey, list(rows), wallet, person, coins)])
        else:
            _write(out, survey, (survey.randomize(part, coins=coins) for part in _parts(rows)))


def _with_wallet(
    survey: Survey,
    rows: list[dict[str, str]],
    wallet: DeviceLedger,
    person: str | None,
    coins: Coins | None,
) -> list[list[str]]:
    if person is None and len(rows) != 1:
        raise InputError(
            "Without a person column the answers must be those of one person: one row."
        )
    people = ["me"] if person is None else [person_name(row[person]) for row in rows]
    if len(set(people)) != len(people):
        raise InputError("Somebody has more than one row of answers. A survey is answered once.")
    purpose = f"{survey.name}/{survey.digest}"
    given = wallet.debit(people, purpose, survey.cost)
    fresh = [place for place, name in enumerate(people) if name not in given]
    reports = dict(
        zip(
            (people[i] for i in fresh),
            survey.randomize([rows[i] for i in fresh], coins=coins),
            strict=True,
        )
    )
    if reports:
        wallet.record(purpose, reports)
    return [reports[name] if name in reports else list(given[name]) for name in people]


def _answers(
    source: TextIO, path: Path, survey: Survey, person: str | None
) -> Iterator[dict[str, str]]:
    # an answer that is no UTF-8, or longer than Python's reader takes unasked, must lead to a
    # report like any other
    limit = csv.field_size_limit(LONGEST_ANSWER)
    try:
        header, rows = header_and_rows(source)
        for column in survey.columns:
            if column not in header:
                raise InputError(f"'{path}' has no column '{column}', which the survey asks for.")
            if header.count(column) > 1:
                raise InputError(
                    f"'{path}' has more than one column '{column}'. Rename or remove the others."
                )
        if person is not None and person not in header:
            raise InputError(
                f"'{path}' has no column '{person}', which is to say who each row is (--person)."
            )
        yield from rows
    except csv.Error:
        raise InputError(f"'{path}' cannot be read as CSV.") from None
    finally:
        csv.field_size_limit(limit)


def _write(out: Path, survey: Survey, parts: Iterable[Sequence[Sequence[str]]]) -> None:
    """The file appears whole or not at all."""
    fresh = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        with fresh.open("w", encoding="utf-8", newline="") as target:
            table = csv.writer(target, lineterminator="\n")
            table.writerow([MARK, *survey.questions])
            digest = survey.digest
            for part in parts:
                table.writerows([digest, *row] for row in part)
        fresh.replace(out)
    except OSError as error:
        raise InputError(f"'{out}' cannot be written ({type(error).__name__}).") from None
    finally:
        fresh.unlink(missing_ok=True)


class Collector:
    """Adds up reports and turns them into estimates."""

    def __init__(self, survey: Survey) -> None:
        self.survey = survey
        self.people = 0
        # candidates of heavy hitters are known only when all reports are there
        self._kept: dict[str, list[Reports]] = {
            name: []
            for name, question in survey.questions.items()
            if isinstance(question.randomizer, HeavyHitters)
        }
        self._tallies = {
            name: question.randomizer.tally()
            for name, question in survey.questions.items()
            if name not in self._kept
        }

    def read(self, path: Path) -> None:
        """Add all reports of a file, or raise an InputError and add none of the part that is
        wrong."""
        digest, header = self.survey.digest, [MARK, *self.survey.questions]
        with _opened(path) as source:
            lines = csv.reader(source)
            try:
                if next(lines, None) != header:
                    raise InputError(
                        f"'{path}' is not a report file of this survey. Its first line must be: "
                        f"{','.join(header)}"
                    )
                rows = (row for row in lines if row and row != header)
                for part in _parts(rows):
                    for row in part:
                        if len(row) != len(header) or row[0] != digest:
                            raise InputError(
                                f"'{path}' holds a report of another survey or version: "
                                f"{','.join(row)[:80]}"
                            )
                    self.add([row[1:] for row in part], where=str(path))
            except (csv.Error, UnicodeDecodeError):
                raise InputError(f"'{path}' cannot be read as CSV in UTF-8.") from None

    def add(self, rows: Sequence[Sequence[str]], *, where: str = "reports") -> None:
        """Add rows of reports as texts, in the order of the questions."""
        read: dict[str, Reports] = {}
        for place, (name, question) in enumerate(self.survey.questions.items()):
            try:
                read[name] = question.randomizer.read([row[place] for row in rows])
            except InputError as error:
                raise InputError(f"{where}, question '{name}': {error}") from None
        for name, reports in read.items():
            if name in self._kept:
                self._kept[name].append(reports)
            else:
                self._tallies[name].add(reports)
        self.people += len(rows)

    def results(self, *, level: float = 0.95, most: int = 20) -> dict[str, Any]:
        """For each question: Frequencies, Estimate (a mean), ConjunctionEstimates, or a list
        of at most `most` Hitter."""
        normal_quantile(level)
        if self.people == 0:
            raise QueryError("There are no reports to estimate from.")
        out: dict[str, Any] = {}
        for name, question in self.survey.questions.items():
            randomizer = question.randomizer
            if isinstance(randomizer, HeavyHitters):
                out[name] = randomizer.aggregate(
                    np.concatenate(self._kept[name]), most=most, keep=max(KEPT, most), level=level
                )
            elif isinstance(randomizer, Conjunctions | MeanResponse | FrequencyOracle):
                out[name] = randomizer.aggregate(self._tallies[name], level=level)
        return out


def result_json(result: Any) -> Any:
    """One result of `Collector.results` as plain values."""
    if isinstance(result, list):
        return [
            {"code": hitter.code, "name": hitter.name, **hitter.estimate.to_json()}
            for hitter in result
        ]
    return result.to_json()


def _opened(path: Path, errors: str = "strict") -> TextIO:
    try:
        return path.open(
            encoding="utf-8-sig", errors=errors, newline=""
        )  # spreadsheets put a mark before the first name
    except OSError as error:
        raise InputError(f"'{path}' cannot be opened ({type(error).__name__}).") from None


def _parts(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while part := list(itertools.islice(rows, ROWS_AT_ONCE)):
        yield part


__all__ = ["Collector", "Frequencies", "Hitter", "randomize_file", "result_json"]
