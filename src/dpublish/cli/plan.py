"""`dpublish methods | plan`: what there is to publish with, and what it would cost and show,
without any data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli import screen
from dpublish.cli.options import (
    Delta,
    Json,
    Method,
    Overwrite,
    Rho,
    SchemaFile,
    Setting,
    asks,
    settings_of,
)

if TYPE_CHECKING:
    from dpublish.catalogue import Door
    from dpublish.curator.rehearse import Answered, Rehearsal
    from dpublish.methods.registry import MethodHelp
    from dpublish.privacy.plan import Plan
    from dpublish.requests.curator import MethodList
    from dpublish.requests.plans import Compared

_TYPED: dict[Door, str] = {
    "release": "release --method",
    "online": "online open --method",
    "solve": "solve",
}
"""Where methods are called, with what is typed there."""


@asks("curator.Methods")
def methods(
    found: MethodList | MethodHelp,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One method, with all its settings.")
    ] = None,
) -> None:
    """List the methods of 'release', 'online' and 'solve', or explain one: what it needs, shows and
    hides, and its settings."""
    from dpublish.requests.curator import MethodList

    if not isinstance(found, MethodList):
        screen.say(f"{found.name} (dp.{found.class_name})", style="bold")
        screen.say(found.summary)
        screen.facts(found.lines.items())
        screen.grid(
            ("setting", "when left out", "meaning"),
            [(setting.name, setting.default or "-", setting.text) for setting in found.settings],
            title="Settings (--set NAME=VALUE)",
        )
        return
    for door, methods in found.by_door.items():
        screen.grid(
            ("method", "what it publishes"),
            [(method.name, method.summary) for method in methods],
            title=f"dpublish {_TYPED[door]}",
        )
    screen.say(
        "'dpublish methods NAME' explains one; 'dpublish local --help' lists the randomisers.",
        style="dim",
    )


Questions = Annotated[
    list[str] | None,
    typer.Option(
        "--question",
        "-q",
        metavar="CONDITION",
        help="What will be asked, for example \"age >= 65 and ill = 'yes'\". Repeatable.",
    ),
]
Epsilons = Annotated[
    str | None,
    typer.Option(
        "--epsilon", "-e", metavar="NUMBERS", help="Cost, as 0.5 or 1/2; several as 0.5,1,2."
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        "--size",
        metavar="N",
        min=1,
        help="Public number of units, when the schema does not declare one.",
    ),
]


def plan(
    schema: Annotated[
        Path | None, typer.Option("--schema", "-s", metavar="FILE", help="The schema (TOML).")
    ] = None,
    epsilon: Epsilons = None,
    method: Method = None,
    setting: Setting = None,
    size: Size = None,
    delta: Delta = None,
    rho: Rho = None,
    question: Questions = None,
    error: Annotated[
        float | None,
        typer.Option(
            "--error",
            metavar="ROWS",
            help="Find the epsilon at which the interval of the question is this far on each side.",
        ),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure", metavar="FILE", help="Draw the error of questions against epsilon."
        ),
    ] = None,
    public: Annotated[
        str | None,
        typer.Option(
            "--public", "-p", metavar="FILE", help="For a problem of 'solve': its public part."
        ),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", "-k", metavar="K", help="For 'solve': how many to choose.")
    ] = None,
    form: Annotated[
        str, typer.Option("--form", metavar="FORM", help="For 'solve': what the public file is.")
    ] = "plain",
    survey: Annotated[
        Path | None,
        typer.Option("--survey", metavar="FILE", help="Plan a survey of 'local' instead."),
    ] = None,
    json: Json = False,
) -> None:
    """Price a release from the schema alone: cost, noise, threshold, expected size. Nothing is read
    and nothing is spent.

    Methods of 'release' and 'online' need a schema, problems of 'solve' their --public part. With
    --question, the method is tried on stand-in rows that are drawn from the schema.
    """
    from dpublish.catalogue import methods as catalogued
    from dpublish.requests import plans

    if survey is not None:
        from dpublish.cli.local import plan as plan_survey

        plan_survey(survey=survey, people=size or 10_000, json=json)
        return
    if schema is None and method not in catalogued("solve"):
        raise typer.BadParameter("Missing option '--schema' / '-s'.")
    with screen.steps(quiet=json) as progress:
        found = plans.Plan(
            schema=schema,
            epsilon=epsilon,
            delta=delta,
            rho=rho,
            method=method,
            settings=settings_of(setting),
            size=size,
            questions=tuple(question or ()),
            error=error,
            figure=figure,
            public=public,
            form=form,
            k=k,
        ).run(screen.Terminal(progress=progress))
    if json:
        screen.write_json(found.to_json())
        return
    if found.epsilon is not None:
        screen.say(f"epsilon = {found.epsilon} is enough, on stand-in rows", style="bold green")
    for priced in found.plans:
        show_plan(priced, f", {priced.cost.describe()}" if len(found.plans) > 1 else "")
    if found.plans[0].schema.draft:
        screen.say("  Note: this schema is a draft; 'release' will refuse it.", style="yellow")
    if found.expected:
        _expected(found.expected)
    if found.figure is not None:
        screen.say(f"Drew {found.figure}")


def show_plan(priced: Plan, beside: str = "") -> None:
    screen.say(f"{priced.method} of '{priced.schema.name}'{beside}", style="bold")
    for sentence in (*priced.sentences, *priced.meaning):
        screen.say(f"  {sentence}")
    screen.notes(priced.warnings)


def _expected(answers: Sequence[Answered]) -> None:
    from dpublish.curator.rehearse import NOT_ABOUT

    screen.grid(
        ["question", "epsilon", "truth (stand-in)", "estimate", "95% interval", "margin", "error"],
        [
            (
                one.question,
                one.epsilon,
                _figure(one.truth),
                _figure(one.value),
                f"{_figure(one.low)} to {_figure(one.high)}",
                f"± {_figure(one.margin)}",
                _figure(one.error),
            )
            for one in answers
        ],
        right=(1, 2, 3, 4, 5, 6),
    )
    screen.say(NOT_ABOUT, style="yellow")


def _figure(value: float) -> str:
    if value != value or abs(value) == float("inf"):
        return "no bound"
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3g}"


@asks("plans.Rehearse", steps=True)
def rehearse(
    found: Rehearsal,
    schema: SchemaFile,
    epsilon: Epsilons = None,
    method: Method = None,
    settings: Setting = None,
    questions: Questions = None,
    public: Annotated[
        str | None,
        typer.Option(
            "--public",
            metavar="TABLE",
            help="A public table as stand-in; rows drawn from the schema when left out.",
        ),
    ] = None,
    size: Size = None,
    delta: Delta = None,
    rho: Rho = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="PAGE", help="Also write the page of the release."),
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Make the whole release on stand-in rows, and ask it your questions. Free: no ledger, no data.

    The answers stand beside the truth about the stand-in rows. Nothing here is about the private
    data, and a table that a ledger on this machine has paid for is refused as a stand-in.
    """
    screen.say(
        f"Rehearsal of {found.method} for '{found.dataset}': {found.rows:,} stand-in rows, "
        f"{found.stand_in}",
        style="bold",
    )
    for priced in found.plans:
        screen.notes(priced.warnings)
    _expected(found.answers)
    if out is not None:
        screen.say(f"Wrote {out}, a page about the stand-in rows")


