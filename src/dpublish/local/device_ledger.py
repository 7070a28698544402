"""A wallet: what people have spent, in a file on their device, and the reports they already gave.

The debit is on disk before a report is made, so a crash can waste budget and never lend any. Asking
for the same question of the same survey again gives the same report and costs nothing: repeating it
with fresh coins is what would wear privacy down. A wallet stays on the device: it says who took
part and, through the reports, a little about their answers.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.errors import BudgetExceeded, InputError, LedgerUnavailable
from dpublish.privacy.cost import Amount, exact, positive, show

_FORMAT = "dpublish-wallet-1"


class DeviceLedger:
    """Totals and reports by person, kept in one JSON file. However a name is spelled, it is one
    person: see `person_name`.

    Parameters
    ----------
    path : path
        The file; it is made when it does not exist.
    epsilon : number
        The total that each person can lose, for ever. It must be that of the file when there is
        one.
    """

    def __init__(self, path: str | Path, *, epsilon: Amount) -> None:
        # the file is replaced when it is written, so two links to one wallet would become two
        # wallets
        self.path = Path(path).resolve()
        self.epsilon = positive(epsilon, "epsilon")

    def spent(self, person: str = "me") -> Fraction:
        """What one person has spent so far."""
        with self._locked() as people:
            return _spent(people, person_name(person))

    def debit(self, persons: Sequence[str], purpose: str, epsilon: Fraction) -> dict[str, Any]:
        """Charge each person for `purpose`, or nobody; what was answered before for it is returned
        and costs nothing more.

        A person who was charged and whose report was lost is not charged again, and gets no second
        report: refused.
        """
        if len({person_name(person) for person in persons}) != len(set(persons)):
            raise InputError(
                "Somebody is named in two spellings, which would make two reports for one debit."
            )
        names = dict.fromkeys(person_name(person) for person in persons)
        with self._locked() as people:
            given: dict[str, Any] = {}
            for person in names:
                held = people.get(person, {}).get("answers", {}).get(purpose)
                if held is not None and held["report"] is None:
                    raise BudgetExceeded(
                        "A report was paid for and lost before it was written. It cannot be made "
                        "again."
                    )
                if held is not None:
                    given[person] = held["report"]
            fresh = [person for person in names if person not in given]
            for person in fresh:
                total = _spent(people, person) + epsilon
                if total > self.epsilon:
                    raise BudgetExceeded(
                        f"A question of epsilon = {show(epsilon)} would bring somebody to "
                        f"{show(total)}, above the "
                        f"{show(self.epsilon)} that this wallet allows each person. Nobody was "
                        f"asked."
                    )
            for person in fresh:
                entry = people.setdefault(person, {"answers": {}})
                entry["answers"][purpose] = {"epsilon": str(epsilon), "report": None}
            if fresh:
                self._write(people)
        return {
            person: given[person_name(person)] for person in persons if person_name(person) in given
        }

    def record(self, purpose: str, reports: Mapping[str, Any]) -> None:
        """Keep the reports that a debit paid for."""
        with self._locked() as people:
            for person, report in reports.items():
                people[person_name(person)]["answers"][purpose]["report"] = report
            self._write(people)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[dict[str, Any]]:
        """The people of the file, while no other process can write it."""
        import fcntl

        lock = self.path.with_name(self.path.name + ".lock")
        try:
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LedgerUnavailable(
                f"The wallet '{self.path}' cannot be locked ({type(error).__name__})."
            ) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield self._read()
        finally:
            os.close(handle)

    def _read(self) -> dict[str, Any]:
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            raise LedgerUnavailable(
                f"The wallet '{self.path}' cannot be read. Nothing is answered without it."
            ) from None
        try:
            if data["format"] != _FORMAT:
                raise ValueError
            held, people = exact(data["epsilon"]), dict(data["people"])
            for person in people:
                _spent(people, person)
                if (
                    person_name(person) != person
                ):  # what is held for this spelling would never be found
                    raise ValueError
        except Exception:
            raise LedgerUnavailable(
                f"'{self.path}' is not a wallet of this version. Nothing is answered."
            ) from None
        if held != self.epsilon:
            raise LedgerUnavailable(
                f"The wallet '{self.path}' allows each person {show(held)} for ever; it cannot be "
                f"used with {show(self.epsilon)}."
            )
        return people

    def _write(self, people: dict[str, Any]) -> None:
        document = {"format": _FORMAT, "epsilon": str(self.epsilon), "people": people}
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                json.dump(document, out)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise LedgerUnavailable(
                f"The wallet '{self.path}' cannot be written ({type(error).__name__}). Nothing is "
                f"answered."
            ) from None


def person_name(spelled: str) -> str:
    """Who is meant: "ann" and " ann " are one person, and so are "7" and "7.0", as in a unit
    column."""
    name = re.sub(ZERO_FRACTION, r"\1", spelled.strip(BLANKS))
    if not name:
        raise InputError("A wallet charges people by name, and somebody has none.")
    return name


def _spent(people: Mapping[str, Any], person: str) -> Fraction:
    answers = people.get(person, {}).get("answers", {})
    return sum((Fraction(answer["epsilon"]) for answer in answers.values()), Fraction(0))
