"""dpublish, all the way: plan, debit, code the rows, noise, seal, open, fit, draw as many rows as
there were."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from peer import Task, task

import dpublish as dp

FRESH = 9026
"""Seeds start here, so that no noise is reported on that some default was chosen with."""


def publish(given: Task, schema: dp.Schema, frame: pl.DataFrame, epsilon: str) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DPUBLISH_STATE"] = str(Path(folder) / "state")
        budget = dp.Budget(epsilon=1000, delta="1e-3")
        curator = dp.Curator(frame, schema, ledger=Path(folder) / "bench.ledger", budget=budget)
        given.start()
        amounts = (
            {"epsilon": epsilon}
            if "pure" in given.words
            else {"epsilon": epsilon, "delta": sys.argv[4]}
        )
        release: Any = curator.publish(dp.JoinedHistograms(), seed=FRESH + given.seed, **amounts)
        if "raw" in given.words:
            drawn = release.to_frame(frame.height, seed=given.seed)
            return drawn.select(pl.col(frame.columns).cast(pl.Float64)).to_numpy()
        return np.stack(release.codes(frame.columns, frame.height, seed=given.seed), axis=1)


def main() -> None:
    given = task()
    held, raw = np.load(sys.argv[1]), "raw" in given.words
    schema = dp.Schema.from_toml(str(held["raw_schema" if raw else "schema"]))
    rows = held["values"] if raw else given.codes
    frame = pl.DataFrame(
        {
            name: rows[:, i] if raw and column.numeric else rows[:, i].astype(int).astype(str)
            for i, (name, column) in enumerate(schema.columns.items())
        }
    )
    publish(
        given, schema, frame[:100], "1"
    )  # leaves compiled code in the cache, as after the first use
    given.answer(**{"values" if raw else "rows": publish(given, schema, frame, sys.argv[3])})


if __name__ == "__main__":
    main()
