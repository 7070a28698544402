"""`dpublish online open | ask | status | close`: a query desk that answers one question at a
time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpublish.cli.options import (
    Data,
    Database,
    Epsilon,
    Json,
    Ledger,
    LedgerName,
    NewBudget,
    SchemaFile,
    Setting,
    allowance_of,
    settings_of,
    source_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpublish.curator.sessions.session import OnlineSession
    from dpublish.methods.online.base import OnlineMechanism

app = typer.Typer(
    help="Open a session that answers queries one at a time, and ask it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SessionFolder = Annotated[
    Path, typer.Argument(metavar="SESSION", help="The folder that 'online open' made.")
]


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
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "-m",
            metavar="NAME",
            help="median-mechanism or online-multiplicative-weights.",
        ),
    ] = "median-mechanism",
    setting: Setting = None,
    database: Database = None,
    budget: NewBudget = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Name of this session in the ledger. The same key again resumes it, unpaid.",
        ),
    ] = None,
    name: LedgerName = "default",
    json: Json = False,
) -> None:
    """Pay for a session, count the rows once, and make the folder that 'ask' reads. Nothing else is
    ever charged for it."""
    import warnings

    from dpublish.cli import screen
    from dpublish.curator.gate import Curator
    from dpublish.declare.schema import Schema
    from dpublish.ledger import open_ledger
    from dpublish.methods.registry import method_from_settings

    mechanism: OnlineMechanism = method_from_settings(method, settings_of(setting), "online")
    source = source_of(data, database)
    allowance = allowance_of(budget)
    with (
        warnings.catch_warnings(),
        screen.muted() as terminal,
        screen.steps(quiet=json, terminal=terminal) as progress,
    ):
        # a library's warning may quote a cell
        warnings.simplefilter("ignore")
        facts = Schema.read(schema)
        with open_ledger(
            ledger, budget=allowance, name=name, create=allowance is not None
        ) as account:
            curator = Curator(source, facts, ledger=account, store=session.absolute().parent)
            opened = curator.answer_online(
                mechanism, epsilon=epsilon, key=key, folder=session, progress=progress
            )
    _show(opened, json=json, title=f"Session {session} is open", news=account.news)


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
    from dpublish.cli import screen
    from dpublish.curator.sessions.session import OnlineSession
    from dpublish.errors import InputError

    if (query is None) == (weights is None):
        raise InputError("Give a QUERY, or --weights FILE, and not both.")
    asked: Any = query if weights is None else _read_weights(weights)
    answer = OnlineSession(session).ask(asked, key=key)
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
    from dpublish.curator.sessions.session import OnlineSession

    _show(OnlineSession(session), json=json)


@app.command("close")
def close(session: SessionFolder, json: Json = False) -> None:
    """End a session for good and delete its private part. Its answers stay readable."""
    from dpublish.curator.sessions.session import OnlineSession

    opened = OnlineSession(session)
    opened.close()
    _show(opened, json=json, title=f"Session {session} is closed")


def _read_weights(path: Path) -> list[float]:
    import json

    from dpublish.errors import InputError

    try:
        weights = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise InputError(f"'{path}' cannot be read as a JSON list of weights.") from None
    if not isinstance(weights, list) or not all(isinstance(item, int | float) for item in weights):
        raise InputError(f"'{path}' must hold one JSON list of numbers between 0 and 1.")
    return [float(item) for item in weights]


def _promise(sentences: Sequence[str]) -> tuple[list[str], list[str]]:
    """What the plan said about the answers of this session, and what it held beside that: other
    ways, and theory."""
    start = next(
        (
            place
            for place, sentence in enumerate(sentences)
            if sentence.startswith("An easy answer")
        ),
        0,
    )
    hard = [sentence for sentence in sentences[:start] if "hard answers" in sentence]
    return [*sentences[start : start + 1], *hard], list(sentences[start + 1 :])


def _show(
    session: OnlineSession, *, json: bool, title: str | None = None, news: Sequence[str] = ()
) -> None:
    from dpublish.cli import screen

    now = session.status()
    header = session.header
    promise, compared = _promise(header["sentences"])
    if json:
        words = {
            "promise": promise,
            "compared_with": compared,
            "plan": header["sentences"],
            "statement": header["statement"],
        }
        screen.write_json(
            {
                "session": session.folder,
                **now.to_json(),
                "receipt": header["receipt"],
                **words,
                "news": list(news),
            }
        )
        return
    for line in news:
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
    screen.say(header["statement"])
    if not now.publishable:
        screen.note(
            "This session was made with fixed noise, for tests. It protects nobody: do not show "
            "its answers."
        )
