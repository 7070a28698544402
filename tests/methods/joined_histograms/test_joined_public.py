"""A public table of other people in joined histograms: read before payment, believed as far as
noisy counts allow, and never taken for counted."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.declare.schema import Schema
from dpublish.errors import BundleError, PlanError
from dpublish.methods.joined_histograms.job import Job
from dpublish.methods.joined_histograms.public_table import check_pairs, public_prior
from dpublish.models.junction_tree.measured import read_measured
from dpublish.models.public_prior import (
    Guess,
    PublicPrior,
    above_independence,
    guess_columns,
    pooled,
    towards,
)
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder
from dpublish.privacy.cost import Cost
from dpublish.releases.joined_histograms.release import _arrays

SCHEMA = """
[dataset]
name = "people"
neighbours = "{neighbours}"
{size} = 6000
{target}

[columns.age]
kind = "integer"
lower = 0
upper = 99

[columns.trade]
kind = "categorical"
levels = ["t0", "t1", "t2", "t3", "t4", "t5"]
outside = "drop"

[columns.town]
kind = "categorical"
levels = ["n0", "n1", "n2", "n3", "n4"]
outside = "drop"

[columns.pay]
kind = "ordinal"
levels = ["0", "1", "2", "3", "4", "5", "6", "7"]
outside = "drop"

