"""`dpublish page`: a release as one HTML file that is opened from disk, without server or network;
and `dpublish report`: the same sections in a skin to print.

What it can answer was worked out by the release (`lookup.py`); what it says about itself are the
sections of the report. Every string of a bundle is data: templates escape it, the script puts it
into text nodes only, and the policy of the page lets nothing run or load but its own two blocks.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpublish.errors import QueryError
from dpublish.outputs import write_html
from dpublish.present.charts import Bar, bar_chart, safe_text, visible
from dpublish.present.page.lookup import Lookups, lookups
from dpublish.present.page.summaries import LEVEL
from dpublish.present.report import (
    Block,
    Chart,
    Code,
    Drawing,
    Heading,
    Link,
    Listing,
    Paragraph,
    Program,
    Report,
    Section,
    Strong,
    Table,
    Text,
    price,
    report_sections,
)
from dpublish.privacy.statement import guesses
from dpublish.releases.bundle.manifest import read_cost

if TYPE_CHECKING:
    from dpublish.releases.base import Release

MAX_EMBEDDED = 512 * 1024
"""Bytes of a release file that goes into its page."""
SAMPLED = 20


def write_page(release: Release, path: str | Path, *, by: Sequence[str] = ()) -> Path:
    """Write the page; `by` names three columns or more that get a table of their own."""
    return write_html(
        path,
        lambda: page_html(release, by=by),
        "A page is HTML: name it '{stem}.html', not '{name}'.",
    )


def page_html(release: Release, *, by: Sequence[str] = ()) -> str:
    """The whole page."""
    return skin_html(release, release.sections(), skin="page", found=lookups(release, by))


def skin_html(
    release: Release,
    own: Report,
    *,
    skin: Literal["page", "report"],
    found: Lookups | None = None,
) -> str:
    """The sections of a release in one of two skins: a page to ask, with tables to look up, or a
    report to print, without a script."""
    found = Lookups() if found is None else found
    asked = skin == "page"
    style = _read("report.css", "") + (_read("page.css") if asked else "")
    script = _read("page.js") if asked else ""
    policy = [
        "default-src 'none'",
        *([f"script-src '{_hash(script)}'"] if asked else []),
        f"style-src '{_hash(style)}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    sections = report_sections(release, own)
    if found.singles or found.lists:
        # the page shows these itself, to be asked
        sections = tuple(one for one in sections if one.title != "What it shows")
    return str(
        _template().render(
            asked=asked,
            title=str(release.manifest["dataset"]),
            manifest=release.manifest,
            policy=_trusted("; ".join(policy)),
            style=_trusted(style),
            script=_trusted(script),
            opening=opening(release),
            lead=_trusted(text_html(own.lead)),
            tiles=[*own.tiles, (price(read_cost(release.manifest["privacy"])), "privacy cost")],
            warnings=_warnings(release, own.warnings),
            data=_trusted(_embedded(page_data(release, found))) if asked else "",
            explorable=bool(found.singles),
            ordered=bool(found.ranges),
            searchable=bool(found.lists),
            absent=_absent(found),
            columns=[one["name"] for one in found.columns],
            sample=_sample(release) if asked else None,
            contents=[(one.title, anchor(one.title)) for one in sections],
            sections=[_trusted(section_html(one)) for one in sections],
            file=_file(release, whole=asked),
            citation=citation(release),
            signers=[one.describe() for one in release.signatures],
        )
    )


@cache
def _template() -> Any:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    # control characters are made visible, as in the text of blocks
    environment.finalize = lambda value: visible(value) if isinstance(value, str) else value
    return environment.from_string(_read("page.html"))


def opening(release: Release) -> list[str]:
    """What this is and whom it protects, in three sentences."""
    privacy = release.manifest["privacy"]
    try:
        rows = getattr(release, "rows", None)
    except QueryError:  # weights whose public rows are elsewhere
        rows = None
    about = rows_in_words(release, float(rows)) if isinstance(rows, int | float) else ""
    return [
        f"These are numbers about '{release.manifest['dataset']}'{about}, published once with "
        "noise that protects the people in it; anyone may use them for ever.",
        guesses(read_cost(privacy), str(privacy["neighbours"]))[0],
        _how_sure(release),
    ]


def rows_in_words(release: Release, rows: float) -> str:
    """How many rows there are: where units are rows, all of them are public and some of them may
    not have been counted; where units have several, their number is private."""
    most, private = release.max_rows, release.manifest["privacy"]
    if not math.isfinite(most) or round(rows) >= most:
        return f" ({rows:,.0f} rows)"
    if private.get("max_rows_per_unit", 1) == 1:
        return (
            f" ({most:,.0f} rows, of which about {rows:,.0f} are counted as far as the noise tells)"
        )
    return f" (about {rows:,.0f} rows of {private['size']:,} units)"


def _how_sure(release: Release) -> str:
    if {"estimate", "marginal"} & set(release.offers()) or hasattr(release, "support"):
        return (
            "Every number has limits, or a note that says why not: the true one lies between them "
            f"in at least {100 * LEVEL:.0f} of 100 such releases."
        )
    return "What it does not tell, and how good it is, stands beside it."


def _absent(found: Lookups) -> list[str]:
    """What the page has no table for."""
    lines = []
    apart = [table for table in found.crossed if not table.counted]
    if apart:
        lines.append(
            f"{len(apart)} of {len(found.crossed)} pairs of columns were not counted together; "
            "they are hatched, and their limits are wide."
        )
    if any(len(table.columns) == 2 for table in found.crossed):
        lines.append(
            "Three or more columns at once are in no table of this page unless it was made with "
            "--by; 'Ask something else' shows how to ask for them."
        )
    return lines + [f"Not in this page: {line}" for line in found.missing]


def citation(release: Release) -> str:
    manifest = release.manifest
    publisher = manifest.get("about", {}).get("publisher") or "The data owner"
    return (
        f"{publisher} ({str(manifest['created'])[:4]}). {manifest['dataset']}: differentially "
        f"private release ({manifest['method']}, "
        f"{read_cost(manifest['privacy']).describe().split(' (')[0]}). "
        f"Schema {str(manifest['schema_digest'])[:12]}."
    )


def page_data(release: Release, found: Lookups) -> dict[str, Any]:
    """What the script reads."""
    return {
        "file": release.file_name,
        "columns": found.columns,
        "singles": [one.to_json() for one in found.singles],
        "ranges": {
            name: {**one, **{end: [visible(text) for text in one[end]] for end in ("from", "to")}}
            for name, one in found.ranges.items()
        },
        "crossed": [one.to_json() for one in found.crossed],
        "lists": [one.to_json() for one in found.lists],
        "summaries": found.summaries,
        "byGroup": [
            {**one, "labels": [visible(label) for label in one["labels"]]} for one in found.by_group
        ],
        "calls": [call for call in ("marginal", "sql", "estimate") if hasattr(release, call)],
    }


def _embedded(data: dict[str, Any]) -> str:
    """JSON that cannot end the block it stands in."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    # lone surrogates have no UTF-8; all are written as JSON escapes
    return re.sub(
        r"[<>&\u2028\u2029\ud800-\udfff]", lambda match: f"\\u{ord(match.group()):04x}", text
    )


