"""What README.md says in tables, from results.json."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from .data import Split
from .experiments import EPSILON, LAMBDA, VARIANTS, Bench, estimates, svm_distances

ROWS = {
    "output, sqrt(d)": "the paper's algorithm: `output`, R = sqrt(d)",
    "output": "`output`, R = sqrt(columns), which the schema proves",
    "objective": "`objective`, R = sqrt(columns)",
}


def summary(results: Mapping[str, Any]) -> dict[str, Any]:
    """Means, medians and errors of all runs: what is kept."""
    truth = results["truth"]

    def off(values: list[float]) -> float:
        return float(np.sqrt(np.mean((np.array(values) - truth) ** 2)))

    def told(runs: Mapping[str, list[float]]) -> dict[str, dict[str, float]]:
        return {
            key: {
                "mean": float(np.mean(x)),
                "median": float(np.median(x)),
                "deviation": float(np.std(x)),
                "error": off(x),
            }
            for key, x in runs.items()
        }

    by = results["estimates"]
    return {
        **{key: results[key] for key in ("truth", "unweighted", "rows", "bootstraps", "acs")},
        "by_lambda": {name: told(runs) for name, runs in by["lambda"].items()},
        "by_epsilon": {name: told(runs) for name, runs in by["epsilon"].items()},
        "no_noise": told(by["no_noise"]),
        "moments": {
            key: {"error": off(one["share"]), "distance": float(np.median(one["distance"]))}
            for key, one in results["moments"].items()
        },
        "svm_distance": {
            name: {key: float(np.median(values)) for key, values in runs.items()}
            for name, runs in results["svm"]["distance"].items()
        },
        "extreme": {
            name: {
                case: {key: float(np.median(x)) for key, x in found.items()}
                for case, found in runs.items()
            }
            for name, runs in results["svm"]["extreme"].items()
        },
        **{
            key: results["svm"][key]
            for key in (
                *("svm_norm", "unweighted_distance"),
                *("private_erm_length", "private_erm_length_paper"),
            )
        },
        "svm_lengths": results["svm_lengths"],
        "made_up": results["made_up"],
        "made_by": results["made_by"],
    }


def small(split: Split) -> dict[str, Any]:
    """Every run of figures 1 to 6 on a small table, one bootstrap: a test makes it again."""
    bench = Bench(split)
    told = estimates(bench, 1, lambda text: None)
    svm = svm_distances(bench, 1, lambda text: None)
    return {**told, "distance": svm["distance"], "extreme": svm["extreme"]}


def errors(found: Mapping[str, Any]) -> str:
    """The table of errors of the income query."""
    shown = ("0.02", "0.1", "1")
    lines = [
        f"| root mean squared error, lambda {LAMBDA} | epsilon {' | '.join(shown)} |",
        "|" + " --- |" * (1 + len(shown)),
    ]
    for name in VARIANTS:
        values = [found["by_epsilon"][name][key]["error"] for key in shown]
        lines.append(f"| {ROWS[name]} | {' | '.join(f'{value:.3f}' for value in values)} |")
    values = [found["moments"][key]["error"] for key in shown]
    lines.append(f"| `moments`, the default | {' | '.join(f'{value:.3f}' for value in values)} |")
    return "\n".join(lines)


def distances(found: Mapping[str, Any]) -> str:
    """The table of SVM distances and of the three extreme cases."""
    cases = list(next(iter(found["extreme"].values())))
    lines = [
        f"| median, lambda {LAMBDA}, epsilon {EPSILON} | "
        + " | ".join(f"SVM, {case}" for case in cases)
        + " | "
        + " | ".join(f"share, {case}" for case in cases)
        + " |",
        "|" + " --- |" * (1 + 2 * len(cases)),
    ]
    for name, runs in found["extreme"].items():
        values = [runs[case]["distance"] for case in cases]
        values += [runs[case]["share"] for case in cases]
        lines.append(f"| {ROWS[name]} | {' | '.join(f'{value:.2f}' for value in values)} |")
    return "\n".join(lines)


def tables(found: Mapping[str, Any]) -> str:
    """The table of the second experiment."""
    lines = ["| | one-way | two-way |", "| --- | --- | --- |"]
    for name, one in found["acs"].items():
        words = "national rows as they are" if name == "unweighted" else f"`{name}"
        words = words.replace(", epsilon", "`, epsilon")
        lines.append(f"| {words} | {one['one-way']:.3f} | {one['two-way']:.3f} |")
    return "\n".join(lines)


def lengths(found: Mapping[str, Any]) -> str:
    """The table of how long the coefficients of an SVM are."""
    told = found["svm_lengths"]
    costs = list(dict.fromkeys(key.rsplit(", ", 1)[1] for key in told))
    lines = [f"| | {' | '.join(costs)} |", "|" + " --- |" * (1 + len(costs))]
    for name in dict.fromkeys(key.rsplit(", ", 1)[0] for key in told):
        values = [told.get(f"{name}, {cost}") for cost in costs]
        cells = " | ".join("" if value is None else f"{value:.2f}" for value in values)
        lines.append(f"| {name.replace('_', ' ')} | {cells} |")
    return "\n".join(lines)


TABLES = (errors, distances, lengths, tables)

if __name__ == "__main__":
    kept = json.loads((Path(__file__).parent / "results.json").read_text(encoding="utf-8"))
    print("\n\n".join(table(kept) for table in TABLES))
