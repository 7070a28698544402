"""Text straight to codes, against reading the text first and encoding it then: the same rows,
whatever the text holds."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpublish.declare.domain import Domain
from dpublish.declare.encode import Encoder
from dpublish.declare.schema import Schema
from dpublish.sources.csv import delimited, text_codes
from dpublish.sources.csv.delimited import DelimitedFile

PIECES = [
    "a",
    "smith, jr",
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    "\x00",
    "\x1e",
    "\x1f",
    "é",
    "1",
    " 7 ",
    "-0",
    "12.0",
    "1e400",
]
PIECES += [
    "nan",
    "2020-01-31",
    "2020-02-30",
    "true",
    "No",
    "a long word indeed",
    "x" * 70,
    "\ufeff",
    "?",
    " ",
]


def schema() -> Schema:
    return Schema.from_toml("""
[dataset]
name = "t"
[columns.word]
kind = "categorical"
levels = ["a", "smith, jr", "1", "a long word indeed", "é"]
outside = "other"
[columns.size]
kind = "integer"
lower = 0
upper = 999
missing = true
[columns.share]
kind = "real"
lower = -1.0
upper = 1.0
bins = 300
outside = "drop"
[columns.day]
kind = "date"
lower = 2020-01-01
upper = 2020-12-31
bins = 12
missing = true
[columns.flag]
kind = "boolean"
""")


def random_bytes(rng: random.Random, records: int, *, wild: bool) -> bytes:
    names = ["who", "word", "spare", "size", "share", "day", "flag"]
    end = rng.choice(["\n", "\r\n", "\r"])
    usual = [
        lambda: rng.choice(["u1", "u2", " u1 ", "", "7", "7.0"]),
        lambda: rng.choice(["a", "smith, jr", "1.0", "a long word indeed", "é", "none", ""]),
        lambda: "spare",
        lambda: str(rng.randint(-3, 1200)),
        lambda: rng.choice(["0.5", "-0.25", str(rng.uniform(-1, 1)), ""]),
        lambda: rng.choice(["2020-01-31", "2020-05-01", "2021-01-01", "", "never"]),
        lambda: rng.choice(["true", "NO", "1", "maybe"]),
    ]
    lines = [",".join(names)]
    for _ in range(records):
        cells = [
            "".join(rng.choices(PIECES, k=rng.randint(0, 3)))
            if wild and rng.random() < 0.3
            else make()
            for make in usual
        ]
        quoted = [
            '"' + cell.replace('"', '""') + '"' if "," in cell or rng.random() < 0.2 else cell
            for cell in cells
        ]
        if wild:
            quoted = quoted[: rng.randint(1, 9)] + ["more"] * (rng.random() < 0.1)
            quoted = [cell[:-1] if rng.random() < 0.02 else cell for cell in quoted]
        lines.append(",".join(quoted))
    data = bytearray((end.join(lines) + end * rng.randint(0, 2)).encode())
    for _ in range(rng.choice([0, 3]) if wild else 0):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def slow(
    file: DelimitedFile, domain: Domain, unit: str | None
) -> tuple[list[list[int]], list[str | None]]:
    frames = list(file.batches(list(file.columns())))
    frame = (
        pl.concat(frames)
        if frames
        else pl.DataFrame(dict.fromkeys(file.columns(), pl.Series([], dtype=pl.String)))
    )
    batch = Encoder(domain).encode(frame)
    kept = frame if batch.keep is None else frame.filter(pl.Series(batch.keep))
    return [codes.tolist() for codes in batch.kept()], [] if unit is None else kept[unit].to_list()


def fast(
    file: DelimitedFile, domain: Domain, unit: str | None, *, chunk: int, workers: int
) -> tuple[list[list[int]], list[str | None]]:
    codes: list[list[int]] = [[] for _ in domain.axes]
    units: list[str | None] = []
    for batch, names in file.coded(Encoder(domain), unit, chunk=chunk, workers=workers):
        assert [column.dtype for column in batch.codes] == Encoder(domain).dtypes
        for column, more in zip(codes, batch.kept(), strict=True):
            column += more.tolist()
        if unit is not None:
            assert names is not None
            units += (
                names if batch.keep is None else names.filter(pl.Series(batch.keep))
            ).to_list()
    return codes, units


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memories, blocks and stretches so small that all of them overflow."""
    monkeypatch.setattr(text_codes, "_ENTRIES", 64)
    monkeypatch.setattr(text_codes, "_LONG_BYTES", 50)
    monkeypatch.setattr(text_codes, "_BLOCK_CELLS", 60)
    monkeypatch.setattr(text_codes, "_FIRST_BLOCK", 3)
    monkeypatch.setattr(delimited, "_STRETCH", 40)


