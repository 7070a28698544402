"""What a report says about synthetic weights that were made for a class of queries."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import polars as pl

from dpublish.declare.calendar import CALENDAR, spelled
from dpublish.declare.domain import Axis
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
    usage,
)
from dpublish.query.constants import quoted, quoted_text
from dpublish.workloads.query_classes import Predicates

if TYPE_CHECKING:
    from dpublish.releases.synthetic.release import SyntheticRelease

SHOWN_QUERIES = 20


def sections(release: SyntheticRelease) -> Report:
    charts = column_charts(release.domain, lambda column: _drawable(release.marginal(column)))
    return Report(
        lead=(
            "This release holds weights of the combinations of ",
            Strong(listed(release.domain.names)),
            f", made so that they answer {release.queries.describe(release.domain)} nearly as the "
            "private rows would. The rows themselves are not in it.",
        ),
        tiles=[
            (f"{release.rows:,}", "rows (public number)"),
            _error_tile(release),
            (f"{release.cells.size:,}", f"cells with a weight, of {big(release.domain.size)}"),
        ],
        sections=[
            how_it_was_made(release),
            Section(
                "What it shows",
                [
                    Paragraph(
                        "Numbers of rows by column. The black lines show the error of the queries "
                        "that the release was made for; where counts of a single column are not "
                        "among them, they show what follows from those that are."
                    ),
                    *charts,
                ],
            ),
            *_asked(release),
            _usage(release),
        ],
        limits=[
            "The stated error holds, with probability 95%, for all queries of the class at once; "
            "limits of other questions follow from those and are wide where they cannot tell, up "
            "to all rows.",
            "Synthetic rows carry no error bars.",
        ],
    )


def _error_tile(release: SyntheticRelease) -> tuple[str, str]:
    if not release.bounded:
        return "no bound", "of the error: the number of rows is private"
    return f"± {release.error_bound:,.0f}", "rows: error of every query it was made for (95%)"


def _drawable(table: pl.DataFrame) -> pl.DataFrame:
    """A line without an end is drawn to twice the largest count."""
    name = table.columns[4]
    most = max(2 * float(table.to_series(1).to_numpy().max()), 1.0)
    return table.with_columns(
        pl.when(pl.col(name).is_finite()).then(pl.col(name)).otherwise(most).alias(name)
    )


def _asked(release: SyntheticRelease) -> list[Section]:
    """What was asked of the private rows, beside what the weights say now."""
    if "asked" not in release.tables:
        return []
    asked = release.tables["asked"].head(SHOWN_QUERIES)
    answers = release.answers()
    labels = _labels(release, set(asked["query"].to_list()))
    rows = [
        (labels[query], f"{answer:,.0f}", f"{answers[query]:,.0f}")
        for query, answer in asked.iter_rows()
        if query in labels
    ]
    more = release.tables["asked"].height - asked.height
    some = f" (the first {asked.height}; {more:,} more are in the release)" if more > 0 else ""
    said = f"The queries that were put to the private rows, in the order of asking{some}."
    head = ("query", "noisy answer", "answer of the release")
    return [Section("What was asked", [Paragraph(said), Table(head, rows, right=(1, 2))])]


def _labels(release: SyntheticRelease, wanted: set[int]) -> dict[int, str]:
    """The texts of some queries, by their numbers in the class."""
    every = enumerate(release.queries.labels(release.domain))
    return {
        place: label
        for place, label in itertools.islice(every, max(wanted, default=-1) + 1)
        if place in wanted
    }


def _one_query(release: SyntheticRelease) -> str | None:
    """A condition that the release was made for, if a simple one is."""
    from dpublish.releases.synthetic.release import MADE_FOR

    asked = release.queries.predicates[:5] if isinstance(release.queries, Predicates) else ()
    every = itertools.chain(asked, map(_first_code, release.domain.axes))
    return next((one for one in every if release.estimate(one).note == MADE_FOR), None)


def _first_code(axis: Axis) -> str:
    if not axis.numeric:
        return f"{quoted(axis.name)} = {quoted_text(axis.levels[0])}"
    if axis.base == 1:
        return f"{quoted(axis.name)} is not null"
    end = axis.edges[1]
    return f"{quoted(axis.name)} < " + (
        f"'{spelled(axis.kind, int(end))}'" if axis.kind in CALENDAR else repr(end)
    )


def _usage(release: SyntheticRelease) -> Section:
    one = _one_query(release)
    what = "one of them, with the bound" if one else "any condition, with what follows from them"
    return usage(
        release,
        "release.answers()            # of all queries that it was made for",
        f"release.estimate({one or example_predicate(release.domain)!r})            # {what}",
        f"release.marginal({release.domain.names[-1]!r})            # counts of every value",
        "release.sample(1000)            # synthetic rows",
    )
