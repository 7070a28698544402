"""Made-up inputs for the methods that answer a whole class of queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpublish.audit.trials.made_up import RELATIONS, csv_pairs, release_call, release_twin, schema_text
from dpublish.audit.trials.tables import table_trial
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial
from dpublish.cost import Cost


def multiplicative_weights() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield table_trial(
            "multiplicative-weights",
            relation,
            ("a", "b"),
            settings={"queries": "marginals:1", "rounds": "1"},
            exact=Exact(window=(-1, 3), pairs=12),
            sampled=Sampled(runs=1500),
        )


def net() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield table_trial(
            "net",
            relation,
            ("a", "b"),
            settings={"queries": "marginals:2", "points": "2"},
            exact=Exact(pairs=12),
            sampled=Sampled(runs=2000),
        )


def interval_tree() -> Iterator[Trial]:
    column = '[columns.x]\nkind = "integer"\nlower = 0\nupper = 1\n'
    for relation in RELATIONS:
        for tree, window in (("privtree", (-1, 3)), ("dyadic", (-1, 3)), ("binary-search", (0, 2))):
            settings = {"tree": tree, "structure_share": "1/2", "accuracy": "1/2"}
            # a private tree costs less than the sum of its draws: few of them can be moved by one row
            tiers = {"exact": Exact(window=window, root=3, pairs=4), "replay": Replay(adds_up=tree == "dyadic")}
            yield _column_trial("interval-tree", relation, settings, column, "x", ("0", "1"), case=tree, **tiers)


def halfspaces() -> Iterator[Trial]:
    columns = "".join(f'[columns.{name}]\nkind = "real"\nlower = 0\nupper = 1\n' for name in "xy")
    for relation in RELATIONS:
        settings = {"k": "2", "projections": "1", "cells": "4"}
        corners = ("0,0", "0.5,1", "1,0")
        yield _column_trial(
            "halfspaces", relation, settings, columns, "x,y", corners, exact=Exact(window=(-1, 2), pairs=6)
        )  # fmt: skip


def _column_trial(
    method: str,
    relation: str,
    settings: dict[str, str],
    columns: str,
    header: str,
    universe: tuple[str, ...],
    *,
    case: str = "",
    **tiers: Any,
) -> Trial:
    text = schema_text(relation, columns, size=2)
    cost = Cost.pure(1)
    return Trial(
        method=method,
        case=f"{relation}, {case}" if case else relation,
        neighbours=relation,
        claim=cost,
        call=release_call(method, settings, text, cost),
        pairs=csv_pairs(relation, header, universe, rows=2),
        twin=release_twin(method, settings, text, cost),
        sampled=Sampled(runs=1500),
        **tiers,
    )
