"""What every release method is: a frozen set of parameters with three steps.

    plan(schema, cost)          public facts only; refuses what cannot be published, before anything
                                is spent
    statistic(plan)             which exact private numbers the method wants counted
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

from dpublish.catalogue import CATALOGUE
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CellCounts, CodedRows, SparseCounts, Statistic
from dpublish.methods.field_types import Checked
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

__all__ = ["CellCounts", "CodedRows", "Mechanism", "Output", "SparseCounts", "Statistic"]


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
    """A release method. Subclasses are frozen dataclasses with keyword-only fields.

    >>> from dpublish import Histogram
    >>> isinstance(Histogram(columns=["age"]), Mechanism)
    True
    """

    method: ClassVar[str]
    """The name on the command line and in manifests: the class name in kebab-case."""

    kind: ClassVar[str]
    """Which class of release its output is read with."""

    def __init_subclass__(cls, **rest: Any) -> None:
        """Name and kind stand in the catalogue, and only there."""
        super().__init_subclass__(**rest)
        home = f"{cls.__module__}:{cls.__name__}"
        for one in CATALOGUE:
            if one.mechanism == home and one.kind is not None:
                cls.method, cls.kind = one.name, one.kind

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
