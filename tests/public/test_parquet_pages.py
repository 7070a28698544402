"""Stated sizes are judged before a reader allocates them: honest files pass, and no altered byte ends the process."""

from __future__ import annotations

import contextlib
import io
import random

import numpy as np
import polars as pl
import pytest

from dpublish.errors import BundleError
from dpublish.public.bundle import read_table
from dpublish.public.parquet_pages import Unbelievable, stated_rows


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


SMALL = pl.DataFrame({"cell": np.arange(120, dtype=np.uint64) * 3, "count": np.arange(120) % 7})


@pytest.mark.parametrize(
    "frame",
    [
        SMALL,
        SMALL.clear(),
        pl.DataFrame({"text": ["a", None, "é"], "flag": [True, False, None], "day": pl.Series([1, 2, 3]).cast(pl.Date)}),
        pl.DataFrame({"many": np.arange(300_000) // 7, "names": np.arange(300_000).astype(str), "real": np.ones(300_000)}),
    ],
    ids=["small", "empty", "kinds", "many pages"],
)
def test_honest_files_pass(frame: pl.DataFrame) -> None:
    assert stated_rows(parquet(frame)) == frame.height
    assert read_table(parquet(frame), "t.parquet", frame.height).equals(frame)


def test_a_negative_count_is_refused_before_it_is_allocated() -> None:
    """In a page header a whole number is one byte, 2 n or, below zero, -2 n - 1: the 120 values of a page become -120."""
    data = parquet(SMALL)
    places = [place for place in range(len(data) - 1) if data[place : place + 2] == bytes([240, 1])]
    refused = 0
    for place in places:
        altered = data[:place] + bytes([239, 1]) + data[place + 2 :]
        with contextlib.suppress(Unbelievable):
            stated_rows(altered)
            continue
        refused += 1
    # both columns: in the footer (rows of the file and of its group, values of the chunk) and in a page header each
    assert refused >= 6


def test_wrong_totals_are_refused() -> None:
    data = parquet(SMALL)
    for rows in (0, 119, 121):
        with pytest.raises(BundleError, match="number of rows"):
            read_table(data, "t.parquet", rows)
    with pytest.raises(Unbelievable):
        stated_rows(data[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1")


def test_no_altered_byte_ends_the_process() -> None:
    """Before sizes were judged, about one altered file in 100,000 made the reader abort."""
    data, dice = parquet(SMALL), random.Random(5)
    for place in range(4, len(data) - 4):
        altered = bytearray(data)
        altered[place] ^= 1 << dice.randrange(8)
        try:
            frame = read_table(bytes(altered), "t.parquet", 120)
        except BundleError:
            continue
        assert frame.height == 120
