"""What a report says about a generalised table: every column, and the largest regions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpublish.present.report import (
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    big,
    column_charts,
    example_predicate,
    how_it_was_made,
    listed,
    quoted,
    usage,
)

if TYPE_CHECKING:
    from dpublish.releases.generalized_table.release import GeneralizedRelease

SHOWN_REGIONS = 15
LIMITS = (
    "Intervals hold in 95% of releases for a question fixed beforehand.",
    "What happens inside a region is not in the release: rows count as even there. The intervals "
    "do "
    "not assume so, and are wide where regions are cut by a question.",
    "Synthetic rows carry no error bars; in SQL, what has no limits has a note.",
)


def sections(release: GeneralizedRelease) -> Report:
    shows = (
        "Estimated numbers of rows with 95% intervals (black lines). An interval reaches from what "
        "is certainly in a group to what may be in it."
    )
    charts = column_charts(release.domain, release.marginal)
    return Report(
        lead=(
            "This release divides all combinations of ",
            Strong(listed(release.domain.names)),
            " into regions and holds a noisy count of each. It was made from private rows; the "
            "rows themselves are not in it.",
        ),
        tiles=[
            (f"{release.rows:,}", "rows (sum of noisy counts)"),
            (f"{len(release.domain.axes):,}", "columns"),
            (f"{release.counts.size:,}", f"regions of {big(release.domain.size)} cells"),
        ],
        sections=[
            how_it_was_made(release),
            Section("What it shows", [Paragraph(shows), *charts]),
            _largest(release),
            _usage(release),
        ],
        limits=LIMITS,
    )


def _largest(release: GeneralizedRelease) -> Section:
    order = np.argsort(-release.counts, kind="stable")[:SHOWN_REGIONS]
    rows = [
        (*(_short(cell) for cell in row[:-1]), f"{row[-1]:,}")
        for row in release.to_frame()[order].iter_rows()
    ]
    names = release.domain.names
    return Section("The largest regions", [Table((*names, "rows"), rows, right=(len(names),))])


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _usage(release: GeneralizedRelease) -> Section:
    last, predicate = release.domain.names[-1], example_predicate(release.domain)
    group = quoted(last)
    return usage(
        release,
        f"release.estimate({predicate!r})            # a count with an error bar",
        f"release.marginal({last!r})            # counts of every value, with error bars",
        f"release.sql({f'select {group}, count(*) from release group by {group}'!r})",
        "release.sample(1000)            # synthetic rows",
    )
