"""A set-valued release: itemsets with noisy counts. Supports with error bars, top itemsets, rules,
synthetic transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.errors import BundleError, QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import within_limits
from dpublish.models.noisy_counts import Suppression
from dpublish.releases.base import Release
from dpublish.releases.bundle.manifest import fraction, table, whole
from dpublish.releases.frames import generator_of, rows_to_draw
from dpublish.releases.histogram.intervals import Total
from dpublish.releases.itemsets.intervals import Cells, Intervals, Tree, clipped_weights
from dpublish.releases.itemsets.mining import (
    Every,
    Item,
    Itemset,
    Node,
    Rule,
    WeightedSets,
    association_rules,
    find_item,
    parse_items,
    support_table,
    top_itemsets,
    top_of_table,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


TABLES: dict[str, dict[str, type[pl.DataType]]] = {
    "items": {"name": pl.String},
    "nodes": {"start": pl.Int32, "stop": pl.Int32, "children": pl.Int32},
    "children": {"child": pl.Int32},
    "partitions": {
        "parent": pl.Int64,
        "mask": pl.Int32,
        "count": pl.Int64,
        "law": pl.Int32,
        "next": pl.Int32,
        "next_law": pl.Int32,
    },
    "itemsets": {
        "parent": pl.Int64,
        "mask": pl.Int32,
        "size": pl.Int32,
        "count": pl.Int64,
        "law": pl.Int32,
    },
    "members": {"item": pl.Int32},
}
MAX_LAWS = 100_000
SMALL_UNIVERSE = 20


class ItemsetRelease(Release):
    """Itemsets over a public universe with noisy counts; rare itemsets are left out."""

    kind: ClassVar[str] = "itemsets"
    own: ClassVar[tuple[str, ...]] = (
        "support",
        "item_counts",
        "frequent_items",
        "top_itemsets",
        "rules",
        "plot_itemsets",
    )

    def __new__(cls, manifest: Mapping[str, Any] | None = None, *rest: Any, **named: Any) -> Self:
        """A release whose counts are supports is read by a class of its own."""
        facts = manifest.get("facts") if isinstance(manifest, Mapping) else None
        if cls is ItemsetRelease and isinstance(facts, Mapping) and "rounds" in facts:
            from dpublish.releases.itemsets.supports import SupportRelease

            return cast("Self", super().__new__(SupportRelease))
        return super().__new__(cls)

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        facts = table(manifest, "facts", "manifest")
        items = whole(facts, "items", "facts", lowest=1)
        self.total = _read_total(facts)
        if facts.get("max_items") is not None:
            whole(facts, "max_items", "facts", lowest=1)
        _check_laws(facts)
        if set(tables) != set(TABLES):
            raise BundleError(
                f"An itemset release holds the tables {', '.join(TABLES)}; this one holds: "
                f"{sorted(tables)}."
            )
        check_columns(tables, TABLES, items)
        _check_tree(tables, items)
        _check_cells(tables, items, facts)
        self.items: list[str] = self.tables["items"]["name"].to_list()
        self._position = {name: place for place, name in enumerate(self.items)}
        self.counts: NDArray[np.int64] = self._column("itemsets", "count")
        self.sizes: NDArray[np.int32] = self._column("itemsets", "size")
        offsets = np.concatenate([[0], np.cumsum(self.sizes, dtype=np.int64)])
        # a negative count cannot be a weight; it occurs only where every itemset is published
        weights = np.maximum(self.counts, 0).astype(np.float64)
        self.sets = WeightedSets(offsets, self._column("members", "item"), weights, len(self.items))
        """The published itemsets, weighted by their noisy counts."""

    def _column(self, name: str, column: str) -> NDArray[Any]:
        return np.asarray(self.tables[name][column].to_numpy())

    @cached_property
    def consistent(self) -> WeightedSets:
        """The published itemsets with weights that add up along the partitions, and to the number
        of transactions in all: what was left out is taken to be like what was published beside
        it."""
        if self.complete:
            weights = clipped_weights(
                self.counts, float(self.transactions) if self.total.known else None
            )
        else:
            weights = self._intervals.consistent_weights()
        return WeightedSets(self.sets.offsets, self.sets.members, weights, self.sets.items)

    @property
    def complete(self) -> bool:
        """Whether every itemset of the universe is published. Sums of counts, negative ones among
        them, are then unbiased."""
        return (
            all(law["threshold"] is None for law in self.manifest["facts"]["laws"])
            and len(self.items) <= SMALL_UNIVERSE
        )

    @cached_property
    def _signed(self) -> NDArray[np.float64]:
        """The supports of all itemsets of a complete release."""
        return support_table(replace(self.sets, weights=self._intervals.settled_counts()))

    def _most_frequent(
        self, k: int, consistent: bool, *, min_size: int = 1, max_size: int | None = None
    ) -> list[tuple[Itemset, float]]:
        if self.complete and consistent:
            return top_of_table(self._signed, k, min_size=min_size, max_size=max_size)
        return top_itemsets(self._sets(consistent), k, min_size=min_size, max_size=max_size)

    def _sets(self, consistent: bool) -> WeightedSets:
        return self.consistent if consistent else self.sets

    @cached_property
    def _intervals(self) -> Intervals:
        nodes, parts = self.tables["nodes"], "partitions"
        offset = np.concatenate([[0], np.cumsum(nodes["children"].to_numpy(), dtype=np.int64)])
        laws = [
            (law["threshold"], Fraction(law["scale"])) for law in self.manifest["facts"]["laws"]
        ]
        partitions, itemsets = (
            Cells(*(self._column(name, column) for column in ("parent", "mask", "count", "law")))
            for name in (parts, "itemsets")
        )
        return Intervals(
            Tree(
                self._column("nodes", "start"),
                self._column("nodes", "stop"),
                offset,
                self._column("children", "child"),
            ),
            partitions,
            (self._column(parts, "next"), self._column(parts, "next_law")),
            itemsets,
            [
                None if threshold is None else Suppression(int(threshold), scale)
                for threshold, scale in laws
            ],
            [scale for _, scale in laws],
            self.total,
        )

    def support(self, items: Iterable[str], *, level: float = 0.95) -> Estimate:
        """How many transactions hold all of the items, with an error bar.

        `value` takes transactions whose itemset was left out to be like the others; `low` and
        `high` do not assume so.
        """
        if isinstance(items, str):
            items = (items,)
        parts: tuple[Node, ...] = tuple(
            Item(find_item(str(name), self._position)) for name in items
        )
        if not parts:
            raise QueryError("Name at least one item.")
        return self._answer(Every(parts), level)

    def _answer(self, question: Node, level: float) -> Estimate:
        return self._intervals.answer(question, level)

    def estimate(self, predicate: str, *, level: float = 0.95) -> Estimate:
        """How many transactions satisfy a condition on items, such as bread and not (beer or "red
        wine")."""
        return self._answer(parse_items(predicate, self._position), level)

    def item_counts(self, *, top: int = 50, level: float = 0.95) -> pl.DataFrame:
        """The most frequent items: item, count, standard_error, low, high."""
        if isinstance(top, bool) or not isinstance(top, Integral) or top < 1:
            raise QueryError(f"top must be a whole number of at least 1, not {top!r}.")
        order = np.argsort(-self._single(), kind="stable")[:top]
        answers = [self._answer(Item(int(item)), level) for item in order]
        return _counts_frame([self.items[item] for item in order], answers)

    def _single(self) -> NDArray[np.float64]:
        """An estimate for every item, to order them by."""
        if not self.complete:
            return self.consistent.item_weights()
        return np.asarray(self._signed[1 << np.arange(len(self.items))])

    def frequent_items(self, *, top: int = 50, level: float = 0.95) -> tuple[pl.DataFrame, str]:
        """As `item_counts`, but only items that the release says something about, and a sentence
        about the others."""
        counts = self.item_counts(top=top, level=level)
        if self.complete:  # every itemset is published, so an estimate of 0 was measured
            return counts, ""
        held = counts.filter(pl.col("count") > 0)
        others = len(self.items) - held.height
        rest = "other item" if others == 1 else f"other {others:,} items"
        return (
            held,
            f"Nothing was published about the {rest}." if held.height < counts.height else "",
        )

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of the named items, with error bars."""
        answers = [self.support({name}, level=level) for name in columns]
        if not answers:
            raise QueryError(
                "Name at least one item, or use item_counts() for the most frequent ones."
            )
        return _counts_frame(columns, answers)

    def top_itemsets(
        self,
        k: int = 10,
        *,
        min_size: int = 1,
        max_size: int | None = None,
        level: float | None = None,
        consistent: bool = True,
    ) -> pl.DataFrame:
        """The k most frequent itemsets: items and support; with `level` also estimate,
        standard_error, low and high.

        Supports add up consistent weights, or the noisy counts as they were published when
        `consistent` is false. Where every itemset is published, they add up all counts, also
        negative ones: such sums have no bias to mend.
        """
        found = self._most_frequent(k, consistent, min_size=min_size, max_size=max_size)
        frame = pl.DataFrame(
            {
                "items": [self._names(items) for items, _ in found],
                "support": [support for _, support in found],
            },
            schema={"items": pl.List(pl.String), "support": pl.Float64},
        )
        if level is None:
            return frame
        answers = [self.support(self._names(items), level=level) for items, _ in found]
        return frame.with_columns(
            pl.Series("estimate", [answer.value for answer in answers], dtype=pl.Float64),
            *_error_columns(answers),
        )

    def rules(
        self,
        k: int = 200,
        *,
        min_confidence: float = 0.5,
        max_size: int | None = None,
        level: float | None = None,
        consistent: bool = True,
    ) -> pl.DataFrame:
        """Association rules within the k most frequent itemsets: given, then, support, confidence,
        lift; with `level` also confidence_low and confidence_high."""
        rules = association_rules(
            dict(self._most_frequent(k, consistent, max_size=max_size)),
            self._whole(consistent),
            min_confidence=min_confidence,
        )
        frame = pl.DataFrame(
            {
                "given": [self._names(rule.given) for rule in rules],
                "then": [self._names(rule.then) for rule in rules],
                "support": [rule.support for rule in rules],
                "confidence": [rule.confidence for rule in rules],
                "lift": [rule.lift for rule in rules],
            },
            schema={
                "given": pl.List(pl.String),
                "then": pl.List(pl.String),
                "support": pl.Float64,
                "confidence": pl.Float64,
                "lift": pl.Float64,
            },
        )
        if level is None:
            return frame
        ends = [self._confidence_limits(rule, check_level(level)) for rule in rules]
        return frame.with_columns(
            pl.Series("confidence_low", [low for low, _ in ends], dtype=pl.Float64),
            pl.Series("confidence_high", [high for _, high in ends], dtype=pl.Float64),
        )

    def _confidence_limits(self, rule: Rule, level: float) -> tuple[float, float]:
        """Both supports lie within their intervals at once in `level` of all releases."""
        half = min(0.9999, (1.0 + level) / 2)
        given = self.support(self._names(rule.given), level=half)
        both = self.support(self._names((*rule.given, *rule.then)), level=half)
        low = both.low / given.high if given.high > 0 else 0.0
        return min(1.0, low), min(1.0, both.high / given.low) if given.low > 0 else 1.0

    def _whole(self, consistent: bool) -> float:
        """The number of transactions that lifts are worked out with."""
        return float(self._sets(consistent).weights.sum())

    def to_frame(self, *, consistent: bool = False) -> pl.DataFrame:
        """One row per published itemset: its items and, as `weight`, its noisy count or its
        consistent weight."""
        return pl.DataFrame(
            {
                "items": self._lists(np.arange(self.counts.size)),
                "weight": self.consistent.weights if consistent else self.counts,
            }
        )

    def sample(
        self, n: int | None = None, *, seed: int | None = None, consistent: bool = True
    ) -> pl.DataFrame:
        """Synthetic transactions in proportion to the weights; as many as the release speaks of,
        unless `n` is given. Error bars computed from them as if they were real are far too
        small."""
        weights = self._sets(consistent).weights
        size = rows_to_draw(round(float(weights.sum())) if n is None else n)
        total = weights.sum()
        if total <= 0 and size > 0:
            raise QueryError("The release holds no itemset to draw from.")
        rng = generator_of(seed)
        rows = (
            rng.choice(self.counts.size, size=size, p=weights / total)
            if size
            else np.empty(0, dtype=np.int64)
        )
        return pl.DataFrame({"items": self._lists(rows)})

    def plot(self, *, top: int = 20, level: float = 0.95) -> Figure:
        """The most frequent items with error bars."""
        from dpublish.releases.itemsets.report import plot_items

        return plot_items(self, top=top, level=level)

    def plot_itemsets(self, k: int = 15, *, min_size: int = 2, level: float = 0.95) -> Figure:
        """The most frequent itemsets with error bars."""
        from dpublish.releases.itemsets.report import plot_top_itemsets

        return plot_top_itemsets(self, k, min_size=min_size, level=level)

    @property
    def transactions(self) -> int:
        """The number of transactions the release speaks of: noisy, or from the published counts
        where they say it better."""
        if self.complete or not self.total.known:
            return max(0, round(float(self._intervals.settled_counts().sum())))
        return max(0, self.total.value)

    def summary(self) -> dict[str, str]:
        rows = {
            **super().summary(),
            "items": f"{len(self.items):,}",
            "itemsets": f"{self.counts.size:,} published, {int(self.counts.sum()):,} transactions "
            "in them",
        }
        cut = self.manifest["facts"].get("max_items")
        if cut is not None:
            rows["cut"] = (
                f"transactions were cut to their first {cut:,} items, and all counts are of cut "
                f"transactions"
            )
        noisy = " (noisy count)" if self.total.known else ""
        return {**rows, "transactions": f"{self.transactions:,}{noisy}"}

    def _names(self, items: Iterable[int]) -> list[str]:
        return [self.items[item] for item in items]

    def _lists(self, rows: NDArray[np.int64]) -> pl.Series:
        """The itemsets of the given rows as lists of names."""
        if rows.size == 0:
            return pl.Series("items", [], dtype=pl.List(pl.String))
        members, sizes = self.sets.members_of(rows)
        names = self.tables["items"]["name"].gather(members.astype(np.uint32))
        return (
            pl.DataFrame({"row": np.repeat(np.arange(rows.size), sizes), "items": names})
            .group_by("row", maintain_order=True)
            .agg("items")
            .get_column("items")
        )


def _counts_frame(items: Sequence[str], answers: list[Estimate]) -> pl.DataFrame:
    """One row an item: item, count, standard_error, low, high."""
    return pl.DataFrame(
        [
            pl.Series("item", items, dtype=pl.String),
            pl.Series("count", [answer.value for answer in answers], dtype=pl.Float64),
            *_error_columns(answers),
        ]
    )


def _error_columns(answers: list[Estimate]) -> list[pl.Series]:
    return [
        pl.Series(name, [getattr(answer, name) for answer in answers], dtype=pl.Float64)
        for name in ("standard_error", "low", "high")
    ]


def _read_total(facts: Mapping[str, Any]) -> Total:
    total = table(facts, "total", "facts")
    if total.get("kind") not in ("noisy", "unknown"):
        raise BundleError("facts: 'total' must be noisy or unknown.")
    if total["kind"] == "noisy":
        value = total.get("value")
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) > 1 << 62:
            raise BundleError("facts: 'total' has no believable value.")
        fraction(total, "scale", "total")
    if facts.get("max_total") is not None:
        whole(facts, "max_total", "facts", limit=1 << 52)
    return Total.from_facts(facts)


def check_columns(
    tables: Mapping[str, pl.DataFrame], wanted: Mapping[str, Mapping[str, Any]], items: int
) -> None:
    """The columns of every table, and that each item is named once."""
    for name, columns in wanted.items():
        if name not in tables or dict(tables[name].schema) != columns:
            raise BundleError(
                f"{name}.parquet must have the columns {', '.join(columns)} in the types of "
                f"the format."
            )
        if sum(tables[name].null_count().row(0)):
            raise BundleError(f"{name}.parquet holds nulls.")
    if tables["items"].height != items or tables["items"]["name"].n_unique() != items:
        raise BundleError("items.parquet must name each item once.")


def check_range(column: str, values: NDArray[Any], low: int, high: int) -> None:
    """That the numbers of a column are at least `low` and below `high`."""
    if values.size and (values.min() < low or values.max() >= high):
        raise BundleError(f"The column '{column}' holds a number out of range.")


def _check_laws(facts: Mapping[str, Any]) -> None:
    laws = facts.get("laws")
    if not isinstance(laws, list) or len(laws) > MAX_LAWS:
        raise BundleError("facts: 'laws' must be a list of thresholds and scales.")
    for law in laws:
        if not isinstance(law, Mapping):
            raise BundleError("facts: every law must be an object.")
        if "threshold" not in law:
            raise BundleError("facts: a law has no threshold; one that left nothing out says null.")
        if law["threshold"] is not None:
            whole(law, "threshold", "law", limit=1 << 61)
        fraction(law, "scale", "law")


def _check_tree(tables: Mapping[str, pl.DataFrame], items: int) -> None:
    """Every node must cover the stretch that its children cover, side by side, and come after its
    parent."""
    start, stop, children = (
        tables["nodes"][name].to_numpy().astype(np.int64) for name in ("start", "stop", "children")
    )
    child = tables["children"]["child"].to_numpy().astype(np.int64)
    wrong = BundleError("nodes.parquet and children.parquet do not describe a tree over the items.")
    if (
        start.size == 0
        or children.min() < 1
        or children.max() > 30
        or int(children.sum()) != child.size
    ):
        raise wrong
    inner = ~child[child < 0]
    parent = np.repeat(np.arange(start.size), children)
    if (
        inner.size != start.size - 1
        or not np.array_equal(np.sort(inner), np.arange(1, start.size))
        or (inner <= parent[child < 0]).any()
        or (child >= items).any()
    ):
        raise wrong
    low = np.where(child >= 0, child, start[~np.minimum(child, -1)])
    high = np.where(child >= 0, child + 1, stop[~np.minimum(child, -1)])
    first = np.cumsum(children) - children
    together = np.ones(child.size, dtype=bool)
    together[1:] = low[1:] == high[:-1]
    together[first] = low[first] == start
    if (
        not together.all()
        or (high[first + children - 1] != stop).any()
        or start[0] != 0
        or stop[0] != items
        or (low >= high).any()
    ):
        raise wrong


def _check_cells(tables: Mapping[str, pl.DataFrame], items: int, facts: Mapping[str, Any]) -> None:
    parts, sets = tables["partitions"], tables["itemsets"]
    parent = parts["parent"].to_numpy()
    if (
        parts.height == 0
        or parent[0] != -1
        or (parent[1:] < 0).any()
        or (parent[1:] >= np.arange(1, parts.height)).any()
    ):
        raise BundleError(
            "partitions.parquet must begin with the root and name parents before their children."
        )
    for frame, column, low, high in (
        (parts, "next", -1, tables["nodes"].height),
        (parts, "law", -1, len(facts["laws"])),
        (parts, "next_law", -1, len(facts["laws"])),
        (sets, "law", 0, len(facts["laws"])),
        (sets, "parent", 0, parts.height),
        (sets, "size", 1, items + 1),
        (tables["members"], "item", 0, items),
    ):
        check_range(column, frame[column].to_numpy(), low, high)
    sizes, members = sets["size"].to_numpy().astype(np.int64), tables["members"]["item"].to_numpy()
    if int(sizes.sum()) != members.size:
        raise BundleError("members.parquet does not fit the sizes in itemsets.parquet.")
    inside = np.ones(members.size, dtype=bool)
    inside[np.cumsum(sizes)[:-1]] = False
    if members.size and (np.diff(members.astype(np.int64))[inside[1:]] <= 0).any():
        raise BundleError("The members of an itemset must ascend.")
    if not within_limits(np.concatenate([parts["count"].to_numpy(), sets["count"].to_numpy()])):
        raise BundleError("A count is not believable.")
    lowest = -(1 << 62)
    passed = [lowest if law["threshold"] is None else law["threshold"] for law in facts["laws"]]
    thresholds = np.array([*passed, lowest], dtype=np.int64)  # law -1, of the root, has none
    for frame in (parts, sets):
        if (frame["count"].to_numpy() <= thresholds[frame["law"].to_numpy()]).any():
            raise BundleError("A published count is not above its threshold.")
