"""How well a label could be learnt from releases of each method, on stand-in rows: before anything
is spent, and not about the private data.

What matters for a label is not known, so two worlds are tried: one in which few columns move it,
and one in which all do. A method is trained on its own release of the stand-in rows, as an analyst
would, and asked about other rows of the same world; the area under the ROC curve counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.analyse.predict import hand_till_auc
from dpublish.curator.rehearse import ROWS, cuts, payable, release_of, stand_in
from dpublish.declare.columns import Column
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, PublishError
from dpublish.methods.registry import method_from_settings
from dpublish.noise.words import SeededStream
from dpublish.privacy.cost import Cost
from dpublish.sources.sources import open_source

METHODS: Mapping[str, dict[str, str]] = {
    "projected-histogram": {},
    "joined-histograms": {},
    "private-classifier": {},
}
"""Methods that a label can be learnt from."""
STRENGTH = 2.0
"""The standard deviation of a label's log-odds, as far as columns explain them."""
MAX_ROWS = 50_000
"""Stand-in rows: more would take long, and a larger epsilon stands for more rows."""
TESTED = 4_000
FEW = 3
NEAR, AHEAD = 0.02, 0.01
"""Methods whose mean areas are nearer than the first are told apart by nothing that is known
beforehand; one that is ahead in one world by the second may be the better one."""
Worlds = tuple[list[float], list[float]]
"""Areas at each cost where few columns move the label, and where all do."""


def expected_areas(
    schema: Schema,
    target: str,
    costs: Sequence[Cost],
    *,
    methods: Sequence[str] = (),
    runs: int = 2,
    progress: Callable[[str], None] = lambda step: None,
) -> tuple[dict[str, Worlds], dict[str, str], dict[str, tuple[str, ...]]]:
    """For each method the mean area in each world at each cost; why others are not suitable; and
    what plans warn of at the first cost."""
    label = schema.column(target)
    if label.numeric or len(label.levels) < 2:
        raise PlanError(
            f"'{target}' is no column with two or more levels, so that there is no label to "
            "predict. Name another --target, or give --question."
        )
    unknown = [name for name in methods if name not in METHODS]
    if unknown:
        raise PlanError(
            f"Nothing is learnt from a release of {unknown[0]} here; methods for a label: "
            f"{', '.join(METHODS)}."
        )
    units = schema.size_or_nominal or ROWS
    drawn = min(units, MAX_ROWS)
    sized = _with_units(replace(schema, target=target, rules=()), drawn)
    worlds = [
        [(stand_in_label(sized, few, 2 * world + run), world * runs + run) for run in range(runs)]
        for world, few in enumerate((True, False))
    ]
    areas: dict[str, Worlds] = {}
    reasons: dict[str, str] = {}
    warnings: dict[str, tuple[str, ...]] = {}
    for name in methods or METHODS:
        progress(f"trying {name}")
        method = method_from_settings(name, METHODS[name])
        try:
            told = replace(schema, target=target)
            paid = [payable(method, told, cost) for cost in costs]
            warnings[name] = method.plan(told, paid[0]).warnings
            # with fewer rows than there are, a larger epsilon says as much
            plans = [method.plan(sized, _scaled(cost, drawn / units)) for cost in paid]
            few, every = (
                [fmean(_area(method, plan, sized, *one) for one in world) for plan in plans]
                for world in worlds
            )
            areas[name] = few, every
        except PublishError as error:
            reasons[name] = str(error)
    return areas, reasons, warnings


def recommend(
    areas: Mapping[str, Worlds], warnings: Mapping[str, Sequence[str]]
) -> tuple[str | None, dict[str, str]]:
    """The method that is best on average over both worlds, and those that may be taken as well,
    with when: near on average, ahead in one world, or named by a warning of its own plan."""
    mean = {name: (fmean(few), fmean(every)) for name, (few, every) in areas.items()}
    best = max(mean, key=lambda name: sum(mean[name]), default=None)
    others = {}
    for name in sorted(mean, key=lambda name: -sum(mean[name])):
        if best is None or name == best:
            continue
        few, every = (own - its for own, its in zip(mean[name], mean[best], strict=True))
        if every > AHEAD:
            others[name] = "if effects of many columns add up"
        elif few > AHEAD:
            others[name] = "if a few columns decide"
        elif few + every >= -2 * NEAR:
            others[name] = "expected to be about as good"
        elif any(name in said for said in warnings.get(best, ())):
            others[name] = "which the plan names"
    return best, others


