"""Backups: whole, checked, and no way to get budget back."""

from __future__ import annotations

import json
import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import pytest

from dpublish.errors import BundleError, InputError, LedgerUnavailable
from dpublish.ledger import open_ledger
from dpublish.privacy.cost import Budget, Cost
from dpublish.requests.ledger import BackUp, Restore
from ledgers import folder, postgres, url

__all__ = ["folder", "postgres", "url"]

ONE = Cost.pure(1)
WHAT = {"method": "histogram", "dataset": "kept", "neighbours": "replace-one", "unit_column": "id"}


def paid(url: str, *keys: str) -> None:
    with open_ledger(url, budget=Budget(epsilon=5), create=True) as ledger:
        for key in keys:
            ledger.debit(key, ONE, WHAT)


def spent(url: str) -> Fraction:
    with open_ledger(url) as ledger:
        return ledger.verify().spent.epsilon


def elsewhere(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'restored' / 'a.ledger'}"


def test_a_backup_that_has_all_is_restored_and_goes_on(url: str, tmp_path: Path) -> None:
    paid(url, "a", "b")
    with open_ledger(url, budget=Budget(epsilon=2), create=True, name="second") as other:
        other.debit("c", ONE, {})
    made = BackUp(url=url, out=tmp_path / "backup").run()
    assert set(made.heads) == {"default", "second"}
    fresh = elsewhere(tmp_path)
    found = Restore(backup=tmp_path / "backup", url=fresh).run()
    assert [one.head_line for one in found.budgets] == list(made.heads.values())
    with open_ledger(fresh) as ledger:
        assert not ledger.debit("a", ONE, WHAT).fresh
        assert ledger.debit("d", ONE, WHAT).fresh
    # the first copy is the old one now, and this machine has seen more
    with pytest.raises(LedgerUnavailable, match="older copy"):
        open_ledger(url)


def test_an_older_backup_is_refused_unless_what_is_missing_is_written_off(
    url: str, tmp_path: Path
) -> None:
    paid(url, "a")
    BackUp(url=url, out=tmp_path / "backup").run()
    paid(url, "b", "c")
    fresh = elsewhere(tmp_path)
    with pytest.raises(LedgerUnavailable, match="bring budget back"):
        Restore(backup=tmp_path / "backup", url=fresh).run()
    assert not (tmp_path / "restored").exists()
    Restore(backup=tmp_path / "backup", url=fresh, older=True).run()
    assert spent(fresh) == 3


def test_another_database_can_take_it(url: str, tmp_path: Path) -> None:
    """From SQLite to PostgreSQL and back: the entries are the same texts."""
    source = f"sqlite:///{tmp_path / 'source.ledger'}"
    paid(source, "a", "b")
    BackUp(url=source, out=tmp_path / "backup").run()
    with pytest.raises(InputError, match="a ledger at") if url.startswith("sqlite") else _fine():
        paid(url) if url.startswith("sqlite") else None
        Restore(backup=tmp_path / "backup", url=url).run()
    assert spent(source) == 2


class _fine:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_store_and_folder_are_kept_and_databases_in_use_copied_whole(tmp_path: Path) -> None:
    office = tmp_path / "office"
    office.mkdir()
    ledger = f"sqlite:///{office / 'office.ledger'}"
    paid(ledger, "a")
    (office / "office.ledger.d").mkdir()
    (office / "office.ledger.d" / f"{'ab' * 16}.dpr").write_bytes(b"answer")
    (office / "uploads").mkdir()
    (office / "uploads" / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    (office / "uploads" / "rows.csv").write_text("private")
    in_use = sqlite3.connect(office / "office.sqlite")
    in_use.execute("PRAGMA journal_mode=WAL")
    in_use.execute("CREATE TABLE t (x)")
    in_use.execute("INSERT INTO t VALUES (7)")
    in_use.commit()
    BackUp(url=ledger, out=tmp_path / "backup", folder=office).run()
    in_use.close()
    assert not any("rows.csv" in str(one) for one in (tmp_path / "backup").rglob("*"))
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0
    shutil.rmtree(office)
    Restore(backup=tmp_path / "backup", url=ledger, folder=office).run()
    assert (office / "office.ledger.d" / f"{'ab' * 16}.dpr").read_bytes() == b"answer"
    assert sqlite3.connect(office / "office.sqlite").execute("SELECT x FROM t").fetchall() == [(7,)]
    assert spent(ledger) == 1


@pytest.mark.parametrize("damage", ["entry", "index", "missing", "added", "chain"])
def test_a_damaged_backup_is_refused_and_nothing_is_made(damage: str, tmp_path: Path) -> None:
    source, backup = f"sqlite:///{tmp_path / 'a.ledger'}", tmp_path / "backup"
    paid(source, "a", "b")
    BackUp(url=source, out=backup).run()
    lines = (backup / "ledger.jsonl").read_text().splitlines()
    if damage == "entry":
        changed = [line.replace("1000000000000000", "100000000000000") for line in lines]
        (backup / "ledger.jsonl").write_text("\n".join(changed) + "\n")
    elif damage == "index":
        (backup / "backup.json").write_text("{")
    elif damage == "missing":
        (backup / "ledger.jsonl").unlink()
    elif damage == "added":
        (backup / "more").write_text("x")
    else:  # one entry fewer, and an index that was made to fit
        import hashlib

        (backup / "ledger.jsonl").write_text("\n".join(lines[:-1]) + "\n")
        index = json.loads((backup / "backup.json").read_text())
        content = (backup / "ledger.jsonl").read_bytes()
        index["files"]["ledger.jsonl"] = hashlib.sha256(content).hexdigest()
        (backup / "backup.json").write_text(json.dumps(index))
    with pytest.raises(BundleError):
        Restore(backup=backup, url=elsewhere(tmp_path)).run()
    assert not (tmp_path / "restored").exists()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path / 'a.ledger'}"
    paid(source, "a")
    BackUp(url=source, out=tmp_path / "backup").run()
    with pytest.raises(InputError, match="exists already"):
        BackUp(url=source, out=tmp_path / "backup").run()
    with pytest.raises(InputError, match="a ledger at"):
        Restore(backup=tmp_path / "backup", url=source).run()
    assert spent(source) == 1
