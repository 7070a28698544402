"""Tables of a Spark cluster, of which this process sees names, types and counts, and never a row.

Only the DataFrame interface is used, so that Spark Connect works too. What runs on a worker is the
code of this package: it must be installed there, in this version, and a trial without rows finds
out before anything is spent. The files of a path are listed once, when it is opened; all passes of
a release read those.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import chain
from typing import Any

import polars as pl
import pyarrow as pa

from dpublish import __version__
from dpublish.errors import InputError, refuse
from dpublish.quiet import no_logs, quiet_native_code
from dpublish.sources.arrow import ArrowSource, ArrowTable, _kind
from dpublish.sources.sources import Source
from dpublish.sources.texts import LONGEST_TEXT, UNREADABLE
from dpublish.sources.units import spelled_units, unit_values

PREFIX = "spark:"
_OURS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.eventLog.enabled": "false",
    "spark.log.level": "OFF",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Settings of a session that is started here: nothing of it is shown or written down."""

_BATCH_ROWS, _BATCH_BYTES = 1 << 16, 1 << 23  # what a worker looks at in one go, about
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
_FORMATS = (".parquet", ".orc", ".avro")
_TEXT_FILES = re.compile(r"\.(csv|tsv|json|jsonl|ndjson|txt|xml)(\.[a-z0-9]+)?/?$", re.IGNORECASE)
_NO_TEXT_FILES = (
    "Spark's readers of text files look at all rows to find columns and types, and one odd line "
    "can end them in the middle of a release. Give the path without 'spark:', so that it is read "
    "here, or write the rows to Parquet, with types that you declare. Nothing was spent."
)

_MOMENT = "timestamp"
"""What Spark calls moments, which are handed over by the clock of the session."""
_TEXTS = ("string",)
_SHORT_TEXT = (
    f"CASE WHEN octet_length({{cell}}) > {LONGEST_TEXT} THEN '{UNREADABLE}' ELSE {{cell}} END "
    "AS {cell}"
)
"""What a text of any length is to a reader, before it is moved: Spark moves gigabytes, or fails."""

Batches = Iterator[Any]
Part = Callable[[Batches], Batches]


@dataclass(frozen=True)
class SparkSource:
    """A table or a path that the cluster at `url` reads: spark://host:7077, sc://host:15002 (Spark
    Connect), yarn, k8s://..., or local[2] for a cluster within this machine."""

    table: str
    url: str = "local[*]"


