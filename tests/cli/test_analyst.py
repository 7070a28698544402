"""show, verify, query, sql, export and report as a user sees them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from cli.conftest import CANARY, RELEASE, Command
from dpublish.present.export import export_release


def test_show(released: Path, dpublish: Command) -> None:
    shown = dpublish("show", "shop.dpr")
    assert shown.code == 0
    assert "This release satisfies epsilon = 1 (pure differential privacy)" in shown.out
    assert "is right in at most 74 of 100 cases on average, instead of 50" in " ".join(
        shown.out.split()
    )
    assert "Correction" not in shown.out
    assert "Bern, Graz, Lyon" in shown.out
    document = dpublish("show", "shop.dpr", "--json").document
    assert document["format"] == "dpublish-release"
    assert document["privacy"]["neighbours"] == "replace-one"


def test_verify(released: Path, dpublish: Command) -> None:
    shown = dpublish("verify", "shop.dpr", "--ledger", "shop.ledger")
    assert shown.code == 0
    assert "whole and unaltered. The ledger holds its payment." in shown.out
    alone = dpublish("verify", "shop.dpr").out
    assert "unaltered" not in alone, "nothing vouches for the manifest"
    assert "only --ledger or the hash" in " ".join(alone.split())
    document = dpublish("verify", "shop.dpr", "--json").document
    assert document["ok"] is True
    assert document["paid"] is None


def test_verify_finds_a_release_that_was_not_paid(released: Path, dpublish: Command) -> None:
    dpublish("ledger", "open", "other.ledger", "--epsilon", "9")
    shown = dpublish("verify", "shop.dpr", "--ledger", "other.ledger")
    assert shown.code == 5
    assert "was not paid from it" in shown.out


def altered(path: Path, **changes: Any) -> None:
    """Rewrite the manifest of a release, as anyone can who has the file."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(content["manifest.json"])
    for name, value in changes.items():
        manifest[name] = value(manifest[name]) if callable(value) else value
    content["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    "steering", ["\x1b[31m", "\x07", "\x9b31m", "\x7f", "\r", "\u202e", "\u2066"]
)
def test_a_release_cannot_steer_the_terminal(
    released: Path, dpublish: Command, steering: str
) -> None:
    def rename(domain: list[dict[str, Any]]) -> list[dict[str, Any]]:
        city = next(axis for axis in domain if axis["name"] == "city")
        city["levels"][0] = f"Be{steering}rn"
        return domain

    altered(released / "shop.dpr", dataset=f"[b]sh{steering}op", domain=rename)
    written = steering.encode("unicode_escape").decode().replace("\\r", "\\x0d")
    for words in (
        ("show", "shop.dpr"),
        ("verify", "shop.dpr"),
        ("query", "shop.dpr", "--by", "city"),
    ):
        shown = dpublish(*words)
        assert shown.code == 0, shown.err
        assert steering[0] not in shown.out + shown.err
        assert written in shown.out
    assert f"[b]sh{written}op" in dpublish("show", "shop.dpr").out, "a name is not markup"
    document = dpublish("show", "shop.dpr", "--json")
    assert steering[0] not in document.out
    assert document.document["dataset"] == f"[b]sh{steering}op"
    failed = dpublish("query", "shop.dpr", f"ci{steering}ty = 'Graz'")
    assert failed.code == 2
    assert steering[0] not in failed.err


def test_a_corrupt_release(released: Path, dpublish: Command) -> None:
    blob = bytearray((released / "shop.dpr").read_bytes())
    blob[len(blob) // 2] ^= 0x40
    (released / "bad.dpr").write_bytes(blob)
    assert dpublish("verify", "bad.dpr").code == 5
    assert dpublish("verify", "bad.dpr", "--json").document["ok"] is False
    for words in (
        ("show", "bad.dpr"),
        ("query", "bad.dpr", "age > 30"),
        ("sql", "bad.dpr", "select 1"),
        ("report", "bad.dpr", "--out", "x"),
    ):
        error = dpublish(*words, "--json")
        assert (error.code, error.error["type"]) == (5, "BundleError")
    (released / "text.dpr").write_text("hello")
    assert dpublish("show", "text.dpr").code == 5
    with zipfile.ZipFile(released / "evil.dpr", "w") as archive:
        archive.writestr("../evil", "x")
    assert dpublish("show", "evil.dpr").code == 5


def test_a_missing_release(shop: Path, dpublish: Command) -> None:
    for words in (("show", "none.dpr"), ("verify", "none.dpr"), ("query", "none.dpr", "age > 30")):
        shown = dpublish(*words)
        assert shown.code == 2
        assert "none.dpr" in shown.out + shown.err


def test_query(released: Path, dpublish: Command) -> None:
    shown = dpublish("query", "shop.dpr", "city = 'Bern'", "age >= 38 and member = true")
    assert shown.code == 0
    assert "city = 'Bern'" in shown.out
    first, second = dpublish(
        "query", "shop.dpr", "city = 'Bern'", "age is null", "--level", "0.9", "--json"
    ).document["estimates"]
    assert first["predicate"] == "city = 'Bern'"
    assert set(first) == {"predicate", "measure", "value", "standard_error", "low", "high", "level"}
    assert first["measure"] == "count"
    assert first["low"] <= first["value"] <= first["high"]
    assert second["level"] == 0.9


def test_a_condition_may_start_with_a_minus(released: Path, dpublish: Command) -> None:
    shown = dpublish("query", "shop.dpr", "-1 < age", "--json", "-5.5 <= age")
    assert [entry["predicate"] for entry in shown.document["estimates"]] == [
        "-1 < age",
        "-5.5 <= age",
    ]
    assert dpublish("query", "shop.dpr", "-x").code == 2


def test_query_shows_what_an_interval_rests_on(
    monkeypatch: pytest.MonkeyPatch, released: Path, dpublish: Command
) -> None:
    from dpublish.estimate import Estimate
    from dpublish.releases.histogram.release import HistogramRelease

    told = Estimate(5.0, 1.0, 3.0, 7.0, 0.95, note="not counted")
    monkeypatch.setattr(HistogramRelease, "estimate", lambda self, predicate, level: told)
    assert "city = 'Bern': not counted" in dpublish("query", "shop.dpr", "city = 'Bern'").out
    assert (
        dpublish("query", "shop.dpr", "city = 'Bern'", "--json").document["estimates"][0]["note"]
        == "not counted"
    )


def test_query_by_column(released: Path, dpublish: Command) -> None:
    document = dpublish("query", "shop.dpr", "--by", "city,member", "--json").document
    assert document["columns"][:3] == ["city", "member", "count"]
    assert len(document["rows"]) >= 6
    assert "Graz" in dpublish("query", "shop.dpr", "--by", "city").out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["town = 'Bern'"], "town"),
        (["city = 'Brn'"], "Bern"),
        (["city = "], ""),
        ([], "--by"),
        (["city = 'Bern'", "--by", "city"], "--by"),
        (["--by", "cty"], "city"),
    ],
)
def test_wrong_queries(released: Path, dpublish: Command, words: list[str], expected: str) -> None:
    shown = dpublish("query", "shop.dpr", *words)
    assert (shown.code, shown.out) == (2, "")
    assert expected in shown.err
    assert dpublish("query", "shop.dpr", *words, "--json").error["type"] == "QueryError"


