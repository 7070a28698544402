"""Small charts as inline SVG, so that a report needs neither a plotting library nor a script.

A bar whose upper limit is infinite has an arrow to the end of the chart: cut off at its value it
would look certain.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_ROW, _TOP, _LEFT, _WIDTH, _RIGHT = 22, 6, 176, 800, 166
_MAP_WIDTH, _MAP_HEIGHT, _MAP_MARGIN = 760, 420, 30
_SPAN_WIDTH, _SPAN_HEIGHT, _SPAN_FOOT, _SPAN_LEFT, _SPAN_HEAD = 800, 220, 34, 40, 16
_LABEL_LENGTH, _SHORT_LABEL, _LETTER = 40, 26, 6.6
LOG = "logarithmic axis: each step is ten times the one before"
DECADES = 1_000.0
"""The largest of some numbers over the middle one from which an axis is logarithmic."""


def spans_decades(numbers: np.ndarray) -> bool:
    """Whether numbers differ so much that the small ones cannot be seen beside the large ones."""
    seen = numbers[np.isfinite(numbers) & (numbers >= 1.0)]
    return seen.size > 2 and float(seen.max()) >= DECADES * float(np.median(seen))


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    low: float
    high: float
    scale: float = 1.0
    """How long a row is drawn, where bins differ in width."""

    def drawn(self) -> tuple[float, float, float]:
        return self.value * self.scale, self.low * self.scale, self.high * self.scale


def bar_chart(bars: Sequence[Bar], title: str) -> str:
    """Horizontal bars with error bars and the figures beside them."""
    height = _TOP + _ROW * len(bars) + 24
    longest = (
        max(
            (end for bar in bars for end in bar.drawn()[::2] if math.isfinite(end)),
            default=1.0,
        )
        or 1.0
    )
    bent = spans_decades(np.array([bar.drawn()[0] for bar in bars]))
    widest = max((len(shortened(bar.label, _LABEL_LENGTH)) for bar in bars), default=0)
    left = _LEFT + _LETTER * max(0, widest - _SHORT_LABEL)
    room = _WIDTH - left - _RIGHT

    def along(number: float) -> float:
        """Where a number is drawn: on a logarithmic axis 0 has the place of a row's tenth."""
        if bent:
            return left + room * (math.log10(max(number, 0.1)) + 1) / (math.log10(longest) + 1)
        return left + room * number / max(longest, _step(longest))

    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{safe_text(title)}" '
        f'class="chart">',
    ]
    for mark in _marks(longest, bent=bent):
        x = along(mark)
        parts += [
            f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 20}"/>',
            f'<text class="tick" x="{x:.1f}" y="{height - 6}" '
            f'text-anchor="middle">{_figure(mark)}</text>',
        ]
    for place, bar in enumerate(bars):
        parts += _bar(bar, left, _TOP + place * _ROW, along, left + room)
    said = f'<p class="soft">{LOG.capitalize()}.</p>' if bent else ""
    return "".join([said, *parts, "</svg>"])


def _marks(longest: float, *, bent: bool) -> list[float]:
    if bent:
        return [0.0, *(10.0**power for power in range(math.floor(math.log10(longest)) + 1))]
    step = _step(longest)
    return [step * place for place in range(int(longest * 1.0001 / step) + 1)]


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def _bar(
    bar: Bar, left: float, y: float, along: Callable[[float], float], right: float
) -> list[str]:
    middle = y + _ROW / 2
    closed = math.isfinite(bar.high)
    value, least, most = bar.drawn()
    x, low = along(value), along(least)
    high = along(most) if closed else right
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
        f"<g><title>{safe_text(bar.label)}: {bar.value:,.0f} ({exact})</title>",
        f'<text class="label" x="{left - 8:.1f}" y="{middle + 4:.1f}" '
        f'text-anchor="end">{safe_text(shortened(bar.label, _LABEL_LENGTH))}</text>',
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


