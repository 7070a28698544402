"""`dpublish verify | audit`: is a release what it says, and can the claim of a method be
refuted?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli import screen
from dpublish.cli.options import LedgerName, ReleaseFile, asks
from dpublish.requests.base import Relation, TierName

if TYPE_CHECKING:
    from dpublish.requests.analyst import Verdict
    from dpublish.requests.audit import Audited


@asks(
    lambda given: "curator.VerifyPaid" if "ledger" in given else "analyst.Verify",
    exit_code=lambda found: 0 if found.ok else 5,
)
def verify(
    found: Verdict,
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
    signers: Annotated[
        list[str] | None,
        typer.Option(
            "--signer",
            metavar="PUBLIC_KEY",
            help="Also check that this key signed: a file of public keys, a public key or a "
            "fingerprint. Repeatable: any one.",
        ),
    ] = None,
) -> None:
    """Check hashes, format, domain and signatures of a release; its payment with --ledger, and who
    signed with --signer.

    Exit code 5 when it fails.
    """
    if not found.ok:
        screen.say(f"{release}: does not verify", style="bold red")
        for problem in found.problems:
            screen.say(f"  {problem}")
        return
    screen.say(f"{release}: {_verdict(ledger is not None, bool(signers))}", style="green")
    lines = [
        (name, str(value))
        for name, value in found.facts.items()
        if not isinstance(value, dict | list)
    ]
    signers = [f"{one['name']} ({one['fingerprint']})" for one in found.facts["signatures"]]
    screen.facts([*lines, *(("signed by", one) for one in signers or ["nobody"])])


def _verdict(paid: bool, signed: bool) -> str:
    """No more than was checked: the manifest holds the hashes of the tables, and nothing in a
    release holds its own."""
    if not paid and not signed:
        return (
            "whole: its tables are those of its manifest. Whether someone wrote another "
            "manifest, only --ledger or the hash "
            "that the curator published can tell, or --signer."
        )
    found = ["whole and unaltered."]
    if signed:
        found.append("The key that you named signed it.")
    if paid:
        found.append("The ledger holds its payment.")
    return " ".join(found)


@asks("audit.Audit", steps=True, exit_code=lambda found: 0 if found.survived else 1)
def audit(
    found: Audited,
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help="A release method, an online method, a problem of 'solve', or a method of a "
            "local survey; "
            "for example 'histogram', 'median-mechanism', 'min-cut' or 'kary'. 'mirrored-mod' is "
            "the known counter-example "
            "to distributional privacy.",
        ),
    ],
    tiers: Annotated[
        list[TierName] | None,
        typer.Option(
            "--tier",
            metavar="TIER",
            help="exact, replay, sampled or twin; all four when left out. Or distributional, "
            "about samples of one population "
            "instead of neighbours, for what claims it. Repeatable.",
        ),
    ] = None,
    neighbours: Annotated[
        Relation | None,
        typer.Option(
            "--neighbours",
            metavar="RELATION",
            help="replace-one or add-remove-one; both when left out.",
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(
            "--samples", metavar="N", min=100, help="Runs on each input of the sampled tier."
        ),
    ] = 2000,
) -> None:
    """Try to refute a method's privacy claim on tiny made-up inputs.

    A method that passes survived these audits; no audit verifies privacy. A tier that cannot say
    anything about a method is
    listed with the reason. Exit code 1 when one finds a violation.
    """
    from dpublish.audit.trials import Declined

    rows: list[tuple[str, ...]] = []
    for trial, report in found.reports:
        if isinstance(report, Declined):
            rows.append((report.tier, trial.case, "", "not run", f"Not run: {report.reason}."))
        else:
            verdict = "survived" if report.passed else "FAILED"
            rows.append((report.tier, trial.case, str(report.pairs), verdict, report.scope()))
    screen.grid(
        ["tier", "neighbours", "pairs", "verdict", "what was tried"],
        rows,
        right=(2,),
        title=f"Audit of '{found.method}'",
    )
    for trial, report in found.reports:
        if not isinstance(report, Declined):
            for finding in report.findings[:5]:
                where = f"{report.tier}, {trial.case}, pair {finding.pair + 1}"
                screen.say(f"  {where}: [{finding.check}] {finding.text}", style="red")
    screen.say(
        "Survived is not verified: an audit can only refute. The proof is beside the method's "
        "code.",
        style="dim",
    )
