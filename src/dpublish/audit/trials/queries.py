"""Made-up inputs for the methods that answer a whole class of queries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dpublish.audit import neighbours
from dpublish.audit.trials.synthetic_inputs import (
    RELATIONS,
    release_call,
    release_twin,
    schema_text,
    under_both,
)
from dpublish.audit.trials.tables import GAUSSIAN, in_rho, release_trial, table_trial
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial
from dpublish.privacy.cost import Cost

# Made-up inputs for the methods that publish what is bought together.

BASKETS = ("bread", "milk", "bread milk")
FILE = "rows.txt"


def frequent_itemsets() -> list[Trial]:
    trial, rho = partial(_trial, "frequent-itemsets"), Cost.zcdp("1/4")
    tiny = {"separator": " ", "weight_grid": "2"}
    return [
        *under_both(trial, tiny, exact=Exact(window=(0, 1), pairs=2)),
        trial(
            "replace-one",
            {"separator": " ", "keep": "2", "pairs": "1"},
            claim=rho,
            case="two looks, Gaussian noise",
            universe=("bread", "milk", "beer", "wine", "salt", "soap", "tea"),
            baskets=("bread milk beer wine", "beer", "milk wine"),
            exact=GAUSSIAN,
            sampled=in_rho(rho, runs=1000),
        ),
    ]


def set_partition() -> Iterator[Trial]:
    settings = {"fanout": "2", "count_share": "1/4", "separator": " "}
    return under_both(partial(_trial, "set-partition"), settings)


def basic_itemsets() -> Iterator[Trial]:
    settings = {"count_share": "1/4", "separator": " "}
    return under_both(partial(_trial, "basic-itemsets"), settings)


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


def multiplicative_weights() -> list[Trial]:
    trial = partial(
        table_trial,
        "multiplicative-weights",
        columns=("a", "b"),
        settings={"queries": "marginals:1", "rounds": "1"},
        sampled=Sampled(runs=1500),
    )
    return [
        *under_both(trial, exact=Exact(window=(-1, 3), pairs=12)),
        trial("replace-one", rows=1, per_unit=2, exact=Exact(window=(-1, 3), pairs=6)),
    ]


def workload() -> list[Trial]:
    trial = partial(table_trial, "workload", sampled=Sampled(runs=1000))
    direct = {"queries": "marginals:1", "answer": "direct"}
    two = partial(
        trial,
        columns=("a", "b"),
        settings={"queries": "predicates:a or b;marginals:1", "answer": "direct"},
        exact=Exact(window=(-1, 2), pairs=6),
    )
    rho = Cost.zcdp("1/4")
    return [
        *under_both(trial, ("a", "b"), settings=direct, exact=Exact(window=(-1, 2), pairs=8)),
        trial(
            "replace-one",
            ("a", "b"),
            settings={"queries": "predicates:a or b;a and b", "answer": "direct"},
            case="answers by themselves",
            exact=Exact(window=(-1, 2), pairs=8),
        ),
        # which of the two ways is nearer follows from the relation
        two("replace-one", case="two classes, measured apart"),
        two("add-remove-one", case="two classes, measured together"),
        trial(
            "add-remove-one",
            ("a",),
            settings=direct,
            rows=1,
            per_unit=2,
            exact=Exact(window=(-1, 3), pairs=6),
        ),
        *under_both(
            trial,
            ("a", "b"),
            settings={"queries": "marginals:2", "answer": "direct"},
            claim=rho,
            case="Gaussian noise on residuals",
            exact=GAUSSIAN,
            sampled=in_rho(rho, runs=1000),
        ),
    ]


def net() -> list[Trial]:
    trial = partial(
        table_trial,
        "net",
        columns=("a", "b"),
        settings={"queries": "marginals:2", "points": "2"},
        exact=Exact(pairs=12),
        sampled=Sampled(runs=2000),
    )
    return [*under_both(trial), trial("add-remove-one", rows=1, per_unit=2)]


def interval_tree() -> Iterator[Trial]:
    column = '[columns.x]\nkind = "integer"\nlower = 0\nupper = 1\n'
    for relation in RELATIONS:
        for tree, window in (("privtree", (-1, 3)), ("dyadic", (-1, 3)), ("binary-search", (0, 2))):
            trial = partial(
                _column_trial,
                "interval-tree",
                relation,
                {"tree": tree, "structure_share": "1/2", "accuracy": "1/2"},
                column,
                "x",
                ("0", "1"),
                case=tree,
                exact=Exact(window=window, root=3, pairs=4),
                # a private tree costs less than the sum of its draws: few of them can be moved by
                # one row
                replay=Replay(adds_up=tree == "dyadic"),
            )
            yield trial()
            if (relation, tree) in ((RELATIONS[0], "dyadic"), (RELATIONS[1], "privtree")):
                yield trial(per_unit=2)

    # a row may lack its value: it is counted by itself, or among what lies in no box
    yield from under_both(
        partial(_column_trial, "interval-tree"),
        {"tree": "dyadic"},
        f"{column}missing = true\n",
        "x",
        ("0", "1", "?"),
        case="missing",
        exact=Exact(window=(-1, 3), root=3, pairs=6),
        replay=Replay(adds_up=True),
    )


def halfspaces() -> list[Trial]:
    trial = partial(
        _column_trial,
        "halfspaces",
        settings={"k": "2", "projections": "1", "cells": "4"},
        columns="".join(
            f'[columns.{name}]\nkind = "real"\nlower = 0\nupper = 1\n' for name in "xy"
        ),
        header="x,y",
        universe=("0,0", "0.5,1", "1,0"),
        exact=Exact(window=(-1, 2), pairs=6),
    )
    return [*under_both(trial), trial("replace-one", per_unit=2)]


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
