"""`dpublish release`: the one command that turns private rows into a release."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpublish.cli.options import (
    Data,
    Database,
    Delta,
    Epsilon,
    Json,
    Ledger,
    LedgerName,
    Method,
    NewBudget,
    NewBudgetDelta,
    Overwrite,
    Rho,
    SchemaFile,
    SecondBudget,
    Setting,
    SignWith,
    allowance_of,
    method_of,
    numbers_of,
    source_of,
)

if TYPE_CHECKING:
    from dpublish.ledger.base import Status
    from dpublish.releases.base import Release


def release(
    data: Data,
    schema: SchemaFile,
    ledger: Ledger,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="RELEASE", help="Where to write: NAME.dpr, or a folder NAME."
        ),
    ],
    epsilon: Epsilon = None,
    method: Method = "histogram",
    setting: Setting = None,
    delta: Delta = None,
    rho: Rho = None,
    database: Database = None,
    budget: NewBudget = None,
    second_budget: SecondBudget = False,
    budget_delta: NewBudgetDelta = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Name of this request. The same key again gives the same bytes and is paid once.",
        ),
    ] = None,
    name: LedgerName = "default",
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="FOLDER",
            help="Where sealed releases are kept for --key; by default beside an SQLite ledger, "
            "else in ./dpublish-releases.",
        ),
    ] = None,
    sign_with: SignWith = None,
    overwrite: Overwrite = False,
    json: Json = False,
) -> None:
    """Publish: check the request, debit the ledger, read the rows, add noise, write the release.

    Everything that can be wrong with the request is found before the budget is touched. After the
    debit nothing about the rows leaves except through the release itself, so a failure there has a
    constant text and exit code 6.
    """
    import warnings

    from dpublish.cli import screen
    from dpublish.cli.key import not_signed, unlocked
    from dpublish.curator.gate import Curator
    from dpublish.declare.schema import Schema
    from dpublish.ledger import open_ledger
    from dpublish.outputs import keep_apart

    keep_apart(out, schema, data if database is None else None, ledger.removeprefix("sqlite:///"))
    mechanism = method_of(method, setting)
    source = source_of(data, database)
    allowance = allowance_of(budget, budget_delta)
    amounts = numbers_of(epsilon=epsilon, delta=delta, rho=rho)
    signing_key = unlocked(sign_with) if sign_with is not None else None
    with (
        warnings.catch_warnings(),
        screen.muted() as terminal,
        screen.steps(quiet=json, terminal=terminal) as progress,
    ):
        # a library's warning may quote a cell
        warnings.simplefilter("ignore")
        facts = Schema.read(schema)
        with open_ledger(
            ledger,
            budget=allowance,
            name=name,
            create=allowance is not None,
            second_budget=second_budget,
        ) as account:
            kept = store or store_of(ledger, account.name)
            curator = Curator(source, facts, ledger=account, store=kept, signing_key=signing_key)
            made = curator.publish(
                mechanism, **amounts, key=key, out=out, overwrite=overwrite, progress=progress
            )
            left = account.status()
    unsigned = not_signed(made, signing_key, out)
    if json:
        screen.write_json({**_document(made, out, left), "news": [*account.news, *unsigned]})
        return
    for line in account.news:
        screen.say(line, style="bold")
    screen.say(f"Released {out}", style="bold green")
    screen.facts(_lines(made, left))
    for line in unsigned:
        screen.note(line)
    if not made.manifest["publishable"]:
        screen.note(
            "This release was made with fixed noise, for tests. It protects nobody: do not "
            "publish it."
        )


def store_of(ledger: str, name: str) -> Path:
    """Keys are unique within a named ledger, so each name has a folder of its own."""
    import hashlib

    from dpublish.curator.gate import default_store

    store = default_store(ledger)
    return store if name == "default" else store / hashlib.sha256(name.encode()).hexdigest()[:16]


def _document(made: Release, out: Path, left: Status) -> dict[str, Any]:
    manifest = made.manifest
    return {
        "out": out,
        "dataset": manifest["dataset"],
        "method": manifest["method"],
        "cost": manifest["privacy"]["cost"],
        "publishable": manifest["publishable"],
        "receipt": manifest["receipt"],
        "signatures": [one.facts() for one in made.signatures],
        "budget": {
            "cap": left.cap.to_json(),
            "spent": left.spent.to_json(),
            "remaining": left.remaining.to_json(),
        },
    }


def _lines(made: Release, left: Status) -> list[tuple[str, str]]:
    from dpublish.cli.opened import verbs_for
    from dpublish.privacy.cost import Cost

    manifest = made.manifest
    return [
        ("data set", str(manifest["dataset"])),
        ("method", str(manifest["method"])),
        ("cost", Cost.from_json(manifest["privacy"]["cost"]).describe()),
        ("protects", f"{manifest['privacy']['unit']} ({manifest['privacy']['neighbours']})"),
        ("key", str(manifest["receipt"]["key"])),
        *(("signed by", one.describe()) for one in made.signatures),
        ("budget left", left.remaining.describe()),
        ("next", f"dpublish {', '.join(verbs_for(made))}"),
    ]
