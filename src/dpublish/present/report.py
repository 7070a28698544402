"""One HTML page about a release, for a data officer, a lawyer and an analyst: no script, no
network, nothing else to load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpublish.errors import QueryError
from dpublish.models.thresholded_counts import noise_sum_quantile
from dpublish.outputs import as_path
from dpublish.present.charts import Bar, bar_chart, safe_text
from dpublish.privacy.statement import meaning
from dpublish.releases.bundle.manifest import read_cost

if TYPE_CHECKING:
    import polars as pl

    from dpublish.declare.domain import Domain
    from dpublish.privacy.cost import Cost
    from dpublish.releases.base import Release
    from dpublish.releases.histogram.release import HistogramRelease

MAX_CHARTS = 24
MAX_BARS = 20


_PAGES = ("", ".html", ".htm")


def write_report(release: HistogramRelease, path: str | Path) -> Path:
    """Write the page."""
    return save_page(report_html(release), path)


def save_page(page: str, path: str | Path) -> Path:
    path = as_path(path)
    if path.suffix.lower() not in _PAGES:
        raise QueryError(
            f"A report is an HTML page: name it '{path.stem}.html', not '{path.name}'. A browser "
            f"prints it as PDF."
        )
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise QueryError(
            f"'{path}' cannot be written: {error.strerror or type(error).__name__}."
        ) from None
    return path


def report_html(release: HistogramRelease) -> str:
    name = str(release.manifest["dataset"])
    sections = [
        _header(release),
        guarantee(release),
        _accuracy(release),
        _marginals(release),
        _usage(release),
        verification(release),
        _limitations(release),
    ]
    return html_page(name, sections)


def release_page(
    release: Release,
    *,
    lead: str,
    tiles: Iterable[tuple[str, str]],
    body: Iterable[str],
    limits: Sequence[str],
    warnings: Iterable[str] = (),
) -> str:
    """A whole page: what every release has to say, and in the middle what is particular to this
    one."""
    sections = [
        header(release, lead, tiles, warnings=warnings),
        guarantee(release),
        how_it_was_made(release),
        *body,
        verification(release),
        limitations(release, limits),
    ]
    return html_page(str(release.manifest["dataset"]), sections)


def html_page(name: str, sections: Iterable[str]) -> str:
    """A whole page about the data set of that name."""
    style = resources.files("dpublish.present").joinpath("report.css").read_text(encoding="utf-8")
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # nothing in the page may load anything, whatever text it quotes
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'unsafe-inline'\">"
        f"<title>Release of "
        f"{safe_text(name)}</title><style>\n{style}</style></head>\n<body><main>\n{body}\n"
        '<footer class="soft">This page was made from the release file alone. It reveals nothing '
        "that the file does not."
        "</footer>\n</main></body></html>\n"
    )


def header(
    release: Release, lead: str, tiles: Iterable[tuple[str, str]], *, warnings: Iterable[str] = ()
) -> str:
    """Name, method and date, warnings (one if it was made with a seed), a sentence of HTML, and
    figures to see at a glance."""
    manifest = release.manifest
    shown = [*tiles, (_price(read_cost(manifest["privacy"])), "privacy cost")]
    cards = "".join(
        f'<div class="tile"><b>{safe_text(top)}</b><span>{safe_text(below)}</span></div>'
        for top, below in shown
    )
    seeded = (
        "Made with a fixed seed, for tests. This release gives no protection and must not "
        "be given out."
    )
    notes = warnings if release.publishable else (seeded, *warnings)
    warned = "".join(f'<p class="warning">{safe_text(line)}</p>' for line in notes)
    return (
        f'<header><div class="kicker">Differentially private '
        f"release</div><h1>{safe_text(str(manifest['dataset']))}</h1>"
        f'<div class="soft">Method: {safe_text(str(manifest["method"]))} · '
        f"made {safe_text(str(manifest['created']))}</div></header>"
        f'{warned}<p>{lead}</p><div class="tiles">{cards}</div>'
    )


def _header(release: HistogramRelease) -> str:
    kind = {
        "public": "rows (public number)",
        "noisy": "rows (noisy count)",
        "unknown": "rows in released cells",
    }
    lead = (
        f"This release holds noisy counts of the combinations of "
        f"<b>{safe_text(listed(release.domain.names))}</b>. It was made "
        "from private rows; the rows themselves are not in it."
    )
    tiles = [
        (f"{release.rows:,}", kind[release.total.kind]),
        (f"{len(release.domain.axes):,}", "columns"),
        (f"{len(release.cells):,}", f"cells released of {big(release.domain.size)}"),
    ]
    return header(release, lead, tiles)


def guarantee(release: Release) -> str:
    privacy = release.manifest["privacy"]
    cost, neighbours = read_cost(privacy), str(privacy["neighbours"])
    changed = {
        "replace-one": "replaced by any other",
        "add-remove-one": "added or taken away",
    }.get(neighbours, "changed")
    words = [
        f"What is protected: <b>{safe_text(str(privacy['unit']))}</b>. The claim compares the "
        f"real data with data in which "
        f"this one unit was {changed}.",
        *(safe_text(sentence) for sentence in meaning(cost, neighbours)),
        "It holds against a reader who knows every other row, has any other data, and has "
        "unlimited time. It does not wear "
        "off, and nothing done with this file weakens it.",
        "It adds up: the costs of all releases from the same data are to be summed, and the "
        "budget ledger of the data owner "
        "does so.",
    ]
    not_meant = (
        "It does not say that nothing can be learnt about a person: what the data teach about "
        "people in general (for instance, "
        "that income rises with age) applies to each of them whether or not they were in the data."
    )
    items = "".join(f"<li>{line}</li>" for line in words)
    return (
        f'<h2>The guarantee</h2><p class="promise">{safe_text(release.privacy)}</p>'
        f"<p>In other words:</p><ul>{items}</ul><p>{not_meant}</p>"
    )


def how_it_was_made(release: Release, *, until: int | None = None) -> str:
    """What the plan said; `until` leaves out its last sentences, as in a slice."""
    lines = "".join(
        f"<li>{safe_text(str(line))}</li>"
        for line in release.manifest["plan"].get("sentences", [])[:until]
    )
    return f"<h2>How it was made</h2><ul>{lines}</ul>"


def _accuracy(release: HistogramRelease) -> str:
    law = release.law
    sizes = np.array([1.0, 10.0, 100.0, 1000.0])
    widths = noise_sum_quantile(0.025, sizes, law.scale)
    rows = "".join(
        f"<tr><td>a count that adds up {int(size):,} released cell{'s' if size > 1 else ''}</td>"
        f'<td class="number">± {width:,.0f} rows</td></tr>'
        for size, width in zip(sizes, widths, strict=True)
        if size <= release.domain.size
    )
    whole = release.estimate("true")
    released = int(release.counts.sum())
    lines = [
        f"Every cell got random noise of scale {safe_text(str(law.scale))} (discrete Laplace). "
        f"Cells whose noisy count is "
        f"not above {law.threshold:,} were left out.",
        f"A cell without any row shows up by chance with probability {law.pass_rate:.2g}: about "
        f"{law.pass_rate * release.domain.size:,.0f} such cells are to be expected among "
        f"{big(release.domain.size)}.",
        f"The released counts add up to {released:,}; the release says {whole.value:,.0f} rows in "
        f"all. Rows in cells that were "
        "left out are accounted for by the intervals of <code>estimate</code> and "
        "<code>marginal</code>.",
    ]
    return (
        "<h2>Expected accuracy</h2>"
        + "".join(f"<p>{line}</p>" for line in lines)
        + f'<table><tr><th>for</th><th class="number">95% of the noise lies '
        f"within</th></tr>{rows}</table>"
    )


def _marginals(release: HistogramRelease) -> str:
    return "\n".join(
        [
            "<h2>What it shows</h2><p>Estimated numbers of rows with 95% intervals (black lines). "
            "The intervals cover both the noise and the cells that were left out.</p>",
            *column_charts(release.domain, release.marginal),
        ]
    )


def column_charts(domain: Domain, marginal: Callable[[str], pl.DataFrame]) -> list[str]:
    """A chart of every column, from tables of labels, count, standard error, low and high."""
    blocks = []
    for axis in domain.axes[:MAX_CHARTS]:
        if axis.cardinality > 1_000_000:
            blocks.append(
                f'<h3>{safe_text(axis.name)}</h3><p class="soft">{axis.cardinality:,} values: too '
                f"many to show.</p>"
            )
            continue
        frame = marginal(axis.name)
        value = frame.to_series(1).to_numpy()
        order = np.argsort(-value, kind="stable")[:MAX_BARS]
        if axis.ordered:
            order = np.sort(order)
        labels, low, high = (
            frame.to_series(0),
            frame.to_series(3).to_numpy(),
            frame.to_series(4).to_numpy(),
        )
        bars = [Bar(labels[int(i)], float(value[i]), float(low[i]), float(high[i])) for i in order]
        left = frame.height - len(bars)
        note = (
            f'<p class="soft">The {len(bars)} largest are shown; {left:,} more are in the '
            f"release.</p>"
            if left
            else ""
        )
        blocks.append(f"<h3>{safe_text(axis.name)}</h3>{bar_chart(bars, axis.name)}{note}")
    left = len(domain.axes) - MAX_CHARTS
    if left > 0:
        blocks.append(f'<p class="soft">{left} more columns are in the release.</p>')
    return blocks


def _usage(release: HistogramRelease) -> str:
    last = release.domain.axes[-1]
    predicate, group = example_predicate(release.domain), quoted(last.name)
    return usage(
        release,
        f"release.estimate({predicate!r})            # a count with an error bar",
        f"release.marginal({last.name!r})            # counts of every value, with error bars",
        f"release.sql({f'select {group}, count(*) from release group by {group}'!r})",
        "release.sample(1000)            # synthetic rows",
        f"release.fit(estimator, target={last.name!r})            # a scikit-learn model",
    )


def example_predicate(domain: Domain) -> str:
    first = domain.axes[0]
    if first.numeric:
        bound = (
            f"'{first.label(0).split('..')[0]}'" if first.kind == "date" else f"{first.edges[0]:g}"
        )
        return f"{quoted(first.name)} >= {bound}"
    level = first.levels[0].replace("'", "''")
    return f"{quoted(first.name)} = '{level}'"


def quoted(name: str) -> str:
    """A column's name as SQL takes it."""
    return name if name.isidentifier() else f'"{name}"'


