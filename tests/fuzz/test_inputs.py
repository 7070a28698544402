"""2,000 hostile tables a run, 200,000 nightly: each is counted, or refused with a text that quotes
none of its cells.

A canary is planted in the cells of every input. It must show up in no exception, log line, warning
or output.
"""

from __future__ import annotations

import datetime as dt
import gzip
import logging
import math
import random
import string
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from dpublish.counting.cells import coded_rows, count_cells
from dpublish.curator.draft import draft
from dpublish.declare.columns import Column
from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.errors import InputError, PublishError
from dpublish.sources.sources import open_source

CANARY = "KANARI7319"
CASES = 2_000
MANY = 200_000
CHUNKS = 5
NAMES = ["a", "b", "who"]
PIECES = [
    CANARY,
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    "\t",
    "\x00",
    "\x1e",
    "\x1f",
    "é",
    "1",
    "-1e400",
    "nan",
    "2020-01-31",
    " ",
    "?",
]
NUMBERS = [
    0,
    -0.0,
    1,
    0.5,
    math.nan,
    math.inf,
    -math.inf,
    5e-324,
    1e308,
    2**31,
    2**32,
    2**53 + 1,
    2**63 - 1,
    -(2**63),
]


def random_schema(rng: random.Random) -> Schema:
    columns = {}
    for name in ("a", "b"):
        kind: Any = rng.choice(["categorical", "ordinal", "boolean", "integer", "real", "date"])
        facts: dict[str, Any] = {"missing": rng.random() < 0.5}
        if kind in ("categorical", "ordinal"):
            facts["levels"] = tuple(
                rng.sample(["x", "1", "0.5", "?", "é", "true", "NA"], rng.randint(1, 5))
            )
        elif kind == "boolean":
            facts["levels"] = ("false", "true")
        elif kind == "date":
            facts.update(
                lower=dt.date(rng.randint(1, 1970), 1, 1),
                upper=dt.date(rng.randint(1971, 9999), 12, 31),
                bins=7,
            )
        elif kind == "integer":
            facts.update(
                lower=-rng.choice([0, 5, 2**40, 2**62 - 1]),
                upper=rng.choice([0, 9, 2**31, 2**62 - 1]),
                bins=rng.randint(1, 3000),
            )
        else:
            facts.update(
                lower=-rng.choice([0.0, 1e-300, 1e300]),
                upper=rng.choice([5e-324, 1.0, 1e300]),
                bins=1,
            )
        columns[name] = Column(name=name, kind=kind, outside=rng.choice(["other", "drop"]), **facts)
    unit = (
        PrivacyUnit(column="who", max_rows=rng.randint(1, 3))
        if rng.random() < 0.4
        else PrivacyUnit()
    )
    return Schema(name="fuzz", columns=columns, unit=unit)


def random_text(rng: random.Random) -> bytes:
    """A text file that starts as a table and is then damaged."""
    separator = rng.choice([",", ",", ",", "\t", ";"])
    header = separator.join(NAMES if rng.random() < 0.95 else rng.sample(NAMES, 2))
    cells = [
        "".join(rng.choices(PIECES, k=rng.choice([1, 1, 1, 2, 5])))
        for _ in range(rng.randint(0, 30))
    ]
    body = "".join(cell + rng.choice([separator, separator, "\n"]) for cell in cells)
    data = bytearray((header + "\n" + body).encode())
    for _ in range(rng.choice([0, 0, 1, 5])):
        if len(data) > 10:
            data[rng.randrange(8, len(data))] = rng.randrange(256)
    return bytes(data)


def random_column(rng: random.Random, rows: int) -> pl.Series:
    kind = rng.randrange(10)
    holes = [rng.random() < 0.2 for _ in range(rows)]

    def fill(make: Any, dtype: Any) -> pl.Series:
        return pl.Series([None if hole else make() for hole in holes], dtype=dtype, strict=False)

    if kind == 0:
        return fill(
            lambda: "".join(rng.choices(PIECES, k=rng.randint(0, 3))),
            rng.choice([pl.String, pl.Categorical]),
        )
    if kind == 1:
        return fill(lambda: float(rng.choice(NUMBERS)), rng.choice([pl.Float64, pl.Float32]))
    if kind == 2:
        bits = rng.choice([8, 16, 32, 64, 128])
        return fill(
            lambda: rng.choice([-1, 0, 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]),
            getattr(pl, f"Int{bits}"),
        )
    if kind == 3:
        bits = rng.choice([8, 16, 32, 64])
        return fill(lambda: rng.choice([0, 1, 2**bits - 1]), getattr(pl, f"UInt{bits}"))
    if kind == 4:
        return fill(lambda: rng.random() < 0.5, pl.Boolean)
    if kind == 5:
        return fill(lambda: rng.choice([-(2**31), -1, 0, 2**31 - 1]), pl.Int32).cast(pl.Date)
    if kind == 6:
        unit: Any = rng.choice(["ms", "us", "ns"])
        zone = rng.choice([None, "Pacific/Kiritimati"])
        return fill(lambda: rng.choice([-(2**63) + 1, -1, 0, 2**63 - 1]), pl.Int64).cast(
            pl.Datetime(unit, zone)
        )
    if kind == 7:
        return fill(lambda: [CANARY], pl.List(pl.String))
    if kind == 8:
        return fill(lambda: CANARY.encode(), pl.Binary)
    return fill(lambda: {"k": CANARY}, pl.Struct({"k": pl.String}))


