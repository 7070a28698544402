"""Decisions and online answers beside the obvious alternatives, in the same run.

    python -m benchmarks.baselines.decisions [--data DIR] [--runs 20] [--only WORD] [--json FILE]

k-median: the default, the thesis's search, the public sites and the best known ones, in distance
per row. Vertex cover: the default, an order by noisy degrees, the thesis's, a random one, in
vertices. Set cover: the default, the thesis's rule, the public order. Online: mean error of 600
conjunctions beside a released histogram at the same epsilon. `DIR` holds cities15000.csv.gz,
graph_*.txt.gz, orlib_scp.tar.gz and adult.csv.gz; without it everything is generated. `tuning`
prints what the constants of the k-median were chosen by, on generated places alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tarfile
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from benchmarks.baselines.standing import figures, named

import dpublish as dp
from dpublish.declare.schema import Schema
from dpublish.methods.online.state import Query
from dpublish.methods.solvers.inputs import Edges, Lists, edges_of, lists_of
from dpublish.methods.solvers.k_median import mechanism as k_median_module
from dpublish.methods.solvers.k_median.demand import (
    group_distances,
    group_places,
    reach_of,
    searched_sites,
)
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.public_projects.mechanism import PublicProjects
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.set_cover.orders import first_holders
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover, order_cost
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

SCHEMA = Schema(name="bench", neighbours="add-remove-one")
ONE = Cost.pure(1)
Row = dict[str, Any]


def places(data: Path | None) -> Iterator[tuple[str, Metric, Any]]:
    """Names of tables of places, their distances, and how demand is spread."""
    if data is None:
        draw = np.random.default_rng(5)
        for size in (300, 3000):
            towns = draw.random((size // 15, 2)) * 1000
            at = towns[draw.integers(0, len(towns), size)] + draw.normal(0, 20, (size, 2))
            yield f"generated {size}", Metric.euclidean(at), draw.lognormal(0, 1.5, size)
        return
    cities = pl.read_csv(data / "cities15000.csv.gz", infer_schema_length=None)
    for country in ("FR", "US", "BR", "IN"):
        here = cities.filter(pl.col("country") == country)
        metric = Metric.haversine(here["latitude"].to_numpy(), here["longitude"].to_numpy())
        yield country, metric, here["population"].to_numpy().astype(float)


def k_median(data: Path | None, runs: int) -> Iterator[Row]:
    for name, metric, spread in places(data):
        for people in (2000, 20_000):
            found: dict[str, list[float]] = {}
            solvers = {"default": KMedian(k=5, metric=metric)}
            solvers["thesis"] = KMedian(k=5, metric=metric, rule="search")
            plans = {rule: solver.plan(SCHEMA, ONE) for rule, solver in solvers.items()}
            groups = group_places(metric, 5, most=4096)
            between = group_distances(metric, groups)
            draw = np.random.default_rng(people)
            for run in range(runs):
                demand = draw.multinomial(people, spread / spread.sum())
                unit = metric.unit / people
                for rule, solver in solvers.items():
                    if rule == "thesis" and run >= 3:
                        continue
                    out = solver.run(SeededNoise(run), demand, plans[rule])
                    sites = {rule: out.tables["chosen"]["site"]}
                    if rule == "default":
                        sites["public"] = out.tables["public"]["site"]
                        held = np.bincount(groups.of_place, demand, groups.count)
                        sites["best known"] = searched_sites(metric, groups, between, held, 5)
                    for what, chosen in sites.items():
                        cost = float(demand @ reach_of(metric, np.asarray(chosen))) * unit
                        found.setdefault(what, []).append(cost)
            told = named(plans["default"], {"public": "Take the public sites"})
            row = {"task": f"k-median {name}, {people:,}", "methods": ["k-median"], "named": told}
            yield {**row, **figures(found)}


def graphs(data: Path | None) -> Iterator[tuple[str, Edges, int]]:
    if data is None:
        draw = np.random.default_rng(6)
        heavy = (draw.pareto(1.5, 2000) + 1) / 2000
        ends = draw.choice(2000, (12_000, 2), p=heavy / heavy.sum())
        yield "generated", edges_of(ends), 2000
        return
    for path in sorted(data.glob("graph_*.txt.gz")):
        with gzip.open(path, "rt") as lines:
            pairs = [line.split()[:2] for line in lines if line.strip() and line[0] != "#"]
        names, ends = np.unique(np.array(pairs, dtype=np.int64), return_inverse=True)
        yield path.name.split(".")[0], edges_of(ends.reshape(-1, 2)), len(names)


def vertex_cover(data: Path | None, runs: int) -> Iterator[Row]:
    for name, edges, count in graphs(data):
        found: dict[str, list[float]] = {}
        ones = np.ones(count, dtype=np.int64)
        degree = np.bincount(np.concatenate([edges.heads, edges.tails]), minlength=count)
        for run in range(min(runs, 10)):
            for what, rule in (("default", "degree"), ("thesis", "schedule")):
                solver = VertexCover(vertices=count, rule=rule)  # type: ignore[arg-type]
                out = solver.run(SeededNoise(run), edges, solver.plan(SCHEMA, ONE))
                order = out.tables["order"]["vertex"]
                found.setdefault(what, []).append(order_cost(edges, np.asarray(order), ones))
            draw = np.random.default_rng(run)
            shuffled = draw.permutation(count).astype(np.int64)
            found.setdefault("public", []).append(order_cost(edges, shuffled, ones))
            # an edge is in two degrees
            noisy = np.argsort(-(degree + draw.laplace(scale=2, size=count))).astype(np.int64)
            found.setdefault("noisy degree", []).append(order_cost(edges, noisy, ones))
        yield {"task": f"vertex cover {name}", "methods": ["vertex-cover"], **figures(found)}


def families(data: Path | None) -> Iterator[tuple[str, Lists, Any, int]]:
    if data is None:
        draw = np.random.default_rng(7)
        rows = [draw.choice(200, 6, replace=False).tolist() for _ in range(400)]
        sets = lists_of([*rows, *([one] for one in range(200))])
        yield "generated", sets, draw.integers(1, 100, len(sets)).tolist(), 200
        return
    with tempfile.TemporaryDirectory() as folder, tarfile.open(data / "orlib_scp.tar.gz") as held:
        held.extractall(folder, filter="data")
        for name in ("scp41", "scp51", "scp410", "scpa1"):
            sets, costs, count = dp.optimize.read_scp(Path(folder, f"{name}.txt"))
            yield name, sets, costs, count


def set_cover(data: Path | None, runs: int) -> Iterator[Row]:
    for name, sets, weights, count in families(data):
        for costs in (None, weights):
            prices = np.array([1.0] * len(sets) if costs is None else [float(c) for c in costs])
            solver = SetCover(sets=sets, elements=count, costs=costs)
            rule: Any = "greedy" if costs is None else "weighted"
            thesis = SetCover(sets=sets, elements=count, costs=costs, rule=rule)
            plan, old = solver.plan(SCHEMA, ONE), thesis.plan(SCHEMA, Cost.approximate(1, "1e-6"))
            part = plan.settings.parts[0]
            for share in (1.0, 0.5):
                found: dict[str, list[float]] = {}
                draw = np.random.default_rng(8)
                for run in range(runs):
                    present = (draw.random(count) < share).astype(np.int64)
                    out = solver.run(SeededNoise(run), present, plan)
                    orders = {"default": out.tables["order"], "public": out.tables["public"]}
                    if run < 2:
                        orders["thesis"] = thesis.run(SeededNoise(run), present, old).tables[
                            "order"
                        ]
                    for what, order in orders.items():
                        first = first_holders(part, np.asarray(order["set"]))[present > 0]
                        found.setdefault(what, []).append(prices[np.unique(first)].sum())
                kind = "equal costs" if costs is None else "costs"
                task = f"set cover {name}, {kind}, {share:.0%} present"
                yield {"task": task, "methods": ["set-cover"], **figures(found)}


def online(data: Path | None, runs: int) -> Iterator[Row]:
    draw = np.random.default_rng(9)
    names = ("sex", "race", "income", "relationship")
    if data is None:
        sizes = dict(zip(names, (2, 5, 2, 6), strict=True))
        frame = pl.DataFrame(
            {n: draw.choice([f"{n}{i}" for i in range(k)], 40_000, p=draw.dirichlet(np.ones(k)))
             for n, k in sizes.items()}
        )  # fmt: skip
    else:
        frame = pl.read_csv(data / "adult.csv.gz", infer_schema_length=None).select(names)
    levels = {name: sorted(frame[name].unique().to_list()) for name in names}
    text = f'[dataset]\nname = "t"\nneighbours = "replace-one"\nsize = {frame.height}\n'
    for name, known in levels.items():
        text += f'[columns.{name}]\nkind = "categorical"\nlevels = {json.dumps(known)}\n'
    schema = dp.Schema.from_toml(text)
    domain = schema.domain(names, rows=frame.height)
    shape = tuple(len(axis.labels) for axis in domain.axes)
    codes = [frame[n].replace_strict({v: i for i, v in enumerate(levels[n])}) for n in names]
    cells = np.zeros(shape, dtype=np.int64)
    np.add.at(cells, tuple(code.to_numpy() for code in codes), 1)
    masks = []
    for _ in range(600):
        mask = np.ones(shape, dtype=np.int64)
        for axis in draw.choice(4, draw.integers(1, 4), replace=False).tolist():
            keep = np.zeros(shape[axis], dtype=np.int64)
            keep[draw.integers(shape[axis])] = 1
            mask = mask * keep.reshape([-1 if a == axis else 1 for a in range(4)])
        masks.append(mask.ravel())
    counts, found = cells.ravel(), {}
    for run in range(min(runs, 10)):
        for method in (
            dp.OnlineMultiplicativeWeights(),
            dp.OnlineMultiplicativeWeights(max_hard=50),
            dp.MedianMechanism(),
        ):
            if method.method == "median-mechanism" and run >= 3:
                continue
            plan = method.plan(schema, ONE)
            noise = SeededNoise(run)
            opening = method.begin(noise, counts, plan.settings)
            state = method.state(plan.settings, opening.public)
            errors = []
            for mask in masks:
                query = Query(mask * state.resolution, "q")
                if state.halted:
                    break
                reply = state.answer(noise, counts, opening.threshold, query)
                state.learn(query, reply)
                errors.append(abs(reply.value - float(counts @ mask)))
            what = "default" if method.max_hard is None else "no synopsis"
            if method.method == "median-mechanism":
                what = "median-mechanism"
            found.setdefault(what, []).append(float(np.mean(errors)))
        plain = counts + np.random.default_rng(run).laplace(scale=2, size=counts.size)
        found.setdefault("public", []).append(
            float(np.mean([abs(float((plain - counts) @ mask)) for mask in masks]))
        )
    task, name = "online, 600 queries over four columns", "online-multiplicative-weights"
    found["noisy histogram"] = found.pop("public")
    median = found.pop("median-mechanism")
    yield {"task": task, "methods": [name], **figures(found)}
    row = {"task": f"{task}, median-mechanism", "methods": ["median-mechanism"]}
    yield {**row, **figures({**found, "default": median})}


def min_cut(data: Path | None, runs: int) -> Iterator[Row]:
    """Two crowds of eight vertices with few edges between; the alternative cuts off the vertex with
    the least noisy degree."""
    draw, found = np.random.default_rng(10), {}
    for run in range(10 * runs):  # graphs differ more than ways to cut them
        crowd = np.arange(16) % 2
        pairs = [
            (i, j) for i in range(16) for j in range(i)
            if draw.random() < (0.9 if crowd[i] == crowd[j] else 0.03)
        ]  # fmt: skip
        edges = edges_of(pairs)
        solver = MinCut(vertices=16)
        out = solver.run(SeededNoise(run), edges, solver.plan(SCHEMA, ONE))
        side = np.asarray(out.tables["sides"]["side"])
        degree = np.bincount(np.concatenate([edges.heads, edges.tails]), minlength=16)
        least = int(np.argmin(degree + draw.laplace(scale=2, size=16)))
        cuts = {"default": side, "least noisy degree": np.arange(16) == least}
        cuts["public (one vertex)"] = np.arange(16) == 0
        for what, sides in cuts.items():
            crossing = int((sides[edges.heads] != sides[edges.tails]).sum())
            found.setdefault(what, []).append(float(crossing))
    yield {"task": "min-cut of two crowds: edges cut", "methods": ["min-cut"], **figures(found)}


def public_projects(data: Path | None, runs: int) -> Iterator[Row]:
    """5 of 40 projects, of which 2,000 agents like three each, in crowds; the alternative takes the
    five with the most noisy votes."""
    draw, found = np.random.default_rng(12), {}
    for run in range(5 * runs):  # edges cut are few, so that one more or less is noise
        crowd = draw.choice(8, 2000, p=np.array([30, 20, 14, 11, 9, 7, 5, 4]) / 100)
        likes = draw.permutation(40)[crowd[:, None] * 5 + draw.integers(0, 5, (2000, 3))]
        solver = PublicProjects(k=5, resources=40)
        plan = solver.plan(SCHEMA, ONE)
        out = solver.run(SeededNoise(run), lists_of(likes.tolist()), plan)
        votes = np.bincount(likes.ravel(), minlength=40)
        ways = {"default": np.asarray(out.tables["chosen"]["resource"])}
        ways["most noisy votes"] = np.argsort(-(votes + draw.laplace(scale=3, size=40)))[:5]
        ways["public (the first five)"] = np.arange(5)
        for what, chosen in ways.items():
            served = np.isin(likes, chosen).any(axis=1)
            found.setdefault(what, []).append(float(2000 - served.sum()))
    task = "public-projects: agents of 2,000 without one they like"
    yield {"task": task, "methods": ["public-projects"], **figures(found)}


def tuning() -> Iterator[Row]:
    """Mean cost against the public sites on generated places, by number of groups."""
    kept = k_median_module.group_places
    for groups in (256, 1024, 4096):
        k_median_module.group_places = partial(kept, most=groups)
        for row in k_median(None, 6):
            yield {"groups": groups, **row}
    k_median_module.group_places = kept


TASKS = {
    "k-median": k_median,
    "vertex-cover": vertex_cover,
    "set-cover": set_cover,
    "online": online,
    "min-cut": min_cut,
    "public-projects": public_projects,
}
COVERS = (
    "k-median", "vertex-cover", "set-cover", "min-cut", "public-projects",
    "online-multiplicative-weights", "median-mechanism",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--only", choices=(*TASKS, "tuning"))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for name, task in TASKS.items():
        if given.only in (None, name):
            for row in task(given.data, given.runs):
                rows.append(row)
                print(row, flush=True)
    if given.only == "tuning":
        for row in tuning():
            rows.append(row)
            print(row, flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
