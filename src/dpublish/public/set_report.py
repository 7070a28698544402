"""One HTML page about a set-valued release: no script, no network, nothing else to load."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from dpublish.errors import QueryError
from dpublish.public.charts import Bar, bar_chart, safe_text

if TYPE_CHECKING:
    import polars as pl

    from dpublish.public.releases.itemsets import ItemsetRelease

BARS = 20


def write_report(release: ItemsetRelease, path: str | Path) -> Path:
    path = Path(path)
    try:
        path.write_text(report_html(release), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"'{path}' cannot be written: {error.strerror or type(error).__name__}.") from None
    return path


def report_html(release: ItemsetRelease) -> str:
    style = resources.files("dpublish.public").joinpath("report.css").read_text(encoding="utf-8")
    name = safe_text(str(release.manifest["dataset"]))
    warning = (
        ""
        if release.publishable
        else '<p class="warning">Made with a fixed seed, for tests. This release gives no protection and must not be given '
        "out.</p>"
    )
    facts = "".join(f"<tr><th>{safe_text(key)}</th><td>{safe_text(text)}</td></tr>" for key, text in release.summary().items())
    plan = "".join(f"<li>{safe_text(str(line))}</li>" for line in release.manifest["plan"].get("sentences", []))
    items = release.item_counts(top=BARS)
    pairs = release.top_itemsets(BARS, min_size=2, level=0.95)
    charts = [
        ("Most frequent items", _bars(items["item"].to_list(), items, "count")),
        ("Most frequent itemsets", _bars([" + ".join(row) for row in pairs["items"].to_list()], pairs, "estimate")),
    ]
    pictures = "".join(f"<h3>{title}</h3>{bar_chart(bars, title)}" for title, bars in charts if bars)
    body = (
        f'<header><div class="kicker">Differentially private release</div><h1>{name}</h1></header>{warning}'
        f"<h2>What this is</h2><table>{facts}</table><h2>How it was made</h2><ul>{plan}</ul>"
        "<h2>What it shows</h2><p>Numbers of transactions with 95% intervals (black lines). The bars take "
        f"transactions whose itemset was left out to be like the others; the intervals do not.</p>{pictures}"
        "<h2>Limitations</h2><ul><li>Itemsets that occur rarely are missing; one that is present with a small count may be "
        "noise.</li><li>Intervals hold in 95% of releases for a question fixed beforehand.</li><li>Rules and synthetic "
        "transactions carry no error bars.</li></ul>"
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # nothing in the page may load anything, whatever text it quotes
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Release of {name}</title><style>\n{style}</style></head>\n<body><main>\n{body}\n"
        '<footer class="soft">This page was made from the release file alone. It reveals nothing that the file does not.'
        "</footer>\n</main></body></html>\n"
    )


def _bars(labels: list[str], frame: pl.DataFrame, column: str) -> list[Bar]:
    ends = zip(frame[column].to_list(), frame["low"].to_list(), frame["high"].to_list(), strict=True)
    return [
        Bar(label, value, low, high if high != float("inf") else value)
        for label, (value, low, high) in zip(labels, ends, strict=True)
    ]
