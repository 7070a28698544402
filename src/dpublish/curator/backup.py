"""Backup and restore of a ledger and what belongs to it: the store of its answers, and a folder
such as that of the service.

A backup is a folder: `ledger.jsonl` (every entry of every budget, as the database holds them),
`store/`, `folder/`, and `backup.json`, which names every file with its hash. It is for its owner
alone, since stores hold sessions with exact counts.

A backup is an old copy by the time it is needed. So a restored ledger is held against the anchors
of this machine first: what an anchor has seen and the backup lacks would bring budget back, and
such a backup is refused. With `older` it is taken, and what the anchor has seen is written off: see
`recover_ledger`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, insert, select

from dpublish.errors import BundleError, InputError, LedgerUnavailable
from dpublish.ledger import chain, open_ledger, recover_ledger, tables
from dpublish.ledger.anchor import Anchor
from dpublish.ledger.base import Actor, Status
from dpublish.ledger.chain import Record
from dpublish.ledger.database import Database, Target, parse_target
from dpublish.ledger.snapshot import MERGED
from dpublish.owned import open_owned, owned_folder, replace_owned, temporary

FORMAT: Final = 1
INDEX: Final = "backup.json"
LEDGER: Final = "ledger.jsonl"
STORE: Final = "store"
FOLDER: Final = "folder"
LEFT_OUT: Final = "CACHEDIR.TAG"
"""A folder that holds a file of this name is not copied: the usual mark of what is not kept."""
_SQLITE: Final = b"SQLite format 3\x00"
_PATIENCE: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Backup:
    """What a backup holds: the head line of every budget, and how many files."""

    place: Path
    created: str
    heads: Mapping[str, str]
    files: int

    def to_json(self) -> dict[str, Any]:
        return {
            "backup": self.place,
            "ok": True,
            "created": self.created,
            "heads": dict(self.heads),
            "files": self.files,
        }


def back_up(url: str | Path, out: Path, *, store: Path | None, folder: Path | None) -> Backup:
    """Copy a ledger, its store and a folder, and check the copy. The ledger may be in use."""
    if os.path.lexists(out):
        raise InputError(f"'{out}' exists already. A backup is made under a name of its own.")
    target = parse_target(url)
    for one in (store, folder):
        if one is not None and out.absolute().is_relative_to(one.absolute()):
            raise InputError(
                f"'{out}' lies in '{one}', which is to be copied. Choose another place."
            )
    owned_folder(out.absolute().parent)
    with temporary(out, folder=True) as fresh:
        # the ledger last: a store that is ahead of it holds an answer too many, never one too few
        for source, name in ((store, STORE), (folder, FOLDER)):
            if source is not None and source.is_dir():
                inside = () if name == STORE or store is None else (store.absolute(),)
                _copy_tree(source.absolute(), fresh / name, {*_own_files(target), *inside})
        heads = _write_entries(target, fresh / LEDGER)
        files = {one: _digest(fresh / one) for one in _files_in(fresh)}
        index = {"format": FORMAT, "created": chain.now(), "heads": heads, "files": files}
        replace_owned(fresh / INDEX, json.dumps(index, indent=1).encode())
        verify_backup(fresh)
        fresh.replace(out)
    return Backup(place=out, created=str(index["created"]), heads=heads, files=len(files))


def verify_backup(place: Path) -> Backup:
    """Every file is there with its hash and no other is, and every chain of the ledger is whole."""
    try:
        index = json.loads((place / INDEX).read_bytes())
        if index["format"] != FORMAT:
            raise BundleError(f"'{place}' is a backup of another version of dpublish.")
        files, heads, created = index["files"], index["heads"], str(index["created"])
    except (OSError, ValueError, KeyError, TypeError):
        raise BundleError(f"'{place}' is no backup, or its '{INDEX}' is damaged.") from None
    found = {*_files_in(place)}
    wrong = sorted(found ^ {*files})[:3]
    wrong = wrong or [name for name in sorted(found) if _digest(place / name) != files[name]][:3]
    if wrong:
        raise BundleError(f"The backup '{place}' is damaged: see {', '.join(wrong)}.")
    _, records = _read_entries(place)
    if {name: _head_line(one) for name, one in records.items()} != heads:
        raise BundleError(f"The backup '{place}' is damaged: its heads are not those it names.")
    return Backup(place=place, created=created, heads=heads, files=len(files))


def restore(
    place: Path,
    url: str | Path,
    *,
    store: Path | None,
    folder: Path | None,
    older: bool = False,
    actor: Actor | None = None,
) -> list[Status]:
    """Put a backup back where nothing is, after checking all of it. A ledger that lacks what an
    anchor of this machine has seen is refused unless `older` says that what is missing is lost."""
    verify_backup(place)
    target = parse_target(url)
    version, records = _read_entries(place)
    behind = [name for name, one in records.items() if _behind(one)]
    if behind and not older:
        raise LedgerUnavailable(
            f"The backup '{place}' is older than what this machine has seen of ledger "
            f"{', '.join(map(repr, behind))}: it would bring budget back. Nothing was changed. Put "
            "the newest copy back. If it is lost, restore with --older, which writes off what is "
            "known to be spent beyond the backup."
        )
    wanted = [(STORE, store), (FOLDER, folder)]
    for name, aim in wanted:
        if (place / name).is_dir() and aim is not None and aim.exists() and any(aim.iterdir()):
            raise InputError(f"'{aim}' is not empty. Nothing was changed. Give an empty place.")
    with _empty_database(target) as connection:
        tables.migrate(connection, version)
        for line in itertools.islice(_lines(place), 1, None):
            connection.execute(insert(_TABLES[line.pop("table")]), line)
    for name, aim in wanted:
        if (place / name).is_dir() and aim is not None:
            _copy_tree((place / name).absolute(), aim.absolute(), set(), exact=True)
    found = []
    for name, chained in records.items():
        if any(one.kind == "write-off" and one.key == MERGED for one in chained):
            continue  # used up, and found under the name that it was merged into
        if name in behind:
            recover_ledger(url, name=name, actor=actor)
        with open_ledger(url, name=name, actor=actor) as ledger:
            found.append(ledger.verify())
    return found


_TABLES: Final = {"ledgers": tables.ledgers, "entries": tables.entries}


def _write_entries(target: Target, path: Path) -> dict[str, str]:
    """All rows of a ledger's tables, as one transaction sees them; the head line of each budget."""
    if target.path is not None and not target.path.exists():
        raise LedgerUnavailable(f"There is no ledger at {target.shown}.")
    with closing(Database(target, patience=_PATIENCE, create=False)) as database:
        return database.attempt(lambda: _written(database, path))


