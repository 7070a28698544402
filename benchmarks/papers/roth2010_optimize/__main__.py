"""Cost against the optimum for every solver: `python -m benchmarks.papers.roth2010_optimize --data DIR --out DIR [--quick]`.

DIR holds orlib_pmed.tar.gz, orlib_scp.tar.gz, graph_ego_facebook.txt.gz, graph_ca_grqc.txt.gz and retail.txt.gz. A point is the
mean of a few seeded runs; results.json has all of them, with the theorem's bound and the lower bound of each plan.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import itertools
import json
import tarfile
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.cost import Cost
from dpublish.mechanisms.optimize.inputs import Lists, edges_of, lists_of
from dpublish.mechanisms.optimize.k_median import KMedian
from dpublish.mechanisms.optimize.metric import Metric
from dpublish.mechanisms.optimize.min_cut import MinCut
from dpublish.mechanisms.optimize.public_projects import PublicProjects
from dpublish.mechanisms.optimize.set_cover import SetCover
from dpublish.mechanisms.optimize.vertex_cover import VertexCover, double_cover_matching
from dpublish.noise.source import SeededNoise
from dpublish.private.structures import read_pmed, read_scp
from dpublish.schema import Schema

EPSILONS = ("0.1", "0.3", "1", "3", "10")
SCHEMA = Schema(name="bench", neighbours="add-remove-one")
DELTA = "1e-6"


def sweep(
    mechanism: Any, numbers: Any, best: float, measure: Callable[[Any], float], runs: int, delta: bool, larger: bool = False
) -> dict[str, Any]:
    """Mean of cost / best over `runs` seeds for every epsilon, with the ratios that the plan's two bounds amount to."""
    out: dict[str, Any] = {"epsilon": list(EPSILONS), "ratio": [], "spread": [], "bound": [], "lower": [], "best": best}
    for text in EPSILONS:
        cost = Cost.approximate(text, DELTA) if delta else Cost.pure(text)
        plan = mechanism.plan(SCHEMA, cost)
        ratios = [measure(mechanism.run(SeededNoise(seed), numbers, plan).tables) / best for seed in range(runs)]
        out["ratio"].append(float(np.mean(ratios)))
        out["spread"].append(float(np.std(ratios)))
        for key, fact in (("bound", "bound"), ("lower", "lower_bound")):
            stated = plan.facts[fact]
            value = stated["factor"] + stated["additive"] / best
            out[key].append(max(0.0, value) if larger else value)
    return out


def unpacked(archive: Path, folder: Path) -> dict[str, Path]:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return {path.stem.lower(): path for path in folder.rglob("*") if path.is_file()}


def optima(files: dict[str, Path], name: str) -> dict[str, float]:
    rows = list(csv.reader(io.StringIO(files[name].read_text())))
    found = {}
    for row in rows:
        numbers = [cell for cell in row if cell.replace(".", "").isdigit()]
        if row and numbers:
            found[row[0].lower().removesuffix(".txt")] = float(numbers[-1])
    return found


def k_medians(data: Path, quick: bool, runs: int) -> dict[str, Any]:
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        files = unpacked(data / "orlib_pmed.tar.gz", Path(folder))
        known = optima(files, "pmed_optima")
        for number in (1, 6) if quick else range(1, 41):
            distances, k = read_pmed(files[f"pmed{number}"])
            for copies in (10, 1000):
                demand = np.full(len(distances), copies, dtype=np.int64)
                best = copies * known[f"pmed{number}"]
                mechanism = KMedian(k=k, metric=Metric.matrix(distances))
                # the loop variables are bound as defaults: the function outlives this round only inside `sweep`
                measure = lambda t, d=distances, w=demand: float(w @ d[:, t["chosen"]["site"]].min(axis=1))  # noqa: E731
                out[f"pmed{number}, {copies} points a vertex"] = sweep(mechanism, demand, best, measure, runs, delta=False)
    return out


def set_covers(data: Path, quick: bool, runs: int) -> dict[str, Any]:
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        files = unpacked(data / "orlib_scp.tar.gz", Path(folder))
        known = optima(files, "scp_optima")
        names = ["scp41", "scpa1"] if quick else sorted(name for name in known if name in files)
        for name in names:
            sets, costs, count = read_scp(files[name])
            prices = np.array([float(c) for c in costs])
            present = np.ones(count, dtype=np.int64)
            measure = lambda t, s=sets, p=prices, n=count: cover_price(s, p, n, t["order"]["set"])  # noqa: E731
            mechanism = SetCover(sets=sets, elements=count, costs=costs)
            out[name] = sweep(mechanism, present, known[name], measure, runs, delta=True)
    return out


