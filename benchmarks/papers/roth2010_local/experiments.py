"""Conjunctions and parities in the local and in the central model, on the same records and at the
same epsilon.

Three ways of releasing all conjunctions of at most w of d attributes:

    parities      local: each person reports one noisy parity of at most w attributes
                  (`dp.local.Conjunctions`)
    conjunctions  local: each person is asked one conjunction of at most w attributes, by randomised
                  response. This is the protocol of the remark after theorem 38
    central       a trusted curator publishes the table of all 2^d cells with discrete Laplace noise

Noise is seeded: these are simulations, and nothing here is a release.
"""

from __future__ import annotations

import gzip
import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.local import BinaryResponse, Conjunctions, parity_from_conjunctions
from dpublish.local.hashing import transform
from dpublish.noise.source import SeededNoise

EPSILON = Fraction(1)
Release = Callable[[tuple[int, ...]], float]

# Twelve yes-or-no questions that can be put to anyone; the answers are read off the columns of
# Adult.
QUESTIONS: dict[str, Callable[[dict[str, str]], bool]] = {
    "over 35": lambda r: int(r["age"]) > 35,
    "over 50": lambda r: int(r["age"]) > 50,
    "man": lambda r: r["sex"] == "Male",
    "married": lambda r: r["marital-status"].startswith("Married"),
    "never married": lambda r: r["marital-status"] == "Never-married",
    "private employer": lambda r: r["workclass"] == "Private",
    "more than school": lambda r: int(r["education-num"]) > 9,
    "degree": lambda r: int(r["education-num"]) >= 13,
    "full time": lambda r: int(r["hours-per-week"]) >= 40,
    "overtime": lambda r: int(r["hours-per-week"]) > 45,
    "born in the US": lambda r: r["native-country"] == "United-States",
    "over 50K": lambda r: r["income"] == ">50K",
}


def adult_records(data: Path) -> np.ndarray:
    """One word a person, bit i for the i-th question."""
    with gzip.open(data / "adult.csv.gz", "rt", encoding="utf-8") as source:
        header = source.readline().strip().split(",")
        rows = [dict(zip(header, line.strip().split(","), strict=True)) for line in source]
    return np.array(
        [sum(1 << i for i, ask in enumerate(QUESTIONS.values()) if ask(row)) for row in rows],
        dtype=np.uint64,
    )


def shares(records: np.ndarray, attributes: int) -> np.ndarray:
    """For every set of attributes (as a mask), the share of people who have them all."""
    table = np.bincount(records.astype(np.int64), minlength=1 << attributes).astype(float)
    for bit in range(attributes):
        parts = table.reshape(-1, 2, 1 << bit)
        parts[:, 0, :] += parts[:, 1, :]
    return table / len(records)


def by_parities(records: np.ndarray, attributes: int, width: int, seed: int) -> Release:
    randomizer = Conjunctions(attributes, width, EPSILON)
    found = randomizer.aggregate(randomizer.randomize(records, coins=SeededNoise(seed)))
    names = randomizer.attributes
    return lambda chosen: found.conjunction([names[i] for i in chosen]).value


def by_conjunctions(records: np.ndarray, attributes: int, width: int, seed: int) -> Release:
    sets = [
        c for size in range(1, width + 1) for c in itertools.combinations(range(attributes), size)
    ]
    masks = np.array([mask_of(chosen) for chosen in sets], dtype=np.uint64)
    noise = SeededNoise(seed)
    asked = noise.integers(len(sets), size=len(records)).astype(np.int64)
    randomizer = BinaryResponse(EPSILON)
    reports = randomizer.randomize(
        ((records & masks[asked]) == masks[asked]).astype(np.int64), coins=noise
    )
    yes = np.bincount(asked, weights=reports, minlength=len(sets))
    people = np.maximum(np.bincount(asked, minlength=len(sets)), 1)
    gain = float(2 * randomizer.keep - 1)
    values = (yes / people - float(1 - randomizer.keep)) / gain
    places = {chosen: place for place, chosen in enumerate(sets)}
    return lambda chosen: float(values[places[chosen]])


def noisy_cells(records: np.ndarray, attributes: int, seed: int) -> np.ndarray:
    counts = np.bincount(records.astype(np.int64), minlength=1 << attributes).astype(np.int64)
    return SeededNoise(seed).laplace(counts, sensitivity=Fraction(2), epsilon=EPSILON)


