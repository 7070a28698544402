"""`dpublish verify`: is this file whole, unaltered and paid for?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpublish.cli.options import Json, LedgerName, ReleaseFile

if TYPE_CHECKING:
    from pathlib import Path


def verify(
    release: ReleaseFile,
    ledger: Annotated[
        str | None, typer.Option("--ledger", "-l", metavar="URL", help="Also check that this ledger paid for the release.")
    ] = None,
    name: LedgerName = "default",
    json: Json = False,
) -> None:
    """Check hashes, format and domain of a release, and its payment when --ledger is given. Exit code 5 when it fails."""
    from dpublish.cli import screen
    from dpublish.errors import InputError
    from dpublish.releases.bundle.verify import verify_bundle

    if not release.exists():  # a mistyped name says nothing about a release
        raise InputError(f"There is no release at '{release}'.")
    result = verify_bundle(release)
    problems = [str(problem) for problem in result.problems]
    if ledger is not None and not problems:
        problems += _unpaid(release, ledger, name)
    ok = not problems
    facts: dict[str, Any] = dict(result.facts)
    if json:
        screen.write_json({"release": release, "ok": ok, "problems": problems, "paid": ok if ledger else None, "facts": facts})
    elif ok:
        screen.say(f"{release}: {_verdict(ledger is not None)}", style="green")
        screen.facts([(name, str(value)) for name, value in facts.items() if not isinstance(value, dict)])
    else:
        screen.say(f"{release}: does not verify", style="bold red")
        for problem in problems:
            screen.say(f"  {problem}")
    if not ok:
        raise typer.Exit(5)


def _verdict(paid: bool) -> str:
    """No more than was checked: the manifest holds the hashes of the tables, and nothing in a release holds its own."""
    if not paid:
        return (
            "whole: its tables are those of its manifest. Whether someone wrote another manifest, only --ledger or the hash "
            "that the curator published can tell."
        )
    return "whole and unaltered. The ledger holds its payment."


def _unpaid(release: Path, url: str, name: str) -> list[str]:
    """Hold the release against the ledger's own, verified, history."""
    from dpublish.ledger import open_ledger
    from dpublish.ledger.payment import payment_problems, seal_problems
    from dpublish.releases.bundle.archive import file_digest
    from dpublish.releases.bundle.bundle import read_bundle

    bundle = read_bundle(release)
    with open_ledger(url, name=name) as ledger:
        problems = payment_problems(ledger, bundle.manifest)
        if problems:
            return problems
        sealed = ledger.answer(bundle.manifest["receipt"]["key"])
    problems = seal_problems(sealed, bundle.manifest_sha256, bundle.archive_sha256)
    if not problems and release.is_file() and file_digest(release) != bundle.archive_sha256():
        problems = ["The file holds more than the release that was paid for: bytes that belong to none of its parts."]
    return problems