def check(seed: int, folder: Path, *, wild: bool, records: int, chunks: tuple[int, ...]) -> None:
    rng = random.Random(seed)
    path = folder / "t.csv"
    path.write_bytes(random_bytes(rng, records, wild=wild))
    file = DelimitedFile(path, separator=",")
    names = [name for name in schema().columns if name in file.columns()]
    if not names:
        return
    domain = schema().domain(rng.sample(names, rng.randint(1, len(names))))
    unit = "who" if "who" in file.columns() and rng.random() < 0.5 else None
    for chunk in chunks:
        for workers in (1, 3):
            assert fast(file, domain, unit, chunk=chunk, workers=workers) == slow(
                file, domain, unit
            ), (seed, chunk, workers)


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("group", range(2))
def test_codes_are_those_of_the_text(wild: bool, group: int, tmp_path: Path, small: None) -> None:
    for seed in range(4 * group + 10, 4 * group + 14):
        check(seed, tmp_path, wild=wild, records=40, chunks=(211, 1 << 20))


@pytest.mark.parametrize("seed", range(3))
def test_codes_are_those_of_the_text_at_full_size(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, wild=seed == 1, records=6_000, chunks=(100_000, 1 << 25))


@pytest.mark.nightly
@pytest.mark.parametrize("group", range(10))
def test_codes_are_those_of_the_text_at_length(group: int, tmp_path: Path, small: None) -> None:
    for seed in range(1000 + 50 * group, 1050 + 50 * group):
        check(seed, tmp_path, wild=seed % 3 > 0, records=60, chunks=(61, 1 << 20))


LINE_ENDS = [
    (
        b"size,word\n",
        [
            b"1,a\rb\r\r7,a\n",
            b'2,"a"\r\n',
            b"3,a\r\n",
            b"\n",
            b"\r\n",
            b"4\r,\r\n",
            b"5,1234567\r\n",
        ],
    ),
    (b"size,word\r\n", [b"1,a\rb\r\r7,a\r\n", b'2,"a\r"\r\n', b"3,a\r\r\n", b"\r\n", b'"4",\r\n']),
    (b'"size",word\r', [b"1,a\nb\n\n7,a\r", b'2,"a\r"\r', b"3,a\n\r", b"\r"]),
    (b"size\n", [b"1\n", b"\n", b"\r\n", b"2\r3\n", b'""\n', b"4\r\n"]),
    (b"size\r\n", [b"1\r\n", b"\r\n", b"\n", b"\r5\r\n"]),
    (b"size\r", [b"1\r", b"\r", b"2\n3\r", b"\n\r"]),
]


@pytest.mark.parametrize(("header", "lines"), LINE_ENDS)
@pytest.mark.parametrize("zipped", [False, True])
def test_line_ends_are_those_of_the_header(
    header: bytes, lines: list[bytes], zipped: bool, tmp_path: Path, small: None
) -> None:
    """Text, codes and counts agree on the records, wherever a chunk or a stretch is cut."""
    rng = random.Random(5)
    drawn = rng.choices(lines, k=40)
    path = tmp_path / "t.csv"
    data = (
        header + lines[0] + b"".join(drawn)
    )  # the first line shows whether the header ended in a carriage return alone
    path.write_bytes(gzip.compress(data) if zipped else data)
    file = DelimitedFile(path, separator=",", packed=".gz" if zipped else "")
    records = 1 + (
        len(drawn) if len(file.columns()) == 1 else sum(line.strip() != b"" for line in drawn)
    )
    domain = schema().domain(list(file.columns()))
    texts = [list(file.batches(file.columns(), chunk=chunk)) for chunk in (1, 2, 3, 17, 1 << 20)]
    assert all(pl.concat(frames).equals(pl.concat(texts[-1])) for frames in texts)
    assert sum(frame.height for frame in texts[-1]) == file.count_rows() == records
    for chunk in (1, 2, 3, 17, 1 << 20):
        for workers in (1, 3):
            assert fast(file, domain, None, chunk=chunk, workers=workers) == slow(
                file, domain, None
            )


