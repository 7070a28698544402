"""What the spelling of a cell does not say: blanks around it, and a zero fraction. Needs no
package, so devices can use it."""

from __future__ import annotations

BLANKS = " \t\n\r\x0b\x0c\xa0"
ZERO_FRACTION = r"^([+-]?[0-9]+)\.0+$"
MARK = "\ufeff"
"""A byte order mark, which some editors put before the first letter of a file. In files without a
header it is taken off every line: were it taken off the first one only, what a line means would
depend on whether another stands before it."""
