"""Lines without end: each is one row of which nothing can be read, wherever the reader's chunks
begin, in bounded time."""

from __future__ import annotations

import gzip
import subprocess
import sys
import time
import traceback
from pathlib import Path

import polars as pl
import pytest

import dpublish as dp
from dpublish.counting.graphs import open_structure
from dpublish.declare.encode import Encoder
from dpublish.declare.schema import Schema
from dpublish.errors import InputError, SchemaError
from dpublish.sources.csv.delimited import DelimitedFile
from dpublish.sources.sources import open_source
from dpublish.sources.texts import LONGEST_ROW, LONGEST_TEXT
from peak_memory import PEAK

SCHEMA = Schema.from_toml("""
[dataset]
name = "x"
neighbours = "add-remove-one"
[columns.a]
kind = "categorical"
levels = ["x", "y"]
outside = "other"
[columns.b]
kind = "integer"
lower = 0
upper = 9
missing = true
""")
LOST = ("\ufffd", "\ufffd")
QUOTED = b'"' + b"q" * 60_000 + b'\n",'


def rows_of(path: Path, chunk: int) -> list[tuple[str | None, ...]]:
    file = DelimitedFile(path, separator=",", packed=".gz" if path.suffix == ".gz" else "")
    return [row for frame in file.batches(["a", "b"], chunk=chunk) for row in frame.iter_rows()]


LINES: dict[str, tuple[bytes, tuple[str, str] | None]] = {
    "long cell": (b"x," + b"7" * (LONGEST_TEXT + 1), ("x", "\ufffd")),
    "longest cell": (
        b"x," + b" " * (LONGEST_TEXT - 1) + b"7",
        ("x", " " * (LONGEST_TEXT - 1) + "7"),
    ),
    "longest line": (b"x,7," + b"z" * (LONGEST_ROW - 4), ("x", "7")),
    "long line": (b"x,7," + b"z" * (LONGEST_ROW - 3), LOST),
    "longer than chunks": (b"x,7," + b"z" * (3 * LONGEST_ROW), LOST),
    "quoted line ends": (b"x,7," + QUOTED * (LONGEST_ROW // len(QUOTED) + 3) + b"z", None),
}


@pytest.mark.parametrize(("chunk", "workers"), [(1 << 22, 1), (10_000_019, 3), (1 << 26, 2)])
@pytest.mark.parametrize("name", LINES)
def test_where_a_long_line_ends_does_not_depend_on_chunks(
    name: str, chunk: int, workers: int, tmp_path: Path
) -> None:
    line, cells = LINES[name]
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\nx,1\n" + line + b"\ny,2\n" * 2 + line)
    rows = rows_of(path, chunk)
    if cells is not None:
        assert rows == [("x", "1"), cells, ("y", "2"), ("y", "2"), cells]
    else:  # quoted line ends beyond the limit count, so what is left of the line is more rows
        assert rows[:2] == [("x", "1"), LOST]
        assert rows == rows_of(path, 1 << 27)
    file = DelimitedFile(path, separator=",")
    assert file.count_rows() == len(rows)
    encoder = Encoder(SCHEMA.domain(["a", "b"]))
    expected = encoder.encode(
        pl.DataFrame(rows, schema={"a": pl.String, "b": pl.String}, orient="row")
    )
    coded = [batch for batch, _ in file.coded(encoder, None, chunk=chunk, workers=workers)]
    for column in range(2):
        assert [code for batch in coded for code in batch.codes[column]] == expected.codes[
            column
        ].tolist()


def test_a_line_of_gigabytes_takes_bounded_time_and_memory(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a,b\nx,1\nx,")
        for _ in range(64):
            file.write(b"z" * (1 << 24))
        file.write(b"\ny,2\n")
    (tmp_path / "s.toml").write_text(SCHEMA.to_toml())
    read = PEAK + (
        "from dpublish.counting.cells import count_cells\n"
        "from dpublish.sources.sources import open_source\n"
        "from dpublish.declare.schema import Schema\nschema = Schema.read(sys.argv[2])\n"
        "counts = count_cells(open_source(sys.argv[1]), schema, schema.domain(['a', 'b']), "
        "key=bytes(16)).counts\n"
        "print(int(counts.sum()), peak())\n"
    )
    started = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", read, str(path), str(tmp_path / "s.toml")],
        capture_output=True,
        text=True,
        check=True,
    )
    found, memory = map(int, run.stdout.split())
    assert found == 3
    assert memory < 1 << 30, f"{memory >> 20} MB"
    assert time.monotonic() - started < 120


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz"])
def test_a_long_line_of_items_is_one_row(name: str, tmp_path: Path) -> None:
    for size in (LONGEST_TEXT, LONGEST_TEXT + 1, 1 << 26):
        text = b"milk\n" + b"z" * size + b"\nbread\n" + b"z" * size
        (tmp_path / name).write_bytes(gzip.compress(text, 1) if name.endswith(".gz") else text)
        long = "z" * size if size <= LONGEST_TEXT else "\ufffd"
        for source in (open_source(tmp_path / name), open_structure(tmp_path / name, "items")):
            column = source.columns()[0]
            cells = [
                cell for frame in source.batches([column]) for cell in frame.get_column(column)
            ]
            assert cells == ["milk", long, "bread", long]
            assert source.count_rows() == 4


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_header_without_end_is_refused_at_once(name: str, tmp_path: Path) -> None:
    head = b"a,b," + b"c" * 300_000_000
    (tmp_path / name).write_bytes(gzip.compress(head, 1) if name.endswith(".gz") else head)
    started = time.process_time()
    with pytest.raises(InputError, match="first line of more than 1,048,576 bytes"):
        open_source(tmp_path / name)
    assert time.process_time() - started < 3


def test_a_header_of_a_megabyte_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a," + b"c" * ((1 << 20) - 3) + b"\n1,2\n")
    assert [len(name) for name in open_source(path).columns()] == [1, (1 << 20) - 3]
    path.write_bytes(b"a," + b"c" * ((1 << 20) - 1) + b"\n1,2\n")
    with pytest.raises(InputError, match="first line"):
        open_source(path)


@pytest.mark.parametrize("repeated", [1, 1_000_000])
def test_no_variable_of_a_traceback_holds_a_row(repeated: int, tmp_path: Path) -> None:
    """A file without a header has a row in its place, and programs that report errors print local
    variables."""
    text = b"CANARY" * repeated + b",7\nCANARY,8\n"
    for name, content in (
        ("t.csv", text),
        ("t.csv.gz", gzip.compress(text)),
        ("u.csv.gz", gzip.compress(text)[:-9]),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises((InputError, SchemaError)) as caught:
            dp.Curator(
                tmp_path / name, SCHEMA, ledger=tmp_path / "l.ledger", budget=dp.Budget(epsilon=1)
            ).publish(dp.Histogram(columns=["a", "b"]), epsilon=1, seed=1)
        error: BaseException | None = caught.value
        while error is not None:
            frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
            ours = [frame for frame in frames if frame.f_code.co_filename != __file__]
            assert not [1 for frame in ours if "CANARY" in repr(frame.f_locals)]
            error = error.__context__