class Rude:
    """An object that quotes itself wherever it can."""

    def __repr__(self) -> str:
        return CANARY

    def __str__(self) -> str:
        raise ValueError(CANARY)

    def __eq__(self, other: object) -> bool:
        raise ValueError(CANARY)

    def __hash__(self) -> int:
        return 7


def random_objects(rng: random.Random, rows: int) -> pd.Series:
    cells = [
        CANARY,
        None,
        1,
        2.5,
        True,
        b"x",
        [1],
        {"k": 2},
        dt.date(1, 1, 1),
        dt.datetime(2020, 1, 1),
        pd.NaT,
        pd.NA,
        10**400,
        "\ud800",
        Rude(),
    ]
    return pd.Series(rng.choices(cells, k=rows), dtype=object)


def random_input(rng: random.Random, folder: Path) -> object:
    kind, rows = rng.randrange(8), rng.choice([0, 1, 2, 7, 40])
    if kind < 4:
        name, data = f"t{rng.randrange(4)}", random_text(rng)
        ending = rng.choice([".csv", ".tsv", ".csv.gz"])
        path = folder / f"{name}{ending}"
        path.write_bytes(gzip.compress(data, 1) if ending == ".csv.gz" else data)
        return path
    if kind == 4:
        return pd.DataFrame({name: random_objects(rng, rows) for name in NAMES})
    frame = pl.DataFrame({name: random_column(rng, rows) for name in NAMES})
    if kind == 5:
        ending = rng.choice(["parquet", "arrow"])
        path = folder / f"f.{ending}"
        data = bytearray(CANARY.encode() * 9)
        try:
            frame.write_parquet(path) if ending == "parquet" else frame.write_ipc(path)
            data = bytearray(path.read_bytes())
        except pl.exceptions.PolarsError:
            pass  # a column this format cannot hold: the file is rubbish instead
        if rng.random() < 0.3:
            data = data[: rng.randrange(len(data))]  # cut off in the middle
        path.write_bytes(data)
        return path
    return frame.lazy() if kind == 6 else frame


def use(data: object, schema: Schema, *, also_rows: bool) -> None:
    """Count the cells; code the rows too if asked, which asks the same reader for the same columns
    once more."""
    domain = schema.domain(["a", "b"])
    source = open_source(data)
    source.require(
        [*domain.names, *([schema.unit.column] if schema.unit.column else [])],
        schema_name=schema.name,
    )
    counts = count_cells(source, schema, domain, key=bytes(16))
    assert bool((counts.counts > 0).all())
    assert bool((counts.cells[1:] > counts.cells[:-1]).all())
    if not also_rows:
        return
    rows = coded_rows(source, schema, domain, key=bytes(16))
    assert counts.total == rows[0].size == rows[1].size <= source.count_units(None)
    assert all(
        codes.size == 0 or int(codes.max()) < axis.cardinality
        for codes, axis in zip(rows, domain.axes, strict=True)
    )


@pytest.mark.parametrize(
    "part",
    [
        *range(CHUNKS),
        *(
            pytest.param(part, marks=pytest.mark.nightly)
            for part in range(CHUNKS, MANY * CHUNKS // CASES)
        ),
    ],
)
def test_hostile_tables(
    part: int, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    refused: list[PublishError] = []
    drafts: list[PublishError] = []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        for case in range(CASES // CHUNKS):
            rng = random.Random(f"{part}/{case}")
            schema = random_schema(rng)
            data = random_input(rng, tmp_path)
            try:
                use(data, schema, also_rows=case % 3 == 0)
            except PublishError as error:
                refused.append(error)
            if case % 10 == 0:
                try:
                    Schema.from_toml(draft(data, name="d").to_toml())
                except PublishError as error:
                    drafts.append(error)
    for error in refused + drafts:
        assert isinstance(error, InputError)
        assert CANARY not in f"{error} {error.args} {vars(error)} {error.__cause__!r}"
    out, err = capfd.readouterr()
    assert CANARY not in out + err + caplog.text + " ".join(
        str(warning.message) for warning in heard
    )
    assert (out, err) == ("", "")
    assert len(refused) < CASES // CHUNKS / 2, (
        "most inputs should be read, or the test looks at little"
    )


def test_the_canary_is_really_planted() -> None:
    """The generators put the canary into most inputs, so that silence means something."""
    texts = [random_text(random.Random(f"p{i}")) for i in range(200)]
    assert sum(CANARY.encode() in text for text in texts) > 100
    assert not set(CANARY) <= set(string.hexdigits)
