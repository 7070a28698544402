"""One HTML page about a joined release: the guarantee, what was joined, every column with error bars, how to use it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpublish.errors import QueryError
from dpublish.public.charts import Bar, bar_chart, safe_text

if TYPE_CHECKING:
    from dpublish.public.releases.joined import JoinedRelease

MAX_CHARTS = 30
MAX_BARS = 20


def write_page(release: JoinedRelease, path: str | Path) -> Path:
    """Write the page."""
    path = Path(path)
    try:
        path.write_text(page_html(release), encoding="utf-8")
    except OSError as error:
        raise QueryError(f"'{path}' cannot be written: {error.strerror or type(error).__name__}.") from None
    return path


def page_html(release: JoinedRelease) -> str:
    style = resources.files("dpublish.public").joinpath("report.css").read_text(encoding="utf-8")
    name = safe_text(str(release.manifest["dataset"]))
    body = "\n".join([_header(release, name), _structure(release), _columns(release), _usage(release), _checks(release)])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>Release of {name}</title><style>\n{style}</style></head>\n<body><main>\n{body}\n"
        '<footer class="soft">This page was made from the release file alone. It reveals nothing that the file does not.'
        "</footer>\n</main></body></html>\n"
    )


def _header(release: JoinedRelease, name: str) -> str:
    manifest = release.manifest
    tiles = [
        (f"{release.rows:,}", "rows (public number)" if release.measured.total is not None else "rows (estimated)"),
        (f"{len(release.domain.axes):,}", "columns"),
        (f"{len(release.joined):,}", "joined tables"),
    ]
    cards = "".join(f'<div class="tile"><b>{safe_text(top)}</b><span>{safe_text(below)}</span></div>' for top, below in tiles)
    seeded = "Made with a fixed seed, for tests. This release gives no protection and must not be given out."
    warning = "" if release.publishable else f'<p class="warning">{seeded}</p>'
    return (
        f'<header><div class="kicker">Differentially private release</div><h1>{name}</h1>'
        f'<div class="soft">Method: {safe_text(str(manifest["method"]))} · made {safe_text(str(manifest["created"]))}</div>'
        f'</header>{warning}<div class="tiles">{cards}</div>'
        f'<h2>The guarantee</h2><p class="promise">{safe_text(release.privacy)}</p>'
    )


def _structure(release: JoinedRelease) -> str:
    rows = "".join(
        f"<tr><td>{safe_text(', '.join(names))}</td>"
        f'<td class="number">{" x ".join(str(size) for size in table.counts.shape[:-1])}</td>'
        f'<td class="number">{"first" if not table.round else f"round {table.round}"}</td>'
        f'<td class="number">± {1.96 * table.variance**0.5:,.0f} rows</td></tr>'
        for names, table in zip(release.joined, release.measured.tables, strict=True)
    )
    crossed = f" Every column was also counted with <b>{safe_text(release.target)}</b>." if release.target else ""
    return (
        f"<h2>What was joined</h2><p>Columns that were counted together, in the order of choice.{crossed} Columns "
        "that are not joined, directly or through others, are independent in this release"
        f"{' given the target' if release.target else ''}.</p>"
        '<table><tr><th>columns</th><th class="number">groups of levels</th><th class="number">chosen</th>'
        f'<th class="number">95% of the noise of a cell</th></tr>{rows}</table>'
    )


def _columns(release: JoinedRelease) -> str:
    blocks = ["<h2>What it shows</h2><p>Estimated numbers of rows with 95% intervals (black lines).</p>"]
    for axis in release.domain.axes[:MAX_CHARTS]:
        frame = release.marginal(axis.name)
        value, low, high = (frame.to_series(index).to_numpy() for index in (1, 3, 4))
        order = np.argsort(-value, kind="stable")[:MAX_BARS]
        order = np.sort(order) if axis.ordered else order
        bars = [Bar(axis.labels[int(i)], float(value[i]), float(low[i]), float(high[i])) for i in order]
        left = frame.height - len(bars)
        note = f'<p class="soft">The {len(bars)} largest are shown; {left:,} more are in the release.</p>' if left else ""
        blocks.append(f"<h3>{safe_text(axis.name)}</h3>{bar_chart(bars, axis.name)}{note}")
    left = len(release.domain.axes) - MAX_CHARTS
    return "\n".join([*blocks, f'<p class="soft">{left} more columns are in the release.</p>' if left > 0 else ""])


def _usage(release: JoinedRelease) -> str:
    file = release.path.name if release.path is not None else "release.dpr"
    last = release.domain.names[-1]
    code = "\n".join(
        [
            "import dpublish as dp",
            f"release = dp.open_release({file!r})",
            f"release.marginal({last!r})  # counts of every value, with intervals",
            "release.sample(1000)  # synthetic rows",
            f"release.fit(estimator, target={last!r})  # a scikit-learn model",
        ]
    )
    return f"<h2>How to use it</h2><pre>{safe_text(code)}</pre>"


def _checks(release: JoinedRelease) -> str:
    manifest = release.manifest
    rows = [("schema", str(manifest["schema_digest"]))]
    rows += [(name, str(entry["sha256"])) for name, entry in manifest.get("files", {}).items()]
    rows += [(f"version: {key}", str(value)) for key, value in manifest["versions"].items()]
    cells = "".join(f"<tr><th>{safe_text(key)}</th><td><code>{safe_text(value)}</code></td></tr>" for key, value in rows)
    limits = [
        "Dependence of three or more columns, beyond what the joined tables and the target explain, was not measured.",
        "Levels within a group of a table are taken to be alike in how they go with the other columns.",
        "Synthetic rows and SQL answers carry no error bars and keep the noise of the counts.",
    ]
    items = "".join(f"<li>{line}</li>" for line in limits)
    return (
        "<h2>Check it</h2><p><code>dpublish verify FILE</code> recomputes these SHA-256 hashes.</p>"
        f"<table>{cells}</table><h2>Limitations</h2><ul>{items}</ul>"
    )
