"""`dpublish plan`: what a release would cost and show, without any data."""

from __future__ import annotations

from typing import Annotated

import typer

from dpublish.cli.options import Delta, Epsilon, Json, Method, Rho, SchemaFile, Setting, method_of


def plan(
    schema: SchemaFile,
    epsilon: Epsilon = None,
    method: Method = "histogram",
    setting: Setting = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="N",
            min=1,
            help="Public number of units, when the schema does not declare one.",
        ),
    ] = None,
    delta: Delta = None,
    rho: Rho = None,
    json: Json = False,
) -> None:
    """Price a release from the schema alone: cost, noise, threshold, expected size. Nothing is read
    and nothing is spent."""
    from dpublish.cli import screen
    from dpublish.curator.gate import as_cost
    from dpublish.declare.schema import Schema

    facts = Schema.read(schema)
    if size is not None:
        facts = facts.with_size(size)
    priced = method_of(method, setting).plan(facts, as_cost(epsilon, delta, rho))
    if json:
        screen.write_json(priced.to_json())
        return
    screen.say(f"{priced.method} of '{facts.name}'", style="bold")
    for sentence in (*priced.sentences, *priced.meaning):
        screen.say(f"  {sentence}")
    for warning in priced.warnings:
        screen.say(f"  Note: {warning}", style="yellow")
    if facts.draft:
        screen.say("  Note: this schema is a draft; 'release' will refuse it.", style="yellow")
