"""A curator's process that makes releases and is killed or stopped: `release_child.py FOLDER`.

Reads commands, one JSON list a line, and runs each release in a fork of its own, so that imports
are loaded once: ["run", ledger, key, crash point, signal] answers with the exit code, or with
"stopped PID"; ["wake", PID] lets a stopped one go on, and answers with its exit code.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

import dpublish as dp
from dpublish.ledger import crashpoints
from dpublish.noise.source import SeededNoise

SCHEMA = (
    '[dataset]\nname = "t"\npopulation = "{name}"\n'
    '[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\n'
)


def release(folder: Path, name: str, key: str, point: str, number: int) -> None:
    import polars as pl

    def hook(reached: str) -> None:
        if reached == point:
            os.kill(os.getpid(), number)

    rows = pl.DataFrame({"a": ["x", "y", "y"] * 100})
    with crashpoints.armed(hook):
        curator = dp.Curator(
            rows,
            dp.Schema.from_toml(SCHEMA.format(name=name)),
            ledger=folder / f"{name}.ledger",
            budget=dp.Budget(epsilon=1000),
        )
        curator.publish(
            dp.Histogram(), epsilon=1, key=key, out=folder / f"{name}-{key}.dpr", again=True
        )


def ended(child: int) -> str:
    _, status = os.waitpid(child, os.WUNTRACED)
    return f"stopped {child}" if os.WIFSTOPPED(status) else str(os.waitstatus_to_exitcode(status))


def main(folder: Path) -> None:
    # loaded before the forks; no frame is touched, because its thread pool would not survive one
    noise = SeededNoise(1)
    one = dp.Cost.pure(1).epsilon
    noise.laplace(np.zeros(1, dtype=np.int64), sensitivity=one, epsilon=one)
    for line in sys.stdin:
        verb, *words = json.loads(line)
        if verb == "wake":
            os.kill(words[0], signal.SIGCONT)
            print(ended(words[0]), flush=True)
            continue
        child = os.fork()
        if child == 0:
            code = 1
            try:
                release(folder, *words)
                code = 0
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(code)
        print(ended(child), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
