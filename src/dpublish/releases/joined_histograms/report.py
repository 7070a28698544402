"""What a report says about a joined release: what was joined, and every column with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpublish.models.junction_tree.fit import MeasuredTable
from dpublish.present.report import (
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    Text,
    column_charts,
    example_predicate,
    how_it_was_made,
    listed,
    usage,
)

if TYPE_CHECKING:
    from dpublish.releases.joined_histograms.release import JoinedRelease

LIMITS = (
    "Dependence of three or more columns, beyond what the joined tables and the target explain, "
    "was "
    "not measured.",
    "Levels within a group of a table are taken to be alike in how they go with the other columns.",
    "Synthetic rows carry no error bars and keep the noise of the counts; in SQL, what has no "
    "limits has a note.",
)


def sections(release: JoinedRelease) -> Report:
    public = release.measured.total is not None
    shows = "Estimated numbers of rows with 95% intervals (black lines)."
    charts = column_charts(release.domain, release.marginal)
    return Report(
        lead=(
            "This release holds noisy counts of ",
            Strong(listed(release.domain.names)),
            ", of each column and of some together, joined into one model of the table. It was "
            "made from private rows; the rows themselves are not in it.",
        ),
        tiles=[
            (f"{release.rows:,}", "rows (public number)" if public else "rows (estimated)"),
            (f"{len(release.domain.axes):,}", "columns"),
            (f"{len(release.joined):,}", "joined tables"),
        ],
        sections=[
            how_it_was_made(release),
            _structure(release),
            *_totals(release),
            Section("What it shows", [Paragraph(shows), *charts]),
            _usage(release),
        ],
        limits=LIMITS,
    )


def _structure(release: JoinedRelease) -> Section:
    target, labels = release.target, release.measured.labels

    def with_target(table: MeasuredTable) -> list[str]:
        return [target] if target and table.by_label(labels) else []

    rows = [
        (
            ", ".join([*names, *with_target(table)]),
            " x ".join(str(size) for size in table.counts.shape[:-1]),
            "first" if not table.round else f"round {table.round}",
            f"± {1.96 * table.variance**0.5:,.0f} rows",
        )
        for names, table in zip(release.joined, release.measured.tables, strict=True)
    ]
    crossed: tuple[str | Strong, ...] = (
        (" Every column was also counted with ", Strong(release.target), ".")
        if release.target
        else ()
    )
    given = " given the target" if release.target else ""
    said: Text = (
        "Columns that were counted together, in the order of choice.",
        *crossed,
        " Columns that are not joined, directly or through others, are independent in this "
        f"release{given}.",
    )
    head = ("columns", "groups of levels", "chosen", "95% of the noise of a cell")
    return Section("What was joined", [Paragraph(said), Table(head, rows, right=(1, 2, 3))])


def _totals(release: JoinedRelease) -> list[Section]:
    """What was public before, and where it stands."""
    if not release.measured.totals:
        return []
    rows = [
        (total.where or "all rows", f"{total.rows:,}", total.source)
        for total in release.measured.totals
    ]
    said = (
        "These numbers were declared as public and taken for true. They were not counted from the "
        "rows, hold exactly here, and are not protected: what follows from them, anyone knows."
    )
    table = Table(("which rows", "how many", "source"), rows, right=(1,))
    return [Section("Public totals", [Paragraph(said), table])]


def _usage(release: JoinedRelease) -> Section:
    last, predicate = release.domain.names[-1], example_predicate(release.domain)
    return usage(
        release,
        f"release.estimate({predicate!r})            # a count with an interval",
        f"release.marginal({last!r})            # counts of every value, with intervals",
        "release.sample(1000)            # synthetic rows",
        f"release.fit(estimator, target={last!r})            # a scikit-learn model",
    )
