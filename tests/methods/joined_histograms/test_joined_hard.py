"""Tables that are hard to publish: very wide columns, constant and empty ones, hardly any rows,
bounds far too wide.

All with two rounds after the first forest.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp

AMOUNTS: tuple[dict[str, Any], ...] = ({"epsilon": 1}, {"rho": "1/50"})


def publish(
    tmp_path: Path,
    frame: pl.DataFrame,
    columns: str,
    *,
    neighbours: str = "add-remove-one",
    **amounts: Any,
) -> Any:
    schema = dp.Schema.from_toml(
        f'[dataset]\nname = "hard"\nneighbours = "{neighbours}"\n{columns}'
    )
    tmp_path.mkdir(exist_ok=True)
    curator = dp.Curator(
        frame, schema, ledger=tmp_path / "l.ledger", budget=dp.Budget(epsilon=50, delta="1e-3")
    )
    return curator.publish(dp.JoinedHistograms(rounds=2), seed=1, **amounts)


@pytest.mark.parametrize("amounts", AMOUNTS, ids=["laplace", "gaussian"])
def test_a_column_of_5000_levels(tmp_path: Path, amounts: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    code = np.minimum(rng.geometric(0.05, 20_000), 5000) - 1
    frame = pl.DataFrame({"code": [f"k{i}" for i in code], "odd": code % 2 == 1})
    levels = ", ".join(f'"k{i}"' for i in range(5000))
    text = (
        f'[columns.code]\nkind = "categorical"\nlevels = [{levels}]\n[columns.odd]\nkind = '
        f'"boolean"\noutside = "drop"\n'
    )
    release = publish(tmp_path, frame, text, **amounts)
    assert release.pairs == [("code", "odd")]
    for level in (0, 1, 5):
        found = release.estimate(f"code = 'k{level}' and odd")
        truth = int((code == level).sum()) * (level % 2)
        assert found.low <= truth <= found.high
        assert abs(found.value - truth) < 150
    assert release.sample(100).height == 100
    # rows of rare levels are spread over what the noise lets through, not lost
    assert abs(release.rows - 20_000) < 600


def test_constant_and_empty_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "same": ["x"] * 3000,
            "gone": pl.Series([None] * 3000, dtype=pl.String),
            "no number": pl.Series([None] * 3000, dtype=pl.Float64),
            "half": rng.random(3000) < 0.5,
        }
    )
    text = """
[columns.same]
kind = "categorical"
levels = ["x"]
[columns.gone]
kind = "categorical"
levels = ["a", "b"]
missing = true
[columns."no number"]
kind = "real"
lower = 0
upper = 1
missing = true
[columns.half]
kind = "boolean"
"""
    release = publish(tmp_path, frame, text, epsilon=2)
    assert release.estimate("same = 'x'").value == pytest.approx(3000, abs=200)
    assert release.estimate("gone is null").value == pytest.approx(3000, abs=200)
    drawn = release.sample(1000, seed=1)
    assert drawn["gone"].null_count() > 900
    assert drawn["no number"].null_count() > 850


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2])
def test_one_row(tmp_path: Path, rows: int, neighbours: str) -> None:
    frame = pl.DataFrame({"a": ["x"] * rows, "n": [3] * rows})
    text = '[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\n'
    text += '[columns.n]\nkind = "integer"\nlower = 0\nupper = 9\nmissing = true\n'
    release = publish(tmp_path, frame, text, neighbours=neighbours, epsilon=1)
    found = release.estimate("a = 'x'", level=0.999)
    assert found.low <= rows <= found.high
    assert release.sample(7).height == 7
    assert release.verify().ok


def test_a_single_column(tmp_path: Path) -> None:
    frame = pl.DataFrame({"a": ["x"] * 500 + ["y"] * 300})
    release = publish(
        tmp_path, frame, '[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\n', epsilon=1
    )
    assert release.pairs == []
    assert release.estimate("a = 'x'").value == pytest.approx(500, abs=30)


def test_bounds_a_thousand_times_too_wide(tmp_path: Path) -> None:
    """All rows lie in one bin of sixteen: nothing can be said within it, and nothing breaks."""
    rng = np.random.default_rng(3)
    value = rng.normal(0, 1, 5000)
    frame = pl.DataFrame({"v": value, "up": value > 0})
    text = (
        '[columns.v]\nkind = "real"\nlower = -3000\nupper = 5000\n[columns.up]\nkind = '
        '"boolean"\noutside = "drop"\n'
    )
    release = publish(tmp_path, frame, text, epsilon=1)
    assert release.estimate("v > -500 and v < 500").high >= 5000 - 300
    found = release.estimate("v > 0")  # a bin is cut: the interval says that it cannot tell
    assert found.low <= (value > 0).sum() <= found.high
    # a column that declares bins as fine as it may need them keeps what the rows say
    fine = publish(
        tmp_path / "fine",
        frame,
        text.replace("upper = 5000", "upper = 5000\nbins = 8000"),
        epsilon=1,
    )
    assert fine.estimate("v >= 0 and v < 1").value == pytest.approx(
        ((value >= 0) & (value < 1)).sum(), abs=250
    )


def test_many_kinds_of_columns_without_a_public_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    day = rng.integers(0, 365, 4000)
    frame = pl.DataFrame(
        {
            "day": [dt.date(2021, 1, 1) + dt.timedelta(days=int(d)) for d in day],
            "grade": rng.choice(["low", "mid", "high"], 4000),
            "ok": day > 180,
            "n": rng.integers(-5, 6, 4000),
            "x": np.where(rng.random(4000) < 0.2, np.nan, day / 365),
        }
    )
    text = """
[columns.day]
kind = "date"
lower = 2021-01-01
upper = 2021-12-31
bins = 24
[columns.grade]
kind = "ordinal"
levels = ["low", "mid", "high"]
[columns.ok]
kind = "boolean"
[columns.n]
kind = "integer"
lower = -5
upper = 5
[columns.x]
kind = "real"
lower = 0
upper = 1
missing = true
"""
    release = publish(tmp_path, frame, text, epsilon=2)
    joined = {frozenset(pair) for pair in release.pairs}
    assert joined & {frozenset(("day", "x")), frozenset(("day", "ok"))}
    assert release.estimate("day >= '2021-07-01' and ok").value == pytest.approx(
        (day > 180).sum(), abs=300
    )
    assert release.estimate("grade <= 'mid'").low > 0
