"""Small charts as inline SVG, so that a report needs neither a plotting library nor a script.

A bar whose upper limit is infinite has an arrow to the end of the chart: cut off at its value it
would look certain.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

_ROW, _TOP, _LEFT, _WIDTH, _RIGHT = 22, 6, 176, 800, 166
_LABEL_LENGTH, _SHORT_LABEL, _LETTER = 40, 26, 6.6


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    low: float
    high: float


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Horizontal bars with error bars and the figures beside them."""
    height = _TOP + _ROW * len(bars) + 24
    longest = (
        max(
            (end for bar in bars for end in (bar.value, bar.high) if math.isfinite(end)),
            default=1.0,
        )
        or 1.0
    )
    step = _step(longest)
    left = _LEFT + _LETTER * max(
        0, max((len(_shown(bar)) for bar in bars), default=0) - _SHORT_LABEL
    )
    room = _WIDTH - left - _RIGHT
    scale = room / max(longest, step)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{safe_text(title)}" '
        f'class="chart">',
    ]
    mark = 0.0
    while mark <= longest * 1.0001:
        x = left + mark * scale
        parts.append(
            f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 20}"/>'
        )
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{height - 6}" '
            f'text-anchor="middle">{_figure(mark)}</text>'
        )
        mark += step
    for place, bar in enumerate(bars):
        parts += _bar(bar, left, _TOP + place * _ROW, scale, left + room)
    return "".join([*parts, "</svg>"])


def _shown(bar: Bar) -> str:
    return bar.label if len(bar.label) <= _LABEL_LENGTH else bar.label[: _LABEL_LENGTH - 1] + "…"


def _bar(bar: Bar, left: float, y: float, scale: float, right: float) -> list[str]:
    middle = y + _ROW / 2
    closed = math.isfinite(bar.high)
    x, low = (left + number * scale for number in (bar.value, bar.low))
    high = left + bar.high * scale if closed else right
    full = safe_text(bar.label)
    words = f"{_figure(bar.low)} – {_figure(bar.high)}" if closed else f"{_figure(bar.low)} or more"
    exact = (
        f"{bar.low:,.0f} to {bar.high:,.0f}"
        if closed
        else f"{bar.low:,.0f} or more: there is no upper limit"
    )
    ends = (
        [(e, e, -4, 4) for e in (low, high)]
        if closed
        else [(low, low, -4, 4), (high - 5, high, -4, 0), (high - 5, high, 4, 0)]
    )
    return [
        f"<g><title>{full}: {bar.value:,.0f} ({exact})</title>",
        f'<text class="label" x="{left - 8:.1f}" y="{middle + 4:.1f}" '
        f'text-anchor="end">{safe_text(_shown(bar))}</text>',
        f'<rect class="bar" x="{left:.1f}" y="{y + 3:.1f}" width="{max(x - left, 0):.1f}" '
        f'height="{_ROW - 6}"/>',
        f'<line class="error" x1="{low:.1f}" y1="{middle:.1f}" x2="{high:.1f}" y2="{middle:.1f}"/>',
        *(
            f'<line class="error" x1="{a:.1f}" y1="{middle + up:.1f}" x2="{b:.1f}" '
            f'y2="{middle + down:.1f}"/>'
            for a, b, up, down in ends
        ),
        f'<text class="value" x="{_WIDTH - 106}" y="{middle + 4:.1f}" '
        f'text-anchor="end">{_figure(bar.value)}</text>',
        f'<text class="plus" x="{_WIDTH - 2}" y="{middle + 4:.1f}" '
        f'text-anchor="end">{words}</text></g>',
    ]


def safe_text(text: str) -> str:
    """Text for a page: escaped, and control characters made visible."""
    return html.escape(
        "".join(c if c.isprintable() or c == "\n" else "·" for c in text), quote=True
    )


def _step(longest: float) -> float:
    """A round distance between grid lines that makes three to six of them."""
    size = 1.0
    while True:
        for factor in (1, 2, 5):
            if longest / (size * factor) <= 5:
                return size * factor
        size *= 10


def _figure(number: float) -> str:
    if abs(number) >= 1e7:
        return f"{number / 1e6:,.0f}M"
    if abs(number) >= 1e6:
        return f"{number / 1e6:,.1f}M"
    return f"{number:,.0f}"
