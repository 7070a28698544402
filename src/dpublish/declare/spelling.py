"""What the spelling of a cell does not say: blanks around it, and a zero fraction. Needs no
package, so devices can use it."""

from __future__ import annotations

import re

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
