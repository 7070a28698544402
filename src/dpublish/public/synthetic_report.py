"""One HTML page about synthetic weights that were made for a class of queries: no script, no network, nothing else to load."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from dpublish.public.charts import safe_text
from dpublish.public.report import big, column_charts, example_predicate, listed, release_page, save_page, usage

if TYPE_CHECKING:
    from dpublish.public.releases.synthetic import SyntheticRelease

SHOWN_QUERIES = 20


def write_report(release: SyntheticRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: SyntheticRelease) -> str:
    lead = (
        f"This release holds weights of the combinations of <b>{safe_text(listed(release.domain.names))}</b>, made so that "
        f"they answer {safe_text(release.queries.describe(release.domain))} nearly as the private rows would. The rows "
        "themselves are not in it."
    )
    tiles = [
        (f"{release.rows:,}", "rows (public number)"),
        (f"± {release.error_bound:,.0f}", "rows: error of every query it was made for (95%)"),
        (f"{release.cells.size:,}", f"cells with a weight, of {big(release.domain.size)}"),
    ]
    limits = [
        "The stated error holds, with probability 95%, for all queries of the class at once; for other questions there is an "
        "answer and no promise.",
        "Synthetic rows carry no error bars.",
    ]
    body = [
        "<h2>What it shows</h2><p>Numbers of rows by column. The black lines show the error of the queries that the release "
        "was made for; where counts of a single column are not among them, nothing is promised about these bars.</p>",
        *column_charts(release.domain, release.marginal),
        _asked(release),
        _usage(release),
    ]
    return release_page(release, lead=lead, tiles=tiles, body=body, limits=limits)


def _asked(release: SyntheticRelease) -> str:
    """What was asked of the private rows, beside what the weights say now."""
    if "asked" not in release.tables:
        return ""
    asked = release.tables["asked"].head(SHOWN_QUERIES)
    answers = release.answers()
    labels = _labels(release, set(asked["query"].to_list()))
    lines = "".join(
        f'<tr><td>{safe_text(labels[query])}</td><td class="number">{answer:,.0f}</td>'
        f'<td class="number">{answers[query]:,.0f}</td></tr>'
        for query, answer in asked.iter_rows()
        if query in labels
    )
    more = release.tables["asked"].height - asked.height
    return (
        "<h2>What was asked</h2><p>The queries that were put to the private rows, in the order of asking"
        f"{f' (the first {asked.height}; {more:,} more are in the release)' if more > 0 else ''}.</p>"
        '<table><tr><th>query</th><th class="number">noisy answer</th>'
        f'<th class="number">answer of the release</th></tr>{lines}</table>'
    )


def _labels(release: SyntheticRelease, wanted: set[int]) -> dict[int, str]:
    """The texts of some queries, by their numbers in the class."""
    every = enumerate(release.queries.labels(release.domain))
    return {place: label for place, label in itertools.islice(every, max(wanted, default=-1) + 1) if place in wanted}


def _usage(release: SyntheticRelease) -> str:
    return usage(
        release,
        "release.answers()            # of all queries that it was made for",
        f"release.estimate({example_predicate(release.domain)!r})            # one of them, with the bound",
        f"release.marginal({release.domain.names[-1]!r})            # counts of every value",
        "release.sample(1000)            # synthetic rows",
    )
