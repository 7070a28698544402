"""Frequent itemsets: weights that stay within their bound, audits with planted bugs, shares that
add up, and counts that are those of the naive method."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.declare.relation import Relation
from dpublish.errors import PlanError
from dpublish.methods.frequent_itemsets import mechanism
from dpublish.methods.frequent_itemsets.cells import ItemCells, PairCells, SetCells, packed
from dpublish.methods.frequent_itemsets.mechanism import (
    FrequentItemsets,
    likely_sets,
    noisy_supports,
)
from dpublish.methods.frequent_itemsets.plan import FrequentSettings
from dpublish.models import noisy_counts
from dpublish.models.noisy_counts import norm_bound, ordered_fit, weights
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost, largest_rho
from dpublish.privacy.gaussian import EXTRA_VARIANCE, Steps, is_private
from methods.set_partition.set_laws import baskets


def schema(
    items: int, *, relation: str = "add-remove-one", size: int = 1000, unit: str = ""
) -> dp.Schema:
    names = ", ".join(f'"i{item}"' for item in range(items))
    word = "size" if relation == "replace-one" else "nominal_size"
    return dp.Schema.from_toml(
        f'[dataset]\nname = "t"\nneighbours = "{relation}"\n{word} = {size}\n{unit}\n'
        f"[items]\nuniverse = [{names}]\n"
    )


def settings_of(items: int, cost: Cost, method: FrequentItemsets, **more: Any) -> FrequentSettings:
    return method.plan(schema(items, **more), cost).settings


def drawn(seed: int, rows: int, items: int, mean: float = 4) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, items + 1)
    return [
        rng.choice(items, size=min(items, 1 + rng.poisson(mean)), p=share / share.sum()).tolist()
        for _ in range(rows)
    ]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_no_transaction_moves_the_counts_further_than_its_bound(law: Any) -> None:
    for cap, grid in itertools.product((1, 2, 3, 7, 40), (1, 2, 3, 1000, 1 << 16)):
        table = weights(law, cap, grid, 60).tolist()
        bound = norm_bound(law, cap, grid)
        for touched, weight in enumerate(table):
            if law == "laplace":
                assert touched * weight <= bound == grid * cap
            else:
                assert touched * weight**2 <= grid**2 * cap <= bound**2 < (grid + 1) ** 2 * 2 * cap
        assert table[: cap + 1] == [grid] * (cap + 1)
        assert sorted(table, reverse=True) == table


@pytest.mark.parametrize("cost", [Cost.pure(1), Cost.zcdp("1/10"), Cost.approximate(1, "1e-6")])
@pytest.mark.parametrize("items", [1, 2, 3, 17, 64, 600, 601, 5000])
def test_shares_add_up_to_the_whole_cost(items: int, cost: Cost) -> None:
    for size in (1, 10**4, 10**7):
        settings = settings_of(items, cost, FrequentItemsets(), size=size)
        assert settings.total_share + sum(settings.shares.values()) == 1
        assert all(share > 0 for share in settings.shares.values())


def test_counts_without_noise_are_those_of_the_naive_method() -> None:
    rows = [sorted(set(row)) for row in drawn(1, 400, 90)]
    data = baskets(rows)
    kept = [(item,) for item in (3, 0, 17, 60)]
    table = np.array([5, *(60 // q for q in range(1, 3000))], dtype=np.int64)
    cells = ItemCells(data, kept)
    touched = [sum(item in row for (item,) in kept) for row in rows]
    assert cells.touched().tolist() == touched
    naive = [sum(table[q] for row, q in zip(rows, touched, strict=True) if item in row)
             for (item,) in kept]  # fmt: skip
    assert cells.weighted(cells.touched(), table).tolist() == naive
    bits = list(range(64))
    records = packed(data, bits, 90)
    some = [(0, 1), (2, 5), (0, 1, 2), (63, 1)]
    for family in (PairCells(records, bits), SetCells(records, bits, some)):
        inside = [[set(one) <= set(row) for one in family.sets] for row in rows]
        assert family.touched().tolist() == [sum(row) for row in inside]
        wanted = np.array([table[sum(row)] * np.array(row, dtype=np.int64) for row in inside])
        counts = family.weighted(family.touched(), table)
        assert np.array_equal(counts, wanted.sum(axis=0))


def test_larger_sets_are_those_whose_pairs_were_all_counted() -> None:
    rows = [[0, 1, 2]] * 60 + [[0, 1, 2, 3]] * 30 + [[4, 5]] * 50 + [[5, 6]] * 40
    settings = settings_of(8, Cost.pure(10**6), FrequentItemsets(pairs=8))
    rounds = noisy_supports(SeededNoise(1), baskets(rows), settings)
    found = {members for one in rounds for members in map(tuple, map(sorted, one.sets))}
    assert {(0, 1, 2), (0, 1, 2, 3), (4, 5)} <= found
    assert not any({4, 6} <= set(members) and len(members) > 2 for members in found)
    items, pairs = rounds[0], rounds[-2]
    assert likely_sets(items, pairs, 8, 5)[0] == (0, 1, 2)


CLAIM = Fraction(2)
ROWS = [[0, 1, 2, 3], [0, 1], [0, 4], [5, 6, 7], [8], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]
PAIRS = [(ROWS, ROWS[:-1]), (ROWS, [*ROWS, [2, 5, 7, 9]]), ([], [list(range(10))])]
SMALL = settings_of(10, Cost.pure(CLAIM), FrequentItemsets(keep=3, pairs=2), size=10)
SWAPPED = settings_of(
    10, Cost.pure(CLAIM), FrequentItemsets(keep=3, pairs=2), size=10, relation="replace-one"
)


def run(noise: Any, rows: Any, settings: FrequentSettings = SMALL) -> Any:
    rounds = noisy_supports(noise, baskets(rows), settings)
    return [(list(one.sets), one.counts.tolist(), one.cap, one.touched.counts) for one in rounds]


def audited(settings: FrequentSettings = SMALL, pairs: Any = PAIRS) -> audit.Report:
    return audit.replay(lambda n, r: run(n, r, settings), pairs, epsilon=CLAIM, runs=6)


def test_the_mechanism_survives_a_replay() -> None:
    assert audited().passed
    replaced = [(ROWS, [*ROWS[:-1], [9]]), (ROWS, [*ROWS[1:], list(range(9))])]
    assert audited(SWAPPED, replaced).passed


def test_units_of_several_transactions_are_allowed_for() -> None:
    unit = 'unit = "who"\nmax_rows_per_unit = 2'
    settings = settings_of(
        10, Cost.pure(CLAIM), FrequentItemsets(keep=3, pairs=2), size=10, unit=unit
    )
    pairs = [(ROWS, ROWS[:-2]), (ROWS, [*ROWS, list(range(10)), list(range(10))])]
    assert audited(settings, pairs).passed
    assert not audited(SMALL, pairs).passed  # planted: the unit's rows are not counted


def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def heavy(law: Any, cap: int, grid: int, cells: int) -> Any:
        return np.full(cells + 1, grid, dtype=np.int64)

    def rounded_up(law: Any, cap: int, grid: int, cells: int) -> Any:
        table = weights(law, cap, grid, cells)
        table[cap + 1 :] += 1
        return table

    def true_best(self: Any, most: int) -> Any:
        return sorted(self.sets, key=lambda one: -truth.get(one, 0))[:most]

    truth: dict[Any, int] = {}
    replaced = [(ROWS, [*ROWS[:-1], [9]])]
    for planted in (heavy, rounded_up):  # weights above the cap: the counts move too far
        with monkeypatch.context() as patch:
            patch.setattr(mechanism, "weights", planted)
            assert not audited().passed, planted
    with monkeypatch.context() as patch:  # half the noise under replace-one
        patch.setattr(Relation, "l1", property(lambda self: Fraction(self.max_rows)))
        half = settings_of(
            10, Cost.pure(CLAIM), FrequentItemsets(keep=3), size=10, relation="replace-one"
        )
        assert not audited(half, replaced).passed
    with monkeypatch.context() as patch:  # the cap is chosen by the exact histogram
        patch.setattr(
            mechanism, "best_cap", lambda touched, *_, **__: int(sum(truth.values())) % 3 + 1
        )

        def peeking(noise: Any, rows: Any) -> Any:
            truth.clear()
            truth.update({(n,): len(row) for n, row in enumerate(rows)})
            return run(noise, rows)

        assert not audit.replay(peeking, PAIRS, epsilon=CLAIM, runs=3).passed
    with monkeypatch.context() as patch:  # the items that are kept are the truly frequent ones
        patch.setattr(mechanism.Round, "best", true_best)

        def knowing(noise: Any, rows: Any) -> Any:
            truth.clear()
            for item in range(10):
                truth[(item,)] = sum(item in row for row in rows)
            return run(noise, rows)

        other = [(ROWS, [*ROWS, [9], [8]]), (ROWS, [*ROWS, [7, 8, 9]])]
        assert not audit.replay(knowing, other, epsilon=CLAIM, runs=3).passed
    with monkeypatch.context() as patch:  # the histogram of touched cells is free of charge
        cheap = replace(SMALL, budget=SMALL.budget.holding(SMALL.budget.amount * Fraction(6, 5)))
        assert not audited(cheap).passed


def test_settings_out_of_range_are_refused_by_name() -> None:
    for settings, words in (
        ({"keep": 0}, "keep must be at least 1"),
        ({"pairs": 5000}, "pairs must lie between 0 and 2,016"),
        ({"max_size": 1}, "max_size must lie between 2 and 8"),
        ({"weight_grid": 0}, "weight_grid must lie between 1 and 65,536"),
    ):
        with pytest.raises(PlanError, match=words):
            FrequentItemsets(**settings)
    with pytest.raises(PlanError, match="too small"):
        FrequentItemsets().plan(schema(5000), Cost.zcdp("1e-9"))


def test_the_plan_says_what_to_expect() -> None:
    plan = FrequentItemsets(typical_items=10).plan(schema(16_000, size=88_000), Cost.pure(1))
    text = plan.text()
    assert "If transactions hold about 10 items" in text
    assert 20 < plan.forecast["item_error"] < 200
    assert plan.forecast["smallest_support"] > plan.forecast["item_standard_deviation"]
    assert not plan.warnings
    few = FrequentItemsets().plan(schema(16_000, size=100), Cost.pure("1/10"))
    assert "expect little but noise" in few.warnings[0]
    # where all items fit, nothing is lost: the error is that of the noise, below its deviation
    uncut = FrequentItemsets().plan(schema(8, size=20_000), Cost.pure(1)).forecast
    assert uncut["expected_cap"] == 8
    assert uncut["item_error"] < uncut["item_standard_deviation"]


def test_the_plan_says_what_pairs_cost_where_that_is_a_tenth_or_more() -> None:
    many, few = (
        FrequentItemsets().plan(schema(items, size=900_000), Cost.pure(1)) for items in (500, 8)
    )
    assert "pairs = 0 brings that error" in many.text()
    assert "pairs = 0" not in few.text()
    for plan, more in ((many, True), (few, False)):
        told = plan.forecast
        assert (told["item_error"] > 1.1 * told["item_error_without_pairs"]) == more


def test_bins_that_noise_explains_count_where_cells_are_few() -> None:
    """200 of 1,300 transactions hold six of eight items, less than three deviations: with one item
    of each a count would lose a hundred. Up to four cells nothing is cut."""
    counts = (600, 500, 0, 0, 0, 200, 0, 0)
    histogram = noisy_counts.Touched("laplace", tuple(range(1, 9)), counts, Fraction(300))
    assert noisy_counts.best_cap(histogram, 3.0, focus=8, tolerance=4.0) == 6
    wide = noisy_counts.geometric_edges(100)
    rest = (*counts, *(0 for _ in wide[8:]))
    histogram = noisy_counts.Touched("laplace", wide, rest, Fraction(300))
    assert noisy_counts.best_cap(histogram, 3.0, focus=8, tolerance=4.0) == 1
    histogram = noisy_counts.Touched("laplace", (1, 2, 3, 4), (900, 0, 0, -5), Fraction(10))
    assert noisy_counts.best_cap(histogram, 3.0, focus=4, tolerance=4.0) == 4


def test_few_transactions_are_counted_at_once_and_the_plan_warns_of_their_pairs() -> None:
    """On generated baskets a first look at few transactions lost more than it brought
    (benchmarks/defaults/baskets.py, FEW_ROWS)."""
    cost, delta = Cost.pure(1), Cost.approximate(1, Fraction(1, 10**6))
    few, many = (FrequentItemsets().plan(schema(5000, size=n), cost) for n in (4500, 60_000))
    assert few.settings.rank_items is None
    assert many.settings.rank_items is not None
    assert FrequentItemsets(keep=50).plan(schema(5000, size=4500), cost).settings.rank_items
    assert "a delta, such as 1e-9, found more" in few.warnings[0]
    assert not many.warnings
    gaussian = FrequentItemsets().plan(schema(5000, size=9000), delta)
    assert gaussian.settings.rank_items is None
    assert not gaussian.warnings
    assert FrequentItemsets().plan(schema(5000, size=60_000), delta).settings.rank_items


def test_pairs_get_more_of_the_budget_where_transactions_are_few() -> None:
    """With a fifth, cutting baskets and counting all pairs of 60 items found more of them
    (benchmarks/defaults/baskets.py --pairs)."""

    def share(size: int, cost: Cost = Cost.pure(1)) -> Fraction:  # noqa: B008
        settings = FrequentItemsets().plan(schema(400, size=size), cost).settings
        steps = (settings.rank_pairs, settings.count_pairs)
        return sum((step.counts for step in steps if step is not None), Fraction(0))

    assert share(5000) == share(2000) == Fraction(1, 2)
    assert Fraction(1, 4) < share(16_000) < Fraction(1, 3)
    assert share(60_000) == Fraction(1, 5)
    assert share(100_000, Cost.approximate(1, Fraction(1, 10**6))) == Fraction(1, 5)
    assert share(1, Cost.pure(Fraction(1, 1000))) == Fraction(1, 2)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_pairs_and_larger_sets_leave_a_share_for_items(law: str) -> None:
    """The largest share that the proof names: where pairs are ranked and few rows declared."""
    cost = Cost.pure(1) if law == "laplace" else Cost.zcdp("1/2000")
    found = []
    for items, size in itertools.product((2, 3, 12, 20, 40, 600, 5000), (1, 100, 10**4, 10**7)):
        shares = settings_of(items, cost, FrequentItemsets(), size=size).shares
        found.append(
            sum(share for name, share in shares.items() if "pairs" in name or "larger" in name)
        )
    assert max(found) == Fraction(313, 500)


def test_consistent_values_are_the_nearest_in_order() -> None:
    values, spread = np.array([10.0, 12.0, 3.0]), np.array([1.0, 1.0, 4.0])
    fitted = ordered_fit(values, spread, [(1, 0), (2, 1)])
    assert np.allclose(fitted, [11.0, 11.0, 3.0], atol=1e-2)
    rng = np.random.default_rng(5)
    values, spread = rng.normal(0, 5, 12), rng.uniform(1, 9, 12)
    below = [(a, b) for a, b in itertools.combinations(range(12), 2) if rng.random() < 0.3]
    fitted = ordered_fit(values, spread, below)
    assert (fitted >= 0).all()
    assert all(fitted[a] <= fitted[b] for a, b in below)
    from scipy.optimize import minimize

    best = minimize(
        lambda x: float((((x - values) ** 2) / spread).sum()),
        np.zeros(12),
        constraints=[{"type": "ineq", "fun": lambda x, a=a, b=b: x[b] - x[a]} for a, b in below],
        bounds=[(0, None)] * 12,
    )
    assert float((((fitted - values) ** 2) / spread).sum()) <= best.fun + 0.05


def test_a_histogram_says_how_much_was_taken() -> None:
    touched = noisy_counts.Touched("laplace", (1, 2, 4, 8), (500, 300, 200, 100), Fraction(1))
    assert touched.lost(8) == 0
    assert touched.factor(8) == 1
    assert touched.lost(2) > touched.lost(4) > 0
    assert 1 < touched.factor(4) < touched.factor(2) <= 1.5
    assert noisy_counts.allowance(touched, 4, 0.01) >= 50


def test_an_epsilon_with_a_delta_is_accounted_for_as_one_gaussian() -> None:
    cost, method = Cost.approximate(1, "1e-9"), FrequentItemsets()
    budget = settings_of(200, cost, method).budget
    steps = Steps(Fraction(0), Fraction(0), method._touched(schema(200)))
    assert budget.extra_variance == EXTRA_VARIANCE
    assert is_private(steps, budget.amount, cost.epsilon, cost.delta)
    assert budget.amount > Fraction(11, 10) * largest_rho(1, "1e-9")
    for other in (Cost.zcdp("1/4"), Cost.pure(1)):  # these are what they were
        assert settings_of(200, other, method).budget.extra_variance == 0
    content = method.run(SeededNoise(3), baskets(drawn(1, 300, 20)), method.plan(schema(20), cost))
    total = budget.scale_for(Fraction(1), settings_of(20, cost, method).total_share)
    assert Fraction(content.facts["total"]["scale"]) == pytest.approx(float(total), rel=1e-6)
