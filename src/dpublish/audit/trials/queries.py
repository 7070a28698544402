"""Made-up inputs for the methods that answer a whole class of queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpublish.audit.trials.synthetic_inputs import RELATIONS
from dpublish.audit.trials.tables import in_rho, release_trial, table_trial
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial
from dpublish.privacy.cost import Cost


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
    for relation in RELATIONS:
        yield table_trial(
            "workload",
            relation,
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
    for relation in RELATIONS:
        yield table_trial(
            "workload",
            relation,
            ("a", "b"),
            settings={"queries": "marginals:2", "answer": "direct"},
            claim=rho,
            case="Gaussian noise on residuals",
            exact="Gaussian noise has no rational law that could be enumerated",
            sampled=in_rho(rho, runs=1000),
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
    for relation in RELATIONS:
        yield _column_trial(
            "interval-tree",
            relation,
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
