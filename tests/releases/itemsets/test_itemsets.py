"""Set-valued releases as an analyst uses them: supports, questions, mining, samples, pictures, and
damaged files."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import BundleError, QueryError
from dpublish.releases.base import make_release
from dpublish.releases.itemsets.intervals import clipped_weights
from dpublish.releases.itemsets.mining import (
    WeightedSets,
    association_rules,
    relative_errors,
    support_of,
    top_itemsets,
    top_similarity,
)

NAMES = [f"item {number}" for number in range(12)]


def records(size: int, seed: int) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    chances = np.array([0.5, 0.4, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.05, 0.02, 0.02, 0.01])
    return [[NAMES[i] for i in np.flatnonzero(rng.random(12) < chances)] for _ in range(size)]


def publish(
    folder: Path, rows: list[list[str]], method: Any, *, epsilon: Any = 1, seed: int = 1
) -> Any:
    listed = ", ".join(f'"{name}"' for name in NAMES)
    facts = dp.Schema.from_toml(f'[dataset]\nname = "shop"\n[items]\nuniverse = [{listed}]\n')
    frame = pl.DataFrame({"items": rows}, schema={"items": pl.List(pl.String)})
    curator = dp.Curator(frame, facts, ledger=folder / "l.db", budget=dp.Budget(epsilon=5000))
    return curator.publish(method, epsilon=epsilon, seed=seed)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return publish(tmp_path_factory.mktemp("r"), records(20_000, 5), dp.SetPartition(fanout=4))


def truth_of(rows: list[list[str]], question: Any) -> int:
    return sum(bool(row) and question(set(row)) for row in rows)


QUESTIONS = [
    ('"item 0"', lambda r: "item 0" in r),
    ("\"item 0\" and 'item 1'", lambda r: {"item 0", "item 1"} <= r),
    (
        '"item 2" and not ("item 0" or "item 5")',
        lambda r: "item 2" in r and not r & {"item 0", "item 5"},
    ),
    ('not "item 0"', lambda r: "item 0" not in r),
    ('"item 3" or "item 9"', lambda r: bool(r & {"item 3", "item 9"})),
    (
        '"item 0" and "item 1" and "item 2" and "item 3"',
        lambda r: {"item 0", "item 1", "item 2", "item 3"} <= r,
    ),
    ("true", lambda r: True),
]


def test_intervals_cover_the_truth(tmp_path: Path) -> None:
    """20 releases x 7 questions at 95%: at least 119 of 140 hits. Questions of one release share
    noise, so releases count: were the coverage 80% or less, this would pass with probability below
    0.1; the seeds are fixed."""
    rows = records(6000, 3)
    hits = 0
    for seed in range(20):
        made = publish(tmp_path, rows, dp.SetPartition(fanout=4), seed=seed)
        for text, question in QUESTIONS:
            got = made.estimate(text)
            assert got.low <= got.value <= got.high
            hits += got.low <= truth_of(rows, question) <= got.high
    assert hits >= 133


def test_basic_intervals_cover_the_truth_too(tmp_path: Path) -> None:
    rows, hits = records(3000, 4), 0
    for seed in range(6):
        made = publish(tmp_path, rows, dp.BasicItemsets(), seed=seed)
        hits += sum(
            made.estimate(text).low <= truth_of(rows, question) <= made.estimate(text).high
            for text, question in QUESTIONS
        )
    assert hits >= 38


def test_without_noise_everything_is_exact(tmp_path: Path) -> None:
    rows = records(3000, 8)
    made = publish(tmp_path, rows, dp.SetPartition(fanout=3), epsilon=4000)
    for text, question in QUESTIONS:
        assert made.estimate(text).value == pytest.approx(truth_of(rows, question), abs=1)
    assert made.item_counts(top=3)["item"].to_list() == NAMES[:3]
    counts = {tuple(sorted(row)): 0 for row in rows if row}
    for row in filter(None, rows):
        counts[tuple(sorted(row))] += 1
    frame = made.to_frame()
    assert {tuple(sorted(items)): weight for items, weight in frame.iter_rows()} == counts


def test_pictures_leave_out_items_of_which_nothing_was_published(tmp_path: Path) -> None:
    made = publish(
        tmp_path, [["item 0", "item 2"], ["item 2"]] * 2000, dp.SetPartition(fanout=3), epsilon=4
    )
    held, others = made.frequent_items(top=10)
    assert held["item"].to_list() == ["item 2", "item 0"]
    assert others == f"Nothing was published about the other {len(NAMES) - 2} items."
    assert made.frequent_items(top=1)[1] == ""
    figure = made.plot(top=10)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["item 2", "item 0"]
    page = made.report(tmp_path / "page.html").read_text()
    assert others in page
    assert "item 1<" not in page


def test_a_release_without_a_total_has_no_upper_bound(tmp_path: Path) -> None:
    made = publish(tmp_path, records(5000, 1), dp.SetPartition(fanout=4, count_share=0))
    assert made.support({"item 0"}).high == float("inf")
    assert made.transactions == made.counts.sum()


@pytest.mark.parametrize(
    "rows", [[], [[NAMES[i]] for i in range(12)] * 20], ids=["no data", "too little data"]
)
def test_a_release_that_shows_nothing_still_answers(tmp_path: Path, rows: list[list[str]]) -> None:
    made = publish(
        tmp_path,
        rows,
        dp.SetPartition(fanout=2, false_itemsets="1/1000", false_partitions="1/1000"),
        epsilon="0.05",
    )
    assert made.counts.size == 0
    assert made.consistent.weights.size == 0
    assert made.top_itemsets(5, level=0.95).height == 0
    assert made.rules().height == 0
    assert made.to_frame().height == 0
    assert made.sample(0).height == 0
    assert made.support({"item 1"}).low == 0
    made.report(tmp_path / "r.html")
    with pytest.raises(QueryError, match="no itemset to draw from"):
        made.sample(3)


def test_support_is_the_question_that_joins_all_items(release: Any) -> None:
    assert release.support({"item 0", "item 2"}) == release.estimate('"item 0" and "item 2"')
    assert release.support("item 1").value > release.support(["item 1", "item 4"]).value
    frame = release.marginal("item 0", "item 7")
    assert frame["item"].to_list() == ["item 0", "item 7"]


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("cheese", "no item 'cheese'"),
        ('"item 0" >= 3', "not part of the language"),
        ('"item 0" and', "does not parse"),
        ("", "empty"),
        ('"item 0" + "item 1"', "not part of the language"),
    ],
)
def test_bad_questions_are_explained(release: Any, question: str, text: str) -> None:
    with pytest.raises(QueryError, match=text):
        release.estimate(question)


def test_bad_requests_are_explained(release: Any) -> None:
    for call in (
        lambda: release.support([]),
        lambda: release.support({"item 0"}, level=2),
        lambda: release.item_counts(top=0),
        lambda: release.top_itemsets(0),
        lambda: release.top_itemsets(5, min_size=3, max_size=2),
        lambda: release.rules(min_confidence=3),
        lambda: release.sample(-1),
        lambda: release.sql("select 1"),
        lambda: release.plot(top=1000),
        lambda: release.marginal(),
    ):
        with pytest.raises(QueryError):
            call()


def test_samples_follow_the_counts(release: Any) -> None:
    drawn = release.sample(20_000, seed=1)
    share = sum("item 0" in row for row in drawn["items"].to_list()) / drawn.height
    published = release.consistent.item_weights()[0] / release.consistent.weights.sum()
    assert share == pytest.approx(published, abs=0.02)  # more than five standard errors
    assert release.sample(0).height == 0
    assert release.sample(50, seed=3).equals(release.sample(50, seed=3))


def test_consistent_weights_add_up(release: Any) -> None:
    """To the total, from no negative parts, and itemsets below one split keep their proportions."""
    weights = release.consistent.weights
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(release.transactions)
    parents = release.tables["itemsets"]["parent"].to_numpy()
    first = parents == parents[0]
    ratios = weights[first] / release.counts[first]
    assert ratios.max() == pytest.approx(ratios.min())


def test_consistency_helps(release: Any) -> None:
    """The same release is closer to the truth of its top itemsets with consistent weights than
    without."""
    rows = records(20_000, 5)
    codes = [[NAMES.index(name) for name in row] for row in rows if row]
    offsets = np.cumsum([0, *map(len, codes)]).astype(np.int64)
    truth = dict(
        top_itemsets(
            WeightedSets(offsets, np.concatenate(codes).astype(np.int32), np.ones(len(codes)), 12),
            50,
        )
    )
    plain, better = (
        top_similarity(truth, dict(top_itemsets(s, 50))) for s in (release.sets, release.consistent)
    )
    assert better > plain


def brute_force(sets: WeightedSets, k: int) -> list[tuple[tuple[int, ...], float]]:
    rows = [tuple(sets.members[a:b].tolist()) for a, b in itertools.pairwise(sets.offsets)]
    found = [
        (items, sum(w for row, w in zip(rows, sets.weights, strict=True) if set(items) <= set(row)))
        for size in range(1, 5)
        for items in itertools.combinations(range(sets.items), size)
    ]
    return sorted((f for f in found if f[1] > 0), key=lambda f: (-f[1], f[0]))[:k]


@pytest.mark.parametrize("seed", range(5))
def test_the_miner_finds_what_brute_force_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(8, size=int(rng.integers(1, 5)), replace=False)) for _ in range(40)]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    sets = WeightedSets(
        offsets, np.concatenate(rows).astype(np.int32), rng.integers(1, 9, 40).astype(float), 8
    )
    assert top_itemsets(sets, 30) == brute_force(sets, 30)
    pairs = [found for found in brute_force(sets, 10**6) if len(found[0]) == 2]
    assert top_itemsets(sets, 5, min_size=2, max_size=2) == pairs[:5]


def test_a_complete_release_is_mined_without_bias(tmp_path: Path) -> None:
    """Noise on every itemset: sums keep their negative counts, and weights for drawing add up to
    the total."""
    rows = records(4000, 3)
    got = publish(tmp_path, rows, dp.BasicItemsets(), epsilon=1)
    assert got.complete
    for items, support in got.top_itemsets(8).iter_rows():
        assert abs(support - sum(set(items) <= set(row) for row in rows)) < 120
        assert support == pytest.approx(got.support(items).value, abs=1)
    weights = got.consistent.weights
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(got.transactions)
    assert got.sample(50, seed=1).height == 50


@pytest.mark.parametrize("total", [None, 0.0, 10.0, 1000.0])
def test_clipped_weights_are_the_nearest(total: float | None) -> None:
    counts = np.array([9, -3, 4, 0, -1, 2])
    weights = clipped_weights(counts, total)
    wanted = 11.0 if total is None else total
    assert weights.sum() == pytest.approx(wanted)
    kept = weights > 0
    if kept.any():  # the same amount off every kept count, and no more than that on any other
        off = (counts - weights)[kept]
        assert np.ptp(off) == pytest.approx(0)
        assert (counts[~kept] <= off[0] + 1e-9).all()


def test_rules_are_ratios_of_supports() -> None:
    found = {(0,): 50.0, (1,): 40.0, (0, 1): 30.0}
    rules = association_rules(found, 100.0, min_confidence=0.7)
    assert [(rule.given, rule.then, rule.confidence) for rule in rules] == [((1,), (0,), 0.75)]
    assert rules[0].lift == pytest.approx(1.5)


def test_rules_of_a_release(release: Any) -> None:
    frame = release.rules(50, min_confidence=0.1)
    assert frame.height > 10
    assert frame["confidence"].is_sorted(descending=True)
    one = frame.row(0, named=True)
    rows = release.to_frame(consistent=True)
    both = sum(w for items, w in rows.iter_rows() if {*one["given"], *one["then"]} <= set(items))
    assert one["support"] == pytest.approx(both)


def test_metrics_of_the_paper() -> None:
    truth = WeightedSets(
        np.array([0, 2, 3, 4]),
        np.array([0, 1, 0, 1], dtype=np.int32),
        np.array([600.0, 399.0, 1.0]),
        2,
    )
    noisy = WeightedSets(np.array([0, 2]), np.array([0, 1], dtype=np.int32), np.array([500.0]), 2)
    assert support_of(truth, (0,)) == 999
    assert relative_errors(truth, noisy, [(0,), (0, 1)]).tolist() == [
        pytest.approx(499 / 999),
        pytest.approx(1 / 6),
    ]
    assert relative_errors(truth, noisy, [(0,)], sanity=1.0)[0] == pytest.approx(0.499)
    assert top_similarity({(0,): 10.0, (1,): 4.0}, {(0,): 5.0}) == pytest.approx(0.25)
    assert top_similarity({(0,): 10.0}, {(0,): 10.0}) == 1
    with pytest.raises(QueryError):
        top_similarity({}, {})


def test_pictures_and_report(release: Any, tmp_path: Path) -> None:
    for name, figure in (("items", release.plot(top=8)), ("sets", release.plot_itemsets(8))):
        figure.savefig(tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").stat().st_size > 5000
    page = release.report(tmp_path / "r.html").read_text()
    assert "item 0" in page
    assert "<script" not in page


def test_a_release_says_what_it_is(release: Any) -> None:
    assert "12" in release.summary()["items"]
    assert release.manifest["privacy"]["unit"] == "one transaction"


DAMAGE: dict[str, Any] = {
    "a table is missing": lambda m, t: t.pop("members"),
    "an item is named twice": lambda m, t: t.update(
        items=t["items"].with_columns(name=pl.lit("x"))
    ),
    "a tree with a hole": lambda m, t: t.update(
        children=t["children"].with_columns(pl.col("child").replace({0: 1}))
    ),
    "a node that covers too much": lambda m, t: t.update(
        nodes=t["nodes"].with_columns(stop=pl.lit(99, dtype=pl.Int32))
    ),
    "a parent after its child": lambda m, t: t.update(
        partitions=t["partitions"].with_columns(parent=pl.lit(7, dtype=pl.Int64))
    ),
    "an item out of range": lambda m, t: t.update(
        members=t["members"].with_columns(pl.col("item") + 12)
    ),
    "sizes that do not fit": lambda m, t: t.update(
        itemsets=t["itemsets"].with_columns(pl.col("size") % 2 + 1)
    ),
    "members out of order": lambda m, t: t.update(members=t["members"].reverse()),
    "a law that is not there": lambda m, t: m["facts"].update(laws=[]),
    "a law without a scale": lambda m, t: m["facts"].update(laws=[{"threshold": 1}]),
    "an unbelievable count": lambda m, t: t.update(
        itemsets=t["itemsets"].with_columns(count=pl.lit(1 << 60, dtype=pl.Int64))
    ),
    "nulls": lambda m, t: t.update(
        members=t["members"].with_columns(item=pl.lit(None, dtype=pl.Int32))
    ),
    "no total": lambda m, t: m["facts"].pop("total"),
    "another type": lambda m, t: t.update(members=t["members"].cast(pl.Int64)),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_releases_are_refused(release: Any, name: str) -> None:
    manifest = {**release.manifest, "facts": dict(release.manifest["facts"])}
    tables = dict(release.tables)
    DAMAGE[name](manifest, tables)
    with pytest.raises(BundleError):
        make_release(manifest, tables)


def test_laws_are_exact_numbers(release: Any) -> None:
    scales = {Fraction(law["scale"]) for law in release.manifest["facts"]["laws"]}
    assert all(scale > 1 for scale in scales)


def test_the_note_of_a_picture_is_beside_nothing_else(tmp_path: Path) -> None:
    for held, rest in ((11, "other item"), (2, "other 10 items")):
        rows = [[NAMES[number % held]] for number in range(5500)]
        release = publish(
            tmp_path,
            rows,
            dp.SetPartition(fanout=4, false_itemsets="1/1000", false_partitions="1/1000"),
        )
        figure = release.plot(top=12, level=0.9999)
        figure.savefig(tmp_path / "p.png")
        note, label = figure.texts[-1], figure.axes[0].xaxis.label
        assert note.get_text() == f"Nothing was published about the {rest}."
        assert not note.get_window_extent().overlaps(label.get_window_extent())


def test_what_holds_for_no_transaction_is_certain(release: Any) -> None:
    for nothing in ("false", '"item 0" and false', "not true"):
        found = release.estimate(nothing)
        assert (found.value, found.standard_error, found.low, found.high) == (0, 0, 0, 0), nothing
    assert release.estimate('"item 0" or false') == release.estimate('"item 0"')