def _warnings(release: Release, own: Sequence[str]) -> list[str]:
    seeded = (
        "Made with a fixed seed, for tests. This release gives no protection and must not be "
        "given out."
    )
    return [*([] if release.publishable else [seeded]), *map(str, own)]


def _sample(release: Any) -> dict[str, Any] | None:
    """A few synthetic rows as text, where the kind has them."""
    if "sample" not in release.offers():
        return None
    frame = release.sample(SAMPLED, seed=0)
    rows = [[_shown(cell) for cell in row] for row in frame.iter_rows()]
    return {"columns": frame.columns, "rows": rows}


def _shown(cell: Any) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return (
        ", ".join(map(str, cell)) if isinstance(cell, list) else "" if cell is None else str(cell)
    )


def _file(release: Release, *, whole: bool) -> dict[str, str] | None:
    """The release itself, if it is a file that is small enough, and its hash."""
    if release.path is None or not release.path.is_file():
        return None
    content = release.path.read_bytes()
    found = {"name": release.path.name, "sha256": hashlib.sha256(content).hexdigest()}
    if whole and len(content) <= MAX_EMBEDDED:
        found["base64"] = base64.b64encode(content).decode("ascii")
    return found


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _read(name: str, folder: str = "page") -> str:
    home = resources.files("dpublish.present")
    return (home.joinpath(folder) if folder else home).joinpath(name).read_text(encoding="utf-8")


