"""One declared column: what values it may take, and what becomes of a value that is none of them.

A column is a public fact. Everything here is read from a schema written by a person, never from
rows.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, cast, get_args

from dpublish.declare.calendar import (
    CALENDAR,
    DAY,
    EXAMPLES,
    SECONDS,
    STEPS,
    Moment,
    moment_of,
    number_of,
    read_bound,
    step_edges,
)
from dpublish.declare.spelling import BLANKS
from dpublish.errors import SchemaError, did_you_mean, refuse, refuse_unknown_keys

Kind = Literal["categorical", "ordinal", "boolean", "integer", "real", "date", "time", "timestamp"]
Outside = Literal["clip", "other", "drop"]
Spacing = Literal["even", "log"]
Bound = int | float | Moment

KINDS: tuple[str, ...] = get_args(Kind)
OUTSIDE: tuple[str, ...] = get_args(Outside)
NUMERIC_KINDS = ("integer", "real", *CALENDAR)
DISCOVERED_KINDS = ("categorical", "integer", "real", "date", "timestamp")
BOOLEAN_LEVELS = ("false", "true")
OTHER = "(other)"
MISSING = "(missing)"

_WORDING = ("title", "description", "units", "source")
_OWN_KEYS = {
    "categorical": {"levels", "labels"},
    "ordinal": {"levels", "labels"},
    "boolean": {"labels"},
    "integer": {"lower", "upper", "bins", "spacing", "edges"},
    "real": {"lower", "upper", "bins", "spacing", "edges", "precision"},
    **{kind: {"lower", "upper", "bins", "edges"} for kind in CALENDAR},
}
_KEYS = {
    kind: {"kind", "missing", "outside", *_WORDING, *own}
    | ({"discover"} if kind in DISCOVERED_KINDS else set())
    for kind, own in _OWN_KEYS.items()
}
WORDING = (*_WORDING, "labels")
"""Keys of a column that are for people alone."""

_MAX_LEVELS = 1 << 24
_MAX_BINS = 1 << 32
_MAX_STEPS = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Wording:
    """What people are told about a column. Nothing is computed from it, and it is not part of a
    schema's digest, so that it may be mended. `source` says where bounds or levels come from."""

    title: str = ""
    description: str = ""
    units: str = ""
    source: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Levels in words, such as {"1": "Female"}."""

    def to_dict(self) -> dict[str, Any]:
        """What is said, by key; nothing for what is not."""
        said = {key: getattr(self, key) for key in _WORDING}
        labels = {"labels": dict(self.labels)} if self.labels else {}
        return {key: text for key, text in said.items() if text} | labels


@dataclass(frozen=True, kw_only=True)
class Column:
    """A declared column.

    `outside` says what becomes of a value outside the declared domain: `clip` moves a number to the
    nearest bound, `other` maps it to a level of its own, `drop` leaves the row out. A missing value
    (null, empty, NaN, or text that is not a number in a numeric column) is a level of its own when
    `missing` is true, and otherwise is treated as outside the domain, where `clip` cannot apply and
    means `drop`. How many values took either path is never reported.
    """

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    lower: Bound | None = None
    upper: Bound | None = None
    bins: int | None = None
    edges: tuple[Bound, ...] | None = None
    step: str | None = None
    """What bins of dates or times begin with, such as "hour" or "month"; `edges` are those."""
    spacing: Spacing = "even"
    precision: Fraction | None = None
    missing: bool = False
    outside: Outside = "clip"
    discover: bool = False
    """Whether levels or bounds are still to be found, for a part of a budget."""
    wording: Wording = field(default_factory=Wording)

    @property
    def numeric(self) -> bool:
        return self.kind in NUMERIC_KINDS

    @property
    def ordered(self) -> bool:
        """Whether `<` means something in a predicate."""
        return self.numeric or self.kind == "ordinal"

    def require_bounds(self, schema_name: str) -> tuple[Bound, Bound]:
        for which, value in (("lower", self.lower), ("upper", self.upper)):
            if value is None:
                raise SchemaError(
                    f"Column '{self.name}' has no {which} bound in schema '{schema_name}'. "
                    f"Add {which} = ...; it cannot be taken from the data."
                )
        return cast(Bound, self.lower), cast(Bound, self.upper)

    def to_toml_table(self) -> dict[str, Any]:
        """The keys of a `[columns.NAME]` table, defaults left out."""
        labelled = self.kind in ("categorical", "ordinal") and (self.levels or not self.discover)
        # edges fix the bounds, which are then not written, unless a step fixes the edges
        listed = self.edges is not None and self.step is None
        said = {
            "levels": list(self.levels) if labelled else None,
            "lower": None if listed else self.lower,
            "upper": None if listed else self.upper,
            "bins": self.step or (None if listed else self.bins),
            "edges": list(self.edges or ()) if listed else None,
            "spacing": None if self.spacing == "even" else self.spacing,
            "precision": None if self.precision is None else float(self.precision),
            "missing": self.missing or None,
            "outside": None if self.outside == default_outside(self.kind) else self.outside,
            "discover": self.discover or None,
        }
        return {"kind": self.kind} | {key: one for key, one in said.items() if one is not None}


def shown(bound: Bound) -> float | int | str:
    """A bound as JSON has it."""
    return str(bound) if isinstance(bound, dt.date | dt.time) else bound


def default_outside(kind: str) -> Outside:
    """Numbers are clipped; labels that nobody declared become '(other)'."""
    return "clip" if kind in NUMERIC_KINDS else "other"


def read_column(name: str, table: Mapping[str, Any]) -> Column:
    """Check one `[columns.NAME]` table and turn it into a `Column`."""
    where = f"Column '{name}'"
    if not isinstance(table, Mapping):
        raise SchemaError(
            f'{where} must be a table, for example [columns.{name}] with kind = "categorical".'
        )
    kind = table.get("kind")
    if kind is None:
        raise SchemaError(f'{where} has no kind. Add kind = "..." ({", ".join(KINDS)}).')
    if kind not in KINDS:
        raise SchemaError(
            f"{where}: kind '{kind}' is not known.{did_you_mean(str(kind), KINDS)} Kinds: "
            f"{', '.join(KINDS)}."
        )
    if "public" in table:
        raise SchemaError(
            f"{where}: values of single rows cannot be declared public. Who has which value would "
            "say who is in the data, and nothing would protect that. Leave public out; what is "
            "known of all rows can be declared: levels, bounds, size and rules."
        )
    refuse_unknown_keys(table, _KEYS[kind], f"{where} ({kind})")
    outside = table.get("outside", default_outside(kind))
    if outside not in OUTSIDE:
        raise SchemaError(
            f"{where}: outside = '{outside}' is not known.{did_you_mean(str(outside), OUTSIDE)} "
            f"Use clip, other or drop."
        )
    if outside == "clip" and kind not in NUMERIC_KINDS:
        raise SchemaError(
            f"{where}: outside = 'clip' needs a numeric column; one of kind {kind} takes 'other' "
            f"or 'drop'."
        )
    flags = {key: table.get(key, False) for key in ("missing", "discover")}
    for key, flag in flags.items():
        if not isinstance(flag, bool):
            raise SchemaError(f"{where}: {key} must be true or false, not {flag!r}.")
    # names of levels that a column has unasked, and what is counted under them
    taken = {OTHER: "values that are not listed"} if outside == "other" else {}
    taken |= {MISSING: "missing values"} if flags["missing"] else {}
    levels: tuple[str, ...] = ()
    if kind == "boolean":
        levels = BOOLEAN_LEVELS
    elif kind in ("categorical", "ordinal") and not (flags["discover"] and "levels" not in table):
        levels = _read_levels(where, table, taken)
    return Column(
        name=name,
        kind=kind,
        outside=outside,
        **flags,
        wording=_read_wording(where, table, levels),
        levels=levels,
        **({} if levels or kind == "categorical" else _read_numeric(where, kind, table)),
    )


def line_of_text(what: str, value: Any) -> str:
    """Words for people: shown on pages and terminals, so nothing in them may act on either."""
    if not isinstance(value, str) or not value.replace("\n", " ").isprintable():
        raise SchemaError(f"{what} must be text, not {value!r:.60}.")
    return value.strip()


def _read_wording(where: str, table: Mapping[str, Any], levels: tuple[str, ...]) -> Wording:
    said = {key: line_of_text(f"{where}: {key}", table[key]) for key in _WORDING if key in table}
    given = table.get("labels", {})
    if not isinstance(given, Mapping):
        raise SchemaError(f'{where}: labels must be a table such as {{ "1" = "Female" }}.')
    plain = {level.strip(BLANKS): level for level in levels}
    for level in given:
        if level not in plain:
            raise SchemaError(
                f"{where}: labels names '{level}', which is no level.{did_you_mean(level, plain)}"
            )
    labels = {
        plain[level]: line_of_text(f"{where}: labels", label) for level, label in given.items()
    }
    twice = [label for i, label in enumerate(labels.values()) if label in [*labels.values()][:i]]
    clash = [label for level, label in labels.items() if label in plain and label != level]
    for label in [*twice, *clash]:
        raise SchemaError(f"{where}: the label '{label}' would stand for two levels.")
    return Wording(**said, labels=labels)


def _read_levels(where: str, table: Mapping[str, Any], taken: Mapping[str, str]) -> tuple[str, ...]:
    levels = table.get("levels")
    if levels is None:
        raise SchemaError(
            f"{where} has no levels. Add levels = [...]; they cannot be taken from the data "
            "(discover = true and 'dpublish schema discover' find them for a part of the budget)."
        )
    if not isinstance(levels, list) or not levels:
        raise SchemaError(f"{where}: levels must be a list with at least one entry.")
    if len(levels) > _MAX_LEVELS:
        raise SchemaError(f"{where}: {len(levels)} levels; at most {_MAX_LEVELS} are supported.")
    for level in levels:
        if isinstance(level, bool) or not isinstance(level, str | int):
            raise SchemaError(f"{where}: level {level!r} must be text or a whole number.")
    texts = tuple(str(level) for level in levels)
    # cells are read without the blanks around them, and so are levels
    plain = [text.strip(BLANKS) for text in texts]
    if len(set(plain)) != len(plain):
        twice = next(text for i, text in enumerate(plain) if text in plain[:i])
        raise SchemaError(
            f"{where}: level '{twice}' is listed twice (blanks around a level do not count)."
        )
    if "" in plain:
        raise SchemaError(
            f"{where}: a level is blank. Blank cells are missing values: leave it out and add "
            f"missing = true."
        )
    for text in plain:
        if text in taken:
            raise SchemaError(
                f"{where}: '{text}' is what {taken[text]} are counted under already. Leave that "
                f"level out."
            )
    return texts


def _read_numeric(where: str, kind: str, table: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {
        key: _read_bound(f"{where}: {key}", kind, table[key])
        for key in ("lower", "upper")
        if key in table
    }
    if "edges" in table:
        if {"bins", "spacing"} & set(table):
            raise SchemaError(f"{where}: edges already fix the bins; leave bins and spacing out.")
        edges = table["edges"]
        bounds = len({"lower", "upper"} & set(table))
        if not isinstance(edges, list) or not edges or len(edges) + bounds < 2:
            raise SchemaError(f"{where}: edges must list at least two increasing values.")
        read = tuple(_read_bound(f"{where}: edges", kind, edge) for edge in edges)
        if any(not cast(Any, a) < cast(Any, b) for a, b in itertools.pairwise(read)):
            raise SchemaError(f"{where}: edges must increase strictly.")
        # bounds beside edges are edges too: what lies between them and the first or last one
        below = [out["lower"]] if out.get("lower", *read[:1]) != read[0] else []
        above = [out["upper"]] if out.get("upper", *read[-1:]) != read[-1] else []
        read = (*below, *read, *above)
        if any(not cast(Any, a) < cast(Any, b) for a, b in itertools.pairwise(read)):
            raise SchemaError(f"{where}: edges must lie between lower and upper.")
        out.update(edges=read, lower=read[0], upper=read[-1])
    if kind == "time" and "edges" not in table:  # a day has its bounds
        out = {"lower": dt.time.min, "upper": dt.time(23, 59, 59)} | out
    lower, upper = out.get("lower"), out.get("upper")
    if (
        lower is not None
        and upper is not None
        and (lower > upper or (kind == "real" and lower == upper))
    ):
        raise SchemaError(f"{where}: lower = {lower} must be below upper = {upper}.")
    if isinstance(table.get("bins"), str):
        out.update(_read_step(where, kind, table["bins"], lower, upper))
    elif "bins" in table:
        bins = table["bins"]
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= _MAX_BINS:
            raise SchemaError(
                f"{where}: bins must be a whole number from 1 to {_MAX_BINS}, not {bins!r}."
            )
        out["bins"] = bins
    if "spacing" in table:
        spacing = table["spacing"]
        refuse(
            SchemaError,
            (
                spacing not in get_args(Spacing),
                f"{where}: spacing must be even or log, not {spacing!r}.",
            ),
            (
                "bins" not in table or "precision" in table,
                f"{where}: spacing needs bins = ..., the number of them.",
            ),
            (
                spacing == "log" and (lower is None or lower <= 0),
                f"{where}: spacing = 'log' needs a lower bound above 0. A column that starts at 0 "
                "can list edges.",
            ),
        )
        out["spacing"] = spacing
    if "precision" in table:
        precision = table["precision"]
        number = isinstance(precision, int | float) and not isinstance(precision, bool)
        refuse(
            SchemaError,
            ("bins" in table, f"{where}: give bins or precision, not both."),
            (
                not number or not 0 < precision < math.inf,
                f"{where}: precision must be a positive number, not {precision!r}.",
            ),
        )
        out["precision"] = Fraction(repr(precision))
    return out


def _read_step(where: str, kind: str, step: str, lower: Any, upper: Any) -> dict[str, Any]:
    """Bins that begin with a named part of the calendar, such as "month"."""
    steps = STEPS.get(kind)
    if steps is None or step not in steps:
        named = f" or one of {', '.join(steps)}" if steps else ""
        raise SchemaError(
            f"{where}: bins must be a whole number{named}, not '{step}'."
            f"{did_you_mean(step, steps or ())}"
        )
    if lower is None or upper is None:
        raise SchemaError(f"{where}: bins = '{step}' needs a lower and an upper bound.")
    if lower == upper:
        return {"step": step}
    ends = number_of(lower), number_of(upper)
    if (ends[1] - ends[0]) // SECONDS.get(step, DAY) > _MAX_STEPS and kind != "date":
        raise SchemaError(f"{where}: bins = '{step}' makes more than {_MAX_STEPS:,} of them.")
    edges = (moment_of(kind, edge) for edge in step_edges(kind, step, *ends))
    return {"step": step, "edges": tuple(edges)}


def _read_bound(what: str, kind: str, value: Any) -> Bound:
    if kind in CALENDAR:
        moment = read_bound(kind, value)
        if moment is None:
            one = "a time of day" if kind == "time" else f"a {kind}"
            zone = "" if kind == "date" else ", without a zone or a part of a second,"
            raise SchemaError(f"{what} must be {one} such as {EXAMPLES[kind]}{zone} not {value!s}.")
        return moment
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(f"{what} must be a number, not {value!r}.")
    if isinstance(value, float) and not math.isfinite(value):
        raise SchemaError(f"{what} must be finite, not {value!r}.")
    if kind == "integer":
        if int(value) != value or abs(value) >= 1 << 62:
            raise SchemaError(f"{what} must be a whole number below 2^62 in size, not {value!r}.")
        return int(value)
    return float(value)
