"""`dpublish online plan | open | ask | status | close`: a session that answers one question at a
time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli import screen
from dpublish.cli.options import (
    Again,
    Data,
    Database,
    Epsilon,
    Json,
    Ledger,
    LedgerName,
    NewBudget,
    SchemaFile,
    SecondBudget,
    Setting,
    settings_of,
)

if TYPE_CHECKING:
    from dpublish.requests.online import SessionShown

app = typer.Typer(
    help="Open a session that answers queries one at a time, and ask it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SessionFolder = Annotated[
    Path, typer.Argument(metavar="SESSION", help="The folder that 'online open' made.")
]


OnlineMethod = Annotated[
    str,
    typer.Option(
        "--method", "-m", metavar="NAME", help="median-mechanism or online-multiplicative-weights."
    ),
]


@app.command("plan")
def plan(
    schema: SchemaFile,
    epsilon: Epsilon = None,
    method: OnlineMethod = "median-mechanism",
    setting: Setting = None,
    json: Json = False,
) -> None:
    """Say what a session would promise, from the schema alone. Nothing is read and nothing is
    spent."""
    from dpublish.requests.online import PlanSession

    given = settings_of(setting)
    priced = PlanSession(schema=schema, epsilon=epsilon, method=method, settings=given).run()
    if json:
        screen.write_json(priced.to_json())
        return
    screen.say(f"{priced.method} of '{priced.schema.name}'", style="bold")
    for sentence in (*priced.sentences, *priced.meaning):
        screen.say(f"  {sentence}")
    for warning in priced.warnings:
        screen.say(f"  Note: {warning}", style="yellow")


@app.command("open")
def open_(
    data: Data,
    session: Annotated[
        Path,
        typer.Argument(metavar="SESSION", help="Folder to make for the session. Keep it private."),
    ],
    schema: SchemaFile,
    ledger: Ledger,
    epsilon: Epsilon = None,
    method: OnlineMethod = "median-mechanism",
    setting: Setting = None,
    database: Database = None,
    budget: NewBudget = None,
    second_budget: SecondBudget = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Name of this session in the ledger. The same key again resumes it, unpaid.",
        ),
    ] = None,
    again: Again = False,
    name: LedgerName = "default",
    json: Json = False,
) -> None:
    """Pay for a session, count the rows once, and make the folder that 'ask' reads. Nothing else is
    ever charged for it."""
    from dpublish.requests.online import OpenSession

    opened = OpenSession(
        data=data,
        session=session,
        schema=schema,
        ledger=ledger,
        epsilon=epsilon,
        method=method,
        settings=settings_of(setting),
        database=database,
        budget=budget,
        second_budget=second_budget,
        key=key,
        again=again,
        name=name,
    ).run(screen.Terminal(quiet=json))
    _show(opened, json=json, title=f"Session {session} is open")


@app.command("ask")
def ask(
    session: SessionFolder,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help='A predicate, for example "age >= 40".')
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(
            "--weights",
            metavar="FILE",
            help="A linear query instead: a JSON list with a weight 0..1 for each cell.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Name of this query. The same key again gives the same answer.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Answer one query. Easy ones are free; hard ones use up one of the session's hard answers."""
    from dpublish.requests.online import Ask

    answer = Ask(session=session, query=query, weights=weights, key=key).run()
    if json:
        screen.write_json(answer.to_json())
        return
    screen.say(str(answer.estimate), style="bold")
    screen.facts(
        [
            ("query", answer.query),
            (
                "label",
                f"{answer.label} "
                f"({'the data was asked' if answer.label == 'hard' else 'the data was not asked'})",
            ),
            ("hard answers left", f"{answer.hard_left:,}"),
            ("key", answer.key),
        ]
    )


@app.command("status")
def status(session: SessionFolder, json: Json = False) -> None:
    """Show how many queries were asked, and how many hard answers are left."""
    from dpublish.requests.online import SessionState

    _show(SessionState(session=session).run(), json=json)


@app.command("close")
def close(session: SessionFolder, json: Json = False) -> None:
    """End a session for good and delete its private part. Its answers stay readable."""
    from dpublish.requests.online import CloseSession

    closed = CloseSession(session=session).run()
    _show(closed, json=json, title=f"Session {session} is closed")


def _show(session: SessionShown, *, json: bool, title: str | None = None) -> None:
    if json:
        screen.write_json(session.to_json())
        return
    now = session.status
    promise, compared = session.promise
    for line in session.news:
        screen.say(line, style="bold")
    if title:
        screen.say(title, style="bold green")
    screen.facts(
        [
            ("data set", now.dataset),
            ("method", now.method),
            ("paid", now.cost),
            ("state", now.state),
            ("queries asked", f"{now.asked:,}"),
            ("hard answers left", f"{now.hard_left:,}"),
            *(("promise", sentence) for sentence in promise),
            *(("compare", sentence) for sentence in compared),
        ]
    )
    screen.say("")
    screen.say(session.header["statement"])
    if not now.publishable:
        screen.note(
            "This session was made with fixed noise, for tests. It protects nobody: do not show "
            "its answers."
        )
