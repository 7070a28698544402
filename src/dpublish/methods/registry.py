"""Release methods by the name that people type, loaded when they are asked for.

A name is the class name in kebab-case. Settings come as text and are read by the types of the
method's fields.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from dpublish.catalogue import ALIASES, Door, load, methods
from dpublish.errors import PlanError, did_you_mean

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def method_named(name: str, door: Door = "release") -> type[Any]:
    """The class of a method behind one door. Unknown names are refused with the nearest known
    one."""
    known = methods(door)
    found = known.get(ALIASES.get(name, name))
    if found is None:
        what = "online method" if door == "online" else "method"
        raise PlanError(
            f"There is no {what} '{name}'.{did_you_mean(name, known)} Methods: {', '.join(known)}."
        )
    return cast(type[Any], load(found.mechanism))


def method_from_settings(name: str, settings: Mapping[str, str], door: Door = "release") -> Any:
    """A method with its fields set from text, such as {"columns": "age,income", "bins": "8"}."""
    return method_named(name, door)(**fields_from_settings(name, settings, door))


def fields_from_settings(
    name: str,
    settings: Mapping[str, str],
    door: Door = "release",
    *,
    leave_out: Collection[str] = (),
    beside: Sequence[str] = (),
) -> dict[str, Any]:
    """Fields of a method read from text by their types. `leave_out` are given in another way;
    `beside` are settings that the caller takes himself."""
    method = method_named(name, door)
    hints = get_type_hints(method)
    known = [field.name for field in dataclasses.fields(method) if field.name not in leave_out]
    values: dict[str, Any] = {}
    for key, text in settings.items():
        field = key.replace("-", "_")
        if field not in known:
            allowed = [*known, *beside]
            raise PlanError(
                f"Method '{name}' has no setting '{key}'.{did_you_mean(field, allowed)} Settings: "
                f"{', '.join(allowed)}."
            )
        values[field] = read_setting(text, hints[field], f"{name}: {key}")
    return values


def read_setting(text: str, hint: Any, what: str) -> Any:
    """Text as the field's type. Exact amounts stay text: the method reads them without rounding."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if type(None) in choices and text.strip().lower() == "none":
        return None
    for choice in choices:
        origin = get_origin(choice)
        if origin is Literal:
            return _one_of(text.strip(), [str(value) for value in get_args(choice)], what)
        if isinstance(origin, type) and issubclass(origin, Sequence):
            item = get_args(choice)[0]
            return tuple(
                read_setting(part.strip(), item, what) for part in text.split(",") if part.strip()
            )
    if str in choices or Fraction in choices:
        return text  # not stripped: a separator may be a blank
    if bool in choices:
        return _truth(text.strip(), what)
    for kind, wanted in ((int, "a whole number"), (float, "a number")):
        if kind in choices:
            try:
                return kind(text)
            except ValueError:
                raise PlanError(f"{what} must be {wanted}, not '{text}'.") from None
    return text


def _one_of(text: str, allowed: Sequence[str], what: str) -> str:
    if text not in allowed:
        raise PlanError(
            f"{what} = '{text}' is not known.{did_you_mean(text, allowed)} Use "
            f"{', '.join(allowed)}."
        )
    return text


def _truth(text: str, what: str) -> bool:
    if text.lower() not in _TRUE + _FALSE:
        raise PlanError(f"{what} must be true or false, not '{text}'.")
    return text.lower() in _TRUE


# What a method says of itself: its headed lines and its settings, read from its docstring and its
# fields.
#
# One reading serves `dpublish methods` and the reference page, so that neither can drift from the
# code.

HEADINGS = ("Input", "Output", "Privacy", "Relies on", "Shows / hides", "Accuracy")
_RULE = re.compile(r"^\s*Parameters\s*\n\s*-+\s*$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class SettingHelp:
    """One setting: what `--set NAME=...` or the keyword means, and what it is when left out."""

    name: str
    default: str
    text: str


@dataclasses.dataclass(frozen=True)
class MethodHelp:
    """One method, in its own words."""

    name: str
    class_name: str
    summary: str
    lines: Mapping[str, str]
    settings: tuple[SettingHelp, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "class": self.class_name,
            "summary": self.summary,
            **{
                heading.lower().replace(" / ", "_").replace(" ", "_"): text
                for heading, text in self.lines.items()
            },
            "settings": [dataclasses.asdict(setting) for setting in self.settings],
        }


def describe(name: str, method: type[Any]) -> MethodHelp:
    """Read a method's docstring. A heading or a setting without words is a mistake in the method,
    and raises."""
    text = inspect.cleandoc(method.__doc__ or "").partition("\n\nExamples\n")[0]
    parts = _RULE.split(text, maxsplit=1)
    summary, lines = _headed(parts[0])
    missing = [heading for heading in HEADINGS if heading not in lines]
    if missing:
        raise ValueError(f"{method.__name__} says nothing under {', '.join(missing)}.")
    words = _parameters(parts[1] if len(parts) > 1 else "")
    fields = [field for field in dataclasses.fields(method) if field.init]
    silent = [field.name for field in fields if field.name not in words]
    if silent:
        raise ValueError(f"{method.__name__} does not explain {', '.join(silent)}.")
    settings = tuple(
        SettingHelp(field.name, _default(field), words[field.name]) for field in fields
    )
    return MethodHelp(name, method.__name__, summary, lines, settings)


def _headed(text: str) -> tuple[str, dict[str, str]]:
    """The opening sentences, and what follows each heading; a line that starts none belongs to the
    one above."""
    summary: list[str] = []
    lines: dict[str, str] = {}
    current = ""
    for line in text.splitlines():
        heading = next((name for name in HEADINGS if line.startswith(f"{name}:")), None)
        if heading is not None:
            current = heading
            lines[current] = line.removeprefix(f"{heading}:").strip()
        elif current:
            lines[current] = f"{lines[current]} {line.strip()}".strip()
        elif line.strip():
            summary.append(line.strip())
    return " ".join(summary), lines


def _parameters(text: str) -> dict[str, str]:
    """`name, other : words`, continued on indented lines."""
    out: dict[str, str] = {}
    current: list[str] = []
    for line in text.strip("\n").splitlines():
        names, colon, words = f"{line} ".partition(" : ")
        if colon and not line.startswith(" "):
            current = [name.strip() for name in names.split(",")]
            out |= dict.fromkeys(current, words.strip())
        elif line.strip():
            out |= {name: f"{out[name]} {line.strip()}".strip() for name in current}
    return out


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return _shown(field.default_factory())
    return "required" if field.default is dataclasses.MISSING else _shown(field.default)


def _shown(value: Any) -> str:
    if value is None or value in ((), [], {}):
        return ""
    return str(value) if isinstance(value, Fraction | int | float | str) else repr(value)
