"""`dpublish audit`: try to refute the privacy claim of a method, at small scale, on made-up
rows."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Json

if TYPE_CHECKING:
    from dpublish.audit import Report
    from dpublish.audit.trials import Declined, Tier, Trial

SAMPLED_PAIRS = 2
"""The first and a middle pair are enough for a first look; `make nightly` takes ten."""


class TierName(StrEnum):
    exact = "exact"
    replay = "replay"
    sampled = "sampled"
    twin = "twin"
    distributional = "distributional"


class Relation(StrEnum):
    replace_one = "replace-one"
    add_remove_one = "add-remove-one"


def audit(
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
    tier: Annotated[
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
    json: Json = False,
) -> None:
    """Try to refute a method's privacy claim on tiny made-up inputs.

    A method that passes survived these audits; no audit verifies privacy. A tier that cannot say
    anything about a method is listed with the reason. Exit code 1 when one finds a violation.
    """
    from dpublish.audit.trials import Declined
    from dpublish.cli import screen

    chosen = _chosen(method, neighbours)
    reports: list[tuple[Trial, Report | Declined]] = []
    with screen.steps(quiet=json) as progress:
        for trial in chosen:
            for name in [choice.value for choice in tier] if tier else _tiers_of(trial):
                progress(f"{name} audit, {trial.case}")
                reports.append((trial, trial.run(name, samples=samples, pairs=SAMPLED_PAIRS)))
    survived = all(isinstance(report, Declined) or report.passed for _, report in reports)
    if json:
        documents = [
            {
                "neighbours": trial.neighbours,
                "case": trial.case,
                "claim": trial.claim.to_json(),
                **report.to_json(),
            }
            for trial, report in reports
        ]
        screen.write_json({"method": method, "survived": survived, "reports": documents})
    else:
        _table(method, reports)
    if not survived:
        raise typer.Exit(1)


def _tiers_of(trial: Trial) -> list[Tier]:
    """All that every method is held to, and the one about samples where something is claimed about
    them."""
    from dpublish.audit.trials import TIERS

    return [*TIERS] if isinstance(trial.distributional, str) else [*TIERS, "distributional"]


def _chosen(method: str, neighbours: Relation | None) -> list[Trial]:
    from dpublish.audit.trials import trials_of
    from dpublish.errors import InputError

    found = trials_of(method)
    chosen = [
        trial for trial in found if neighbours is None or trial.neighbours == neighbours.value
    ]
    if not chosen:
        known = " and ".join(sorted({trial.neighbours for trial in found}))
        raise InputError(
            f"'{method}' is not audited under {neighbours}; its neighbours are: {known}."
        )
    return chosen


def _table(method: str, reports: list[tuple[Trial, Report | Declined]]) -> None:
    from dpublish.audit.trials import Declined
    from dpublish.cli import screen

    rows: list[tuple[str, ...]] = []
    for trial, report in reports:
        if isinstance(report, Declined):
            rows.append((report.tier, trial.case, "", "not run", f"Not run: {report.reason}."))
        else:
            verdict = "survived" if report.passed else "FAILED"
            rows.append((report.tier, trial.case, str(report.pairs), verdict, report.scope()))
    screen.grid(
        ["tier", "neighbours", "pairs", "verdict", "what was tried"],
        rows,
        right=(2,),
        title=f"Audit of '{method}'",
    )
    for trial, report in reports:
        if not isinstance(report, Declined):
            for finding in report.findings[:5]:
                where = f"{report.tier}, {trial.case}, pair {finding.pair + 1}"
                screen.say(f"  {where}: [{finding.check}] {finding.text}", style="red")
    screen.say(
        "Survived is not verified: an audit can only refute. The proof is beside the method's "
        "code.",
        style="dim",
    )
