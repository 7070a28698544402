"""What every release method is: a frozen set of parameters with three steps.

    plan(schema, cost)          public facts only; refuses what cannot be published, before anything
                                is spent
    needs(plan)                 which exact private numbers the method wants counted
    run(noise, numbers, plan)   the mechanism: a pure function of its arguments, no I/O, no clock,
                                no globals

The gate calls them in that order and debits the ledger between the first and the second.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.methods.field_types import Checked
from dpublish.noise.base import CellArray, IntArray, Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan


class Statistic:
    """A kind of exact private numbers. The private side knows for each kind how to get it from rows
    (`counting/compute.py`)."""


@dataclass(frozen=True)
class CellCounts(Statistic):
    """A statistic: how many kept rows fall into each cell of `domain`. Answered by
    `SparseCounts`."""

    domain: Domain


@dataclass(frozen=True)
class CodedRows(Statistic):
    """A statistic: the kept rows themselves as codes of `domain`, one array a column. Answered by a
    list of code arrays."""

    domain: Domain


@dataclass(frozen=True)
class SparseCounts:
    """Exact counts of the occupied cells, sorted by cell. Private."""

    cells: CellArray
    counts: IntArray

    def __repr__(self) -> str:  # a repr ends up in tracebacks and logs
        return "SparseCounts(private)"

    @property
    def total(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, kw_only=True)
class Output:
    """What a mechanism publishes: public facts for the manifest, and tables of equal-length
    columns.

    `domain` is set by methods that choose their columns privately; otherwise the plan's domain is
    published.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Mapping[str, NDArray[np.generic]]] = field(default_factory=dict)
    domain: Domain | None = None


class Mechanism(Checked, abc.ABC):
    """A release method. Subclasses are frozen dataclasses with keyword-only fields."""

    method: ClassVar[str]
    """The name on the command line and in manifests: the class name in kebab-case."""

    kind: ClassVar[str]
    """Which class of release its output is read with."""

    @abc.abstractmethod
    def plan(self, schema: Schema, cost: Cost) -> Plan:
        """Price the release and say what to expect. Raises `PlanError` or `SchemaError`; reads no
        row."""

    @abc.abstractmethod
    def statistic(self, plan: Plan) -> Statistic:
        """Which exact private numbers `run` wants."""

    @abc.abstractmethod
    def run(self, noise: Noise, numbers: Any, plan: Plan) -> Output:
        """Turn private numbers into publishable content, with every draw taken from `noise`."""
