"""Both ends of a range belong to it, also in a real column whose rows heap on round values; levels
at their own ends."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp

ROWS, VALUES = 20_000, [0.0, 10.0, 20.0, 32.0, 40.0, 64.0, 100.0, 128.0]
ENDS = [(10, 20), (20, 32), (0, 64), (32, 32), (64, 128), (0, 0), (128, 128), (33, 39)]
WIDE = 0.9999
"""The level that is asked for, so that no seed of these few releases misses by its noise."""


def heaped(columns: int) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    return pl.DataFrame({name: rng.choice(VALUES, ROWS) for name in ("x", "y")[:columns]})


def publish(folder: Path, frame: pl.DataFrame, resolution: str, method: Any) -> Any:
    columns = "".join(
        f'[columns.{n}]\nkind = "real"\nlower = 0\nupper = 128\n{resolution}\n'
        for n in frame.columns
    )
    schema = dp.Schema.from_toml(f'[dataset]\nname = "heaps"\nsize = {ROWS}\n{columns}')
    curator = dp.Curator(frame, schema, ledger=folder / "l.db", budget=dp.Budget(epsilon=100))
    return curator.publish(method, epsilon=1, seed=1)


@pytest.mark.parametrize("resolution", ["precision = 1", "precision = 0.1", "bins = 128", ""])
@pytest.mark.parametrize("tree", ["privtree", "dyadic"])
def test_ends_of_one_column(tmp_path: Path, tree: Any, resolution: str) -> None:
    frame = heaped(1)
    x = frame["x"].to_numpy()
    release = publish(tmp_path, frame, resolution, dp.IntervalTree(tree=tree))
    many = release.ranges(*np.transpose(ENDS), level=WIDE)
    for (low, high), row in zip(ENDS, many.iter_rows(named=True), strict=True):
        found, asked = (
            release.count(low, high, level=WIDE),
            release.estimate(f"x between {low} and {high}", level=WIDE),
        )
        assert found.low <= ((x >= low) & (x <= high)).sum() <= found.high, (low, high)
        assert (found.low, found.high) == pytest.approx((asked.low, asked.high), abs=1)
        assert (found.low, found.high) == (row["low"], row["high"])
    curve = release.cdf_limits(VALUES, level=WIDE)
    for value, _, low, high in curve.iter_rows():
        assert low <= (x <= value).mean() <= high, value


@pytest.mark.parametrize("tree", ["privtree", "dyadic"])
def test_ends_of_boxes(tmp_path: Path, tree: Any) -> None:
    frame = heaped(2)
    x, y = (frame[name].to_numpy() for name in "xy")
    release = publish(tmp_path, frame, "precision = 1", dp.IntervalTree(tree=tree))
    for low, high in ENDS:
        found = release.count(x=(low, high), y=(None, 64), level=WIDE)
        asked = release.estimate(f"x between {low} and {high} and y <= 64", level=WIDE)
        assert found.low <= ((x >= low) & (x <= high) & (y <= 64)).sum() <= found.high, (low, high)
        assert (found.low, found.high) == pytest.approx((asked.low, asked.high), abs=1)


def test_bars_stay_apart(tmp_path: Path) -> None:
    """Bars of a picture are half open: nothing is in two of them, and their limits are those of
    their own rows."""
    release = publish(tmp_path, heaped(1), "precision = 1", dp.IntervalTree(tree="dyadic"))
    bars = release.answer(np.arange(128.0)[:, None], np.arange(1.0, 129.0)[:, None], 0.95)
    assert bars.high[33:40].max() < 200


def test_every_level_that_is_taken_elsewhere(tmp_path: Path) -> None:
    """Shares and quantiles split what may go wrong between count and total: no level is refused or
    let through by that."""
    release = publish(tmp_path, heaped(1), "precision = 1", dp.IntervalTree())
    asks: list[Any] = [
        release.quantile_limits,
        lambda share, level: release.cdf_limits([share], level=level),
    ]
    asks += [
        lambda _, level: release.count(0, 20, level=level),
        lambda _, level: release.ranges([0], [20], level=level),
    ]
    asks += [
        lambda _, level: release.estimate("x < 5", level=level),
        lambda _, level: release.plot(level=level),
    ]
    for ask in asks:
        for level in (0.5, 0.9999):
            ask(0.5, level=level)
        for level in (0.4, 0.99995, 1, True, "0.95"):
            with pytest.raises(dp.QueryError, match="level must lie between"):
                ask(0.5, level=level)


@pytest.mark.parametrize("kind", ["real", "integer"])
@pytest.mark.parametrize("tree", ["privtree", "dyadic"])
def test_quantiles_of_heaps(tmp_path: Path, tree: Any, kind: str) -> None:
    """The share of rows below an edge jumps past the quantile's share within one box, so that no
    edge has limits around it."""
    frame = heaped(1)
    column = f'[columns.x]\nkind = "{kind}"\nlower = 0\nupper = 128\n'
    schema = dp.Schema.from_toml(f'[dataset]\nname = "heaps"\nsize = {ROWS}\n{column}')
    curator = dp.Curator(frame, schema, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=100))
    for seed in range(5):
        release = curator.publish(dp.IntervalTree(tree=tree, max_cells=256), epsilon=1, seed=seed)
        for share in (0, 0.05, 0.1, 0.3, 0.45, 0.55, 0.8, 0.95, 1):
            low, high = release.quantile_limits(share, level=0.99)
            truth = np.quantile(frame["x"].to_numpy(), share, method="inverted_cdf")
            assert low <= truth <= high, (seed, share)
            assert low <= release.quantile(share) <= high, (seed, share)


def test_ranges_that_hold_nothing_are_refused_in_every_way_of_asking(tmp_path: Path) -> None:
    schema = dp.Schema.from_toml(
        '[dataset]\nname = "w"\nsize = 500\n[columns.x]\nkind = "integer"\nlower = 0\nupper = 255\n'
    )
    frame = pl.DataFrame({"x": np.arange(500) % 256})
    curator = dp.Curator(frame, schema, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=100))
    release: Any = curator.publish(dp.IntervalTree(), epsilon=1, seed=1)
    for low, high in ((256, 300), (255.5, 300), (-9, -1), (-0.9, -0.1), (2.3, 2.7)):
        for ask in (lambda: release.count(low, high), lambda: release.ranges([low], [high])):  # noqa: B023
            with pytest.raises(dp.QueryError):
                ask()
    assert release.ranges([255, 0], [300, 0.5]).height == 2
    wrong: list[Any] = [
        lambda: release.ranges("a", "b"),
        lambda: release.ranges([dt.date(2020, 1, 1)], [3]),
    ]
    wrong += [
        lambda: release.ranges([1, 2], [3]),
        lambda: release.cdf_limits([np.nan]),
        lambda: release.cdf(np.nan),
    ]
    for call in wrong:
        with pytest.raises(dp.QueryError):
            call()
