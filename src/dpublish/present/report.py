"""A report about a release, for a data officer, a lawyer and an analyst: one HTML page with no
script, no network and nothing else to load.

A report is data first: a lead, figures to see at a glance, sections of blocks, limits. Every kind
of release gives its own (`Release.sections`), and what all of them have to say (the guarantee, how
to check the file) is added here. One renderer turns it into HTML; it escapes every text, so that a
kind never writes HTML.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpublish.errors import QueryError
from dpublish.outputs import as_path
from dpublish.present.charts import Bar, bar_chart, safe_text
from dpublish.privacy.statement import meaning
from dpublish.releases.bundle.manifest import read_cost

if TYPE_CHECKING:
    import polars as pl

    from dpublish.declare.domain import Domain
    from dpublish.privacy.cost import Cost
    from dpublish.releases.base import Release

MAX_CHARTS = 24
MAX_BARS = 20
MAX_PAIRED = 40
MAX_PAIRS = 30
_SUFFIXES = ("", ".html", ".htm")


@dataclass(frozen=True)
class Strong:
    """Words that stand out."""

    text: str


@dataclass(frozen=True)
class Code:
    """Words of a program, or a hash."""

    text: str


@dataclass(frozen=True)
class Link:
    """Words that lead to a section of the same page, and nowhere else."""

    text: str
    anchor: str


Text = str | Sequence[str | Strong | Code | Link]


@dataclass(frozen=True)
class Paragraph:
    text: Text
    tone: Literal["", "soft", "warning", "promise"] = ""


@dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Points, one under the other or in columns."""

    items: Sequence[Text]
    ordered: bool = False
    columns: int = 1


@dataclass(frozen=True)
class Table:
    """Rows under a head; without a head, the first cell of a row is its name. `right` are the
    columns of numbers. A row with a single cell is a remark on the one above."""

    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    right: Sequence[int] = ()


@dataclass(frozen=True)
class Chart:
    """Bars with error bars."""

    title: str
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Drawing:
    """An SVG that `present.charts` has drawn."""

    svg: str


@dataclass(frozen=True)
class Program:
    """Lines of Python; text after twelve spaces and # is lined up."""

    lines: Sequence[str]


