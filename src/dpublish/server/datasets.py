"""Data sets of the office: where their rows may come from, and which schema is in force.

A person chooses among what the configured places hold; no path, address or query of a person's own
reaches the private side. Nothing here reads a row.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from sqlalchemy import insert

from dpublish.errors import InputError, SchemaError
from dpublish.owned import owned_folder, replace_owned
from dpublish.requests.ledger import LedgerStatus
from dpublish.requests.schemas import CheckSchema
from dpublish.server.config import Config, Place
from dpublish.server.store import BUDGETS, DATASETS, SCHEMAS, Row, Store, now, record, set_rows

NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?")
_TEXTS: Final = (".csv", ".tsv", ".txt", ".dat", ".basket", ".jsonl", ".ndjson")
_WHOLE: Final = (
    ".parquet", ".arrow", ".feather", ".ipc", ".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".sav",
    ".zsav", ".por", ".dta", ".sas7bdat", ".xpt",
)  # fmt: skip
ENDINGS: Final = (*_TEXTS, *(one + packed for packed in (".gz", ".zst") for one in _TEXTS), *_WHOLE)
"""Endings of files that can be read as rows; a test holds them against what the readers know."""
UPLOADS: Final = "uploads"


def named(name: str, what: str) -> str:
    """A name that can stand in an address and in a file name."""
    name = name.strip().lower()
    if not NAME.fullmatch(name):
        raise InputError(
            f"The name of a {what} has small letters, digits and hyphens (1 to 62 of them, and no "
            "hyphen at the ends)."
        )
    return name


def titled(title: str, fallback: str) -> str:
    shown = " ".join("".join(sign if sign.isprintable() else " " for sign in title).split())
    return shown[:160] or fallback


class Datasets:
    def __init__(self, config: Config, store: Store) -> None:
        self.config, self.store = config, store

    # -- where rows may come from

    @property
    def places(self) -> Mapping[str, Place]:
        found = dict(self.config.all_places)
        if self.config.uploads.allowed:
            found[UPLOADS] = Place(folder=self.config.state / UPLOADS)
        return found

    def offered(self) -> dict[str, list[str]]:
        """What each place holds, by name: files that look like tables, or the tables named."""
        return {name: _items(place) for name, place in self.places.items()}

    def source(self, dataset: Row) -> tuple[str, str | None]:
        """What a request calls `data` and `database`. Looked up anew: a place may have changed."""
        place = self.places.get(dataset["place"])
        if place is None or dataset["item"] not in _items(place):
            raise InputError(
                f"The rows of '{dataset['name']}' are no longer where they were. Ask the admin of "
                "this office about the place of the data."
            )
        if place.folder is not None:
            return str(_inside(place.folder, dataset["item"])), None
        return f"sql:select * from {dataset['item']}", place.database

    def sweep_uploads(self) -> None:
        """Delete uploaded rows that are older than the configuration says."""
        oldest = time.time() - self.config.uploads.keep_days * 86400
        for path in (self.config.state / UPLOADS).glob("*"):
            if path.name != "CACHEDIR.TAG" and path.is_file() and path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
                self.store.did("office", "uploaded rows deleted", path.name)

    # -- data sets

    def all(self) -> list[Row]:
        return sorted(self.store.rows(DATASETS, removed=None), key=lambda row: row["name"])

    def as_proposed(self, proposal: Row) -> tuple[Row, dict[str, Any]]:
        """The data set of a proposal, still under the schema that was proposed, and what was asked
        of it."""
        dataset = self.get(proposal["dataset"])
        if dataset is None:
            raise InputError(f"There is no data set '{proposal['dataset']}' any more.")
        asked: dict[str, Any] = json.loads(proposal["request"])
        if asked["digest"] != dataset["digest"]:
            raise InputError(
                "The schema was changed after this was proposed. Propose it again, with the schema "
                "that is in force."
            )
        return dataset, asked

    def get(self, name: str) -> Row | None:
        return self.store.one(DATASETS, name=name, removed=None)

    def add(self, name: str, *, title: str, place: str, item: str, population: str, by: str) -> Row:
        name = named(name, "data set")
        if self.store.one(DATASETS, name=name) is not None:
            raise InputError(f"There is, or was, a data set '{name}'. Give another name.")
        if place not in self.places or item not in _items(self.places[place]):
            raise InputError("Choose the rows among what the places of this office hold.")
        if self.store.one(BUDGETS, name=population) is None:
            raise InputError("Choose the budget that pays for releases of this data set.")
        row = {
            "name": name, "title": titled(title, name), "place": place, "item": item,
            "population": population, "digest": None, "created": now(), "creator": by,
            "removed": None,
        }  # fmt: skip
        self.store.add(DATASETS, row, by=by, action="data set added", subject=name, place=place)
        self.folder(name)
        return row

    def remove(self, name: str, *, by: str) -> None:
        """Take it off the list. Its releases and what they cost stay."""
        with self.store.change() as connection:
            set_rows(connection, DATASETS, {"name": name, "removed": None}, {"removed": now()})
            record(connection, actor=by, action="data set removed", subject=name)

    # -- schemas

    def folder(self, name: str) -> Path:
        """Of what is declared about a data set; it is made where it is missing."""
        home = self.config.state / "files" / named(name, "data set")
        owned_folder(home)
        return home

    def editing(self, name: str) -> str | None:
        """The text that is being worked on; it may have been drafted from rows, and so it is kept
        in a file for the service's owner alone."""
        path = self.folder(name) / "editing.toml"
        return path.read_text(encoding="utf-8") if path.exists() else None

    def edit(self, name: str, text: str | None) -> None:
        path = self.folder(name) / "editing.toml"
        if text is None:
            path.unlink(missing_ok=True)
        else:
            replace_owned(path, text.encode())

    def schema_path(self, dataset: Row) -> Path:
        """The schema in force, as a file for requests."""
        if dataset["digest"] is None:
            raise InputError(f"'{dataset['name']}' has no schema yet.")
        path = self.folder(dataset["name"]) / f"schema-{dataset['digest'][:16]}.toml"
        if not path.exists():  # the table is what counts; the file is made from it
            row = self.store.known(
                SCHEMAS, "schema", dataset=dataset["name"], digest=dataset["digest"]
            )
            replace_owned(path, row["toml"].encode())
        return path

    def schema_text(self, dataset: Row) -> str | None:
        return None if dataset["digest"] is None else self.schema_path(dataset).read_text("utf-8")

    def examine(self, name: str, text: str) -> tuple[Any, list[str]]:
        """The schema that a text declares, or None, and everything that is wrong with it."""
        try:
            own_files(text)
        except SchemaError as error:
            return None, [str(error)]
        path = self.folder(name) / "examined.toml"
        replace_owned(path, text.encode())
        try:
            found = CheckSchema(path=path).run()
        except SchemaError as error:
            return None, [str(error).replace(str(path), "the schema")]
        finally:
            path.unlink(missing_ok=True)
        return found.schema, [one.replace(str(path), "the schema") for one in found.problems]

    def put_in_force(self, name: str, text: str, *, by: str) -> list[str]:
        """Check a schema and let releases rest on it; what is wrong with it otherwise."""
        schema, problems = self.examine(name, text)
        if problems or schema is None:
            return problems
        digest = schema.digest
        with self.store.change() as connection:
            connection.execute(
                SCHEMAS.delete().where(SCHEMAS.c.dataset == name, SCHEMAS.c.digest == digest)
            )  # the wording may have changed, which the digest does not tell
            connection.execute(
                insert(SCHEMAS).values(
                    dataset=name, digest=digest, toml=text, created=now(), creator=by
                )
            )
            set_rows(connection, DATASETS, {"name": name}, {"digest": digest})
            record(connection, actor=by, action="schema put in force", subject=name, digest=digest)
        (self.folder(name) / f"schema-{digest[:16]}.toml").unlink(missing_ok=True)
        self.edit(name, None)
        return []

    # -- budgets

    def budgets(self) -> list[Row]:
        return sorted(self.store.rows(BUDGETS), key=lambda row: row["name"])

    def spending(self, budget: str) -> Mapping[str, Any]:
        """What is spent of a budget and what is left, as the ledger says."""
        return LedgerStatus(url=self.config.ledger_url, name=budget).run().to_json()


def own_files(text: str) -> None:
    """Refuse a schema that names a file of the server."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SchemaError(f"The schema is not TOML: {error}") from None
    items = document.get("items")
    if isinstance(items, dict) and "universe_file" in items:
        raise SchemaError(
            "universe_file names a file of the server. Write the items into the schema: "
            "universe = [...]."
        )


def _items(place: Place) -> list[str]:
    if place.folder is None:
        return sorted(place.tables)
    try:
        found = [one.name for one in place.folder.iterdir() if _is_table(place.folder, one)]
    except OSError:
        return []
    return sorted(found)


def _is_table(folder: Path, path: Path) -> bool:
    named_so = path.name.lower().endswith(ENDINGS) and not path.name.startswith(".")
    return named_so and path.is_file() and path.resolve().is_relative_to(folder.resolve())


def _inside(folder: Path, item: str) -> Path:
    path = (folder / item).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise InputError("These rows are not in a configured place.")
    return path
