"""Blocks of a report as HTML. Every text is escaped here, so that a kind of release never writes
HTML; the page and the report are two skins around what this makes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from dpublish.present.charts import Bar, bar_chart, safe_text
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
    Section,
    Strong,
    Table,
    Text,
)


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


def _table(table: Table) -> str:
    right = set(table.right)

    def cell(tag: str, place: int, text: Text) -> str:
        number = ' class="number"' if place in right else ""
        return f"<{tag}{number}>{text_html(text)}</{tag}>"

    lines = []
    if table.head:
        lines.append("".join(cell("th", place, text) for place, text in enumerate(table.head)))
    for row in table.rows:
        if table.head and len(row) == 1 < len(table.head):
            lines.append(f'<td colspan="{len(table.head)}" class="soft">{text_html(row[0])}</td>')
            continue
        named = not table.head
        cells = [cell("th" if named and not at else "td", at, text) for at, text in enumerate(row)]
        lines.append("".join(cells))
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def _aligned(lines: Sequence[str]) -> str:
    pairs = [[part.rstrip() for part in line.partition("            # ")[::2]] for line in lines]
    width = min(64, max((len(left) for left, right in pairs if right), default=0))
    return "\n".join(f"{left:<{width}}  # {right}" if right else left for left, right in pairs)
