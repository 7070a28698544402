"""`dpublish local plan | randomize | aggregate`: run a survey in which nobody's answer leaves their
device."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpublish.cli import screen
from dpublish.cli.options import asks

if TYPE_CHECKING:
    from dpublish.requests.local import Randomized, SurveyPlan, SurveyResults

app = typer.Typer(
    help="Run a survey in which every person randomises their own answers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SurveyFile = Annotated[
    Path, typer.Option("--survey", "-s", metavar="FILE", help="The survey (TOML).")
]
Level = Annotated[float, typer.Option("--level", metavar="P", help="Confidence of the intervals.")]


@app.command("plan")
@asks("local.PlanSurvey")
def plan(
    found: SurveyPlan,
    survey: SurveyFile,
    people: Annotated[
        int, typer.Option("--people", "-n", metavar="N", min=1, help="How many people may answer.")
    ] = 10_000,
) -> None:
    """Show what a survey costs each person and how exact it would be. Needs no answers."""
    from dpublish.privacy.cost import show

    read = found.survey
    screen.say(
        f"Survey '{read.name}' costs each person epsilon = {show(read.cost)} "
        f"of the promised {show(read.epsilon)}."
    )
    screen.say(found.meaning)
    screen.grid(
        ["question", "method", "epsilon", f"standard error with {people:,} people"],
        [
            (name, r.method, show(r.epsilon), f"{screen.cell_text(error)} (of {r.error_of})")
            for name, r, error in found.rows
        ],
    )


@app.command("randomize")
@asks("local.Randomize")
def randomize(
    made: Randomized,
    answers: Annotated[
        Path, typer.Argument(metavar="ANSWERS", help="CSV with a row for each person. Private.")
    ],
    survey: SurveyFile,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write the reports (CSV).")
    ],
    wallet: Annotated[
        Path | None,
        typer.Option(
            "--wallet",
            "-w",
            metavar="FILE",
            help="Charge each person here first, and never answer twice. Private.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="NUMBER",
            help="Epsilon for life of a wallet; that of the survey when left out.",
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--person",
            metavar="COLUMN",
            help="Who each row is; needed when a wallet holds several.",
        ),
    ] = None,
) -> None:
    """Turn answers into reports that may be given to anyone. Run it where the answers are."""
    screen.say(
        f"Wrote reports to {out}. They may be given away; the answers may not.", style="green"
    )


@app.command("aggregate")
@asks("local.Aggregate")
def aggregate(
    found: SurveyResults,
    reports: Annotated[
        list[Path], typer.Argument(metavar="REPORTS...", help="Report files of this survey (CSV).")
    ],
    survey: SurveyFile,
    level: Level = 0.95,
    most: Annotated[
        int, typer.Option("--rows", metavar="N", min=1, help="At most this many rows a question.")
    ] = 20,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Also write everything as JSON."),
    ] = None,
) -> None:
    """Estimate, with error bars, what everybody answered. Free: it only reads reports."""
    screen.say(
        f"Survey '{found.survey.name}': {found.people:,} people, {100 * level:.4g}% intervals."
    )
    for name, result in found.results.items():
        _show(name, result, most)


def _show(name: str, result: Any, most: int) -> None:
    from dpublish.estimate import Estimate
    from dpublish.local.conjunctions import ConjunctionEstimates
    from dpublish.local.estimates import Frequencies

    if isinstance(result, Estimate):
        rows = [("mean", result)]
    elif isinstance(result, Frequencies):
        rows = result.top(most)
    elif isinstance(result, ConjunctionEstimates):
        rows = [
            (" and ".join(names), entry)
            for size in range(1, result.width + 1)
            for names, entry in result.conjunctions(size)
        ][:most]
    else:
        rows = [(hitter.name, hitter.estimate) for hitter in result[:most]]
        if not rows:
            screen.say(f"{name}: no value is certain to be common.")
            return
    screen.grid(
        ["answer", "estimate", "standard error", "from", "to"],
        [
            (label, *(screen.cell_text(x) for x in (e.value, e.standard_error, e.low, e.high)))
            for label, e in rows
        ],
        right=(1, 2, 3, 4),
        title=name,
    )
