"""What a method says of itself: its headed lines and its settings, read from its docstring and its
fields.

One reading serves `dpublish methods` and the reference page, so that neither can drift from the
code.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

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
    text = inspect.cleandoc(method.__doc__ or "")
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