def _written(database: Database, path: Path) -> dict[str, str]:
    with database.writing() as connection:  # holds one state of both tables, on either database
        version = tables.version(connection)
        tables.refuse_newer(version)
        if version == 0:
            raise LedgerUnavailable("The database holds no ledger.")
        path.unlink(missing_ok=True)
        with os.fdopen(open_owned(path, os.O_WRONLY), "w", encoding="utf-8") as file:
            file.write(json.dumps({"format": FORMAT, "version": version}) + "\n")
            for name, table in _TABLES.items():
                ordered = select(table).order_by(*table.primary_key.columns)
                for row in connection.execute(ordered).mappings():
                    file.write(json.dumps({"table": name, **row}) + "\n")
            file.flush()
            os.fsync(file.fileno())
    _, records = _read_entries(path.parent)
    return {name: _head_line(one) for name, one in records.items()}


def _lines(place: Path) -> Iterator[dict[str, Any]]:
    """First what all of them are written in, then each row of the tables."""
    with (place / LEDGER).open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _read_entries(place: Path) -> tuple[int, dict[str, list[Record]]]:
    """The version of the tables, and the whole chain of every budget, checked link by link."""
    names: dict[str, str] = {}
    chains: dict[str, list[Record]] = {}
    try:
        lines = _lines(place)
        version = int(next(lines)["version"])
        for line in lines:
            if line["table"] == "ledgers":
                names[line["ledger_id"]] = line["name"]
            else:
                chained = chains.setdefault(line["ledger_id"], [])
                chained.append(Record.read(line["record"], line["hash"]))
        found = {names[one]: chained for one, chained in chains.items()}
    except (OSError, ValueError, KeyError, TypeError, StopIteration, LedgerUnavailable):
        raise BundleError(f"The ledger in the backup '{place}' is damaged.") from None
    tables.refuse_newer(version)
    for chained in found.values():
        previous = chain.START
        for number, one in enumerate(chained):
            if (one.seq, one.previous) != (number, previous):
                raise BundleError(f"The ledger in the backup '{place}' is not one whole chain.")
            previous = chain.digest(one.text())
    return version, found


