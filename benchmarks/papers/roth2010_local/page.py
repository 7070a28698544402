"""What README.md says, from results.json."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.pages import table

MODELS = ("conjunctions", "parities", "central")
HEADS = (
    "width",
    "sets asked",
    "largest error of a conjunction: local (conjunctions)",
    "local (parities)",
    "central",
    "parity through (6.1), typical error: local (conjunctions)",
    "local (parities)",
    "central",
)


def parts(results: dict[str, Any]) -> list[str]:
    """The tables of the page."""
    found = results["results.json"]
    errors = [
        [
            str(row["width"]),
            f"{row['sets']:,}",
            *(_shown(row[model]["conjunction_max"], model) for model in MODELS),
            *(_shown(row[model]["parity_rms"], model) for model in MODELS),
        ]
        for row in found["errors"]
    ]
    learning = [
        [str(row["size"]), f"{row['local']:,}", f"{row['central']:,}"] for row in found["learning"]
    ]
    return [
        f"{found['people']:,} people",
        table(HEADS, errors),
        table(("hidden attributes", "local", "central"), learning),
    ]


def _shown(value: float, model: str) -> str:
    if model == "central":
        return f"{value:.4f}"
    return f"{value:.3f}" if value < 1 else f"{value:.3g}"


def again() -> dict[str, float]:
    """Part of the figure of hidden parities, by the seeds of the page: the share of runs that find
    one attribute among few people."""
    from benchmarks.papers.roth2010_local.experiments import QUESTIONS, people_needed

    rates = people_needed(len(QUESTIONS), range(1, 2), 20, 250)[0]["rates"]
    return {f"{one['people']}, {model}": one[model] for one in rates for model in MODELS[2:]} | {
        f"{one['people']}, local": one["local"] for one in rates
    }


def stored(results: dict[str, Any]) -> dict[str, float]:
    """The same of the page."""
    rates = results["results.json"]["learning"][0]["rates"][:2]
    return {
        f"{one['people']}, {model}": one[model] for one in rates for model in ("local", "central")
    }
