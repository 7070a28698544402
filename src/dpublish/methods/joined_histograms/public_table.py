"""A public table of other people, as what joined histograms start from.

In: public rows, coded as the private ones are. Out: pairs of columns that go together there, picked
from the public rows alone; and for each a noisy number of private rows, the check, which tells how
much of that holds for the private rows. Only the check reads private rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.draws import noisy_counts
from dpublish.methods.importance_weights.public_sets import listed, read_source, set_titles
from dpublish.methods.joined_histograms.rounds import room_for
from dpublish.methods.joined_histograms.structure import Edge, LabelledRows
from dpublish.models.junction_tree.cliques import group_levels, level_order
from dpublish.models.junction_tree.consistency import fit_margins, sum_groups
from dpublish.models.junction_tree.fit import join_tables
from dpublish.models.junction_tree.model import Fitted, JunctionModel
from dpublish.models.public_prior import (
    PSEUDO_ROWS,
    PublicPair,
    PublicPrior,
    above_independence,
)
from dpublish.models.public_rows import UNIFORM, PublicSet, encode_public
from dpublish.privacy.budget_split import noise_variance

if TYPE_CHECKING:
    from dpublish.methods.joined_histograms.job import Job

CHECK_PART = Fraction(1, 2)
"""Of `choice_share`: what checks of the public table cost."""
GROUPS = 24
"""Groups of a column in tables of public pairs, at most."""
LEAST_APART = 0.01
"""Share of the public rows that a pair must put elsewhere than the model without it, beyond what
their number explains."""
MORE_ROUNDS = 3
MAX_PAIRS = 128
MAX_CLIQUE, MAX_TREE = 1 << 15, 1 << 18
"""Cells of one clique, and of all, that public pairs may lead to: tables that are counted have to
find room beside them."""
SWEEPS = 3
FEWEST, LOUDEST = 4, 0.15
"""Pairs are left out, but for the first few, until the noise of a check is at most this share of
the rows."""


@dataclass(frozen=True)
class PublicRows:
    """Public rows in the coding of the private ones. `columns` are those that they have, the target
    aside."""

    name: str
    digest: str
    rows: int
    codes: tuple[Ints, ...]
    columns: tuple[int, ...]

    @classmethod
    def of(cls, one: PublicSet, names: Sequence[str], columns: Sequence[str]) -> PublicRows:
        """Encoded public rows over the columns of a domain. Rows with weights stand for as many
        rows as they weigh, so that counts are whole."""
        ends = np.floor(np.cumsum(one.base) * one.rows + 0.5).astype(np.int64)
        times = np.diff(ends, prepend=0)
        there = {
            name: np.repeat(codes.astype(np.int64), times)
            for name, codes in zip(columns, one.codes, strict=True)
        }
        nothing = np.zeros(int(times.sum()), dtype=np.int64)
        return cls(
            one.name,
            one.digest,
            one.rows,
            tuple(there.get(name, nothing) for name in names),
            tuple(place for place, name in enumerate(names) if name in there),
        )

    def facts(self) -> dict[str, Any]:
        """What a plan and a manifest say of the rows."""
        return {"name": self.name, "rows": self.rows, "sha256": self.digest}

    def describe(self, check_share: Fraction) -> str:
        """A sentence for a plan."""
        return (
            f"The model starts from the public table '{self.name}' ({self.rows:,} rows, "
            f"{len(self.columns)} columns beside the target). Its people must be other people: "
            "whoever is in it is not protected as such. How much of what it says holds here is "
            "told by the noisy counts of columns, and for "
            f"{float(check_share):.3g} of the cost by a noisy count for each of up to {MAX_PAIRS} "
            "pairs."
        )

    def regrouped(self, column: int, group_of: Ints) -> PublicRows:
        """The same rows with the levels of one column grouped."""
        codes = list(self.codes)
        if column in self.columns:
            codes[column] = group_of[codes[column]]
        return replace(self, codes=tuple(codes))


def load_public(
    source: object,
    title: str | None,
    schema: Schema,
    domain: Domain,
    target: str | None,
    warnings: list[str],
) -> PublicRows:
    """Read public rows and code them as the private ones will be coded. All of it is public, so
    that errors and warnings may say what was found."""
    (name,) = set_titles([source], [] if title is None else [title])
    if name == UNIFORM and title is None:
        raise PlanError(
            "Rows drawn evenly say nothing about how columns go together: public must be a table "
            "of other people."
        )
    labels = [one for one, column in schema.columns.items() if not column.numeric]
    raw = read_source(source, labels, name)
    known = [axis for axis in domain.axes if axis.name in raw.frame.columns]
    if target is not None and all(axis.name != target for axis in known):
        raise PlanError(
            f"The public rows '{name}' have no column '{target}', which is the target. Add it to "
            "them, or publish with target = 'none'."
        )
    if not [axis for axis in known if axis.name != target]:
        raise PlanError(
            f"The schema and the public rows '{name}' have no column in common. Schema: "
            f"{listed(list(domain.names))}. Public rows: {listed(raw.frame.columns)}. Names must "
            "agree exactly."
        )
    lacking = [axis.name for axis in domain.axes if axis not in known]
    if lacking:
        warnings.append(
            f"Not in the public rows, so nothing is taken from them: {listed(lacking)}."
        )
    one = encode_public(name, raw.frame, known, raw.base)
    if one.dropped:
        undeclared = [axis.name for axis in known if _drops(raw.frame, axis)]
        said = (
            f"{one.dropped:,} of {raw.frame.height:,} public rows of '{name}' have undeclared "
            f"values (in {listed(undeclared)})"
        )
        if 2 * one.dropped > raw.frame.height:
            raise PlanError(f"{said}. Code them as the private rows are coded.")
        warnings.append(f"{said} and are left out.")
    found = PublicRows.of(one, domain.names, [axis.name for axis in known])
    return replace(found, columns=tuple(c for c in found.columns if domain.names[c] != target))


def _drops(frame: Any, axis: Axis) -> bool:
    """Whether some public row is left out for its value of one column."""
    try:
        return encode_public("", frame, [axis]).dropped > 0
    except PlanError:
        return True


def public_prior(
    public: PublicRows, shape: Sequence[int], ordered: Sequence[bool], target: int | None
) -> PublicPrior:
    """What is taken of the public rows: the tables of their columns, and of pairs that go together
    there; the checks are still to come. A function of public rows and of bins."""
    rows = LabelledRows(public.codes, shape, target)
    columns = {c: rows.count_column(c).reshape(-1, rows.labels) for c in public.columns}
    groups = {
        column: group_levels(
            table.sum(axis=1).astype(np.float64),
            level_order(table.astype(np.float64), ordered=ordered[column]),
            GROUPS,
        )
        for column, table in columns.items()
    }
    coded = {column: rows.grouped(column, groups[column]) for column in columns}
    sizes = {column: int(group_of.max()) + 1 for column, group_of in groups.items()}
    counts: dict[Edge, Ints] = {
        (a, b): rows.count_pair(coded[a], coded[b], (sizes[a], sizes[b])).reshape(
            sizes[a], sizes[b], rows.labels
        )
        for a, b in itertools.combinations(columns, 2)
    }
    pairs = tuple(
        PublicPair((a, b), (groups[a], groups[b]), counts[a, b])
        for a, b in telling_pairs(columns, groups, counts, len(shape), target)
    )
    return PublicPrior(public.name, public.rows, public.digest, columns, pairs)


def telling_pairs(
    columns: Mapping[int, Ints],
    groups: Mapping[int, Ints],
    counts: Mapping[Edge, Ints],
    width: int,
    target: int | None,
) -> list[Edge]:
    """Pairs of columns that go together in the public rows, the most telling first: a forest, then
    what the model of all so far gets wrong."""
    singles = {column: table.astype(np.float64) for column, table in columns.items()}
    labels = next(iter(singles.values())).sum(axis=0)
    rows, some = float(labels.sum()), len(columns)
    sizes = {column: int(group_of.max()) + 1 for column, group_of in groups.items()}
    margins = {c: sum_groups(table, groups[c], sizes[c]) for c, table in singles.items()}
    every = [singles.get(c, np.zeros((1, len(labels)))) for c in range(width)]
    chosen: list[Edge] = []
    for number in range(1 + MORE_ROUNDS):
        fitted = [
            Fitted(
                (a, b),
                (groups[a], groups[b]),
                fit_margins(
                    counts[a, b].astype(np.float64) + PSEUDO_ROWS, [margins[a], margins[b]]
                ),
            )
            for a, b in chosen
        ]
        model = join_tables(labels, every, groups, fitted, target=target, sweeps=SWEEPS)
        scores = _scores(model, groups, counts, set(chosen))
        tree, root = model.beliefs.tree, {column: column for column in columns}
        left = some if not number else max(1, some // 2)
        for pair in sorted(scores, key=lambda one: (-scores[one], one)):
            if scores[pair] < LEAST_APART * rows or not left or len(chosen) == MAX_PAIRS:
                break
            circle = not number and root[pair[0]] == root[pair[1]]
            if circle or not room_for(
                tree, sizes, len(labels), {pair}, clique=MAX_CLIQUE, whole=MAX_TREE
            ):
                continue
            tree = tree.joined([pair], sizes)
            chosen.append(pair)
            left -= 1
            old, new = root[pair[1]], root[pair[0]]
            root = {column: new if one == old else one for column, one in root.items()}
    return chosen


def _scores(
    model: JunctionModel,
    groups: Mapping[int, Ints],
    counts: Mapping[Edge, Ints],
    done: set[Edge],
) -> dict[Edge, float]:
    """Public rows in other cells than the model of the pairs so far says, less what chance
    explains."""
    spreads: dict[int, Floats] = {c: model.spread(c, group_of) for c, group_of in groups.items()}
    out = {}
    for first, second, expected in model.pairs(spreads, skip=done):
        apart = np.abs(counts[first, second] - expected).sum()
        chance = np.sqrt(2 / math.pi * np.maximum(0.0, expected)).sum()
        out[first, second] = float(apart - chance) / 2
    return out


def check_pairs(job: Job, prior: PublicPrior, rows: float) -> PublicPrior:
    """The same with a noisy number of private rows for every pair: those in the cells where public
    rows are above independence, for a part of what choices may cost. Only as many pairs are kept as
    can be checked with noise that is small beside the published number of `rows`."""
    pairs = list(prior.pairs)
    while len(pairs) > FEWEST and job.budget.deviation(
        job.settings.check_share / len(pairs)
    ) > LOUDEST * max(1.0, rows):
        pairs.pop()
    share = job.settings.check_share / max(1, len(pairs))
    # a region gains at most the rows that come and loses at most the rows that go: c, under either
    # relation
    sensitivity = Fraction(job.budget.relation.max_rows)
    out = []
    for place, pair in enumerate(pairs):
        coded = [
            job.rows.grouped(column, group_of)
            for column, group_of in zip(pair.columns, pair.groups, strict=True)
        ]
        counts = job.rows.count_together(coded, pair.counts.shape[:2]).reshape(pair.counts.shape)
        inside = np.array([counts[above_independence(pair.counts)].sum()], dtype=np.int64)
        noisy = noisy_counts(
            job.noise,
            job.budget,
            inside,
            share=share,
            sensitivity=sensitivity,
            label=f"check of public pair {place + 1}",
        )
        scale = job.budget.scale_for(sensitivity, share)
        variance = noise_variance(scale, job.budget.law)
        out.append(replace(pair, check=int(noisy[0]), scale=scale, variance=variance))
    return replace(prior, pairs=tuple(out))
