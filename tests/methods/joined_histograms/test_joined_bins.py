"""Bins that are found from the rows: where rows are, privately, and paid for."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.audit.subject import subject
from dpublish.declare.columns import Column
from dpublish.declare.domain import Axis, fine_edges
from dpublish.errors import PlanError
from dpublish.methods.adaptive_bins import adapted, choose_bins, regrouping, round_cells
from dpublish.methods.joined_histograms import mechanism as module
from dpublish.noise.source import SeededNoise
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.cost import Cost
from dpublish.releases.frames import drawn_values

WIDE = "kind = 'real'\nlower = 0.0\nupper = 1000000.0\n"
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)


def schema(columns: dict[str, str], extra: str = "size = 10000") -> dp.Schema:
    text = f"[dataset]\nname = 'numbers'\n{extra}\n"
    return dp.Schema.from_toml(text + "".join(f"[columns.{n}]\n{c}" for n, c in columns.items()))


def ten_columns(seed: int, rows: int = 10_000) -> pl.DataFrame:
    """Log-normal, Pareto and spiked."""
    rng = np.random.default_rng(seed)
    body = rng.lognormal(9, 1, rows)
    heaped = np.where(rng.random(rows) < 0.15, 40.0, rng.gamma(2, 20_000, rows))
    made = {
        **{
            f"l{i}": rng.lognormal((10.3, 8, 0.5, 11)[i], (0.7, 1.2, 1, 0.4)[i], rows)
            for i in range(4)
        },
        **{
            f"p{i}": (rng.pareto((1.5, 2.5, 1.1)[i], rows) + 1) * (1000, 20, 5000)[i]
            for i in range(3)
        },
        "s0": np.where(rng.random(rows) < 0.4, 0.0, body),
        "s1": np.where(rng.random(rows) < 0.3, 5000.0, body),
        "s2": np.where(rng.random(rows) < 0.2, 100_000.0, heaped),
    }
    return pl.DataFrame({name: np.minimum(values, 1e6) for name, values in made.items()})


def rank_error(true: Any, found: float, share: float) -> float:
    """How far the share is from the ranks that a value has among the true ones."""
    ordered = np.sort(true)
    first, last = (
        np.searchsorted(ordered, found, side) / len(ordered) for side in ("left", "right")
    )
    return float(max(0.0, first - share, share - last))


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("bins")
    frame = ten_columns(3)
    curator = dp.Curator(
        frame,
        schema(dict.fromkeys(frame.columns, WIDE)),
        ledger=folder / "l.db",
        budget=dp.Budget(epsilon=9, delta="1e-6"),
    )
    made = curator.publish(dp.JoinedHistograms(), epsilon=1, delta="1e-9", seed=5)
    made.save(folder / "r.dpr")
    return frame, dp.open_release(folder / "r.dpr")


def test_quantiles_of_raw_numbers_come_back(release: Any) -> None:
    """Of 90 quantiles one may be off by more than 0.02. Seeded: no false alarm; bins of equal width
    are off by more than 0.02 in two thirds of them."""
    frame, opened = release
    drawn = opened.sample(40_000, seed=1)
    errors = [
        rank_error(frame[name].to_numpy(), drawn[name].quantile(share, "lower"), share)
        for name in frame.columns
        for share in SHARES
    ]
    assert np.mean(errors) < 0.008
    assert np.count_nonzero(np.array(errors) > 0.02) <= 1, errors


def test_heaps_have_a_bin_of_their_own(release: Any) -> None:
    _, opened = release
    for name, label, count in (("s0", "0", 4000), ("s1", "5000", 3000), ("s2", "100000", 2000)):
        shown = opened.marginal(name).filter(pl.col(name) == label)
        assert shown["low"][0] <= count * 1.06
        assert shown["high"][0] >= count * 0.94
        assert shown["count"][0] == pytest.approx(count, rel=0.2)


def test_a_plan_states_what_bins_cost_and_declared_ones_cost_nothing() -> None:
    found = {"a": WIDE, "b": WIDE + "bins = 8\n", "c": "kind = 'integer'\nlower = 1\nupper = 9\n"}
    for cost, whole in ((Cost.pure(1), Fraction(1, 5)), (Cost.zcdp(1), Fraction(3, 20))):
        settings = dp.JoinedHistograms().plan(schema(found), cost).settings
        assert settings.adaptive == ("a",)
        assert settings.bin_share == whole / 3
        shares = (settings.column_share, settings.choice_share, settings.pair_share)
        assert sum(shares) + settings.misfit_share + settings.bin_share == 1
    plan = dp.JoinedHistograms().plan(schema(found), Cost.pure(1))
    assert "The bins of a are found from the rows" in plan.text()
    for none in (dp.JoinedHistograms(bin_share=0), dp.JoinedHistograms(columns=["b", "c"])):
        settings = none.plan(schema(found), Cost.pure(1)).settings
        assert (settings.adaptive, settings.bin_share) == ((), 0)
        assert settings.fine == settings.domain
    with pytest.raises(PlanError, match="leave something"):
        dp.JoinedHistograms(bin_share="1/2").plan(schema(found), Cost.pure(1))


@pytest.mark.parametrize(
    ("rows", "columns", "cost", "asked", "wanted"),
    [
        (10_000, 10, Cost.pure(1), 32, 24),  # noise of 56.6 for each bin
        (10_000, 10, Cost.approximate(1, "1e-9"), 32, 32),
        (10_000, 2, Cost.pure(1), 32, 32),
        (1_000, 10, Cost.pure(1), 32, 8),
        (1_000, 10, Cost.pure(1), 5, 5),
    ],
)
def test_no_more_bins_are_looked_for_than_stand_out_of_the_noise(
    rows: int, columns: int, cost: Cost, asked: int, wanted: int
) -> None:
    declared = schema({f"x{i}": WIDE for i in range(columns)}, f"size = {rows}")
    plan = dp.JoinedHistograms(bins=asked).plan(declared, cost)
    assert plan.settings.bins == wanted
    assert f"about {wanted} each" in plan.text()


def test_the_noise_of_a_bin_adds_up_over_labels() -> None:
    """Twice as much with four of them, so that half as many bins stand out of it."""
    label = "kind = 'categorical'\nlevels = ['a', 'b', 'c', 'd']\noutside = 'drop'\n"
    columns = {**{f"x{i}": WIDE for i in range(10)}, "y": label}
    apart, together = (
        dp.JoinedHistograms(target=target, columns=names)
        .plan(schema(columns, "size = 8000"), Cost.pure(1))
        .settings
        for target, names in (("none", list(columns)[:10]), ("y", list(columns)))
    )
    assert apart.column_share == together.column_share
    assert (apart.bins, together.bins) == (19, 9)


@pytest.mark.parametrize(
    ("kind", "lower", "upper", "alone"),
    [
        ("real", 0.0, 1e6, (0.0, 0.5, 40.0, 100_000.0, 1e6)),
        ("real", -20.0, 45.0, (-7.5, 0.0, 36.6)),
        ("real", 1000.0, 1001.0, (1000.25,)),
        ("integer", 0, 10**6, (0, 17, 999, 5000)),
        ("integer", 0, 99_999, (0, 99_999)),
        ("integer", -5000, 90, (-4000, 0)),
    ],
)
def test_fine_cells_cover_the_bounds_and_hold_round_numbers_alone(
    kind: Any, lower: Any, upper: Any, alone: tuple[float, ...]
) -> None:
    column = Column(name="x", kind=kind, lower=lower, upper=upper)
    axis = Axis(name="x", kind=kind, edges=fine_edges(column, schema_name="s"))
    # the bounds stand alone too: what lies beyond them is often put there
    last = np.nextafter(upper, np.inf) if kind == "real" else upper + 1
    assert (axis.edges[0], axis.edges[-2], axis.edges[-1]) == (lower, upper, last)
    assert all(low < high for low, high in pairwise(axis.edges))
    assert axis.base <= 1 << 15
    for value in alone:
        place = axis.edges.index(value)
        after = np.nextafter(value, np.inf) if kind == "real" else value + 1
        assert axis.edges[place + 1] == after


def test_heaps_stand_alone_with_nothing_beside_them_and_at_the_bounds() -> None:
    """Where all rows are at three values, two of them next to empty cells and one at the upper
    bound, each value has a bin of its own, and nothing else is in it."""
    column = Column(name="x", kind="real", lower=0.0, upper=1e6)
    axis = Axis(name="x", kind="real", edges=fine_edges(column, schema_name="s"))
    heaps = (40.0, 75.0, 1e6)
    counts = np.zeros(axis.base, dtype=np.int64)
    counts[[axis.edges.index(heap) for heap in heaps]] = 3_000
    budget = BudgetSplit("laplace", Fraction(1), schema({"x": WIDE}).relation)
    given = {"share": Fraction(1), "rows": 9_000, "bins": 32, "label": "bins"}
    found = adapted(axis, choose_bins(SeededNoise(1), budget, counts, **given)).edges
    for heap in heaps:
        assert found[found.index(heap) + 1] == np.nextafter(heap, np.inf)
    drawn = drawn_values(
        replace(axis, edges=found),
        np.array([found.index(heap) for heap in heaps]),
        np.random.default_rng(1),
    )
    assert drawn.to_list() == list(heaps)


def test_heaps_that_noise_hides_from_the_search_still_get_a_bin_of_their_own() -> None:
    """800 of 10,000 rows at 1,000, far below all others, are too few to be cut out by noise of
    deviation 283: their bin would run on beyond 1,000 (11 of 12 seeds), and a quantile among them
    would be off by all ranks of the heap."""
    column = Column(name="x", kind="real", lower=0.0, upper=1e6)
    axis = Axis(name="x", kind="real", edges=fine_edges(column, schema_name="s"))
    others = np.random.default_rng(3).lognormal(11, 0.5, 9_200)
    code = np.searchsorted(axis.edges, np.append(others, np.full(800, 1_000.0)), side="right") - 1
    counts = np.bincount(np.minimum(code, axis.base - 1), minlength=axis.base)
    budget = BudgetSplit("laplace", Fraction(3, 100), schema({"x": WIDE}).relation)
    given = {"share": Fraction(1), "rows": 10_000, "bins": 24, "label": "bins"}
    found = [
        adapted(axis, choose_bins(SeededNoise(seed), budget, counts, **given, round_cells=cells))
        for seed in range(12)
        for cells in (None, round_cells(axis))
    ]
    end = np.nextafter(1_000.0, np.inf)
    assert sum(end in one.edges for one in found[::2]) <= 4
    assert sum(end in one.edges for one in found[1::2]) >= 9


def test_the_roundest_number_of_a_cell_is_told_from_its_edges() -> None:
    column = Column(name="x", kind="real", lower=-50.0, upper=1e6)
    axis = Axis(name="x", kind="real", edges=fine_edges(column, schema_name="s"))
    found = dict(zip(axis.edges, round_cells(axis).tolist(), strict=False))
    numbers = (0.0, -50.0, 1.0, 3.0, 10.0, 15.0, 47.0, 125.0, 47.3, 1e6)
    assert [found[number] for number in numbers] == [1, 2, 2, 3, 2, 4, 5, 6, 7, 2]
    assert found[np.nextafter(15.0, np.inf)] == 0
    whole = Axis(name="x", kind="integer", edges=(0, 1, 9, 10, 11, 100))
    assert round_cells(whole).tolist() == [1, 0, 3, 2, 0]
    assert not round_cells(Axis(name="x", kind="date", edges=(0, 1, 2))).any()


def test_values_outside_the_bins_keep_their_codes() -> None:
    axis = Axis(name="x", kind="integer", edges=tuple(range(11)), other=True, missing=True)
    assert regrouping(axis, np.array([0, 4, 10])).tolist() == [0] * 4 + [1] * 6 + [2, 3]


# ---- privacy

TINY = "kind = 'integer'\nlower = 0\nupper = 3\n"
SETTINGS = {"bins": 2, "bin_share": "1/4", "rounds": 0, "misfit_share": 0, "choice_share": "1/4"}


@pytest.mark.parametrize(
    ("neighbours", "extra"), [("add-remove-one", ""), ("replace-one", "size = 2")]
)
def test_replayed_bins_add_up_to_the_claim(neighbours: str, extra: str) -> None:
    facts = f"neighbours = '{neighbours}'\n{extra}"
    for cost, claim in ((Cost.pure(2), {"epsilon": 2}), (Cost.zcdp(1), {"rho": Fraction(8, 5)})):
        tested = subject(
            dp.JoinedHistograms(**SETTINGS), schema({"a": TINY, "b": TINY}, facts), cost
        )
        report = audit.replay(tested, list(tested.pairs(rows=2, cells=5))[:20], runs=1, **claim)
        assert report.passed, report.summary()
        assert report.loss + report.rho_loss > Fraction(2, 5)  # the bound is used, not only kept


def test_bins_from_true_counts_are_caught_by_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_true_counts(noise: Any, budget: Any, counts: Any, **given: Any) -> Any:
        choose_bins(noise, budget, counts, **given)
        return np.array([0, max(1, int(np.argmax(counts))), len(counts)])

    facts = "neighbours = 'add-remove-one'"
    tested = subject(
        dp.JoinedHistograms(**SETTINGS), schema({"a": TINY, "b": TINY}, facts), Cost.pure(2)
    )
    monkeypatch.setattr(module, "choose_bins", by_true_counts)
    report = audit.replay(tested, list(tested.pairs(rows=2, cells=5))[:20], runs=1, epsilon=2)
    assert not report.passed
    assert "epsilon" in report.summary() or "differ" in report.summary(), report.summary()


def test_bins_that_are_not_charged_are_caught_by_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(*given: Any, share: Fraction, **more: Any) -> Any:
        return choose_bins(*given, share=4 * share, **more)

    facts = "neighbours = 'add-remove-one'"
    tested = subject(
        dp.JoinedHistograms(**SETTINGS), schema({"a": TINY, "b": TINY}, facts), Cost.pure(2)
    )
    monkeypatch.setattr(module, "choose_bins", greedy)
    report = audit.replay(tested, list(tested.pairs(rows=2, cells=5))[:20], runs=1, epsilon=2)
    assert not report.passed, report.summary()


def test_a_release_with_found_bins_can_be_asked_and_shown(release: Any, tmp_path: Path) -> None:
    _, opened = release
    found = opened.estimate("l0 >= 20000 and l0 < 60000")
    assert found.low <= found.value <= found.high
    assert opened.sql("select count(*) as n from release where s0 = 0")["n"][0] > 3000
    assert opened.report(tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    ("rows", "cost", "warned"),
    [
        (10_000, Cost.pure(1), True),
        (10_000, Cost.pure(4), False),
        (10_000, Cost.approximate(1, "1e-9"), False),
        (3_000, Cost.approximate(1, "1e-9"), True),
        (40_000, Cost.pure(1), False),
    ],
)
def test_plans_say_where_quantiles_will_be_poor(rows: int, cost: Cost, *, warned: bool) -> None:
    plan = dp.JoinedHistograms().plan(
        schema(dict.fromkeys("abcdefghij", WIDE), f"size = {rows}"), cost
    )
    said = [text for text in plan.warnings if "quantiles of a, b" in text]
    assert bool(said) == warned
    if said:
        assert ("delta" in said[0]) == (cost.kind == "pure")
