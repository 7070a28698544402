"""Three columns of a declared marginal, counted together: what pairs cannot show, with
intervals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpublish.models.junction_tree import model as junction_model
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.joined_histograms.release import JoinedRelease
from models.junction_tree.joined_cases import planned, released

NAMES = ("first", "second", "third", "shift", "ward")
SCHEMA = '[dataset]\nname = "locks"\nneighbours = "add-remove-one"\n' + "".join(
    f'[columns.{name}]\nkind = "categorical"\nlevels = {levels}\noutside = "drop"\n'
    for name, levels in zip(NAMES, ('["0", "1"]',) * 3 + ('["a", "b", "c", "d"]',) * 2, strict=True)
)


def locks(rows: int) -> list[Any]:
    """The third column is the parity of the first two, but for one row in ten: no pair of the three
    shows anything."""
    rng = np.random.default_rng(11)
    first, second, shift = (
        rng.integers(0, 2, rows),
        rng.integers(0, 2, rows),
        rng.integers(0, 4, rows),
    )
    third = (first ^ second) ^ (rng.random(rows) < 0.1)
    return [first, second, third.astype(np.int64), shift, (shift + rng.integers(0, 2, rows)) % 4]


def publish(
    seed: int,
    rows: list[Any],
    cost: Cost = Cost.pure(1),  # noqa: B008 (frozen)
    **settings: Any,
) -> JoinedRelease:
    method, plan = planned(cost, text=SCHEMA, workload=["first*second*third"], rounds=1, **settings)
    return released(method.run(SeededNoise(seed), rows, plan), plan)


def test_what_no_pair_shows_is_found_when_it_is_asked_for() -> None:
    rows = locks(20_000)
    truth = int((rows[0] & rows[1] & rows[2]).sum())  # about 500; the pairs alone say 2,500
    release = publish(1, rows)
    assert ("first", "second", "third") in release.joined
    found = release.estimate("first = '1' and second = '1' and third = '1'")
    assert found.low <= truth <= found.high
    assert found.high - found.low < 400
    cells = release.marginal("first", "second", "third")
    assert cells.height == 8
    low, high = cells["low"].to_numpy()[-1], cells["high"].to_numpy()[-1]
    assert low <= truth <= high
    assert high - low < 500
    drawn = release.sample(20_000, seed=1)
    assert (
        abs(
            drawn.filter(
                (drawn["first"] == "1") & (drawn["second"] == "1") & (drawn["third"] == "1")
            ).height
            - truth
        )
        < 300
    )


def test_a_triple_is_drawn_and_listed(tmp_path: Path) -> None:
    release = publish(1, locks(20_000))
    assert "first - second - third" in release.summary()["joined"]
    assert "first, second, third" in release.report(tmp_path / "page.html").read_text()
    release.plot().savefig(tmp_path / "structure.png")
    assert (tmp_path / "structure.png").stat().st_size > 5_000
    release.save(tmp_path / "locks.dpr")


@pytest.mark.parametrize("cost", [Cost.pure(1), Cost.zcdp("1/20")], ids=["laplace", "gaussian"])
def test_intervals_of_triples_hold_the_truth(cost: Cost) -> None:
    """100 simulated releases of 4,000 rows, one question, nominal 95%.

    A true coverage of 95% gives fewer than 88 of 100 with probability 0.15%; a coverage of 75%
    passes with 0.1%.
    """
    rows = locks(4_000)
    truth = int((rows[0] & rows[1] & rows[2]).sum())
    held = counted = 0
    for seed in range(100):
        release = publish(seed, rows, cost)
        counted += ("first", "second", "third") in release.joined
        found = release.estimate("first = '1' and second = '1' and third = '1'")
        held += found.low <= truth <= found.high
    assert held >= 88
    assert counted >= 95


def test_columns_too_far_apart_for_an_exact_table_are_taken_as_independent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is expected of a three is only what its counts are shrunk towards: a model too wide for
    it still opens."""
    rows = locks(20_000)
    truth = int((rows[0] & rows[1] & rows[2]).sum())
    monkeypatch.setattr(junction_model, "MAX_JOINT", 4)
    release = publish(1, rows)
    assert ("first", "second", "third") in release.joined
    found = release.model.tables[[len(table.columns) for table in release.model.tables].index(3)]
    assert abs(found.table[1, 1, 1].sum() - truth) < 300
