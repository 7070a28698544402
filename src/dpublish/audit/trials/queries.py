"""Made-up inputs for the methods that answer a whole class of queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dpublish.audit import neighbours
from dpublish.audit.trials.synthetic_inputs import (
    RELATIONS,
    release_call,
    release_twin,
    schema_text,
    under_both,
)
from dpublish.audit.trials.tables import in_rho, release_trial, table_trial
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial
from dpublish.privacy.cost import Cost

# Made-up inputs for the methods that publish what is bought together.

BASKETS = ("bread", "milk", "bread milk")
FILE = "rows.txt"


def frequent_itemsets() -> Iterator[Trial]:
    tiny = {"separator": " ", "weight_grid": "2"}
    yield from under_both(_trial, "frequent-itemsets", tiny, exact=Exact(window=(0, 1), pairs=2))
    rho = Cost.zcdp("1/4")
    yield _trial(
        "frequent-itemsets",
        "replace-one",
        {"separator": " ", "keep": "2", "pairs": "1"},
        claim=rho,
        case="two looks, Gaussian noise",
        universe=("bread", "milk", "beer", "wine", "salt", "soap", "tea"),
        baskets=("bread milk beer wine", "beer", "milk wine"),
        exact="Gaussian noise has no rational law that could be enumerated",
        sampled=in_rho(rho, runs=1000),
    )


def set_partition() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield _trial(
            "set-partition", relation, {"fanout": "2", "count_share": "1/4", "separator": " "}
        )


def basic_itemsets() -> Iterator[Trial]:
    yield from under_both(_trial, "basic-itemsets", {"count_share": "1/4", "separator": " "})


def _trial(
    method: str,
    relation: str,
    settings: Mapping[str, str],
    *,
    claim: Cost | None = None,
    case: str | None = None,
    universe: Sequence[str] = ("bread", "milk"),
    baskets: Sequence[str] = BASKETS,
    exact: Exact | str | None = None,
    sampled: Sampled | None = None,
) -> Trial:
    # four equal baskets just pass the threshold of a set partition: replacing one shows, however
    # little noise there is
    size = 4 if relation == "replace-one" else 2
    text = schema_text(relation, f"[items]\nuniverse = {json.dumps(universe)}\n", size=size)
    rows = neighbours.row_pairs(relation, baskets, rows=size)
    cost = claim or Cost.pure(1)
    return Trial(
        method=method,
        case=case or relation,
        neighbours=relation,
        claim=cost,
        call=release_call(method, settings, text, cost, file=FILE),
        pairs=[(_lines(one), _lines(other)) for one, other in rows],
        exact=exact or Exact(window=(0, 2), pairs=2),
        sampled=sampled or Sampled(runs=1500),
        twin=release_twin(method, settings, text, cost, file=FILE),
    )


def _lines(rows: tuple[str, ...]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def multiplicative_weights() -> Iterator[Trial]:
    yield from under_both(
        table_trial,
        "multiplicative-weights",
        ("a", "b"),
        settings={"queries": "marginals:1", "rounds": "1"},
        exact=Exact(window=(-1, 3), pairs=12),
        sampled=Sampled(runs=1500),
    )
    yield table_trial(
        "multiplicative-weights",
        "replace-one",
        ("a", "b"),
        settings={"queries": "marginals:1", "rounds": "1"},
        rows=1,
        per_unit=2,
        exact=Exact(window=(-1, 3), pairs=6),
        sampled=Sampled(runs=1500),
    )


def workload() -> Iterator[Trial]:
    direct = {"queries": "marginals:1", "answer": "direct"}
    yield from under_both(
        table_trial,
        "workload",
        ("a", "b"),
        settings=direct,
        exact=Exact(window=(-1, 2), pairs=8),
        sampled=Sampled(runs=1000),
    )
    yield table_trial(
        "workload",
        "replace-one",
        ("a", "b"),
        settings={"queries": "predicates:a or b;a and b", "answer": "direct"},
        case="answers by themselves",
        exact=Exact(window=(-1, 2), pairs=8),
        sampled=Sampled(runs=1000),
    )
    # which of the two ways is nearer follows from the relation
    for relation, how in (("replace-one", "apart"), ("add-remove-one", "together")):
        yield table_trial(
            "workload",
            relation,
            ("a", "b"),
            settings={"queries": "predicates:a or b;marginals:1", "answer": "direct"},
            case=f"two classes, measured {how}",
            exact=Exact(window=(-1, 2), pairs=6),
            sampled=Sampled(runs=1000),
        )
    yield table_trial(
        "workload",
        "add-remove-one",
        ("a",),
        settings=direct,
        rows=1,
        per_unit=2,
        exact=Exact(window=(-1, 3), pairs=6),
        sampled=Sampled(runs=1000),
    )
    rho = Cost.zcdp("1/4")
    yield from under_both(
        table_trial,
        "workload",
        ("a", "b"),
        settings={"queries": "marginals:2", "answer": "direct"},
        claim=rho,
        case="Gaussian noise on residuals",
        exact="Gaussian noise has no rational law that could be enumerated",
        sampled=in_rho(rho, runs=1000),
    )


def net() -> Iterator[Trial]:
    yield from under_both(
        table_trial,
        "net",
        ("a", "b"),
        settings={"queries": "marginals:2", "points": "2"},
        exact=Exact(pairs=12),
        sampled=Sampled(runs=2000),
    )
    yield table_trial(
        "net",
        "add-remove-one",
        ("a", "b"),
        settings={"queries": "marginals:2", "points": "2"},
        rows=1,
        per_unit=2,
        exact=Exact(pairs=12),
        sampled=Sampled(runs=2000),
    )


def interval_tree() -> Iterator[Trial]:
    column = '[columns.x]\nkind = "integer"\nlower = 0\nupper = 1\n'
    for relation in RELATIONS:
        for tree, window in (("privtree", (-1, 3)), ("dyadic", (-1, 3)), ("binary-search", (0, 2))):
            settings = {"tree": tree, "structure_share": "1/2", "accuracy": "1/2"}
            # a private tree costs less than the sum of its draws: few of them can be moved by one
            # row
            tiers: dict[str, Any] = {
                "exact": Exact(window=window, root=3, pairs=4),
                "replay": Replay(adds_up=tree == "dyadic"),
            }
            yield _column_trial(
                "interval-tree", relation, settings, column, "x", ("0", "1"), case=tree, **tiers
            )
            if (relation, tree) in ((RELATIONS[0], "dyadic"), (RELATIONS[1], "privtree")):
                yield _column_trial(
                    "interval-tree",
                    relation,
                    settings,
                    column,
                    "x",
                    ("0", "1"),
                    case=tree,
                    per_unit=2,
                    **tiers,
                )

    # a row may lack its value: it is counted by itself, or among what lies in no box
    lacking = f"{column}missing = true\n"
    yield from under_both(
        _column_trial,
        "interval-tree",
        {"tree": "dyadic"},
        lacking,
        "x",
        ("0", "1", "?"),
        case="missing",
        exact=Exact(window=(-1, 3), root=3, pairs=6),
        replay=Replay(adds_up=True),
    )


def halfspaces() -> Iterator[Trial]:
    columns = "".join(f'[columns.{name}]\nkind = "real"\nlower = 0\nupper = 1\n' for name in "xy")
    for relation in RELATIONS:
        settings = {"k": "2", "projections": "1", "cells": "4"}
        corners = ("0,0", "0.5,1", "1,0")
        yield _column_trial(
            "halfspaces",
            relation,
            settings,
            columns,
            "x,y",
            corners,
            exact=Exact(window=(-1, 2), pairs=6),
        )
    yield _column_trial(
        "halfspaces",
        "replace-one",
        settings,
        columns,
        "x,y",
        corners,
        per_unit=2,
        exact=Exact(window=(-1, 2), pairs=6),
    )


def _column_trial(
    method: str,
    relation: str,
    settings: dict[str, str],
    columns: str,
    header: str,
    universe: tuple[str, ...],
    *,
    per_unit: int = 1,
    **options: Any,
) -> Trial:
    """`per_unit` > 1: one person with several rows in the place of two rows."""
    return release_trial(
        method,
        relation,
        columns,
        header,
        universe,
        settings=settings,
        rows=2 if per_unit == 1 else 1,
        per_unit=per_unit,
        sampled=Sampled(runs=1500),
        **options,
    )
