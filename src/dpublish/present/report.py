"""A report about a release, for a data officer, a lawyer and an analyst: one HTML page with no
script, no network and nothing else to load.

A report is data first: a lead, figures to see at a glance, sections of blocks, limits. Every kind
of release gives its own (`Release.sections`), and what all of them have to say (the guarantee, how
to check the file) is added here. One renderer turns it into HTML; it escapes every text, so that a
kind never writes HTML.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from dpublish.declare.calendar import CALENDAR, UNITS
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import PublishError
from dpublish.outputs import write_html
from dpublish.present.charts import Bar
from dpublish.privacy.cost import Cost
from dpublish.privacy.statement import guesses, meaning
from dpublish.query.constants import quoted, quoted_text
from dpublish.releases.bundle.manifest import read_cost

if TYPE_CHECKING:
    import polars as pl

    from dpublish.arrays import Floats
    from dpublish.releases.aggregates import AggregatesRelease
    from dpublish.releases.base import Release

MAX_CHARTS = 24
MAX_BARS = 20
MAX_PAIRED = 40
MAX_PAIRS = 30


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
    per: str = ""
    """What the length of a bar means, where it is not a number of rows."""


@dataclass(frozen=True)
class Drawing:
    """An SVG that `present.charts` has drawn, and the same as a table, for readers who do not see
    it."""

    svg: str
    table: Table


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
    return write_html(
        path,
        lambda: report_html(release),
        "A report is an HTML page: name it '{stem}.html', not '{name}'. A browser prints it as "
        "PDF.",
    )


def report_html(release: Release) -> str:
    """The whole page: the printable skin."""
    from dpublish.present.page.page import skin_html

    return skin_html(release, release.sections(), skin="report")


LATER = (
    "How good it is",
    "Expected accuracy",
    "What was joined",
    "What was asked",
    "How it was made",
    "How to use it",
)
"""Sections for readers who want to know how; what the release says comes first."""


def report_sections(release: Release, own: Report) -> tuple[Section, ...]:
    """All that is said about a release, in order: the report and the page show the same. What it
    shows, what it does not know, who publishes it and whom it protects; then how it was made, and
    what to keep in mind, with what the plan warned of."""
    warnings = release.manifest["plan"].get(
        "warnings", []
    )  # texts: `check_manifest` has seen to it
    return (
        *(one for one in own.sections if one.title not in LATER),
        unknown(release),
        about(release),
        guarantee(release),
        *(one for title in LATER for one in own.sections if one.title == title),
        verification(release),
        Section("Limitations", [Listing([*own.limits, *warnings])]),
    )


# -- the sections that every release has


_ABOUT = {
    "description": "What it is",
    "publisher": "Publisher",
    "contact": "Contact",
    "purpose": "Purpose",
    "licence": "Licence",
}


def about(release: Release) -> Section:
    """Who publishes it, why, and what may be done with it, as far as the schema says."""
    said = release.manifest.get("about", {})
    rows = [(label, str(said[key])) for key, label in _ABOUT.items() if said.get(key)]
    silent = [label.lower() for key, label in _ABOUT.items() if not said.get(key)]
    blocks: list[Block] = [Table((), rows)] if rows else []
    if silent:
        blocks.append(Paragraph(f"Not stated: {', '.join(silent)}.", "soft"))
    return Section("About", [*blocks, *_columns_in_words(release)])


_FROM_ROWS = "taken from the rows"
"""What drafts say about the source of bounds and levels, until somebody names a better one."""


def _columns_in_words(release: Release) -> list[Block]:
    """What the schema tells people about columns, and where their bounds and levels come from."""
    keys = ("title", "description", "units", "source", "labels")
    declared = release.manifest.get("domain", ())
    axes = [axis for axis in declared if any(key in axis for key in keys)]
    if not axes:
        silent = "The schema does not say where bounds and levels of columns come from."
        return [Paragraph(silent, "soft")] if declared else []
    rows = []
    for axis in axes:
        labels = "; ".join(f"{level} = {text}" for level, text in axis.get("labels", {}).items())
        said = (axis.get("title"), axis.get("description"), labels)
        what = ". ".join(str(one).rstrip(".") for one in said if one)
        rows.append((axis["name"], what, axis.get("units", ""), axis.get("source", "not stated")))
    head = ("column", "meaning", "units", "bounds or levels from")
    blocks: list[Block] = [Heading("Columns"), Table(head, rows)]
    looked = tuple(axis["name"] for axis in axes if axis.get("source") == _FROM_ROWS)
    if looked:
        blocks.append(
            Paragraph(
                f"The schema says that bounds or levels of {listed(looked)} were taken from the "
                "rows. The guarantee assumes that they were not.",
                "warning",
            )
        )
    return blocks


OF_KIND: dict[str, tuple[str, ...]] = {
    "itemsets": (
        "How often sets of items occur that were not counted: they get wide limits, or none.",
        "What the same people bought at other times.",
    ),
    "linear-model": (
        "How well the model predicts the private rows: that was not published.",
        "Numbers of rows: a model counts nobody.",
    ),
    "solution": (
        "The private numbers that the solution was chosen by, but for those that are shown with "
        "noise.",
    ),
    "halfspaces": ("Conditions other than a comparison of a weighted sum of its columns.",),
    "weighted-rows": (
        "What tables that were not counted look like among the private rows: there the public rows "
        "speak.",
    ),
}
"""What no release of a kind can tell."""


def unknown(release: Release) -> Section:
    """What this release cannot tell, from how its columns were counted."""
    lines: list[Text] = [
        *OF_KIND.get(release.kind, ()),
        *_unknown_columns(release),
        "Anything about a single person: a number that rests on a few rows is mostly noise.",
    ]
    return Section(
        "What this release does not know",
        [
            Paragraph(
                "Questions that need one of these get wide limits, or none and a note that says so."
            ),
            Listing(lines),
        ],
    )


def _unknown_columns(release: Release) -> list[Text]:
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
            for one, other in itertools.combinations(axes, 2)
            if not release.counted_together(one.name, other.name)
        ]
        more = len(apart) - MAX_PAIRS
        if apart:
            lines.append(
                "How columns go together that were not counted together, but for what other counts "
                "imply; numbers about them are a model's guess with wide limits: "
                f"{'; '.join(apart[:MAX_PAIRS])}{f'; and {more} more pairs' if more > 0 else ''}."
            )
    return lines


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
    return Section(
        "The guarantee",
        [
            Paragraph(guesses(cost, neighbours)[0], "promise"),
            Listing(words),
            Paragraph(
                "It does not say that nothing can be learnt about a person: what the data teach "
                "about people in general (for instance, that income rises with age) applies to "
                "each of them whether or not they were in the data."
            ),
            *_budget(release),
            Heading("In the words of the release file"),
            Paragraph(release.privacy, "soft"),
        ],
    )


def _budget(release: Release) -> list[Block]:
    """What this release cost, and what was paid for the same people by then, of how much."""
    receipt = release.manifest["receipt"]
    costs = {
        "this release": read_cost(release.manifest["privacy"]),
        "all releases so far, this one included": _cost_of(receipt.get("spent")),
        "the whole budget": _cost_of(receipt.get("budget")),
    }
    rows = [(name, cost.describe()) for name, cost in costs.items() if cost is not None]
    if len(rows) == 1:
        rows.append(("all releases so far, and the whole budget", "not stated in this file"))
    others = release.manifest["privacy"].get("other_budgets")
    note = (
        "Other budgets that pay for the same people are named in the guarantee." if others else ""
    )
    return [Heading("Budget"), Table((), rows), *([Paragraph(note, "soft")] if note else [])]


def _cost_of(data: object) -> Cost | None:
    """A cost as a receipt has it; None for anything else, as a bundle may hold anything."""
    try:
        return Cost.from_json(cast("dict[str, Any]", data)) if isinstance(data, dict) else None
    except (PublishError, ValueError, TypeError, KeyError, ArithmeticError):
        return None


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
    rows += [
        (f"ledger receipt: {key}", str(value))
        for key, value in manifest["receipt"].items()
        if isinstance(value, str | int)
    ]
    rows += [(f"version: {key}", str(value)) for key, value in manifest["versions"].items()]
    return Section(
        "Check it",
        [
            Paragraph(
                (
                    "Compare these SHA-256 hashes with those that the data owner states. ",
                    Code("dpublish verify FILE"),
                    " recomputes them.",
                )
            ),
            Table((), [(key, (Code(value),)) for key, value in rows]),
        ],
    )


# -- blocks that several kinds share


def column_charts(domain: Domain, marginal: Callable[[str], pl.DataFrame]) -> list[Block]:
    """A chart of every column, from tables of labels, count, standard error, low and high."""
    blocks: list[Block] = []
    for axis in domain.axes[:MAX_CHARTS]:
        blocks.append(Heading(axis_title(axis)))
        if axis.cardinality > 1_000_000:
            blocks.append(Paragraph(f"{axis.cardinality:,} values: too many to show.", "soft"))
            continue
        frame = marginal(axis.name)
        order = np.argsort(-frame.to_series(1).to_numpy(), kind="stable")[:MAX_BARS]
        if axis.ordered:
            order = np.sort(order)
        lengths, _ = bin_lengths(axis)
        bars = [
            Bar(
                level_label(axis, label),
                float(value),
                float(low),
                float(high),
                float(lengths[i]) if i < lengths.size else 1.0,
            )
            for i, (label, value, _, low, high) in zip(order, frame[order].iter_rows(), strict=True)
        ]
        blocks.append(Chart(axis.name, bars, said_of_bins(axis)))
        left = frame.height - len(bars)
        if left:
            note = f"The {len(bars)} largest are shown; {left:,} more are in the release."
            blocks.append(Paragraph(note, "soft"))
    left = len(domain.axes) - MAX_CHARTS
    if left > 0:
        blocks.append(Paragraph(f"{left} more columns are in the release.", "soft"))
    return blocks


MOST_UNEVEN = 1000.0
"""How many times as wide as the narrowest bin the widest may be for bars to show densities."""


def axis_title(axis: Axis) -> str:
    """A column's name, with its title and units where the schema has them."""
    words = axis.wording
    named = f"{words.title} ({axis.name})" if words.title else axis.name
    return f"{named}, in {words.units}" if words.units else named


