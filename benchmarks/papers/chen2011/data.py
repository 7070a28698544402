"""The data sets: MSNBC, retail, BMS-WebView-1, and a made-up one with the shape of the paper's STM
(transit cards)."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dpublish.declare.schema import ItemUniverse, Schema
from dpublish.methods.set_partition.transactions import Baskets
from dpublish.releases.itemsets.mining import WeightedSets, supports

TITLES = {
    "msnbc": "MSNBC (989,818 x 17)",
    "stm-like": "STM-like, generated (x 1,012)",
    "retail": "retail (88,162 x 16,470)",
    "bms": "BMS-WebView-1 (59,602 x 497)",
}
FILES = {
    "msnbc": "msnbc_sets.txt.gz",
    "retail": "retail.txt.gz",
    "bms": "bms_webview1.txt.gz",
    "kosarak": "kosarak_70k.txt.gz",
}


@dataclass(frozen=True)
class DataSet:
    name: str
    baskets: Baskets
    items: int

    @property
    def schema(self) -> Schema:
        universe = ItemUniverse(items=tuple(map(str, range(self.items))))
        return Schema(name=self.name, items=universe, neighbours="add-remove-one")

    @cached_property
    def sets(self) -> WeightedSets:
        weights = np.ones(self.baskets.records)
        return WeightedSets(
            self.baskets.offsets, self.baskets.items.astype(np.int32), weights, self.items
        )

    def truth(self, asked: list[tuple[int, ...]]) -> np.ndarray:
        """The true supports of a list of queries, worked out once."""
        known = self.__dict__.setdefault("_truths", {})
        if id(asked) not in known:
            known[id(asked)] = (asked, supports(self.sets, asked))
        return known[id(asked)][1]

    @property
    def longest(self) -> int:
        return int(np.diff(self.baskets.offsets).max())

    def head(self, records: int) -> DataSet:
        """The first records; the files and the generator have no order that matters."""
        end = int(self.baskets.offsets[records])
        return DataSet(
            self.name,
            Baskets(self.baskets.offsets[: records + 1], self.baskets.items[:end]),
            self.items,
        )

    def restricted(self, items: int, records: int) -> DataSet:
        """Only the first `items` items, and the first `records` transactions that hold any of
        them."""
        rows = np.repeat(np.arange(self.baskets.records), np.diff(self.baskets.offsets))
        kept = self.baskets.items < items
        return DataSet(
            self.name, packed(rows[kept], self.baskets.items[kept].astype(np.int64)), items
        ).head_or_all(records)

    def cut(self, most: int) -> DataSet:
        """Every record's first `most` items, as `max_items` does."""
        sizes = np.diff(self.baskets.offsets)
        place = np.arange(self.baskets.items.size) - np.repeat(self.baskets.offsets[:-1], sizes)
        ends = np.concatenate([[0], np.cumsum(np.minimum(sizes, most))]).astype(np.int64)
        return DataSet(self.name, Baskets(ends, self.baskets.items[place < most]), self.items)

    def head_or_all(self, records: int) -> DataSet:
        return self.head(min(records, self.baskets.records))


def packed(rows: np.ndarray, items: np.ndarray) -> Baskets:
    """Baskets from pairs of row and item, duplicates and empty rows left out."""
    key = np.unique(rows.astype(np.int64) << 21 | items)
    rows, items = key >> 21, key & ((1 << 21) - 1)
    counts = np.bincount(rows)
    offsets = np.concatenate([[0], np.cumsum(counts[counts > 0])]).astype(np.int64)
    return Baskets(offsets, items.astype(np.uint16))


def stm_like(records: int = 1_200_000, items: int = 1012, seed: int = 0) -> DataSet:
    """People travel along a few routes of neighbouring stations, popular routes more often, with a
    little wandering."""
    rng = np.random.default_rng(seed)
    lengths = np.minimum(1 + rng.negative_binomial(1.6, 1.6 / (1.6 + 9.2), records), 64)
    routes = 400
    start = rng.integers(0, max(1, items - 12), routes)
    popularity = 1 / np.arange(1, routes + 1)
    route = rng.choice(routes, records, p=popularity / popularity.sum())
    stations = start[np.repeat(route, lengths)] + np.minimum(
        rng.geometric(0.3, int(lengths.sum())) - 1, 11
    )
    strays = rng.random(stations.size) < 0.03
    stations[strays] = rng.integers(0, items, int(strays.sum()))
    return DataSet(
        "stm-like", packed(np.repeat(np.arange(records), lengths), stations % items), items
    )


def load(name: str, folder: Path | None, *, records: int = 1_200_000) -> DataSet:
    if name == "stm-like":
        return stm_like(records)
    if folder is None:
        raise SystemExit(f"{name} needs --data DIR")
    with gzip.open(folder / FILES[name], "rt") as file:
        lines = [np.array(line.split(), dtype=np.int64) for line in file]
    rows = np.repeat(np.arange(len(lines)), [line.size for line in lines])
    # the files list no universe: the numbers that occur stand for it, as in the paper's table of
    # data sets
    universe, codes = np.unique(np.concatenate(lines), return_inverse=True)
    return DataSet(name, packed(rows, codes.astype(np.int64)), universe.size)
