"""Linear conditions: when plans of halfspaces name another way than the one that is taken."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
from benchmarks.defaults.alternatives.common import Case, Sentence, log_uniform, published, says
from benchmarks.defaults.halfspaces import SHAPES, asked, made_up, schema_of

import dpublish as dp
from dpublish.privacy.cost import Cost

QUERIES = 4
WAYS = ("tree", "joined", "sectors", "sectors")
APART, EXPECTED = "by = 'joined' is nearer", "is expected to be nearer"


def case_of(
    draw: np.random.Generator, shape: str, columns: int, own: Any, words: str
) -> Case | None:
    """Mean error of halfspaces, in rows, by the way that is taken and by the one that the plan
    names; where it names none by the default, or by the other one if that is taken."""
    rows = int(log_uniform(draw, 1_000, 20_000))
    cost = Cost.pure(str(draw.choice(["3/10", "1", "3"])))
    values = made_up(shape, columns, rows, int(draw.integers(1 << 30)))
    frame = pl.DataFrame(values, schema=[f"c{place}" for place in range(columns)])
    schema = schema_of(columns, rows)
    plan = own.plan(schema, cost)
    usual = "tree" if dp.Halfspaces().plan(schema, cost).kind == dp.IntervalTree.kind else "joined"
    taken = usual if own.by == "best" else own.by
    told = re.search(r"by = '(\w+)' is expected", " ".join(plan.warnings))
    named = told[1] if told else usual
    if named == taken:
        named = "joined" if taken == "tree" else "tree"
    if words == APART and taken != "tree":
        return None
    other = dp.Halfspaces(by=named)  # type: ignore[arg-type]

    def errors(seed: int) -> tuple[float, float]:
        questions = asked(values, QUERIES, seed)
        found = []
        for way in (own, other):
            release = published(way, schema, cost, frame, seed)
            off = [abs(release.estimate(text).value - truth) for text, truth in questions]
            found.append(float(np.mean(off)))
        return found[0], found[1]

    facts = {"shape": shape, "columns": columns, "rows": rows, "epsilon": float(cost.epsilon)}
    facts |= {"by": taken, "named": named}
    return Case(warned=says(plan, words), errors=errors, facts=facts)


def apart_case(draw: np.random.Generator) -> Case | None:
    """Columns that hardly depend on each other, none of them skewed."""
    return case_of(draw, "apart", int(draw.choice([2, 3, 3, 4])), dp.Halfspaces(), APART)


def usual_case(draw: np.random.Generator) -> Case | None:
    """The way that is taken by default, on tables of all shapes."""
    columns, shape = int(draw.choice([2, 3, 4, 6])), str(draw.choice(SHAPES))
    return case_of(draw, shape, columns, dp.Halfspaces(), EXPECTED)


def asked_case(draw: np.random.Generator) -> Case | None:
    """A way that was asked for."""
    way, columns = str(draw.choice(WAYS)), int(draw.choice([2, 3, 4, 6]))
    own = dp.Halfspaces(by=way)  # type: ignore[arg-type]
    return case_of(draw, str(draw.choice(SHAPES)), columns, own, EXPECTED)


SENTENCES = (
    Sentence(
        method="halfspaces",
        names="by = 'joined', if columns are apart and not skewed",
        case=apart_case,
        cases=8,
        least=3,
        most=6,
    ),
    Sentence(
        method="halfspaces",
        names="nothing (tree beside joined)",
        case=usual_case,
        cases=6,
        least=3,
        most=6,
    ),
    Sentence(
        method="halfspaces",
        names="another way than was asked for",
        case=asked_case,
        cases=6,
        least=3,
        most=6,
    ),
)