def level_label(axis: Axis, label: str) -> str:
    """A level in the words of the schema, with its code."""
    text = axis.wording.labels.get(label)
    return f"{text} ({label})" if text else label


def bin_lengths(axis: Axis) -> tuple[Floats, str]:
    """What rows of each bin are to be multiplied by to be rows per stretch as long as the shortest
    bin, and that stretch in words; empty where all bins are equally long, or whole numbers cannot
    be divided more equally, or where no bar but the shortest bins' would be seen."""
    widths = _widths(axis)
    nearly = axis.kind != "real" and np.ptp(widths) <= min(1.0, 0.1 * widths.min())
    if np.allclose(widths, widths[0]) or nearly or _uneven(widths):
        return np.ones(0), ""
    unit = float(widths.min())
    values = f"value{'s' if unit > 1 else ''} " if axis.kind == "integer" else ""
    of = UNITS.get(axis.kind) or axis.wording.units or f"{values}of {axis.name}"
    return unit / widths, f"{unit:,.10g} {of}"


def _widths(axis: Axis) -> Floats:
    return np.diff(np.array(axis.edges, dtype=np.float64)) if axis.numeric else np.ones(1)


def _uneven(widths: Floats) -> bool:
    """Whether bins differ so much that bars cannot show how densely their rows lie: some hold a
    single number, or they grow with it."""
    return bool(widths.max() > MOST_UNEVEN * widths.min())