@pytest.mark.parametrize("note", ["\r1" * 500, "\r" * 500, "\r1,a" * 500, "a\r\r"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_cell_makes_no_second_record(note: str, end: str, tmp_path: Path, small: None) -> None:
    """However many carriage returns a person writes: programs that export rows do not quote
    them."""
    path = tmp_path / "t.csv"
    path.write_text(end.join(["size,word,note", "1,a,-", f"2,a,{note}", "3,a,-", ""]), newline="")
    file = DelimitedFile(path, separator=",")
    domain = schema().domain(["size", "word"])
    assert file.count_rows() == 3
    for chunk in (1, 50, 1 << 20):
        assert fast(file, domain, None, chunk=chunk, workers=3)[0] == [[1, 2, 3], [0, 0, 0]]


def test_nulls_of_a_single_column_are_records(tmp_path: Path) -> None:
    """Polars writes them as blank lines."""
    path = tmp_path / "t.csv"
    pl.DataFrame({"size": [None, 1, None, None, 2, None]}).write_csv(path)
    file = DelimitedFile(path, separator=",")
    assert file.count_rows() == 6
    assert len(fast(file, schema().domain(["size"]), None, chunk=3, workers=2)[0][0]) == 6


def test_a_cut_inside_quotes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line feed but the last of each record is inside quotes, so nearly every cut is
    wrong."""
    monkeypatch.setattr(delimited, "_STRETCH", 16)
    record = '1,"a\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\nb",0.5\n'
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(("size,word,share\n" + record * 200).encode()))
    file = DelimitedFile(path, separator=",", packed=".gz")
    domain = schema().domain(["size", "share"])
    for chunk in (100, 1_000, 1 << 20):
        codes, _ = fast(file, domain, None, chunk=chunk, workers=4)
        assert codes == slow(file, domain, None)[0]
        assert len(codes[0]) == 200


def test_a_byte_order_mark_belongs_to_its_cell(tmp_path: Path) -> None:
    """Wherever a chunk starts: only at the beginning of the file is it no text."""
    path = tmp_path / "t.csv"
    path.write_text("\ufeffsize,word\n" + "1,\ufeffa\n\ufeff2,a\n" * 20, encoding="utf-8")
    file = DelimitedFile(path, separator=",")
    for chunk in (1, 9, 50, 1 << 20):
        words = [word for frame in file.batches(["word"], chunk=chunk) for word in frame["word"]]
        sizes = [size for frame in file.batches(["size"], chunk=chunk) for size in frame["size"]]
        assert words == ["\ufeffa", "a"] * 20
        assert sizes == ["1", "\ufeff2"] * 20


def test_a_collision_of_long_cells_gives_no_wrong_code() -> None:
    """All long cells of one length are made to share a hash; what tells them apart is the
    comparison of bytes."""
    from dpublish.sources.csv.kernels import memo

    entries, places = np.zeros(64, dtype=np.uint64), np.zeros(32, dtype=np.int64)
    known = memo.Memo(
        entries, places, np.zeros(2, dtype=np.int64), np.zeros(256, dtype=np.uint8), 5
    )
    data = np.frombuffer(b"first-cell|other-cell", dtype=np.uint8)
    looks = np.zeros(1, dtype=np.uint8)
    memo.learn(known, 0, data, looks, np.array([0]), np.array([10]), np.array([3], dtype=np.uint32))
    place = int(np.flatnonzero(entries)[0]) // 2
    key = np.uint64(entries[2 * place])
    assert memo._find(entries, places, known.bytes, 5, 0, key, data, 0, 10) == place
    assert memo._find(entries, places, known.bytes, 5, 0, key, data, 11, 21) != place