[columns.owns]
kind = "boolean"
outside = "drop"
"""
COST = Cost.approximate("0.2", "1e-9")


def people(seed: int, rows: int = 6000, *, turned: bool = False) -> pl.DataFrame:
    """People whose columns follow one trait; `turned`: in which trades, towns and pay stand for
    the other end of it, and owning too."""
    draw = np.random.default_rng(seed)
    trait = draw.normal(size=rows)
    sign = -1 if turned else 1

    def level(count: int, noise: float, sign: int = 1) -> Any:
        value = sign * trait + noise * draw.normal(size=rows)
        return np.clip((value + 2) / 4 * count, 0, count - 1).astype(int)

    return pl.DataFrame(
        {
            "age": np.clip(45 + 15 * trait + 8 * draw.normal(size=rows), 0, 99).astype(int),
            "trade": [f"t{(one * 5) % 6}" for one in level(6, 0.6, sign)],
            "town": [f"n{(one * 3) % 5}" for one in level(5, 0.9, sign)],
            "pay": [str(one) for one in level(8, 0.5)],
            "owns": sign * trait + draw.normal(size=rows) > 0.7,
        }
    )


def schema(*, target: bool = True, neighbours: str = "add-remove-one") -> Schema:
    size = "size" if neighbours == "replace-one" else "nominal_size"
    named = 'target = "owns"' if target else ""
    return Schema.from_toml(SCHEMA.format(target=named, neighbours=neighbours, size=size))


def publish(tmp_path: Path, public: Any, seed: int = 1, **options: Any) -> Any:
    ledger = tmp_path / "one.ledger"
    budget = None if ledger.exists() else dp.Budget(epsilon=100, delta="1e-3")
    curator = dp.Curator(people(0), schema(), ledger=ledger, budget=budget)
    title = None if public is None else "Neighbours"
    method = dp.JoinedHistograms(public=public, public_title=title, **options)
    return curator.publish(method, seed=seed, epsilon="0.2", delta="1e-9")


def apart(release: Any) -> float:
    """Mean total variation of pairs between synthetic and true rows; ages by tens."""
    tens = pl.col("age") // 10
    true, made = people(0).with_columns(tens), release.sample(6000, seed=0).with_columns(tens)
    found = []
    for pair in itertools.combinations(true.columns, 2):
        shares = [
            {row[:2]: row[2] / 6000 for row in one.group_by(pair).len().rows()}
            for one in (true, made)
        ]
        cells = set(shares[0]) | set(shares[1])
        found.append(sum(abs(shares[0].get(c, 0) - shares[1].get(c, 0)) for c in cells) / 2)
    return float(np.mean(found))


def test_a_table_of_like_people_helps_and_one_of_others_is_found_out(tmp_path: Path) -> None:
    plain = publish(tmp_path, None)
    like = publish(tmp_path, people(1, 20_000))
    turned = publish(tmp_path, people(2, 20_000, turned=True))
    assert apart(like) < 0.6 * apart(plain)
    assert apart(turned) < 1.1 * apart(plain)
    assert len(like.measured.prior.pairs) >= 3
    believed = {names: share for names, share in like.public_pairs.items() if share > 0.6}
    assert believed
    # age and pay still go together there; what was turned does not
    assert all(share < 0.4 for names, share in turned.public_pairs.items() if "trade" in names), (
        turned.public_pairs
    )
    assert "prior" not in plain.manifest["facts"]
    assert plain.measured.prior is None
    assert plain.public_pairs == {}


def test_the_release_says_what_comes_from_the_public_table(tmp_path: Path) -> None:
    release = publish(tmp_path, people(1, 20_000))
    (first, second), _ = max(release.public_pairs.items(), key=lambda one: one[1])
    assert (first, second) not in release.pairs
    values = {name: release.domain.axis(name).labels[0] for name in (first, second)}
    where = " and ".join(
        f"{name} < 40" if name == "age" else f"{name} = '{value}'" for name, value in values.items()
    )
    found = release.estimate(where)
    assert "not counted" in found.note
    assert "public table 'Neighbours'" in found.note
    assert "public table" not in release.estimate(f"{where.split(' and ')[0]}").note
    # an interval of a pair from the public table is no narrower than what was measured allows
    assert found.high - found.low > 20
    assert "Neighbours" in release.summary()["from the public table"]
    facts = release.manifest["facts"]["public"]
    assert facts["name"] == "Neighbours"
    assert facts["rows"] == 20_000
    assert len(facts["sha256"]) == 64
    statement = release.manifest["privacy"]["statement"]
    assert "'Neighbours'" in statement
    assert "other people" in statement
    page = tmp_path / "report.html"
    release.report(page)
    assert "From a public table" in page.read_text()
    assert release.plot() is not None
    again = next(release.replicates(1, seed=3))
    assert again.measured.prior.pairs[0].check != release.measured.prior.pairs[0].check
    assert again.estimate(where).value > 0


def test_the_reader_fits_what_the_mechanism_did(tmp_path: Path) -> None:
    release = publish(tmp_path, people(1, 20_000))
    facts, tables = release.manifest["facts"], _arrays(release.tables)
    prior = read_measured(release.domain, facts, tables).prior
    assert isinstance(prior, PublicPrior)
    assert {int(one.counts.sum()) for one in prior.pairs} == {20_000}
    assert {int(one.sum()) for one in prior.columns.values()} == {20_000}
    for wrong in (
        {"pairs": [["age", "age"]]},
        {"columns": ["owns"]},
        {"checks": [1.5] * len(prior.pairs)},
        {"checks": []},
        {"taken": [1] * len(prior.pairs)},
        {"rows": 0},
        {"name": "x\n"},
        {"check_scales": ["0"] * len(prior.pairs)},
    ):
        broken = {**facts, "public": {**facts["public"], **wrong}}
        with pytest.raises(BundleError):
            read_measured(release.domain, broken, tables)
    negative = {**tables, "public_pairs": {**tables["public_pairs"]}}
    negative["public_pairs"]["count"] = -negative["public_pairs"]["count"]
    with pytest.raises(BundleError, match="believable"):
        read_measured(release.domain, facts, negative)


def test_what_is_refused_before_payment(tmp_path: Path) -> None:
    good = people(1, 500)
    good.write_csv(tmp_path / "good.csv")
    plan = dp.JoinedHistograms(public=tmp_path / "good.csv").plan(schema(), COST)
    assert plan.parameters["public"][0]["rows"] == 500
    assert any("must be other people" in one for one in plan.sentences)
    assert plan.settings.check_share == Fraction(1, 20) == plan.settings.choice_share
    stated = [Fraction(value) for name, value in plan.facts.items() if name.endswith("_share")]
    assert sum(stated) == 1, "what a manifest states of the shares adds up"
    for public, said in (
        ("uniform", "say nothing"),
        (tmp_path / "none.csv", "none.csv"),
        (good.drop("owns"), "no column 'owns', which is the target"),
        (good.select("owns").with_columns(other=1), "no column in common"),
        (good.with_columns(town=pl.lit("elsewhere")), "No public row"),
        (good.head(0), "empty"),
        (
            pl.concat([good.head(100), good.with_columns(town=pl.lit("x"))]),
            r"500 of 600 public rows .* \(in town\)",
        ),
    ):
        with pytest.raises(dp.PublishError, match=said):
            dp.JoinedHistograms(public=public).plan(schema(), COST)
    some = pl.concat([good.drop("pay"), good.drop("pay").head(9).with_columns(town=pl.lit("x"))])
    warned = dp.JoinedHistograms(public=some).plan(schema(), COST).warnings
    assert any("nothing is taken from them: pay" in one for one in warned)
    assert any("9 of 509" in one for one in warned)
    with pytest.raises(PlanError, match="printable"):
        dp.JoinedHistograms(public=good, public_title=" ").plan(schema(), COST)


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_a_check_moves_by_one_and_reads_nothing_else(neighbours: str) -> None:
    """The only number that a public table has counted: rows in a region that public rows fix."""
    one = schema(target=False, neighbours=neighbours)
    method = dp.JoinedHistograms(public=people(1, 4000), noise="laplace", bin_share=0)
    plan = method.plan(one, Cost.pure(1))
    assert plan.settings.public is not None
    codes = [np.asarray(code[:300]) for code in plan.settings.public.codes]
    moved = [code.copy() for code in codes]
    for code in moved:  # one row becomes another
        code[7] = code[11]
    heard = []
    for rows in (codes, moved):
        noise = Recorder(SeededNoise(5))
        job = Job.of(noise, rows, plan).with_prior()
        assert job.prior is not None
        check_pairs(job, job.prior, 6000.0)
        heard.append([tap.draw for tap in noise.tape.taps if "check" in tap.draw.label])
    assert len(heard[0]) == len(job.prior.pairs) > 0
    for before, after in zip(*heard, strict=True):
        assert before.sensitivity == after.sensitivity == 1
        assert abs(int(before.private[0][0]) - int(after.private[0][0])) <= 1
        assert before.epsilon * len(heard[0]) == plan.settings.check_share


def test_regions_are_exact() -> None:
    counts = np.array([[[3, 1], [1, 1]], [[1, 1], [3, 1]]])
    region = above_independence(counts)
    assert region[..., 0].tolist() == [[True, False], [False, True]]
    assert not region[..., 1].any()
    large = counts * (1 << 40)
    assert (above_independence(large) == region).all()


def test_answers_of_all_pairs_are_read_together() -> None:
    nothing = pooled(np.array([0.4, -1.0, 2.0]), np.full(3, 1e4))
    assert (nothing < 0.35).all()
    many = pooled(np.array([1.3, 0.7, 1.1, 0.9, 1.0, 0.4]), np.full(6, 0.09))
    assert (many > 0.75).all()
    none = pooled(np.array([0.1, -0.2, 0.05, 0.0]), np.full(4, 0.01))
    assert (none < 0.12).all()
    mixed = pooled(np.array([1.0, 0.0]), np.full(2, 1e-4))
    assert mixed[0] > 0.9
    assert mixed[1] < 0.1


def test_columns_move_towards_public_shares_as_their_noise_calls_for() -> None:
    labels = np.array([600.0, 400.0])
    table = np.array([[300.0, 100.0], [300.0, 300.0]])
    guess = Guess(np.array([500.0, 500.0]), 100.0, np.array([[0.7, 0.3], [0.5, 0.5]]))
    kept, left = towards(table, 0.0, guess, labels)
    assert np.allclose(kept, table, rtol=1e-6)
    assert left == 1.0
    moved, left = towards(table, 1e9, guess, labels)
    assert np.allclose(moved.sum(axis=1), guess.rows, rtol=1e-3)
    assert np.allclose(moved.sum(axis=0), labels)
    assert left < 1e-6
    public = np.array([[90, 10], [10, 90]])
    prior = PublicPrior("p", 200, "0" * 64, {0: public, 1: public, 2: public})
    same = np.array([[450.0, 50.0], [50.0, 450.0]])
    like = guess_columns(prior, dict.fromkeys(range(3), same), [1.0] * 3, np.array([500.0, 500.0]))
    unlike = guess_columns(
        prior, dict.fromkeys(range(3), same[::-1]), [1.0] * 3, np.array([500.0, 500.0])
    )
    assert like[0].split[0, 0] > 0.85
    assert abs(unlike[0].split[0, 0] - 0.5) < 0.05
    assert like[0].doubt < 100


def test_bins_that_are_found_group_public_rows_too(tmp_path: Path) -> None:
    release = publish(tmp_path, people(1, 5000), columns=["age", "pay", "owns"])
    place = release.domain.names.index("age")
    assert release.measured.prior.columns[place].shape[0] == release.domain.shape[place]
    plan = dp.JoinedHistograms(public=people(1, 5000)).plan(schema(), COST)
    rows = plan.settings.public
    assert rows is not None
    prior = public_prior(rows, plan.settings.fine.shape, [False] * 5, 4)
    assert all(
        len(one.groups[0]) == plan.settings.fine.shape[one.columns[0]] for one in prior.pairs
    )


@pytest.mark.parametrize(
    ("neighbours", "key"), [("replace-one", "size"), ("add-remove-one", "nominal_size")]
)
def test_all_steps_replay_with_target_found_bins_and_several_rows_a_unit(
    neighbours: str, key: str
) -> None:
    kinds = {
        "who": 'kind = "integer"\nlower = 0\nupper = 10000',
        "a": 'kind = "categorical"\nlevels = ["x", "y"]',
        "b": 'kind = "categorical"\nlevels = ["x", "y", "z"]',
        "n": 'kind = "real"\nlower = 0\nupper = 100',
        "t": 'kind = "boolean"',
    }
    head = (
        f'[dataset]\nname = "visits"\nneighbours = "{neighbours}"\n{key} = 1000\ntarget = "t"\n'
        'unit = "who"\nmax_rows_per_unit = 2\n'
    )
    text = head + "".join(f"[columns.{name}]\n{kind}\n" for name, kind in kinds.items())
    draw = np.random.default_rng(0)
    hidden, levels = draw.integers(0, 2, 900), np.array(["x", "y", "z"])
    public = pl.DataFrame(
        {
            "a": levels[hidden],
            "b": levels[hidden + (draw.random(900) < 0.2)],
            "n": 50.0 * hidden + 10.0 * draw.integers(0, 3, 900),
            "t": draw.random(900) < 0.5,
        }
    )
    method = dp.JoinedHistograms(public=public, columns=["a", "b", "n", "t"], rounds=1)
    plan = method.plan(Schema.from_toml(text), Cost.pure(4))
    settings = plan.settings
    assert settings.adaptive == ("n",)
    assert settings.public is not None
    others, made = settings.public.codes, []

    def run(noise: Any, rows: Any) -> Any:
        unit = np.array(rows, dtype=np.int64).reshape(-1, 4)
        codes = [np.concatenate([code, unit[:, i]]) for i, code in enumerate(others)]
        made.append(method.run(noise, codes, plan))
        return made[-1]

    first, last = (0, 0, 0, 0), tuple(count - 1 for count in settings.fine.shape)
    pairs: list[Any] = [((), (first, first)), ((), (last, first))]
    if neighbours == "replace-one":
        pairs = [((first, first), (last, last))]
    report = audit.replay(run, pairs, epsilon=4, runs=1)
    assert report.passed, report.summary()
    assert report.loss > 3
    facts = made[0].facts
    assert len(facts["public"]["checks"]) >= 2
    assert len(facts["rounds"]) == 2
    assert facts["misfit"] is not None
