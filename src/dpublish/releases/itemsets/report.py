"""What a report says about a set-valued release: frequent items and frequent itemsets."""

from __future__ import annotations

from numbers import Integral
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from dpublish.errors import QueryError
from dpublish.present.charts import Bar
from dpublish.present.figures import Figure, bars_figure, dress, short_label
from dpublish.present.report import (
    Block,
    Chart,
    Heading,
    Paragraph,
    Report,
    Section,
    how_it_was_made,
    usage,
)

if TYPE_CHECKING:
    from dpublish.releases.itemsets.release import ItemsetRelease
    from dpublish.releases.itemsets.supports import SupportRelease

BARS = 20
LIMITS = (
    "Itemsets that occur rarely are missing; one that is present with a small count may be noise.",
    "Intervals hold in 95% of releases for a question fixed beforehand.",
    "Rules and synthetic transactions carry no error bars.",
)


def sections(release: ItemsetRelease) -> Report:
    cut = release.manifest["facts"].get("max_items")
    lead = (
        "This release holds sets of items with noisy numbers of the transactions that consist of "
        "just those items. It was made from private transactions; they are not in it."
    )
    if cut is not None:
        lead += f" Transactions were cut to their first {cut:,} items before they were counted."
    return Report(
        lead=lead,
        tiles=[
            (
                f"{release.transactions:,}",
                "transactions (noisy count)"
                if release.total.known
                else "transactions in published itemsets",
            ),
            (f"{len(release.items):,}", "declared items"),
            (f"{release.counts.size:,}", "itemsets published"),
        ],
        sections=[how_it_was_made(release), _shows(release), _usage(release)],
        limits=LIMITS,
    )


def support_sections(release: SupportRelease) -> Report:
    """The same for measured supports."""
    measured = release.to_frame()["items"].list.len()
    return Report(
        lead="This release holds noisy numbers of the transactions that hold an item, a pair or a "
        "larger set. It was made from private transactions; they are not in it.",
        tiles=[
            (f"{release.transactions:,}", "transactions (noisy count)"),
            (f"{int((measured == 1).sum()):,} of {len(release.items):,}", "items counted"),
            (f"{int((measured > 1).sum()):,}", "pairs and larger sets counted"),
        ],
        sections=[
            how_it_was_made(release),
            _shows(
                release,
                "Numbers of transactions with 95% intervals (black lines). The upper ends allow "
                "for long transactions, which count with a smaller weight.",
            ),
            _usage(release),
        ],
        limits=(
            "An item or set that was not counted reads 0; its interval says how large it may be.",
            LIMITS[1],
            "Synthetic transactions carry no error bars.",
        ),
    )


def _shows(
    release: ItemsetRelease,
    words: str = "Numbers of transactions with 95% intervals (black lines). The bars take "
    "transactions whose itemset was left out to be like the others; the intervals do not.",
) -> Section:
    blocks: list[Block] = [Paragraph(words)]
    if release.counts.size == 0:
        empty = "No itemset passed its threshold: this release is empty."
        return Section("What it shows", [*blocks, Paragraph(empty, "warning")])
    items, others = release.frequent_items(top=BARS)
    items = items.sort("count", descending=True)
    if items.height:
        title = "Most frequent items"
        blocks += [Heading(title), Chart(title, _bars(items["item"].to_list(), items, "count"))]
        blocks += [Paragraph(others)] if others else []
    pairs = release.top_itemsets(BARS, min_size=2, level=0.95).sort("estimate", descending=True)
    if pairs.height:
        title = "Most frequent itemsets"
        labels = [" + ".join(row) for row in pairs["items"].to_list()]
        blocks += [Heading(title), Chart(title, _bars(labels, pairs, "estimate"))]
    return Section("What it shows", blocks)


def _usage(release: ItemsetRelease) -> Section:
    return usage(
        release,
        f"release.support([{release.items[0]!r}])            # a count with an error bar",
        "release.top_itemsets(10, level=0.95)            # the most frequent itemsets",
        "release.rules()            # association rules",
        "release.sample(1000)            # synthetic transactions",
    )


def _bars(labels: list[str], frame: pl.DataFrame, column: str) -> list[Bar]:
    return list(map(Bar, labels, frame[column], frame["low"], frame["high"]))


# Figures of set-valued releases, with matplotlib: frequent items and frequent itemsets, with
# error bars.

_LABEL_LENGTH = 44
MAX_BARS = 100


def plot_items(release: ItemsetRelease, *, top: int, level: float) -> Figure:
    """The most frequent items."""
    frame, others = release.frequent_items(top=_number(top), level=level)
    return _figure(release, "items", frame["item"].to_list(), frame, "count", level, others)


def plot_top_itemsets(release: ItemsetRelease, k: int, *, min_size: int, level: float) -> Figure:
    """The most frequent itemsets of at least `min_size` items."""
    frame = release.top_itemsets(_number(k), min_size=min_size, level=level)
    labels = [" + ".join(items) for items in frame["items"].to_list()]
    return _figure(release, "itemsets", labels, frame, "estimate", level)


def _number(number: int) -> int:
    if isinstance(number, bool) or not isinstance(number, Integral) or not 1 <= number <= MAX_BARS:
        raise QueryError(f"A plot shows 1 to {MAX_BARS} bars, not {number!r}.")
    return number


def _figure(
    release: ItemsetRelease,
    what: str,
    labels: list[str],
    frame: pl.DataFrame,
    column: str,
    level: float,
    others: str = "",
) -> Figure:
    order = np.argsort(-frame[column].to_numpy(), kind="stable")
    labels, frame = [labels[int(place)] for place in order], frame[order]
    value, low, high = (frame[name].to_numpy() for name in (column, "low", "high"))
    # without a noisy total there is no upper end
    shown = [short_label(label, _LABEL_LENGTH) for label in labels]
    figure, axes, note = bars_figure(
        shown, value, low, high, axis=f"transactions ({100 * level:.4g}% intervals)"
    )
    title = short_label(f"{release.manifest['dataset']}: most frequent {what}", _LABEL_LENGTH)
    dress(figure, axes, title, " ".join(part for part in (others, note) if part))
    return figure
