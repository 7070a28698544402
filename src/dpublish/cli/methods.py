"""`dpublish methods [NAME]`: what there is to publish with, and every setting of a method, in the method's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Json

if TYPE_CHECKING:
    from dpublish.methods.docs import MethodHelp


def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One method, with all its settings.")] = None,
    json: Json = False,
) -> None:
    """List the methods of 'release' and 'online', or explain one: what it needs, shows and hides, and its settings."""
    from dpublish.cli import screen

    if name is not None:
        described = _one(name)
        if json:
            screen.write_json(described.to_json())
        else:
            _explain(described)
        return
    listed = {"release": _all(_release_names()), "online": _all(_online_names())}
    if json:
        screen.write_json({door: [method.to_json() for method in methods] for door, methods in listed.items()})
        return
    for door, methods in listed.items():
        screen.grid(
            ("method", "what it publishes"),
            [(method.name, method.summary) for method in methods],
            title=f"dpublish {door if door == 'release' else 'online open'} --method",
        )
    screen.say(
        "'dpublish methods NAME' explains one; 'dpublish solve --help' and 'dpublish local --help' list the rest.", style="dim"
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


def _release_names() -> list[str]:
    from dpublish.methods.registry import METHODS

    return sorted(METHODS)


def _online_names() -> list[str]:
    from dpublish.curator.sessions.session import METHODS

    return sorted(METHODS)


def _all(names: list[str]) -> list[MethodHelp]:
    return [_one(name) for name in names]


def _one(name: str) -> MethodHelp:
    from dpublish.curator.sessions.session import online_class
    from dpublish.errors import PlanError, did_you_mean
    from dpublish.methods.docs import describe
    from dpublish.methods.registry import ALIASES, method_named

    if name in _online_names():
        return describe(name, online_class(name))
    if ALIASES.get(name, name) not in _release_names():
        known = [*_release_names(), *_online_names()]
        raise PlanError(
            f"There is no method '{name}'.{did_you_mean(name, known)} Methods of 'release': {', '.join(_release_names())}. "
            f"Methods of 'online': {', '.join(_online_names())}. 'dpublish solve' and 'dpublish local' have their own."
        )
    return describe(ALIASES.get(name, name), method_named(name))
