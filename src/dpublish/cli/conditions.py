"""Commands that take conditions: one that starts with a minus (`-2 * age > 40`) is no option."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class Conditions(TyperCommand):
    """Puts a space before such a condition, which the parser of options then leaves alone and that
    of conditions ignores."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if _condition(word) else word for word in args])


def _condition(word: str) -> bool:
    return (
        word.startswith("-") and not word.startswith("--") and any(sign in word for sign in "<>=")
    )
