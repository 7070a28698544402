"""SetPartition and BasicItemsets: plans, refusals, and whole releases from every kind of input."""

from __future__ import annotations

import gzip
import itertools
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dpublish as dp
from dpublish import audit
from dpublish.cli.app import run as cli
from dpublish.counting.transactions import compute
from dpublish.methods.draws import survival_probability
from dpublish.methods.set_partition.mechanism import automatic_threshold
from dpublish.noise.source import SeededNoise
from dpublish.sources.sources import TransactionLines
from methods.set_partition.set_laws import baskets

ITEMS = ["bread", "milk", "beer", "wine", "salt"]


def schema(items: Iterable[str] = ITEMS, *, dataset: str = "", outside: str = "drop") -> dp.Schema:
    listed = ", ".join(f'"{item}"' for item in items)
    return dp.Schema.from_toml(
        f'[dataset]\nname = "shop"\n{dataset}\n[items]\nuniverse = [{listed}]\noutside = '
        f'"{outside}"\n'
    )


def read(data: Any, facts: dp.Schema, method: Any = None) -> list[tuple[int, ...]]:
    """The transactions that a method would get, as codes."""
    from dpublish.sources.sources import open_source

    method = method or dp.SetPartition()
    plan = method.plan(facts, dp.Cost.pure(1))
    got = compute(method.statistic(plan), open_source(data), plan.schema, key=bytes(16))
    return [tuple(got.items[a:b].tolist()) for a, b in itertools.pairwise(got.offsets.tolist())]


def test_the_plan_prices_without_data() -> None:
    plan = dp.SetPartition().plan(schema(map(str, range(1012))), dp.Cost.pure(1))
    assert plan.facts["nodes"] == 116
    assert plan.schema.neighbours == "add-remove-one"
    assert plan.facts["sensitivity"] == "1"
    assert Fraction(plan.facts["count_epsilon"]) + Fraction(plan.facts["partition_epsilon"]) == 1
    assert "protecting one transaction" in plan.text()


def test_replacement_doubles_the_noise_not_the_price() -> None:
    one, two = (
        dp.SetPartition().plan(schema(dataset=text), dp.Cost.pure(1)).facts
        for text in ("", 'neighbours = "replace-one"')
    )
    assert Fraction(two["worst_itemset_scale"]) == 2 * Fraction(one["worst_itemset_scale"])


def test_a_release_too_small_to_show_anything_is_warned_of() -> None:
    plan = dp.SetPartition().plan(
        schema(map(str, range(5000)), dataset="nominal_size = 1000"), dp.Cost.pure("0.1")
    )
    assert any("expect an empty release" in warning for warning in plan.warnings)


def test_more_items_than_transactions_can_fill_are_warned_of() -> None:
    many = schema(map(str, range(5000)), dataset="nominal_size = 50000")
    assert any(
        "at most" in text and "max_items" in text
        for text in dp.SetPartition().plan(many, dp.Cost.pure(1)).warnings
    )
    few = schema(map(str, range(100)), dataset="nominal_size = 50000")
    (said,) = dp.SetPartition().plan(few, dp.Cost.pure(1)).warnings
    assert "expect smaller errors from frequent-itemsets" in said
    tiny = schema("abc", dataset="nominal_size = 50000")
    assert dp.SetPartition().plan(tiny, dp.Cost.pure(1)).warnings == ()
    assert "basic-itemsets" in dp.SetPartition().plan(schema(), dp.Cost.pure(1)).text()


def test_more_typical_items_than_there_are_change_nothing() -> None:
    facts = schema(map(str, range(40)))
    many, all_of_them = (
        dp.SetPartition(typical_items=m).plan(facts, dp.Cost.pure(1)).facts["first_scale"]
        for m in (1 << 63, 40)
    )
    assert many == all_of_them


def test_typical_items_spare_a_large_universe_the_worst_case() -> None:
    facts = schema(map(str, range(16470)))
    worst, usual = (
        dp.SetPartition(typical_items=m).plan(facts, dp.Cost.pure(1)).facts["first_scale"]
        for m in (None, 16)
    )
    assert worst > 3000
    assert usual < 120


