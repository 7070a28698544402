"""Mean and quantiles of columns of numbers for the page: of all rows, and of the groups of another
column, as Python prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dpublish.declare.domain import Axis
from dpublish.errors import PublishError
from dpublish.estimate import Estimate
from dpublish.query.constants import quoted

LEVEL = 0.95
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)
GROUP_SHARES = (0.25, 0.5, 0.75)
Line = dict[str, str]


def summary(release: Any, axis: Axis, shares: Sequence[float] = SHARES, **given: str) -> list[Line]:
    """The mean and some quantiles of a column of numbers, with limits and what they rest on: of all
    rows, or of those that meet a condition `where`."""
    if axis.kind not in ("integer", "real") or not hasattr(release, "mean"):
        return []
    name = axis.name
    asked: list[tuple[str, str, Any]] = [
        ("mean", f"mean({quoted(name)})", partial(release.mean, name, level=LEVEL, **given))
    ]
    for share in shares if hasattr(release, "quantile") else ():
        what = "median" if share == 0.5 else f"{share:.0%}"
        call = f"quantile({quoted(name)}, {share:g})"
        asked.append((what, call, partial(release.quantile, name, share, level=LEVEL, **given)))
    found = []
    for what, call, ask in asked:
        with suppress(PublishError):
            found.append(line(what, call, ask()))
    return found


def summary_by_group(
    release: Any, axis: Axis, by: str, groups: Sequence[tuple[str, str]]
) -> list[Mapping[str, Any]]:
    """The same for the rows of every group that a condition can be written for; nothing where no
    group has an answer."""
    return table_of_lines(
        axis.name,
        by,
        [
            (label, where, summary(release, axis, GROUP_SHARES, where=where))
            for label, where in groups
            if where
        ],
    )


def table_of_lines(
    of: str, by: str, found: Sequence[tuple[str, str, Sequence[Line]]]
) -> list[Mapping[str, Any]]:
    """A table of the lines of every group, by its label and condition."""
    rows = [(label, where, lines) for label, where, lines in found if lines]
    if not rows:
        return []
    heads = list(dict.fromkeys(one["what"] for _, _, lines in rows for one in lines))
    notes = list(dict.fromkeys(one["note"] for _, _, lines in rows for one in lines))
    cells = []
    for _, _, lines in rows:
        said = {
            one["what"]: [one["v"], one["l"], one["h"], notes.index(one["note"])] for one in lines
        }
        cells.append([said.get(what) for what in heads])
    return [
        {
            "of": of,
            "by": by,
            "labels": [label for label, _, _ in rows],
            "where": [where for _, where, _ in rows],
            "what": heads,
            "cells": cells,
            "notes": notes,
        }
    ]


def line(what: str, call: str, one: Estimate) -> Line:
    """An estimate as it is printed, and how to ask for it."""
    value, low, high = one.written()
    return {"what": what, "v": value, "l": low, "h": high, "note": one.note, "ask": call}