def test_sql(released: Path, dpublish: Command) -> None:
    text = "select city, count(*) as people from release group by city order by people desc"
    document = dpublish("sql", "shop.dpr", text, "--json").document
    assert document["columns"] == ["city", "people", "people_low", "people_high"]
    assert document["level"] == 0.95
    assert document["rows"][0][0] == "Bern"
    assert "Bern" in dpublish("sql", "shop.dpr", text).out
    assert "more rows" in dpublish("sql", "shop.dpr", text, "--rows", "1").out
    limits = dpublish("sql", "shop.dpr", text, "--level", "0.9", "--json").document
    assert limits["level"] == 0.9
    assert [name for name in limits["columns"] if name.endswith(("_low", "_high"))]
    extreme = "select min(city) as m from release"
    assert "m: no limits" in dpublish("sql", "shop.dpr", extreme).err
    assert "m_note" not in dpublish("sql", "shop.dpr", extreme).out
    assert "m: no limits" in dpublish("sql", "shop.dpr", extreme, "--json").document["notes"][0]
    assert dpublish("sql", "shop.dpr", text, "--level", "9").code == 2
    assert dpublish("sql", "shop.dpr", "drop table release").code == 2
    assert dpublish("sql", "shop.dpr", "select nonsense from release").code == 2


