"""What a report says about the answers to a list of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpublish.errors import QueryError
from dpublish.present.report import (
    Block,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    column_charts,
    how_it_was_made,
    listed,
    usage,
)

if TYPE_CHECKING:
    from dpublish.releases.workload.release import WorkloadRelease

SHOWN = 20


def sections(release: WorkloadRelease) -> Report:
    count = release.queries.size(release.domain)
    answers = release.answers()
    spread = float(answers["standard_error"].to_numpy().mean())
    return Report(
        lead=(
            "This release answers a list of ",
            Strong(f"{count:,} queries"),
            f" over {listed(release.domain.names)}. The rows themselves are not in it.",
        ),
        tiles=[
            (f"{count:,}", "queries"),
            (f"± {spread:,.3g}", "rows: standard error of an answer, on average"),
        ],
        sections=[
            how_it_was_made(release),
            Section("Answers", [*_answers(release)]),
            *_charts(release),
            usage(
                release,
                "release.answers()            # of the whole list, with limits",
                "release.covariance(one, other)            # of the errors of two of them",
            ),
        ],
        limits=[
            "Every answer is unbiased before it is kept within its limits, and its standard error "
            "is exact; limits hold for each answer by itself at the stated level.",
            "Questions that the list does not hold are refused, unless they follow from what was "
            "measured for it.",
        ],
    )


def _answers(release: WorkloadRelease) -> list[Block]:
    answers = release.answers()
    rows = [
        (str(query), f"{count:,.0f}", f"{low:,.0f} to {high:,.0f}")
        for query, count, _, low, high in answers.head(SHOWN).iter_rows()
    ]
    more = answers.height - len(rows)
    said = f"The first {len(rows)} answers; {more:,} more are in the release." if more else ""
    table = Table(("query", "count", "95% limits"), rows, right=(1, 2))
    return [Paragraph(said), table] if said else [table]


def _charts(release: WorkloadRelease) -> list[Section]:
    try:
        charts = column_charts(release.domain, release.marginal)
    except QueryError:  # some column is not in the measured tables by itself
        return []
    return [Section("Counts by column", charts)] if charts else []
