"""The schema: every public fact that a release may rest on, written by a person in TOML.

[dataset]
name = "adult"
neighbours = "replace-one"      # or "add-remove-one"
size = 48842                    # replace-one: the public number of units (counted if left out)
nominal_size = 45000            # add-remove-one: a public guess of the private number of rows
unit = "row"                    # or a column name, with max_rows_per_unit
max_rows_per_unit = 1
target = "income"
population = "residents"        # whose data this is; without it the name stands for them
period = "2024"                 # new data of the same people under the same schema

[columns.age]
kind = "integer"
lower = 17
upper = 90

[items]                         # set-valued data instead of columns
universe = ["bread", "milk"]    # or universe_file = "items.txt"

[[rules]]                       # what every row obeys
if = "age < 15"
then = "married = 'no'"

[[totals]]                      # numbers that are public already
rows = 21790
where = "sex = 'female'"
source = "census 2021, table 3"
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from dpublish.declare.columns import Column, line_of_text, read_column
from dpublish.declare.domain import Domain, lei_bins, resolve_axis
from dpublish.declare.relation import Neighbours, Relation
from dpublish.declare.rules import Rule, Total, read_rules, read_totals
from dpublish.declare.source_format import SourceFormat, read_source_format
from dpublish.declare.spelling import BLANKS, filled_lines
from dpublish.errors import SchemaError, did_you_mean, refuse, refuse_unknown_keys

T = TypeVar("T")
NEIGHBOURS: tuple[str, ...] = get_args(Neighbours)

DRAFT_STAMP = """\
# ------------------------------------------------------------------------------------------
# DRAFT, DERIVED FROM ROWS. Levels, bounds and sizes below were read off private data. They may reveal it, and a
# release made from them would not be differentially private. Replace every one of them by what you know without
# looking at the rows (a code book, a law, a form), then delete the [draft] table. `dpublish release` refuses until then.
# ------------------------------------------------------------------------------------------
"""

ABOUT = ("title", "description", "publisher", "contact", "purpose", "licence")
"""What people are told about a data set. Like the wording of columns it is not in the digest."""

_DATASET_KEYS = {
    "name",
    "neighbours",
    "unit",
    "max_rows_per_unit",
    "target",
    "size",
    "nominal_size",
    "population",
    "period",
    *ABOUT,
}
_TABLES = {"dataset", "source", "columns", "items", "rules", "totals", "draft"}
_ITEM_KEYS = {"universe", "universe_file", "outside", "source"}


@dataclass(frozen=True, kw_only=True)
class PrivacyUnit:
    """Whom the guarantee protects: a row, or everything that shares a value of `column`, of which
    `max_rows` rows are kept."""

    column: str | None = None
    max_rows: int = 1

    def describe(self) -> str:
        if self.column is None:
            return "one row"
        return (
            f"all rows that share one value of '{self.column}' (at most {self.max_rows} of "
            f"them are used)"
        )


@dataclass(frozen=True, kw_only=True)
class ItemUniverse:
    """The public list of items of set-valued data. `outside`: an undeclared item is dropped, or
    counted as '(other)'."""

    items: tuple[str, ...]
    outside: Literal["drop", "other"] = "drop"
    source: str = ""
    """Where the list was taken from, for people."""


@dataclass(frozen=True, kw_only=True)
class Schema:
    """Public facts about a data set. Build it with `Schema.read(path)` or
    `Schema.from_toml(text)`."""

    name: str
    columns: Mapping[str, Column] = field(default_factory=dict)
    items: ItemUniverse | None = None
    neighbours: Neighbours = "replace-one"
    unit: PrivacyUnit = field(default_factory=PrivacyUnit)
    target: str | None = None
    size: int | None = None
    nominal_size: int | None = None
    draft: bool = False
    source: SourceFormat | None = None
    population: str | None = None
    period: str | None = None
    about: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    totals: tuple[Total, ...] = ()
    size_added: bool = field(default=False, compare=False, repr=False)
    """Whether the number of units was not declared but counted, or given beside the schema."""

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        return cls.from_toml(_text_of(Path(path)), folder=Path(path).parent, where=str(path))

    @classmethod
    def examine(cls, path: str | Path) -> tuple[Schema | None, list[str]]:
        """The schema of a file, or None with everything that is wrong with it; `read` stops at the
        first problem."""
        return _examined(_toml_of(_text_of(Path(path)), str(path)), Path(path).parent)

    @classmethod
    def from_toml(
        cls, text: str, *, folder: Path | None = None, where: str = "the schema"
    ) -> Schema:
        """The schema that a text in TOML declares.

        >>> schema = Schema.from_toml('''
        ... [dataset]
        ... name = "visits"
        ... unit = "patient"
        ... max_rows_per_unit = 3
        ... [columns.age]
        ... kind = "integer"
        ... lower = 0
        ... upper = 120
        ... ''')
        >>> schema.relation
        Relation(neighbours='replace-one', max_rows=3)
        """
        if not isinstance(text, str):
            raise SchemaError(f"{where} must be a text in TOML, not {type(text).__name__}.")
        return _read(_toml_of(text, where), folder or Path())

    @property
    def relation(self) -> Relation:
        """Which data sets are neighbours, and how far one unit moves a count."""
        return Relation(self.neighbours, self.unit.max_rows)

    @property
    def size_or_nominal(self) -> int | None:
        """The public number that stands for n, or None when none was declared."""
        if self.neighbours == "replace-one":
            return self.size
        whole = self.declared_rows if self.unit.column is None else None
        return whole if self.nominal_size is None else self.nominal_size

    @property
    def rows_or_nominal(self) -> int | None:
        """The public number that stands for the number of rows: the most that so many units may
        have."""
        size = self.size_or_nominal
        return None if size is None else size * self.unit.max_rows

    @property
    def digest(self) -> str:
        """SHA-256 of the schema as declared, so that a release states what `schema show` prints,
        whoever counts the units."""
        declared = replace(self, size=None, nominal_size=None) if self.size_added else self
        return _sha256(declared.to_dict())

    @property
    def sized_digest(self) -> str:
        """SHA-256 with the number of units, declared or not: the ledger tells requests apart by
        it."""
        return _sha256(self.to_dict())

    @property
    def declared_rows(self) -> int | None:
        """The number of all rows, where it is one of the public totals."""
        return next((total.rows for total in self.totals if not total.where), None)

    def with_size(self, size: int) -> Schema:
        """The same schema with a public number of units, where it declares none."""
        key = "size" if self.neighbours == "replace-one" else "nominal_size"
        if self.size_or_nominal not in (None, size):
            raise SchemaError(
                f"Schema '{self.name}' declares {key} = {self.size_or_nominal}; another one "
                f"cannot be given beside it."
            )
        exact = key == "size" and self.unit.column is None
        if exact and self.declared_rows not in (None, size):
            raise SchemaError(
                f"Schema '{self.name}' declares a public total of {self.declared_rows:,} rows, and "
                f"there are {size:,}. Correct the total, or leave it out."
            )
        added = self.size_added or self.size_or_nominal is None
        given: dict[str, Any] = {key: size, "size_added": added}
        return replace(self, **given)

    def require_final(self) -> None:
        """Refuse a draft: nothing may be published by it."""
        if self.draft:
            raise SchemaError(
                f"Schema '{self.name}' still carries the [draft] stamp: its levels and bounds were "
                "read off the rows. Replace them by what you know without looking at the data, "
                "then delete the [draft] table."
            )

    def column(self, name: str) -> Column:
        if name not in self.columns:
            raise SchemaError(
                f"Schema '{self.name}' has no column '{name}'.{did_you_mean(name, self.columns)} "
                f"Columns: {', '.join(self.columns)}."
            )
        return self.columns[name]

    def domain(
        self, names: Sequence[str], *, rows: int | None = None, bins: int | None = None
    ) -> Domain:
        """The product domain of the named columns. Numeric columns without bins get `bins`, else
        Lei's number for `rows`."""
        chosen = [self.column(name) for name in names]
        if bins is None and rows is not None:
            bins = lei_bins(rows, len(chosen))
        return Domain(
            tuple(
                resolve_axis(column, schema_name=self.name, default_bins=bins) for column in chosen
            )
        )

    def to_dict(self, *, wording: bool = False) -> dict[str, Any]:
        """The schema as data: what its digest covers, or with `wording` also what is said to
        people."""
        dataset: dict[str, Any] = {
            "name": self.name,
            "neighbours": self.neighbours,
            "unit": self.unit.column or "row",
        }
        if self.unit.column is not None:
            dataset["max_rows_per_unit"] = self.unit.max_rows
        facts = ("target", "size", "nominal_size", "population", "period")
        dataset |= {key: getattr(self, key) for key in facts if getattr(self, key) is not None}
        out: dict[str, Any] = {"dataset": dataset | (dict(self.about) if wording else {})}
        if self.source is not None:
            out["source"] = self.source.to_dict()
        if self.columns:
            out["columns"] = {
                name: column.to_toml_table() | (column.wording.to_dict() if wording else {})
                for name, column in self.columns.items()
            }
        if self.items is not None:
            out["items"] = {"universe": list(self.items.items), "outside": self.items.outside}
            if wording and self.items.source:
                out["items"]["source"] = self.items.source
        if self.rules:
            out["rules"] = [
                rule.to_dict() | ({"source": rule.source} if wording and rule.source else {})
                for rule in self.rules
            ]
        if self.totals:
            out["totals"] = [total.to_dict() for total in self.totals]
        if self.draft:
            out["draft"] = {"derived_from_rows": True}
        return out

    def to_toml(self) -> str:
        data = self.to_dict(wording=True)
        blocks = [DRAFT_STAMP + "[draft]\nderived_from_rows = true"] if self.draft else []
        blocks += [_toml_table(key, data[key]) for key in ("dataset", "source") if key in data]
        blocks += [
            _toml_table(f"columns.{_toml_key(name)}", table)
            for name, table in data.get("columns", {}).items()
        ]
        if "items" in data:
            blocks.append(_toml_table("items", data["items"]))
        for name in ("rules", "totals"):
            blocks += [_toml_table(f"[{name}]", fact) for fact in data.get(name, ())]
        return "\n\n".join(blocks) + "\n"