def _head_line(chained: list[Record]) -> str:
    head = chained[-1]
    return f"{head.ledger_id}:{head.seq}:{chain.digest(head.text())}"


def _behind(chained: list[Record]) -> bool:
    """Whether this machine's anchor has seen an entry that the chain lacks."""
    mark = Anchor(chained[0].ledger_id).read()
    return mark is not None and (
        mark.seq >= len(chained) or chain.digest(chained[mark.seq].text()) != mark.hash
    )


@contextmanager
def _empty_database(target: Target) -> Iterator[Connection]:
    """A write transaction in a database without a ledger; a file that was made for it goes again if
    it fails."""
    new = target.path is not None and not target.path.exists()
    if target.path is not None:
        owned_folder(target.path.parent)
    try:
        with (
            closing(Database(target, patience=_PATIENCE, create=True)) as database,
            database.writing() as connection,
        ):
            if tables.version(connection):
                raise InputError(
                    f"There is a ledger at {target.shown} already. Nothing was changed. Move it "
                    "away, or restore to another place."
                )
            yield connection
    except BaseException:
        for one in _own_files(target) if new else ():
            one.unlink(missing_ok=True)
        raise


def _own_files(target: Target) -> set[Path]:
    if target.path is None:
        return set()
    return {
        target.path.with_name(target.path.name + end) for end in ("", "-wal", "-shm", "-journal")
    }


def _copy_tree(source: Path, aim: Path, without: Set[Path], *, exact: bool = False) -> None:
    """Files and folders for their owner alone; SQLite databases as of one moment. Links, pipes,
    and folders that are marked as not to be kept stay behind."""
    owned_folder(aim)
    for path in sorted(source.iterdir()):
        if path in without or path.is_symlink():
            continue
        if path.is_dir():
            if exact or not (path / LEFT_OUT).exists():
                _copy_tree(path, aim / path.name, without, exact=exact)
            else:
                owned_folder(aim / path.name)
                replace_owned(aim / path.name / LEFT_OUT, (path / LEFT_OUT).read_bytes())
        elif path.is_file():
            _copy_file(path, aim / path.name, exact)


def _copy_file(path: Path, aim: Path, exact: bool) -> None:
    with path.open("rb") as file:
        database = not exact and file.read(len(_SQLITE)) == _SQLITE
    if database:
        os.close(open_owned(aim, os.O_WRONLY))
        with closing(sqlite3.connect(path)) as kept, closing(sqlite3.connect(aim)) as copy:
            kept.backup(copy)
        return
    if not exact and any(
        path.name.endswith(end) and path.with_name(path.name.removesuffix(end)).exists()
        for end in ("-wal", "-shm", "-journal")
    ):
        return  # of a database, whose copy has what is in them
    with path.open("rb") as file, os.fdopen(open_owned(aim, os.O_WRONLY), "wb") as copied:
        shutil.copyfileobj(file, copied)
        copied.flush()
        os.fsync(copied.fileno())


def _files_in(place: Path) -> list[str]:
    found = (one for one in place.rglob("*") if one.is_file() and one != place / INDEX)
    return sorted(str(one.relative_to(place)) for one in found)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
