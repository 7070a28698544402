"""The page in a real browser: its numbers are Python's, every flow works by mouse and by keyboard,
nothing is loaded or sent, and no string of a release comes alive."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from tests.every_kind import NAMES, every_kind

import dpublish as dp
from dpublish.errors import PublishError
from dpublish.present.charts import spans_decades
from dpublish.present.page.lookup import Cells, condition, lookups, whole
from dpublish.present.page.summaries import SHARES
from dpublish.releases.base import make_release

SCHEMA = """
[dataset]
name = "wards"
neighbours = "replace-one"
size = 900
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 20
[columns.ward]
kind = "categorical"
levels = ["north", "east", "south", "west"]
[columns.country]
kind = "categorical"
levels = [{countries}]
[columns.ill]
kind = "boolean"
"""
COUNTRIES = ", ".join(f'"c{number}"' for number in range(40))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("page")
    draw = random.Random(5)
    ages = [draw.randrange(100) for _ in range(900)]
    frame = pl.DataFrame(
        {
            "age": ages,
            "ward": [draw.choice(["north", "east", "south", "west"]) for _ in ages],
            "country": [f"c{min(draw.randrange(40), draw.randrange(40))}" for _ in ages],
            "ill": [draw.random() < age / 150 for age in ages],
        }
    )
    curator = dp.Curator(
        frame,
        dp.Schema.from_toml(SCHEMA.format(countries=COUNTRIES)),
        ledger=folder / "l.db",
        budget=dp.Budget(epsilon=5),
    )
    return curator.publish(dp.JoinedHistograms(), epsilon=2, out=folder / "wards.dpr", seed=4)


@pytest.fixture(scope="module")
def page(release: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release.page(tmp_path_factory.mktemp("out") / "wards.html", by=["ward", "ill", "age"])


def opened(watched: Any, page: Path, view: str = "", **settings: Any) -> Any:
    seen = watched(**settings)
    seen.page.goto(f"{page.as_uri()}{view}")
    return seen


def test_ten_thousand_look_ups_are_the_numbers_of_python(
    watched: Any, page: Path, release: Any
) -> None:
    seen = opened(watched, page)
    found = seen.page.evaluate(
        """() => {
          const { data, rowsOf, rangeAt, written } = window.lookedUp;
          const table = (one) => rowsOf(one).flatMap((row) => row.cells.flatMap((cell) =>
            [cell.value, cell.low, cell.high].map(written)));
          const ranges = Object.fromEntries(Object.entries(data.ranges).map(([name, one]) => {
            const out = [];
            for (let a = 0; a < one.from.length; a++) for (let b = a; b < one.from.length; b++) {
              const at = rangeAt(one, a, b);
              out.push([at.where, ...[at.value, at.low, at.high].map(written)]);
            }
            return [name, out];
          }));
          return { singles: data.singles.map(table), crossed: data.crossed.map(table), ranges };
        }"""
    )
    kept = lookups(release, ["ward", "ill", "age"])
    looked = 0
    for shown, tables in ((found["singles"], kept.singles), (found["crossed"], kept.crossed)):
        for texts, table in zip(shown, tables, strict=True):
            numbers = [
                written(number)
                for three in zip(table.value, table.low, table.high, strict=True)
                for number in three
            ]
            assert texts == numbers
            looked += len(numbers)
    for lines in found["ranges"].values():
        for where, *texts in lines:
            answer = release.estimate(where)
            assert texts == [f"{one:,.0f}" for one in (answer.value, answer.low, answer.high)]
            looked += 3
    # the tables of single columns are those that the release prints
    for table, texts in zip(kept.singles, found["singles"], strict=True):
        frame = release.marginal(table.columns[0])
        columns = [frame.to_series(at).to_list() for at in (1, 3, 4)]
        assert texts == [f"{number:,.0f}" for row in zip(*columns, strict=True) for number in row]
    assert looked > 1_500
    while looked < 10_000:  # the same look-ups as a reader makes them, through the view itself
        texts = seen.page.evaluate(VIEWED)
        looked += sum(map(len, texts))
    assert not seen.problems


VIEWED = """() => {
  const out = [], names = [...document.getElementById("column").options].map((one) => one.value);
  for (const name of names) {
    location.hash = `column=${encodeURIComponent(name)}`;
    window.dispatchEvent(new HashChangeEvent("hashchange"));
    out.push([...document.querySelectorAll("#table td.number")].map((cell) => cell.textContent));
  }
  return out;
}"""


def written(number: int | None) -> str:
    return "no limit" if number is None else f"{number:,}"


def test_conditions_ask_for_what_they_stand_beside(release: Any) -> None:
    for axis in release.domain.axes:
        frame = release.marginal(axis.name)
        for code in range(axis.base):
            text = condition(axis, code, code)
            assert f"{release.estimate(text).value:,.0f}" == f"{frame['count'][code]:,.0f}"


def test_a_column_a_second_one_a_range_and_a_filter_by_mouse(watched: Any, page: Path) -> None:
    view = opened(watched, page).page
    view.select_option("#column", "age")
    view.select_option("#from", index=2)
    view.select_option("#to", index=4)
    answer = view.text_content("#range-answer")
    assert "rows (95% limits" in answer
    assert "from=" in view.url
    view.select_option("#by", "ward")
    assert view.locator("#range-form").is_hidden()
    assert view.locator("#table thead th").count() >= 5
    view.select_option("#column", "country")
    view.select_option("#by", "")
    view.fill("#filter", "c1")
    assert 0 < view.locator("#table tbody tr").count() < 40
    view.select_option("#sort", "down")
    counts = [
        int(text.replace(",", ""))
        for text in view.locator("#table tbody tr td:nth-child(2)").all_text_contents()
    ]
    assert counts == sorted(counts, reverse=True)
    with view.expect_download() as saved:
        view.click("#csv")
    text = Path(saved.value.path()).read_text()
    assert text.startswith("country,,rows,low,high")
    with view.expect_download() as saved:
        view.click("#download")
    assert Path(saved.value.path()).read_bytes()[:2] == b"PK"


def test_a_view_has_an_address(watched: Any, page: Path) -> None:
    view = opened(watched, page, "#column=ward&by=ill&sort=down").page
    assert view.input_value("#column") == "ward"
    assert view.input_value("#by") == "ill"
    assert "ward by ill" in view.text_content("#table caption")
    assert "--by 'ward' --by 'ill'" in view.text_content("#commands")


def test_everything_can_be_reached_by_keyboard(watched: Any, page: Path) -> None:
    view = opened(watched, page).page
    reached = set()
    for _ in range(60):
        view.keyboard.press("Tab")
        reached.add(view.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert {"column", "by", "sort", "filter", "table", "csv", "link", "print"} <= reached
    view.focus("#column")
    view.keyboard.press("ArrowDown")
    assert view.input_value("#column") == "ward"
    summary = view.locator("#table summary").first
    summary.focus()
    view.keyboard.press("Enter")
    assert "In at least 95 of 100" in view.locator("#table details[open] p").first.text_content()


def test_pairs_that_were_not_counted_are_hatched(watched: Any, page: Path, release: Any) -> None:
    apart = [one for one in lookups(release).crossed if not one.counted]
    view = opened(watched, page).page
    for table in apart[:2]:
        first, second = table.columns
        view.goto(f"{page.as_uri()}#column={first}&by={second}")
        view.reload()
        assert view.locator("#table td.uncounted").count() > 0
        assert "not counted together" in view.text_content("#note")


def test_three_columns_that_were_asked_for_have_a_table(watched: Any, page: Path) -> None:
    view = opened(watched, page, "#column=ward").page
    view.select_option("#by", label="ill and age")
    assert "ward by ill by age" in view.text_content("#table caption")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(watched: Any, page: Path, scheme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    for view in ("#column=age", "#column=ward&by=ill"):
        seen = opened(watched, page, view, color_scheme=scheme, bypass_csp=True)
        found = Axe().run(seen.page).response["violations"]
        serious = [one["id"] for one in found if one["impact"] in ("serious", "critical")]
        assert not serious, found


def test_a_phone_shows_all_of_it(watched: Any, page: Path) -> None:
    view = opened(watched, page, "#column=ward&by=ill", viewport={"width": 360, "height": 740}).page
    assert view.evaluate("document.documentElement.scrollWidth") <= 360


def test_nothing_is_cut_on_paper(watched: Any, page: Path) -> None:
    """The widest tables that there are, and rows of all columns, on A4 within its margins; in print
    the colours are those of paper, whatever the screen's are."""
    seen = opened(watched, page, "#column=country&by=age", color_scheme="dark", viewport=A4).page
    assert seen.locator("#table th").count() > 12
    seen.emulate_media(media="print")
    across = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert seen.evaluate(across) == 0
    cut = """() => [...document.querySelectorAll("table, svg")].filter(
      (one) => one.getBoundingClientRect().right > innerWidth).length"""
    assert seen.evaluate(cut) == 0
    assert seen.evaluate("getComputedStyle(document.body).color") == "rgb(29, 39, 51)"
    assert not seen.locator("#csv").is_visible()
    # half a sheet is enough for such a table, and not for one that is set as on a screen
    seen.set_viewport_size({"width": 350, "height": 1009})
    narrow = seen.evaluate(cut)
    seen.evaluate("document.querySelector('#table table').classList.remove('wide')")
    assert seen.evaluate(cut) > narrow