Block = Paragraph | Heading | Listing | Table | Chart | Drawing | Program


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What is particular to one release: a sentence or two, figures with what they are, sections in
    order, what to keep in mind, and warnings to start with."""

    lead: Text
    tiles: Sequence[tuple[str, str]]
    sections: Sequence[Section]
    limits: Sequence[Text]
    warnings: Sequence[str] = ()


def write_report(release: Release, path: str | Path) -> Path:
    """Write the report as a page."""
    path = as_path(path)
    if path.suffix.lower() not in _SUFFIXES:
        raise QueryError(
            f"A report is an HTML page: name it '{path.stem}.html', not '{path.name}'. A browser "
            f"prints it as PDF."
        )
    try:
        path.write_text(report_html(release), encoding="utf-8")
    except OSError as error:
        raise QueryError(
            f"'{path}' cannot be written: {error.strerror or type(error).__name__}."
        ) from None
    return path


def report_html(release: Release) -> str:
    """The whole page."""
    own = release.sections()
    name = str(release.manifest["dataset"])
    *told, checks, limits = report_sections(release)
    sections = (*_about(release), *told, *_unknown(release), checks, limits)
    style = resources.files("dpublish.present").joinpath("report.css").read_text(encoding="utf-8")
    contents = Listing([(Link(one.title, _anchor(one.title)),) for one in sections], columns=2)
    shown = [_header(release, own), f"<nav>{_block(contents)}</nav>"]
    body = "\n".join([*shown, *(section_html(one) for one in sections)])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        # nothing in the page may load anything, whatever text it quotes
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'unsafe-inline'\">"
        f"<title>Release of {safe_text(name)}</title><style>\n{style}</style></head>\n<body>"
        f"<main>\n{body}\n"
        '<footer class="soft">This page was made from the release file alone. It reveals nothing '
        "that the file does not.</footer>\n</main></body></html>\n"
    )


def report_sections(release: Release) -> tuple[Section, ...]:
    """All that is said about a release, in order: the report and the page show the same."""
    own = release.sections()
    checked = (verification(release), _limitations(release, own.limits))
    return (guarantee(release), *own.sections, *checked)


# -- the sections that every release has


_ABOUT = {
    "description": "What it is",
    "publisher": "Publisher",
    "contact": "Contact",
    "purpose": "Purpose",
    "licence": "Licence",
}


def _about(release: Release) -> list[Section]:
    """Who publishes it, why, and what may be done with it, as far as the schema says."""
    said = release.manifest.get("about", {})
    rows = [(label, str(said[key])) for key, label in _ABOUT.items() if said.get(key)]
    silent = [label.lower() for key, label in _ABOUT.items() if not said.get(key)]
    blocks: list[Block] = [Table((), rows)] if rows else []
    if silent:
        blocks.append(Paragraph(f"Not stated: {', '.join(silent)}.", "soft"))
    return [Section("About", [*blocks, *_columns_in_words(release)])]


_FROM_ROWS = "taken from the rows"
"""What drafts say about the source of bounds and levels, until somebody names a better one."""


def _columns_in_words(release: Release) -> list[Block]:
    """What the schema tells people about columns, and where their bounds and levels come from."""
    keys = ("title", "description", "units", "source", "labels")
    axes = [axis for axis in release.manifest.get("domain", ()) if any(key in axis for key in keys)]
    if not axes:
        return []
    rows = []
    for axis in axes:
        labels = "; ".join(f"{level} = {text}" for level, text in axis.get("labels", {}).items())
        said = [axis.get("title"), axis.get("description"), labels]
        what = ". ".join(str(one).rstrip(".") for one in said if one)
        rows.append((axis["name"], what, axis.get("units", ""), axis.get("source", "not stated")))
    head = ("column", "meaning", "units", "bounds or levels from")
    blocks: list[Block] = [Heading("Columns"), Table(head, rows)]
    looked = tuple(axis["name"] for axis in axes if axis.get("source") == _FROM_ROWS)
    if looked:
        warning = (
            f"The schema says that bounds or levels of {listed(looked)} were taken from the rows. "
            "The guarantee assumes that they were not."
        )
        blocks.append(Paragraph(warning, "warning"))
    return blocks


def _unknown(release: Release) -> list[Section]:
    """What this release cannot tell, from how its columns were counted."""
    from dpublish.releases.aggregates import AggregatesRelease

    if not isinstance(release, AggregatesRelease):
        return []
    axes = release.domain.axes
    binned = [axis.name for axis in axes if axis.numeric and not axis.exact_values]
    clipped = [axis.name for axis in axes if axis.numeric and axis.outside == "clip"]
    lines: list[Text] = []
    if binned:
        lines.append(f"Where in its bin a number lies: {listed(tuple(binned))}.")
    if clipped:
        lines.append(
            f"How far beyond the declared bounds values of {listed(tuple(clipped))} were: they "
            "were moved to the bounds."
        )
    if 2 <= len(axes) <= MAX_PAIRED:
        apart = [
            f"{one.name} and {other.name}"
            for place, one in enumerate(axes)
            for other in axes[place + 1 :]
            if not release.counted_together(one.name, other.name)
        ]
        if apart:
            lines.append(
                "How columns go together that were not counted together, but for what other counts "
                f"imply; numbers about them are a model's guess with wide limits: {_some(apart)}."
            )
    said = "Questions that need one of these get wide limits, or none and a note that says so."
    title = "What this release does not know"
    return [Section(title, [Paragraph(said), Listing(lines)])] if lines else []


def _some(pairs: Sequence[str]) -> str:
    more = len(pairs) - MAX_PAIRS
    return "; ".join(pairs[:MAX_PAIRS]) + (f"; and {more} more pairs" if more > 0 else "")


def guarantee(release: Release) -> Section:
    """What is protected, against whom, and what that does not mean."""
    privacy = release.manifest["privacy"]
    cost, neighbours = read_cost(privacy), str(privacy["neighbours"])
    changed = {
        "replace-one": "replaced by any other",
        "add-remove-one": "added or taken away",
    }.get(neighbours, "changed")
    words: list[Text] = [
        (
            "What is protected: ",
            Strong(str(privacy["unit"])),
            f". The claim compares the real data with data in which this one unit was {changed}.",
        ),
        *meaning(cost, neighbours),
        "It holds against a reader who knows every other row, has any other data, and has "
        "unlimited time. It does not wear off, and nothing done with this file weakens it.",
        "It adds up: the costs of all releases from the same data are to be summed, and the "
        "budget ledger of the data owner does so.",
    ]
    not_meant = (
        "It does not say that nothing can be learnt about a person: what the data teach about "
        "people in general (for instance, that income rises with age) applies to each of them "
        "whether or not they were in the data."
    )
    return Section(
        "The guarantee",
        [
            Paragraph(release.privacy, "promise"),
            Paragraph("In other words:"),
            Listing(words),
            Paragraph(not_meant),
        ],
    )


def how_it_was_made(release: Release, *, until: int | None = None) -> Section:
    """What the plan said; `until` leaves out its last sentences, as in a slice."""
    lines = release.manifest["plan"].get("sentences", [])[:until]
    return Section("How it was made", [Listing([str(line) for line in lines])])


def verification(release: Release) -> Section:
    """Hashes, signers, receipt and versions."""
    manifest = release.manifest
    # releases that do not state the number of units have it in the hash, even where the schema did
    # not declare it
    schema = "schema" if "size" in manifest["privacy"] else "schema with its size"
    rows = [(schema, str(manifest["schema_digest"]))]
    if release.path is not None:
        facts = release.verify().facts
        rows += [
            (label, str(facts[key]))
            for key, label in (("sha256", "release file"), ("manifest_sha256", "manifest"))
            if key in facts
        ]
    signers = [one.describe() for one in release.signatures] or ["nobody"]
    rows += [("signed by", one) for one in signers]
    rows += [(name, str(entry["sha256"])) for name, entry in manifest.get("files", {}).items()]
    receipt = {
        str(key): value
        for key, value in manifest["receipt"].items()
        if isinstance(value, str | int)
    }
    rows += [(f"ledger receipt: {key}", str(value)) for key, value in receipt.items()]
    rows += [(f"version: {key}", str(value)) for key, value in manifest["versions"].items()]
    compare = (
        "Compare these SHA-256 hashes with those that the data owner states. ",
        Code("dpublish verify FILE"),
        " recomputes them.",
    )
    return Section(
        "Check it",
        [Paragraph(compare), Table((), [(key, (Code(value),)) for key, value in rows])],
    )


def _limitations(release: Release, lines: Sequence[Text]) -> Section:
    """What to keep in mind, and what the plan warned of."""
    warnings = release.manifest["plan"].get("warnings", [])
    said = (
        [line for line in warnings if isinstance(line, str)] if isinstance(warnings, list) else []
    )
    return Section("Limitations", [Listing([*lines, *said])])


# -- blocks that several kinds share


def column_charts(domain: Domain, marginal: Callable[[str], pl.DataFrame]) -> list[Block]:
    """A chart of every column, from tables of labels, count, standard error, low and high."""
    blocks: list[Block] = []
    for axis in domain.axes[:MAX_CHARTS]:
        blocks.append(Heading(axis.name))
        if axis.cardinality > 1_000_000:
            blocks.append(Paragraph(f"{axis.cardinality:,} values: too many to show.", "soft"))
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
        blocks.append(Chart(axis.name, bars))
        left = frame.height - len(bars)
        if left:
            note = f"The {len(bars)} largest are shown; {left:,} more are in the release."
            blocks.append(Paragraph(note, "soft"))
    left = len(domain.axes) - MAX_CHARTS
    if left > 0:
        blocks.append(Paragraph(f"{left} more columns are in the release.", "soft"))
    return blocks


def usage(release: Release, *lines: str) -> Section:
    """Python that opens the release and goes on with these lines."""
    file = release.path.name if release.path is not None else "release.dpr"
    opened = ["import dpublish as dp", f"release = dp.open_release({file!r})"]
    return Section("How to use it", [Program([*opened, *lines])])


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


def listed(names: tuple[str, ...]) -> str:
    shown = list(names[:12])
    return ", ".join(shown) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def big(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{float(number):.2e}"


# -- the renderer


def _header(release: Release, own: Report) -> str:
    """Name, method and date, warnings (one if it was made with a seed), the lead, and figures to
    see at a glance."""
    manifest = release.manifest
    shown = [*own.tiles, (_price(read_cost(manifest["privacy"])), "privacy cost")]
    cards = "".join(
        f'<div class="tile"><b>{safe_text(top)}</b><span>{safe_text(below)}</span></div>'
        for top, below in shown
    )
    seeded = (
        "Made with a fixed seed, for tests. This release gives no protection and must not be "
        "given out."
    )
    notes = own.warnings if release.publishable else (seeded, *own.warnings)
    warned = "".join(_block(Paragraph(line, "warning")) for line in notes)
    return (
        f'<header><div class="kicker">Differentially private release</div>'
        f"<h1>{safe_text(str(manifest['dataset']))}</h1>"
        f'<div class="soft">Method: {safe_text(str(manifest["method"]))} · '
        f"made {safe_text(str(manifest['created']))}</div></header>"
        f'{warned}{_block(Paragraph(own.lead))}<div class="tiles">{cards}</div>'
    )


def section_html(section: Section) -> str:
    """One section; every text in it is escaped."""
    head = f'<h2 id="{_anchor(section.title)}">{safe_text(section.title)}</h2>'
    return head + "".join(map(_block, section.blocks))


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _block(block: Block) -> str:
    match block:
        case Paragraph(text, tone):
            return f'<p class="{tone}">{_text(text)}</p>' if tone else f"<p>{_text(text)}</p>"
        case Heading(text):
            return f"<h3>{safe_text(text)}</h3>"
        case Listing(items, ordered, columns):
            tag = "ol" if ordered else "ul"
            style = f' class="columns-{min(columns, 4)}"' if columns > 1 else ""
            lines = "".join(f"<li>{_text(item)}</li>" for item in items)
            return f"<{tag}{style}>{lines}</{tag}>"
        case Table():
            return _table(block)
        case Chart(title, bars):
            return bar_chart(bars, title) + _numbers(bars)
        case Drawing(svg):
            return svg
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
    table = _table(Table(("value", "rows", "at least", "at most"), rows, right=(1, 2, 3)))
    return f"<details><summary>The same numbers as a table</summary>{table}</details>"


def _text(text: Text) -> str:
    parts: Iterable[str | Strong | Code | Link] = (text,) if isinstance(text, str) else text
    marked = []
    for part in parts:
        if isinstance(part, str):
            marked.append(safe_text(part))
        elif isinstance(part, Link):
            marked.append(f'<a href="#{safe_text(part.anchor)}">{safe_text(part.text)}</a>')
        else:
            tag = "b" if isinstance(part, Strong) else "code"
            marked.append(f"<{tag}>{safe_text(part.text)}</{tag}>")
    return "".join(marked)


def plain_text(text: Text) -> str:
    """A text without marks."""
    parts: Iterable[str | Strong | Code | Link] = (text,) if isinstance(text, str) else text
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def _table(table: Table) -> str:
    right = set(table.right)

    def cell(tag: str, place: int, text: Text) -> str:
        number = ' class="number"' if place in right else ""
        return f"<{tag}{number}>{_text(text)}</{tag}>"

    lines = []
    if table.head:
        lines.append("".join(cell("th", place, text) for place, text in enumerate(table.head)))
    for row in table.rows:
        if table.head and len(row) == 1 < len(table.head):
            lines.append(f'<td colspan="{len(table.head)}" class="soft">{_text(row[0])}</td>')
            continue
        named = not table.head
        cells = [cell("th" if named and not at else "td", at, text) for at, text in enumerate(row)]
        lines.append("".join(cells))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _aligned(lines: Sequence[str]) -> str:
    pairs = [[part.rstrip() for part in line.partition("            # ")[::2]] for line in lines]
    width = min(64, max((len(left) for left, right in pairs if right), default=0))
    return "\n".join(f"{left:<{width}}  # {right}" if right else left for left, right in pairs)


def _price(cost: Cost) -> str:
    price = (
        cost.describe()
        .split(" (")[0]
        .replace("epsilon", "ε")
        .replace("delta", "δ")
        .replace("rho", "ρ")
    )
    return price.replace("e-", "e\N{MINUS SIGN}")  # a line may break after a hyphen
