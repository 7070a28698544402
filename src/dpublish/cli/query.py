"""`dpublish query`: counts with error bars."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dpublish.cli.options import Json, ReleaseFile, ShownRows


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
        warnings = opened.warnings() if hasattr(opened, "warnings") else ()
        notes = opened.basis_notes(frame) if hasattr(opened, "basis_notes") else ()
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
    # weighted rows answer with shares and means, all other kinds with counts
    measures = [
        opened.measure_of(text) if hasattr(opened, "measure_of") else "count"
        for text, _ in estimates
    ]
    if json:
        answers = [
            {"predicate": text, "measure": measure, **_numbers(estimate)}
            for (text, estimate), measure in zip(estimates, measures, strict=True)
        ]
        screen.write_json({"estimates": answers})
        return
    heading = " or ".join(sorted(set(measures), reverse=True))
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


def _numbers(estimate: Any) -> dict[str, Any]:
    numbers = {
        name: getattr(estimate, name)
        for name in ("value", "standard_error", "low", "high", "level")
    }
    return {
        **numbers,
        **{
            name: words
            for name in ("basis", "note", "warnings")
            if (words := getattr(estimate, name, None))
        },
    }


def _ends(estimate: Any) -> str:
    """An interval that is known to hold, or in brackets what an assumption gives."""
    ends = f"{_count(estimate.low)} to {_count(estimate.high)}"
    return f"(if alike: {ends})" if getattr(estimate, "basis", "") == "assumed" else ends


def _remarks(estimate: Any) -> list[str]:
    """What an interval rests on, and what it does not cover."""
    # a warning repeats the note of what is only assumed
    note = getattr(estimate, "note", "") if getattr(estimate, "basis", "") != "assumed" else ""
    return [*([note] if note else []), *getattr(estimate, "warnings", ())]


def _count(value: float) -> str:
    if value == float("inf"):
        return "no bound"
    if abs(value) < 1:  # a share or a mean, not a count
        return f"{value:.4g}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"