A4 = {"width": 703, "height": 1009}
"""210 by 297 mm less the margins, in CSS pixels."""


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_has_a_page_that_loads_nothing(watched: Any, name: str, tmp_path: Path) -> None:
    made = every_kind()[name].page(tmp_path / "page.html")
    seen = opened(watched, made)
    assert seen.page.locator("h1").text_content()
    assert not seen.problems
    assert not seen.requests


def test_only_what_is_looked_at_is_drawn(watched: Any, page: Path) -> None:
    """A page that drew all tables at once, or kept those of earlier choices, would be slow to paint
    and to answer; the seconds are those of `tools/analyst_speed.py --browser`."""
    seen = opened(watched, page)
    data = seen.page.evaluate("window.lookedUp.data")
    drawn = seen.page.locator("#table table").count()
    assert drawn == 1 < len(data["singles"]) + len(data["crossed"])
    for column in ("country", "ward", "age"):
        seen.page.select_option("#column", column)
        assert seen.page.locator("#table table").count() == drawn
    assert not seen.requests


def test_means_and_quantiles_are_those_of_python(watched: Any, page: Path, release: Any) -> None:
    view = opened(watched, page, "#column=age").page
    cells = view.locator("#summary tbody td").all_text_contents()
    asked = [release.mean("age"), *(release.quantile("age", q) for q in SHARES)]
    assert cells == [f"{v}{low} to {high}" for v, low, high in (one.written() for one in asked)]
    view.select_option("#by", "ward")
    assert view.locator("#summary table").count() == 0


