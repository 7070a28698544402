"""Intervals of weighted rows hold the truth as often as they say, with tables of pairs as well, and
with many features."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.releases.weighted_rows.means import MAX_DENSE
from dpublish.releases.weighted_rows.release import WeightedRowsRelease

PATIENTS = 8000


def people(rows: int, seed: int, tilt: float, sizes: tuple[int, ...]) -> pl.DataFrame:
    """Columns that go together; `tilt` makes low values of the first two likelier, as with
    volunteers."""
    rng = np.random.default_rng(seed)
    chain = rng.normal(0, 1, (4 * rows, 1)) + rng.normal(0, 1, (4 * rows, len(sizes)))
    codes = [
        np.clip(((z / 3 + 0.5) * size).astype(int), 0, size - 1)
        for z, size in zip(chain.T, sizes, strict=True)
    ]
    odds = np.exp(-tilt * (codes[0] / sizes[0] + codes[1] / sizes[1]))
    chosen = rng.choice(4 * rows, rows, replace=False, p=odds / odds.sum())
    return pl.DataFrame(
        {f"c{place}": [f"v{code}" for code in column[chosen]] for place, column in enumerate(codes)}
    )


def publish(
    folder: Path, sizes: tuple[int, ...], seed: int, patients: pl.DataFrame, public: pl.DataFrame
) -> WeightedRowsRelease:
    lines = [f'[dataset]\nname = "t"\nsize = {PATIENTS}\n']
    for place, size in enumerate(sizes):
        lines.append(
            f'[columns.c{place}]\nkind = "categorical"\nlevels = '
            f'{[f"v{code}" for code in range(size)]}\noutside = "other"\n'
        )
    curator = dp.Curator(
        patients,
        dp.Schema.from_toml("".join(lines)),
        ledger=folder / f"{seed}.ledger",
        budget=dp.Budget(epsilon=9),
    )
    method = dp.ImportanceWeights(
        public=public, pairs=[f"*c{place}" for place in range(len(sizes))], choose_pairs=0
    )
    release = curator.publish(method, epsilon=2, seed=seed)
    assert isinstance(release, WeightedRowsRelease)
    return release


@pytest.mark.nightly
def test_coverage_with_all_pairs(tmp_path: Path) -> None:
    """20 runs, 26 levels and 10 cells of pairs each, about the private rows as they are: noise and
    shrinkage alone must cover.

    Two standard errors hold the truth in more than 90% of the questions; 85% would be found.
    """
    sizes = (2, 3, 5, 8, 4, 4)
    held = []
    for seed in range(20):
        patients, public = (
            people(PATIENTS, 1000 + seed, 0.0, sizes),
            people(3000, 2000 + seed, 2.0, sizes),
        )
        release = publish(tmp_path, sizes, seed, patients, public)
        levels = [
            f"c{place} = 'v{code}'" for place, size in enumerate(sizes) for code in range(size)
        ]
        cells = [f"c{a} = 'v1' and c{b} = 'v1'" for a, b in itertools.combinations(range(5), 2)]
        for question in (*levels, *cells):
            found = release.estimate(question)
            truth = patients.sql(
                f"select avg(case when {question} then 1.0 else 0.0 end) as x from self"
            )["x"][0]
            held.append(abs(found.value - truth) <= 1.96 * found.noise_error)
    assert np.mean(held) > 0.9, np.mean(held)


def test_many_features_have_error_bars_too(tmp_path: Path) -> None:
    sizes = (12, 10, 12, 9, 8)
    patients, public = people(PATIENTS, 1, 0.0, sizes), people(1500, 2, 2.0, sizes)
    release = publish(tmp_path, sizes, 1, patients, public)
    assert release.features.dimension > MAX_DENSE
    before = (public["c0"] == "v2").mean()
    truth = (patients["c0"] == "v2").mean()
    assert isinstance(before, float)
    assert isinstance(truth, float)
    found = release.estimate("c0 = 'v2'")
    assert abs(found.value - truth) < 4 * found.standard_error
    assert 0.0 < found.standard_error < 0.05
    assert found.explained > 0.99
