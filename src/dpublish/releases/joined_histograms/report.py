"""What a report says about a joined release: what was joined, and every column with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpublish.arrays import Floats
from dpublish.present.figures import BAR, INK, SOFT, Figure, short_label
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
    return Report(
        lead=(
            "This release holds noisy counts of ",
            Strong(listed(release.domain.names)),
            ", of each column and of some together, joined into one model of the table. It was "
            "made from private rows; the rows themselves are not in it.",
        ),
        tiles=[
            (
                f"{release.rows:,}",
                "rows (estimated)" if release.measured.total is None else "rows (public number)",
            ),
            (f"{len(release.domain.axes):,}", "columns"),
            (f"{len(release.joined):,}", "joined tables"),
        ],
        sections=[
            how_it_was_made(release),
            _structure(release),
            *_totals(release),
            *_public_table(release),
            Section(
                "What it shows",
                [
                    Paragraph("Estimated numbers of rows with 95% intervals (black lines)."),
                    *column_charts(release.domain, release.marginal),
                ],
            ),
            _usage(release),
        ],
        limits=LIMITS,
    )


def _structure(release: JoinedRelease) -> Section:
    target, labels = release.target, release.measured.labels
    rows = [
        (
            ", ".join([*names, target] if target and table.by_label(labels) else names),
            " x ".join(str(size) for size in table.counts.shape[:-1]),
            "first" if not table.round else f"round {table.round}",
            f"± {1.96 * table.variance**0.5:,.0f} rows",
        )
        for names, table in zip(release.joined, release.measured.tables, strict=True)
    ]
    crossed = (" Every column was also counted with ", Strong(target), ".") if target else ()
    said: Text = (
        "Columns that were counted together, in the order of choice.",
        *crossed,
        " Columns that are not joined, directly or through others, are independent in this "
        f"release{' given the target' if target else ''}.",
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


def _public_table(release: JoinedRelease) -> list[Section]:
    """What comes from other people."""
    prior = release.measured.prior
    if prior is None:
        return []
    columns = listed(tuple(release.domain.names[column] for column in prior.columns))
    said = (
        f"The model starts from the public table '{prior.name}' of other people ({prior.rows:,} "
        f"rows, SHA-256 {prior.digest[:16]}...), as far as noisy counts of the private rows say "
        f"that it holds here. The shares of levels and labels of {columns} lean towards it "
        "where noise leaves room. How the columns of the pairs below go together was not counted "
        "here: it comes from that table, and intervals do not take it for counted."
    )
    rows = [
        (" - ".join(names), f"{share:.0%}")
        for names, share in sorted(release.public_pairs.items(), key=lambda one: -one[1])
    ]
    if not rows:
        return [
            Section(
                "From a public table",
                [Paragraph(f"{said} Here these are none: no pair was found to hold.")],
            )
        ]
    head = ("columns", "about how much of the dependence there holds here")
    return [Section("From a public table", [Paragraph(said), Table(head, rows, right=(1,))])]


def _usage(release: JoinedRelease) -> Section:
    last, predicate = release.domain.names[-1], example_predicate(release.domain)
    return usage(
        release,
        f"release.estimate({predicate!r})            # a count with an interval",
        f"release.marginal({last!r})            # counts of every value, with intervals",
        "release.sample(1000)            # synthetic rows",
        f"release.fit(estimator, target={last!r})            # a scikit-learn model",
    )


# The structure of a joined release as a picture: columns on a circle, joined pairs as lines.

_MAX_NAME = 24


def plot_structure(release: JoinedRelease) -> Figure:
    """A line's width says how far the pair is from independence: the share of rows it moves."""
    model = release.model
    beliefs = model.beliefs
    order = list(dict.fromkeys(axis for one, _ in beliefs.order for axis in beliefs.axes[one]))
    count = len(order)
    turn = 2 * np.pi * np.arange(count) / max(1, count)
    spot = {
        column: (np.cos(angle), np.sin(angle)) for column, angle in zip(order, turn, strict=True)
    }
    size = float(np.clip(4.0 + 0.14 * count, 5.5, 14.0))
    figure = Figure(figsize=(size * 1.35, size), dpi=150, layout="constrained")
    axes = figure.subplots()
    for table in model.tables:
        if len(table.columns) > 2:
            corners = np.array([spot[column] for column in table.columns])
            depth = float(np.clip(2 * _moved_share(table.table, model.labels), 0.05, 0.6))
            axes.fill(corners[:, 0], corners[:, 1], color=BAR, alpha=depth, zorder=0, linewidth=0)
        for i, first in enumerate(table.columns):
            for j in range(i + 1, len(table.columns)):
                others = tuple(axis for axis in range(len(table.columns)) if axis not in (i, j))
                moved = _moved_share(table.table.sum(axis=others), model.labels)
                (x0, y0), (x1, y1) = spot[first], spot[table.columns[j]]
                axes.plot(
                    [x0, x1],
                    [y0, y1],
                    color=BAR,
                    linewidth=0.8 + 9 * moved,
                    alpha=0.65,
                    zorder=1,
                    solid_capstyle="round",
                )
    for one in model.prior:
        (x0, y0), (x1, y1) = (spot[column] for column in one.columns)
        axes.plot([x0, x1], [y0, y1], color=SOFT, linewidth=0.9, linestyle=(0, (4, 3)), zorder=0)
    for column, angle in zip(order, turn, strict=True):
        x, y = spot[column]
        axes.scatter([x], [y], s=34, color=BAR, zorder=2)
        side = "left" if x >= 0 else "right"
        axes.annotate(
            _short(release.domain.names[column]),
            (1.06 * np.cos(angle), 1.06 * np.sin(angle)),
            ha="center" if abs(x) < 0.15 else side,
            va="center" if abs(x) >= 0.15 else ("bottom" if y > 0 else "top"),
            fontsize=8.5,
            color=INK,
        )
    axes.set(xlim=(-1.9, 1.9), ylim=(-1.25, 1.25))
    axes.set_axis_off()
    title = f"{_short(str(release.manifest['dataset']))}: joined columns"
    axes.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold")
    note = "width: share of rows that independence would misplace"
    if any(len(table.columns) > 2 for table in model.tables):
        note += ", shaded: the same of three columns counted together"
    if model.prior:
        note += "; broken lines: as in a public table of other people"
    if release.target is not None:
        note += f"; every column is also counted with '{_short(release.target)}'"
    figure.text(0.995, 0.005, note, ha="right", va="bottom", fontsize=7, color=SOFT)
    return figure


def _moved_share(table: Floats, labels: Floats) -> float:
    """Half the distance between a table and the one with independent columns, as a share of all
    rows."""
    sums = np.where(labels > 0, labels, 1.0)
    columns = range(table.ndim - 1)
    apart = labels
    for column in columns:
        alone = table.sum(axis=tuple(other for other in columns if other != column)) / sums
        apart = apart * alone.reshape(
            [-1 if other == column else 1 for other in columns] + [len(labels)]
        )
    return float(np.abs(table - apart).sum() / 2 / max(1e-9, float(labels.sum())))


def _short(text: str) -> str:
    return short_label(text, _MAX_NAME)
