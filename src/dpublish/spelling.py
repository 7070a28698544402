"""What the spelling of a cell does not say: blanks around it, and a zero fraction. Needs no package, so devices can use it."""

from __future__ import annotations

BLANKS = " \t\n\r\x0b\x0c\xa0"
ZERO_FRACTION = r"^([+-]?[0-9]+)\.0+$"