def said_of_bins(axis: Axis) -> str:
    """What the bars of a column's bins show, where that is not the rows of bins alike."""
    if _uneven(_widths(axis)):
        return (
            "Bins differ very much in width: bars show the rows of each, not how densely they lie."
        )
    per = bin_lengths(axis)[1]
    whole = axis.kind == "integer"
    differ = "Bins hold different numbers of values" if whole else "Bins differ in width"
    return f"{differ}: bars show rows per {per}, figures the rows of a bin." if per else ""


def usage(release: Release, *lines: str) -> Section:
    """Python that opens the release and goes on with these lines."""
    opened = f"release = dp.open_release({release.file_name!r})"
    return Section("How to use it", [Program(["import dpublish as dp", opened, *lines])])


def usage_of_cells(release: AggregatesRelease, *lines: str) -> Section:
    """The same for a release that answers conditions and tables, and SQL."""
    last = release.domain.names[-1]
    query = f"select {quoted(last)}, count(*) from release group by {quoted(last)}"
    return usage(
        release,
        f"release.estimate({example_predicate(release.domain)!r})            # a count with an "
        "error bar",
        f"release.marginal({last!r})            # counts of every value, with error bars",
        f"release.sql({query!r})",
        *lines,
    )


def example_predicate(domain: Domain) -> str:
    first = domain.axes[0]
    if first.numeric:
        start = first.label(0).split("..")[0]
        bound = f"'{start}'" if first.kind in CALENDAR else f"{first.edges[0]:g}"
        return f"{quoted(first.name)} >= {bound}"
    return f"{quoted(first.name)} = {quoted_text(first.levels[0])}"


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def big(number: int) -> str:
    return f"{number:,}" if number < 10**9 else f"{float(number):.2e}"


def plain_text(text: Text) -> str:
    """A text without marks."""
    parts: Iterable[str | Strong | Code | Link] = (text,) if isinstance(text, str) else text
    return "".join(part if isinstance(part, str) else part.text for part in parts)


def price(cost: Cost) -> str:
    return (
        cost.describe()
        .split(" (")[0]
        .replace("epsilon", "ε")
        .replace("delta", "δ")
        .replace("rho", "ρ")
        .replace("e-", "e\N{MINUS SIGN}")  # a line may break after a hyphen
    )
