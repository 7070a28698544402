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
    from dpublish.public.verify import verify_bundle

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
        screen.say(f"{release}: {_verdict(release, ledger is not None)}", style="green")
        screen.facts([(name, str(value)) for name, value in facts.items() if not isinstance(value, dict)])
    else:
        screen.say(f"{release}: does not verify", style="bold red")
        for problem in problems:
            screen.say(f"  {problem}")
    if not ok:
        raise typer.Exit(5)


def _verdict(release: Path, paid: bool) -> str:
    """No more than was checked: the manifest holds the hashes of the tables, and nothing in a release holds its own."""
    if not paid:
        return (
            "whole: its tables are those of its manifest. Whether someone wrote another manifest, only --ledger or the hash "
            "that the curator published can tell."
        )
    # a ledger knows the hash of the sealed file, not that of a folder made from it
    whole = "whole and unaltered" if release.is_file() else "whole, and its receipt is the ledger's"
    return f"{whole}. The ledger holds its payment."


def _unpaid(release: Path, url: str, name: str) -> list[str]:
    """Hold the receipt in the manifest against the ledger's own, verified, history."""
    import hashlib

    from dpublish.ledger import open_ledger
    from dpublish.public.bundle import read_bundle

    receipt = read_bundle(release).manifest["receipt"]
    with open_ledger(url, name=name) as ledger:
        debits = {entry.key: entry for entry in ledger.history() if entry.kind == "debit"}
        sealed = ledger.answer(receipt["key"])
    entry = debits.get(receipt["key"])
    if entry is None or entry.hash != receipt["head_hash"]:
        return [f"The ledger holds no such payment (key '{receipt['key']}'): this release was not paid from it."]
    if sealed is None:
        return ["The ledger paid for this key but recorded no answer for it."]
    # the ledger knows the sealed file; a folder made from it is bound by the receipt and by its own hashes
    if release.is_file() and hashlib.sha256(release.read_bytes()).hexdigest() != sealed.sha256:
        return ["The ledger recorded another answer for this key: the file is not the one that was paid for."]
    return []