def test_columns_and_levels_have_the_words_of_the_schema(watched: Any, tmp_path: Path) -> None:
    text = SCHEMA.format(countries=COUNTRIES).replace(
        'levels = ["north", "east", "south", "west"]',
        'levels = ["north", "east", "south", "west"]\ntitle = "Ward of the house"\n'
        'labels = { north = "North end" }',
    )
    text = text.replace("bins = 20", 'edges = [0, 10, 40, 100]\nunits = "years"').replace(
        "lower = 0\nupper = 99\n", ""
    )
    frame = pl.DataFrame(
        {"age": [5, 20, 70] * 300, "ward": ["north", "east", "west"] * 300}
    ).with_columns(country=pl.lit("c1"), ill=pl.lit(value=True))
    curator = dp.Curator(
        frame, dp.Schema.from_toml(text), ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=5)
    )
    made = curator.publish(dp.Histogram(columns=["age", "ward"]), epsilon=2, seed=4)
    view = opened(watched, made.page(tmp_path / "w.html"), "#column=ward").page
    assert "Ward of the house (ward)" in view.text_content("#column")
    assert "North end (north)" in view.text_content("#table")
    view.select_option("#column", "age")
    assert "rows per 10 years" in view.text_content("#chart")
    report = made.report(tmp_path / "r.html").read_text()
    assert "Ward of the house (ward)" in report
    assert "North end (north)" in report