def _sha256(data: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def _text_of(path: Path) -> str:
    try:
        return path.read_text(
            encoding="utf-8-sig"
        )  # some editors put a mark before the first letter
    except FileNotFoundError:
        raise SchemaError(
            f"There is no schema file '{path}'. 'dpublish schema draft DATA' writes one to start "
            f"from."
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(
            f"The schema file '{path}' cannot be read as UTF-8 text ({type(error).__name__})."
        ) from None


def _toml_of(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SchemaError(f"{where} is not valid TOML: {error}") from None


def _read(data: Mapping[str, Any], folder: Path) -> Schema:
    schema, problems = _examined(data, folder)
    if schema is None:
        raise SchemaError(problems[0])
    return schema


def _examined(data: Mapping[str, Any], folder: Path) -> tuple[Schema | None, list[str]]:
    """The schema, or all that is wrong with it: after a problem the rest is still looked at, as far
    as it stands alone."""
    problems = [
        f"Unknown table [{key}].{did_you_mean(key, _TABLES)} Tables: {', '.join(sorted(_TABLES))}."
        for key in data
        if key not in _TABLES
    ]
    dataset = data.get("dataset")
    if not isinstance(dataset, Mapping):
        problems.append(
            'The schema has no [dataset] table. Add [dataset] with name = "..." at the top.'
        )
        dataset = {"name": "unnamed"}
    problems += [
        f"[dataset]: unknown key '{key}'.{did_you_mean(key, _DATASET_KEYS)} Keys: "
        f"{', '.join(sorted(_DATASET_KEYS))}."
        for key in dataset
        if key not in _DATASET_KEYS
    ]
    name = dataset.get("name")
    if "name" in dataset and not isinstance(name, str):
        problems.append(
            f'[dataset]: name must be text, not {name!r}. Write name = "...", with quotes.'
        )
    elif not isinstance(name, str) or not name.strip():
        problems.append('[dataset] has no name. Add name = "...".')
    tables = data.get("columns", {})
    if not isinstance(tables, Mapping):
        problems.append("[columns] must hold one table per column, for example [columns.age].")
        tables = {}
    noted = partial(_noted, problems)
    read = {column: noted(None, read_column, column, table) for column, table in tables.items()}
    columns: dict[str, Column] = {name: one for name, one in read.items() if one is not None}
    source = noted(None, read_source_format, data["source"]) if "source" in data else None
    for name_of, column_of in columns.items():
        both = set(column_of.levels or ()) & set(source.missing if source is not None else ())
        if both:
            problems.append(
                f"Column '{name_of}' has the level '{min(both)}', which [source] calls missing. "
                "Take it out of one of them."
            )
    items = noted(None, _read_items, data["items"], folder) if "items" in data else None
    problems += _true_ones(
        (
            tables and "items" in data,
            "Give [columns] for a table or [items] for set-valued data, not both.",
        ),
        (
            not data.get("columns") and "items" not in data,
            "The schema declares no column. Add [columns.NAME] tables, or [items] for set-valued "
            "data.",
        ),
    )
    complete = len(columns) == len(tables)
    rules: tuple[Rule, ...] = (
        noted((), read_rules, data["rules"], columns, str(name))
        if "rules" in data and complete
        else ()
    )
    neighbours = dataset.get("neighbours", "add-remove-one" if "items" in data else "replace-one")
    if neighbours not in NEIGHBOURS:
        problems.append(
            f"neighbours = '{neighbours}' is not known.{did_you_mean(str(neighbours), NEIGHBOURS)} "
            "Use replace-one or add-remove-one."
        )
    sizes: dict[str, int | None] = {
        key: noted(None, _positive, dataset[key], key) if key in dataset else None
        for key in ("size", "nominal_size")
    }
    problems += _true_ones(
        (
            "size" in dataset and neighbours == "add-remove-one",
            "size states a public number of units, which add-remove-one keeps private. Use "
            "nominal_size = ... (a public guess).",
        ),
        (
            "nominal_size" in dataset and neighbours == "replace-one",
            "nominal_size belongs to add-remove-one. Under replace-one the number of units is "
            "public: use size = ...",
        ),
    )
    target = dataset.get("target")
    if target is not None and (not isinstance(target, str) or target not in tables):
        problems.append(
            f"target = '{target}' is not a declared column.{did_you_mean(str(target), tables)}"
        )
    lines = {key: dataset[key] for key in ("population", "period") if key in dataset}
    problems += [
        f"[dataset]: {key} must be a line of text, not {text!r:.60}."
        for key, text in lines.items()
        if not (isinstance(text, str) and text.strip() and text.isprintable())
    ]
    totals: tuple[Total, ...] = ()
    unit_name = None if dataset.get("unit", "row") == "row" else str(dataset["unit"])
    if "totals" in data and columns and complete:
        totals = noted(
            (),
            read_totals,
            data["totals"],
            columns,
            schema_name=str(name),
            unit=unit_name,
            rules=rules,
            size=sizes["size"] if unit_name is None else None,
        )
    elif "totals" in data and "items" in data:
        problems.append("[[totals]] speak of the rows of a table, not of [items].")
    about = {
        key: noted("", line_of_text, f"[dataset]: {key}", dataset[key])
        for key in ABOUT
        if key in dataset
    }
    unit = noted(PrivacyUnit(), _read_unit, dataset)
    if problems:
        return None, problems
    return Schema(
        name=str(name).strip(),
        columns=columns,
        items=items,
        neighbours=cast(Neighbours, neighbours),
        unit=unit,
        target=target,
        size=sizes["size"],
        nominal_size=sizes["nominal_size"],
        draft="draft" in data,
        source=source,
        **lines,
        about=about,
        rules=rules,
        totals=totals,
    ), []


def _true_ones(*checks: tuple[object, str]) -> list[str]:
    """The words of the checks that are true."""
    return [words for wrong, words in checks if wrong]


def _noted(problems: list[str], instead: T, read: Callable[..., T], *given: Any, **more: Any) -> T:
    """What is read, or a note of what is wrong with it and `instead`."""
    try:
        return read(*given, **more)
    except SchemaError as error:
        problems.append(str(error))
        return instead


def _read_unit(dataset: Mapping[str, Any]) -> PrivacyUnit:
    unit = dataset.get("unit", "row")
    if not isinstance(unit, str) or not unit:
        raise SchemaError('unit must be "row" or the name of the column that identifies a unit.')
    if unit == "row":
        if dataset.get("max_rows_per_unit", 1) != 1:
            raise SchemaError(
                'max_rows_per_unit needs unit = "COLUMN", the column that says which rows belong '
                "together."
            )
        return PrivacyUnit()
    if "max_rows_per_unit" not in dataset:
        raise SchemaError(
            f"unit = '{unit}' needs max_rows_per_unit = ..., the number of rows a unit may "
            f"contribute."
        )
    return PrivacyUnit(
        column=unit, max_rows=_positive(dataset["max_rows_per_unit"], "max_rows_per_unit")
    )


def _read_items(table: Any, folder: Path) -> ItemUniverse:
    if not isinstance(table, Mapping):
        raise SchemaError('[items] must be a table with universe = [...] or universe_file = "...".')
    refuse_unknown_keys(table, _ITEM_KEYS, "[items]")
    outside = table.get("outside", "drop")
    refuse(
        SchemaError,
        (
            outside not in ("drop", "other"),
            f"[items]: outside must be 'drop' or 'other', not '{outside}'.",
        ),
        (
            ("universe" in table) == ("universe_file" in table),
            '[items] needs exactly one of universe = [...] and universe_file = "...".',
        ),
    )
    if "universe" in table:
        listed = table["universe"]
        if not isinstance(listed, list) or not all(
            isinstance(item, str | int) and not isinstance(item, bool) for item in listed
        ):
            raise SchemaError("[items]: universe must be a list of names or whole numbers.")
        items = tuple(str(item).strip(BLANKS) for item in listed)  # as items of rows are
    else:
        items = tuple(filled_lines(folder / str(table["universe_file"]), "[items]: universe_file"))
    refuse(
        SchemaError,
        (not items, "[items]: the universe is empty."),
        (
            "" in items,
            "[items]: the universe lists a blank item. A blank in a row is no item: leave it out.",
        ),
        (len(set(items)) != len(items), "[items]: the universe lists an item twice."),
    )
    return ItemUniverse(
        items=items,
        outside=cast(Literal["drop", "other"], outside),
        source=line_of_text("[items]: source", table.get("source", "")),
    )


def _positive(value: Any, key: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 1 << 62:
        raise SchemaError(f"{key} must be a whole number of at least 1, not {value!r}.")
    return value


def _toml_key(name: str) -> str:
    bare = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if bare else json.dumps(name)


def _toml_table(title: str, table: Mapping[str, Any]) -> str:
    return "\n".join(
        [f"[{title}]", *(f"{key} = {_toml_value(value)}" for key, value in table.items())]
    )


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON escapes are TOML escapes, except that JSON may leave DEL unescaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{_toml_key(key)} = {_toml_value(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return str(value)
