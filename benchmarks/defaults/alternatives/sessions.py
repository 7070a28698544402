"""Sessions: when a plan names joined histograms. Over few cells a session buys a noisy histogram
and names nothing; over many it buys joined histograms for half of its epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from benchmarks.defaults.alternatives.common import Case, Sentence, log_uniform, published, says
from benchmarks.defaults.online_wide import asked, schema, session, table

import dpublish as dp
from dpublish.privacy.cost import Cost

QUESTIONS = 20


def online_case(draw: np.random.Generator) -> Case:
    wide = bool(draw.random() < 0.5)
    columns = int(draw.integers(7, 11)) if wide else max(3, int(draw.integers(2, 5)))
    levels, rows = int(draw.integers(5, 7)), int(log_uniform(draw, 3_000, 30_000))
    cost, seed = Cost.pure(str(draw.choice(["1", "3"]))), int(draw.integers(1 << 30))
    declared, codes = schema(rows, columns, levels), table(rows, columns, levels, seed)
    method = dp.OnlineMultiplicativeWeights()
    plan = method.plan(declared, cost)
    questions = [
        (
            " and ".join(f"c{column} = 'v{level}'" for column, level in one),
            int(np.all([codes[column] == level for column, level in one], axis=0).sum()),
        )
        for one in asked(QUESTIONS, columns, levels, seed)
    ]
    frame = pl.DataFrame(
        {f"c{place}": [f"v{code}" for code in one] for place, one in enumerate(codes)}
    )
    rest = dp.JoinedHistograms(target="none")
    numbers: Any = codes
    if plan.settings.support is None:
        numbers = cells_of(codes, tuple(len(axis.labels) for axis in plan.settings.domain.axes))

    def errors(run: int) -> tuple[float, float]:
        own, _ = session(numbers, plan, method, questions, run)
        release = published(rest, declared, cost, frame, run)
        off = [abs(release.estimate(text).value - truth) for text, truth in questions]
        return own, float(np.mean(off))

    facts = {"rows": rows, "columns": columns, "levels": levels, "epsilon": float(cost.epsilon)}
    return Case(warned=says(plan, "joined-histograms, released at"), errors=errors, facts=facts)


def cells_of(codes: np.ndarray[Any, Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Counts of all cells."""
    places = np.ravel_multi_index(tuple(codes), shape)
    return np.bincount(places, minlength=int(np.prod(shape))).astype(np.int64)


SENTENCES = (
    Sentence(
        method="online-multiplicative-weights",
        names="joined-histograms",
        case=online_case,
        cases=6,
        least=3,
        most=4,
    ),
)