def site_map(xs: list[float], ys: list[float], names: list[Any]) -> str:
    """Chosen sites at their public coordinates; both axes have the same scale."""
    wide, high = max(xs) - min(xs), max(ys) - min(ys)
    scale = min(
        (_MAP_WIDTH - 4 * _MAP_MARGIN) / (wide or 1.0),
        (_MAP_HEIGHT - 2 * _MAP_MARGIN) / (high or 1.0),
    )
    left, top = (_MAP_WIDTH - wide * scale) / 2, (_MAP_HEIGHT - high * scale) / 2
    marks = []
    for x, y, name in zip(xs, ys, names, strict=True):
        across, down = left + (x - min(xs)) * scale, _MAP_HEIGHT - top - (y - min(ys)) * scale
        # names on the right half stand to the left of their dots, so that none leaves the picture
        side, anchor = (8, "start") if across < _MAP_WIDTH / 2 else (-8, "end")
        marks.append(
            f'<circle cx="{across:.1f}" cy="{down:.1f}" r="5" fill="#c0392b"/><text '
            f'x="{across + side:.1f}" y="{down + 4:.1f}" '
            f'font-size="12" text-anchor="{anchor}" '
            f'fill="currentColor">{safe_text(str(name))}</text>'
        )
    return (
        f'<svg viewBox="0 0 {_MAP_WIDTH} {_MAP_HEIGHT}" role="img" aria-label="Map of the chosen '
        'sites" '
        f'width="100%">'
        f'<rect width="{_MAP_WIDTH}" height="{_MAP_HEIGHT}" fill="none" '
        f'stroke="#bbbbbb"/>{"".join(marks)}</svg>'
    )


def weight_histogram(weights: np.ndarray) -> tuple[str, list[tuple[str, str]]]:
    """How many rows have weights of which size, in bins that each span a factor of two: drawn, and
    as the lines of a table."""
    sizes = np.where(weights > 0.0, np.log2(np.maximum(weights, 1e-300)), -np.inf)
    places = np.clip(np.floor(sizes), -7, 9)
    first, last = int(min(places.min(), 0)), int(max(places.max(), 0))
    counts = np.array([int((places == place).sum()) for place in range(first, last + 1)])
    room, tall = _SPAN_WIDTH - 2 * _SPAN_LEFT, _SPAN_HEIGHT - _SPAN_FOOT - _SPAN_HEAD
    step = room / len(counts)
    parts = [
        f'<svg viewBox="0 0 {_SPAN_WIDTH} {_SPAN_HEIGHT}" role="img" aria-label="Weights" '
        'class="chart">'
    ]
    for k, count in enumerate(counts.tolist()):
        x, height = _SPAN_LEFT + k * step, tall * count / max(1, counts.max())
        top = _SPAN_HEAD + tall - height
        parts.append(
            f'<g><title>{count:,} rows</title><rect class="bar" x="{x + 1:.1f}" y="{top:.1f}" '
            f'width="{step - 2:.1f}" '
            f'height="{height:.1f}"/><text class="value" x="{x + step / 2:.1f}" y="{top - 4:.1f}" '
            f'text-anchor="middle">'
            f"{count:,}</text></g>"
        )
    ends = [_power(first + k) for k in range(len(counts) + 1)]
    for k, label in enumerate(ends):
        x = _SPAN_LEFT + k * step
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{_SPAN_HEIGHT - _SPAN_FOOT + 14}" '
            f'text-anchor="middle">{label}</text>'
        )
    parts.append(
        f'<text class="tick" x="{_SPAN_LEFT + room / 2}" y="{_SPAN_HEIGHT - 4}" '
        'text-anchor="middle">weight '
        f"(rows in each span)</text>"
    )
    lines = [
        (f"{one} to {other}", f"{count:,}")
        for (one, other), count in zip(itertools.pairwise(ends), counts.tolist(), strict=True)
    ]
    return "".join([*parts, "</svg>"]), lines


def _power(exponent: int) -> str:
    if exponent in (-7, 10):
        return "0" if exponent < 0 else "more"
    return f"{2**exponent:,}" if exponent >= 0 else f"1/{2**-exponent}"


def safe_text(text: str) -> str:
    """Text for a page: escaped, and control characters made visible."""
    return html.escape(visible(text), quote=True)


def visible(text: str) -> str:
    """Control characters as dots; text of the product's own is left as it is."""
    if type(text) is not str:  # markup that was escaped already
        return text
    return "".join(c if c.isprintable() or c == "\n" else "·" for c in text)


def _step(longest: float) -> float:
    """A round distance between grid lines that makes three to six of them."""
    sizes = (10.0**power * factor for power in itertools.count() for factor in (1, 2, 5))
    return next(size for size in sizes if longest / size <= 5)


def _figure(number: float) -> str:
    if abs(number) >= 1e7:
        return f"{number / 1e6:,.0f}M"
    if abs(number) >= 1e6:
        return f"{number / 1e6:,.1f}M"
    return f"{number:,.0f}"