def test_export(released: Path, dpublish: Command) -> None:
    assert dpublish("export", "shop.dpr", "--to", "csv", "--out", "cells.csv").code == 0
    assert "weight" in pl.read_csv("cells.csv").columns
    document = dpublish(
        "export", "shop.dpr", "--out", "rows.parquet", "--synthetic", "--number", "50", "--json"
    ).document
    assert document["format"] == "parquet"
    assert pl.read_parquet("rows.parquet").height == 50
    assert "--to" in dpublish("export", "shop.dpr", "--out", "rows.xyz").err
    assert dpublish("export", "shop.dpr", "--out", "rows.csv", "--number", "5").code == 2
    assert dpublish("export", "shop.dpr", "--out", "rows.csv", "--where", "age < 3").code == 2
    refused = dpublish(
        "export", "shop.dpr", "--out", "rows.csv", "--synthetic", "--where", "age < 3"
    )
    assert "draws no rows under a condition" in refused.err
    assert CANARY not in Path("cells.csv").read_text()


def test_export_under_a_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpublish: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    numbers = "kind = 'integer'\nlower = 0\nupper = 9\nbins = 2\n"
    Path("s.toml").write_text(
        f'[dataset]\nname = "s"\n[columns.a]\n{numbers}[columns.b]\n{numbers}'
    )
    Path("d.csv").write_text("a,b\n" + "3,4\n" * 50)
    pay = ("--method", "joined-histograms", "--ledger", "l", "--budget", "9", "--epsilon", "9")
    assert dpublish("release", "d.csv", "--schema", "s.toml", *pay, "--out", "r.dpr").code == 0
    assert not dpublish("sql", "r.dpr", "select * from release").err
    drawn = ("export", "r.dpr", "--out", "r.csv", "--synthetic", "--where")
    assert dpublish(*drawn, "a between 1 and 2", "--number", "7").code == 0
    assert pl.read_csv("r.csv")["a"].is_in([1, 2]).sum() == 7
    assert "too rare" in dpublish(*drawn, "a < 1 and a > 2", "--number", "7").err


def test_answers_from_drawn_rows_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpublish: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    names = "abcdefg"
    columns = "".join(
        f"[columns.{name}]\nkind = 'integer'\nlower = 0\nupper = 99\nbins = 50\n" for name in names
    )
    Path("s.toml").write_text(f'[dataset]\nname = "s"\n{columns}')
    Path("d.csv").write_text(",".join(names) + "\n" + "3,4,5,6,7,8,9\n" * 50)
    pay = ("--method", "joined-histograms", "--ledger", "l", "--budget", "9", "--epsilon", "9")
    assert dpublish("release", "d.csv", "--schema", "s.toml", *pay, "--out", "r.dpr").code == 0
    assert not dpublish("sql", "r.dpr", "select a, count(*) from release group by a").err
    shown = dpublish("sql", "r.dpr", f"select count(*) from release where {' + '.join(names)} > 3")
    assert "rows drawn from the model" in shown.err
    document = dpublish("sql", "r.dpr", "select * from release limit 1", "--json").document
    assert "rows drawn from the model" in document["note"]


def test_export_names_the_column_of_the_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpublish: Command
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(
        '[dataset]\nname = "s"\n[columns.weight]\nkind = "integer"\nlower = 0\nupper = 9\n'
    )
    Path("d.csv").write_text("weight\n" + "3\n" * 50)
    pay = ("--ledger", "l", "--budget", "1", "--epsilon", "1")
    assert dpublish("release", "d.csv", "--schema", "s.toml", *pay, "--out", "r.dpr").code == 0
    assert "(column 'weight_')" in dpublish("export", "r.dpr", "--out", "r.csv").out
    assert dpublish("export", "r.dpr", "--out", "r.csv", "--json").document["weight"] == "weight_"
    assert pl.read_csv("r.csv").columns == ["weight", "weight_"]
    assert (
        dpublish("export", "r.dpr", "--out", "r.csv", "--synthetic", "--json").document["weight"]
        is None
    )


def test_nothing_is_written_over_a_release(released: Path, dpublish: Command) -> None:
    before = Path("shop.dpr").read_bytes()
    for words in (
        ("export", "--to", "csv"),
        ("export", "--to", "parquet", "--synthetic"),
        ("report",),
    ):
        shown = dpublish(words[0], "shop.dpr", *words[1:], "--out", "./shop.dpr")
        assert shown.code == 2
        assert "which would be lost" in shown.err
    release = dp.open_release("shop.dpr")
    with pytest.raises(dp.InputError, match="which would be lost"):
        export_release(release, "shop.dpr")  # type: ignore[arg-type]
    assert Path("shop.dpr").read_bytes() == before


