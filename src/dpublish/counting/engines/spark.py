"""Counting on the workers of a Spark cluster, with the encoder and the kernels of this machine.

Every worker runs the local engine on its partition and hands over sums, which Spark adds up; a task
that is retried or run twice replaces what it made and counts once. Where a unit owns several rows,
workers first say what each row says beside its unit, then all rows of a unit meet in one partition,
where the same rule as everywhere keeps some of them. This module runs on workers: it imports
neither the ledger nor noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from dpublish.arrays import Flags, Ints, Words
from dpublish.counting.bound import keep_rows, pack_codes, take_lists, unpack_codes
from dpublish.counting.cells import TableCounter, Threads
from dpublish.counting.engines.local import Engine, Local
from dpublish.counting.engines.packed import PackedStream, Packing, packing_of
from dpublish.counting.points import count_codes, point_codes
from dpublish.counting.ruled import rule_columns, without_broken
from dpublish.counting.transactions import ItemCoder, basket_rows, tidy, whole_rows
from dpublish.declare.domain import Domain
from dpublish.declare.encode import CodeArray, Encoder, code_dtype
from dpublish.declare.schema import PrivacyUnit, Schema
from dpublish.declare.statistic import (
    CellCounts,
    CodedRows,
    ContingencyTables,
    GridPoints,
    SparseCounts,
    Statistic,
    TableCounts,
)
from dpublish.methods.set_partition.transactions import Baskets, Transactions
from dpublish.sources.spark import (
    ArrowStream,
    Batches,
    SparkTable,
    arrow_batches,
    canonical_units,
    run_on_workers,
)

SUMS = "place int, cell long, n long"
SAID = "said binary, n long"
OWNED = "unit binary, said binary, n long"
ITEMS = "unit binary, basket binary, code long"
_UNIT = "\0unit"  # no column has this name
_HELD_ROWS = 1 << 20
"""Rows that a worker holds at once, unless one unit has more."""


class Spark(Engine):
    """Asks the workers for sums."""

    source: SparkTable

    @classmethod
    def refusal(cls, statistic: Statistic) -> str | None:
        if isinstance(statistic, CodedRows) and statistic.ordered:
            return "it adds up rows one by one, and rows of a cluster have no order"
        return super().refusal(statistic)

    @classmethod
    def place(cls, statistic: Statistic, source: Any, schema: Schema) -> str | None:
        return "Rows are counted on the workers of Spark, and sums come to this machine."

    def cells(self, domain: Domain) -> SparseCounts:
        packing = self._packing(CellCounts(domain))
        if packing is not None and self.schema.unit.column is None and packing.narrow(domain):
            return self._grouped(domain, packing)
        (found,) = self._sums(CellCounts(domain), domain.names)
        return found

    def tables(self, asked: ContingencyTables) -> TableCounts:
        with Threads() as threads:
            out = TableCounter(asked, threads).finish()  # all zeros
        sums = self._sums(asked, asked.domain.names)
        for found, counts in zip(sums, out.tables.values(), strict=True):
            counts.ravel()[found.cells] = found.counts
        return out

    def points(self, asked: GridPoints) -> SparseCounts:
        (found,) = self._sums(asked, [grid.name for grid in asked.shape.grids])
        return found

    def rows(self, domain: Domain) -> list[CodeArray]:
        """Each distinct row of codes comes to this machine once, in the order of its codes."""
        words, offsets = self._said(CodedRows(domain), domain.names)
        width = words.size // max(1, offsets.size - 1)
        rows = words.reshape(-1, width) if width else np.empty((0, 1), dtype=np.uint64)
        codes = zip(unpack_codes(rows, domain.shape), domain.shape, strict=True)
        return [cast(CodeArray, column.astype(code_dtype(size))) for column, size in codes]

    def transactions(self, asked: Transactions) -> Baskets:
        items, offsets = self._said(asked, [asked.column])
        universe = ItemCoder(self.schema).size
        return tidy(items.astype(np.int32), np.diff(offsets), universe, None)[0]

    def _packing(self, asked: Statistic) -> Packing | None:
        """How the columns of a domain are handed to workers; None as they are, say because rules
        look at other columns too."""
        if not isinstance(asked, CellCounts | CodedRows | ContingencyTables) or self.schema.rules:
            return None
        found = packing_of(asked.domain, self.source.stored(asked.domain.names))
        return found if found.words else None

    def _grouped(self, domain: Domain, packing: Packing) -> SparseCounts:
        """Words that Spark counts itself; this machine says what they mean."""
        words = [f"w{place}" for place in range(packing.words)]
        rows = self.source.chosen(domain.names).selectExpr(packing.select())
        found = rows.groupBy(words).count().toArrow()
        n = _sums_in(found, "count")
        encoder = Encoder(domain)
        columns = [found.column(word).to_numpy() for word in words]
        codes, keep = packing.codes(packing.look_up(encoder), columns)
        batch = encoder.batch([codes[place] for place in range(len(domain.axes))], keep)
        kept = n if batch.keep is None else n[batch.keep]
        return SparseCounts.summed(pack_codes(batch.kept(), domain.shape)[:, 0], kept)

    def _kept(self, asked: Statistic, names: Sequence[str], schema: str) -> Any:
        """The frame of what workers make of the rows that are kept."""
        unit = self.schema.unit.column
        # workers read the columns of rules too
        names = list(dict.fromkeys([*names, *rule_columns(self.schema)]))
        job = _Job(asked, self.schema, tuple(names), self.key, self._packing(asked))
        if unit is None:
            return run_on_workers(self._rows(job, names), partial(_count, job), schema)
        if isinstance(asked, Transactions) and asked.basket is not None:
            rows = self.source.chosen([asked.column, unit, asked.basket])
            said = run_on_workers(rows, partial(_say_items, job), ITEMS)
        else:
            said = run_on_workers(self._rows(job, [*names, unit]), partial(_say, job), OWNED)
        # all rows of a unit in one partition, side by side
        together = said.repartition("unit").sortWithinPartitions("unit")
        return run_on_workers(together, partial(_choose, job), schema)

    def _rows(self, job: _Job, names: Sequence[str]) -> Any:
        frame = self.source.chosen(names)
        if job.packing is None:
            return frame
        return frame.selectExpr([*job.packing.select(), *frame.columns[len(job.names) :]])

    def _sums(self, asked: Statistic, names: Sequence[str]) -> list[SparseCounts]:
        from pyspark.sql import functions as f

        frame = self._kept(asked, names, SUMS).groupBy("place", "cell").agg(f.sum("n").alias("n"))
        found = frame.toArrow()
        place, cell = (found.column(name).to_numpy() for name in ("place", "cell"))
        n = _sums_in(found, "n")
        out = []
        for number in range(len(asked.tables) if isinstance(asked, ContingencyTables) else 1):
            mine = np.flatnonzero(place == number)
            mine = mine[np.argsort(cell[mine], kind="stable")]
            out.append(SparseCounts(cell[mine].astype(np.int64).view(np.uint64), n[mine]))
        return out

    def _said(self, asked: Statistic, names: Sequence[str]) -> tuple[Words, NDArray[np.int64]]:
        """What all kept rows say, those that say the same side by side."""
        from pyspark.sql import functions as f

        frame = self._kept(asked, names, SAID).groupBy("said").agg(f.sum("n").alias("n"))
        found = frame.toArrow()
        said = pl.Series(pl.from_arrow(found.column("said"))).cast(pl.Binary)
        n = _sums_in(found, "n")
        words, offsets = words_of(said)
        rows = said.arg_sort().cast(pl.Int64).to_numpy()
        return take_lists(words, offsets, np.repeat(rows, n[rows]))


def _sums_in(found: Any, name: str) -> Ints:
    n: Ints = found.column(name).to_numpy().astype(np.int64)
    if n.size and int(n.min()) < 1:
        raise OverflowError("more rows than 64 bits count")
    return n


@dataclass(frozen=True)
class _Job:
    """What workers are told: nothing but public facts, and the key that chooses rows."""

    asked: Statistic
    schema: Schema
    names: tuple[str, ...]
    key: bytes
    packing: Packing | None = None

    def stream(self, batches: Batches, *more: str) -> ArrowStream:
        """The rows of a partition: the columns asked for, and then `more`."""
        if self.packing is None:
            return ArrowStream([*self.names, *more], batches)
        assert isinstance(self.asked, CellCounts | CodedRows | ContingencyTables)
        return PackedStream(self.packing, self.asked.domain, more, batches)


def _count(job: _Job, batches: Batches) -> Batches:
    """Sums of one partition whose rows are units: the local engine's answer."""
    source = job.stream(batches)
    if source.empty:
        return
    if isinstance(job.asked, CodedRows | Transactions):
        for _, said in _rows_said(job, source, None):
            yield from _said_batches(said)
        return
    schema = replace(job.schema, unit=PrivacyUnit())
    found = Local(source, schema, job.key).answer(job.asked)
    yield from _sum_batches(found.tables.values() if isinstance(found, TableCounts) else [found])