def test_transactions_are_cut_to_their_first_items(tmp_path: Path) -> None:
    frame = pl.DataFrame({"items": LISTS}, schema={"items": pl.List(pl.String)})
    assert read(frame, schema(outside="other"), dp.SetPartition(max_items=1)) == [
        (0,),
        (0,),
        (5,),
        (4,),
        (2,),
    ]
    curator = dp.Curator(frame, schema(), ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=2))
    curator.publish(dp.SetPartition(typical_items=1 << 63), epsilon=1, seed=1)
    release: Any = curator.publish(dp.SetPartition(max_items=1), epsilon=1, seed=1)
    assert "first 1 items" in release.summary()["cut"]
    assert release.verify().ok


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"typical_items": 1}, "typical_items must be"),
        ({"max_items": 0}, "max_items must be"),
        ({"fanout": 1}, "fanout must be"),
        ({"false_partitions": 1}, "below 1"),
        ({"false_itemsets": 0}, "above 0"),
        ({"count_share": 1}, "count_share"),
        ({"c2": "0.01"}, "multiply without end"),
        ({"max_partitions": 0}, "max_partitions"),
        ({"taxonomy": [["bread"]]}, "leaves out"),
        ({"basket": "id"}, "the unit cannot be one row"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_spent(
    settings: dict[str, Any], text: str
) -> None:
    items = map(str, range(200)) if "c2" in settings else ITEMS
    with pytest.raises(dp.PlanError, match=text):
        dp.SetPartition(**settings).plan(schema(items), dp.Cost.pure(1))


def test_other_costs_and_other_data_are_refused() -> None:
    with pytest.raises(dp.PlanError, match="pure epsilon"):
        dp.SetPartition().plan(schema(), dp.Cost.zcdp(1))
    table = dp.Schema.from_toml('[dataset]\nname = "t"\n[columns.a]\nkind = "boolean"\n')
    for method in (dp.SetPartition(), dp.BasicItemsets()):
        with pytest.raises(dp.PlanError, match="needs set-valued data"):
            method.plan(table, dp.Cost.pure(1))
    with pytest.raises(dp.PlanError, match="2 to 20 items"):
        dp.BasicItemsets().plan(schema(map(str, range(21))), dp.Cost.pure(1))


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(500, 3)])
@pytest.mark.parametrize("cells", [1, 3, 1023])
def test_automatic_thresholds_keep_their_promise(scale: Fraction, cells: int) -> None:
    """At most the stated number of false cells on average; one less would break it by more than
    rounding."""
    threshold = automatic_threshold(scale, cells, 0.1)
    assert cells * survival_probability(scale, threshold) <= 0.1 * (1 + 1e-9)
    assert threshold == 0 or cells * survival_probability(scale, threshold - 2) > 0.1


LISTS = [
    ["bread", "milk"],
    ["milk", "bread", "milk"],
    ["caviar"],
    [],
    None,
    ["caviar", "salt"],
    ["beer", None, ""],
]
CODES = [(0, 1), (0, 1), (4,), (2,)]
WITH_OTHER = [(0, 1), (0, 1), (5,), (4, 5), (2,)]


def test_lists_of_items() -> None:
    """Duplicates count once, unknown items follow the schema's rule, empty transactions are
    none."""
    frame = pl.DataFrame({"items": LISTS}, schema={"items": pl.List(pl.String)})
    assert read(frame, schema()) == CODES
    assert read(frame, schema(outside="other")) == WITH_OTHER
    assert (
        read(frame.with_columns(pl.col("items").cast(pl.List(pl.Categorical))), schema()) == CODES
    )


def test_texts_with_several_items() -> None:
    texts = [None if row is None else " ".join(item or "" for item in row) for row in LISTS]
    assert read(pl.DataFrame({"items": texts}), schema()) == CODES
    commas = [None if row is None else ", ".join(item or "" for item in row) for row in LISTS]
    assert read(pl.DataFrame({"items": commas}), schema(), dp.SetPartition(separator=",")) == CODES