def test_report(released: Path, dpublish: Command) -> None:
    document = dpublish("report", "shop.dpr", "--out", "shop.html", "--json").document
    assert document["bytes"] == Path("shop.html").stat().st_size
    page = Path("shop.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert CANARY not in page


def test_no_file_that_was_written_carries_a_canary(released: Path, dpublish: Command) -> None:
    dpublish(*RELEASE, "--epsilon", "5", "--out", "refused.dpr")
    for path in released.rglob("*"):
        if path.is_file() and path.name != "shop.csv":
            assert CANARY.encode() not in path.read_bytes(), path.name


def test_verify_a_folder_and_a_replaced_file(released: Path, dpublish: Command) -> None:
    assert dpublish(*RELEASE, "--epsilon", "1", "--key", "first", "--out", "folder").code == 0
    assert dpublish("verify", "folder", "--ledger", "shop.ledger").code == 0
    # the same key paid from another ledger of the same name and budget is another release
    words = (
        "release",
        "shop.csv",
        "--schema",
        "shop.toml",
        "--ledger",
        "twin.ledger",
        "--budget",
        "2",
        "--second-budget",
    )
    assert dpublish(*words, "--epsilon", "1", "--key", "first", "--out", "twin.dpr").code == 0
    assert dpublish("verify", "twin.dpr", "--ledger", "shop.ledger").code == 5


def test_a_release_of_a_kind_that_does_not_serve(
    released: Path, dpublish: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("dpublish.releases.histogram.release.HistogramRelease.sql")
    shown = dpublish("sql", "shop.dpr", "select 1 from release", "--json")
    assert (shown.code, shown.error["type"]) == (2, "QueryError")
    assert (
        "does not offer SQL ('sql'). It offers conditions with error bars ('query')"
        in shown.error["message"]
    )


def test_weighted_rows_answer_with_shares_and_means(shop: Path, dpublish: Command) -> None:
    (shop / "public.csv").write_text("age,city\n" + "19,Bern\n33,Graz\n58,Bern\n77,Lyon\n" * 50)
    words = (
        *RELEASE,
        "--method",
        "importance-weights",
        "--set",
        "public=public.csv",
        "--set",
        "columns=age,city",
    )
    assert dpublish(*words, "--epsilon", "2", "--budget", "2", "--out", "weights.dpr").code == 0
    assert "share" in dpublish("query", "weights.dpr", "city = 'Bern'").out
    assert "share or mean" in dpublish("query", "weights.dpr", "city = 'Bern'", "age").out
    first, second = dpublish("query", "weights.dpr", "city = 'Bern'", "age", "--json").document[
        "estimates"
    ]
    assert (first["measure"], second["measure"]) == ("share", "mean")
    assert 0 <= first["value"] <= 1 < second["value"]


def test_query_takes_means_and_shares_and_one_bad_condition_does_not_abort_the_others(
    released: Path, dpublish: Command
) -> None:
    done = dpublish("query", "shop.dpr", "mean(age)", "share(city = 'Bern')", "--where", "age < 60")
    assert done.code == 0
    found = dpublish("query", "shop.dpr", "mean(age)", "quantile(age, 0.9)", "--json").document
    assert [one["measure"] for one in found["estimates"]] == ["mean", "quantile"]
    assert all(one["low"] <= one["value"] <= one["high"] for one in found["estimates"])
    assert all(one["note"] for one in found["estimates"])
    compared = [
        "ratio(city = 'Bern', city in ('Bern', 'Bern'))",
        "difference(age, city = 'Bern', true)",
    ]
    found = dpublish("query", "shop.dpr", *compared, "--json").document["estimates"]
    assert [one["measure"] for one in found] == ["ratio", "difference"]
    assert all(one["low"] <= one["value"] <= one["high"] for one in found)
    assert "as in ratio(" in dpublish("query", "shop.dpr", "ratio(city = 'Bern')").err
    assert "both conditions" in dpublish("query", "shop.dpr", *compared, "--where", "age < 60").err
    mixed = dpublish("query", "shop.dpr", "city = 'Bern'", "nothing = 3")
    assert mixed.code == 2
    assert "city = 'Bern'" in mixed.out
    assert "nothing = 3" in mixed.out + mixed.err
    assert dpublish("query", "shop.dpr", "city = 'Bern'", "--where", "age < 60").code == 2
