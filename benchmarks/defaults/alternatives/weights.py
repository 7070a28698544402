"""Importance weights: when their plan names choose_pairs = 0, and, for a logistic variant, the
usual one."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from benchmarks.defaults.alternatives.common import Case, Sentence, published, says
from benchmarks.defaults.alternatives.lists import table

import dpublish as dp
from dpublish.privacy.cost import Cost

EPSILONS = ("3/10", "1", "3")
PUBLIC = 1_000
"""Public rows: drawn with chances that lean to one level of one column."""


def public_rows(frame: pl.DataFrame, draw: np.random.Generator) -> pl.DataFrame:
    column = frame.columns[0]
    lean = (frame[column] == frame[column][0]).to_numpy()
    chance = np.where(lean, float(draw.choice([1, 2, 5])), 1.0)
    return frame[draw.choice(frame.height, PUBLIC, p=chance / chance.sum()).tolist()]


def share_error(frame: pl.DataFrame, release: Any) -> float:
    """Points by which the share of a level of a column is off."""
    errors = []
    for name in frame.columns:
        for value, share in frame[name].value_counts(normalize=True).iter_rows():
            errors.append(100 * abs(release.share(f"{name} = '{value}'").value - share))
    return float(np.mean(errors))


def weights_case(
    own: dict[str, Any], named: dict[str, Any], words: str, draw: np.random.Generator
) -> Case:
    frame, schema = table(draw, int(draw.choice([3, 4, 6])), 5)
    cost = Cost.pure(str(draw.choice(EPSILONS)))
    public = public_rows(frame, draw)

    method, other = (dp.ImportanceWeights(public=public, **some) for some in (own, named))

    def errors(seed: int) -> tuple[float, float]:
        one, two = (
            share_error(frame, published(way, schema, cost, frame, seed)) for way in (method, other)
        )
        return one, two

    plan = method.plan(schema, cost)
    facts = {"rows": frame.height, "columns": frame.width, "epsilon": float(cost.epsilon)}
    return Case(warned=says(plan, words), errors=errors, facts=facts)


def _pairs(draw: np.random.Generator) -> Case:
    return weights_case({}, {"choose_pairs": 0}, "choose_pairs = 0 brings them", draw)


def _variant(draw: np.random.Generator) -> Case:
    variant = str(draw.choice(["output", "objective"]))
    return weights_case({"variant": variant}, {}, "variant = moments", draw)


SENTENCES = (
    Sentence(
        method="importance-weights",
        names="choose_pairs = 0 for shares of columns",
        case=_pairs,
        cases=16,
        least=3,
        most=9,
    ),
    Sentence(
        method="importance-weights",
        names="variant = moments (of the logistic ones)",
        case=_variant,
        cases=8,
        least=3,
        most=6,
    ),
)