def test_lists_in_a_pandas_frame() -> None:
    """pandas has no type for lists: they are objects, and each cell says by itself what it is."""
    assert read(pd.DataFrame({"items": LISTS}), schema()) == CODES
    cells = [
        ["bread", " milk "],
        ("beer",),
        "wine  salt",
        None,
        float("nan"),
        {"milk"},
        np.array(["salt"]),
    ]
    assert read(pd.DataFrame({"items": cells}), schema()) == [(0, 1), (2,), (3, 4), (1,), (4,)]
    commas = pd.DataFrame({"items": ["bread, milk", ["a, b", "beer"]]})
    assert read(commas, schema(), dp.SetPartition(separator=",")) == [(0, 1), (2,)]
    for text in ("bread milk", "bread\x1cmilk\x1fbeer", " bread\xa0milk", "", "7"):
        alone, beside = pl.DataFrame({"items": [text]}), pd.DataFrame({"items": [text, ["wine"]]})
        assert read(beside, schema()) == [*read(alone, schema()), (3,)], (
            "what a text means does not depend on other rows"
        )


@pytest.mark.parametrize("kind", [pl.Int64, pl.UInt8, pl.UInt64, pl.Float64, pl.String, pl.Int128])
def test_numbered_items(kind: Any) -> None:
    rows = [[7, 12], [12, 12, 250], [250], [None, 7]]
    frame = pl.DataFrame({"items": rows}, schema={"items": pl.List(pl.Int64)}).cast(
        {"items": pl.List(kind)}
    )
    assert read(frame, schema(["7", "12"])) == [(0, 1), (1,), (0,)]
    assert read(frame, schema(["7", "12"], outside="other")) == [(0, 1), (1, 2), (2,), (0,)]


def test_one_item_a_row() -> None:
    rows = [
        ("a", "bread"),
        ("b", "beer"),
        ("a", "milk"),
        ("", "salt"),
        ("c", "caviar"),
        ("a", "bread"),
    ]
    frame = pl.DataFrame(rows, schema=["id", "item"], orient="row")
    method = dp.SetPartition(basket="id", column="item")
    assert read(frame, schema(dataset='unit = "id"\nmax_rows_per_unit = 1'), method) == [
        (0, 1),
        (2,),
    ]


def test_one_transaction_a_person() -> None:
    """Of a person's transactions one is kept; baskets of the same name belong to different
    people."""
    rows = [("ann", 1, "bread"), ("bob", 1, "milk"), ("ann", 2, "beer"), ("ann", 1, "wine")]
    frame = pl.DataFrame(rows, schema=["who", "id", "item"], orient="row")
    facts = schema(dataset='unit = "who"\nmax_rows_per_unit = 1')
    got = read(frame, facts, dp.SetPartition(basket="id", column="item"))
    assert len(got) == 2
    assert (1,) in got
    assert ({(0, 3), (2,)} & set(got)) != set()
    lists = pl.DataFrame(
        {"who": ["ann", "bob", "ann", None], "items": [["bread"], ["milk"], ["beer"], ["salt"]]}
    )
    assert len(read(lists, facts)) == 2


def test_lines_of_text(tmp_path: Path) -> None:
    lines = "\n".join("" if row is None else " ".join(item or "" for item in row) for row in LISTS)
    plain, packed = tmp_path / "a.txt", tmp_path / "b.txt.gz"
    plain.write_text(lines)
    packed.write_bytes(gzip.compress(lines.encode() + b"\n\xff\xfe bread\r\n"))
    assert read(TransactionLines(plain), schema()) == CODES
    assert read(TransactionLines(packed), schema()) == [*CODES, (0,)]
    assert TransactionLines(packed).count_rows() == 8
    with pytest.raises(dp.InputError, match="There is no file"):
        TransactionLines(tmp_path / "none.txt")


