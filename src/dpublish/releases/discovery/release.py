"""What paid discovery found about columns: levels, bounds and edges, and the schema they make."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from dpublish.declare.calendar import CALENDAR, WORDS, read_bound
from dpublish.declare.columns import DISCOVERED_KINDS, Bound, Column
from dpublish.errors import BundleError, InputError
from dpublish.present.report import (
    Block,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    how_it_was_made,
    listed,
)
from dpublish.releases.base import Release
from dpublish.releases.bundle.manifest import MAX_AXES, MAX_NAME, table, text, texts, whole

if TYPE_CHECKING:
    from dpublish.declare.schema import Schema


FRAME = {
    "column": pl.String,
    "kind": pl.String,
    "level": pl.String,
    "count": pl.Int64,
    "lower": pl.String,
    "upper": pl.String,
}
LONGEST = 100
MAX_FOUND = 1 << 20
_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found about one column. `lower` is None where nothing was."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    lower: Bound | None = None
    upper: Bound | None = None
    edges: tuple[Bound, ...] | None = None
    threshold: int

    @property
    def anything(self) -> bool:
        return bool(self.levels) or self.lower is not None

    def completes(self, column: Column, source: str) -> Column:
        """The declared column with what was found."""
        told = replace(column.wording, source=source)
        known = replace(column, discover=False, wording=told)
        if self.kind == "categorical":
            labels = {code: said for code, said in told.labels.items() if code in self.levels}
            return replace(known, levels=self.levels, wording=replace(told, labels=labels))
        if self.edges is not None:
            plain = replace(known, bins=None, precision=None, spacing="even", edges=self.edges)
            return replace(plain, lower=self.edges[0], upper=self.edges[-1])
        return replace(known, lower=self.lower, upper=self.upper)


class DiscoveryRelease(Release):
    """Levels, bounds and edges that were found for a part of a budget. `to_schema` makes a schema
    of them."""

    kind: ClassVar[str] = "discovery"
    own: ClassVar[tuple[str, ...]] = ("to_schema",)

    def parse(self) -> None:
        given = table(self.manifest, "facts", "manifest").get("columns")
        if not isinstance(given, list) or not 1 <= len(given) <= MAX_AXES:
            raise BundleError("facts: 'columns' must list what was found of each column.")
        self.found: tuple[Found, ...] = tuple(_found(item) for item in given)
        names = [one.name for one in self.found]
        if len(set(names)) != len(names):
            raise BundleError("facts: a column is listed twice.")
        if self.tables:
            raise BundleError("A discovery has no tables.")

    @property
    def source(self) -> str:
        """What a schema says about where its levels and bounds come from."""
        said = f"discovered, receipt {self.manifest['receipt']['key']}"
        return said if self.publishable else f"{said} (made with a fixed seed)"

    def to_schema(self, start: Schema) -> Schema:
        """The schema that discovery was asked with, completed by what was found. Columns of which
        nothing was found keep discover = true."""
        if start.digest != self.manifest["schema_digest"]:
            raise InputError(
                f"Schema '{start.name}' is not the one that this discovery was made with: its "
                "digest differs."
            )
        if not self.source.isprintable():
            raise InputError("The key of this discovery cannot be printed.")
        columns = dict(start.columns)
        for one in self.found:
            if one.anything:
                columns[one.name] = one.completes(columns[one.name], self.source)
        return replace(start, columns=columns)

    def to_frame(self) -> pl.DataFrame:
        """One line per level, and one per column with bounds. Counts carry the noise of the
        release, and only levels above a threshold are there: they are no estimates."""
        rows: list[tuple[Any, ...]] = []
        for one in self.found:
            if one.kind == "categorical":
                pairs = zip(one.levels, one.counts, strict=True)
                rows += [(one.name, one.kind, level, n, None, None) for level, n in pairs]
            elif one.lower is not None:
                rows.append((one.name, one.kind, None, None, str(one.lower), str(one.upper)))
        return pl.DataFrame(rows, schema=FRAME, orient="row")

    def summary(self) -> dict[str, str]:
        return {**super().summary(), **{one.name: described(one) for one in self.found}}

    def sections(self) -> Report:
        return Report(
            lead=(
                "This release says what a schema has to say of ",
                Strong(listed(tuple(one.name for one in self.found))),
                ". It was found out from private rows, with noise, for a part of a budget.",
            ),
            tiles=[
                (
                    f"{sum(one.anything for one in self.found):,}",
                    "columns about which something was found",
                ),
                (f"{sum(len(one.levels) for one in self.found):,}", "levels"),
            ],
            sections=[how_it_was_made(self), _columns(self)],
            limits=LIMITS,
        )


def described(one: Found) -> str:
    """What was found of a column, in a line."""
    if not one.anything:
        return "nothing was found"
    if one.kind == "categorical":
        shown = ", ".join(one.levels[:8])
        return f"{len(one.levels):,} levels ({shown}{', ...' if len(one.levels) > 8 else ''})"
    edges = "" if one.edges is None else f", {len(one.edges) - 1:,} bins"
    return f"from {one.lower} to {one.upper}{edges}"


def _found(item: Any) -> Found:
    if not isinstance(item, Mapping):
        raise BundleError("facts: each column must be an object.")
    name, kind = text(item, "name", "column"), text(item, "kind", "column")
    where = f"column '{name[:80]}'"
    if len(name) > MAX_NAME or kind not in DISCOVERED_KINDS:
        raise BundleError(f"{where}: the name or the kind is not one that can be discovered.")
    threshold = whole(item, "threshold", where, lowest=1)
    if kind == "categorical":
        return _read_levels(item, name, where, threshold)
    lower, upper = (_bound(item.get(key), kind, where) for key in ("lower", "upper"))
    given = item.get("edges")
    edges: tuple[Bound, ...] | None = None
    if (lower is None) != (upper is None) or (given is not None and lower is None):
        raise BundleError(f"{where}: bounds and edges must come together.")
    if given is not None:
        if not isinstance(given, list) or not 2 <= len(given) <= MAX_FOUND:
            raise BundleError(f"{where}: edges must be a list of at least two.")
        read = [_bound(edge, kind, where) for edge in given]
        edges = tuple(edge for edge in read if edge is not None)
        if len(edges) != len(read) or (edges[0], edges[-1]) != (lower, upper):
            raise BundleError(f"{where}: edges must run from the lower to the upper bound.")
    ends: tuple[Any, ...] = edges or ((lower, upper) if lower is not None else ())
    if any(not a < b for a, b in itertools.pairwise(ends)):
        raise BundleError(f"{where}: bounds and edges must increase strictly.")
    return Found(name=name, kind=kind, lower=lower, upper=upper, edges=edges, threshold=threshold)


def _read_levels(item: Mapping[str, Any], name: str, where: str, threshold: int) -> Found:
    levels, counts = texts(item, "levels", where), item.get("counts")
    if len(levels) > MAX_FOUND or len(set(levels)) != len(levels):
        raise BundleError(f"{where}: levels must differ, and be {MAX_FOUND:,} at most.")
    if any(not level.strip() or len(level) > LONGEST or not _printed(level) for level in levels):
        raise BundleError(f"{where}: a level is no printed text of at most {LONGEST} letters.")
    if not isinstance(counts, list) or len(counts) != len(levels):
        raise BundleError(f"{where}: there must be one count for each level.")
    if not all(type(count) is int and threshold < count < 1 << 62 for count in counts):
        raise BundleError(f"{where}: counts must be whole numbers above the threshold.")
    return Found(
        name=name, kind="categorical", levels=tuple(levels), counts=tuple(counts),
        threshold=threshold,
    )  # fmt: skip


def _printed(level: str) -> bool:
    """Whether nothing in a text acts on a page or a terminal. Letters of a later Unicode pass."""
    return not any(unicodedata.category(c) in _ACTING for c in level)


def _bound(value: Any, kind: str, where: str) -> Bound | None:
    if value is None:
        return None
    if kind in CALENDAR:
        moment = read_bound(kind, value)
        if moment is None:
            raise BundleError(f"{where}: a bound is not among {WORDS[kind]}.")
        return moment
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BundleError(f"{where}: a bound is no number.")
    if kind != "integer":
        return float(value)
    if not isinstance(value, int) or abs(value) >= 1 << 62:
        raise BundleError(f"{where}: a bound is no whole number below 2^62.")
    return value


SHOWN = 200
LIMITS = (
    "Levels that few have were not found, and values beyond the bounds are there too.",
    "Counts carry noise, and only those above a threshold are shown: they are no estimates.",
)


def _columns(release: DiscoveryRelease) -> Section:
    rows = [(one.name, one.kind, described(one)) for one in release.found]
    blocks: list[Block] = [Table(head=("column", "kind", "found"), rows=rows)]
    for one in release.found:
        if one.levels:
            shown = list(zip(one.levels, one.counts, strict=True))[:SHOWN]
            left = len(one.levels) - len(shown)
            blocks += [
                Paragraph(f"Levels of {one.name}" + (f"; {left:,} more" if left else "") + ":"),
                Table(
                    head=("level", "noisy count"), rows=[(level, f"{n:,}") for level, n in shown]
                ),
            ]
    return Section("What was found", blocks)