def by_curator(records: np.ndarray, attributes: int, width: int, seed: int) -> Release:
    table = noisy_cells(records, attributes, seed).astype(float) / len(records)
    for bit in range(attributes):
        parts = table.reshape(-1, 2, 1 << bit)
        parts[:, 0, :] += parts[:, 1, :]
    return lambda chosen: float(table[mask_of(chosen)])


PROTOCOLS = {"parities": by_parities, "conjunctions": by_conjunctions, "central": by_curator}


def mask_of(chosen: tuple[int, ...]) -> int:
    return sum(1 << i for i in chosen)


def errors_by_width(
    records: np.ndarray, attributes: int, widths: range, repeats: int
) -> list[dict[str, Any]]:
    """For each width w: errors of all conjunctions of exactly w attributes, and of parities put
    together from them by 6.1."""
    true = shares(records, attributes)
    rng = np.random.default_rng(0)
    out = []
    for width in widths:
        sets = list(itertools.combinations(range(attributes), width))
        if len(sets) > 60:
            sets = [sets[i] for i in sorted(rng.choice(len(sets), 60, replace=False))]
        parity_true = [
            float(np.mean([bin(r & mask_of(s)).count("1") % 2 for r in records.tolist()]))
            for s in sets
        ]
        row: dict[str, Any] = {
            "width": width,
            "sets": sum(math.comb(attributes, i) for i in range(1, width + 1)),
        }
        for name, protocol in PROTOCOLS.items():
            conjunctions, worst, parities = [], [], []
            for seed in range(repeats):
                release = protocol(records, attributes, width, 1000 * width + seed)
                off = [abs(release(chosen) - true[mask_of(chosen)]) for chosen in sets]
                conjunctions += off
                worst.append(max(off))
                parities += [
                    abs(parity_from_conjunctions(chosen, release) - value)
                    for chosen, value in zip(sets, parity_true, strict=True)
                ]
            row[name] = {
                "conjunction_rms": root_mean_square(conjunctions),
                "conjunction_max": float(np.mean(worst)),
                "parity_rms": root_mean_square(parities),
            }
        out.append(row)
    return out


def root_mean_square(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def learned(people: int, attributes: int, size: int, seed: int) -> dict[str, bool]:
    """Whether the hidden parity of `size` attributes is found from what each model releases about
    (x, label)."""
    rng = np.random.default_rng(seed)
    hidden = tuple(sorted(rng.choice(attributes, size, replace=False).tolist()))
    records = rng.integers(0, 1 << attributes, people).astype(np.uint64)
    label = np.array([bin(m).count("1") % 2 for m in range(1 << attributes)], dtype=np.uint64)
    records |= label[(records & np.uint64(mask_of(hidden))).astype(np.int64)] << np.uint64(
        attributes
    )
    candidates = list(itertools.combinations(range(attributes), size))
    masks = [mask_of(chosen) | 1 << attributes for chosen in candidates]
    # the parity of the set and the label is the error of that parity as a classifier: the largest
    # sign mean wins
    cells = transform(noisy_cells(records, attributes + 1, seed).reshape(1, -1))[0]
    central = max(range(len(masks)), key=lambda i: int(cells[masks[i]]))
    randomizer = Conjunctions(attributes + 1, size + 1, EPSILON)
    found = randomizer.aggregate(randomizer.randomize(records, coins=SeededNoise(seed)))
    places = {int(mask): place for place, mask in enumerate(randomizer.masks)}
    local = max(range(len(masks)), key=lambda i: float(found.signs[places[masks[i]]]))
    return {"local": candidates[local] == hidden, "central": candidates[central] == hidden}


def people_needed(attributes: int, sizes: range, repeats: int, most: int) -> list[dict[str, Any]]:
    """For each size of a hidden parity, how often it is found as the number of people grows by
    factors of two."""
    out = []
    for size in sizes:
        row: dict[str, Any] = {"size": size, "rates": []}
        people = 125
        while people <= most:
            runs = [
                learned(people, attributes, size, 10_000 * size + seed) for seed in range(repeats)
            ]
            rate = {
                model: sum(run[model] for run in runs) / repeats for model in ("local", "central")
            }
            row["rates"].append({"people": people, **rate})
            if all(value == 1.0 for value in rate.values()):
                break
            people *= 2
        for model in ("local", "central"):
            good = [entry["people"] for entry in row["rates"] if entry[model] >= 0.9]
            row[model] = good[0] if good else None
        out.append(row)
    return out
