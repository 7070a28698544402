"""Dealing rows to parts so that one row more or less touches one part only, whatever else is in the
table.

In: coded rows (private) and a key. Out: the part of each row. The j-th of equal rows goes where a
keyed hash of the row's values and j says. A row that is added is the last of its equals, so no
other row changes place; the order of the rows, the number of rows and the rows that a schema drops
do not matter.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.partition import equal_rows


def deal_rows(table: CodedTable, parts: int, key: bytes) -> NDArray[np.uint32]:
    """The part (0 to parts - 1) of each row. Stable for every key; the key only keeps the parts
    balanced."""
    from dpublish.methods.projected_histogram.kernels import deal_copies, mix_codes

    first, second = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    hashes = np.full(table.rows, first, dtype=np.uint64)
    for position, codes in enumerate((*table.columns, table.labels_of)):
        mix_codes(
            hashes, codes, np.uint64((second + 0x9E3779B97F4A7C15 * position) & 0xFFFFFFFFFFFFFFFF)
        )
    group, classes = equal_rows(table)
    out = np.empty(table.rows, dtype=np.uint32)
    deal_copies(group, classes, hashes, parts, out)
    return out


def split_rows(table: CodedTable, parts: int, key: bytes) -> list[CodedTable]:
    """The table in `parts` disjoint parts."""
    dealt = deal_rows(table, parts, key)
    return [table.take(dealt == part) for part in range(parts)]
