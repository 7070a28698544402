"""`dpublish query`: counts with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Json, ReleaseFile, ShownRows

if TYPE_CHECKING:
    from dpublish.estimate import Estimate


def query(
    release: ReleaseFile,
    predicate: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PREDICATE]...", help="A condition, for example \"age >= 40 and sex = 'F'\"."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by", metavar="COLUMN", help="Count by these columns instead. Repeatable, or a,b."
        ),
    ] = None,
    level: Annotated[
        float,
        typer.Option(
            "--level", metavar="SHARE", min=0.5, max=0.9999, help="Confidence of the intervals."
        ),
    ] = 0.95,
    rows: ShownRows = 50,
    json: Json = False,
) -> None:
    """Count rows that meet a condition, with a standard error and an interval. Free: a release can
    be asked for ever.

    Weighted public rows answer with the share of rows that meet a condition, or with the mean of an
    expression such as age.
    """
    from dpublish.cli import screen
    from dpublish.cli.opened import open_for
    from dpublish.errors import QueryError

    columns = [name.strip() for part in by or [] for name in part.split(",") if name.strip()]
    if bool(columns) == bool(predicate):
        raise QueryError(
            'Give a condition such as "age >= 40", or --by COLUMN for counts by a column; one of '
            "the two."
        )
    opened = open_for(release, "marginal" if columns else "estimate")
    if columns:
        frame = opened.marginal(*columns, level=level)
        # what should make a reader careful with weights of public rows holds for every table of
        # them
        warnings, notes = opened.warnings(), opened.basis_notes(frame)
        if json:
            words = {
                name: lines for name, lines in (("notes", notes), ("warnings", warnings)) if lines
            }
            screen.write_json({"level": level, **screen.frame_json(frame), **words})
        else:
            screen.frame_grid(frame, most=rows)
            for line in (*notes, *warnings):
                screen.say(line)
        return
    estimates = [
        (text.strip(), opened.estimate(text.strip(), level=level)) for text in predicate or []
    ]
    if json:
        answers = [
            {"predicate": text, "measure": one.measure, **one.numbers(), **one.words()}
            for text, one in estimates
        ]
        screen.write_json({"estimates": answers})
        return
    # weighted rows answer with shares and means, all other kinds with counts
    heading = " or ".join(sorted({one.measure for _, one in estimates}, reverse=True))
    screen.grid(
        [
            "condition",
            "estimate" if heading == "count" else heading,
            "std. error",
            f"{100 * level:.4g}% interval",
        ],
        [(text, _count(e.value), _count(e.standard_error), _ends(e)) for text, e in estimates],
        right=(1, 2, 3),
    )
    for text, estimate in estimates:
        for line in _remarks(estimate):
            screen.say(f"{text}: {line}")


def _ends(estimate: Estimate) -> str:
    """An interval that is known to hold, or in brackets what an assumption gives."""
    ends = f"{_count(estimate.low)} to {_count(estimate.high)}"
    return f"(if alike: {ends})" if estimate.basis == "assumed" else ends


def _remarks(estimate: Estimate) -> list[str]:
    """What an interval rests on, and what it does not cover."""
    # a warning repeats the note of what is only assumed
    note = [estimate.note] if estimate.note and estimate.basis != "assumed" else []
    return [*note, *estimate.warnings]


def _count(value: float) -> str:
    if value == float("inf"):
        return "no bound"
    if abs(value) < 1:  # a share or a mean, not a count
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
