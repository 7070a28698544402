"""One HTML page about a joined release: the guarantee, what was joined, every column with error
bars, how to use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpublish.present.charts import safe_text
from dpublish.present.report import (
    column_charts,
    example_predicate,
    listed,
    release_page,
    save_page,
    usage,
)

if TYPE_CHECKING:
    from dpublish.releases.joined_histograms.release import JoinedRelease

LIMITS = (
    "Dependence of three or more columns, beyond what the joined tables and the target explain, "
    "was not measured.",
    "Levels within a group of a table are taken to be alike in how they go with the other columns.",
    "Synthetic rows carry no error bars and keep the noise of the counts; SQL has limits for "
    "counts only, with a level.",
)


def write_page(release: JoinedRelease, path: str | Path) -> Path:
    """Write the page."""
    return save_page(page_html(release), path)


def page_html(release: JoinedRelease) -> str:
    lead = (
        f"This release holds noisy counts of <b>{safe_text(listed(release.domain.names))}</b>, of "
        f"each column and of some "
        "together, joined into one model of the table. It was made from private rows; the rows "
        "themselves are not in it."
    )
    tiles = [
        (
            f"{release.rows:,}",
            "rows (public number)" if release.measured.total is not None else "rows (estimated)",
        ),
        (f"{len(release.domain.axes):,}", "columns"),
        (f"{len(release.joined):,}", "joined tables"),
    ]
    body = [
        _structure(release),
        "<h2>What it shows</h2><p>Estimated numbers of rows with 95% intervals (black lines).</p>",
        *column_charts(release.domain, release.marginal),
        _usage(release),
    ]
    return release_page(release, lead=lead, tiles=tiles, body=body, limits=LIMITS)


def _structure(release: JoinedRelease) -> str:
    rows = "".join(
        f"<tr><td>{safe_text(', '.join(names))}</td>"
        f'<td class="number">{" x ".join(str(size) for size in table.counts.shape[:-1])}</td>'
        f'<td class="number">{"first" if not table.round else f"round {table.round}"}</td>'
        f'<td class="number">± {1.96 * table.variance**0.5:,.0f} rows</td></tr>'
        for names, table in zip(release.joined, release.measured.tables, strict=True)
    )
    crossed = (
        f" Every column was also counted with <b>{safe_text(release.target)}</b>."
        if release.target
        else ""
    )
    return (
        f"<h2>What was joined</h2><p>Columns that were counted together, in the order of "
        f"choice.{crossed} Columns "
        "that are not joined, directly or through others, are independent in this release"
        f"{' given the target' if release.target else ''}.</p>"
        '<table><tr><th>columns</th><th class="number">groups of levels</th><th '
        'class="number">chosen</th>'
        f'<th class="number">95% of the noise of a cell</th></tr>{rows}</table>'
    )


def _usage(release: JoinedRelease) -> str:
    last = release.domain.names[-1]
    return usage(
        release,
        f"release.estimate({example_predicate(release.domain)!r})            # a count with an "
        f"interval",
        f"release.marginal({last!r})            # counts of every value, with intervals",
        "release.sample(1000)            # synthetic rows",
        f"release.fit(estimator, target={last!r})            # a scikit-learn model",
    )
