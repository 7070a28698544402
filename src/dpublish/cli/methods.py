"""`dpublish methods [NAME]`: what there is to publish with, and every setting of a method, in the
method's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Json

if TYPE_CHECKING:
    from dpublish.catalogue import Door
    from dpublish.methods.docs import MethodHelp

_DOORS: dict[Door, str] = {
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

    if name is not None:
        described = _one(name)
        if json:
            screen.write_json(described.to_json())
        else:
            _explain(described)
        return
    from dpublish.catalogue import methods as catalogued

    listed = {door: [_one(name) for name in catalogued(door)] for door in _DOORS}
    if json:
        screen.write_json(
            {door: [method.to_json() for method in methods] for door, methods in listed.items()}
        )
        return
    for door, methods in listed.items():
        screen.grid(
            ("method", "what it publishes"),
            [(method.name, method.summary) for method in methods],
            title=f"dpublish {_DOORS[door]}",
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


def _one(name: str) -> MethodHelp:
    from dpublish.catalogue import ALIASES, load
    from dpublish.catalogue import methods as catalogued
    from dpublish.errors import PlanError, did_you_mean
    from dpublish.methods.docs import describe

    known = catalogued(*_DOORS)
    name = ALIASES.get(name, name)
    if name not in known:
        lists = " ".join(f"Methods of '{door}': {', '.join(catalogued(door))}." for door in _DOORS)
        raise PlanError(
            f"There is no method '{name}'.{did_you_mean(name, known)} {lists} 'dpublish local' "
            f"has randomisers of its own."
        )
    return describe(name, load(known[name].mechanism))