@asks("plans.Compare", steps=True)
def compare(
    found: Compared,
    schema: SchemaFile,
    epsilon: Epsilons = "1",
    questions: Questions = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="COLUMN",
            help="The label to predict; with --question, the target that methods are told.",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", metavar="NAME", help="Only these methods. Repeatable."),
    ] = None,
    size: Size = None,
    delta: Delta = None,
) -> None:
    """Compare methods by the expected error of your questions, or by how well a target can be
    learnt, without data, and recommend one.

    Every suitable method is tried on stand-in rows that are drawn from the schema.
    """
    from dpublish.curator.rehearse import NOT_ABOUT

    if found.target is not None:
        screen.grid(
            ["method", *(f"AUC at epsilon {one}" for one in found.epsilons)],
            [
                (name, *(f"{few:.3f} / {every:.3f}" for few, every in zip(*worlds, strict=True)))
                for name, worlds in sorted(
                    found.worlds.items(), key=lambda pair: -sum(map(sum, pair[1]))
                )
            ],
            right=range(1, 1 + len(found.epsilons)),
            title=f"Predicting '{found.target}' from a release where a few columns decide / where "
            "all do (0.5: nothing is learnt)",
        )
    else:
        asked = "one question" if len(found.questions) == 1 else f"{len(found.questions)} questions"
        screen.grid(
            ["method", *(f"error at epsilon {one}" for one in found.epsilons)],
            [
                (name, *("-" if one is None else _figure(one) for one in errors))
                for name, errors in sorted(found.errors.items(), key=lambda pair: sum(pair[1]))  # type: ignore[arg-type]
            ],
            right=range(1, 1 + len(found.epsilons)),
            title=f"Typical error in rows, over {asked}",
        )
    for name, reason in found.reasons.items():
        screen.say(f"  {name}: {reason}", style="dim")
    if found.recommended is not None:
        told = found.settings.get(found.recommended, {}).items()
        words = " ".join([found.recommended, *(f"--set {key}={value}" for key, value in told)])
        screen.say(f"Recommended: {words}", style="bold green")
        for name, when in found.alternatives.items():
            screen.say(f"  or {name}: {when}", style="green")
        screen.notes(found.warnings[found.recommended])
    screen.say(NOT_ABOUT, style="yellow")