def _with_units(schema: Schema, units: int) -> Schema:
    size = "size" if schema.neighbours == "replace-one" else "nominal_size"
    return replace(schema, **{size: units})  # type: ignore[arg-type]


def _scaled(cost: Cost, part: float) -> Cost:
    if part >= 1:
        return cost
    larger = str(round(float(cost.epsilon) / part, 6))
    return Cost.approximate(larger, cost.delta) if cost.delta else Cost.pure(larger)


def stand_in_label(schema: Schema, few: bool, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Stand-in rows whose label depends on a few columns or on all alike, and rows to ask about."""
    target = schema.target
    assert target is not None
    units = (schema.size_or_nominal or ROWS) + TESTED
    frame = stand_in(_with_units(schema, units), seed=seed + 1)
    stream = SeededStream(seed + 1)

    def logistic(n: int) -> NDArray[np.float64]:
        """Seeded draws, about as wide as normal ones twice over."""
        share = (np.asarray(stream.words(n) >> np.uint64(11), dtype=np.float64) + 0.5) * 2.0**-53
        return np.asarray(np.log(share / (1 - share)), dtype=np.float64)

    columns = [
        one for one in schema.columns.values() if one.name not in (target, schema.unit.column)
    ]
    moving = np.argsort(logistic(len(columns)))[: FEW if few else len(columns)]
    logit = np.zeros(frame.height)
    for place in moving:
        effect = _effect(columns[place], frame.get_column(columns[place].name), logistic)
        size = logistic(1)
        if not few:  # all columns count alike: with sizes drawn, two or three would outweigh them
            size = np.sign(size) / max(float(effect.std()), 1e-9)
        logit += size * effect
    logit = STRENGTH * (logit - logit.mean()) / max(float(logit.std()), 1e-9)
    levels = schema.column(target).levels
    latent = logit + logistic(frame.height)
    ends = np.quantile(latent, cuts(len(levels)))
    told = np.array(levels, dtype=object)[np.searchsorted(ends, latent)]
    frame = frame.with_columns(pl.Series(target, told.tolist(), dtype=pl.String))
    return frame[:-TESTED], frame[-TESTED:]


def _effect(column: Column, cells: pl.Series, draw: Callable[[int], Any]) -> Any:
    """What each cell adds to the log-odds: levels anything, numbers in order."""
    if not column.numeric:
        effects = draw(len(column.levels))
        places = {level: place for place, level in enumerate(column.levels)}
        found = cells.replace_strict(places, default=0, return_dtype=pl.Int64)
        return effects[found.to_numpy()]
    ranks = cells.rank("ordinal").to_numpy()
    return math.sqrt(12) * (ranks / len(ranks) - 0.5)


def _area(method: Any, plan: Any, schema: Schema, world: Any, seed: int) -> float:
    """The area that a model reaches which is learnt from one release."""
    rows, tests = world
    release = release_of(method, plan, open_source(rows), seed)
    truth = tests.get_column(schema.target).to_numpy()
    try:
        model = _model(release, schema.target or "")
        chances = model.predict_proba(tests)
        found = model.classes if hasattr(model, "classes") else model.classes_
    except (PublishError, ValueError):  # no cell, or cells of one label only: nothing is learnt
        return 0.5
    boolean = schema.column(schema.target or "").kind == "boolean"
    classes = [str(one).lower() if boolean else str(one) for one in found]
    if len(classes) < 2:
        return 0.5
    present = [one for one in classes if one in set(truth.tolist())]
    kept = np.isin(truth, present)
    shares = np.asarray(chances)[kept][:, [classes.index(one) for one in present]]
    return hand_till_auc(truth[kept], shares, classes=present)


def _model(release: Any, target: str) -> Any:
    if hasattr(release, "predict_proba"):
        return release
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise PlanError(
            "Comparing methods for a label needs the extra 'learn': pip install 'dpublish[learn]'."
        ) from None
    return release.fit(LogisticRegression(max_iter=300), target=target)
