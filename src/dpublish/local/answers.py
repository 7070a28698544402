"""Rows of an answer file, by the rules of `dpublish.sources.csv.delimited`: no answer, however odd,
makes a row more or less.

What ends the header ends rows, and the other line end is a blank in its cell. In a file of one
column a blank line is a blank answer; with several columns it is no row.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from typing import TextIO


def header_and_rows(source: TextIO) -> tuple[list[str], Iterator[dict[str, str]]]:
    """Column names and rows of CSV text that was opened with newline=""; absent cells are empty."""
    lines = _Lines(source)
    table = csv.reader(lines)
    header = next(table, [])
    lines.settle()
    return header, _rows(table, header)


def _rows(table: Iterator[list[str]], header: list[str]) -> Iterator[dict[str, str]]:
    for cells in table:
        if cells or len(header) == 1:
            yield dict(zip(header, [*cells, *[""] * (len(header) - len(cells))], strict=False))


class _Lines:
    """The lines of a text whose line end is settled by the one read last."""

    def __init__(self, source: TextIO) -> None:
        self._source: Iterator[str] = source
        self._last = ""
        self._ends: tuple[str, ...] = ("",)  # any line end will do

    def settle(self) -> None:
        held: list[str] = []
        if self._last.endswith("\r"):
            while (not held or held[-1] == "\r") and (
                piece := next(self._source, None)
            ) is not None:
                held.append(piece)
            # with nothing but more carriage returns before a line feed, the line feed is what ends
            # the header
            if held[-1:] != ["\r\n"]:
                self._source, self._ends = itertools.chain(held, self._source), ("\r", "\r\n")
                return
        self._ends = ("\n",)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        parts = [next(self._source)]
        while not parts[-1].endswith(self._ends) and (more := next(self._source, None)) is not None:
            parts[-1] = parts[-1].rstrip("\r\n") + " "
            parts.append(more)
        self._last = parts[-1]
        return "".join(parts)
