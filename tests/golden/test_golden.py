"""Releases, ledgers, sessions and wallets that were made earlier still open, answer as they did,
and cannot be overspent."""

from __future__ import annotations

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from release_texts import document

import dpublish as dp

HERE = Path(__file__).parent
FOLDERS = sorted(path.parent for path in HERE.glob("*/expected.json"))
EXPECTED = {
    folder.name: json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    for folder in FOLDERS
}
QUESTIONS = [
    (folder, place) for folder, held in EXPECTED.items() for place in range(len(held["releases"]))
]
LEDGERS = [
    (folder, place) for folder, held in EXPECTED.items() for place in range(len(held["ledgers"]))
]


def test_there_are_golden_files_of_every_kind() -> None:
    documented = re.findall(
        r"^## Kind `([a-z-]+)`",
        (HERE.parents[1] / "docs" / "bundle-format.md").read_text(),
        re.MULTILINE,
    )
    kinds = {dp.open_release(file).kind for file in HERE.glob("*/releases/*.dpr")}
    assert kinds == set(documented)


@pytest.fixture
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a golden folder, on a machine that knows its ledgers."""
    copied = tmp_path / "golden"
    shutil.copytree(HERE / request.param, copied)
    (copied / "name").write_text(request.param)
    monkeypatch.setenv("DPUBLISH_STATE", str(copied / "state"))
    monkeypatch.chdir(copied)
    return copied


@pytest.mark.parametrize(("folder", "place"), QUESTIONS, indirect=["folder"])
def test_a_release_answers_as_it_did(folder: Path, place: int) -> None:
    asked = EXPECTED[original(folder)]["releases"][place]
    verb, *rest = asked["words"]
    assert dp.verify_bundle(folder / "releases" / asked["release"]).ok
    said = document(verb, f"releases/{asked['release']}", *rest, "--json")
    assert difference(said, asked["says"]) is None


def as_it_was(status: Any, held: dict[str, Any]) -> bool:
    """Every fact that was told of a ledger is told the same way; later code may tell more."""
    now = status.to_json()
    return all(now[name] == value for name, value in held["status"].items())


@pytest.mark.parametrize(("folder", "place"), LEDGERS, indirect=["folder"])
def test_a_ledger_has_its_history_and_goes_on(folder: Path, place: int) -> None:
    held = EXPECTED[original(folder)]["ledgers"][place]
    with dp.open_ledger(folder / "ledgers" / held["file"], name=held["name"]) as ledger:
        assert as_it_was(ledger.status(), held)
        assert as_it_was(ledger.verify(), held)
        assert [entry.to_json() for entry in ledger.history()] == held["history"]
        first = next(entry for entry in ledger.history() if entry.kind == "debit")
        what = first.detail["what"]
        again = ledger.debit(first.key, dp.Cost.from_json(first.detail["cost"]), what)
        assert (again.fresh, again.head_hash) == (False, first.hash)
        before = ledger.status()
        small = dp.Cost.zcdp("1/1000") if before.cap.rho else dp.Cost.pure("1/1000")
        paid = ledger.debit("new", small, what)
        assert paid.fresh
        after = ledger.verify()
        assert after.debits == before.debits + 1
        assert (
            _amount(after.spent) - _amount(before.spent) == _amount(paid.charged) >= _amount(small)
        )
        assert _amount(after.spent) + _amount(after.remaining) == _amount(after.cap)


@pytest.mark.parametrize(("folder", "place"), LEDGERS, indirect=["folder"])
def test_a_ledger_is_not_overspent(folder: Path, place: int) -> None:
    held = EXPECTED[original(folder)]["ledgers"][place]
    with dp.open_ledger(folder / "ledgers" / held["file"], name=held["name"]) as ledger:
        what = next(entry.detail["what"] for entry in ledger.history() if entry.kind == "debit")
        left = _amount(ledger.status().remaining)
        make = dp.Cost.zcdp if ledger.status().cap.rho else dp.Cost.pure
        with pytest.raises(dp.BudgetExceeded):
            ledger.debit("too much", make(left + Fraction(1, 10**6)), what)
        assert as_it_was(ledger.status(), held)
        ledger.debit("all", make(left), what)
        with pytest.raises(dp.BudgetExceeded):
            ledger.debit("more", make(Fraction(1, 1000)), what)


@pytest.mark.parametrize("folder", EXPECTED, indirect=True)
def test_an_older_copy_of_a_ledger_is_noticed(folder: Path) -> None:
    """The mark that lies beside the golden ledgers is read too."""
    file = folder / "ledgers" / "zcdp.ledger"
    older = file.read_bytes()
    with dp.open_ledger(file) as ledger:
        what = next(entry.detail["what"] for entry in ledger.history() if entry.kind == "debit")
        ledger.debit("new", dp.Cost.zcdp("1/1000"), what)
    for rest in file.parent.glob("zcdp.ledger-*"):
        rest.unlink()
    file.write_bytes(older)
    with pytest.raises(dp.LedgerUnavailable), dp.open_ledger(file) as ledger:
        ledger.debit("newer", dp.Cost.zcdp("1/1000"), what)


@pytest.mark.parametrize("folder", EXPECTED, indirect=True)
def test_a_session_goes_on_where_it_stopped(folder: Path) -> None:
    held = EXPECTED[original(folder)]["session"]
    session = dp.OnlineSession(folder / "session")
    assert session.status().to_json() == held["status"]
    assert [answer.to_json() for answer in session.transcript()] == held["transcript"]
    for known in held["transcript"]:
        if not known["query"].startswith("("):
            assert session.ask(known["query"], key=known["key"]).to_json() == known
    answers = [session.ask(query) for query in held["next"]]
    assert dp.OnlineSession(folder / "session").status().asked == held["status"]["asked"] + len(
        answers
    )
    session.close()
    with pytest.raises(dp.BudgetExceeded):
        session.ask(held["next"][0])


@pytest.mark.parametrize("folder", EXPECTED, indirect=True)
def test_a_wallet_knows_what_was_spent(folder: Path) -> None:
    held = EXPECTED[original(folder)]["wallet"]
    wallet = dp.local.DeviceLedger(folder / "wallet.json", epsilon=held["epsilon"])
    assert {name: str(wallet.spent(name)) for name in held["spent"]} == held["spent"]
    assert wallet.debit(["ann", "ben"], "commute", Fraction(1)) == {"ann": 3, "ben": 4}
    with pytest.raises(dp.BudgetExceeded, match="lost"):
        wallet.debit(["ann"], "lost", Fraction(1, 2))
    wallet.debit(["ben"], "new", Fraction(1))
    with pytest.raises(dp.BudgetExceeded, match="above"):
        wallet.debit(["ann"], "new", Fraction(1))


def original(folder: Path) -> str:
    return (folder / "name").read_text()


def difference(said: Any, expected: Any, where: str = "") -> str | None:
    """Where two documents first differ; numbers may differ in the last digits, which are the
    machine's. What is added beside, such as a note, is no difference."""
    if isinstance(said, dict) and isinstance(expected, dict) and said.keys() >= expected.keys():
        found = (difference(said[key], expected[key], f"{where}.{key}") for key in expected)
    elif isinstance(said, list) and isinstance(expected, list) and len(said) == len(expected):
        found = (
            difference(one, other, f"{where}[{n}]")
            for n, (one, other) in enumerate(zip(said, expected, strict=True))
        )
    elif isinstance(said, float) and isinstance(expected, float):
        return (
            None
            if said == pytest.approx(expected, rel=1e-6, abs=1e-9)
            else f"{where}: {said} instead of {expected}"
        )
    else:
        return None if said == expected else f"{where}: {said!r} instead of {expected!r}"
    return next((text for text in found if text is not None), None)


def _amount(cost: dp.Cost) -> Fraction:
    return cost.rho or cost.epsilon
