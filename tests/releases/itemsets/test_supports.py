"""Releases of measured supports: coverage of their intervals, widths, consistency, and the calls
that all itemset releases share."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.errors import BundleError, QueryError
from dpublish.methods.frequent_itemsets.mechanism import FrequentItemsets
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.releases.itemsets.release import ItemsetRelease
from dpublish.releases.itemsets.supports import SupportRelease
from methods.frequent_itemsets.test_frequent_itemsets import drawn, schema
from methods.set_partition.set_laws import baskets

ITEMS, ROWS = 40, 3000
DATA = [sorted(set(row)) for row in drawn(7, ROWS, ITEMS)]
HELD = np.zeros((ROWS, ITEMS), dtype=bool)
for number, row in enumerate(DATA):
    HELD[number, row] = True
COSTS = {"pure": Cost.pure(1), "delta": Cost.approximate(1, Fraction(1, 10**6))}


def truth(*items: int) -> int:
    return int(HELD[:, list(items)].all(axis=1).sum())


def released(seed: int, cost: Cost, **settings: Any) -> SupportRelease:
    method = FrequentItemsets(**settings)
    plan = method.plan(schema(ITEMS, size=ROWS), cost)
    output = method.run(SeededNoise(seed), baskets(DATA), plan)
    manifest = {
        "kind": "itemsets",
        "method": plan.method,
        "dataset": "t",
        "facts": dict(output.facts),
        "privacy": {"neighbours": "add-remove-one", "statement": ""},
        "created": "now",
        "publishable": False,
    }
    tables = {name: pl.DataFrame(dict(columns)) for name, columns in output.tables.items()}
    release = ItemsetRelease(manifest, tables)
    assert isinstance(release, SupportRelease)
    return release


@pytest.fixture(scope="module", params=COSTS)
def releases(request: pytest.FixtureRequest) -> list[SupportRelease]:
    """Thirty releases in one or two looks."""
    return [released(seed, COSTS[request.param], keep=(10, 200)[seed % 2]) for seed in range(30)]


def test_intervals_cover_the_truth(releases: list[SupportRelease]) -> None:
    """Of 40 items, 100 pairs, 20 triples and some conditions in 30 releases, at least 93% at 95%.

    The answers of a release share nothing but its histograms. At the nominal level 95% the mean of
    30 x 40 answers falls below 93% with probability below 0.001; one that covers 90% is caught."""
    pairs = list(combinations(range(15), 2))[:100]
    triples = list(combinations(range(6), 3))
    for questions in ([(item,) for item in range(ITEMS)], pairs, triples):
        hits = [
            (answer := release.support([f"i{item}" for item in members])).low
            <= truth(*members)
            <= answer.high
            for release in releases
            for members in questions
        ]
        assert np.mean(hits) >= 0.93, (questions[0], np.mean(hits))
    some = ("i0 and not i1", "i0 or i5", "not i2", "i1 and not (i2 or i3)")
    wanted = (
        int((HELD[:, 0] & ~HELD[:, 1]).sum()),
        int((HELD[:, 0] | HELD[:, 5]).sum()),
        int((~HELD[:, 2]).sum()),
        int((HELD[:, 1] & ~(HELD[:, 2] | HELD[:, 3])).sum()),
    )
    hits = []
    for release in releases[:15]:
        answers = [release.estimate(one) for one in some]
        hits += [one.low <= true <= one.high for one, true in zip(answers, wanted, strict=True)]
    assert np.mean(hits) >= 0.93


def test_intervals_of_items_are_a_few_deviations_wide(releases: list[SupportRelease]) -> None:
    for release in releases[:4]:
        for item in range(ITEMS):
            answer = release.support([f"i{item}"])
            if "not among" not in answer.note:
                width = answer.high - answer.low - answer.details["allowance"]
                assert width <= 5 * answer.standard_error + 2
        one = release.support(["i0"])
        if one.details["allowance"] >= 1:
            assert f"allows {one.details['allowance']:,.0f}" in one.note


def test_confidence_of_rules_is_covered(releases: list[SupportRelease]) -> None:
    hits = []
    for release in releases[:10]:
        for rule in release.rules(60, min_confidence=0.2, level=0.95).iter_rows(named=True):
            given, then = ([int(name[1:]) for name in rule[side]] for side in ("given", "then"))
            true = truth(*given, *then) / truth(*given)
            hits.append(rule["confidence_low"] <= true <= rule["confidence_high"])
    assert len(hits) > 50
    assert np.mean(hits) >= 0.93


def test_supports_are_consistent_and_missed_items_read_zero() -> None:
    release = released(3, COSTS["pure"], keep=5)
    found = {tuple(row["items"]): row["support"] for row in
             release.top_itemsets(1000).iter_rows(named=True)}  # fmt: skip
    for members, support in found.items():
        assert 0 <= support <= release.transactions
        for part in combinations(members, len(members) - 1):
            if part in found:
                assert support <= found[part] + 1e-9
    values = release.item_counts(top=ITEMS)
    assert (values["count"] > 0).sum() <= 5
    missed = release.support([values["item"][-1]])
    assert missed.value == 0
    assert missed.high >= 0
    assert "reads 0" in missed.note


def test_synthetic_transactions_follow_items_and_pairs() -> None:
    """Standard deviations of 20,000 draws are below 0.4%; two points of a hundred would show."""
    release = released(1, Cost.pure(10**4))
    rows = release.sample(20_000, seed=1)["items"].to_list()
    held = np.array([[f"i{item}" in row for item in range(8)] for row in rows])
    for item in range(8):
        assert abs(held[:, item].mean() - truth(item) / ROWS) < 0.02
    best = release.top_itemsets(1, min_size=2, max_size=2)["items"][0].to_list()
    pair = [int(name[1:]) for name in best]
    assert abs(held[:, pair].all(axis=1).mean() - truth(*pair) / ROWS) < 0.03
    assert release.sample(0, seed=1).height == 0


def test_copies_and_wrong_questions() -> None:
    release = released(1, COSTS["pure"])
    again = pickle.loads(pickle.dumps(copy.deepcopy(release)))
    assert str(again.support(["i0"])) == str(release.support(["i0"]))
    with pytest.raises(QueryError, match="up to 10 items"):
        release.estimate(" or ".join(f"i{item}" for item in range(12)))
    with pytest.raises(QueryError, match="no item"):
        release.support(["bread"])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda facts, tables: facts.update(law="uniform"), "'law' must be"),
        (lambda facts, tables: facts.update(rounds=[]), "'rounds' must be"),
        (lambda facts, tables: facts["rounds"][0].update(edges=[3, 2]), "'edges' must rise"),
        (lambda facts, tables: facts["rounds"][0].update(rank=1), "whether it ranks"),
        (lambda facts, tables: facts["total"].update(value="x"), "'total' must be"),
        (
            lambda facts, tables: tables.update(members=tables["members"].head(3)),
            "does not fit the sizes",
        ),
        (
            lambda facts, tables: tables.update(
                supports=tables["supports"].with_columns(round=pl.lit(99, dtype=pl.Int32))
            ),
            "'round' holds a number out of range",
        ),
        (lambda facts, tables: tables.pop("members"), "members.parquet must have"),
    ],
)
def test_altered_files_are_refused(change: Any, words: str) -> None:
    release = released(1, COSTS["pure"])
    facts, tables = copy.deepcopy(release.manifest["facts"]), dict(release.tables)
    change(facts, tables)
    with pytest.raises(BundleError, match=words):
        ItemsetRelease({**release.manifest, "facts": facts}, tables)


def test_the_gate_publishes_it_from_an_items_schema(tmp_path: Any) -> None:
    frame = pl.DataFrame({"items": [" ".join(f"i{item}" for item in row) for row in DATA]})
    curator = dp.Curator(
        frame,
        schema(ITEMS, size=ROWS),
        ledger=tmp_path / "l.ledger",
        budget=dp.Budget(epsilon=1),
        store=tmp_path / "store",
    )
    release = curator.publish(dp.FrequentItemsets(), epsilon=1, seed=1)
    release.save(tmp_path / "r.dpr")
    opened = dp.open_release(tmp_path / "r.dpr")
    assert isinstance(opened, SupportRelease)
    assert opened.verify().ok
    opened.report(tmp_path / "r.html")
    assert "smaller weight" in (tmp_path / "r.html").read_text()