def test_means_by_group_are_those_of_python(watched: Any, release: Any, page: Path) -> None:
    kept = {(one["of"], one["by"]): one for one in lookups(release).by_group}
    assert kept
    for (of, by), one in kept.items():
        assert release.counted_together(of, by)
        view = opened(watched, page, f"#column={of}&by={by}").page
        texts = view.locator("#groups table").first.locator("tbody tr").all_inner_texts()
        assert len(texts) == len(one["labels"])
        for text, where in zip(texts, one["where"], strict=True):
            mean, middle = release.mean(of, where=where), release.median(of, where=where)
            for found in (mean, middle):
                value, low, high = found.written()
                assert value in text
                assert f"{low} to {high}" in text
        view.locator("#groups summary").first.click()
        assert "Limits: " in view.text_content("#groups")
    apart = next(
        (one for one in lookups(release).crossed if not one.counted and "age" in one.columns), None
    )
    if apart is not None:
        view = opened(watched, page, f"#column={apart.columns[0]}&by={apart.columns[1]}").page
        assert "not counted together" in view.text_content("#groups")


def test_two_columns_with_an_order_have_a_map_and_its_table(watched: Any, tmp_path: Path) -> None:
    made = every_kind()["plane"].page(tmp_path / "plane.html")
    seen = opened(watched, made, "#column=income&by=height")
    assert seen.page.locator("#chart svg.map rect").count() == 12 * 4
    assert "in the table" in seen.page.get_attribute("#chart svg.map", "aria-label")
    assert seen.page.locator("#table tbody tr").count() == 12
    seen.page.locator("#chart summary").click()
    assert seen.page.locator("#chart line.error").count() > 2 * 48
    assert not seen.problems


def test_weighted_rows_have_what_their_sql_says(watched: Any, tmp_path: Path) -> None:
    """Columns, ranges of those with an order, and pairs."""
    weighted = every_kind()["weighted"]
    found = lookups(weighted)
    axes = {axis.name: axis for axis in weighted.features.axes}
    assert len(found.crossed) == len(axes) * (len(axes) - 1) // 2
    assert set(found.ranges) == {"income", "height"}

    def said(where: str) -> tuple[int | None, ...]:
        one = weighted.sql(f"select count(*) as n from release where {where}").row(0, named=True)
        return tuple(whole(one[name]) for name in ("n", "n_low", "n_high"))

    for single in found.singles:
        cells = zip(single.value, single.low, single.high, strict=True)
        assert [*cells] == [said(where) for where in single.where]
    for one in found.ranges.values():
        assert len(one["where"]) == len(one["from"]) * (len(one["from"]) + 1) // 2
        for at in (0, 3, len(one["where"]) - 1):
            assert tuple(one[key][at] for key in "vlh") == said(one["where"][at])
    table = next(one for one in found.crossed if one.columns == ("a", "b"))
    crossed = [f"a = '{first}' and b = '{other}'" for first in "xy" for other in ("no", "yes")]
    assert [*zip(table.value, table.low, table.high, strict=True)] == [*map(said, crossed)]
    view = opened(watched, weighted.page(tmp_path / "weights.html"), "#column=a&by=b").page
    assert view.locator("#table tbody tr").count() == len(table.labels[0])
    assert written(table.value[0]) in view.text_content("#table")
    apart = next(one for one in found.crossed if one.columns == ("income", "height"))
    assert not apart.counted
    view.select_option("#column", "income")
    view.select_option("#by", "height")
    # the pattern stands beside what it fills: one in a closed part of the page draws nothing
    assert view.locator("#chart svg.map pattern").get_attribute("id") == "hatched-map"
    over = view.locator("#chart svg.map rect.over")
    assert over.count() == len(apart.value)
    assert "#hatched-map" in over.first.evaluate("(one) => getComputedStyle(one).fill")


