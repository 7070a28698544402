"""Public totals in joined histograms: exact in the model and its answers, and never from rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.schema import Schema
from dpublish.errors import BundleError
from dpublish.models.junction_tree.consistency import GroupSums
from dpublish.models.junction_tree.known_sums import (
    Corrections,
    KnownSum,
    fit_known_labels,
    rake,
)
from dpublish.models.junction_tree.measured import _read_totals
from dpublish.privacy.cost import Cost
from dpublish.query.predicate import parse_predicate
from dpublish.releases.joined_histograms.intervals import KNOWN

SCHEMA = """
[dataset]
name = "people"
neighbours = "{neighbours}"
{target}

[columns.region]
kind = "categorical"
levels = ["r0", "r1", "r2", "r3"]

[columns.age]
kind = "integer"
lower = 0
upper = 99
missing = true

[columns.work]
kind = "categorical"
levels = ["no", "yes"]
"""
ROWS = 4000
TIED = "age >= 60 and work = 'yes'"
WHERES = ("region = 'r0'", "region = 'r3'", "age < 15", TIED, "work = 'yes'")


def people(seed: int = 0) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    region = generator.choice(4, ROWS, p=[0.5, 0.3, 0.15, 0.05])
    age = np.clip(generator.gamma(4, 10, ROWS), 0, 99).astype(int)
    work = generator.random(ROWS) < 0.2 + 0.1 * region + 0.2 * (age > 40)
    return {
        "region": [f"r{one}" for one in region],
        "age": age,
        "work": np.where(work, "yes", "no"),
    }


def truth(frame: pl.DataFrame, where: str) -> int:
    return int(
        pl.SQLContext(rows=frame)
        .execute(
            f"select count(*) from rows where {where}",
            eager=True,
        )
        .item()
    )


def schema(
    totals: dict[str, int],
    *,
    target: bool = True,
    neighbours: str = "add-remove-one",
    more: str = "",
) -> Schema:
    text = SCHEMA.format(target='target = "work"' if target else "", neighbours=neighbours)
    for where, rows in totals.items():
        text += f'[[totals]]\nrows = {rows}\nsource = "census"\n'
        text += f'where = "{where}"\n' if where else ""
    return Schema.from_toml(text + more)


def publish(tmp_path: Path, frame: pl.DataFrame, one: Schema, seed: int, **amounts: Any) -> Any:
    ledger = tmp_path / "one.ledger"
    budget = dp.Budget(epsilon=100, delta="1e-3")
    curator = dp.Curator(frame, one, ledger=ledger, budget=None if ledger.exists() else budget)
    return curator.publish(dp.JoinedHistograms(), seed=seed, **amounts)


@pytest.mark.parametrize("target", [True, False])
@pytest.mark.parametrize(
    "amounts", [{"epsilon": "0.2"}, {"epsilon": "0.5", "delta": "1e-9"}], ids=["pure", "delta"]
)
def test_declared_totals_hold_exactly(
    tmp_path: Path, target: bool, amounts: dict[str, str]
) -> None:
    frame = pl.DataFrame(people())
    totals = {"": ROWS} | {where: truth(frame, where) for where in WHERES}
    if not target:  # two columns, and neither is the target
        totals.pop(TIED)
    release = publish(tmp_path, frame, schema(totals, target=target), 3, **amounts)
    assert release.rows == ROWS
    names = release.domain.names
    for where, rows in totals.items():
        if where:
            found = release.estimate(where)
            assert (found.value, found.low, found.high) == (rows, rows, rows)
            assert found.note == KNOWN
            node = parse_predicate(where, release.domain)
            assert release._expected(node) == pytest.approx(rows, abs=1e-3)
    rest = release.estimate("not (region = 'r0' or region = 'r3')")
    assert rest.low == rest.high == ROWS - totals["region = 'r0'"] - totals["region = 'r3'"]
    assert [one["source"] for one in release.manifest["facts"]["totals"]] == ["census"] * len(
        totals
    )
    counted = dict(release.marginal("region").select("region", "count").iter_rows())
    assert counted["r0"] == totals["region = 'r0'"]
    drawn = release.sample(ROWS, seed=1)
    assert abs(drawn.filter(pl.col("region") == "r0").height - totals["region = 'r0'"]) <= 3
    assert set(drawn.columns) == set(names)
    page = tmp_path / "report.html"
    release.report(page)
    assert "Public totals" in page.read_text()


def test_totals_come_from_the_schema_and_change_no_count(tmp_path: Path) -> None:
    """Wrong totals are believed, whatever the rows are, and the noisy counts stay as they were."""
    frame = pl.DataFrame(people())
    plain = publish(tmp_path, frame, schema({}), 5, epsilon="1")
    false = publish(
        tmp_path, frame, schema({"region = 'r0'": 7, "work = 'yes'": 9}), 5, epsilon="1"
    )
    assert false.estimate("region = 'r0'").value == 7
    assert false.estimate("work = 'yes'").value == 9
    assert plain.tables["columns"].equals(false.tables["columns"])
    other = publish(tmp_path, pl.DataFrame(people(1)), schema({"region = 'r0'": 7}), 5, epsilon="1")
    assert other.estimate("region = 'r0'").high == 7


def test_other_counts_learn_from_totals(tmp_path: Path) -> None:
    """Over 16 releases: intervals are narrower and hold, and errors are smaller, for questions that
    share cells with a total. At 95%, more than 12 misses of 80 intervals have a
    chance below 0.1% if they were independent, as those of different releases are."""
    frame = pl.DataFrame(people())
    totals = {where: truth(frame, where) for where in WHERES} | {"": ROWS}
    asked = (
        "region = 'r1'",
        "region = 'r0' and work = 'yes'",
        "age < 40",
        "age < 15 and work = 'no'",
        "work = 'no'",
    )
    errors, widths, missed = np.zeros(2), np.zeros(2), 0
    for seed in range(16):
        for place, one in enumerate((schema({"": ROWS}), schema(totals))):
            release = publish(tmp_path, frame, one, 100 + seed, epsilon="0.3")
            for where in asked:
                found, true = release.estimate(where), truth(frame, where)
                errors[place] += abs(found.value - true)
                widths[place] += found.high - found.low
                missed += place and not found.low <= true <= found.high
    assert missed <= 12
    assert errors[1] < 0.9 * errors[0]
    assert widths[1] < 0.97 * widths[0]


def test_what_cannot_be_held_to_is_said(tmp_path: Path) -> None:
    cost, method = Cost.pure(1), dp.JoinedHistograms()
    plan = method.plan(schema({"": 10, "age < 15": 2}), cost)
    assert any("10 rows in all (census); 2 rows with age < 15" in said for said in plan.sentences)
    assert plan.settings.public_rows == 10
    assert not any("total" in said for said in plan.warnings)
    tied = method.plan(schema({"age < 15 and region = 'r0'": 2}), cost)
    assert any("ties columns together" in said for said in tied.warnings)
    assert not tied.settings.totals
    text = SCHEMA.format(target="", neighbours="add-remove-one")
    total = '[[totals]]\nrows = 2\nwhere = "age < 15"\nsource = "census"\n'
    cut = Schema.from_toml(text.replace("upper = 99", "upper = 99\nbins = 4") + total)
    assert any("cuts a declared bin" in said for said in method.plan(cut, cost).warnings)
    dropping = Schema.from_toml(
        text.replace("missing = true", "").replace('"yes"]', '"yes"]\noutside = "drop"') + total
    )
    (said,) = method.plan(dropping, cost).warnings
    assert "rows may be left out" in said
    assert said.endswith('Declare missing = true for age, and outside = "other" for work.')
    units = text.replace("[columns.region]", 'unit = "id"\nmax_rows_per_unit = 2\n[columns.region]')
    found = method.plan(Schema.from_toml(units + total), cost)
    assert any("too many" in said for said in found.warnings)
    assert not found.settings.totals


def test_a_histogram_takes_the_number_of_all_rows(tmp_path: Path) -> None:
    cost = Cost.pure(1)
    one = schema({"": ROWS, "age < 15": 2})
    plan = dp.Histogram(columns=["region", "work"]).plan(one, cost)
    assert plan.settings.count_epsilon == 0
    assert any("4,000 rows in all (census)" in said for said in plan.sentences)
    assert any("1 of 2 public totals is not used" in said for said in plan.warnings)
    curator = dp.Curator(
        pl.DataFrame(people()),
        one,
        ledger=tmp_path / "one.ledger",
        budget=dp.Budget(epsilon=10),
    )
    release = curator.publish(dp.Histogram(columns=["region", "work"]), seed=1, epsilon=1)
    assert release.estimate("region = 'r0' or not region = 'r0'").low == ROWS


@pytest.mark.parametrize(
    "totals",
    [
        3,
        [3],
        [{"rows": 3}],
        [{"rows": -1, "source": "a"}],
        [{"rows": 3, "source": "a", "where": "age <"}],
        [{"rows": 3, "source": "a", "where": "home = 'x'"}],
        [{"rows": 3, "source": "a", "where": "age < 7 and region = 'r0'"}],
        [{"rows": 3, "source": "a", "why": "b"}],
    ],
)
def test_a_release_with_false_totals_is_refused(totals: Any) -> None:
    one = schema({})
    plan = dp.JoinedHistograms().plan(one, Cost.pure(1))
    with pytest.raises(BundleError, match="total"):
        _read_totals(plan.settings.fine, {"totals": totals}, plan.settings.target_index)


def test_known_sums_are_met_at_the_edge_of_what_is_possible() -> None:
    """Levels that totals say are empty, labels that a total fills, and estimates below 0."""
    generator = np.random.default_rng(1)
    for _ in range(50):
        levels, labels = int(generator.integers(2, 9)), int(generator.integers(1, 4))
        true = generator.multinomial(
            200, generator.dirichlet(np.full(levels * labels, 0.3))
        ).reshape(levels, labels)
        known = []
        for _ in range(int(generator.integers(1, 5))):
            cells = np.repeat((generator.random(levels) < 0.5)[:, None], labels, axis=1)
            if generator.random() < 0.5:
                cells = generator.random((levels, labels)) < 0.4
            known.append(KnownSum(0, cells.astype(float), int(true[cells].sum())))
        if generator.random() < 0.5:
            known.append(KnownSum(None, np.eye(1, labels)[0], int(true[:, 0].sum())))
        noisy = true + generator.normal(0, 20, true.shape)
        fitted = fit_known_labels(noisy.sum(axis=0), known, None)
        assert (fitted >= 0).all()
        of_table = [one for one in known if one.column == 0]
        table = rake(np.maximum(noisy, 0), fitted, of_table, least=1e-9)
        assert (table >= 0).all()
        assert table.sum(axis=0) == pytest.approx(fitted, abs=1e-3)
        for one in of_table:
            assert float((one.cells * table).sum()) == pytest.approx(one.rows, abs=1e-3)


def test_corrections_are_best_and_unbiased() -> None:
    """Beside the generalised least-squares formula with a dense covariance."""
    generator = np.random.default_rng(2)
    cells = [generator.integers(0, 2, (5, 2)).astype(float) for _ in range(2)]
    known = [KnownSum(0, one, 10) for one in cells]
    groups = [GroupSums(np.array([0, 0, 1, 1, 1]), np.zeros((2, 2)), 0.5)]
    found = Corrections.of(known, 4.0, groups)
    same = (groups[0].group_of[:, None] == groups[0].group_of).astype(float)
    covariance = np.kron(np.linalg.inv(np.eye(5) / 4.0 + same / 0.5), np.eye(2))
    rows = np.stack([one.ravel() for one in cells])
    gain = covariance @ rows.T @ np.linalg.inv(rows @ covariance @ rows.T)
    best = generator.normal(3, 2, (5, 2))
    wanted = best.ravel() + gain @ (np.array([10.0, 10.0]) - rows @ best.ravel())
    assert found.moved(best).ravel() == pytest.approx(wanted)
    amounts = generator.normal(0, 1, (5, 2))
    less = (gain @ rows @ covariance) @ amounts.ravel()
    assert found.less(amounts).ravel() == pytest.approx(less)


def test_limits_lie_within_what_totals_leave(tmp_path: Path) -> None:
    """Of 4,000 rows 2,100 are in r0: the other regions share 1,900, whatever noise says, and all
    rows are known."""
    text = SCHEMA.format(target='target = "work"', neighbours="add-remove-one")
    text = text.replace('"r3"]', '"r3"]\nmissing = true')
    text += '[[totals]]\nrows = 4000\nsource = "census"\n'
    text += '[[totals]]\nrows = 2100\nsource = "census"\nwhere = "region = \'r0\'"\n'
    text += '[[totals]]\nrows = 150\nsource = "census"\nwhere = "work = \'yes\'"\n'
    frame = pl.DataFrame(people()).with_columns(
        region=pl.Series(["r0"] * 2100 + ["r1"] * 1890 + [None] * 10),
        work=pl.Series(["yes"] * 150 + ["no"] * 3850),
    )
    release = publish(tmp_path, frame, Schema.from_toml(text), 3, epsilon="1/50")
    whole = release.estimate("true")
    assert (whole.value, whole.low, whole.high, whole.note) == (4000, 4000, 4000, KNOWN)
    assert release.sql("select count(*) as n from release")["n_note"][0] == KNOWN
    rest = release.estimate("region = 'r1'")
    assert 0 <= rest.low < rest.value <= rest.high <= 1900
    assert release.estimate("region in ('r1', 'r2') and age < 90").high <= 1900
    assert release.estimate("region = 'r1' or work = 'yes'").high <= 1900 + 150
    for where in ("work = 'yes' and region = 'r1'", "work = 'yes' and age >= 3"):
        assert release.estimate(where).high <= 150
    # at least 1,950 of the 2,100 do not work
    assert release.estimate("not work = 'yes' and region = 'r0'").low >= 1950
    for columns in (("region",), ("region", "work"), ("work",)):
        table = release.marginal(*columns)
        assert (table["low"] <= table["count"]).all()
        assert (table["count"] <= table["high"]).all()
    assert release.marginal("region").filter(pl.col("region") != "r0")["high"].max() <= 1900
    crossed = release.marginal("region", "work")
    assert crossed.filter(pl.col("work") == "yes")["high"].max() <= 150
    without = publish(
        tmp_path, frame, Schema.from_toml(text.split("[[totals]]")[0]), 3, epsilon="1/50"
    )
    assert without.estimate("true").note != KNOWN
