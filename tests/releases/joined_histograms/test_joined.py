"""A joined release: answers with intervals, SQL, rows, models, plots, its file, and what it
refuses."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import BundleError, QueryError
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.base import make_release
from dpublish.releases.joined_histograms.release import JoinedRelease
from models.junction_tree.joined_cases import SCHEMA, codes_of, made, planned, released

TRUTH = codes_of(20_000)


@pytest.fixture(scope="module")
def release() -> JoinedRelease:
    return made(cost=Cost.pure(2))


def questions(rows: list[Any]) -> dict[str, Any]:
    age, region, city, _, dose, ill = rows
    return {
        "age < 30": age < 6,
        "age < 25 and ill": (age < 5) & (ill == 1),
        "region = 'n'": region == 0,
        "region = 'n' and city = 'n1'": (region == 0) & (city == 0),
        "city in ('n1', 'e1') and region != 'w' and ill": np.isin(city, [0, 2])
        & (region != 3)
        & (ill == 1),
        "ill": ill == 1,
        "true": ill >= 0,
        "dose is null": dose == 10,
        "age >= 50 and dose >= 5": (age >= 10) & (dose >= 5) & (dose < 10),
        "age >= 50 and region = 's'": (age >= 10) & (region == 2),
        "age >= 90 or region = 's' or ill": (age >= 18) | (region == 2) | (ill == 1),
        "not (age >= 50 and region = 's') and dose < 5": ~((age >= 10) & (region == 2))
        & (dose < 5),
    }


def test_estimates_are_near_the_truth(release: JoinedRelease) -> None:
    for question, rows in questions(TRUTH).items():
        found = release.estimate(question)
        assert found.low <= found.value <= found.high
        assert abs(found.value - rows.sum()) < 500, question


@pytest.mark.parametrize("cost", [Cost.pure(1), Cost.zcdp("1/50")], ids=["laplace", "gaussian"])
def test_intervals_hold_the_truth(cost: Cost) -> None:
    """40 simulated releases of 3,000 rows, 12 questions each, nominal 95%.

    Answers within a release share noise; taking them as 40 independent groups, a true coverage of
    95% falls below 92% with probability below 1%, and a coverage of 85% passes with probability
    below 1%.
    """
    rows = codes_of(3_000)
    truth = {question: int(held.sum()) for question, held in questions(rows).items()}
    method, plan = planned(cost)
    hits, margins = [], []
    for seed in range(40):
        one = released(method.run(SeededNoise(100 + seed), rows, plan), plan)
        for question, value in truth.items():
            found = one.estimate(question)
            hits.append(found.low <= value <= found.high)
        for columns, shape in (
            (("age",), (20,)),
            (("age", "ill"), (20, 2)),
            (("region", "city"), (4, 8)),
        ):
            names = ["age", "region", "city", "seen", "dose", "ill"]
            cells = np.ravel_multi_index([rows[names.index(name)] for name in columns], shape)
            counts = np.bincount(cells, minlength=int(np.prod(shape)))
            frame = one.marginal(*columns)
            margins.append(
                np.mean((frame["low"].to_numpy() <= counts) & (counts <= frame["high"].to_numpy()))
            )
    assert np.mean(hits) >= 0.92
    assert np.mean(margins) >= 0.92


def test_intervals_say_what_they_cover() -> None:
    """Counted pairs: noise. Others: the model and its measured misfit; without one, bounds, which
    are far wider."""
    with_misfit, without = (
        made(cost=Cost.pure(2), rounds=0, misfit_share=share) for share in ("1/50", 0)
    )
    assert ("region", "city") in with_misfit.pairs
    inside = with_misfit.estimate("region = 's' and city = 's1'")
    assert inside.high - inside.low < 400
    assert inside.note == "counted: the interval covers the noise"
    cut = with_misfit.estimate("age >= 37")
    assert "that the condition cuts" in cut.note
    assert (cut.low, cut.high) == (
        with_misfit.estimate("age >= 40").low,
        with_misfit.estimate("age >= 35").high,
    )
    names = [
        name
        for name in ("age", "dose", "city", "region")
        if {name, "seen"} not in map(set, with_misfit.pairs + without.pairs)
    ]
    question = {
        "age": "age >= 40",
        "dose": "dose >= 4",
        "city": "city = 'n1'",
        "region": "region = 'n'",
    }[names[0]]
    question += " and seen >= '2020-07-01'"
    narrow, wide = with_misfit.estimate(question), without.estimate(question)
    assert "largest error" in narrow.note
    assert "bounds" in wide.note
    assert narrow.high - narrow.low < 0.5 * (wide.high - wide.low)
    frame, bounds = with_misfit.marginal(names[0], "seen"), without.marginal(names[0], "seen")
    assert (frame["high"] - frame["low"]).mean() < (bounds["high"] - bounds["low"]).mean()


def test_a_misfit_of_another_model_is_set_aside(release: JoinedRelease) -> None:
    """The number speaks of the model that was fitted when it was measured."""
    facts = dict(release.manifest["facts"])
    assert release.measured.model_error is not None
    facts["misfit"] = {**facts["misfit"], "model": 0}
    assert (
        JoinedRelease({**release.manifest, "facts": facts}, release.tables).measured.model_error
        is None
    )


@pytest.mark.parametrize("cost", [Cost.pure(1), Cost.zcdp("1/50")], ids=["laplace", "gaussian"])
def test_the_misfit_bounds_every_box_of_every_pair(cost: Cost) -> None:
    """15 releases, all boxes of all pairs that were not counted: all of them inside in at least 80%
    of releases.

    The bound is for 95%. With a true chance of 95%, fewer than 12 of 15 happen with probability
    0.006; the seeds are fixed. A misfit of half its size would fail in nearly every release.
    """
    rows = codes_of(3_000)
    method, plan = planned(cost)
    good = 0
    for seed in range(15):
        one = released(method.run(SeededNoise(300 + seed), rows, plan), plan)
        counted = {frozenset(pair) for pair in one.joined}
        worst, bound = 0.0, np.inf
        for first in range(5):
            for second in range(first + 1, 5):
                names = [one.domain.names[first], one.domain.names[second]]
                if frozenset(names) in counted:
                    continue
                shape = (*(one.domain.axes[c].cardinality for c in (first, second)), 2)
                cells = np.ravel_multi_index([rows[first], rows[second], rows[5]], shape)
                truth = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
                apart = truth - one.model.joint([first, second, 5])
                worst = max(
                    worst,
                    *(
                        _worst_box(layer)
                        for layer in (apart[:, :, 0], apart[:, :, 1], apart.sum(axis=2))
                    ),
                )
                found = one.intervals.model_error_bound(first, second, 0.05)
                assert found is not None
                bound = min(bound, found)
        good += worst <= bound
    assert good >= 12


def _worst_box(apart: np.ndarray) -> float:
    """The largest absolute sum over a run of rows and a run of columns, by listing them."""
    sums = np.pad(apart.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    worst = 0.0
    for top in range(apart.shape[0]):
        for bottom in range(top + 1, apart.shape[0] + 1):
            line = sums[bottom] - sums[top]
            worst = max(worst, float(line.max() - line.min()))
    return worst


def test_marginals_have_labels_and_sum_up(release: JoinedRelease) -> None:
    frame = release.marginal("region", "ill")
    assert frame.columns == ["region", "ill", "count", "standard_error", "low", "high"]
    assert frame.height == 8
    assert np.isclose(frame["count"].sum(), release.model.total)
    triple = release.marginal("ill", "city", "region")
    assert np.allclose(
        triple.group_by("region").agg(pl.col("count").sum()).sort("region")["count"],
        release.marginal("region").sort("region")["count"],
        rtol=1e-3,
    )
    assert (triple["low"] <= triple["high"]).all()
    with pytest.raises(QueryError, match="named twice"):
        release.marginal("ill", "ill")
    with pytest.raises(QueryError, match="No column"):
        release.marginal("nowhere")


def test_sql_is_exact_where_the_table_fits(release: JoinedRelease) -> None:
    query = (
        "select region, count(*) as n, avg(age) as age from release where ill group by "
        "region order by region"
    )
    exact = release.sql(query)
    assert exact.height == 4
    assert abs(exact["n"].sum() - TRUTH[5].sum()) < 300
    every = release.sql("select * from release")
    assert every.columns == [*release.domain.names, "weight"]
    assert every["weight"].sum() == pytest.approx(release.model.total)
    assert release.sql_note(query) is None
    assert release.sql_note("select * from release") is None
    assert release.sql("select count(*) as n from release")["n"][0] == pytest.approx(
        release.model.total
    )


def test_rows_have_the_original_types(release: JoinedRelease) -> None:
    frame = release.to_frame(500)
    assert frame.schema == {
        "age": pl.Int64,
        "region": pl.String,
        "city": pl.String,
        "seen": pl.Date,
        "dose": pl.Float64,
        "ill": pl.Boolean,
    }
    assert frame["age"].is_between(0, 99).all()
    assert frame["seen"].is_between(dt.date(2020, 1, 1), dt.date(2020, 12, 31)).all()
    assert 0 < frame["dose"].null_count() < 250
    assert release.sample(50, seed=4).equals(release.sample(50, seed=4))
    assert release.sample().height == release.rows
    with pytest.raises(QueryError, match="whole number"):
        release.sample(-1)


def test_conditional_rows_satisfy_the_condition(release: JoinedRelease) -> None:
    frame = release.sample(200, seed=1, where="age >= 60 and region = 'n'")
    assert frame.height == 200
    assert (frame["region"] == "n").all()
    assert (frame["age"] >= 60).all()
    with pytest.raises(QueryError, match="too rare"):
        release.sample(200, seed=1, where="age >= 99 and age < 1")


def test_training(release: JoinedRelease) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    pipeline = release.fit(LogisticRegression(max_iter=300))
    rows = pl.DataFrame(
        {
            "age": TRUTH[0] * 5,
            "region": np.array(["n", "e", "s", "w"])[TRUTH[1]],
            "city": np.array(["n1", "n2", "e1", "e2", "s1", "s2", "w1", "w2"])[TRUTH[2]],
            "seen": [dt.date(2020, 3, 1)] * 20_000,
            "dose": np.where(TRUTH[4] == 10, np.nan, TRUTH[4] + 0.5),
        }
    )
    chance = pipeline.predict_proba(rows)[:, 1]
    best = roc_auc_score(TRUTH[5], TRUTH[0])
    assert roc_auc_score(TRUTH[5], chance) > best - 0.02
    with pytest.raises(QueryError, match="cannot be a feature"):
        release.fit(LogisticRegression(), features=["ill"])


def test_plots_and_page(release: JoinedRelease, tmp_path: Path) -> None:
    for figure in (release.plot(), release.plot("age"), release.plot("region", "city")):
        figure.savefig(tmp_path / "plot.png")
        assert (tmp_path / "plot.png").stat().st_size > 5_000
    page = release.report(tmp_path / "page.html").read_text()
    for words in (
        "What was joined",
        "In the words of the release file",
        "Guessing membership",
        "How it was made",
        "privacy cost",
        "Limitations",
    ):
        assert words in page, words
    assert "<script" not in page
    assert (
        "region - city" in release.summary()["joined"]
        or "city - region" in release.summary()["joined"]
    )


def test_without_a_target() -> None:
    release = made(target="none", cost=Cost.pure(2))
    assert release.target is None
    assert {"ill", "age"} & {name for pair in release.pairs for name in pair}
    assert (
        abs(release.estimate("age < 25 and ill").value - questions(TRUTH)["age < 25 and ill"].sum())
        < 500
    )


def test_a_file_and_back(release: JoinedRelease, tmp_path: Path) -> None:
    release.save(tmp_path / "r.dpr")
    again = dp.open_release(tmp_path / "r.dpr")
    assert isinstance(again, JoinedRelease)
    assert again.verify().ok
    assert again.estimate("age < 30").value == release.estimate("age < 30").value


@pytest.mark.parametrize("rounds", [0, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_domain_beyond_every_integer(rounds: int) -> None:
    """100 columns of 32 levels: 2^500 cells."""
    columns = "".join(
        f'[columns.c{i}]\nkind = "integer"\nlower = 0\nupper = 31\n' for i in range(100)
    )
    text = f'[dataset]\nname = "wide"\nneighbours = "add-remove-one"\n{columns}'
    method, plan = planned(Cost.approximate(1, "1e-9"), text=text, rounds=rounds)
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 32, 300) for _ in range(100)]
    release = released(method.run(SeededNoise(1), rows, plan), plan)
    make_release(release.manifest, release.tables)  # the manifest's own checks
    found = release.estimate("c0 >= 16 and c1 < 5 and c99 = 3")
    assert found.low <= found.value <= found.high
    assert release.sample(10).shape == (10, 100)
    assert release.sql("select c3, count(*) as n from release group by c3").height <= 32


BAD: dict[str, Any] = {
    "noise": ("noise", "pink"),
    "labels": ("labels", 7),
    "target": ("target", "nobody"),
    "joined": ("joined", [["age"]]),
    "target joined": ("joined", [["age", "ill"]]),
    "twice": ("joined", [["age", "age"]]),
    "rounds": ("rounds", [1]),
    "misfit": ("misfit", {"value": "many"}),
    "misfit scale": ("misfit", {"value": 1, "scale": "0", "unit": 256, "blocks": 64, "model": 1}),
    "scales": ("column_scales", ["1"]),
    "no number": ("column_scales", ["x"] * 5),
    "total": ("total", {"kind": "guess"}),
}


@pytest.mark.parametrize("case", BAD)
def test_facts_that_do_not_fit_are_refused(release: JoinedRelease, case: str) -> None:
    key, value = BAD[case]
    manifest = {**release.manifest, "facts": {**release.manifest["facts"], key: value}}
    with pytest.raises(BundleError):
        JoinedRelease(manifest, release.tables)


def test_tables_that_do_not_fit_are_refused(release: JoinedRelease) -> None:
    tables = release.tables
    for broken in (
        {name: frame for name, frame in tables.items() if name != "joined"},
        {**tables, "joined": tables["joined"].head(3)},
        {**tables, "columns": tables["columns"].with_columns(pl.lit(1 << 60).alias("count"))},
        {
            **tables,
            "columns": tables["columns"].with_columns(pl.lit(None, dtype=pl.Int64).alias("count")),
        },
        {
            **tables,
            "groups": tables["groups"].with_columns(pl.lit(5, dtype=pl.Int64).alias("group")),
        },
        {**tables, "groups": tables["groups"].rename({"group": "gruppe"})},
    ):
        with pytest.raises(BundleError):
            JoinedRelease(release.manifest, broken)


def write_table(path: Path, rows: int = 4_000) -> None:
    age, region, city, day, dose, ill = codes_of(rows)
    pl.DataFrame(
        {
            "age": age * 5,
            "region": np.array(["n", "e", "s", "w"])[region],
            "city": np.array(["n1", "n2", "e1", "e2", "s1", "s2", "w1", "w2"])[city],
            "seen": [dt.date(2020, 1 + int(month), 15) for month in day],
            "dose": [None if code == 10 else code + 0.5 for code in dose.tolist()],
            "ill": ill.astype(bool),
        }
    ).write_csv(path)


def test_from_rows_to_answers_through_the_curator_and_the_command_line(
    tmp_path: Path, capsys: Any
) -> None:
    from dpublish.cli.app import run

    write_table(tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(SCHEMA)
    curator = dp.Curator(
        tmp_path / "people.csv",
        tmp_path / "people.toml",
        ledger=tmp_path / "a.ledger",
        budget=dp.Budget(epsilon=4, delta="1e-6"),
    )
    made_here = curator.publish(dp.JoinedHistograms(noise="gaussian"), epsilon=1, delta="1e-9")
    assert made_here.publishable
    assert made_here.manifest["facts"]["noise"] == "gaussian"
    assert abs(made_here.rows - 4_000) < 400  # type: ignore[attr-defined]
    words = [
        "release",
        str(tmp_path / "people.csv"),
        "--schema",
        str(tmp_path / "people.toml"),
        "--epsilon",
        "1",
    ]
    words += ["--method", "joined-histograms", "--set", "workload=age*ill", "--budget", "2"]
    words += ["--ledger", str(tmp_path / "b.ledger"), "--out", str(tmp_path / "r.dpr")]
    words += ["--second-budget"]
    assert run(words) == 0, capsys.readouterr().err
    file = str(tmp_path / "r.dpr")
    for command in (
        ["show", file],
        ["verify", file],
        ["query", file, "age >= 50 and ill"],
        ["query", file, "--by", "region,ill"],
        ["sql", file, "select region, count(*) from release group by region"],
        ["export", file, "--synthetic", "-n", "50", "--out", str(tmp_path / "rows.csv")],
        ["report", file, "--out", str(tmp_path / "page.html")],
    ):
        code = run(command)
        shown = capsys.readouterr()
        assert code == 0, f"{command}: {shown.err}"
    assert pl.read_csv(tmp_path / "rows.csv").height == 50
