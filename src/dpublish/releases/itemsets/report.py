"""One HTML page about a set-valued release: no script, no network, nothing else to load."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpublish.present.charts import Bar, bar_chart
from dpublish.present.report import release_page, save_page, usage

if TYPE_CHECKING:
    import polars as pl

    from dpublish.releases.itemsets.release import ItemsetRelease

BARS = 20


def write_report(release: ItemsetRelease, path: str | Path) -> Path:
    return save_page(report_html(release), path)


def report_html(release: ItemsetRelease) -> str:
    kind = (
        "transactions (noisy count)"
        if release.total.known
        else "transactions in published itemsets"
    )
    cut = release.manifest["facts"].get("max_items")
    lead = (
        "This release holds sets of items with noisy numbers of the transactions that consist of "
        "just those items. It was made "
        "from private transactions; they are not in it."
        + (
            ""
            if cut is None
            else f" Transactions were cut to their first {cut:,} items before they were counted."
        )
    )
    tiles = [
        (f"{release.transactions:,}", kind),
        (f"{len(release.items):,}", "declared items"),
        (f"{release.counts.size:,}", "itemsets published"),
    ]
    items, others = release.frequent_items(top=BARS)
    items = items.sort("count", descending=True)
    pairs = release.top_itemsets(BARS, min_size=2, level=0.95).sort("estimate", descending=True)
    charts = [
        ("Most frequent items", _bars(items["item"].to_list(), items, "count")),
        (
            "Most frequent itemsets",
            _bars([" + ".join(row) for row in pairs["items"].to_list()], pairs, "estimate"),
        ),
    ]
    words = {charts[0][0]: f"<p>{others}</p>"} if others else {}
    pictures = "".join(
        f"<h3>{title}</h3>{bar_chart(bars, title)}{words.get(title, '')}"
        for title, bars in charts
        if bars
    )
    if release.counts.size == 0:
        pictures = '<p class="warning">No itemset passed its threshold: this release is empty.</p>'
    limits = [
        "Itemsets that occur rarely are missing; one that is present with a small count may be "
        "noise.",
        "Intervals hold in 95% of releases for a question fixed beforehand.",
        "Rules and synthetic transactions carry no error bars.",
    ]
    shows = (
        "<h2>What it shows</h2><p>Numbers of transactions with 95% intervals (black lines). The "
        "bars take "
        f"transactions whose itemset was left out to be like the others; the intervals do "
        f"not.</p>{pictures}"
    )
    body = [
        shows,
        _usage(release),
    ]
    return release_page(release, lead=lead, tiles=tiles, body=body, limits=limits)


def _usage(release: ItemsetRelease) -> str:
    return usage(
        release,
        f"release.support([{release.items[0]!r}])            # a count with an error bar",
        "release.top_itemsets(10, level=0.95)            # the most frequent itemsets",
        "release.rules()            # association rules",
        "release.sample(1000)            # synthetic transactions",
    )


def _bars(labels: list[str], frame: pl.DataFrame, column: str) -> list[Bar]:
    ends = zip(
        frame[column].to_list(), frame["low"].to_list(), frame["high"].to_list(), strict=True
    )
    return [
        Bar(label, value, low, high) for label, (value, low, high) in zip(labels, ends, strict=True)
    ]
