"""A privacy label: one page that says who published what, whom it protects and what that means. As
HTML, or as one drawing for a web page or a print."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from dpublish.present.charts import safe_text, shortened

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:720px;margin:2em auto;padding:0 1em;"
    "color:#1d2733}h1{font-size:1.5em}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:6px 10px;border-bottom:1px solid #dfe4ea;vertical-align:top}"
    ".missing{color:#b4451f}"
)
SEEDED = "Made with a fixed seed, for tests: it protects nobody."
_MISSING = "not stated"
_INK, _WARN, _EDGE = "#1d2733", "#a8431f", "#2f5d8a"
_WIDTH, _LEFT, _VALUE, _LINE = 720, 28, 230, 22


@dataclass(frozen=True)
class Label:
    """What stands on it. A row without a text was not stated by the publisher, and says so."""

    title: str
    cost: str
    rows: Sequence[tuple[str, str]]
    words: Sequence[str]
    seeded: bool

    def html(self) -> str:
        rows = "".join(
            f"<tr><th>{safe_text(name)}</th><td>"
            + (safe_text(text) if text else f'<span class="missing">{_MISSING}</span>')
            + "</td></tr>"
            for name, text in self.rows
        )
        words = "".join(f"<li>{safe_text(line)}</li>" for line in self.words)
        seeded = f'<p class="missing">{SEEDED}</p>' if self.seeded else ""
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
            f"'unsafe-inline'\"><title>Privacy label: {safe_text(self.title)}</title>"
            f"<style>{_STYLE}</style></head><body><h1>Privacy label: {safe_text(self.title)}</h1>"
            f"{seeded}{self._seal()}<table>{rows}</table><h2>In words</h2><ul>{words}</ul>"
            "</body></html>\n"
        )

    def svg(self) -> str:
        """The same facts as a drawing, lines broken by hand: SVG does not break them."""
        parts: list[str] = []
        y = 44.0

        def write(
            text: str, x: float, *, size: int = 15, bold: bool = False, ink: str = _INK
        ) -> None:
            weight = ' font-weight="bold"' if bold else ""
            parts.append(
                f'<text x="{x}" y="{y}" font-size="{size}"{weight} fill="{ink}">'
                f"{safe_text(text)}</text>"
            )

        write(shortened(f"Privacy label: {self.title}", 52), _LEFT, size=22, bold=True)
        y += 30
        write(f"differentially private, {self.cost}", _LEFT, size=17)
        y += 30
        if self.seeded:
            write(SEEDED, _LEFT, ink=_WARN)
            y += 28
        for name, text in self.rows:
            write(name, _LEFT, bold=True)
            for line in _broken(text or _MISSING, 56):
                write(line, _VALUE, ink=_INK if text else _WARN)
                y += _LINE
            y += 6
        y += 12
        write("In words", _LEFT, size=18, bold=True)
        y += 28
        for words in self.words:
            for line in _broken(words, 84):
                write(line, _LEFT)
                y += _LINE
            y += 8
        height = y + 12
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
            f'width="{_WIDTH}" height="{height:.0f}" role="img" font-family="sans-serif">'
            f"<title>Privacy label: {safe_text(self.title)}</title>"
            f'<rect x="3" y="3" width="{_WIDTH - 6}" height="{height - 6:.0f}" rx="12" '
            f'fill="#ffffff" stroke="{_EDGE}" stroke-width="3"/>{"".join(parts)}</svg>\n'
        )

    def _seal(self) -> str:
        lines = (self.title[:48], "differentially private", self.cost)
        text = "".join(
            f'<text x="200" y="{30 + 28 * place}" text-anchor="middle" '
            f'font-size="{18 - 3 * (place > 0)}"'
            f' font-family="sans-serif" fill="{_INK}">{safe_text(line)}</text>'
            for place, line in enumerate(lines)
        )
        return (
            '<svg viewBox="0 0 400 110" width="400" role="img" aria-label="Privacy label" '
            'xmlns="http://www.w3.org/2000/svg"><rect x="2" y="2" width="396" height="106" '
            f'rx="10" fill="#f5f7fa" stroke="{_EDGE}" stroke-width="3"/>{text}</svg>'
        )


def _broken(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=True) or [""]
