"""What the steps of joined histograms share: the job with its private rows, and what was measured
so far."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.statistic import Private, Tabulator
from dpublish.methods.draws import noisy_counts
from dpublish.methods.joined_histograms.plan import JoinedSettings
from dpublish.methods.joined_histograms.public_table import PublicRows, public_prior
from dpublish.methods.joined_histograms.rounds import Columns
from dpublish.methods.joined_histograms.structure import (
    Edge,
    Labelled,
    LabelledRows,
    LabelledTables,
    Published,
    table_parts,
    without_labels,
)
from dpublish.methods.joined_histograms.workload import declared_triples
from dpublish.models.junction_tree.cliques import Zeros, structural_zeros
from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable, fit_model
from dpublish.models.junction_tree.known_sums import KnownSum, known_sums
from dpublish.models.junction_tree.measured import ordered_widths
from dpublish.models.junction_tree.model import JunctionModel
from dpublish.models.public_prior import PublicPrior
from dpublish.noise.base import Noise
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.privacy.plan import Plan


@dataclass(frozen=True, repr=False)
class Job(Private):
    """What all steps share: the noise, the rows (private), the budget, and the plan's settings."""

    noise: Noise
    rows: Labelled
    budget: BudgetSplit
    settings: JoinedSettings
    columns: tuple[int, ...]
    domain: Domain
    zeros: tuple[Zeros, ...] = ()
    public: PublicRows | None = None
    prior: PublicPrior | None = None

    @property
    def known(self) -> tuple[KnownSum, ...]:
        """The public totals, as sums over the cells of columns: public."""
        sums = known_sums(self.settings.totals, self.domain, self.settings.target_index)
        return tuple(one for one in sums if one is not None)

    @classmethod
    def of(cls, noise: Noise, codes: Any, plan: Plan[JoinedSettings]) -> Job:
        settings = plan.settings
        budget = BudgetSplit(
            settings.noise, settings.amount, plan.schema.relation, settings.extra_variance
        )
        target, triples = settings.target_index, declared_triples(settings)
        rows: Labelled = (
            LabelledTables(codes, target, settings.features, triples)
            if isinstance(codes, Tabulator)
            else LabelledRows(codes, settings.fine.shape, target)
        )
        zeros = structural_zeros(settings.domain.rules, settings.fine, target)
        return cls(
            noise, rows, budget, settings, settings.features, settings.fine, zeros, settings.public
        )

    def with_prior(self) -> Job:
        """The same with what is taken of the public rows, where there are any: public."""
        if self.public is None:
            return self
        ordered = [axis.ordered for axis in self.domain.axes]
        target = self.settings.target_index
        return replace(self, prior=public_prior(self.public, self.domain.shape, ordered, target))

    def cells(self, known: Published, deviation: float) -> float:
        """How many cells a table with noise of this deviation may have: from published numbers."""
        return float(known.labels.sum()) / (float(self.settings.cell_deviations) * deviation)

    def model(self, columns: MeasuredColumns, tables: Tables) -> JunctionModel:
        """The model that a reader fits to what was published so far."""
        return fit_model(
            columns.published(self),
            tables.measured,
            target=self.settings.target_index,
            total=self.settings.public_rows,
            zeros=self.zeros,
            known=self.known,
            prior=self.prior,
        )


@dataclass(frozen=True)
class MeasuredColumns:
    """The noisy counts of every column by label, and what part of the budget each had."""

    counts: Mapping[int, Ints]
    shares: Mapping[int, Fraction]

    def published(self, job: Job) -> list[MeasuredColumn | None]:
        """The noisy columns as a reader gets them, one per column of the domain; None for the
        target."""
        axes = job.domain.axes
        out: list[MeasuredColumn | None] = [None] * len(axes)
        for column, counts in self.counts.items():
            out[column] = MeasuredColumn(
                counts.reshape(-1, job.rows.labels).astype(np.float64),
                job.budget.variance(self.shares[column]),
                ordered_widths(axes[column]),
            )
        return out


@dataclass
class Tables:
    """The joint tables published so far, what part of the budget each had, and how many each round
    had."""

    measured: list[MeasuredTable] = field(default_factory=list)
    parts: list[Fraction] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def measure(
        self,
        job: Job,
        chosen: Sequence[Columns],
        groups: Sequence[tuple[Ints, ...]],
        by_label: Sequence[bool],
        part: Fraction,
        *,
        name: str,
    ) -> list[MeasuredTable]:
        """Count pairs or triples over groups, with noise, for `part` of the share of the pairs
        together."""
        shapes = [tuple(int(side.max()) + 1 for side in sides) for sides in groups]
        labels = [job.rows.labels if apart else 1 for apart in by_label]
        cells = [math.prod(shape) * count for shape, count in zip(shapes, labels, strict=True)]
        parts = table_parts(job.budget.law, cells) if chosen else []
        parts = [part * job.settings.pair_share * one for one in parts]
        fresh = []
        for place, (columns, sides, shape, count, share) in enumerate(
            zip(chosen, groups, shapes, labels, parts, strict=True)
        ):
            coded = [
                job.rows.grouped(column, side) for column, side in zip(columns, sides, strict=True)
            ]
            counted = job.rows.count_together(coded, shape)
            if count < job.rows.labels:
                counted = without_labels(counted, job.rows.labels)
            noisy = noisy_counts(
                job.noise, job.budget, counted, share=share, label=f"{name} {place + 1}"
            )
            counts = noisy.reshape(*shape, count).astype(np.float64)
            fresh.append(
                MeasuredTable(columns, sides, counts, job.budget.variance(share), len(self.sizes))
            )
        self.measured += fresh
        self.parts += parts
        self.sizes.append(len(chosen))
        return fresh

    def pairs(self, labels: int) -> set[Edge]:
        """The pairs of columns that some table holds by label."""
        return {
            pair
            for table in self.measured
            if table.by_label(labels)
            for pair in itertools.combinations(sorted(table.columns), 2)
        }
