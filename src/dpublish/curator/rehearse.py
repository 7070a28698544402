"""A whole release on stand-in rows: what to expect, before anything is spent.

Stand-in rows are drawn from the schema, or are a table that is public anyway. The mechanism runs as
it would, with seeded noise, and its answers stand beside the truth about the stand-in. No ledger
is opened and nothing of this is about the private data; what comes out says so.

That a release of a file was paid for makes the file private: `remember` keeps the hash of its
path, and a rehearsal on a file that is known so is refused.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.curator.formats import item_lists
from dpublish.curator.guard import guarded
from dpublish.curator.seal import build_manifest
from dpublish.curator.warm import run_seeded
from dpublish.declare.calendar import Moment, number_of, series_of, spelled
from dpublish.declare.columns import Column
from dpublish.declare.domain import Domain, resolve_axis
from dpublish.declare.encode import Encoder
from dpublish.declare.schema import Schema
from dpublish.errors import InputError, PlanError
from dpublish.ledger.base import Receipt
from dpublish.ledger.state import is_remembered
from dpublish.methods.base import Mechanism
from dpublish.noise.words import SeededStream
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan
from dpublish.query.constants import quoted
from dpublish.releases.base import release_class
from dpublish.releases.frames import frame_of
from dpublish.sources.sources import LINE_COLUMN, Source, open_source

NOT_ABOUT = (
    "A rehearsal: all numbers are about stand-in rows, none is about the private data. Answers on "
    "the data may be wider or narrower."
)
ROWS = 10_000
"""Stand-in units where the schema declares no number."""

_MAX_ROWS = 1 << 20
_FINE = 1024
_SEED = 1


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One question at one cost: what is expected, beside the truth about the stand-in rows."""

    question: str
    epsilon: str
    truth: float
    value: float
    standard_error: float
    low: float
    high: float
    level: float
    error: float
    """The typical difference between estimates and the truth, over the runs."""
    margin: float
    """Half the width of the interval, on average over the runs."""


@dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What a release would look like at some costs. Not about the private data."""

    dataset: str
    method: str
    rows: int
    stand_in: str
    plans: tuple[Plan, ...]
    answers: tuple[Answered, ...]
    releases: tuple[Any, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "not_about_the_data": NOT_ABOUT,
            "dataset": self.dataset,
            "method": self.method,
            "stand_in": self.stand_in,
            "rows": self.rows,
            "answers": [vars(one) for one in self.answers],
            "plans": [plan.to_json() for plan in self.plans],
        }


def rehearse(
    mechanism: Mechanism,
    schema: Schema,
    costs: Sequence[Cost],
    *,
    questions: Sequence[str] = (),
    public: str | Path | None = None,
    level: float = 0.95,
    runs: int = 3,
    progress: Callable[[str], None] = lambda step: None,
) -> Rehearsal:
    """Run the mechanism at every cost on stand-in rows, and ask it the questions."""
    if public is not None and is_remembered(public):
        raise InputError(
            f"'{public}' is private: a ledger on this machine has paid for releases of it. A "
            "rehearsal needs a public table, or none."
        )
    source = open_source(stand_in(schema)) if public is None else open_source(public, schema)
    source.require([c for c in (schema.unit.column, *schema.columns) if c], schema_name=schema.name)
    sized = replace(schema, name=f"stand-in for {schema.name}")
    if schema.neighbours == "replace-one":
        sized = replace(sized, size=source.count_units(schema.unit.column), size_added=True)
    truths = [truth_of(source, sized, question) for question in questions]
    plans, answers, releases = [], [], []
    for cost in costs:
        plan = mechanism.plan(sized, cost)
        plans.append(plan)
        progress(f"rehearsing {plan.method} at {cost.describe()}")
        made = [release_of(mechanism, plan, source, seed) for seed in range(_SEED, _SEED + runs)]
        releases.append(made[0])
        answers += [
            _answered(made, question, cost, truth, level)
            for question, truth in zip(questions, truths, strict=True)
        ]
    return Rehearsal(
        dataset=schema.name,
        method=plans[0].method if plans else "",
        rows=source.count_rows(),
        stand_in="drawn from the schema" if public is None else "a public table",
        plans=tuple(plans),
        answers=tuple(answers),
        releases=tuple(releases),
    )


def payable(mechanism: Mechanism, schema: Schema, cost: Cost) -> Cost:
    """The cost, or its epsilon alone where the method takes no delta: that costs no more."""
    if cost.kind != "approximate":
        return cost
    try:
        mechanism.plan(schema, cost)
    except PlanError:
        cost = Cost.pure(cost.epsilon)
        mechanism.plan(schema, cost)
    return cost


def _answered(
    made: Sequence[Any], question: str, cost: Cost, truth: float, level: float
) -> Answered:
    if not hasattr(made[0], "estimate"):
        raise PlanError(f"A release of kind '{made[0].kind}' answers no conditions.")
    found = [release.estimate(question, level=level) for release in made]
    # weighted rows answer with shares, whose truth is a share too
    rows = float(made[0].manifest["privacy"]["size"] or 0) or None
    expected = truth / rows if found[0].measure == "share" and rows else truth
    first = found[0]
    return Answered(
        question=question,
        epsilon=str(cost.epsilon if cost.rho is None or not cost.rho else cost.rho),
        truth=expected,
        value=first.value,
        standard_error=first.standard_error,
        low=first.low,
        high=first.high,
        level=level,
        error=fmean((one.value - expected) ** 2 for one in found) ** 0.5,
        margin=fmean(one.high - one.low for one in found) / 2,
    )


def release_of(mechanism: Mechanism, plan: Plan, source: Source, seed: int) -> Any:
    """A release in memory, made with seeded noise and without a ledger: it protects nobody."""
    output = guarded(lambda: run_seeded(mechanism, plan, source, seed))
    nobody = Receipt(
        ledger_id="rehearsal",
        name="rehearsal",
        seq=0,
        key="rehearsal",
        charged=Cost(),
        cost=plan.cost,
        head_hash="0" * 64,
        created="1970-01-01T00:00:00Z",
        fresh=True,
    )
    manifest = json.loads(json.dumps(build_manifest(plan, nobody, output, publishable=False)))
    tables = {name: frame_of(columns) for name, columns in output.tables.items()}
    return release_class(plan.kind)(manifest, tables)


def truth_of(source: Source, schema: Schema, question: str) -> float:
    """How many stand-in rows meet a condition."""
    if schema.items is not None:
        return _truth_of_items(source, schema.items.items, question)
    from dpublish.query.masks import select
    from dpublish.query.predicate import parse_predicate

    domain = Domain(
        tuple(
            resolve_axis(column, schema_name=schema.name, default_bins=_FINE)
            for column in schema.columns.values()
        )
    )
    chosen = select(parse_predicate(question, domain), domain)
    found = 0.0
    for batch, _ in source.coded(Encoder(domain)):
        codes = [column.astype(np.int64) for column in batch.kept()]
        found += float(chosen.cover(codes.__getitem__, codes[0].size).share.sum())
    return found


def _truth_of_items(source: Source, items: Sequence[str], question: str) -> float:
    from dpublish.releases.itemsets import mining

    asked = mining.parse_items(question, {name: place for place, name in enumerate(items)})
    name = LINE_COLUMN if LINE_COLUMN in source.columns() else source.columns()[0]
    found = 0
    for lists in item_lists(source.cutting(name, str.split), name):
        held = {
            place: lists.list.contains(items[place]).fill_null(False).cast(pl.Int8).to_numpy() * 2
            - 1
            for place in mining.atoms_of(asked)
        }
        found += int((mining.truth_of(asked, held.__getitem__, len(lists)) > 0).sum())
    return float(found)


def stand_in(schema: Schema, *, seed: int = _SEED) -> pl.DataFrame:
    """Rows drawn from the schema alone: columns hang together a little, first levels are more
    frequent than last ones, and numbers lie around the middle of their bounds."""
    units = min(schema.size_or_nominal or ROWS, _MAX_ROWS)
    stream = SeededStream(seed)

    def uniform(n: int) -> NDArray[np.float64]:
        return np.asarray((stream.words(n) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    if schema.items is not None:
        return _stand_in_baskets(schema.items.items, units, uniform)
    owner = np.arange(units)
    if schema.unit.column is not None and schema.unit.max_rows > 1:
        more = np.floor(uniform(units) * min(schema.unit.max_rows, 3)).astype(np.int64)
        owner = np.repeat(owner, 1 + more)
    n = owner.size
    common = uniform(n)  # what makes columns hang together
    frame = {
        column.name: _cells(column, np.where(uniform(n) < 0.4, common, uniform(n)))
        for column in schema.columns.values()
    }
    if schema.unit.column is not None and schema.unit.column not in frame:
        frame[schema.unit.column] = pl.Series([f"unit {i}" for i in owner])
    return pl.DataFrame(frame)


def _cells(column: Column, draws: NDArray[np.float64]) -> pl.Series:
    if not column.numeric:
        return pl.Series(_names(column.levels, draws).tolist(), dtype=pl.String)
    low, high = column.require_bounds("the stand-in")
    if isinstance(low, Moment) and isinstance(high, Moment):
        first, last = number_of(low), number_of(high)
        return series_of(column.kind, first + np.floor(draws * (last - first + 1)).astype(np.int64))
    middle = (draws + np.roll(draws, 1)) / 2
    least, most = float(low), float(high)  # type: ignore[arg-type]
    if column.spacing == "log":  # whoever declares such bins expects rows in each of them
        values = np.minimum(least * (most / least) ** middle, most)
    else:
        values = least + middle * (most - least)
    return pl.Series(np.floor(values).astype(np.int64) if column.kind == "integer" else values)


def _names(names: Sequence[str], draws: NDArray[np.float64]) -> NDArray[Any]:
    return np.array(names, dtype=object)[np.searchsorted(cuts(len(names)), draws)]


def cuts(names: int) -> NDArray[np.float64]:
    """Where shares from 0 to 1 are cut for names of which the first are more frequent than the
    last."""
    weights = 1 / np.arange(1, names + 1)
    return np.asarray(np.cumsum(weights / weights.sum())[:-1])


def _stand_in_baskets(
    items: Sequence[str], units: int, uniform: Callable[[int], NDArray[np.float64]]
) -> pl.DataFrame:
    sizes = 1 + np.floor(-2 * np.log1p(-uniform(units))).astype(np.int64).clip(0, 20)
    parts = np.split(_names(items, uniform(int(sizes.sum()))), np.cumsum(sizes)[:-1])
    lists = [part.tolist() for part in parts]
    return pl.DataFrame({"items": pl.Series(lists, dtype=pl.List(pl.String))})


def default_questions(schema: Schema, *, most: int = 6) -> list[str]:
    """Questions about single columns, and with the target where there is one; about the first items
    and pairs of them."""
    if schema.items is not None:
        first = ['"' + item.replace('"', '""') + '"' for item in schema.items.items[:3]]
        return [*first, *(" and ".join(pair) for pair in itertools.pairwise(first))][:most]
    target = schema.columns.get(schema.target or "")
    beside = (
        f" and {quoted(target.name)} = '{_text(target.levels[-1])}'"
        if target and target.levels
        else ""
    )
    found = []
    for column in (one for one in schema.columns.values() if one is not target):
        if column.levels:
            found.append(f"{quoted(column.name)} = '{_text(column.levels[0])}'{beside}")
        elif isinstance(column.lower, int | float) and isinstance(column.upper, int | float):
            middle = (column.lower + column.upper) / 2
            if column.edges is not None:
                middle = column.edges[len(column.edges) // 2]  # type: ignore[assignment]
            elif column.kind == "integer":
                middle = math.floor(middle)
            found.append(f"{quoted(column.name)} >= {middle:g}{beside}")
        elif isinstance(column.lower, Moment) and isinstance(column.upper, Moment):
            number = (number_of(column.lower) + number_of(column.upper)) // 2
            if column.edges is not None:
                number = number_of(column.edges[len(column.edges) // 2])  # type: ignore[arg-type]
            found.append(f"{quoted(column.name)} >= '{spelled(column.kind, number)}'{beside}")
    return found[:most]


def _text(level: str) -> str:
    return level.replace("'", "''")


def epsilon_for(
    mechanism: Mechanism,
    schema: Schema,
    question: str,
    error: float,
    *,
    delta: Fraction | None = None,
    level: float = 0.95,
) -> tuple[Fraction, Rehearsal]:
    """The smallest epsilon, to two digits, at which the margin of the question is at most `error`
    on stand-in rows. Margins shrink about as 1 / epsilon, so that few runs find it."""
    if not error > 0:
        raise InputError(f"--error must be a positive number of rows, not {error:g}.")

    def at(epsilon: Fraction) -> Rehearsal:
        cost = Cost.pure(epsilon) if delta is None else Cost.approximate(epsilon, delta)
        return rehearse(mechanism, schema, [cost], questions=[question], level=level)

    below, above = Fraction(1, 10_000), Fraction(100)
    trial, best = Fraction(1), None
    for _ in range(10):
        found = at(trial)
        margin = found.answers[0].margin
        if margin <= error:
            above, best = trial, found
        else:
            below = trial
        if best is not None and above <= below * Fraction(21, 20):
            break
        wanted = float(trial) * margin / error * 1.02
        if not float(below) * 1.02 < wanted < float(above) * 0.98:
            wanted = (float(below) * float(above)) ** 0.5
        trial = Fraction(f"{wanted:.2g}")
        if not below < trial < above:
            break
    if best is None:
        raise PlanError(
            f"No epsilon up to 100 gives a margin of {error:g} rows for this question with "
            f"{mechanism.method}. 'dpublish compare' looks at other methods."
        )
    return above, best


def margin_figure(rehearsal: Rehearsal, out: Path) -> None:
    """Margins against epsilon, a line per question."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("Figures need the extra 'plots': pip install 'dpublish[plots]'.") from None
    lines: dict[str, list[tuple[float, float]]] = {}
    for one in rehearsal.answers:
        lines.setdefault(one.question, []).append((float(Fraction(one.epsilon)), one.margin))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for question, points in lines.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=question[:60])
    axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="margin in rows (half interval)")
    axes.set_title(f"{rehearsal.method}, on stand-in rows for '{rehearsal.dataset}'")
    axes.legend()
    try:
        figure.savefig(out, dpi=150)
    except (OSError, ValueError) as error:
        raise InputError(f"'{out}' cannot be written ({type(error).__name__}).") from None