def test_a_transaction_is_what_stands_before_a_line_feed(tmp_path: Path) -> None:
    """Other characters that some programs take for line ends make no second transaction."""
    path = tmp_path / "a.txt"
    path.write_bytes("bread\rmilk\r\r\x0b\x0c\x85\u2028milk\r\nbread\n".encode())
    source = TransactionLines(path)
    assert (
        source.count_rows() == sum(batch.height for batch in source.batches(source.columns())) == 2
    )
    assert read(source, schema()) == [(0, 1), (0,)]


def test_a_record_with_every_item_and_an_empty_file(tmp_path: Path) -> None:
    names = [str(number) for number in range(3000)]
    assert (
        read(pl.DataFrame({"items": [names, names[::-1] + names]}), schema(names))
        == [tuple(range(3000))] * 2
    )
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    curator = dp.Curator(
        TransactionLines(empty), schema(), ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=1)
    )
    release: Any = curator.publish(dp.SetPartition(), epsilon=1, seed=1)
    assert abs(release.total.value) < 1000


def test_one_item_and_a_million_items() -> None:
    for items in (1, 1_000_000):
        facts = dp.Schema(
            name="s",
            items=type(schema().items)(items=tuple(map(str, range(items)))),
            neighbours="add-remove-one",
        )
        plan = dp.SetPartition().plan(facts, dp.Cost.pure(1))
        data = baskets([[0]] * 500)
        content = dp.SetPartition().run(
            SeededNoise(1), type(data)(data.offsets, data.items.astype(np.int32)), plan
        )
        counts = content.tables["itemsets"]["count"]
        assert (abs(counts - 500) < 30).all() if items == 1 else counts.size == 0


def made_up(records: int, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    rows = [
        [ITEMS[i] for i in np.flatnonzero(rng.random(5) < [0.6, 0.5, 0.3, 0.1, 0.05])]
        for _ in range(records)
    ]
    return pl.DataFrame({"items": rows}, schema={"items": pl.List(pl.String)})


@pytest.mark.parametrize(
    "method", [dp.SetPartition(fanout=2), dp.BasicItemsets()], ids=lambda m: m.method
)
def test_a_release_from_end_to_end(method: Any, tmp_path: Path) -> None:
    data = made_up(4000)
    data.write_parquet(tmp_path / "shop.parquet")
    curator = dp.Curator(
        tmp_path / "shop.parquet", schema(), ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=5)
    )
    curator.publish(method, epsilon=2, out=tmp_path / "shop.dpr")
    release: Any = dp.open_release(tmp_path / "shop.dpr")
    assert release.publishable
    assert release.verify().ok
    truth = sum({"bread", "milk"} <= set(row) for row in data["items"].to_list())
    got = release.support({"bread", "milk"}, level=0.9999)
    assert got.low <= truth <= got.high
    assert abs(got.value - truth) < 150
    assert curator.ledger.status().spent.epsilon == 2


def test_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = made_up(2000)
    data.write_parquet("shop.parquet")
    long = data.with_row_index("id").explode("items").drop_nulls().rename({"items": "item"})
    long.write_csv("long.csv")
    Path("shop.toml").write_text(schema().to_toml())
    Path("long.toml").write_text(schema(dataset='unit = "id"\nmax_rows_per_unit = 1').to_toml())
    database = sqlite3.connect("shop.db")
    database.execute("create table sales (id integer, item text)")
    database.executemany("insert into sales values (?, ?)", long.rows())
    database.commit()
    database.close()
    common = ["--method", "set-partition", "--epsilon", "1", "--budget", "9", "--set", "fanout=3"]
    basket = ["--set", "basket=id", "--set", "column=item"]
    for number, words in enumerate(
        (
            ["shop.parquet", "--schema", "shop.toml"],
            ["long.csv", "--schema", "long.toml", *basket],
            [
                "sql:select id, item from sales",
                "--database",
                "sqlite:///shop.db",
                "--schema",
                "long.toml",
                *basket,
            ],
        )
    ):
        ledger = [
            "--ledger",
            f"{number}.ledger",
            "--second-budget",
        ]  # a row and a value of id are different units: they cannot share one
        assert cli(["release", *words, *common, *ledger, "--out", f"{number}.dpr"]) == 0, (
            capsys.readouterr().err
        )
        assert cli(["query", f"{number}.dpr", "bread and not (beer or wine)"]) == 0
        assert cli(["verify", f"{number}.dpr"]) == 0
        assert cli(["report", f"{number}.dpr", "--out", f"{number}.html"]) == 0
    assert cli(["query", "0.dpr", "--by", "bread,milk"]) == 0
    assert cli(["export", "0.dpr", "--out", "0.parquet"]) == 0
    assert cli(["query", "0.dpr", "cheese"]) == 2
    capsys.readouterr()


