"""What can be asked about schemas: the public facts that a release rests on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpublish.errors import InputError, SchemaError, did_you_mean
from dpublish.outputs import keep_apart, keep_outside, require_free
from dpublish.owned import replace_owned
from dpublish.requests.base import NOBODY, Caller, Request, plain, read_schema
from dpublish.requests.curator import PaidFile, Release, Released, source_of

if TYPE_CHECKING:
    from dpublish.curator.check import DataCheck
    from dpublish.declare.schema import Schema


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """A schema guessed from rows: as private as they are. `toml` is its text where no file was
    asked for."""

    out: Path | None
    toml: str | None

    def to_json(self) -> Mapping[str, Any]:
        return {"draft": True, "out": self.out, "toml": self.toml}


@dataclass(frozen=True, kw_only=True)
class Draft(Request, verb="schema draft"):
    """Guess a schema from the rows, as a private starting point."""

    data: str
    name: str | None = None
    database: str | None = None
    sheet: str | None = None
    out: Path | None = None
    overwrite: bool = False

    def run(self, caller: Caller = NOBODY) -> Drafted:
        from dpublish.curator.draft import draft

        require_free(self.out, self.overwrite)
        _require_outside(self.out, self.data, self.database)
        source = source_of(self.data, self.database)
        fallback = Path(self.data).name.split(".")[0] if self.database is None else "query"
        with caller.private():
            text = draft(source, name=self.name or fallback, sheet=self.sheet).to_toml()
        if self.out is not None:
            write_owned(self.out, text)
        return Drafted(out=self.out, toml=None if self.out is not None else text)


@dataclass(frozen=True, kw_only=True)
class SchemaText:
    """A schema that no row was read for. `untold`: columns about which too little is known."""

    out: Path | None
    toml: str
    untold: tuple[str, ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        return {
            "draft": False,
            "out": self.out,
            "toml": None if self.out is not None else self.toml,
            "untold": list(self.untold),
        }


@dataclass(frozen=True, kw_only=True)
class FromCodebook(Request, verb="schema from-codebook"):
    """A schema from a code book: JSON, CSV, Table Schema, Croissant, DDI, SPSS or Stata labels."""

    codebook: Path
    name: str | None = None
    out: Path | None = None
    overwrite: bool = False

    def run(self, caller: Caller = NOBODY) -> SchemaText:
        from dpublish.declare.codebook import schema_from_codebook

        require_free(self.out, self.overwrite, self.codebook)
        name = self.name or self.codebook.name.split(".")[0]
        schema, untold = schema_from_codebook(self.codebook, name=name)
        text = schema.to_toml()
        if untold:
            text += "\n# Neither levels nor bounds are given for:\n"
            text += "".join(f"# - {name}\n" for name in untold if name.isprintable())
        return _written(self.out, text, tuple(untold))


@dataclass(frozen=True, kw_only=True)
class Discovered:
    """A schema that was completed for a part of a budget, and what was paid."""

    out: Path
    toml: str
    unfound: tuple[str, ...]
    """Columns of which nothing was found; they still say discover = true."""
    released: Released

    def to_json(self) -> Mapping[str, Any]:
        found = self.released.release.manifest["facts"]["columns"]
        return {
            "out": self.out,
            "columns": {one["name"]: one for one in found},
            "unfound": list(self.unfound),
            "release": self.released.to_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Discover(PaidFile, verb="schema discover"):
    """Find levels, bounds and edges for a part of a budget, and write the schema they make.

    The columns to look into say `discover = true` in the start schema. The release that is paid for
    is kept beside the schema, which cites its receipt."""

    data: str
    schema: Path
    epsilon: str
    columns: tuple[str, ...] = ()
    edges: int | None = None
    max_levels: int | None = None
    database: str | None = None
    store: Path | None = None
    release_out: Path | None = None

    def run(self, caller: Caller = NOBODY) -> Discovered:
        from dpublish.releases.discovery.release import DiscoveryRelease

        require_free(self.out, self.overwrite, self.schema)
        _require_outside(self.out, self.data, self.database)
        given = {"edges": self.edges, "max_levels": self.max_levels}
        settings = {name: str(value) for name, value in given.items() if value is not None}
        if self.columns:
            settings["columns"] = ",".join(self.columns)
        released = Release(
            data=self.data,
            schema=self.schema,
            ledger=self.ledger,
            out=self.release_out or self.out.with_suffix(".dpr"),
            epsilon=self.epsilon,
            delta=self.delta,
            method="discovery",
            settings=settings,
            database=self.database,
            budget=self.budget,
            budget_delta=self.budget_delta,
            second_budget=self.second_budget,
            key=self.key,
            name=self.name,
            store=self.store,
            overwrite=self.overwrite,
            again=self.again,
        ).run(caller)
        found = released.release
        assert isinstance(found, DiscoveryRelease)
        text = found.to_schema(read_schema(self.schema)).to_toml()
        _written(self.out, text)
        return Discovered(
            out=self.out,
            toml=text,
            unfound=tuple(one.name for one in found.found if not one.anything),
            released=released,
        )


TEMPLATES = ("survey", "hospital", "register", "baskets")


@dataclass(frozen=True, kw_only=True)
class NewSchema(Request, verb="schema new"):
    """A schema to start from, for a kind of data."""

    template: str
    out: Path | None = None
    overwrite: bool = False

    def run(self, caller: Caller = NOBODY) -> SchemaText:
        if self.template not in TEMPLATES:
            raise InputError(
                f"There is no template '{self.template}'.{did_you_mean(self.template, TEMPLATES)} "
                f"Templates: {', '.join(TEMPLATES)}."
            )
        require_free(self.out, self.overwrite)
        home = files("dpublish.declare") / "templates" / f"{self.template}.toml"
        return _written(self.out, home.read_text(encoding="utf-8"))


def _require_outside(out: Path | None, data: str, database: str | None) -> None:

    if out is not None and database is None:
        keep_apart(out, data)
        keep_outside(out, data)


def _written(out: Path | None, text: str, untold: tuple[str, ...] = ()) -> SchemaText:
    if out is not None:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError(f"Cannot write '{out}' ({error.strerror}).") from None
    return SchemaText(out=out, toml=text, untold=untold)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """All that is wrong with a schema; the schema itself when it could be read."""

    schema: Schema | None
    problems: tuple[str, ...]
    notes: tuple[str, ...] = ()
    """What stops some methods alone."""

    def to_json(self) -> Mapping[str, Any]:
        return {
            "schema": None if self.schema is None else self.schema.name,
            "ok": not self.problems,
            "problems": list(self.problems),
            **({"notes": list(self.notes)} if self.notes else {}),
        }


@dataclass(frozen=True, kw_only=True)
class CheckSchema(Request, verb="schema check"):
    """Whether a schema is complete: kinds, levels, bounds, unit, no draft stamp; and its columns
    are in the data."""

    path: Path
    data: str | None = None

    def run(self, caller: Caller = NOBODY) -> Checked:
        from dpublish.declare.schema import Schema

        schema, problems = Schema.examine(self.path)
        notes: list[str] = []
        if schema is not None:
            problems += _incomplete(schema)
            problems += [] if self.data is None else _absent_columns(schema, self.data)
            notes += [] if problems else _cut_bins(schema)
        return Checked(schema=schema, problems=tuple(problems), notes=tuple(notes))


@dataclass(frozen=True, kw_only=True)
class CheckData(Request, verb="check"):
    """What a release would read of the rows, for the curator's eyes alone."""

    data: str
    schema: Path
    database: str | None = None
    at_least: float = 0.9
    out: Path | None = None
    overwrite: bool = False

    def run(self, caller: Caller = NOBODY) -> DataCheck:
        from dpublish.curator.check import check_data

        require_free(self.out, self.overwrite, self.schema)
        _require_outside(self.out, self.data, self.database)
        schema = read_schema(self.schema)
        source = source_of(self.data, self.database)
        with caller.private() as progress:
            progress("looking at the rows")
            found = check_data(source, schema, at_least=self.at_least)
        if self.out is not None:
            text = json.dumps(plain(found.to_json()), indent=2, ensure_ascii=False)
            write_owned(self.out, text + "\n")
        return found


