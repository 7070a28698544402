from __future__ import annotations

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.present.charts import Bar, bar_chart
from dpublish.present.page.page import rows_in_words
from dpublish.present.report import bin_lengths, report_html, said_of_bins
from dpublish.releases.base import make_release
from dpublish.releases.histogram.release import HistogramRelease
from every_kind import NAMES, every_kind
from releases.simulated import cells_frame, manifest, people_release, varied_release

VOID = {"meta", "br", "line", "rect", "hr"}


class Balance(HTMLParser):
    """Every tag that opens closes, and nothing refers to anything outside the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert not {name for name, _ in attrs} & {"src", "onload", "onclick", "xlink:href"}
        assert all((value or "").startswith("#") for name, value in attrs if name == "href")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def parsed(page: str) -> Balance:
    balance = Balance()
    balance.feed(page)
    assert balance.open == []
    return balance


def test_the_page_says_which_hash_of_the_schema_it_shows() -> None:
    """Files that do not state the number of units have it in the hash."""
    release = people_release()
    assert "<th>schema with its size</th>" in report_html(release)
    privacy = {**release.manifest["privacy"], "size": 1000}
    stated = make_release({**release.manifest, "privacy": privacy}, release.tables)
    assert isinstance(stated, HistogramRelease)
    assert "<th>schema</th>" in report_html(stated)


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    release = people_release()
    release.save(tmp_path / "a.dpr")
    page = release.report(tmp_path / "a.html").read_text(encoding="utf-8")
    tags = parsed(page).tags
    assert not tags & {"script", "link", "img", "iframe", "object"}
    assert "http://" not in page
    assert "https://" not in page
    for piece in (
        "The guarantee",
        "(at most 2.72) times",
        "Expected accuracy",
        "How to use it",
        "Check it",
        "Limitations",
        "10,000",
    ):
        assert piece in page
    assert str(release.verify().facts["sha256"]) in page
    assert page.count("<svg") == 4


def test_hostile_texts_are_escaped() -> None:
    bad = "<script>alert(1)</script><img src=x onerror=y>\"'\x00\x1b"
    domain = Domain(
        (Axis(bad, "categorical", levels=(bad, "b")), Axis("y", "categorical", levels=(bad + "2",)))
    )
    data = manifest(
        domain,
        dataset=bad,
        method=bad,
        versions={bad: bad},
        receipt={bad: bad},
        plan={"warnings": [bad]},
    )
    data["privacy"] = {**data["privacy"], "statement": bad, "unit": bad, "neighbours": bad}
    release = HistogramRelease(data, {"cells": cells_frame(np.array([0]), np.array([99]))})
    page = report_html(release)
    assert not parsed(page).tags & {"script", "img"}
    assert "\x00" not in page


def test_every_kind_of_total_cost_and_column() -> None:
    for total in ("public", "noisy", "unknown"):
        parsed(report_html(people_release(total=total)))
    parsed(report_html(varied_release()))
    release = people_release()
    for cost in (
        {"kind": "approximate", "epsilon": "1/2", "delta": "1/1000000", "rho": "0"},
        {"kind": "zcdp", "epsilon": "0", "delta": "0", "rho": "1/8"},
        {"kind": "pure", "epsilon": "1000", "delta": "0", "rho": "0"},
    ):
        data = {
            **release.manifest,
            "privacy": {**release.manifest["privacy"], "cost": cost},
            "publishable": False,
        }
        page = report_html(make_release(data, release.tables))  # type: ignore[arg-type]
        assert "must not be given out" in page


def test_the_factor_is_never_rounded_down() -> None:
    release = people_release()
    cost = {"kind": "pure", "epsilon": "1/5", "delta": "0", "rho": "0"}
    data = {**release.manifest, "privacy": {**release.manifest["privacy"], "cost": cost}}
    assert "exp(0.2) (at most 1.23) times more or less likely" in report_html(
        make_release(data, release.tables)
    )  # type: ignore[arg-type]


def test_the_page_never_reads_delta_as_a_chance_that_the_promise_fails() -> None:
    """Nor does it bound what a unit says by a single step, where that takes two. Statements that
    did are put right."""
    release = people_release()
    old = (
        "No result could have become more than exp(0.5) = 1.65 (except with probability 1e-6) "
        "times more or less likely."
    )
    cost = {"kind": "approximate", "epsilon": "1/2", "delta": "1/1000000", "rho": "0"}
    privacy = {
        **release.manifest["privacy"],
        "cost": cost,
        "neighbours": "add-remove-one",
        "statement": old,
    }
    opened = make_release({**release.manifest, "privacy": privacy}, release.tables)
    assert opened.privacy.startswith(f"{old} Correction: ")
    assert opened.summary()["guarantee"] == opened.privacy
    page = report_html(opened)  # type: ignore[arg-type]
    assert "that this fails" not in page
    assert "can be brought to" not in page
    assert "Correction: " in page
    assert (
        "two such steps (epsilon = 1, delta = 2.64873e-6): the guess is right in at most 74 of "
        "100 cases" in page
    )
    now = {**privacy, "statement": "This release is private."}
    assert "Correction" not in report_html(
        make_release({**release.manifest, "privacy": now}, release.tables)
    )  # type: ignore[arg-type]


def test_an_unwritable_place_is_explained(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="cannot be written"):
        people_release().report(tmp_path / "none" / "a.html")


def test_a_page_is_not_written_under_the_name_of_another_format(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=r"name it 'a.html', not 'a.pdf'"):
        people_release().report(tmp_path / "a.pdf")
    assert not (tmp_path / "a.pdf").exists()
    assert people_release().report(tmp_path / "a.HTM").exists()


def test_charts_of_nothing_and_of_huge_numbers() -> None:
    for bars in ([], [Bar("a", 0, 0, 0)], [Bar("a", 3e9, 1e9, 7e9), Bar("b", 0, 0, 1)]):
        parsed(bar_chart(bars, "t"))


def test_a_bar_without_an_upper_limit_points_beyond_the_chart() -> None:
    closed = bar_chart([Bar("one", 40.0, 30.0, 55.0), Bar("two", 20.0, 12.0, 28.0)], "t")
    both = bar_chart([Bar("one", 40.0, 30.0, 55.0), Bar("two", 20.0, 12.0, math.inf)], "t")
    parsed(both)
    assert "12 or more" in both
    assert "no upper limit" in both
    assert "no upper limit" not in closed
    assert "inf" not in both
    parsed(bar_chart([Bar("all", 0.0, 0.0, math.inf)], "t"))


def test_a_report_says_who_publishes_it_who_signed_it_and_what_it_does_not_know() -> None:
    release = people_release()
    page = report_html(release)
    assert "Not stated: what it is, publisher" in page
    assert "<th>signed by</th><td><code>nobody</code></td>" in page
    assert "What this release does not know" in page
    assert "Where in its bin a number lies: age." in page
    assert page.count("The same numbers as a table") == page.count('class="chart"')
    assert '<a href="#limitations">Limitations</a>' in page
    about = {"publisher": "The office <b>", "licence": "CC0"}
    stated = make_release({**release.manifest, "about": about}, release.tables)
    page = report_html(stated)
    assert "<td>The office &lt;b&gt;</td>" in page or "The office &lt;b&gt;" in page
    assert "Not stated: what it is, contact, purpose." in page


@pytest.mark.parametrize("name", NAMES)
def test_plain_words_come_before_symbols_and_theorems_in_the_second_half(name: str) -> None:
    page = re.sub(r"<style>.*?</style>", "", report_html(every_kind()[name]), flags=re.DOTALL)
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    symbol = min(text.find(sign) for sign in ("ε", "epsilon", "ρ") if sign in text)
    assert 0 < text.index("is right in at most") < symbol
    assert "theorem" not in text[: len(text) // 2].lower()
    assert re.search(r"\d(\.\d+)?e[+-]\d", text) is None, "a power of ten"
    assert "Contents" in page
    for words in ("What this release does not know", "Anything about a single person", "Budget"):
        assert words in text
    assert "the whole budget" in text


@pytest.mark.parametrize(
    ("size", "each", "rows", "words"),
    [
        (7634, 1, 7337.2, " (7,634 rows, of which about 7,337 are counted as far as the noise"),
        (7634, 1, 7634.0, " (7,634 rows)"),
        (2534, 5, 5426.0, " (about 5,426 rows of 2,534 units)"),
        (None, 1, 5426.0, " (5,426 rows)"),
    ],
)
def test_a_page_says_how_many_rows_there_are(
    size: int | None, each: int, rows: float, words: str
) -> None:
    """'of 12,670' stood there for 2,534 people with at most 5 rows each: nobody has 12,670."""
    facts = {"size": size, "max_rows_per_unit": each}
    most = math.inf if size is None else float(size * each)
    release: Any = SimpleNamespace(max_rows=most, manifest={"privacy": facts})
    assert rows_in_words(release, rows).startswith(words)


def test_bars_show_rows_where_bins_are_too_uneven_for_densities() -> None:
    """Beside a bin of a single number, or of a thousandth of the width, no other bar was seen."""
    heap = Axis("pay", "real", edges=(0.0, math.nextafter(0.0, 1.0), 20.0, 500.0))
    decades = Axis("pay", "real", edges=(1.0, 10.0, 1e3, 1e6))
    for axis in (heap, decades):
        assert bin_lengths(axis) == (pytest.approx(np.ones(0)), "")
        assert "bars show the rows of each" in said_of_bins(axis)
    bands = Axis("age", "real", edges=(0.0, 10.0, 40.0))
    assert bin_lengths(bands)[0] == pytest.approx([1.0, 1 / 3])
    assert "rows per 10 of age" in said_of_bins(bands)
    assert not said_of_bins(Axis("age", "real", edges=(0.0, 10.0, 20.0)))
