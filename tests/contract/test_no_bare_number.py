"""No aggregate leaves a release without limits or a note: for every kind, by SQL in every shape
that it may have, by the calls of Python, and by the command line with and without --json."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dpublish.cli.app import run
from dpublish.errors import QueryError
from every_kind import NAMES, every_kind

SELECTS = {
    "alone": "select {all} from release",
    "where": "select {all} from release where {where}",
    "group by": "select {key}, {all} from release group by {key}",
    "by expression": "select floor({number} / 500) as k, {all} from release group by 1",
    "case": "select case when {number} < 400 then 'low' else 'high' end as k, {all} from release "
    "group by 1",
    "a case that cuts bins": "select case when {number} < 433 then 1 else 0 end as k, {all} "
    "from release group by case when {number} < 433 then 1 else 0 end",
    "having": "select {key}, {all} from release group by {key} having count(*) > 1",
    "order by": "select {key}, {all} from release group by {key} order by n desc, m limit 2",
    "distinct": "select distinct {all} from release group by {key}",
    "arithmetic": "select {key}, avg({number}) - 2 * median({number}) as d, sum({number}) / "
    "count(*) as q, 100.0 * sum(case when {number} < 400 then 1 else 0 end) / count(*) as s "
    "from release group by {key}",
    "nested": "select max(n) as most, sum(n) as added, avg(m) as middle from (select {key}, "
    "count(*) as n, avg({number}) as m from release group by {key}) t",
    "with": "with t as (select {key}, count(*) as n from release group by {key}) select {key}, n "
    "from t",
    "nothing there": "select {all} from release where {number} < -5",
}
ALL = (
    "count(*) as n, count({number}) as c, sum({number}) as s, avg({number}) as m, "
    "median({number}) as h, quantile({number}, 0.9) as q, min({number}) as l, max({number}) as u"
)
CALLS = {
    "mean": ("income",),
    "sum": ("income",),
    "share": ("income < 433",),
    "ratio": ("income < 433", "income >= 433"),
    "median": ("income",),
    "quantile": ("income", 0.9),
    "difference": ("income", "{first}", "{second}"),
}
GROUPS = {
    "tree": ("income < 500", "income >= 500"),
    "plane": ("height < 1", "height >= 1"),
}
TEXTS = ("projected", "synthetic")
"""Releases without a column of numbers, and what they are asked instead."""
WORDS = {
    "income": "case when b = 'yes' then 2 else 5 end",
    "income < 433": "b = 'yes'",
    "income >= 433": "b = 'no'",
}
REFUSED = {
    **{(name, call): "column of numbers" for name in TEXTS for call in ("median", "quantile")},
    **{("synthetic", call): "share of each" for call in ("mean", "sum")},
    ("synthetic", "difference"): "not counted together",
}
TABLES = [
    name
    for name in NAMES
    if "sql" in every_kind()[name].offers() and name not in ("tree", "projected")
]
"""One of each kind that has SQL: a tree of two columns, a histogram of several."""


def written(name: str, shape: str) -> str:
    release = every_kind()[name]
    columns = release.domain.names if hasattr(release, "domain") else release.rows.columns
    number = "income" if "income" in columns else None
    text = SELECTS[shape].replace("{all}", ALL)
    if number is None:  # the columns of this release are texts
        text = text.replace("{all}", "count(*) as n")
        for words in ("floor({number} / 500)", "{number} < 433", "{number} < 400", "{number} < -5"):
            text = text.replace(words, "a = 'x'")
        text = text.replace("{number}", "case when b = 'yes' then 1 else 0 end")
    key = "a" if "a" in columns else "income"
    return text.format(number=number, key=key, where="income >= 300" if number else "b = 'yes'")


@pytest.mark.parametrize("shape", SELECTS)
@pytest.mark.parametrize("name", TABLES)
def test_every_aggregate_of_sql_has_limits_or_a_note(name: str, shape: str) -> None:
    release = every_kind()[name]
    query = written(name, shape)
    found = release.sql(query)
    plain = release.sql(query, level=None).columns
    derived = [one for one in plain if one not in ("a", "income", "k")]
    assert derived
    for one in derived:
        assert_said(found, one, query)


def assert_said(found: pl.DataFrame, one: str, query: str) -> None:
    limits = {f"{one}_low", f"{one}_high"} <= set(found.columns)
    for line in found.iter_rows(named=True):
        low, high = (line[f"{one}_low"], line[f"{one}_high"]) if limits else (None, None)
        if low is None or high is None or not math.isfinite(high):
            assert line[f"{one}_note"], (query, one, line)
        elif line[one] is not None:
            assert low <= line[one] <= high, (query, one, line)
        note = line.get(f"{one}_note") or ""
        for unnamed in ("bins of ;", "parts of  "):
            assert unnamed not in note, (query, one, note)


@pytest.mark.parametrize("name", [one for one in NAMES if hasattr(every_kind()[one], "mean")])
def test_every_call_has_limits_and_a_note(name: str) -> None:
    release = every_kind()[name]
    first, second = GROUPS.get(name, ("a = 'x'", "a = 'y'"))
    for call, arguments in CALLS.items():
        given = [
            one.format(first=first, second=second) if isinstance(one, str) else one
            for one in arguments
        ]
        if name in TEXTS:
            given = [WORDS.get(str(one), one) for one in given]
        if (name, call) in REFUSED:
            with pytest.raises(QueryError, match=REFUSED[name, call]):
                getattr(release, call)(*given)
            continue
        one = getattr(release, call)(*given)
        assert one.low <= one.value <= one.high, (call, one)
        assert one.note or (math.isfinite(one.low) and math.isfinite(one.high)), (call, one)


@pytest.mark.parametrize("name", ["joined", "weighted", "plane"])
def test_the_command_line_says_it_too(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "release.dpr"
    every_kind()[name].save(file)
    query = written(name, "group by")
    assert run(["sql", str(file), query, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    rows: list[dict[str, Any]] = [
        dict(zip(said["columns"], row, strict=True)) for row in said["rows"]
    ]
    for row in rows:
        for one in [key for key in row if f"{key}_low" in row or f"{key}_note" in row]:
            assert row.get(f"{one}_low") is not None or row[f"{one}_note"], (one, row)
    assert run(["sql", str(file), query]) == 0
    shown = " ".join("".join(capsys.readouterr()).split())
    notes = {text for row in rows for key, text in row.items() if key.endswith("_note") and text}
    assert notes
    assert all(note.split(" (about")[0][:60] in shown for note in notes)
