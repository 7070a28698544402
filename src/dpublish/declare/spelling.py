"""What the spelling of a cell does not say: blanks around it, and a zero fraction; and lists of
names in text files. Needs no package, so devices can use it."""

from __future__ import annotations

import re
from pathlib import Path

from dpublish.errors import SchemaError

BLANKS = " \t\n\r\x0b\x0c\xa0"
ZERO_FRACTION = r"^([+-]?[0-9]+)\.0+$"
MARK = "\ufeff"
"""A byte order mark, which some editors put before the first letter of a file. In files without a
header it is taken off every line: were it taken off the first one only, what a line means would
depend on whether another stands before it."""


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts 'item 2' before 'item 11', and numbers as numbers."""
    parts = re.split(r"([0-9]+)", text)
    return tuple((int(p), "") if p.isdecimal() and p.isascii() else (-1, p) for p in parts)


def filled_lines(path: Path, what: str) -> list[str]:
    """The lines of a text file that say something, without the blanks around them."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SchemaError(f"{what} '{path}' cannot be read ({type(error).__name__}).") from None
    return [line.strip() for line in lines if line.strip()]
