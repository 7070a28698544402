"""Stated sizes are judged before a reader allocates them: honest files pass, and no altered byte
ends the process."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpublish.errors import BundleError
from dpublish.releases.bundle import bundle
from dpublish.releases.bundle.bundle import read_table
from dpublish.releases.bundle.parquet_pages import Unbelievable, stated_rows


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


LARGE = 1 << 30
SMALL = pl.DataFrame({"cell": np.arange(120, dtype=np.uint64) * 3, "count": np.arange(120) % 7})


@pytest.mark.parametrize(
    "frame",
    [
        SMALL,
        SMALL.clear(),
        pl.DataFrame(
            {
                "text": ["a", None, "é"],
                "flag": [True, False, None],
                "day": pl.Series([1, 2, 3]).cast(pl.Date),
            }
        ),
        pl.DataFrame(
            {
                "many": np.arange(300_000) // 7,
                "names": np.arange(300_000).astype(str),
                "real": np.ones(300_000),
            }
        ),
    ],
    ids=["small", "empty", "kinds", "many pages"],
)
def test_honest_files_pass(frame: pl.DataFrame) -> None:
    assert stated_rows(parquet(frame), LARGE) == frame.height
    assert read_table(parquet(frame), "t.parquet", frame.height).equals(frame)


def test_a_negative_count_is_refused_before_it_is_allocated() -> None:
    """In a page header a whole number is one byte, 2 n or, below zero, -2 n - 1: the 120 values of
    a page become -120."""
    data = parquet(SMALL)
    places = [place for place in range(len(data) - 1) if data[place : place + 2] == bytes([240, 1])]
    refused = 0
    for place in places:
        altered = data[:place] + bytes([239, 1]) + data[place + 2 :]
        with contextlib.suppress(Unbelievable):
            stated_rows(altered, LARGE)
            continue
        refused += 1
    # both columns: in the footer (rows of the file and of its group, values of the chunk) and in a
    # page header each
    assert refused >= 6


def test_wrong_totals_are_refused() -> None:
    data = parquet(SMALL)
    for rows in (0, 119, 121):
        with pytest.raises(BundleError, match="number of rows"):
            read_table(data, "t.parquet", rows)
    with pytest.raises(Unbelievable):
        stated_rows(data[:-8] + (1 << 30).to_bytes(4, "little") + b"PAR1", LARGE)


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


def many_pages() -> bytes:
    """Each page within bounds: a letter over and over, some bytes in the file."""
    buffer = io.BytesIO()
    pl.DataFrame({"name": ["a" * (1 << 20)] * 20}).write_parquet(
        buffer, row_group_size=1, statistics=False
    )
    return buffer.getvalue()


def many_columns() -> bytes:
    """One value, said once for all rows of each column: pages of some bytes."""
    return parquet(
        pl.DataFrame({f"c{number}": np.zeros(100_000, dtype=np.int64) for number in range(20)})
    )


def shared_prefixes() -> bytes:
    """Texts that say only how much of the one before they repeat."""
    buffer = io.BytesIO()
    table = pa.table({"name": ["a" * 1000] * 20_000})
    pq.write_table(
        table,
        buffer,
        use_dictionary=False,
        column_encoding={"name": "DELTA_BYTE_ARRAY"},
        write_statistics=False,
    )
    return buffer.getvalue()


@pytest.mark.parametrize("made", [many_pages, many_columns, shared_prefixes])
def test_small_files_that_ask_for_much_memory_are_refused(
    made: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of 100 KB that took as many gigabytes as their maker liked; here all is a hundred times
    smaller."""
    data = made()
    rows = pl.read_parquet(io.BytesIO(data)).height
    assert len(data) < 10_000
    monkeypatch.setattr(bundle, "_FREE_MEMORY", 10 << 20)
    with pytest.raises(BundleError, match="too much memory"):
        read_table(data, "t.parquet", rows)


def test_the_tables_of_a_release_share_what_they_may_ask_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = pl.DataFrame({"name": ["a" * (3 << 20)]})
    monkeypatch.setattr(bundle, "_FREE_MEMORY", 10 << 20)
    assert read_table(parquet(frame), "t.parquet", 1, tables=2).equals(frame)
    with pytest.raises(BundleError, match="too much memory"):
        read_table(parquet(frame), "t.parquet", 1, tables=8)


def test_columns_that_are_no_structures_are_refused() -> None:
    """No rows, and one row group whose list of columns holds a number."""
    footer = bytes.fromhex("3600191c19150226000000")
    data = b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(BundleError, match="cannot be read as Parquet"):
        read_table(data, "t.parquet", 0)
