"""The public side of importance weights: which columns are in common, and the public rows in the
coding of the schema.

Everything here reads public rows and the schema, before any budget is spent, so errors and warnings
may say what they found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from dpublish.declare.domain import Axis, resolve_axis
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.models.linear_features import Numbers
from dpublish.models.public_rows import (
    UNIFORM,
    PublicSet,
    absent_levels,
    constant_columns,
    encode_public,
    read_public,
    uniform_rows,
)

if TYPE_CHECKING:
    from dpublish.releases.base import Release

MAX_SHOWN = 5
MAX_TITLE = 200


@dataclass(frozen=True)
class Loaded:
    """Public sets in one coding. `axes` are the columns that private and public rows have in
    common."""

    axes: tuple[Axis, ...]
    sets: tuple[PublicSet, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Raw:
    """Public rows as they were read. `edges` are the bins of columns whose numbers are known by
    their bin only."""

    frame: Any
    base: Any
    edges: dict[str, tuple[Any, ...]] = field(default_factory=dict)


def axis_of(
    schema: Schema,
    name: str,
    *,
    numbers: Numbers,
    bins: int,
    resolution: int,
    edges: tuple[Any, ...] | None = None,
) -> Axis:
    """A column as an axis. Numbers that stay numbers are read finely, whatever bins the schema
    declares for counting.

    `edges` are those of bins within which a public set does not tell numbers apart; then private
    numbers are not either.
    """
    column = schema.column(name)
    if not column.numeric:
        return resolve_axis(column, schema_name=schema.name, default_bins=None)
    if edges is not None or numbers == "scaled":
        column = dataclasses.replace(column, bins=None, edges=edges, precision=None)
        bins = resolution
    return resolve_axis(column, schema_name=schema.name, default_bins=bins)


def load_sets(
    sources: Sequence[object],
    schema: Schema,
    columns: Sequence[str] | None,
    *,
    numbers: Numbers,
    bins: int,
    resolution: int,
    public_size: int,
    titles: Sequence[str] = (),
) -> Loaded:
    """Read every source once, find the columns in common, and encode."""
    named = set_titles(sources, titles)
    labels = [name for name, column in schema.columns.items() if not column.numeric]
    raw = [
        None
        if isinstance(source, str) and source == UNIFORM
        else read_source(source, labels, title)
        for source, title in zip(sources, named, strict=True)
    ]
    read = [one for one in raw if one is not None]
    names, warnings = _common(schema, columns, [set(one.frame.columns) for one in read])
    axes = tuple(
        axis_of(
            schema,
            name,
            numbers=numbers,
            bins=bins,
            resolution=resolution,
            edges=next((one.edges[name] for one in read if name in one.edges), None),
        )
        for name in names
    )
    sets = [
        encode_public(title, uniform_rows(axes, public_size), axes)
        if one is None
        else encode_public(title, one.frame, axes, one.base)
        for one, title in zip(raw, named, strict=True)
    ]
    constant = {name for one in sets for name in constant_columns(axes, one.codes)}
    if constant:
        if columns is not None:
            raise PlanError(
                f"Column '{min(constant)}' has one value only in the public rows, so weights "
                f"cannot change it. "
                "Leave it out of columns."
            )
        warnings.append(
            f"Left out, because the public rows have one value only there: "
            f"{listed(sorted(constant))}."
        )
        axes = tuple(one for one in axes if one.name not in constant)
        if not axes:
            raise PlanError(
                "Every column in common has one value only in the public rows, so there is "
                "nothing to weight by."
            )
        sets = [one.recoded(axes) for one in sets]
    for one in sets:
        warnings += _support(one, axes)
    return Loaded(axes, tuple(sets), tuple(warnings))


def _common(
    schema: Schema, columns: Sequence[str] | None, known: Sequence[set[str]]
) -> tuple[list[str], list[str]]:
    if columns is not None:
        names = list(columns)
        if not names:
            raise PlanError("Importance weights need at least one column.")
        for place, name in enumerate(names):
            schema.column(name)
            if name in names[:place]:
                raise PlanError(f"Column '{name}' is listed twice.")
            if any(name not in have for have in known):
                raise PlanError(
                    f"The public rows have no column '{name}'. Leave it out of columns, or add it "
                    f"to the public rows."
                )
        return names, []
    names = [
        name
        for name in schema.columns
        if name != schema.unit.column and all(name in have for have in known)
    ]
    if not names:
        found = sorted(set().union(*known)) if known else []
        raise PlanError(
            f"The schema and the public rows have no column in common. Schema: "
            f"{listed(list(schema.columns))}. "
            f"Public rows: {listed(found)}. Names must agree exactly."
        )
    left = [name for name in schema.columns if name not in names and name != schema.unit.column]
    return names, ([f"Not in the public rows, so not used: {listed(left)}."] if left else [])


def set_titles(sources: Sequence[object], titles: Sequence[str]) -> list[str]:
    """What each public set is called in the release: its declared title, or its place. Never where
    it was read from."""
    if not titles:
        return [
            UNIFORM if isinstance(source, str) and source == UNIFORM else f"public {place}"
            for place, source in enumerate(sources, start=1)
        ]
    if len(titles) != len(sources):
        raise PlanError(
            f"titles must name every public set: {len(sources)} are given, and {len(titles)} "
            f"titles."
        )
    for title in titles:
        if not title.strip() or len(title) > MAX_TITLE or not title.isprintable():
            raise PlanError(
                f"A title of public rows is 1 to {MAX_TITLE} printable characters, not "
                f"{title[:80]!r}."
            )
    if len(set(titles)) != len(titles):
        raise PlanError("titles must tell the public sets apart; two are the same.")
    return list(titles)


def read_source(source: object, labels: Sequence[str], title: str) -> Raw:
    from dpublish.releases.base import Release, open_release

    if (isinstance(source, str) or hasattr(source, "__fspath__")) and str(source).endswith(".dpr"):
        source = open_release(str(source))
    if isinstance(source, Release):
        return _read_release(source)
    if type(source).__name__ == "SqlSource":
        from dpublish.sources.sources import open_source

        reader = open_source(source)
        parts = list(reader.batches(reader.columns()))
        if not parts:
            raise PlanError(f"The public rows '{title}' are empty.")
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.vstack(part)
        return Raw(frame, None)
    return Raw(read_public(source, labels), None)


def _read_release(release: Release) -> Raw:
    """The rows of a release: public rows with their weights, cells with their counts, or synthetic
    rows that weigh the same."""
    from dpublish.releases.generalized_table.release import GeneralizedRelease
    from dpublish.releases.weighted_rows.release import WeightedRowsRelease

    if isinstance(release, WeightedRowsRelease):
        return Raw(release.rows, release.sample_weight)
    domain = getattr(release, "domain", None)
    if domain is None or not hasattr(release, "to_frame"):
        raise PlanError(f"A release of kind '{release.kind}' has no rows to put weights on.")
    # cells of a generalised table are regions, which name no value; rows drawn from them do
    rows = release.sample(seed=0) if isinstance(release, GeneralizedRelease) else release.to_frame()
    edges = {axis.name: axis.edges for axis in domain.axes if axis.numeric}
    if rows.columns[-1] in domain.names:
        return Raw(rows, None, edges)
    return Raw(rows[:, :-1], np.asarray(rows[:, -1].to_numpy(), dtype=np.float64), edges)


def _support(one: PublicSet, axes: Sequence[Axis]) -> list[str]:
    """What the private rows might hold and the public rows cannot show, judged from the schema and
    the public rows alone."""
    found = [
        f"No public row of '{one.name}' has {column} in: {listed(levels)}. Private rows there, "
        f"if any, are not represented."
        for column, levels in absent_levels(axes, one.codes)
    ]
    if one.dropped:
        found.append(
            f"{one.dropped:,} public rows of '{one.name}' have undeclared values and are left out."
        )
    return found


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_SHOWN])
    return f"{shown} and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else shown
