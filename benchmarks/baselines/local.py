"""The local model beside the obvious alternatives, in the same run.

    python -m benchmarks.baselines.local [--runs 10] [--json FILE]

Everything is generated, and every person reports once with epsilon 1. For one of k levels the
alternative is to tell the truth as often as epsilon allows and any other level otherwise; for a
yes or a number, noise on the number itself; for conjunctions, one random conjunction per person;
for heavy hitters, one of all values as one of k levels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from benchmarks.baselines.queries import Row, command
from benchmarks.baselines.standing import figures
from numpy.typing import NDArray

import dpublish as dp

PEOPLE = 20_000
COVERS = (
    "binary", "kary", "unary", "hashing", "hadamard", "mean", "conjunctions", "heavy-hitters",
)  # fmt: skip


def told(values: NDArray[Any], levels: int, draw: np.random.Generator) -> NDArray[Any]:
    """Counts of k levels by randomised response over all of them, with the inverse of its law."""
    keep = math.e / (math.e + levels - 1)
    shift = draw.integers(1, max(2, levels), values.size)
    said = np.where(draw.random(values.size) < keep, values, (values + shift) % levels)
    other = (1 - keep) / (levels - 1)
    return (np.bincount(said, minlength=levels) - values.size * other) / (keep - other)


def oracles(runs: int) -> Iterator[Row]:
    """Mean error of a level's count, in people."""
    makes: dict[str, Any] = {
        "binary": (2, lambda k: dp.local.BinaryResponse(1)),
        "kary": (3, lambda k: dp.local.KaryResponse(k, 1)),
        "unary": (40, lambda k: dp.local.UnaryEncoding(k, 1)),
        "hashing": (40, lambda k: dp.local.LocalHashing(k, 1)),
        "hadamard": (40, lambda k: dp.local.HadamardResponse(k, 1)),
    }
    for name, (levels, make) in makes.items():
        draw = np.random.default_rng(levels)
        shares = 1 / np.arange(1, levels + 1)
        errors: dict[str, list[float]] = {}
        for _ in range(runs * (10 if levels < 4 else 1)):  # both are the same law: noise decides
            values = draw.choice(levels, PEOPLE, p=shares / shares.sum())
            truth = np.bincount(values, minlength=levels)
            oracle = make(levels)
            said = oracle.aggregate(oracle.randomize(values)).counts
            errors.setdefault("default", []).append(float(np.abs(said - truth).mean()))
            other = f"randomised response over {levels} levels"
            off = np.abs(told(values, levels, draw) - truth).mean()
            errors.setdefault(other, []).append(float(off))
            if levels == 2:
                noisy = float(values.sum() + draw.laplace(size=PEOPLE).sum())
                errors.setdefault("Laplace noise per person", []).append(abs(noisy - truth[1]))
        task = f"local, one of {levels} levels ({name}): people a count is off"
        yield {"task": task, "methods": [name], **figures(errors)}


def numbers(runs: int) -> Iterator[Row]:
    draw = np.random.default_rng(2)
    errors: dict[str, list[float]] = {}
    for _ in range(runs):
        values = draw.beta(2, 5, PEOPLE) * 100
        asked = dp.local.MeanResponse(0, 100, 1)
        said = asked.aggregate(asked.randomize(values)).value
        errors.setdefault("default", []).append(abs(said - values.mean()))
        noisy = (values + draw.laplace(scale=100, size=PEOPLE)).mean()
        errors.setdefault("Laplace noise per person", []).append(abs(noisy - values.mean()))
    yield {"task": "local, mean of 0 to 100: off by", "methods": ["mean"], **figures(errors)}


def conjunctions(runs: int) -> Iterator[Row]:
    """All conjunctions of at most three of ten attributes; the alternative asks for one each."""
    draw, width, count = np.random.default_rng(3), 3, 10
    sets = [s for w in range(1, width + 1) for s in itertools.combinations(range(count), w)]
    errors: dict[str, list[float]] = {}
    for _ in range(runs):
        kind = draw.random((PEOPLE, 1))
        records = (draw.random((PEOPLE, count)) < 0.2 + 0.6 * kind).astype(np.int64)
        held = np.stack([records[:, list(one)].all(axis=1) for one in sets])
        asked = dp.local.Conjunctions(count, width, 1)
        found = asked.aggregate(asked.randomize(records))
        said = [found.conjunction([found.attributes[p] for p in one]).value for one in sets]
        off = np.abs(np.array(said) - held.mean(axis=1)).mean()
        errors.setdefault("default", []).append(100 * float(off))
        which, keep = draw.integers(len(sets), size=PEOPLE), math.e / (math.e + 1)
        bits = held[which, np.arange(PEOPLE)] ^ (draw.random(PEOPLE) >= keep)
        people = np.maximum(np.bincount(which, minlength=len(sets)), 1)
        share = np.bincount(which, weights=bits, minlength=len(sets)) / people
        plain = np.clip((share - (1 - keep)) / (2 * keep - 1), 0, 1)
        off = np.abs(plain - held.mean(axis=1)).mean()
        errors.setdefault("one conjunction per person", []).append(100 * float(off))
    task = "local, conjunctions of up to 3 of 10: points a share is off"
    yield {"task": task, "methods": ["conjunctions"], **figures(errors)}


def hitters(runs: int) -> Iterator[Row]:
    """Of the ten most common of 2^16 values among 200,000 people, how many are not found."""
    draw, domain, people = np.random.default_rng(4), 1 << 16, 200_000
    shares = 1 / np.arange(1, domain + 1) ** 1.5
    missed: dict[str, list[float]] = {}
    for _ in range(min(runs, 3)):
        names = draw.permutation(domain)
        values = names[draw.choice(domain, people, p=shares / shares.sum())]
        top = set(np.argsort(-np.bincount(values, minlength=domain))[:10].tolist())
        asked = dp.local.HeavyHitters(domain, 1)
        found = {int(one.code) for one in asked.aggregate(asked.randomize(values), most=10)}
        missed.setdefault("default", []).append(len(top - found))
        plain = set(np.argsort(-told(values, domain, draw))[:10].tolist())
        missed.setdefault("randomised response over all", []).append(len(top - plain))
    task = "local, ten most common of 65,536 values: not found"
    yield {"task": task, "methods": ["heavy-hitters"], **figures(missed)}


def main() -> None:
    command(__doc__, lambda given: (oracles, numbers, conjunctions, hitters))


if __name__ == "__main__":
    main()