class SparkTable(Source):
    """A Spark data frame."""

    engine = "spark"

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self._tried = False
        self._files: tuple[Any, ...] | None = None

    def columns(self) -> tuple[str, ...]:
        return tuple(self.frame.columns)

    def kind(self, name: str) -> pl.DataType | str | None:
        from pyspark.sql.pandas.types import to_arrow_type

        declared = next(field.dataType for field in self.frame.schema.fields if field.name == name)
        try:
            if declared.simpleString() == _MOMENT:
                return _kind(pa.timestamp("us", tz=self._zone())) or _MOMENT
            found = _kind(to_arrow_type(declared))
        except Exception:  # a type that Spark itself does not hand over
            found = None
        return str(declared.simpleString()) if found is None else found

    def stored(self, names: Sequence[str]) -> dict[str, str]:
        """What Spark calls the types of these columns."""
        return {
            field.name: str(field.dataType.simpleString())
            for field in self.frame.schema.fields
            if field.name in names
        }

    def require(self, names: Iterable[str], *, schema_name: str) -> None:
        wanted = list(names)
        for name, stored in self.stored(wanted).items():
            if stored == _MOMENT and self.kind(name) == _MOMENT:
                raise InputError(
                    f"Spark hands over column '{name}' by the clock of its session, and "
                    f"spark.sql.session.timeZone = '{self._zone()}' is no zone that is known here: "
                    "every cell would be missing. Set it to one such as 'Europe/Berlin' or 'UTC', "
                    "or make the column a timestamp_ntz. Nothing was spent."
                )
        super().require(wanted, schema_name=schema_name)
        if not self._tried:
            self._try_workers()
            self._tried = True

    def _zone(self) -> str:
        return str(self.frame.sparkSession.conf.get("spark.sql.session.timeZone"))

    def chosen(self, names: Sequence[str]) -> Any:
        """The frame with these columns only, called c0, c1, ...: names may hold dots."""
        quoted = [self.frame["`" + name.replace("`", "``") + "`"] for name in names]
        chosen = self.frame.select([c.alias(f"c{place}") for place, c in enumerate(quoted)])
        stored = self.stored(names)
        return chosen.selectExpr(
            [
                _SHORT_TEXT.format(cell=f"c{place}") if stored[name] in _TEXTS else f"c{place}"
                for place, name in enumerate(names)
            ]
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Rows on this machine, which no release asks for."""
        table = self.chosen(columns).toArrow().rename_columns(list(columns))
        yield from ArrowTable(table).batches(columns)

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Notes the files as they are. A table that has none, say of a database, is not held."""
        self._files = self._now()
        try:
            yield
        finally:
            self._files = None

    def changed(self) -> bool:
        return self._files is not None and self._now() != self._files

    def _now(self) -> tuple[Any, ...]:
        """Path, size and time of each file that the frame reads; none of them is opened."""
        try:
            with quiet_native_code(), no_logs():
                files = sorted(self.frame.inputFiles())
                if not files:
                    return ()
                reader = self.frame.sparkSession.read.format("binaryFile")
                found = reader.load(files).select("path", "length", "modificationTime").toArrow()
        except Exception:  # a file that is gone, a store that says nothing of its files
            return ("unknown",)
        return tuple(sorted(tuple(row.values()) for row in found.to_pylist()))

    def count_rows(self) -> int:
        return int(self.frame.count())

    def count_units(self, unit_column: str | None) -> int:
        if unit_column is None:
            return self.count_rows()
        units = run_on_workers(self.chosen([unit_column]), _distinct_units, "unit binary")
        return int(units.distinct().count())

    def shown(self) -> tuple[str, ...]:
        """What this session shows or writes down by itself (it is left as it is), and what Spark
        cannot be held to."""
        told = []
        files = self._paths()
        if not files:
            told.append(
                "Spark names no files of this table, so that a change between two passes is not "
                "seen: let its rows stand still, or fix a version."
            )
        elif any(_TEXT_FILES.search(file) for file in files):
            told.append(
                "Spark reads this table from text files. One odd line can end such a reader after "
                "the payment, and unless you declared types, rows decided them: write the rows to "
                "Parquet first."
            )
        settings = {
            "spark.ui.enabled": ("web page", "true"),
            "spark.eventLog.enabled": ("event log", "false"),
        }
        return *told, *(
            f"Spark's {what} is on ({name}): whoever sees it sees how many rows were read."
            for name, (what, usual) in settings.items()
            if str(self.frame.sparkSession.conf.get(name, usual)).lower() == "true"
        )

    def _paths(self) -> list[str]:
        """The files that the frame reads; none of them is opened."""
        try:
            with quiet_native_code(), no_logs():
                return sorted(self.frame.inputFiles())
        except Exception:  # a store that says nothing of its files
            return []

    def _try_workers(self) -> None:
        try:
            trial = run_on_workers(self.frame.sparkSession.range(1), _version, "version string")
            found = {str(row) for row in trial.toArrow().column(0).to_pylist()}
        except Exception:  # the cluster's words are long, and need not be about this
            found = set()
        if found == {__version__}:
            return
        which = f"have version {', '.join(sorted(found))} of it" if found else "cannot import it"
        raise InputError(
            f"The workers of this Spark session must have dpublish {__version__}, and {which}. "
            "Install it in the Python of the workers (PYSPARK_PYTHON), or ship an environment with "
            "spark.addArtifacts or --archives. Nothing was spent."
        )


def open_spark(source: SparkSource) -> SparkTable:
    """Start or join a session, and find the table; reads no row."""
    table = source.table.strip()
    refuse(
        InputError,
        (not table, "Name a table or a path after 'spark:', such as spark:sales."),
        (_TEXT_FILES.search(table), _NO_TEXT_FILES),
    )
    session = _session(source.url)
    with suppress(Exception):  # the cluster's words may hold addresses and users
        return SparkTable(_pinned(session, table))
    raise InputError(
        f"Spark finds no table or path '{source.table}'. A path has a '/' or an ending such as "
        ".parquet; anything else is the name of a table."
    )


def _session(url: str) -> Any:
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise InputError(
            "Spark is not installed: install dpublish[spark], and Java 17 or newer."
        ) from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    with suppress(Exception):
        if url.startswith("sc://"):
            return builder.remote(url).getOrCreate()
        settings: dict[str, Any] = {**_OURS, **(_LOOPBACK if url.startswith("local") else {})}
        return builder.config(map=settings).master(url).getOrCreate()
    raise InputError(
        f"No Spark session could be started at '{url}'. Is Java 17 or newer installed (java "
        "-version), and does the master answer? A URL looks like spark://host:7077, "
        "sc://host:15002 or local[2]."
    )


def _pinned(session: Any, table: str) -> Any:
    """The table, with its list of files as it is now."""
    ending = next((end for end in _FORMATS if table.rstrip("/").endswith(end)), None)
    if "/" not in table and ending is None:
        frame = session.table(table)
    else:
        kind = (ending or ".parquet").removeprefix(".")
        reader = session.read.format(kind).option("basePath", _base(table))
        frame = reader.load(table)
        files = frame.inputFiles()
        frame = reader.schema(frame.schema).load(files) if files else frame
    frame.schema  # noqa: B018 - Spark Connect looks for the table only now
    return frame


def _base(path: str) -> str:
    """Where folders that name a partition (year=2020) start."""
    whole = path.rstrip("/")
    stars = [place for place in (whole.find(mark) for mark in "*?[{") if place >= 0]
    if stars:
        return whole[: min(stars)].rpartition("/")[0] or "/"
    return whole.rpartition("/")[0] or "." if whole.endswith(_FORMATS) else whole


def run_on_workers(frame: Any, part: Part, schema: str) -> Any:
    """A frame of what `part` makes of every partition. Whatever goes wrong there is told in one
    constant text, and nothing else is said: what Python or native code says about a row would be in
    the cluster's logs."""
    return frame.mapInArrow(partial(_quietly, part), schema)


def _quietly(part: Part, batches: Batches) -> Batches:
    failed = False
    with quiet_native_code(), no_logs():
        try:
            yield from part(batches)
        except GeneratorExit:
            raise
        except BaseException:  # a panic of native code too
            failed = True
    if failed:
        raise RuntimeError("A worker of dpublish failed.")


class ArrowStream(ArrowSource):
    """The record batches of one partition, which can be read once."""

    def __init__(self, names: Sequence[str], batches: Batches) -> None:
        first = next(batches, None)
        self._batches = iter(()) if first is None else _gathered(chain([first], batches))
        schema = pa.schema([]) if first is None else first.schema
        self.empty = first is None
        super().__init__(pa.schema([(n, f.type) for n, f in zip(names, schema, strict=False)]))

    def _record_batches(self, places: Sequence[int]) -> Iterator[Any]:
        for batch in self._batches:
            yield batch.select(list(places))

    def count_rows(self) -> int:
        raise NotImplementedError


def _gathered(batches: Batches) -> Batches:
    """The same rows in larger batches: a session may hand over few rows at a time, and every batch
    has its own cost."""
    held: list[Any] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield pa.concat_batches(held) if len(held) > 1 else batch
            held, rows, size = [], 0, 0
    if held:
        yield pa.concat_batches(held)


def _distinct_units(batches: Batches) -> Batches:
    source = ArrowStream(["unit"], batches)
    if source.empty:
        return
    for frame in source.batches(["unit"]):
        units = canonical_units(frame.get_column("unit")).drop_nulls().unique()
        yield from arrow_batches(pl.DataFrame({"unit": units}))


def canonical_units(units: pl.Series) -> pl.Series:
    """Units as bytes, equal where the units are."""
    return spelled_units(unit_values(units)).cast(pl.Binary)


def arrow_batches(frame: pl.DataFrame) -> Batches:
    """A frame of bytes and whole numbers as Spark takes it."""
    table = frame.to_arrow()
    plain = [
        pa.field(f.name, f.type if pa.types.is_integer(f.type) else pa.binary())
        for f in table.schema
    ]
    yield from table.cast(pa.schema(plain)).to_batches(max_chunksize=1 << 17)


def _version(batches: Batches) -> Batches:
    """Whether a worker has what it will be asked to run."""
    import_module(f"dpublish.counting.engines.{SparkTable.engine}")
    for _ in batches:
        yield pa.record_batch({"version": pa.array([__version__])})
