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
        str | None,
        typer.Option(
            "--ledger",
            "-l",
            metavar="URL",
            help="Also check that this ledger paid for the release.",
        ),
    ] = None,
    name: LedgerName = "default",
    signer: Annotated[
        list[str] | None,
        typer.Option(
            "--signer",
            metavar="PUBLIC_KEY",
            help="Also check that this key signed: a file of public keys, a public key or a "
            "fingerprint. Repeatable: any one.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Check hashes, format, domain and signatures of a release; its payment with --ledger, and who
    signed with --signer.

    Exit code 5 when it fails.
    """
    from dpublish.cli import screen
    from dpublish.errors import InputError
    from dpublish.releases.bundle.verify import verify_bundle

    if not release.exists():  # a mistyped name says nothing about a release
        raise InputError(f"There is no release at '{release}'.")
    result = verify_bundle(release, signer=signer or None)
    problems = [str(problem) for problem in result.problems]
    unpaid = _unpaid(release, ledger, name) if ledger is not None and not problems else None
    problems += unpaid or []
    ok = not problems
    facts: dict[str, Any] = dict(result.facts)
    if json:
        # None where nobody asked: neither the caller nor, after another problem, this command
        checked = {
            "paid": None if unpaid is None else not unpaid,
            "signed": result.ok if signer else None,
        }
        screen.write_json(
            {"release": release, "ok": ok, "problems": problems, **checked, "facts": facts}
        )
    elif ok:
        screen.say(f"{release}: {_verdict(ledger is not None, bool(signer))}", style="green")
        lines = [
            (name, str(value))
            for name, value in facts.items()
            if not isinstance(value, dict | list)
        ]
        signed = [
            ("signed by", f"{one['name']} ({one['fingerprint']})") for one in facts["signatures"]
        ]
        screen.facts([*lines, *(signed or [("signed by", "nobody")])])
    else:
        screen.say(f"{release}: does not verify", style="bold red")
        for problem in problems:
            screen.say(f"  {problem}")
    if not ok:
        raise typer.Exit(5)


def _verdict(paid: bool, signed: bool) -> str:
    """No more than was checked: the manifest holds the hashes of the tables, and nothing in a
    release holds its own."""
    if not paid and not signed:
        return (
            "whole: its tables are those of its manifest. Whether someone wrote another manifest, "
            "only --ledger or the hash "
            "that the curator published can tell, or --signer."
        )
    found = ["whole and unaltered."]
    if signed:
        found.append("The key that you named signed it.")
    if paid:
        found.append("The ledger holds its payment.")
    return " ".join(found)


def _unpaid(release: Path, url: str, name: str) -> list[str]:
    """Hold the release against the ledger's own, verified, history."""
    from dpublish.ledger import open_ledger
    from dpublish.ledger.payment import payment_problems, seal_problems
    from dpublish.releases.bundle.bundle import read_bundle

    bundle = read_bundle(release)
    with open_ledger(url, name=name) as ledger:
        problems = payment_problems(ledger, bundle.manifest)
        if problems:
            return problems
        sealed = ledger.answer(bundle.manifest["receipt"]["key"])
    problems = seal_problems(
        sealed, bundle.manifest_sha256, lambda: bundle.archive_sha256(signed=False)
    )
    if not problems and bundle.padded:
        problems = [
            "The file holds more than the release that was paid for: bytes that belong to none of "
            "its parts."
        ]
    return problems
