"""An old copy put back is refused; an honest ledger is never locked out."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.ledger import Ledger, crashpoints, open_ledger, recover_ledger
from dpublish.ledger.anchor import Anchor, Mark, Seen
from dpublish.ledger.chain import Quanta
from dpublish.ledger.state import places_of
from dpublish.privacy.cost import Budget, Cost
from pg import Postgres

TENTH = Cost.pure("0.1")


class Stopped(BaseException):
    """Stands for the end of the process."""


def stop_at(point: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == point:
            raise Stopped

    return hook


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    return open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True)


def anchor_of(ledger: Ledger) -> Anchor:
    return Anchor(ledger.ledger_id)


def copy_away(folder: Path) -> None:
    for name in ("a.ledger", "a.ledger-wal"):
        if (folder / name).exists():
            shutil.copy(folder / name, folder / f"{name}.old")


def put_back(folder: Path) -> None:
    for name in ("a.ledger", "a.ledger-wal", "a.ledger-shm"):
        (folder / name).unlink(missing_ok=True)
        if (folder / f"{name}.old").exists():
            shutil.copy(folder / f"{name}.old", folder / name)


def test_an_old_sqlite_copy_is_refused_and_the_newest_is_taken(
    folder: Path, ledger: Ledger
) -> None:
    ledger.debit("a", TENTH, {})
    ledger.close()
    copy_away(folder)
    with open_ledger(folder / "a.ledger") as again:
        again.debit("b", TENTH, {})
    shutil.copy(folder / "a.ledger", folder / "newest")
    put_back(folder)
    for verify in (True, False):
        with pytest.raises(LedgerUnavailable, match="older copy"):
            open_ledger(folder / "a.ledger", verify=verify)
    shutil.copy(folder / "newest", folder / "a.ledger")
    assert open_ledger(folder / "a.ledger").status().spent == TENTH.scaled(2)


def test_a_lost_write_ahead_log_is_noticed(folder: Path, ledger: Ledger) -> None:
    ledger.debit("a", TENTH, {})
    for name in ("a.ledger", "a.ledger-wal"):
        shutil.copy(folder / name, folder / f"{name}.old")
    ledger.close()
    put_back(folder)
    (folder / "a.ledger-wal").unlink()
    with pytest.raises(LedgerUnavailable):
        open_ledger(folder / "a.ledger")


def test_an_old_postgresql_copy_is_refused(folder: Path, postgres: Postgres) -> None:
    name = postgres.fresh_database()
    with open_ledger(postgres.url(name), budget=Budget(epsilon=1), create=True) as ledger:
        ledger.debit("a", TENTH, {})
    old = postgres.fresh_database(template=name)
    with open_ledger(postgres.url(name)) as ledger:
        ledger.debit("b", TENTH, {})
    with pytest.raises(LedgerUnavailable, match="older copy"):
        open_ledger(postgres.url(old))
    status = recover_ledger(postgres.url(old))
    assert status.spent == TENTH.scaled(2)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        open_ledger(postgres.url(name))


def test_two_copies_cannot_take_turns(folder: Path, ledger: Ledger) -> None:
    ledger.debit("a", TENTH, {})
    ledger.close()
    shutil.copy(folder / "a.ledger", folder / "b.ledger")
    first, second = open_ledger(folder / "a.ledger"), open_ledger(folder / "b.ledger")
    first.debit("b", TENTH, {})
    for key in ("b", "c"):
        with pytest.raises(LedgerUnavailable):
            second.debit(key, TENTH, {})
    first.debit("c", TENTH, {})


def test_copies_that_diverged_before_the_anchor_saw_it(folder: Path, ledger: Ledger) -> None:
    """Both copies commit entry 2 unseen; whichever anchors first wins, and the other never returns
    a receipt."""
    ledger.debit("a", TENTH, {})
    ledger.close()
    shutil.copy(folder / "a.ledger", folder / "b.ledger")
    first, second = open_ledger(folder / "a.ledger"), open_ledger(folder / "b.ledger")
    for copy, key in ((first, "x"), (second, "y")):
        with crashpoints.armed(stop_at("debit.committed")), pytest.raises(Stopped):
            copy.debit(key, TENTH, {})
    assert not second.debit("y", TENTH, {}).fresh
    for key in ("x", "z"):  # z would be entry 3, ahead of the mark: length alone must not decide
        with pytest.raises(LedgerUnavailable):
            first.debit(key, TENTH, {})


@pytest.mark.parametrize(
    "point",
    ["debit.locked", "debit.inserted", "debit.committed", "anchor.written", "anchor.renamed"],
)
def test_a_stop_anywhere_does_not_lock_out_an_honest_ledger(
    folder: Path, ledger: Ledger, point: str
) -> None:
    ledger.debit("a", TENTH, {})
    with crashpoints.armed(stop_at(point)), pytest.raises(Stopped):
        ledger.debit("b", TENTH, {})
    again = open_ledger(folder / "a.ledger")
    receipt = again.debit("b", TENTH, {})
    assert receipt.fresh == (point in ("debit.locked", "debit.inserted"))
    assert again.verify().spent == TENTH.scaled(2)


def test_an_old_copy_may_only_forget_what_nobody_saw(folder: Path, ledger: Ledger) -> None:
    """A copy that lacks a debit whose receipt was never returned is accepted: nothing was shown for
    it."""
    ledger.debit("a", TENTH, {})
    ledger.close()
    copy_away(folder)
    ledger = open_ledger(folder / "a.ledger")
    with crashpoints.armed(stop_at("debit.committed")), pytest.raises(Stopped):
        ledger.debit("b", TENTH, {})
    ledger.close()
    shutil.copy(folder / "a.ledger", folder / "newer")
    put_back(folder)
    open_ledger(folder / "a.ledger").close()
    # ... but once another call has told anyone about it, the copy is too old.
    shutil.copy(folder / "newer", folder / "a.ledger")
    with open_ledger(folder / "a.ledger") as ledger:
        assert not ledger.debit("b", TENTH, {}).fresh
    put_back(folder)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        open_ledger(folder / "a.ledger")


def test_recovery_writes_off_what_was_seen(folder: Path, ledger: Ledger) -> None:
    ledger.debit("a", TENTH, {})
    ledger.close()
    copy_away(folder)
    with open_ledger(folder / "a.ledger") as newer:
        for key in "bcd":
            newer.debit(key, TENTH, {})
    put_back(folder)
    with crashpoints.armed(stop_at("anchor.written")), pytest.raises(Stopped):
        recover_ledger(folder / "a.ledger")
    with pytest.raises(LedgerUnavailable):
        open_ledger(folder / "a.ledger")
    status = recover_ledger(folder / "a.ledger")
    assert status.spent == TENTH.scaled(4)
    with open_ledger(folder / "a.ledger") as recovered:
        assert [entry.kind for entry in recovered.history()] == ["open", "debit", "write-off"]
        recovered.debit("e", TENTH, {})
    assert recover_ledger(folder / "a.ledger").spent == TENTH.scaled(5), (
        "an honest ledger is left as it is"
    )


def test_a_deleted_ledger_does_not_come_back_full(folder: Path, ledger: Ledger) -> None:
    ledger.close()
    (folder / "a.ledger").unlink()
    with pytest.raises(LedgerUnavailable, match="was made at"):
        open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True)
    assert not (folder / "a.ledger").exists()
    (place,) = (folder / "state" / "places").glob("*.json")
    place.unlink()
    open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True).close()


def test_a_new_machine_adopts_after_full_verification(folder: Path, ledger: Ledger) -> None:
    ledger.debit("a", TENTH, {})
    ledger.close()
    shutil.rmtree(folder / "state")
    with open_ledger(folder / "a.ledger", verify=False) as adopted:
        mark = anchor_of(adopted).read()
        assert mark is not None
        assert (mark.seq, mark.hash) == (1, adopted.status().head_hash)
        shutil.rmtree(folder / "state")
        with pytest.raises(LedgerUnavailable, match="disappeared"):
            adopted.debit("b", TENTH, {})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"seq": 1}',
        "not json",
        '{"ledger": "x", "seq": 0, "hash": "", "spent": [0]}',
    ],
)
def test_an_unreadable_anchor_refuses(folder: Path, ledger: Ledger, content: str) -> None:
    anchor_of(ledger).path.write_text(content)
    with pytest.raises(LedgerUnavailable, match="delete the anchor"):
        ledger.debit("a", TENTH, {})
    with pytest.raises(LedgerUnavailable, match="delete the anchor"):
        open_ledger(folder / "a.ledger")


def test_an_unusable_state_folder_refuses(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "file").write_text("")
    monkeypatch.setenv("DPUBLISH_STATE", str(folder / "file"))
    with pytest.raises(LedgerUnavailable, match="DPUBLISH_STATE"):
        open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True)


def test_an_account_without_a_home_folder_is_told_what_to_set(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("DPUBLISH_STATE")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", unknown)
    with pytest.raises(LedgerUnavailable, match="Set DPUBLISH_STATE"):
        open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True)
    assert not (folder / "a.ledger").exists()
    with pytest.raises(PlanError, match="whole path"):
        open_ledger("~/a.ledger")


def test_marks_move_forward_only(folder: Path) -> None:
    anchor = Anchor("x")
    marks = [Mark(seq=i, hash=str(i), spent=Quanta(epsilon=i)) for i in range(4)]
    for mark in (marks[1], marks[3], marks[2], marks[3]):
        anchor.advance(mark, str)
    assert anchor.read() == marks[3]
    with pytest.raises(LedgerUnavailable):
        anchor.advance(Mark(seq=5, hash="5", spent=Quanta()), lambda seq: None)
    assert json.loads(anchor.path.read_text())["seq"] == 3
    assert [path.name for path in anchor.path.parent.iterdir() if path.suffix == ".tmp"] == []


def test_a_held_lock_ends_in_words(folder: Path) -> None:
    import fcntl

    anchor = Anchor("x", patience=0.05)
    first = Mark(seq=0, hash="0", spent=Quanta())
    anchor.replace(Seen(mark=first), instead_of=None)
    with anchor.path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(LedgerUnavailable, match="Another process"):
            anchor.replace(Seen(mark=Mark(seq=1, hash="1", spent=Quanta())), instead_of=first)


def test_nothing_in_the_package_arms_a_crash_point() -> None:
    source = Path(crashpoints.__file__).parent.parent
    users = [
        path.name
        for path in source.rglob("*.py")
        if re.search(r"\barmed\(", path.read_text()) or "crashpoints._hook" in path.read_text()
    ]
    assert users == ["crashpoints.py"]


def test_many_may_remember_one_place_at_once(tmp_path: Path) -> None:
    """Writers share one temporary name, so without a lock one would rename the file of another
    away."""
    from concurrent.futures import ThreadPoolExecutor

    from dpublish.ledger.state import Place

    places = [Place("somewhere", "default", directory=tmp_path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(20):
            list(pool.map(lambda place: place.remember("id"), places))
    assert places[0].knows("id")
    assert not places[0].knows("other")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "not json", '{"ledger": 1, "location": "", "name": ""}']
)
def test_a_place_that_cannot_be_read_names_every_ledger(
    folder: Path, ledger: Ledger, content: str
) -> None:
    ledger.close()
    copy_away(folder)
    with open_ledger(folder / "a.ledger") as used:
        used.debit("a", TENTH, {})
    (place,) = (folder / "state" / "places").glob("*.json")
    place.write_text(content)
    anchor_of(ledger).path.unlink()
    put_back(folder)
    (folder / "a.ledger").rename(folder / "b.ledger")  # another place, whose own file says nothing
    with pytest.raises(LedgerUnavailable, match=place.name):
        open_ledger(folder / "b.ledger")
    with pytest.raises(LedgerUnavailable, match=place.name):
        open_ledger(folder / "a.ledger", budget=Budget(epsilon=1), create=True)
    assert not anchor_of(ledger).path.exists()


def test_a_ledger_that_follows_another_at_its_place_is_remembered_too(
    folder: Path, ledger: Ledger
) -> None:
    ledger.close()
    path = folder / "a.ledger"
    with open_ledger(folder / "b.ledger", budget=Budget(epsilon=1), create=True) as other:
        other.debit("a", TENTH, {})
    for made in (folder / "state" / "places").glob("*.json"):
        if "b.ledger" in made.read_text():
            made.unlink()  # it was made on another machine
    (folder / "b.ledger").replace(path)
    with open_ledger(path) as second:
        assert second.ledger_id == other.ledger_id
        copy_away(folder)
        second.debit("b", TENTH, {})
    anchor_of(second).path.unlink()
    put_back(folder)
    with pytest.raises(LedgerUnavailable, match="No anchor vouches"):
        open_ledger(path)
    assert len(places_of(ledger.ledger_id)) == len(places_of(second.ledger_id)) == 1