def test_numbers_that_span_decades_have_a_logarithmic_axis(watched: Any, page: Path) -> None:
    view = opened(watched, page).page
    ask = "(numbers) => window.lookedUp.spansDecades(numbers)"
    for numbers in ([1, 2, 3, 9000], [5, 6, 7000], [10, 20, 30], [0, 0, 5000], []):
        assert view.evaluate(ask, numbers) == spans_decades(np.array(numbers, dtype=np.float64))


HOSTILE = (
    "<script>window.alive = 1</script>",
    "</script><script>window.alive = 1</script>",
    '"><img src=x onerror="window.alive=1">',
    "'; window.alive = 1; //",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.alive=1",
    "=cmd|' /C calc'!A0",
    "<svg onload=window.alive=1>",
    "<!--",
    "]]>",
    "\u2028\u2029\u202e",
    "${alive}`",
    "a\x00b",
    "&lt;b&gt;",
    "<a href=//evil.example>x</a>",
    "<style>@import '//evil.example'</style>",
)


def strings(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where words stand in a manifest."""
    if isinstance(part, str):
        yield path
    elif isinstance(part, dict | list):
        for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
            yield from strings(inner, (*path, key))


def altered(release: Any, draw: random.Random) -> Any:
    """The release with hostile words in names, levels and sentences, and in as many others of its
    words as its reader lets pass."""
    word = lambda: "".join(draw.choice(HOSTILE) for _ in range(draw.randrange(1, 3)))  # noqa: E731
    manifest = json.loads(json.dumps(release.manifest))
    manifest["dataset"] = word()
    manifest["plan"]["sentences"] = [word() for _ in range(4)]
    manifest["plan"]["warnings"] = [word()]
    best = make_release(manifest, release.tables)
    for number, axis in enumerate(manifest.get("domain", [])):
        axis["name"] = f"{word()}{number}"
        if "levels" in axis:
            axis["levels"] = [f"{word()}{place}" for place in range(len(axis["levels"]))]
    places = list(strings(manifest))
    for _ in range(6):
        # whatever of this is refused when it is read cannot reach a page
        with contextlib.suppress(PublishError):
            best = make_release(manifest, release.tables)
        manifest = json.loads(json.dumps(best.manifest))
        *path, last = draw.choice(places)
        holder = manifest
        try:
            for key in path:
                holder = holder[key]
            holder[last] = word()
        except (KeyError, IndexError, TypeError):
            continue
    return best


def attack(watched: Any, runs: int, folder: Path, seed: int) -> None:
    """Pages of every kind in turn. A new document for each in one tab: starting tabs would take
    most of the time."""
    draw = random.Random(seed)
    kinds = [every_kind()[name] for name in NAMES]
    seen, refused = watched(), 0
    for number in range(runs):
        try:
            made = altered(kinds[number % len(kinds)], draw).page(folder / "hostile.html")
        except PublishError:  # words where a page needs a number
            refused += 1
            continue
        seen.page.goto(made.as_uri())
        # all options in one go, as a reader would choose them
        found = seen.page.evaluate(TRIED, number)
        assert found["alive"] is None
        assert found["foreign"] == 0
        assert not seen.requests, seen.requests
        assert not seen.problems, seen.problems
    assert refused < runs / 4


TRIED = """(number) => {
  for (const id of ["column", "by", "sort"]) {
    const field = document.getElementById(id);
    if (!field) continue;
    field.selectedIndex = Math.min(field.options.length - 1, (number % field.options.length) || 1);
    field.dispatchEvent(new Event("change"));
  }
  for (const one of document.querySelectorAll("details")) one.open = true;
  const foreign = "main img, main iframe, main object, main style, #table a, #chart a, " +
    "#groups a, #summary a, a[href]:not([href^='#']), " +
    "main script:not([type='application/octet-stream'])";
  return { alive: window.alive ?? null, foreign: document.querySelectorAll(foreign).length };
}"""


def test_no_string_of_a_release_comes_alive(watched: Any, tmp_path: Path) -> None:
    attack(watched, 2 * len(NAMES), tmp_path, 1)


@pytest.mark.nightly
def test_no_string_of_a_thousand_releases_comes_alive(watched: Any, tmp_path: Path) -> None:
    attack(watched, 1_000, tmp_path, 2)


def test_a_script_in_the_page_would_be_refused(watched: Any, page: Path, tmp_path: Path) -> None:
    """The planted bug: a page whose data were not escaped. The policy stops what escaping should
    have stopped."""
    text = page.read_text().replace("</header>", "</header><script>window.alive = 1</script>", 1)
    (tmp_path / "planted.html").write_text(text)
    seen = opened(watched, tmp_path / "planted.html")
    assert seen.page.evaluate("window.alive") is None
    assert any("Content Security Policy" in line for line in seen.problems)


def test_letters_that_turn_a_text_round_are_shown_as_dots() -> None:
    """In what the script shows; a template does the same."""
    table = Cells(("a",), (("\u202eevil\u202c", "\u0007 bell"),), [1, 2], [1, 2], [1, 2])
    assert table.to_json()["labels"] == [["·evil·", "· bell"]]


def test_formulas_are_written_as_text(watched: Any, page: Path) -> None:
    view = opened(watched, page).page
    cells = ["=1+1", "+1", "-1", "@x", "plain", 'a"b', "a,b"]
    found = view.evaluate("(cells) => cells.map(window.lookedUp.csvCell)", cells)
    assert found == ["'=1+1", "'+1", "'-1", "'@x", "plain", '"a""b"', '"a,b"']


def csv_rows(view: Any) -> list[list[str]]:
    with view.expect_download() as saved:
        view.click("#csv")
    with Path(saved.value.path()).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def test_the_file_has_the_means_and_quantiles_that_are_shown(
    watched: Any, page: Path, release: Any
) -> None:
    view = opened(watched, page, "#column=age").page
    rows = csv_rows(view)
    at = rows.index([])
    assert rows[at + 1] == ["", "measure", "age", "low", "high"]
    asked = [release.mean("age"), *(release.quantile("age", q) for q in SHARES)]
    for row, one in zip(rows[at + 2 :], asked, strict=True):
        assert row[2:] == [text.replace(",", "") for text in one.written()]
    one = lookups(release).by_group[0]
    for column, by in ((one["of"], one["by"]), (one["by"], one["of"])):
        view = opened(watched, page, f"#column={column}&by={by}").page
        rows = csv_rows(view)
        at = rows.index([one["by"], "measure", one["of"], "low", "high"])
        shown = [
            [label, what, *(text.replace(",", "") for text in cell[:3])]
            for label, cells in zip(one["labels"], one["cells"], strict=True)
            for what, cell in zip(one["what"], cells, strict=True)
            if cell
        ]
        assert rows[at - 1] == []
        assert rows[at + 1 : at + 1 + len(shown)] == shown


def test_formulas_in_names_of_groups_are_written_as_text(
    watched: Any, page: Path, release: Any
) -> None:
    one = lookups(release).by_group[0]
    view = opened(watched, page, f"#column={one['of']}&by={one['by']}").page
    text = view.evaluate(
        """([of, by]) => {
          const found = window.lookedUp.data.byGroup.find((one) => one.of === of && one.by === by);
          found.labels[0] = '=cmd("x")';
          found.what[0] = "+1";
          found.cells[0][0] = ["=2+2", "-1,234.5", "@z", 0];
          return window.lookedUp.asCsv({ column: of, by, filter: "", sort: "" });
        }""",
        [one["of"], one["by"]],
    )
    assert '"\'=cmd(""x"")",\'+1,\'=2+2,-1234.5,\'@z' in text
    cells = [cell for line in csv.reader(io.StringIO(text, newline="")) for cell in line]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "@", "\t")]
