"""A joined synopsis: joined histograms of all columns that a session buys when it is opened, for
domains of which no histogram of all cells can be kept.

In: the rows as codes of all columns (private), once. Out: the *support*, synthetic rows of a model
that was fitted to the noisy tables, on which the session's histogram stands from then on. How wrong
the model is on a query is not known beforehand; so every query is compared with the data, by the
sparse vector, and hard answers reweight the support.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.joined_histograms.mechanism import JoinedHistograms, joined_histograms
from dpublish.methods.joined_histograms.plan import JoinedSettings
from dpublish.models.junction_tree.fit import fit_model
from dpublish.models.junction_tree.measured import read_measured
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

SUPPORT = 1 << 16
"""Rows of the support."""
STRAY_PART = 16
"""One row of the support in so many has levels that were drawn evenly: what the model thinks is
not there can still be learnt."""
STRAY_WEIGHT = 1e-3
"""What all of those weigh together at the start."""
SHARE = Fraction(1, 2)
"""Of epsilon, for the joined histograms (benchmarks/defaults/online_wide.py)."""
HARD = 10
"""Hard answers of a session that says no number: with more, more noise hides what is wrong; with
fewer, or with a larger share, some sessions there ended before their questions did."""
BINS = 32
MAX_CODES = 1 << 27
"""Codes of all rows that a session keeps for its hard answers: 1 GiB."""


def plan_of(
    schema: Schema, epsilon: Fraction, names: Sequence[str], bins: int | None, rows: int
) -> Plan[JoinedSettings]:
    """The plan of the joined histograms, without a target and with bins that are known before."""
    if rows * len(names) > MAX_CODES:
        raise PlanError(
            f"A session keeps the codes of all rows; {rows:,} rows of {len(names)} columns are "
            f"more than {MAX_CODES:,}. Choose fewer columns, or publish joined-histograms instead."
        )
    return method_of(names, bins).plan(schema, Cost.pure(epsilon))


def method_of(names: Sequence[str], bins: int | None) -> JoinedHistograms:
    return JoinedHistograms(
        columns=names,
        target="none",
        bins=BINS if bins is None else bins,
        noise="laplace",
        bin_share=0,
        misfit_share=0,
    )


def draw_support(
    noise: Noise, rows: Sequence[Ints], plan: Plan[JoinedSettings], size: int
) -> list[str]:
    """The support as it stands in a session's header: the codes of each column in base64. But for
    the joined histograms everything here is a function of public numbers."""
    made = joined_histograms(noise, list(rows), plan)
    measured = read_measured(plan.settings.fine, made.facts, made.tables)  # type: ignore[arg-type]
    model = fit_model(
        measured.columns,
        measured.tables,
        target=None,
        total=measured.total,
        version=measured.version,
        zeros=measured.zeros,
    )
    stray = size // STRAY_PART
    likely = model.seeded_codes(size - stray, seed=0)
    domain = plan.settings.fine
    return [
        base64.b64encode(
            np.concatenate([codes, even]).astype(_width(axis.cardinality)).tobytes()
        ).decode()
        for codes, even, axis in zip(likely, stray_codes(domain, stray), domain.axes, strict=True)
    ]


def _width(levels: int) -> str:
    return "<u2" if levels <= 1 << 16 else "<u4"


def stray_codes(domain: Domain, count: int) -> list[Ints]:
    """Levels of every column, mixed evenly and without order (a multiplicative hash of places)."""
    out = []
    for place, axis in enumerate(domain.axes):
        words = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words ^= np.uint64((place + 1) * 0xD1B54A32D192ED03 % 2**64)
        words = (words ^ (words >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
        out.append(((words >> np.uint64(33)) % np.uint64(axis.cardinality)).astype(np.int64))
    return out


def read_support(public: Mapping[str, Any], domain: Domain) -> Ints:
    """The support of a session, one row per column of the domain."""
    columns = [
        np.frombuffer(base64.b64decode(one), dtype=_width(axis.cardinality))
        for one, axis in zip(public["support"], domain.axes, strict=True)
    ]
    return np.stack([column.astype(np.int64) for column in columns])


def first_weights(size: int) -> Any:
    """What each row of the support weighs at the start, one in all."""
    stray = size // STRAY_PART
    likely = np.full(size - stray, (1 - STRAY_WEIGHT) / (size - stray))
    return np.concatenate([likely, np.full(stray, STRAY_WEIGHT / max(1, stray))])
