"""`dpublish ledger open | status | history | key | verify | witness | merge | recover | backup |
restore`: what every release is paid from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli import screen
from dpublish.cli.options import (
    Delta,
    Epsilon,
    LedgerName,
    LedgerUrl,
    Rho,
    SecondBudget,
    asks,
)

if TYPE_CHECKING:
    from dpublish.curator.backup import Backup
    from dpublish.ledger.base import Status
    from dpublish.requests.ledger import (
        Entries,
        KeyState,
        OpenedLedger,
        RestoredLedgers,
        VerifiedLedger,
    )

WitnessPlace = Annotated[
    str | None,
    typer.Option(
        "--witness",
        metavar="PLACE",
        help="A folder or database that keeps a second anchor from now on.",
    ),
]

HeadLine = Annotated[
    str | None,
    typer.Option(
        "--head",
        metavar="LINE",
        help="A head line of an earlier 'ledger status'; an older copy lacks its entry.",
    ),
]

app = typer.Typer(
    help="Open and read the account that every release is paid from.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command("open")
@asks("ledger.OpenLedger")
def open_(
    opened: OpenedLedger,
    url: LedgerUrl,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    name: LedgerName = "default",
    witness: WitnessPlace = None,
    second_budget: SecondBudget = False,
) -> None:
    """Create a ledger with a budget. The budget is a cap for ever; opening it again with the same
    budget changes nothing."""
    there = f"Ledger {url} is open; it was there before."
    screen.say(opened.news[0] if opened.news else there, style="bold green")
    _show(opened.status)


@app.command("status")
@asks("ledger.LedgerStatus")
def status(balance: Status, url: LedgerUrl, name: LedgerName = "default") -> None:
    """Show the cap, what is spent and what is left, and the unit and relation that these speak
    of."""
    _show(balance)


@app.command("history")
@asks("ledger.History")
def history(found: Entries, url: LedgerUrl, name: LedgerName = "default") -> None:
    """List every entry: what was paid, when, for what, and its hash."""
    screen.grid(
        ["entry", "when", "kind", "key", "charged", "hash"],
        [
            (
                str(e.seq),
                e.created,
                e.kind,
                e.key if len(e.key) <= 20 else f"{e.key[:17]}...",
                e.charged.describe() if e.kind == "debit" else "-",
                e.hash[:12],
            )
            for e in found.entries
        ],
        right=(0,),
    )


@app.command("key")
@asks("ledger.OfKey")
def key(
    found: KeyState,
    url: LedgerUrl,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of a release or session.")],
    name: LedgerName = "default",
) -> None:
    """Say what was paid under a key, and whether its answer is there, can still be made, or is
    lost."""
    screen.say(found.describe())


@app.command("verify")
@asks("ledger.VerifyLedger")
def verify(
    found: VerifiedLedger,
    url: LedgerUrl,
    name: LedgerName = "default",
    head: HeadLine = None,
) -> None:
    """Recompute the hash chain and the sums, and hold them against the anchor. Exit code 4 when
    they do not agree.

    With --head a ledger that lacks the entry of that line is refused, and one that has it gets a
    new anchor if its own is lost.
    Temporary files that killed runs left beside the ledger and its anchor are removed.
    """
    screen.say(
        f"{url}: the chain of {found.status.entries} entries is whole, and the sums agree.",
        style="green",
    )
    _show(found.status)
    for path in found.removed:
        screen.note(f"Removed '{path}', which a killed run had left.")
    for path in found.readable_by_others:
        screen.note(f"Others can read '{path}'. If that is not your wish: chmod 600 '{path}'.")


@app.command("witness")
@asks("ledger.Witness")
def witness(
    balance: Status,
    url: LedgerUrl,
    place: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="A folder, sqlite:///FILE or postgresql://HOST/NAME."),
    ],
    remove: Annotated[
        bool, typer.Option("--remove", help="Go on without it, also when it is lost.")
    ] = False,
    head: HeadLine = None,
    name: LedgerName = "default",
) -> None:
    """Keep a second anchor at a place of your choice. An older copy of the ledger is refused while
    one of them is left.

    Where the anchor and its witness are both lost, --remove with --head goes on with a ledger that
    has the entry of that line.
    """
    _changed(balance, f"{url}: {place} is {'no longer a' if remove else 'a'} witness.")


@app.command("merge")
@asks("ledger.Merge")
def merge(balance: Status, url: LedgerUrl, name: LedgerName = "default") -> None:
    """Make one budget of several whose names differ in case and blanks only, as ledgers of earlier
    versions may have.

    The one with the smallest cap is kept and charged with what the others spent. No budget comes
    back.
    """
    _changed(balance, f"{url}: '{balance.name}' is the only budget of this name.")


@app.command("recover")
@asks("ledger.Recover")
def recover(balance: Status, url: LedgerUrl, name: LedgerName = "default") -> None:
    """Go on with another copy when the newest is lost. What this machine knows to be spent beyond
    it is written off."""
    _changed(balance, f"{url}: in use again. No budget came back.")


WholeFolder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="DIR",
        help="A folder beside the ledger, such as the state folder of 'dpublish serve'.",
    ),
]


@app.command("backup")
@asks("ledger.BackUp")
def backup(
    made: Backup,
    url: LedgerUrl,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where the backup is made.")],
    folder: WholeFolder = None,
) -> None:
    """Copy a ledger, the store of its answers and a folder, and check the copy. The ledger may be
    in use meanwhile.

    Stores of sessions hold exact counts: keep the backup as you keep the rows.
    """
    screen.say(f"{out}: {made.files} files, checked.", style="green")
    screen.facts([(f"head line of '{name}'", line) for name, line in made.heads.items()])


@app.command("restore")
@asks("ledger.Restore")
def restore(
    found: RestoredLedgers,
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="A backup.")],
    url: LedgerUrl,
    folder: WholeFolder = None,
    older: Annotated[
        bool,
        typer.Option(
            "--older",
            help="Take a backup that lacks what this machine has seen; that is written off.",
        ),
    ] = False,
) -> None:
    """Put a backup back where nothing is, after checking all of it. Exit code 4 when it is older
    than what this machine has seen."""
    screen.say(f"{url}: restored from {backup}, and checked.", style="green")
    for one in found.budgets:
        _show(one)


def _changed(balance: Status, what: str) -> None:
    screen.say(what, style="green")
    _show(balance)


def _show(status: Status) -> None:
    from dpublish.privacy.cost import Cost

    screen.facts(
        [
            ("ledger", f"{status.ledger_id} ({status.name})"),
            ("cap", status.cap.describe()),
            ("spent", status.spent.describe()),
            ("left", status.remaining.describe()),
            *(
                [("spent beyond the cap", status.overspent.describe())]
                if status.overspent != Cost()
                else []
            ),
            (
                "protects",
                status.protects.describe()
                if status.protects
                else "not said yet: the first release decides",
            ),
            *[("pays for", people) for people in status.populations],
            *[("second budget", other.describe()) for other in status.other_budgets],
            ("releases paid", f"{status.debits:,}"),
            *[("witness", place) for place in status.witnesses],
            ("head line", status.head_line),
        ]
    )
