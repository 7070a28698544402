"""`dpublish local plan | randomize | aggregate`: run a survey in which nobody's answer leaves their
device."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpublish.cli.options import Json

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
def plan(
    survey: SurveyFile,
    people: Annotated[
        int, typer.Option("--people", "-n", metavar="N", min=1, help="How many people may answer.")
    ] = 10_000,
    json: Json = False,
) -> None:
    """Show what a survey costs each person and how exact it would be. Needs no answers."""
    from dpublish.cli import screen
    from dpublish.local.survey import Survey
    from dpublish.privacy.cost import show
    from dpublish.privacy.statement import guess_of_answers

    read = Survey.read(survey)
    meaning = guess_of_answers(read.cost)
    asked = {name: question.randomizer for name, question in read.questions.items()}
    rows = [(name, r, r.expected_error(people), r.error_of) for name, r in asked.items()]
    if json:
        questions = [
            {
                "question": name,
                "method": r.method,
                "epsilon": r.epsilon,
                "standard_error": error,
                "of": of,
            }
            for name, r, error, of in rows
        ]
        screen.write_json(
            {
                "survey": read.name,
                "digest": read.digest,
                "cost": read.cost,
                "cap": read.epsilon,
                "people": people,
                "meaning": meaning,
                "questions": questions,
            }
        )
        return
    screen.say(
        f"Survey '{read.name}' costs each person epsilon = {show(read.cost)} of the promised "
        f"{show(read.epsilon)}."
    )
    screen.say(meaning)
    screen.grid(
        ["question", "method", "epsilon", f"standard error with {people:,} people"],
        [
            (name, r.method, show(r.epsilon), f"{screen.cell_text(error)} (of {of})")
            for name, r, error, of in rows
        ],
    )


@app.command("randomize")
def randomize(
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
    json: Json = False,
) -> None:
    """Turn answers into reports that may be given to anyone. Run it where the answers are."""
    from dpublish.cli import screen
    from dpublish.errors import InputError, PrivateSideError, PublishError
    from dpublish.local.collect import randomize_file
    from dpublish.local.survey import Survey
    from dpublish.local.wallet import Wallet
    from dpublish.outputs import keep_apart
    from dpublish.privacy.cost import positive

    keep_apart(out, answers, survey, wallet)
    read = Survey.read(survey)
    if budget is not None and wallet is None:
        raise InputError("--budget is the total of a wallet: give --wallet FILE too.")
    held = (
        None
        if wallet is None
        else Wallet(
            wallet, epsilon=read.epsilon if budget is None else positive(budget, "--budget")
        )
    )
    try:
        randomize_file(read, answers, out, wallet=held, person=person)
    except (PublishError, KeyboardInterrupt):
        raise
    except Exception:
        # the text of an unforeseen failure could quote an answer
        raise PrivateSideError() from None
    if json:
        screen.write_json(
            {"out": out, "survey": read.name, "digest": read.digest, "cost": read.cost}
        )
    else:
        screen.say(
            f"Wrote reports to {out}. They may be given away; the answers may not.", style="green"
        )


@app.command("aggregate")
def aggregate(
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
    json: Json = False,
) -> None:
    """Estimate, with error bars, what everybody answered. Free: it only reads reports."""
    import json as text_json

    from dpublish.cli import screen
    from dpublish.errors import InputError
    from dpublish.local.collect import Collector, result_json
    from dpublish.local.survey import Survey
    from dpublish.outputs import keep_apart, same_file

    if out is not None:
        keep_apart(out, survey, *reports)
    for place, path in enumerate(reports):
        if any(same_file(path, earlier) for earlier in reports[:place]):
            raise InputError(
                f"'{path}' is given twice, so its people would be counted twice. Name every file "
                f"once."
            )
    read = Survey.read(survey)
    collector = Collector(read)
    for path in reports:
        collector.read(path)
    results = collector.results(level=level, most=most)
    document = {
        "survey": read.name,
        "digest": read.digest,
        "people": collector.people,
        "cost": str(read.cost),
        "level": level,
        "questions": {name: result_json(result) for name, result in results.items()},
    }
    if out is not None:
        try:
            out.write_text(
                text_json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
        except OSError as error:
            raise InputError(f"'{out}' cannot be written ({type(error).__name__}).") from None
    if json:
        screen.write_json(document)
        return
    screen.say(f"Survey '{read.name}': {collector.people:,} people, {100 * level:.4g}% intervals.")
    for name, result in results.items():
        _show(name, result, most)


def _show(name: str, result: Any, most: int) -> None:
    from dpublish.cli import screen
    from dpublish.local.conjunctions import ConjunctionEstimates
    from dpublish.local.estimates import Frequencies, LocalEstimate

    if isinstance(result, LocalEstimate):
        rows = [("mean", result)]
    elif isinstance(result, Frequencies):
        rows = result.top(most)
    elif isinstance(result, ConjunctionEstimates):
        sizes = range(1, result.width + 1)
        listed = [
            (" and ".join(names), entry)
            for size in sizes
            for names, entry in result.conjunctions(size)
        ]
        rows = listed[:most]
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
