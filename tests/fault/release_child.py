"""A curator's process that the fault tests kill: `release_child.py FOLDER KEY CRASHPOINT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import polars as pl

import dpublish as dp
from dpublish.curator import gate

SCHEMA = '[dataset]\nname = "t"\n[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\n'


def main(folder: Path, key: str, crashpoint: str) -> None:
    def reach(name: str) -> None:
        if name == crashpoint:
            os.kill(os.getpid(), signal.SIGKILL)

    gate.reach = reach  # type: ignore[attr-defined]
    rows = pl.DataFrame({"a": ["x", "y", "y"] * 100})
    curator = dp.Curator(
        rows, dp.Schema.from_toml(SCHEMA), ledger=folder / "t.ledger", budget=dp.Budget(epsilon=100)
    )
    curator.publish(dp.Histogram(), epsilon=1, key=key, out=folder / f"{key}.dpr")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
