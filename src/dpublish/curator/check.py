"""Does the data say what the schema says? A look at all rows, for the curator's eyes alone.

Every cell goes through the coding that a release uses, into axes on which nothing is dropped or
clipped, so that what would become of it can be counted. What comes out is as private as the rows:
it is part of no release, and no release reads it. A schema that was changed after looking is a
schema that looked; docs/schema.md says what that means for the guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.curator import formats
from dpublish.curator.formats import TextFormat, hints, named_as_unit
from dpublish.declare.columns import Column
from dpublish.declare.domain import Axis, Domain, resolve_axis
from dpublish.declare.encode import Encoder
from dpublish.declare.rules import Fact, cells_where, exact_domain
from dpublish.declare.schema import Schema
from dpublish.declare.source_format import SourceFormat
from dpublish.declare.spelling import BLANKS
from dpublish.errors import InputError, did_you_mean
from dpublish.quiet import no_logs
from dpublish.sources.sources import LINE_COLUMN, Source, open_source
from dpublish.sources.units import unit_values

AT_LEAST = 0.9
"""Part of the filled cells of a column that has to be read as declared values."""

_LOOK_ROWS = 1 << 20
"""Rows in which examples are looked for, and blank cells told from unreadable ones; a quarter of
them where each column shows some there."""
_FEW_ROWS = _LOOK_ROWS // 4

_EXAMPLES = 5
_LONGEST = 60


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """What became of the cells of one column. `read`: as declared values; `blank` and `unreadable`
    cells are missing, `outside` ones are none of the declared values."""

    name: str
    kind: str
    read: int
    missing: int
    blank: int
    outside: int
    dropped: int
    clipped: int
    examples: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def unreadable(self) -> int:
        return self.missing - self.blank

    @property
    def only_marks(self) -> bool:
        """Whether all that is not read says that a value is not there."""
        return not self.outside and all(text in formats.MARKS for text in self.examples)

    @property
    def part(self) -> float:
        """Of the filled cells, how many were read as declared values."""
        filled = self.read + self.outside + self.unreadable
        return self.read / filled if filled else 1.0

    def to_json(self) -> dict[str, Any]:
        counts = ("read", "missing", "blank", "unreadable", "outside", "dropped", "clipped", "part")
        return {
            "column": self.name,
            "kind": self.kind,
            **{name: getattr(self, name) for name in counts},
            "examples": list(self.examples),
            "hints": list(self.hints),
        }


@dataclass(frozen=True, kw_only=True)
class UnitCheck:
    """The units that the guarantee protects, as the rows have them."""

    column: str
    units: int
    nameless_rows: int
    largest: int
    crowded: int
    """Units with more rows than `max_rows_per_unit`."""
    unused_rows: int


@dataclass(frozen=True, kw_only=True)
class DataCheck:
    """All that was found. As private as the rows."""

    schema: str
    rows: int
    dropped_rows: int
    columns: tuple[ColumnCheck, ...]
    unit: UnitCheck | None
    format: TextFormat | None
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    at_least: float

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        return {
            "private": "as private as the rows",
            "schema": self.schema,
            "ok": self.ok,
            "problems": list(self.problems),
            "notes": list(self.notes),
            "rows": self.rows,
            "dropped_rows": self.dropped_rows,
            "at_least": self.at_least,
            "columns": [column.to_json() for column in self.columns],
            "unit": None if self.unit is None else dict(vars(self.unit)),
            "format": None
            if self.format is None
            else {"encoding": self.format.encoding, "delimiter": self.format.delimiter},
        }


def check_data(data: object, schema: Schema, *, at_least: float = AT_LEAST) -> DataCheck:
    """Look at all rows of `data`, and say what a release under `schema` would read of them."""
    if not 0 < at_least <= 1:
        raise InputError(f"--at-least must be a share above 0 and at most 1, not {at_least}.")
    with no_logs():
        return _Look(data, schema, at_least).run()


class _Look:
    def __init__(self, data: object, schema: Schema, at_least: float) -> None:
        self.data, self.schema, self.at_least = data, schema, at_least
        self.problems: list[str] = []
        self.notes: list[str] = []

    def run(self) -> DataCheck:
        form, misread = formats.misread(self.data, self.schema.source)
        self.problems += misread
        try:
            source = open_source(self.data, self.schema)
            present = source.columns()
        except InputError as error:
            self.problems.append(str(error))
            return self._found(form, 0, 0, (), None)
        if self.schema.items is not None:
            return self._items(source, form)
        unit = self.schema.unit.column
        self.problems += [
            f"The data has no column '{name}'.{did_you_mean(name, present)} It has: "
            f"{', '.join(present[:12])}{', ...' if len(present) > 12 else ''}."
            for name in (*self.schema.columns, *([unit] if unit else []))
            if name not in present
        ]
        self.problems += [
            f"The data has more than one column named '{name}'."
            for name in self.schema.columns
            if source.repeats(name)
        ]
        declared = [self.schema.columns[n] for n in self.schema.columns if n in present]
        if not declared:
            if form is not None:
                self.problems.append(
                    "The first line names none of the declared columns. Is it a row? Columns are "
                    "found by the names in the first line, never by their order."
                )
            return self._found(form, 0, 0, (), None)
        unit = unit if unit in present else None
        rows, dropped, counts, units = self._count(source, declared, unit)
        columns = self._columns(source, declared, counts, rows)
        self._rules(source, present, rows)
        self._totals(source, present, rows)
        if rows == 0:
            self.problems.append("The data has no rows.")
        elif dropped > (1 - self.at_least) * rows:
            self.problems.append(f"{dropped:,} of {rows:,} rows would be dropped.")
        if unit is None and self.schema.unit.column is None:
            self._looks_like_a_unit(source, rows)
        self._size(rows, units)
        return self._found(form, rows, dropped, columns, units)

    def _found(
        self,
        form: TextFormat | None,
        rows: int,
        dropped: int,
        columns: tuple[ColumnCheck, ...],
        unit: UnitCheck | None,
    ) -> DataCheck:
        return DataCheck(
            schema=self.schema.name,
            rows=rows,
            dropped_rows=dropped,
            columns=columns,
            unit=unit,
            format=form,
            problems=tuple(self.problems),
            notes=tuple(self.notes),
            at_least=self.at_least,
        )

    def _count(
        self, source: Source, declared: Sequence[Column], unit: str | None
    ) -> tuple[int, int, list[NDArray[np.int64]], UnitCheck | None]:
        """Cells per column: declared values, outside, missing; and rows that would be dropped."""
        axes = [_open_axis(column, self.schema.name) for column in declared]
        keeps = [_keeps(column) for column in declared]
        # per code: 0 for a declared value, 1 for one outside, 2 for a missing one
        tables = [np.array([*([0] * axis.base), 1, 2], dtype=np.int64) for axis in axes]
        counts = [np.zeros(3, dtype=np.int64) for _ in axes]
        rows = dropped = 0
        units: list[pl.Series] = []
        for batch, ids in source.coded(Encoder(Domain(tuple(axes))), unit):
            codes = batch.codes
            keep: NDArray[np.bool_] | None = None
            for place, (column, table) in enumerate(zip(codes, tables, strict=True)):
                per_code = np.bincount(column, minlength=table.size)
                counts[place] += np.bincount(table, weights=per_code, minlength=3).astype(np.int64)
                if not keeps[place].all() and per_code[~keeps[place][table]].any():
                    kept = keeps[place][table][column]
                    keep = kept if keep is None else keep & kept
            rows += codes[0].size
            dropped += 0 if keep is None else int(keep.size - keep.sum())
            if ids is not None:
                named = unit_values(ids)
                units.append(named.hash().set(named.is_null(), None))
        return rows, dropped, counts, self._units(units)

    def _rules(self, source: Source, present: Sequence[str], rows: int) -> None:
        """Rows that break a declared rule, which releases leave out."""
        rules = [rule for rule in self.schema.rules if set(rule.columns) <= set(present)]
        for rule, count in zip(rules, self._rows_with(source, rules), strict=True):
            if count:
                (self.problems if count > (1 - self.at_least) * rows else self.notes).append(
                    f"{count:,} of {rows:,} rows break the rule '{rule.describe()}'. Releases "
                    "leave them out."
                )

    def _totals(self, source: Source, present: Sequence[str], rows: int) -> None:
        """Public totals beside what the rows have: releases take them for true."""
        totals = [one for one in self.schema.totals if set(one.columns) <= set(present)]
        parts = [one for one in totals if one.where]
        counts = dict(zip(parts, self._rows_with(source, parts), strict=True))
        for one in totals:
            count = counts.get(one, rows)
            if count != one.rows:
                self.problems.append(
                    f"The public total of {one.describe()} is not what the rows have: {count:,}."
                )

    def _rows_with(self, source: Source, facts: Sequence[Fact]) -> list[int]:
        """How many rows satisfy the condition of each rule or total."""
        if not facts:
            return []
        domain = exact_domain(facts, self.schema.columns, self.schema.name)
        cells = [found for fact in facts if (found := cells_where(fact, domain))]
        counts = [0] * len(facts)
        for batch, _ in source.coded(Encoder(domain)):
            codes = batch.kept()
            for number, one in enumerate(cells):
                counts[number] += int(one.cells[tuple(codes[p] for p in one.places)].sum())
        return counts

    def _units(self, parts: Sequence[pl.Series]) -> UnitCheck | None:
        """Units by a hash of their names, which is enough to count them."""
        name = self.schema.unit.column
        if name is None or not parts:
            return None
        hashes = pl.concat([part.alias("unit") for part in parts])
        nameless = hashes.null_count()
        sizes = hashes.drop_nulls().to_frame().group_by("unit").len().get_column("len")
        most = self.schema.unit.max_rows
        found = UnitCheck(
            column=name,
            units=len(sizes),
            nameless_rows=nameless,
            largest=int(sizes.max() or 0),  # type: ignore[arg-type]
            crowded=int((sizes > most).sum()),
            unused_rows=int((sizes.cast(pl.Int64) - most).clip(0).sum()),
        )
        rows = int(sizes.sum()) + nameless
        few = (1 - self.at_least) * rows
        if nameless:
            (self.problems if nameless > few else self.notes).append(
                f"{nameless:,} of {rows:,} rows name no unit in column '{name}', and are left out."
            )
        if found.unused_rows:
            many = found.unused_rows > few
            (self.problems if many else self.notes).append(
                f"{found.crowded:,} of {found.units:,} units have more than {most} rows: "
                f"{found.unused_rows:,} of {rows:,} rows would not be used."
                + (f" Is '{name}' the unit?" if many else "")
            )
        if most > 1 and found.largest == 1:
            self.problems.append(
                f"Every row has a unit of its own in column '{name}', although up to {most} rows "
                "per unit are declared. Is it the unit?"
            )
        return found

    def _size(self, rows: int, units: UnitCheck | None) -> None:
        number = rows if units is None else units.units
        public = self.schema.size_or_nominal
        if public is None or (self.schema.unit.column is not None and units is None):
            return
        if self.schema.neighbours == "replace-one" and public != number:
            self.problems.append(f"size = {public:,} is declared, and there are {number:,} units.")
        elif not 0.5 <= public / max(number, 1) <= 2:
            self.notes.append(f"nominal_size = {public:,}, and there are {number:,} units.")

    def _looks_like_a_unit(self, source: Source, rows: int) -> None:
        """A column with the name of an id, whose values come several times: one person, several
        rows."""
        named = [
            name
            for name in source.columns()
            if name not in self.schema.columns and named_as_unit(name)
        ]
        for name in named[:3]:
            different = source.count_units(name)
            if different and 0.001 * rows < different < 0.95 * rows:
                self.problems.append(
                    f"Column '{name}' has {different:,} values in {rows:,} rows, so one of them "
                    "has "
                    f'several rows, and each row is protected by itself. Is unit = "{name}" '
                    "meant?"
                )

    def _columns(
        self,
        source: Source,
        declared: Sequence[Column],
        counts: Sequence[NDArray[np.int64]],
        rows: int,
    ) -> tuple[ColumnCheck, ...]:
        counted = list(zip(declared, counts, strict=True))
        odd = [column for column, (_, outside, missing) in counted if outside or missing]
        seen = _examples(self.data, odd, self.schema)
        found = []
        for column, (read, outside, missing) in counted:
            blank_share, examples = seen.get(column.name, (1.0, []))
            blank = round(blank_share * int(missing))
            keeps = _keeps(column)
            # numbers and dates that were read, and lie beyond bounds, are written as they should be
            unclear = not column.numeric or blank != int(missing)
            checked = ColumnCheck(
                name=column.name,
                kind=column.kind,
                read=int(read),
                missing=int(missing),
                blank=blank,
                outside=int(outside),
                dropped=int((0 if keeps[1] else outside) + (0 if keeps[2] else missing)),
                clipped=int(outside) if column.numeric and column.outside == "clip" else 0,
                examples=tuple(examples),
                hints=tuple(hints(examples, column.kind)) if unclear else (),
            )
            found.append(checked)
            self._judge(column, checked, rows)
        return tuple(found)

    def _judge(self, column: Column, found: ColumnCheck, rows: int) -> None:
        shown = ", ".join(f"'{text}'" for text in found.examples[:3])
        because = "; ".join(found.hints)
        bounds = " to ".join(
            f"{end:.15g}" if isinstance(end, float) else str(end)
            for end in (column.lower, column.upper)
        )
        if rows and found.read == 0 and found.outside == 0 and found.unreadable == 0:
            self.problems.append(f"Column '{column.name}' is blank in every row.")
        elif column.numeric and column.missing and found.examples and found.only_marks:
            self.notes.append(f"Column '{column.name}': {shown} is read as missing.")
        elif found.part < self.at_least:
            self.problems.append(
                f"Column '{column.name}' ({column.kind}): {100 * found.part:.3g}% of the filled "
                f"cells are read as declared values. Others, for example: {shown}."
                + (f" It seems that {because}." if because else "")
                + (
                    f" {found.outside:,} lie beyond its bounds, {bounds}."
                    if column.numeric and found.outside
                    else ""
                )
            )
        elif found.hints:
            self.notes.append(f"Column '{column.name}': {because}.")
        if found.dropped > (1 - self.at_least) * rows and found.part >= self.at_least:
            self.problems.append(
                f"Column '{column.name}' drops {found.dropped:,} of {rows:,} rows, whose cells are "
                "missing: add missing = true to keep them."
            )

    def _items(self, source: Source, form: TextFormat | None) -> DataCheck:
        """Set-valued data: how many of the listed items the universe knows."""
        universe = self.schema.items
        assert universe is not None
        name = LINE_COLUMN if LINE_COLUMN in source.columns() else source.columns()[0]
        known = pl.Series(universe.items, dtype=pl.String)
        rows = listed = inside = blank = 0
        others: list[str] = []
        for lists in formats.item_lists(source.cutting(name, str.split), name):
            rows += len(lists)
            items = formats.items_of(lists)
            blank += len(lists) - int((lists.list.len() > 0).sum())
            member = items.is_in(known.implode())
            listed, inside = listed + len(items), inside + int(member.sum())
            if len(others) < _EXAMPLES:
                others += (
                    items.filter(~member).unique(maintain_order=True).head(_EXAMPLES).to_list()
                )
        found = ColumnCheck(
            name=name,
            kind="items",
            read=inside,
            missing=blank,
            blank=blank,
            outside=listed - inside,
            dropped=listed - inside if universe.outside == "drop" else 0,
            clipped=0,
            examples=tuple(others[:_EXAMPLES]),
            hints=(),
        )
        if found.part < self.at_least:
            shown = ", ".join(f"'{text[:_LONGEST]}'" for text in found.examples[:3])
            self.problems.append(
                f"{100 * found.part:.3g}% of the listed items are in the universe. Others, for "
                f"example: {shown}."
            )
        if rows == 0:
            self.problems.append("The data has no rows.")
        elif listed == 0:
            self.problems.append(f"No row lists an item in column '{name}'.")
        self._size(rows, None)
        return self._found(form, rows, 0, (found,), None)


def _open_axis(column: Column, schema_name: str) -> Axis:
    """The column on an axis that shows what is outside and what is missing."""
    bins = None if column.edges is not None or not column.numeric else 1
    shown = replace(column, missing=True, outside="other", bins=bins, precision=None)
    return resolve_axis(shown, schema_name=schema_name, default_bins=1)


def _keeps(column: Column) -> NDArray[np.bool_]:
    """Whether a row stays whose cell is declared, outside or missing."""
    return np.array([True, column.outside != "drop", column.missing or column.outside == "other"])


def _examples(
    data: object, odd: Sequence[Column], schema: Schema
) -> Mapping[str, tuple[float, list[str]]]:
    """Per column: which part of the missing cells is blank, or marked as missing, and the commonest
    texts that are no declared value, as they are written; in the first rows."""
    if not odd:
        return {}
    written = schema.source or SourceFormat()
    plain = SourceFormat(
        delimiter=written.delimiter, encoding=written.encoding, sheet=written.sheet
    )
    source = open_source(data, replace(schema, source=plain))
    encoder = Encoder(Domain(tuple(_open_axis(column, schema.name) for column in odd)))
    missing, blank = ({column.name: 0 for column in odd} for _ in range(2))
    texts: dict[str, list[pl.DataFrame]] = {column.name: [] for column in odd}
    rows = 0
    for frame in source.batches([column.name for column in odd]):
        rows += frame.height
        for place, column in enumerate(odd):
            cells = frame.get_column(column.name)
            read = written.rewritten(cells, column.kind) if written.about_cells else cells
            codes, _ = encoder.encode_column(place, read)
            base = encoder.domain.axes[place].base
            strange = np.flatnonzero(codes >= base)
            if not strange.size:
                continue
            shown = _as_text(cells.gather(strange))
            filled = _as_text(read.gather(strange)).str.len_bytes() > 0
            missing[column.name] += int((codes == base + 1).sum())
            blank[column.name] += len(shown) - int(filled.sum())
            texts[column.name].append(shown.filter(filled).alias("text").value_counts(name="n"))
        if rows >= _LOOK_ROWS or (rows >= _FEW_ROWS and all(texts.values())):
            break
    found = {}
    for name, parts in texts.items():
        counted = pl.concat(parts) if parts else pl.DataFrame({"text": [], "n": []})
        common = (
            counted.group_by("text")
            .agg(pl.col("n").sum())
            .sort("n", "text", descending=[True, False])
        )
        found[name] = (
            blank[name] / missing[name] if missing[name] else 1.0,
            [str(text)[:_LONGEST] for text in common["text"].head(_EXAMPLES)],
        )
    return found


def _as_text(cells: pl.Series) -> pl.Series:
    kind = cells.dtype
    if kind.is_nested() or kind in (pl.Binary, pl.Object, pl.Unknown, pl.Null):
        return pl.Series(["" if cell is None else str(kind) for cell in cells], dtype=pl.String)
    cells = cells.fill_nan(None) if kind.is_float() else cells
    return cells.cast(pl.String, strict=False).fill_null("").str.strip_chars(BLANKS)