def _say(job: _Job, batches: Batches) -> Batches:
    """What each row says, beside its unit; rows of a partition that say the same are one."""
    source = job.stream(batches, _UNIT)
    if source.empty:
        return
    for units, said in _rows_said(job, source, _UNIT):
        frame = pl.DataFrame({"unit": units, "said": said}).drop_nulls("unit")
        yield from arrow_batches(frame.group_by("unit", "said").agg(n=pl.len().cast(pl.Int64)))


def _say_items(job: _Job, batches: Batches) -> Batches:
    """One item of a basket per row, beside its unit and basket."""
    assert isinstance(job.asked, Transactions)
    names = ["item", "unit", "basket"]
    source = ArrowStream(names, batches)
    if source.empty:
        return
    coder = ItemCoder(job.schema)
    for frame in source.batches(names):
        units, baskets = (canonical_units(frame.get_column(name)) for name in names[1:])
        codes = pl.Series(coder.codes(frame.get_column("item"))).cast(pl.Int64)
        rows = pl.DataFrame({"unit": units, "basket": baskets, "code": codes})
        yield from arrow_batches(rows.drop_nulls(["unit", "basket"]).unique())


def _rows_said(
    job: _Job, source: ArrowStream, unit: str | None
) -> Iterator[tuple[pl.Series, pl.Series]]:
    """The units of the rows that no column drops, and what those rows say; units are null where
    none are asked for."""
    asked = job.asked
    rows = without_broken(source, job.schema)
    if isinstance(asked, Transactions):
        coder = ItemCoder(job.schema)
        for codes, lengths, units in whole_rows(asked, rows, unit, coder):
            found, filled = tidy(codes, lengths, coder.size, asked.max_items)
            said = bytes_of(found.items.astype(np.uint64), found.offsets)
            yield _owners(units, filled, filled.size), said
    elif isinstance(asked, GridPoints):
        for frame in rows.batches([*job.names, *([] if unit is None else [unit])]):
            points, keep = point_codes(frame, asked)
            owner = None if unit is None else frame.get_column(unit)
            yield _owners(owner, keep, frame.height), _fixed_bytes(points.reshape(-1, 1))
    else:
        assert isinstance(asked, CellCounts | CodedRows | ContingencyTables)
        for batch, units in rows.coded(Encoder(asked.domain), unit):
            said = _fixed_bytes(pack_codes(batch.kept(), asked.domain.shape))
            yield _owners(units, batch.keep, batch.codes[0].size), said


