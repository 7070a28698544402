"""Files of a few kilobytes that stand for gigabytes of cells are read, within a memory that does
not follow them.

To refuse them would be to speak of rows: the sizes of cells are as private as what they hold.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

from peak_memory import PEAK

MOST = 1 << 30
"""Bytes of memory that the docs promise not to exceed for these files, everything included."""

CELL, ROWS = 1 << 20, 9_000

READ = (
    PEAK
    + """
from dpublish.methods.set_partition.transactions import Transactions
from dpublish.counting.transactions import compute
from dpublish.counting.cells import count_cells
from dpublish.sources.sources import open_source
from dpublish.declare.schema import Schema
path, kind = sys.argv[1:]
head = '[dataset]\\nname = "x"\\nneighbours = "add-remove-one"\\n'
unit = 'unit = "v"\\nmax_rows_per_unit = 1\\n' if kind == "unit" else ""
column = '[columns.v]\\nkind = "categorical"\\nlevels = ["a"]\\noutside = "other"\\n'
if kind in ("lists", "items"):
    schema = Schema.from_toml(head + '[items]\\nuniverse = ["a"]\\noutside = "other"\\n')
    found = compute(Transactions("v"), open_source(path), schema, key=bytes(16)).offsets.size - 1
else:
    schema = Schema.from_toml(head + unit + column)
    found = int(count_cells(open_source(path), schema, schema.domain(["v"]), key=bytes(16)).counts.sum())
print(found, peak())
"""
)


def bomb(path: Path, rows: int, *, lists: bool = False) -> None:
    texts = pa.array([letter * CELL for letter in "abcdefghi"])
    cells = pa.DictionaryArray.from_arrays(
        pa.array(np.arange(rows, dtype=np.int32) % len(texts)), texts
    )
    if lists:
        cells = pa.ListArray.from_arrays(pa.array(np.arange(0, rows + 1, 3, dtype=np.int32)), cells)
    table = pa.table({"v": cells})
    if path.suffix == ".parquet":
        pq.write_table(
            table, path, compression="gzip", store_schema=False, dictionary_pagesize_limit=1 << 30
        )
    else:
        with pa.OSFile(str(path), "wb") as file:
            writer = ipc.new_file(
                file, table.schema, options=ipc.IpcWriteOptions(compression="zstd")
            )
            writer.write_table(table)
            writer.close()
    assert path.stat().st_size < 49_000


@pytest.mark.parametrize(
    ("name", "kind", "rows", "kept"),
    [
        ("t.parquet", "column", ROWS, ROWS),
        ("t.arrow", "column", ROWS, ROWS),
        ("t.parquet", "unit", ROWS, 0),
        ("t.parquet", "lists", ROWS, ROWS // 3),
        ("t.arrow", "lists", ROWS, ROWS // 3),
        (
            "t.parquet",
            "items",
            ROWS // 4,
            ROWS // 4,
        ),  # cut into items text by text, which takes its time
    ],
)
def test_nine_gigabytes_from_a_few_kilobytes(
    name: str, kind: str, rows: int, kept: int, tmp_path: Path
) -> None:
    bomb(tmp_path / name, rows, lists=kind == "lists")
    run = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / name), kind],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    found, memory = map(int, run.stdout.split())
    assert found == kept
    assert memory < MOST, f"{memory >> 20} MB"


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY"])
def test_texts_that_are_stored_row_by_row(encoding: str, tmp_path: Path) -> None:
    """More than a gigabyte of texts of their own, well compressed: no large batch of them may be
    read at once."""
    path = tmp_path / "t.parquet"
    writer = pq.ParquetWriter(
        path,
        pa.schema([("v", pa.string())]),
        compression="zstd",
        use_dictionary=False,
        column_encoding={"v": encoding},
    )
    for start in range(0, 1_500, 100):
        writer.write_table(
            pa.table({"v": ["x" * (CELL - 7) + f"{n:07d}" for n in range(start, start + 100)]}),
            1_000,
        )
    writer.close()
    run = subprocess.run(
        [sys.executable, "-c", READ, str(path), "column"],
        capture_output=True,
        text=True,
        check=True,
    )
    found, memory = map(int, run.stdout.split())
    assert found == 1_500
    assert memory < MOST, f"{memory >> 20} MB"
