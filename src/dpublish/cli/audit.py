"""`dpublish audit`: try to refute the privacy claim of a method, at small scale, on made-up rows."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Json

if TYPE_CHECKING:
    from dpublish.audit import Report
    from dpublish.audit.subject import Subject
    from dpublish.schema import Schema

EPSILON = 1

# Two cells and two rows: small enough for every outcome to be enumerated, large enough for an occupied and an empty cell.
TINY = """
[dataset]
name = "tiny"
neighbours = "{neighbours}"
{size} = 2

[columns.colour]
kind = "categorical"
levels = ["red", "blue"]
outside = "drop"
"""

CLOCKS = ("dpublish.ledger.chain:now",)

SETTINGS = {"histogram": {"threshold": "1"}}


class Tier(StrEnum):
    exact = "exact"
    replay = "replay"
    sampled = "sampled"
    twin = "twin"


class Relation(StrEnum):
    replace_one = "replace-one"
    add_remove_one = "add-remove-one"


def audit(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method, for example 'histogram'.")],
    tier: Annotated[
        list[Tier] | None,
        typer.Option("--tier", metavar="TIER", help="exact, replay, sampled or twin; all when left out. Repeatable."),
    ] = None,
    neighbours: Annotated[
        Relation | None,
        typer.Option("--neighbours", metavar="RELATION", help="replace-one or add-remove-one; both when left out."),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=100, help="Runs on each input of the sampled tier.")
    ] = 2000,
    json: Json = False,
) -> None:
    """Try to refute a method's privacy claim on tiny made-up inputs.

    A method that passes survived these audits; no audit verifies privacy. Exit code 1 when one finds a violation.
    """
    from dpublish.cli import screen
    from dpublish.errors import InputError
    from dpublish.mechanisms.registry import method_named

    method_named(method)
    if method not in SETTINGS:
        raise InputError(
            f"There is no built-in audit of '{method}'; there is one of {', '.join(SETTINGS)}. "
            "docs/audits.md shows how to audit any method in Python."
        )
    chosen = list(tier or Tier)
    reports: list[tuple[str, Report]] = []
    with screen.steps(quiet=json) as progress:
        for relation in [neighbours] if neighbours is not None else list(Relation):
            for name in chosen:
                progress(f"{name.value} audit, {relation.value}")
                reports.append((relation.value, _run(name, method, relation.value, samples)))
    survived = all(report.passed for _, report in reports)
    if json:
        documents = [{"neighbours": relation, **report.to_json()} for relation, report in reports]
        screen.write_json({"method": method, "survived": survived, "reports": documents})
    else:
        _table(method, reports)
    if not survived:
        raise typer.Exit(1)


def _run(tier: Tier, method: str, relation: str, samples: int) -> Report:
    from dpublish import audit as tiers

    if tier is Tier.twin:
        return _twin(method, relation)
    subject = _subject(method, relation)
    pairs = list(subject.pairs(rows=2))
    runs: dict[Tier, Callable[[], Report]] = {
        Tier.exact: lambda: tiers.exact(subject, pairs, epsilon=EPSILON),
        Tier.replay: lambda: tiers.replay(subject, pairs, epsilon=EPSILON, runs=20),
        # the pairs that move a row out of, or into, the emptiest inputs show most; two are enough for a first look
        Tier.sampled: lambda: tiers.sampled(subject, pairs[:2], epsilon=EPSILON, samples=samples),
    }
    return runs[tier]()


def _schema(relation: str) -> Schema:
    from dpublish.schema import Schema

    return Schema.from_toml(_schema_text(relation))


def _schema_text(relation: str) -> str:
    return TINY.format(neighbours=relation, size="size" if relation == "replace-one" else "nominal_size")


def _subject(method: str, relation: str) -> Subject:
    from dpublish.audit import subject
    from dpublish.cost import Cost
    from dpublish.mechanisms.registry import method_from_settings

    return subject(method_from_settings(method, SETTINGS.get(method, {})), _schema(relation), Cost.pure(EPSILON))


def _twin(method: str, relation: str) -> Report:
    """The whole command line, from file to release, on two files that differ in one row."""
    from dpublish import audit as tiers
    from dpublish.audit.twin import Hooks

    settings = [word for key, value in SETTINGS.get(method, {}).items() for word in ("--set", f"{key}={value}")]
    command = ["release", "rows.csv", "--schema", "tiny.toml", "--method", method, "--epsilon", str(EPSILON), *settings]
    command += ["--ledger", "tiny.ledger", "--budget", str(EPSILON), "--key", "twin", "--out", "tiny.dpr"]
    first = b"colour\nred\nblue\n"
    second = b"colour\nred\nred\n" if relation == "replace-one" else b"colour\nred\n"
    public = {"tiny.toml": _schema_text(relation).encode()}
    return tiers.twin([command], {"rows.csv": first}, {"rows.csv": second}, public=public, hooks=Hooks(clocks=CLOCKS))


def _table(method: str, reports: list[tuple[str, Report]]) -> None:
    from dpublish.cli import screen

    rows = [
        (report.tier, relation, str(report.pairs), "survived" if report.passed else "FAILED", report.scope())
        for relation, report in reports
    ]
    screen.grid(["tier", "neighbours", "pairs", "verdict", "what was tried"], rows, right=(2,), title=f"Audit of '{method}'")
    for relation, report in reports:
        for finding in report.findings[:5]:
            screen.say(f"  {report.tier}, {relation}, pair {finding.pair + 1}: [{finding.check}] {finding.text}", style="red")
    screen.say("Survived is not verified: an audit can only refute. The proof is beside the method's code.", style="dim")