@dataclass(frozen=True, kw_only=True)
class SchemaShown:
    schema: Schema

    def to_json(self) -> Mapping[str, Any]:
        return {**self.schema.to_dict(wording=True), "digest": self.schema.digest}


@dataclass(frozen=True, kw_only=True)
class ShowSchema(Request, verb="schema show"):
    """A schema as dpublish reads it, with every default filled in."""

    path: Path

    def run(self, caller: Caller = NOBODY) -> SchemaShown:
        return SchemaShown(schema=read_schema(self.path))


def _incomplete(schema: Schema) -> list[str]:
    """Everything that would stop a release, not just the first."""
    from dpublish.declare.domain import resolve_axis

    problems = []
    if schema.draft:
        problems.append(
            "The [draft] table is still there: levels and bounds were read off the rows."
        )
    for column in schema.columns.values():
        try:
            resolve_axis(column, schema_name=schema.name, default_bins=1)
        except SchemaError as error:
            problems.append(str(error))
    return problems


def _cut_bins(schema: Schema) -> list[str]:
    from dpublish.declare.rules import cut_bins

    return [
        f"joined-histograms refuses the rule '{rule.describe()}': it compares with a number inside "
        "a declared bin. Declare edges with that number."
        for rule in cut_bins(schema.rules, schema.columns, schema.name)
    ]


def _absent_columns(schema: Schema, data: str) -> list[str]:
    from dpublish.sources.sources import open_source

    source = open_source(data, schema)
    present = source.columns()
    wanted = [*schema.columns, *([schema.unit.column] if schema.unit.column else [])]
    # names of the data are not quoted, not even as a hint: in a file without a header line they are
    # a person's row
    absent = [name for name in wanted if name not in present]
    repeated = [name for name in wanted if source.repeats(name)]
    return [
        *(f"The data has no column named exactly '{name}'." for name in absent),
        *(f"The data has more than one column named '{name}'." for name in repeated),
    ]


def write_owned(path: Path, text: str) -> None:
    """For its owner alone, whatever the umask: what was read off the rows is as private as they
    are."""

    try:
        replace_owned(path, text.encode())
    except OSError as error:
        raise InputError(f"Cannot write '{path}' ({error.strerror}).") from None
