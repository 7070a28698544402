"""All transactions of a release of itemsets: what its cells and its noisy total say together, with
honest intervals."""

from __future__ import annotations

import copy
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

import dpublish as dp
from dpublish.models.noisy_counts import laplace_cumulants

SIMULATED = 400
TRANSACTIONS = 1500


def published(folder: Path, items: int, method: Any) -> tuple[Any, NDArray[np.bool_]]:
    names = [f"i{place}" for place in range(items)]
    held = np.random.default_rng(4).random((TRANSACTIONS, items)) < np.linspace(0.5, 0.2, items)
    held[~held.any(axis=1), 0] = True
    schema = dp.Schema.from_toml(
        f'[dataset]\nname = "b"\nneighbours = "add-remove-one"\n[items]\nuniverse = {names}\n'
    )
    frame = pl.DataFrame(
        {"items": [[names[place] for place in np.flatnonzero(row)] for row in held]}
    )
    pay = {
        "ledger": folder / "b.ledger",
        "budget": dp.Budget(epsilon=10),
        "store": folder / "store",
    }
    return dp.Curator(frame, schema, **pay).publish(method, epsilon=1, seed=1), held


def noise(rng: np.random.Generator, scale: str, size: int) -> NDArray[np.int64]:
    chance = -np.expm1(-1 / float(Fraction(scale)))
    return rng.geometric(chance, size) - rng.geometric(chance, size)


@pytest.mark.parametrize("items", [3, 6])
@pytest.mark.parametrize("share", ["0", "1/50", "1/2"])
def test_intervals_of_complete_releases_hold(tmp_path: Path, items: int, share: str) -> None:
    """400 releases: fewer than 362 hits of intervals that hold 95% of the time have probability
    6e-5."""
    release, held = published(tmp_path, items, dp.BasicItemsets(count_share=share))
    facts = release.manifest["facts"]
    sets = [tuple(one) for one in release.to_frame()["items"].to_list()]
    found = [tuple(f"i{place}" for place in np.flatnonzero(row)) for row in held]
    true = np.array([found.count(one) for one in sets])
    questions = {
        "true": held[:, 0] >= 0,
        "i0 or not i1": held[:, 0] | ~held[:, 1],
        "i2": held[:, 2],
        "not i2": ~held[:, 2],
    }
    rng = np.random.default_rng(5)
    errors: dict[str, list[float]] = {question: [] for question in questions}
    hits = dict.fromkeys(questions, 0)
    for _ in range(SIMULATED):
        manifest = {**release.manifest, "facts": copy.deepcopy(facts)}
        if facts["total"]["kind"] == "noisy":
            manifest["facts"]["total"]["value"] = TRANSACTIONS + int(
                noise(rng, facts["total"]["scale"], 1)[0]
            )
        counts = pl.Series("count", true + noise(rng, facts["laws"][0]["scale"], true.size))
        again = type(release)(
            manifest,
            {**release.tables, "itemsets": release.tables["itemsets"].with_columns(counts)},
        )
        for question, met in questions.items():
            answer = again.estimate(question)
            hits[question] += answer.low <= met.sum() <= answer.high
            errors[question].append(answer.value - met.sum())
    for question in questions:
        stated = release.estimate(question).standard_error
        assert hits[question] >= 362, question
        assert np.sqrt(np.mean(np.square(errors[question]))) == pytest.approx(stated, rel=0.2), (
            question
        )
    alone = [true.size * laplace_cumulants(Fraction(facts["laws"][0]["scale"]))[0]]
    alone += (
        [laplace_cumulants(Fraction(facts["total"]["scale"]))[0]]
        if facts["total"]["kind"] == "noisy"
        else []
    )
    # no worse than either measurement
    assert release.estimate("true").standard_error <= np.sqrt(min(alone)) * (1 + 1e-9)


def test_all_transactions_without_a_noisy_total(tmp_path: Path) -> None:
    """The published cells say how many there are at least; it was said that there are none."""
    release, _ = published(tmp_path, 6, dp.SetPartition(count_share=0))
    answer = release.estimate("true")
    assert 0.5 * TRANSACTIONS < answer.low <= TRANSACTIONS <= answer.high
    assert answer.value == pytest.approx(TRANSACTIONS, rel=0.2)


def test_a_noisy_total_says_it_best_where_cells_are_left_out(tmp_path: Path) -> None:
    release, _ = published(tmp_path, 6, dp.SetPartition())
    assert release.estimate("true").value == release.total.value