def usage(release: Release, *lines: str) -> str:
    """Python that opens the release and goes on with these lines; text after twelve spaces and # is
    lined up."""
    file = release.path.name if release.path is not None else "release.dpr"
    code = "\n".join(["import dpublish as dp", f"release = dp.open_release({file!r})", *lines])
    return f"<h2>How to use it</h2><pre>{safe_text(_aligned(code))}</pre>"


def _aligned(code: str) -> str:
    pairs = [
        [part.rstrip() for part in line.partition("            # ")[::2]]
        for line in code.splitlines()
    ]
    width = min(64, max((len(left) for left, right in pairs if right), default=0))
    return "\n".join(f"{left:<{width}}  # {right}" if right else left for left, right in pairs)


def verification(release: Release) -> str:
    manifest = release.manifest
    # releases that do not state the number of units have it in the hash, even where the schema did
    # not declare it
    rows = [
        (
            "schema" if "size" in manifest["privacy"] else "schema with its size",
            str(manifest["schema_digest"]),
        )
    ]
    if release.path is not None:
        facts = release.verify().facts
        rows += [
            (label, str(facts[key]))
            for key, label in (("sha256", "release file"), ("manifest_sha256", "manifest"))
            if key in facts
        ]
    rows += [("signed by", one.describe()) for one in release.signatures]
    rows += [(name, str(entry["sha256"])) for name, entry in manifest.get("files", {}).items()]
    receipt = {
        str(key): value
        for key, value in manifest["receipt"].items()
        if isinstance(value, str | int)
    }
    rows += [(f"ledger receipt: {key}", str(value)) for key, value in receipt.items()]
    rows += [(f"version: {key}", str(value)) for key, value in manifest["versions"].items()]
    cells = "".join(
        f"<tr><th>{safe_text(key)}</th><td><code>{safe_text(value)}</code></td></tr>"
        for key, value in rows
    )
    return (
        "<h2>Check it</h2><p>Compare these SHA-256 hashes with those that the data owner states. "
        f"<code>dpublish verify FILE</code> recomputes them.</p><table>{cells}</table>"
    )


