"""`dpublish methods | plan`: what there is to publish with, and what it would cost and show,
without any data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import (
    Delta,
    Epsilon,
    Json,
    Method,
    Rho,
    SchemaFile,
    Setting,
    settings_of,
)

if TYPE_CHECKING:
    from dpublish.catalogue import Door
    from dpublish.methods.docs import MethodHelp

_TYPED: dict[Door, str] = {
    "release": "release --method",
    "online": "online open --method",
    "solve": "solve",
}
"""Where methods are called, with what is typed there."""


def methods(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One method, with all its settings.")
    ] = None,
    json: Json = False,
) -> None:
    """List the methods of 'release', 'online' and 'solve', or explain one: what it needs, shows and
    hides, and its settings."""
    from dpublish.cli import screen
    from dpublish.requests.curator import MethodList, Methods

    found = Methods(name=name).run()
    if json:
        screen.write_json(found.to_json())
        return
    if not isinstance(found, MethodList):
        _explain(found)
        return
    for door, methods in found.by_door.items():
        screen.grid(
            ("method", "what it publishes"),
            [(method.name, method.summary) for method in methods],
            title=f"dpublish {_TYPED[door]}",
        )
    screen.say(
        "'dpublish methods NAME' explains one; 'dpublish local --help' lists the randomisers.",
        style="dim",
    )


def _explain(method: MethodHelp) -> None:
    from dpublish.cli import screen

    screen.say(f"{method.name} (dp.{method.class_name})", style="bold")
    screen.say(method.summary)
    screen.facts(method.lines.items())
    screen.grid(
        ("setting", "when left out", "meaning"),
        [(setting.name, setting.default or "-", setting.text) for setting in method.settings],
        title="Settings (--set NAME=VALUE)",
    )


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
    from dpublish.requests.curator import Plan

    priced = Plan(
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        method=method,
        settings=settings_of(setting),
        size=size,
    ).run()
    if json:
        screen.write_json(priced.to_json())
        return
    screen.say(f"{priced.method} of '{priced.schema.name}'", style="bold")
    for sentence in (*priced.sentences, *priced.meaning):
        screen.say(f"  {sentence}")
    for warning in priced.warnings:
        screen.say(f"  Note: {warning}", style="yellow")
    if priced.schema.draft:
        screen.say("  Note: this schema is a draft; 'release' will refuse it.", style="yellow")
