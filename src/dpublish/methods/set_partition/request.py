"""What the set-valued methods share: reading a request, the noisy number of transactions, and the
public tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.schema import Schema
from dpublish.declare.taxonomy import Taxonomy
from dpublish.errors import PlanError
from dpublish.methods.set_partition.transactions import Baskets, transaction_unit
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

Number = Fraction | float | int | str
DEFAULT_COUNT_SHARE = Fraction(1, 50)


def check_request(schema: Schema, cost: Cost, what: str) -> None:
    if schema.items is None:
        raise PlanError(
            f"{what} needs set-valued data: a schema with [items]. '{schema.name}' declares "
            f"columns."
        )
    if cost.kind != "pure" or cost.epsilon <= 0:
        raise PlanError(
            f"{what} costs a pure epsilon above 0: give epsilon = ... and leave delta and rho out."
        )


def share_of(value: Number) -> Fraction:
    share = exact(value, "count_share")
    if not 0 <= share < 1:
        raise PlanError(f"count_share must be at least 0 and below 1, not {value}.")
    return share


def described_schema(schema: Schema, basket: str | None) -> Schema:
    """The schema with its unit described in transactions."""
    return replace(schema, unit=transaction_unit(schema, basket))


def base_facts(schema: Schema, cost: Cost, share: Fraction, items: int) -> dict[str, Any]:
    count_epsilon = cost.epsilon * share
    return {
        "items": items,
        "sensitivity": str(schema.relation.l1),
        "count_epsilon": str(count_epsilon),
        "partition_epsilon": str(cost.epsilon - count_epsilon),
    }


def noisy_total(noise: Noise, numbers: Baskets, plan: Plan) -> dict[str, Any]:
    """The number of non-empty transactions, which one unit moves by at most c under either
    relation."""
    epsilon = Fraction(plan.facts["count_epsilon"])
    if epsilon == 0:
        return {"kind": "unknown", "value": None, "scale": None}
    per_unit = Fraction(plan.schema.unit.max_rows)
    answer = noise.laplace(
        np.array([numbers.records], dtype=np.int64),
        sensitivity=per_unit,
        epsilon=epsilon,
        label="total",
    )
    return {"kind": "noisy", "value": int(answer[0]), "scale": str(per_unit / epsilon)}


def taxonomy_tables(taxonomy: Taxonomy, names: Sequence[str]) -> dict[str, dict[str, NDArray[Any]]]:
    """The items in the taxonomy's order, and its nodes: public facts that a reader of the release
    needs."""
    ordered = np.array([names[place] for place in taxonomy.order], dtype=np.str_)
    return {
        "items": {"name": ordered},
        "nodes": {
            "start": taxonomy.start,
            "stop": taxonomy.stop,
            "children": np.diff(taxonomy.child_offset),
        },
        "children": {"child": taxonomy.child},
    }