def test_replay_of_the_whole_mechanism() -> None:
    for method in (dp.SetPartition(fanout=2, count_share="1/10"), dp.BasicItemsets()):
        plan = method.plan(schema(), dp.Cost.pure(1))
        rows = [(0, 1)] * 40 + [(2,)] * 9 + [(1, 3, 4)] * 12
        report = audit.replay(
            lambda noise, data, method=method, plan=plan: (
                method.run(noise, baskets(data), plan).tables
            ),
            [(rows, rows[:-1]), (rows, [*rows, (0, 1, 2, 3, 4)])],
            epsilon=1,
        )
        assert report.passed, report.summary()


def test_the_error_of_theorem_4_2_holds() -> None:
    """In 60 releases at a stated 95%, at least 50: fewer have a chance of 0.3% at exactly 95%, and
    a bound that holds in 70% of releases is caught. (The bound is a union bound, and loose.)"""
    rows = [[0, 1]] * 120 + [[2]] * 60 + [[3, 4, 5]] * 40 + [[item] for item in range(12)] * 3
    true = Counter(tuple(row) for row in rows)
    many = schema([f"i{item}" for item in range(12)], dataset="nominal_size = 300")
    method = dp.SetPartition(fanout=4)
    plan = method.plan(many, dp.Cost.pure(1))
    bound = plan.forecast["itemset_error"]
    held = 0
    for seed in range(60):
        tables = method.run(SeededNoise(seed), baskets(rows), plan).tables
        ends = np.cumsum([0, *tables["itemsets"]["size"]])
        members = tables["members"]["item"].tolist()
        found = {
            tuple(members[a:b]): count
            for a, b, count in zip(ends, ends[1:], tables["itemsets"]["count"], strict=False)
        }
        held += all(abs(found.get(one, 0) - count) <= bound for one, count in true.items())
    assert held >= 50
    assert f"off by at most {bound:,.4g}" in plan.text()


def test_the_error_of_theorem_4_2_holds_where_later_splits_are_wider() -> None:
    """An itemset one above the stated error is lost in at most 5% of releases; more than four of 20
    have a chance of 0.3%. Planted: the threshold of the first split, of two children where the next
    have ten; what that stated was lost in 16 of 20. Seeds are fixed."""
    many = schema([f"i{item}" for item in range(200)], dataset="nominal_size = 1000")
    method = dp.SetPartition()
    plan = method.plan(many, dp.Cost.pure(1))
    stated = plan.forecast["itemset_error"]
    assert "any one itemset of up to 16 items is off" in plan.text()
    reach = plan.forecast["first_scale"] * math.log(19 / (2 * 0.05))
    lost = []
    for bound in (stated, plan.forecast["first_threshold"] + reach):
        rows = baskets([(0, 150)] * (int(bound) + 1))
        runs = [method.run(SeededNoise(seed), rows, plan).tables for seed in range(20)]
        lost.append(sum(not len(tables["members"]["item"]) for tables in runs))
    assert lost[0] <= 4
    assert lost[1] >= 10


def test_the_error_of_theorem_4_2_is_for_all_itemsets_where_none_is_longer() -> None:
    few = dp.SetPartition().plan(schema(), dp.Cost.pure(1)).text()
    short = dp.SetPartition(max_items=4).plan(schema(map(str, range(200))), dp.Cost.pure(1)).text()
    assert "any one itemset is off" in few
    assert "any one itemset is off" in short
