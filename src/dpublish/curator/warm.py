"""Everything is imported and compiled before anything is paid for.

A method that runs for the first time on a machine compiles for seconds. `warm` lets it do so on
stand-in rows, drawn from the schema, before the debit: the same plan, the same kind of file, noise
from a fixed seed, and the result thrown away. A stamp beside the compiled code says that this was
done, so that it is done once; where nothing can be kept, each process does it. `warm_methods` is
for images and servers.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import os
import platform
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from dpublish.declare.columns import Bound, Column
from dpublish.declare.schema import Schema
from dpublish.errors import PublishError, did_you_mean
from dpublish.quiet import no_logs, quiet_native_code

if TYPE_CHECKING:
    from dpublish.declare.statistic import Statistic
    from dpublish.methods.base import Mechanism, Output
    from dpublish.privacy.plan import Plan
    from dpublish.sources.sources import Source

_ROWS: Final = 600
_done: set[str] = set()


def warm(mechanism: Mechanism, plan: Plan, source: Source, *, say: Any = None) -> bool:
    """Compile what a release of this plan from such a source runs. Whether there was anything to
    do. Nothing of the source is read, and whatever fails here fails again, and is told, later."""
    stamp = _stamp(plan, type(source).__name__)
    if stamp in _done or ((kept := _folder()) is not None and (kept / stamp).exists()):
        return False
    if say is not None:
        say("compiling")
    with suppress(Exception), tempfile.TemporaryDirectory(prefix="dpublish-") as folder:
        rows = stand_in(plan, source, Path(folder), mechanism.statistic(plan))
        with quiet_native_code(), no_logs():
            run_seeded(mechanism, plan, rows, 0)
    _done.add(stamp)
    if (kept := _folder()) is not None:
        with suppress(OSError):
            (kept / stamp).touch()
    return True


def warm_methods(names: Iterable[str] | None = None) -> dict[str, str]:
    """Compile the methods of `dpublish release` and `dpublish solve` with their default settings,
    for CSV files and frames. What was done, by method."""
    from dpublish.catalogue import methods
    from dpublish.privacy.cost import Cost
    from dpublish.sources.sources import open_source

    known = methods("release", "solve")
    for name in names or ():
        if name not in known:
            raise PublishError(
                f"'{name}' is no method of 'release' or 'solve'.{did_you_mean(name, known)}"
            )
    done: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="dpublish-") as folder:
        lines = Path(folder) / "rows.csv"
        lines.write_text("a\n")
        for name in names or known:
            done[name] = "needs settings of its own: the first release compiles it, unpaid"
            for text in _SCHEMAS:
                with suppress(Exception):
                    mechanism = _mechanism(name, known[name].door)
                    plan = mechanism.plan(Schema.from_toml(text), Cost.pure(1))
                    for data in (lines, pl.DataFrame({"a": ["x"]})):
                        warm(mechanism, plan, open_source(data))
                    done[name] = "ready"
    return done


_SOME: Final[dict[str, tuple[Bound, Bound]]] = {
    "date": (dt.date(2020, 1, 1), dt.date(2020, 12, 31)),
    "timestamp": (dt.datetime(2020, 1, 1), dt.datetime(2020, 12, 31)),
}
_SCHEMAS: Final = (
    '[dataset]\nname = "warm"\nneighbours = "add-remove-one"\nnominal_size = 60\nunit = "who"\n'
    'max_rows_per_unit = 2\n[columns.a]\nkind = "categorical"\nlevels = ["x"]\ndiscover = true\n'
    '[columns.b]\nkind = "integer"\ndiscover = true\n',
    '[dataset]\nname = "warm"\nneighbours = "add-remove-one"\nnominal_size = 60\ntarget = "c"\n'
    '[columns.a]\nkind = "categorical"\nlevels = ["x", "y", "z"]\n'
    '[columns.b]\nkind = "integer"\nlower = 0\nupper = 99\nbins = 10\n'
    '[columns.c]\nkind = "boolean"\n',
    '[dataset]\nname = "warm"\nnominal_size = 60\n[items]\nuniverse = ["x", "y", "z"]\n',
)


def _mechanism(name: str, door: str) -> Any:
    from dpublish.methods.registry import method_from_settings

    if door != "solve":
        return method_from_settings(name, {})
    from dpublish import optimize
    from dpublish.methods.solvers.inputs import lists_of

    made: dict[str, Callable[[], Any]] = {
        "min-cut": lambda: optimize.MinCut(vertices=12),
        "vertex-cover": lambda: optimize.VertexCover(vertices=12),
        "set-cover": lambda: optimize.SetCover(sets=lists_of([[0, 1], [1, 2]]), elements=3),
        "k-median": lambda: optimize.KMedian(
            k=2, metric=optimize.Metric.euclidean(np.arange(24.0).reshape(12, 2))
        ),
        "public-projects": lambda: optimize.PublicProjects(k=2, resources=5),
    }
    return made[name]()


def run_seeded(mechanism: Mechanism, plan: Plan, rows: Source, seed: int) -> Output:
    """Count rows that nobody gave, and run with noise from a fixed seed: no ledger, no guard."""
    from dpublish.counting.compute import compute
    from dpublish.noise.source import SeededNoise

    noise = SeededNoise(seed)
    key = noise.key(label="rows of a unit")
    numbers = compute(mechanism.statistic(plan), rows, plan.schema, key=key, progress=None)
    return mechanism.run(noise, numbers, plan)


def stand_in(
    plan: Plan, source: Source, folder: Path, statistic: Statistic | None = None
) -> Source:
    """A source of the same kind with rows that are drawn from the schema, or from the public names
    of a solver."""
    from dpublish.curator.rehearse import stand_in as drawn
    from dpublish.sources.csv.delimited import DelimitedFile
    from dpublish.sources.sources import TransactionLines, open_source

    frame = _named(statistic)
    if frame is None:
        columns = {name: _complete(column) for name, column in plan.schema.columns.items()}
        frame = drawn(replace(plan.schema, columns=columns, size=_ROWS, nominal_size=_ROWS))
    elif frame.schema.get("items") is not None:
        return open_source(frame)  # a text file holds no lists
    if isinstance(source, TransactionLines):
        lines = "\n".join(" ".join(items) for items in frame["items"])
        (folder / "rows.txt").write_text(lines, encoding="utf-8")
        return TransactionLines(folder / "rows.txt")
    if isinstance(source, DelimitedFile):
        frame.write_csv(folder / "rows.csv")
        return open_source(folder / "rows.csv")
    return open_source(frame)


def _named(statistic: Statistic | None) -> pl.DataFrame | None:
    """Edges, items or lists of public names; None for what is asked of a table."""
    from dpublish.methods.solvers.inputs import AgentLists, GraphEdges, PresentItems

    if not isinstance(statistic, AgentLists | GraphEdges | PresentItems):
        return None
    names = list(statistic.labels or map(str, range(statistic.size)))[:_ROWS]
    if isinstance(statistic, GraphEdges):
        return pl.DataFrame({"source": names, "target": [*names[1:], names[0]]})
    if isinstance(statistic, PresentItems):
        return pl.DataFrame({"item": names})
    return pl.DataFrame({"items": [names[i : i + 3] for i in range(len(names))]})


def _complete(column: Column) -> Column:
    """A column of which levels or bounds are still to be found, with some."""
    if not column.discover:
        return column
    if not column.numeric:
        return replace(column, discover=False, levels=column.levels or ("x", "y"))
    bounds = _SOME.get(column.kind, (0, 99))
    lower, upper = (column.lower, column.upper) if column.edges is None else (None, None)
    return replace(
        column,
        discover=False,
        lower=bounds[0] if lower is None else lower,
        upper=bounds[1] if upper is None else upper,
    )


def _folder() -> Path | None:
    """Where compiled code is kept, if anywhere."""
    from dpublish.noise.select import sieve

    kept = getattr(getattr(sieve, "_cache", None), "cache_path", None)
    return Path(kept) if kept and os.access(kept, os.W_OK) else None


def _stamp(plan: Plan, source: str) -> str:
    """What the compiled code depends on: the method and its settings, the kind of source, the code
    and the machine."""
    import numba

    files = [path.stat() for path in Path(__file__).parents[1].rglob("*.py")]
    facts = [
        plan.method,
        dict(plan.parameters),
        plan.cost.kind,
        plan.schema.neighbours,
        plan.schema.unit.column is not None,
        source,
        len(files),
        max(one.st_mtime_ns for one in files),
        sum(one.st_size for one in files),
        numba.__version__,
        platform.python_version(),
        platform.machine(),
        platform.processor(),
    ]
    text = json.dumps(facts, sort_keys=True, default=str)
    return f"dpublish-warm-{hashlib.sha256(text.encode()).hexdigest()[:24]}"
