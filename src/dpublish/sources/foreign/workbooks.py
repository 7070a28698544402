"""Rows of Excel and OpenDocument workbooks, in the child of `child`.

The first row that holds anything names the columns; cells under no name are not read, and a row
without a filled cell under one is no row. Each cell is handed over by itself, as text: a number, a
truth, a date or a time as `objects` spells it, in one column for what the workbook holds as such
and in a second for texts, since only texts are written in somebody's way ([source]). An error
such as #N/A is an empty cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from dpublish.declare.spelling import BLANKS
from dpublish.errors import InputError, did_you_mean
from dpublish.sources.foreign.child import Answer
from dpublish.sources.objects import cell_text

_ROWS = 1 << 13


def read(asked: dict[str, Any]) -> Answer:
    """The sheet that was asked for, or the only one."""
    import python_calamine

    path, wanted = asked["path"], asked["sheet"]
    book = python_calamine.CalamineWorkbook.from_path(path)
    names = list(book.sheet_names)
    if wanted is None and len(names) != 1:
        listed = ", ".join(f"'{name}'" for name in names[:12])
        raise InputError(
            f"The workbook '{path}' has {len(names)} sheets. Say in [source] which one is meant: "
            f'sheet = "...". Sheets: {listed}.'
        )
    if wanted is not None and wanted not in names:
        raise InputError(
            f"The workbook '{path}' has no sheet '{wanted}'.{did_you_mean(wanted, names)} "
            f"Sheets: {', '.join(names[:12])}."
        )
    rows = iter(book.get_sheet_by_name(wanted or names[0]).iter_rows())
    header = next((row for row in rows if any(cell != "" for cell in row)), None)
    if header is None:
        raise InputError(f"The sheet of '{path}' is empty. Its first row must name the columns.")
    columns = [(cell_text(cell) or "").strip(BLANKS) for cell in header]
    places = [place for place, name in enumerate(columns) if name]
    if not asked["rows"]:
        return Answer({"names": [columns[place] for place in places]})
    return Answer({}, lambda: _batches(rows, places, [places[i] for i in asked["places"]]))


def _batches(
    rows: Iterator[Sequence[Any]], places: Sequence[int], chosen: Sequence[int]
) -> Iterator[Any]:
    import pyarrow as pa

    while block := list(islice(rows, _ROWS)):
        filled = [row for row in block if any(row[place] != "" for place in places)]
        arrays = []
        for place in chosen:
            cells = [row[place] for row in filled]
            native = [None if isinstance(cell, str) else cell_text(cell) for cell in cells]
            texts = [cell_text(cell) if isinstance(cell, str) else None for cell in cells]
            arrays += [pa.array(native, pa.large_string()), pa.array(texts, pa.large_string())]
        names = [f"{kind}{i}" for i in range(len(chosen)) for kind in ("native", "text")]
        yield pa.record_batch(arrays, names=names)
