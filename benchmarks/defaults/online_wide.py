"""What share of epsilon a session over many columns pays for its joined histograms, and how many
hard answers it can give: the choice of `methods/online/joined.SHARE` and `HARD`.

    python -m benchmarks.defaults.online_wide [--seeds 2] [--questions 120] [--json FILE]

Generated tables alone: columns that follow a hidden kind, and one that is the sum of two others,
which no pair of columns tells. Every line has the mean error in rows, the promise, and beside them
the obvious alternative: joined histograms at the whole epsilon, released once and asked the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp
from dpublish.curator.rehearse import release_of
from dpublish.curator.sessions.answers import read_query
from dpublish.methods.online import joined
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.sources.sources import open_source

SHARES = ("1/4", "1/2", "2/3", "3/4")
HARD = (5, 10, 30)
TABLES = ((30_000, 8, 6), (5_000, 12, 4), (100_000, 10, 8))
"""Rows, columns, levels of each."""
ALTERNATIVE = "a release"


def table(rows: int, columns: int, levels: int, seed: int) -> np.ndarray[Any, Any]:
    draw = np.random.default_rng(seed)
    kind = draw.integers(3, size=rows)
    made = [(kind + draw.geometric(0.5, rows) - 1) % levels for _ in range(columns - 1)]
    return np.stack([*made, (made[0] + made[1]) % levels])


def schema(rows: int, columns: int, levels: int) -> dp.Schema:
    named = json.dumps([f"v{level}" for level in range(levels)])
    text = f'[dataset]\nname = "wide"\nneighbours = "replace-one"\nsize = {rows}\n'
    for place in range(columns):
        text += f'[columns.c{place}]\nkind = "categorical"\nlevels = {named}\n'
    return dp.Schema.from_toml(text)


def asked(count: int, columns: int, levels: int, seed: int) -> Iterator[list[tuple[int, int]]]:
    draw = np.random.default_rng(seed)
    for _ in range(count):
        chosen = draw.choice(columns, draw.integers(1, 4), replace=False)
        yield [(int(column), int(draw.integers(levels))) for column in chosen]


def session(codes: Any, plan: Any, method: Any, questions: Any, seed: int) -> tuple[float, int]:
    """The mean error, and how many questions were answered before the session ended."""
    noise = SeededNoise(seed)
    opening = method.begin(noise, codes, plan.settings)
    state = method.state(plan.settings, opening.public)
    errors: list[float] = []
    for condition, truth in questions:
        query = read_query(condition, plan.settings.domain, state.resolution, state.codes)
        reply = state.answer(noise, codes, opening.threshold, query)
        state.learn(query, reply)
        errors.append(abs(reply.value - truth))
        if state.halted:
            break
    return float(np.mean(errors)), len(errors)


def measured(seeds: int, count: int) -> Iterator[dict[str, Any]]:
    for rows, columns, levels in TABLES:
        declared = schema(rows, columns, levels)
        lines: dict[tuple[str, int], list[tuple[float, int, float]]] = {}
        for seed in range(seeds):
            codes = table(rows, columns, levels, seed)
            questions = [
                (
                    " and ".join(f"c{column} = 'v{level}'" for column, level in one),
                    int(np.all([codes[column] == level for column, level in one], axis=0).sum()),
                )
                for one in asked(count, columns, levels, 1000 + seed)
            ]
            for share in SHARES:
                for hard in HARD:
                    method = dp.OnlineMultiplicativeWeights(
                        synopsis="joined", synopsis_share=share, max_hard=hard
                    )
                    try:
                        plan = method.plan(declared, Cost.pure(1))
                    except dp.PlanError:  # a promise that says nothing
                        continue
                    error, answered = session(codes, plan, method, questions, seed)
                    promise = plan.settings.accuracy * rows
                    lines.setdefault((share, hard), []).append((error, answered, promise))
            frame = pl.DataFrame(
                {f"c{place}": [f"v{code}" for code in one] for place, one in enumerate(codes)}
            )
            release = dp.JoinedHistograms(target="none")
            made = release_of(
                release, release.plan(declared, Cost.pure(1)), open_source(frame), seed
            )
            error = np.mean([abs(made.estimate(text).value - truth) for text, truth in questions])
            lines.setdefault((ALTERNATIVE, 0), []).append((float(error), count, float("nan")))
        for (share, hard), found in lines.items():
            mean = np.mean(found, axis=0)
            yield {
                "rows": rows,
                "columns": columns,
                "share": share,
                "hard": hard,
                "error": round(float(mean[0]), 1),
                "answered": round(float(mean[1]), 1),
                "promise": None if np.isnan(mean[2]) else round(float(mean[2])),
                "default": share == str(joined.SHARE) and hard == joined.HARD,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--questions", type=int, default=120)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    lines = []
    for line in measured(given.seeds, given.questions):
        lines.append(line)
        print(line, flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
