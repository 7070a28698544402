"""A curator's process that opens an online session and is killed: `online_child.py FOLDER`.

Reads scenarios, one JSON list [name, crash point, how many times it may be passed] a line, and runs
each in a fork of its own, so that imports and compiled code are loaded once. Every answer is noted
in FOLDER/NAME.shown at the moment it is shown, and what a session starts with in FOLDER/NAME.drawn
at the moment it is drawn. Ends with REFUSED where a ledger or session refuses.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np

import dpublish as dp
from dpublish.arrays import Ints
from dpublish.curator.sessions import answers as online_queries
from dpublish.ledger import crashpoints
from dpublish.methods.online.base import Opening
from dpublish.methods.online.kernels import reweight
from dpublish.methods.online.state import OnlineSettings
from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise

SCHEMA = (
    '[dataset]\nname = "t"\npopulation = "{name}"\n'
    '[columns.a]\nkind = "integer"\nlower = 0\nupper = 14\nbins = 15\nmissing = true\n'
)
QUERIES = ("a < 3", "a < 8", "a >= 12", "a = 5 or a = 6")
REFUSED = 3


class Noted(dp.OnlineMultiplicativeWeights):
    """Notes every draw of what a session starts with."""

    drawn: ClassVar[Path]

    def begin(self, noise: Noise, counts: Ints, settings: OnlineSettings) -> Opening:
        opening = super().begin(noise, counts, settings)
        with self.drawn.open("ab") as file:
            file.write(json.dumps(dict(opening.public), default=str).encode() + b"\n")
        return opening


def session(folder: Path, name: str, point: str, passes: int) -> None:
    import polars as pl

    left = passes

    def hook(reached: str) -> None:
        nonlocal left
        if reached == point:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    rows = pl.DataFrame({"a": [i * i % 15 for i in range(20_000)]})
    with crashpoints.armed(hook):
        curator = dp.Curator(
            rows,
            dp.Schema.from_toml(SCHEMA.format(name=name)),
            ledger=folder / f"{name}.ledger",
            budget=dp.Budget(epsilon=9),
        )
        Noted.drawn = folder / f"{name}.drawn"
        desk = curator.answer_online(Noted(max_hard=4), epsilon=1, key="desk", folder=folder / name)
        for query in QUERIES:
            try:
                shown = desk.ask(query, key=query).to_bytes()
            except dp.BudgetExceeded:
                shown = b'{"label":"halted"}'
            with (folder / f"{name}.shown").open("ab") as file:
                file.write(shown + b"\n")


def warm_up(folder: Path) -> None:
    """Load what every session loads; no frame is touched, because its thread pool would not survive
    a fork."""
    domain = dp.Schema.from_toml(SCHEMA.format(name="warm")).domain(["a"])
    online_queries.predicate_flags(online_queries.checked_selection(QUERIES[0], domain), domain)
    reweight(np.full(2, 0.5), np.ones((1, 2)), np.ones(1), 1)
    noise = SeededNoise(1)
    noise.laplace(
        np.zeros(1, dtype=np.int64),
        sensitivity=dp.Cost.pure(1).epsilon,
        epsilon=dp.Cost.pure("1/7").epsilon,
    )
    dp.open_ledger(folder / "warm.ledger", budget=dp.Budget(epsilon=1), create=True).close()


def main(folder: Path) -> None:
    warm_up(folder)
    for line in sys.stdin:
        name, point, passes = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                session(folder, name, point, passes)
                code = 0
            except dp.BudgetError:
                code = REFUSED
            except BaseException as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(code)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
