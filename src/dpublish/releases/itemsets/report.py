"""What a report says about a set-valued release: frequent items and frequent itemsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpublish.present.charts import Bar
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
    import polars as pl

    from dpublish.releases.itemsets.release import ItemsetRelease
    from dpublish.releases.itemsets.supports import SupportRelease

BARS = 20
LIMITS = (
    "Itemsets that occur rarely are missing; one that is present with a small count may be noise.",
    "Intervals hold in 95% of releases for a question fixed beforehand.",
    "Rules and synthetic transactions carry no error bars.",
)


def sections(release: ItemsetRelease) -> Report:
    known = release.total.known
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
                "transactions (noisy count)" if known else "transactions in published itemsets",
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
        bars = _bars(items["item"].to_list(), items, "count")
        blocks += [Heading(title), Chart(title, bars)]
        blocks += [Paragraph(others)] if others else []
    pairs = release.top_itemsets(BARS, min_size=2, level=0.95).sort("estimate", descending=True)
    if pairs.height:
        title = "Most frequent itemsets"
        bars = _bars([" + ".join(row) for row in pairs["items"].to_list()], pairs, "estimate")
        blocks += [Heading(title), Chart(title, bars)]
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
    ends = zip(labels, frame[column], frame["low"], frame["high"], strict=True)
    return [Bar(*one) for one in ends]