def cover_price(sets: Lists, prices: Any, count: int, order: Any) -> float:
    left, total = np.ones(count, dtype=bool), 0.0
    for number in order.tolist():
        held = sets.items[sets.starts[number] : sets.starts[number + 1]]
        if left[held].any():
            total += prices[number]
            left[held] = False
    return total


def vertex_covers(data: Path, runs: int) -> dict[str, Any]:
    out = {}
    for name in ("ego_facebook", "ca_grqc"):
        with gzip.open(data / f"graph_{name}.txt.gz", "rt") as file:
            pairs = np.array([line.split()[:2] for line in file], dtype=np.int64)
        _, renumbered = np.unique(pairs, return_inverse=True)
        edges = edges_of(renumbered.reshape(-1, 2))
        count = int(renumbered.max()) + 1
        floor = double_cover_matching(edges, count) / 2  # the smallest cover is at least this
        for rule in ("schedule", "two-phase"):

            def measure(tables: Any, edges: Any = edges, count: int = count) -> float:
                place = np.empty(count, dtype=np.int64)
                place[tables["order"]["vertex"]] = np.arange(count)
                first = np.where(place[edges.heads] < place[edges.tails], edges.heads, edges.tails)
                return float(len(np.unique(first)))

            out[f"{name}, {rule}"] = sweep(VertexCover(vertices=count, rule=rule), edges, floor, measure, runs, delta=False)  # type: ignore[arg-type]
    return out


def min_cuts(runs: int) -> dict[str, Any]:
    draw = np.random.default_rng(1)
    pairs = [p for p in itertools.combinations(range(300), 2) if (p[0] < 150) == (p[1] < 150) and draw.random() < 0.8]
    edges = edges_of([*pairs, *((i, 150 + i) for i in range(5))])

    def measure(tables: Any) -> float:
        side = tables["sides"]["side"]
        return float((side[edges.heads] != side[edges.tails]).sum())

    return {"planted cut of 5 in two halves of 150": sweep(MinCut(vertices=300), edges, 5.0, measure, runs, delta=True)}


def coverage(data: Path, runs: int) -> dict[str, Any]:
    with gzip.open(data / "retail.txt.gz", "rt") as file:
        baskets = [[int(item) for item in line.split()] for line in file]
    count, k = 1 + max(max(row) for row in baskets if row), 20
    agents = lists_of(baskets)
    best = PublicProjects(k=k, resources=count)
    exact = best.run(
        SeededNoise(0), agents, best.plan(SCHEMA, Cost.pure(Fraction(10**6)))
    )  # so much epsilon that greedy is exact

    def measure(tables: Any) -> float:
        chosen = np.isin(agents.items, tables["chosen"]["resource"])
        rows = np.repeat(np.arange(len(agents)), np.diff(agents.starts))
        return float(len(np.unique(rows[chosen])))

    greedy = measure(exact.tables)
    return {f"retail, {k} items": sweep(best, agents, greedy, measure, runs, delta=False, larger=True)}


def draw_figure(results: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(14, 8))
    for panel, (problem, cases) in zip(axes.flat, results.items(), strict=False):
        for place, (name, case) in enumerate(list(cases.items())[:4]):
            x = [float(e) for e in case["epsilon"]]
            colour = f"C{place}"
            panel.errorbar(x, case["ratio"], yerr=case["spread"], marker="o", color=colour, label=name, capsize=2)
            if place == 0:
                panel.plot(x, case["bound"], linestyle="--", color="#555555", label="theorem's bound (first)")
                panel.plot(x, case["lower"], linestyle=":", color="#555555", label="lower bound (first)")
        panel.axhline(1, color="#bbbbbb", linewidth=0.8)
        panel.set_xscale("log")
        if problem != "public projects":
            panel.set_yscale("log")
        panel.set_title(problem)
        panel.set_xlabel("epsilon")
        panel.set_ylabel("value / greedy value" if problem == "public projects" else "cost / best known")
        panel.legend(fontsize=7)
        panel.grid(alpha=0.3)
    for panel in list(axes.flat)[len(results) :]:
        panel.set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=95)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="two instances of each library, three runs")
    given = parser.parse_args()
    runs = 3 if given.quick else 10
    given.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, dict[str, Any]] = {}
    for problem, task in {
        "vertex cover": lambda: vertex_covers(given.data, runs),
        "set cover": lambda: set_covers(given.data, given.quick, runs),
        "public projects": lambda: coverage(given.data, runs),
        "minimum cut": lambda: min_cuts(runs),
        "k-median": lambda: k_medians(given.data, given.quick, runs),
    }.items():
        results[problem] = task()
        for name, case in results[problem].items():
            print(
                f"{problem}: {name}: " + ", ".join(f"{e}: {r:.3g}" for e, r in zip(EPSILONS, case["ratio"], strict=True)),
                flush=True,
            )
        (given.out / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
        draw_figure(results, given.out / "figure.png")


if __name__ == "__main__":
    main()
