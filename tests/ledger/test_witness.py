"""A ledger whose anchor is lost is not trusted, and a second witness refuses old copies when the
first is gone."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from raw import execute

from dpublish.errors import LedgerUnavailable, PlanError
from dpublish.ledger import Ledger, crashpoints, open_ledger, recover_ledger, remove_witness
from dpublish.ledger.anchor import Anchor
from dpublish.ledger.witness import witness_at
from dpublish.privacy.cost import Budget, Cost
from pg import Postgres

TENTH = Cost.pure("0.1")


class Stopped(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def ledger(url: str) -> Ledger:
    return open_ledger(url, budget=Budget(epsilon=1), create=True)


@pytest.fixture(params=["folder", "sqlite", "postgresql"])
def witness(request: pytest.FixtureRequest, folder: Path) -> str:
    """A place for a second anchor."""
    if request.param == "folder":
        return str(folder / "elsewhere" / "marks")
    if request.param == "sqlite":
        return f"sqlite:///{folder / 'witness.db'}"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh_url()


@pytest.fixture
def lose(folder: Path) -> Callable[[], None]:
    def delete() -> None:
        for anchor in (folder / "state" / "anchors").glob("*.json"):
            anchor.unlink()

    return delete


class Copies:
    """An SQLite ledger, and a copy of it as it was at one moment."""

    def __init__(self, folder: Path) -> None:
        self.path, self._old = folder / "a.ledger", folder / "old"

    def open(self, **options: object) -> Ledger:
        budget = None if self.path.exists() else Budget(epsilon=1)
        return open_ledger(self.path, budget=budget, create=budget is not None, **options)  # type: ignore[arg-type]

    def spend(self, key: str) -> str:
        with self.open() as ledger:
            ledger.debit(key, TENTH, {})
            return ledger.status().head_line

    def keep(self) -> None:
        shutil.copy(self.path, self._old)

    def put_back(self) -> None:
        for ending in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + ending).unlink(missing_ok=True)
        shutil.copy(self._old, self.path)


@pytest.fixture
def copies(folder: Path) -> Copies:
    copies = Copies(folder)
    copies.spend("a")
    return copies


def test_a_lost_anchor_does_not_bring_budget_back(copies: Copies, lose: Callable[[], None]) -> None:
    copies.keep()
    newest = copies.spend("b")
    lose()
    copies.put_back()
    for verify in (True, False):
        with pytest.raises(LedgerUnavailable, match="No anchor vouches"):
            copies.open(verify=verify)
    with pytest.raises(LedgerUnavailable, match="No anchor vouches"):
        recover_ledger(copies.path)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        copies.open(head=newest)
    assert not list((copies.path.parent / "state" / "anchors").glob("*.json")), (
        "a refusal vouches for nothing"
    )


def test_a_head_line_stands_in_for_a_lost_anchor(
    url: str, ledger: Ledger, lose: Callable[[], None]
) -> None:
    ledger.debit("a", TENTH, {})
    line = ledger.status().head_line
    ledger.debit("b", TENTH, {})
    ledger.close()
    lose()
    with pytest.raises(LedgerUnavailable, match="No anchor vouches"):
        open_ledger(url)
    with open_ledger(url, head=line) as again:
        assert again.status().spent == TENTH.scaled(2)
        again.debit("c", TENTH, {})
    with open_ledger(url) as again:
        assert again.verify(head=line).spent == TENTH.scaled(3)


def test_the_place_that_names_the_ledger_can_be_deleted_on_purpose(
    url: str, folder: Path, ledger: Ledger
) -> None:
    ledger.close()
    (anchor,) = (folder / "state" / "anchors").glob("*.json")
    anchor.unlink()
    (place,) = (folder / "state" / "places").glob("*.json")
    with pytest.raises(LedgerUnavailable, match=place.name):
        open_ledger(url)
    place.unlink()
    open_ledger(url).close()


@pytest.mark.parametrize("point", ["anchor.written", "anchor.renamed"])
def test_a_stop_while_a_ledger_is_made_locks_nobody_out(url: str, point: str) -> None:
    """The anchor comes before the name: what this machine names, it has a mark of."""
    for passes in range(3):

        def hook(name: str, left: list[int] = [passes]) -> None:  # noqa: B006 - one list a hook
            if name == point:
                left[0] -= 1
                if left[0] < 0:
                    raise Stopped

        with crashpoints.armed(hook), suppress(Stopped):
            open_ledger(url, budget=Budget(epsilon=1), name=f"n{passes}", create=True).close()
        with open_ledger(url, name=f"n{passes}") as ledger:
            ledger.debit("a", TENTH, {})


def test_head_lines_are_checked(url: str, ledger: Ledger) -> None:
    ledger.debit("a", TENTH, {})
    line = ledger.status().head_line
    assert ledger.verify(head=f" {line}\n").head_line == line
    for wrong in ("", "x", line[:-1], line.replace(":", "-"), f"{line}:1"):
        with pytest.raises(PlanError, match="not a head line"):
            ledger.verify(head=wrong)
    other = line[:-1] + ("0" if line[-1] != "0" else "1")
    with pytest.raises(LedgerUnavailable, match="older copy"):
        ledger.verify(head=other)
    with pytest.raises(LedgerUnavailable, match="speaks of ledger"):
        ledger.verify(head="0" * 32 + line[32:])


def test_a_receipt_is_a_head_line(ledger: Ledger) -> None:
    receipt = ledger.debit("a", TENTH, {})
    ledger.debit("b", TENTH, {})
    ledger.verify(head=f"{receipt.ledger_id}:{receipt.seq}:{receipt.head_hash}")


def test_a_witness_follows_and_is_shown(url: str, ledger: Ledger, witness: str) -> None:
    with open_ledger(url, witness=witness) as watched:
        (shown,) = watched.status().witnesses
        watched.debit("a", TENTH, {})
        assert [entry.kind for entry in watched.history()] == ["open", "note", "debit"]
    with open_ledger(url, witness=witness) as watched:  # naming it again changes nothing
        assert watched.status().witnesses == (shown,)
        assert watched.status().entries == 3
        assert watched.verify().to_json()["witnesses"] == [shown]
    assert shown.split("://")[0] == witness.split("://")[0] or "/elsewhere/" in shown


def test_a_witness_refuses_an_old_copy_when_the_state_folder_is_gone(
    copies: Copies, witness: str, folder: Path
) -> None:
    copies.open(witness=witness).close()
    copies.keep()
    copies.spend("b")
    shutil.rmtree(folder / "state")
    shutil.copy(copies.path, folder / "newest")
    copies.put_back()
    with pytest.raises(LedgerUnavailable, match="older copy"):
        copies.open()
    assert not list((folder / "state").glob("anchors/*.json")), "a refusal vouches for nothing"
    status = recover_ledger(copies.path)
    assert status.spent == TENTH.scaled(2), "what the witness has seen is written off"
    with copies.open() as ledger:
        ledger.debit("c", TENTH, {})
    shutil.copy(folder / "newest", copies.path)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        copies.open()


def test_a_witness_vouches_for_the_newest_on_another_machine(
    url: str, ledger: Ledger, witness: str, folder: Path
) -> None:
    ledger.close()
    with open_ledger(url, witness=witness) as watched:
        watched.debit("a", TENTH, {})
    shutil.rmtree(folder / "state")
    with open_ledger(url) as moved:
        moved.debit("b", TENTH, {})
        assert Anchor(moved.ledger_id).read() is not None


def test_what_two_anchors_have_seen_is_written_off_once(copies: Copies, witness: str) -> None:
    copies.open(witness=witness).close()
    copies.keep()
    copies.spend("b")
    copies.spend("c")
    copies.put_back()
    assert recover_ledger(copies.path).spent == TENTH.scaled(3)
    assert recover_ledger(copies.path).spent == TENTH.scaled(3)


def test_an_anchor_that_lags_behind_the_witness_counts_once_too(
    copies: Copies, witness: str, folder: Path
) -> None:
    copies.open(witness=witness).close()
    copies.keep()
    copies.spend("b")
    shutil.copytree(folder / "state", folder / "lagging")
    copies.spend("c")
    shutil.rmtree(folder / "state")
    shutil.copytree(folder / "lagging", folder / "state")
    copies.put_back()
    assert recover_ledger(copies.path).spent == TENTH.scaled(3)


def test_what_anchors_do_not_share_is_added_up(copies: Copies, witness: str, folder: Path) -> None:
    """The anchor has seen one branch and the witness another: both were spent."""
    copies.open(witness=witness).close()
    copies.keep()
    shutil.copytree(folder / "state", folder / "before")
    copies.spend("b")
    branch = {path: path.read_bytes() for path in (folder / "state" / "anchors").glob("*.json")}
    shutil.rmtree(folder / "state")
    shutil.copytree(folder / "before", folder / "state")
    copies.put_back()
    with pytest.raises(LedgerUnavailable):
        copies.open()
    recover_ledger(copies.path)  # by the witness: b is written off
    copies.spend("c")
    for path, content in branch.items():
        path.write_bytes(content)  # an anchor that knows b and not c
    copies.put_back()
    assert recover_ledger(copies.path).spent.epsilon >= TENTH.scaled(3).epsilon


def test_a_witness_that_cannot_be_used_is_found_before_the_debit(
    url: str, ledger: Ledger, folder: Path
) -> None:
    ledger.close()
    place = folder / "disk"
    with open_ledger(url, witness=place) as watched:
        watched.debit("a", TENTH, {})
        for path in place.iterdir():
            path.unlink()
        place.rmdir()
        place.write_text("in the way")
        with pytest.raises(LedgerUnavailable, match="witness"):
            watched.debit("b", TENTH, {})
        place.unlink()
    with pytest.raises(LedgerUnavailable, match="not mounted"):
        open_ledger(url)
    remove_witness(url, place)
    with open_ledger(url, witness=place) as watched:
        assert watched.status().spent == TENTH
        watched.debit("b", TENTH, {})
    assert list(place.glob("*.json"))


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_no_mark_is_made_at_an_empty_mount_point(
    url: str, ledger: Ledger, kind: str, folder: Path
) -> None:
    """The disk of a witness is not mounted: its place is there, or not, and is empty."""
    ledger.close()
    places = {"folder": folder / "elsewhere" / "marks", "sqlite": folder / "witness.db"}
    witness = str(places[kind]) if kind == "folder" else f"sqlite:///{places[kind]}"
    open_ledger(url, witness=witness).close()
    marks = folder / "elsewhere" / "marks"
    files = {path: path.read_bytes() for path in (*marks.glob("*"), *folder.glob("witness.db*"))}
    for path in files:
        path.unlink()
    for options in ({}, {"verify": False}, {"witness": witness}):
        with pytest.raises(LedgerUnavailable, match="not mounted"):
            open_ledger(url, **options)  # type: ignore[arg-type]
    assert not list(marks.glob("*.json")), "nothing is written where the disk should be"
    for path, content in files.items():
        path.write_bytes(content)
    with open_ledger(url) as mounted:
        mounted.debit("a", TENTH, {})


def test_recovery_makes_no_mark_of_a_witness_that_is_away(copies: Copies, folder: Path) -> None:
    place = folder / "disk"
    copies.open(witness=place).close()
    copies.keep()
    copies.spend("b")
    copies.put_back()
    (mark,) = place.glob("*.json")
    seen = mark.read_bytes()
    mark.unlink()
    assert recover_ledger(copies.path).spent == TENTH.scaled(2)
    assert not mark.exists()
    with pytest.raises(LedgerUnavailable, match="not mounted"):
        copies.open()
    mark.write_bytes(seen)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        copies.open()
    assert recover_ledger(copies.path).spent.epsilon >= TENTH.scaled(2).epsilon


def test_a_head_line_is_a_way_out_when_anchor_and_witness_are_lost(
    copies: Copies, folder: Path
) -> None:
    place = folder / "disk"
    copies.open(witness=place).close()
    copies.keep()
    line = copies.spend("b")
    shutil.copy(copies.path, folder / "newest")
    shutil.rmtree(folder / "state" / "anchors")
    shutil.rmtree(place)
    with pytest.raises(LedgerUnavailable, match="No anchor vouches"):
        remove_witness(copies.path, place)
    with pytest.raises(LedgerUnavailable, match="--remove --head"):
        copies.open(head=line)
    copies.put_back()
    with pytest.raises(LedgerUnavailable, match="older copy"):
        remove_witness(copies.path, place, head=line)
    shutil.copy(folder / "newest", copies.path)
    assert remove_witness(copies.path, place, head=line).witnesses == ()
    copies.spend("c")
    with copies.open() as ledger:
        assert ledger.verify(head=line).spent == TENTH.scaled(3)


def test_a_repeated_key_makes_no_anchor_that_is_gone(
    ledger: Ledger, lose: Callable[[], None], folder: Path
) -> None:
    """An old copy is put back under an open handle, and the anchor deleted: a key that the copy
    knows must not vouch for it."""
    ledger.debit("a", TENTH, {})
    ledger.seal("a", sha256="0" * 64, size=1, location="a.dpr")
    lose()
    for ask in (
        lambda: ledger.debit("a", TENTH, {}),
        lambda: ledger.answer("a"),
        lambda: ledger.seal("a", sha256="0" * 64, size=1, location="a.dpr"),
    ):
        with pytest.raises(LedgerUnavailable, match="disappeared"):
            ask()
    assert not list((folder / "state" / "anchors").glob("*.json"))


def test_a_lost_witness_can_be_removed(url: str, ledger: Ledger, folder: Path) -> None:
    ledger.close()
    place = folder / "disk"
    open_ledger(url, witness=place).close()
    shutil.rmtree(place)
    place.write_text("in the way")
    with pytest.raises(LedgerUnavailable, match="--remove"):
        open_ledger(url)
    with pytest.raises(PlanError, match="has no witness at"):
        remove_witness(url, folder / "other")
    assert remove_witness(url, place).witnesses == ()
    with open_ledger(url) as again:
        again.debit("a", TENTH, {})


def test_an_unreadable_witness_refuses(
    url: str, ledger: Ledger, folder: Path, witness: str
) -> None:
    ledger.close()
    open_ledger(url, witness=witness).close()
    if "://" in witness:
        execute(witness, "UPDATE dpublish_witness SET value = '[]'")
    else:
        (mark,) = Path(witness).glob("*.json")
        mark.write_text("[]")
    with pytest.raises(LedgerUnavailable, match="witness"):
        open_ledger(url)


def test_places_that_are_no_second_witness(url: str, ledger: Ledger, folder: Path) -> None:
    ledger.close()
    (folder / "file").write_text("")
    inside = (folder / "state" / "anchors", f"sqlite:///{folder / 'state' / 'x.db'}")
    for place in (
        *inside,
        url,
        folder / "state",
        folder / "file",
        "",
        "mysql://host/name",
        "postgresql://user:secret@host/name",
    ):
        with pytest.raises(PlanError) as refused:
            open_ledger(url, witness=place)
        assert "secret" not in str(refused.value)
    assert open_ledger(url).status().witnesses == ()


def test_another_ledgers_mark_is_not_taken_over(url: str, ledger: Ledger, folder: Path) -> None:
    """A mark of a newer copy of this ledger at the place refuses this one."""
    ledger.close()
    with open_ledger(url, witness=folder / "marks") as watched:
        (mark,) = (folder / "marks").glob("*.json")
        value = json.loads(mark.read_text())
        remove_witness(url, folder / "marks")
        mark.write_text(json.dumps({**value, "seq": 50, "hash": "0" * 64}))
        watched.close()
    with pytest.raises(LedgerUnavailable, match="older copy"):
        open_ledger(url, witness=folder / "marks")


def test_witnesses_are_for_their_owner_alone(folder: Path, ledger: Ledger, url: str) -> None:
    import os

    ledger.close()
    before = os.umask(0)
    try:
        open_ledger(url, witness=folder / "deep" / "marks").close()
        open_ledger(url, witness=f"sqlite:///{folder / 'witness.db'}").close()
    finally:
        os.umask(before)
    for path in (folder / "deep").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert stat.S_IMODE((folder / "witness.db").stat().st_mode) == 0o600


def test_ledgers_of_format_2_go_on(url: str, ledger: Ledger, witness: str) -> None:
    """The tables are those of format 2; from now on a dpublish that knows no witnesses refuses."""
    ledger.debit("a", TENTH, {})
    ledger.close()
    execute(url, "DELETE FROM dpublish_schema WHERE version > 2")
    with open_ledger(url, witness=witness) as migrated:
        assert migrated.verify().spent == TENTH
    assert execute(url, "SELECT max(version) FROM dpublish_schema")[0][0] >= 3


def test_an_old_copy_is_not_rid_of_a_witness_that_contradicts_it(
    copies: Copies, witness: str, folder: Path
) -> None:
    copies.open(witness=witness).close()
    copies.keep()
    copies.spend("b")
    shutil.rmtree(folder / "state")
    copies.put_back()
    with pytest.raises(LedgerUnavailable, match="older copy"):
        remove_witness(copies.path, witness)
    with pytest.raises(LedgerUnavailable, match="older copy"):
        copies.open()


def test_a_lost_witness_is_removed_only_if_another_anchor_vouches(
    copies: Copies, folder: Path
) -> None:
    places = [folder / "disk" / "a", folder / "disk" / "b"]
    for place in places:
        copies.open(witness=place).close()
    shutil.rmtree(folder / "disk")
    (folder / "disk").write_text("in the way")
    shutil.copytree(folder / "state", folder / "kept")
    shutil.rmtree(folder / "state")
    with pytest.raises(LedgerUnavailable, match="No anchor vouches"):
        remove_witness(copies.path, places[0])
    shutil.copytree(folder / "kept", folder / "state")
    for place in places:
        remove_witness(copies.path, place)
    copies.spend("b")


def test_a_head_line_is_compared_whatever_else_is(copies: Copies) -> None:
    line = copies.spend("b")
    other = line[:-1] + ("0" if line[-1] != "0" else "1")
    for verify in (True, False):
        copies.open(head=line, verify=verify).close()
        with pytest.raises(LedgerUnavailable, match="older copy"):
            copies.open(head=other, verify=verify)


def test_an_open_ledger_hears_of_witnesses_that_others_add_and_remove(
    copies: Copies, witness: str
) -> None:
    with copies.open() as early:
        copies.open(witness=witness).close()
        early.debit("b", TENTH, {})
        newest = early.status()
        (place,) = newest.witnesses
        mark = witness_at(place, early.ledger_id, 5.0).read()
        assert mark is not None
        assert (mark.seq, mark.hash) == (newest.head_seq, newest.head_hash)
        remove_witness(copies.path, witness)
        early.debit("c", TENTH, {})
        mark = witness_at(place, early.ledger_id, 5.0).read()
        assert mark is not None
        assert mark.seq == newest.head_seq


def test_a_place_that_cannot_be_written_is_not_noted(
    url: str, ledger: Ledger, folder: Path
) -> None:
    (folder / "marks").mkdir()
    (
        folder / "marks" / f"{ledger.ledger_id}.lock"
    ).mkdir()  # stands for a folder that can only be read
    with pytest.raises(LedgerUnavailable):
        open_ledger(url, witness=folder / "marks")
    assert ledger.status().witnesses == ()
    ledger.debit("a", TENTH, {})


def test_a_copy_that_does_not_name_the_witness_yet_is_compared_before_it_is_trusted(
    copies: Copies, witness: str, folder: Path
) -> None:
    copies.keep()
    copies.open(witness=witness).close()
    copies.spend("b")
    shutil.rmtree(folder / "state")
    copies.put_back()
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="older copy"):
            copies.open(witness=witness)
        assert not list((folder / "state").glob("anchors/*.json")), "a refusal vouches for nothing"