def _owners(units: pl.Series | None, keep: Flags | None, rows: int) -> pl.Series:
    nobody = pl.repeat(None, rows, dtype=pl.Binary, eager=True)
    owners = nobody if units is None else canonical_units(units)
    return owners if keep is None else owners.filter(pl.Series(keep))


def _said_batches(said: pl.Series) -> Batches:
    frame = pl.DataFrame({"said": said})
    yield from arrow_batches(frame.group_by("said").agg(n=pl.len().cast(pl.Int64)))


def _choose(job: _Job, batches: Batches) -> Batches:
    """Keep at most so many rows of each unit, and count what they say."""
    if isinstance(job.asked, ContingencyTables):
        with Threads() as threads:
            tables = TableCounter(job.asked, threads)
            for said in _chosen(job, batches):
                tables.add(unpack_codes(_fixed_words(said), job.asked.domain.shape))
        yield from _sum_batches(tables.finish().tables.values())
        return
    for said in _chosen(job, batches):
        if isinstance(job.asked, CodedRows | Transactions):
            yield from _said_batches(said)
        else:
            yield from _sum_batches([count_codes(_fixed_words(said)[:, 0])])


def _chosen(job: _Job, batches: Batches) -> Iterator[pl.Series]:
    """What the kept rows say, for some units at a time."""
    for frame in _whole_units(batches):
        if "basket" in frame.columns:
            assert isinstance(job.asked, Transactions)
            found, units = basket_rows(frame, ItemCoder(job.schema).size, job.asked.max_items)
            said = bytes_of(found.items.astype(np.uint64), found.offsets)
        else:
            copies = np.repeat(np.arange(frame.height), frame.get_column("n").to_numpy())
            rows = frame.select("unit", "said")[copies]
            units, said = rows.get_column("unit"), rows.get_column("said")
        words, offsets = words_of(said)
        rule = partial(take_lists, words, offsets)
        yield said.filter(pl.Series(keep_rows(units, rule, job.schema.unit.max_rows, job.key)))


