"""One HTML page about a generalised table: no script, no network, nothing else to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpublish.present.charts import safe_text
from dpublish.present.report import (
    big,
    column_charts,
    example_predicate,
    listed,
    quoted,
    release_page,
    save_page,
    usage,
)

if TYPE_CHECKING:
    from dpublish.releases.generalized_table.release import GeneralizedRelease

SHOWN_REGIONS = 15


def write_report(release: GeneralizedRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: GeneralizedRelease) -> str:
    lead = (
        f"This release divides all combinations of "
        f"<b>{safe_text(listed(release.domain.names))}</b> into regions and holds a "
        "noisy count of each. It was made from private rows; the rows themselves are not in it."
    )
    tiles = [
        (f"{release.rows:,}", "rows (sum of noisy counts)"),
        (f"{len(release.domain.axes):,}", "columns"),
        (f"{release.counts.size:,}", f"regions of {big(release.domain.size)} cells"),
    ]
    limits = [
        "Intervals hold in 95% of releases for a question fixed beforehand.",
        "What happens inside a region is not in the release: rows count as even there. The "
        "intervals do not assume so, and are "
        "wide where regions are cut by a question.",
        "Synthetic rows carry no error bars, and SQL has limits for counts only, with a level.",
    ]
    shows = [
        "<h2>What it shows</h2><p>Estimated numbers of rows with 95% intervals (black lines). An "
        "interval reaches from what is "
        "certainly in a group to what may be in it.</p>",
        *column_charts(release.domain, release.marginal),
    ]
    body = [*shows, _largest(release), _usage(release)]
    return release_page(release, lead=lead, tiles=tiles, body=body, limits=limits)


def _largest(release: GeneralizedRelease) -> str:
    order = np.argsort(-release.counts, kind="stable")[:SHOWN_REGIONS]
    frame = release.to_frame()[order]
    heads = "".join(f"<th>{safe_text(name)}</th>" for name in (*release.domain.names, "rows"))
    lines = "".join(
        "<tr>"
        + "".join(f"<td>{safe_text(_short(cell))}</td>" for cell in row[:-1])
        + f'<td class="number">{row[-1]:,}</td></tr>'
        for row in frame.iter_rows()
    )
    return f"<h2>The largest regions</h2><table><tr>{heads}</tr>{lines}</table>"


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _usage(release: GeneralizedRelease) -> str:
    last = release.domain.names[-1]
    group = quoted(last)
    return usage(
        release,
        f"release.estimate({example_predicate(release.domain)!r})            # a count with an "
        f"error bar",
        f"release.marginal({last!r})            # counts of every value, with error bars",
        f"release.sql({f'select {group}, count(*) from release group by {group}'!r})",
        "release.sample(1000)            # synthetic rows",
    )