def _limitations(release: HistogramRelease) -> str:
    lines = [
        "Intervals hold in 95% of releases for a question fixed beforehand. Of many questions "
        "asked, about one in twenty "
        "intervals misses; those picked because they look striking miss more often.",
        "Counts of small groups are mostly noise. A combination that is absent may have had rows, "
        "and one that is "
        "present with a small count may have had none.",
        "Numbers were grouped into bins; what happens inside a bin is not in the release. Sampled "
        "rows are drawn evenly there.",
        "Weighted tables and synthetic rows carry no error bars and keep the noise of the counts; "
        "SQL has limits for counts "
        "only, with a level.",
        "Results of SQL and models ignore the rows in cells that were left out.",
    ]
    return limitations(release, lines)


def limitations(release: Release, lines: Sequence[str]) -> str:
    """What to keep in mind, and what the plan warned of."""
    warnings = release.manifest["plan"].get("warnings", [])
    said = (
        [str(line) for line in warnings if isinstance(line, str)]
        if isinstance(warnings, list)
        else []
    )
    return (
        "<h2>Limitations</h2><ul>"
        + "".join(f"<li>{safe_text(line)}</li>" for line in (*lines, *said))
        + "</ul>"
    )


def _price(cost: Cost) -> str:
    price = (
        cost.describe()
        .split(" (")[0]
        .replace("epsilon", "ε")
        .replace("delta", "δ")
        .replace("rho", "ρ")
    )
    return price.replace("e-", "e\N{MINUS SIGN}")  # a line may break after a hyphen


def listed(names: tuple[str, ...]) -> str:
    shown = list(names[:12])
    return ", ".join(shown) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def big(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{float(number):.2e}"
