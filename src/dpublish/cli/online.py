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
    Ledger,
    LedgerName,
    NewBudget,
    SchemaFile,
    SecondBudget,
    Setting,
    asks,
)
from dpublish.cli.plan import show_plan

if TYPE_CHECKING:
    from dpublish.curator.sessions.answers import OnlineAnswer
    from dpublish.privacy.plan import Plan
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
@asks("online.PlanSession")
def plan(
    priced: Plan,
    schema: SchemaFile,
    epsilon: Epsilon = None,
    method: OnlineMethod = "median-mechanism",
    settings: Setting = None,
) -> None:
    """Say what a session would promise, from the schema alone. Nothing is read and nothing is
    spent."""
    show_plan(priced)


@app.command("open")
@asks("online.OpenSession")
def open_(
    opened: SessionShown,
    data: Data,
    session: Annotated[
        Path,
        typer.Argument(metavar="SESSION", help="Folder to make for the session. Keep it private."),
    ],
    schema: SchemaFile,
    ledger: Ledger,
    epsilon: Epsilon = None,
    method: OnlineMethod = "median-mechanism",
    settings: Setting = None,
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
) -> None:
    """Pay for a session, count the rows once, and make the folder that 'ask' reads. Nothing else is
    ever charged for it."""
    _show(opened, title=f"Session {session} is open")


@app.command("ask")
@asks("online.Ask")
def ask(
    answer: OnlineAnswer,
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
) -> None:
    """Answer one query. Easy ones are free; hard ones use up one of the session's hard answers."""
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
@asks("online.SessionState")
def status(found: SessionShown, session: SessionFolder) -> None:
    """Show how many queries were asked, and how many hard answers are left."""
    _show(found)


@app.command("close")
@asks("online.CloseSession")
def close(closed: SessionShown, session: SessionFolder) -> None:
    """End a session for good and delete its private part. Its answers stay readable."""
    _show(closed, title=f"Session {session} is closed")


def _show(session: SessionShown, *, title: str | None = None) -> None:
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