def _whole_units(batches: Batches) -> Iterator[pl.DataFrame]:
    """Frames in which every unit has all of its rows."""
    held: list[pl.DataFrame] = []
    rows = 0
    for batch in batches:
        frame = pl.DataFrame(pl.from_arrow(pa.table(batch)))
        if not frame.height:
            continue
        held.append(frame)
        rows += frame.height
        if rows > _HELD_ROWS:
            whole = pl.concat(held)
            last = pl.col("unit") == pl.lit(whole.get_column("unit")[-1], dtype=pl.Binary)
            done, whole = whole.filter(~last), whole.filter(last)
            if done.height:
                yield done
            held, rows = [whole], whole.height
    if held:
        yield pl.concat(held)


def _sum_batches(found: Iterable[SparseCounts | Ints]) -> Batches:
    for place, counted in enumerate(found):
        if isinstance(counted, SparseCounts):
            cells, counts = counted.cells.view(np.int64), counted.counts
        else:
            cells = np.flatnonzero(counted)
            counts = counted.ravel()[cells]
        places = np.full(cells.size, place, dtype=np.int32)
        yield from pa.table({"place": places, "cell": cells, "n": counts}).to_batches(_HELD_ROWS)


def _fixed_bytes(words: Words) -> pl.Series:
    """Rows of words as bytes."""
    width = words.shape[1] if words.size else 1
    return bytes_of(words.ravel(), np.arange(words.shape[0] + 1, dtype=np.int64) * width)


def _fixed_words(said: pl.Series) -> Words:
    words, _ = words_of(said)
    return words.reshape(len(said), -1) if len(said) else np.empty((0, 1), dtype=np.uint64)


def bytes_of(words: Words, offsets: NDArray[np.int64]) -> pl.Series:
    """Lists of words as little-endian bytes."""
    data = np.ascontiguousarray(words, dtype="<u8")
    array = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        offsets.size - 1,
        [None, pa.py_buffer(np.ascontiguousarray(8 * offsets)), pa.py_buffer(data)],
    )
    return pl.Series(pl.from_arrow(array)).cast(pl.Binary)


def words_of(said: pl.Series) -> tuple[Words, NDArray[np.int64]]:
    """The words that `bytes_of` wrote, end to end, and where each list starts."""
    array = said.rechunk().to_arrow().cast(pa.large_binary())
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, dtype=np.int64)[array.offset : array.offset + len(array) + 1]
    whole = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    used = whole[offsets[0] : offsets[-1]].copy() if len(array) else whole[:0].copy()
    return used.view("<u8").astype(np.uint64), (offsets - offsets[0]) // 8
