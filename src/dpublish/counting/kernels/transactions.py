"""Item codes of rows to tidy records: sorted, distinct, empty ones left out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpublish.compiled import njit


@njit(cache=True, nogil=True)
def tidy_records(
    codes: NDArray,
    lengths: NDArray[np.int64],
    keep: NDArray[np.bool_],
    most: int,
    items: NDArray,
    offsets: NDArray[np.int64],
) -> int:
    """Write each kept record's codes (negative ones are no items) ascending and once each; returns
    how many records have any.

    A record keeps its `most` least codes: it is cut by a rule that looks at nothing else. Long
    records are sorted through a copy, so that one record with every item does not take a quadratic
    time.
    """
    record, used, at = 0, 0, 0
    for row in range(lengths.size):
        stop = at + lengths[row]
        if keep[row]:
            begin = used
            if stop - at <= 64:
                for k in range(at, stop):
                    x = codes[k]
                    if x < 0:
                        continue
                    j = used - 1
                    while j >= begin and items[j] > x:
                        j -= 1
                    if j >= begin and items[j] == x:
                        continue
                    for i in range(used - 1, j, -1):
                        items[i + 1] = items[i]
                    items[j + 1] = x
                    used += 1
            else:
                ordered = np.sort(codes[at:stop])
                for k in range(ordered.size):
                    x = ordered[k]
                    if x >= 0 and (used == begin or items[used - 1] != x):
                        items[used] = x
                        used += 1
            used = min(used, begin + most)
            if used > begin:
                record += 1
                offsets[record] = used
        at = stop
    return record
