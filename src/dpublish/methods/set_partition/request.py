"""What the methods for set-valued data share: reading a request, the noisy number of transactions,
and the public tables of a taxonomy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.schema import Schema
from dpublish.declare.taxonomy import Taxonomy
from dpublish.errors import PlanError
from dpublish.methods.field_types import Interval
from dpublish.methods.set_partition.transactions import Baskets, transaction_unit
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan, Settings

Number = Fraction | float | int | str
Share = Annotated[Number, Interval(0, below=1)]
DEFAULT_COUNT_SHARE = Fraction(1, 50)


def check_request(schema: Schema, cost: Cost, what: str) -> None:
    check_items(schema, what)
    if cost.kind != "pure" or cost.epsilon <= 0:
        raise PlanError(
            f"{what} costs a pure epsilon above 0: give epsilon = ... and leave delta and rho out."
        )


def check_items(schema: Schema, what: str) -> None:
    if schema.items is None:
        raise PlanError(
            f"{what} needs set-valued data: a schema with [items]. '{schema.name}' declares "
            f"columns."
        )


def described_schema(schema: Schema, basket: str | None) -> Schema:
    """The schema with its unit described in transactions."""
    return replace(schema, unit=transaction_unit(schema, basket))


@dataclass(frozen=True, kw_only=True)
class ItemSettings(Settings):
    """How many items there are, how far one unit moves counts of records, and what is paid for the
    number of transactions and for everything else."""

    items: int
    sensitivity: Fraction
    count_epsilon: Fraction
    partition_epsilon: Fraction


def noisy_total(noise: Noise, numbers: Baskets, plan: Plan[ItemSettings]) -> dict[str, Any]:
    """The number of non-empty transactions, which one unit moves by at most c under either
    relation."""
    epsilon = plan.settings.count_epsilon
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