def _trusted(text: str) -> Any:
    """Text of the product's own, or escaped already: a template takes it as it is."""
    from markupsafe import Markup

    return Markup(text)


# Blocks of a report as HTML. Every text is escaped here, so that a kind of release never writes
# HTML; the page and the report are two skins around what this makes.


def section_html(section: Section) -> str:
    """One section; every text in it is escaped."""
    head = f'<h2 id="{anchor(section.title)}">{safe_text(section.title)}</h2>'
    return head + "".join(map(_block, section.blocks))


def anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _block(block: Block) -> str:
    match block:
        case Paragraph(text, tone):
            return (
                f'<p class="{tone}">{text_html(text)}</p>' if tone else f"<p>{text_html(text)}</p>"
            )
        case Heading(text):
            return f"<h3>{safe_text(text)}</h3>"
        case Listing(items, ordered, columns):
            tag = "ol" if ordered else "ul"
            style = f' class="columns-{min(columns, 4)}"' if columns > 1 else ""
            lines = "".join(f"<li>{text_html(item)}</li>" for item in items)
            return f"<{tag}{style}>{lines}</{tag}>"
        case Table():
            return _table(block)
        case Chart(title, bars, per):
            said = f'<p class="soft">{safe_text(per)}</p>' if per else ""
            return said + bar_chart(bars, title) + _numbers(bars)
        case Drawing(svg, table):
            return svg + _folded(table)
        case Program(lines):
            return f"<pre>{safe_text(_aligned(lines))}</pre>"


def _numbers(bars: Sequence[Bar]) -> str:
    """The numbers of a chart as a table, for readers who do not see it."""
    rows = [
        (
            bar.label,
            f"{bar.value:,.0f}",
            f"{bar.low:,.0f}",
            f"{bar.high:,.0f}" if math.isfinite(bar.high) else "no limit",
        )
        for bar in bars
    ]
    return _folded(Table(("value", "rows", "at least", "at most"), rows, right=(1, 2, 3)))


def _folded(table: Table) -> str:
    return f"<details><summary>The same numbers as a table</summary>{_table(table)}</details>"


def text_html(text: Text) -> str:
    return "".join(map(_part, [text] if isinstance(text, str) else text))


def _part(part: str | Strong | Code | Link) -> str:
    match part:
        case Strong(words):
            return f"<b>{safe_text(words)}</b>"
        case Code(words):
            return f"<code>{safe_text(words)}</code>"
        case Link(words, to):
            return f'<a href="#{safe_text(to)}">{safe_text(words)}</a>'
        case _:
            return safe_text(part)


def _table(table: Table) -> str:

    def cell(tag: str, place: int, text: Text) -> str:
        number = ' class="number"' if place in table.right else ""
        return f"<{tag}{number}>{text_html(text)}</{tag}>"

    first = "td" if table.head else "th"
    lines = []
    if table.head:
        lines.append("".join(cell("th", place, text) for place, text in enumerate(table.head)))
    for row in table.rows:
        if len(row) == 1 < len(table.head):
            lines.append(f'<td colspan="{len(table.head)}" class="soft">{text_html(row[0])}</td>')
        else:
            cells = (cell("td" if at else first, at, text) for at, text in enumerate(row))
            lines.append("".join(cells))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _aligned(lines: Sequence[str]) -> str:
    pairs = [[part.rstrip() for part in line.partition("            # ")[::2]] for line in lines]
    width = min(64, max((len(left) for left, right in pairs if right), default=0))
    return "\n".join(f"{left:<{width}}  # {right}" if right else left for left, right in pairs)
