"""Where the fit of the weights was chosen: made-up populations and splits of public tables, none of
them in README.md.

    python develop.py --out develop.json [--data DIR] [--cases 45]

A made-up population has 8 to 15 columns of 2 to 24 values, each depending on one or two earlier
ones. Public rows are drawn from it by chance, or tilted by two columns, by four, or by three pairs,
or come from a population with other coefficients. With --data also parts of the ACS excerpts and of
Satellite, tilted alike. Tables: columns alone, 12 pairs as well, or all pairs. The criterion is the
mean of log(mean two-way total variation distance) over all cases, one draw of the noise each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.models.raking import raking
from dpublish.models.raking.raking import rake
from dpublish.models.raking.sweeps import (
    TableTarget,
    consistent_shares,
    shares_of,
    solve,
    supported,
)
from dpublish.privacy.cost import largest_rho

Codes = list[NDArray[np.int64]]
TILTS = ("none", "two columns", "four columns", "three pairs", "another population")
EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0)
TABLES = ("columns", "all pairs", "12 pairs")
POOL = 80_000
ACS = (
    "SEX",
    "MSP",
    "HISP",
    "RAC1P",
    "NOC",
    "HOUSING_TYPE",
    "OWN_RENT",
    "EDU",
    "PINCP_DECILE",
    "DVET",
    "DPHY",
    "DREM",
)


@dataclass(frozen=True)
class Case:
    name: str
    public: Codes
    private: Codes
    sizes: list[int]
    epsilon: float
    tables: str


def population(
    rng: np.random.Generator, sizes: list[int], rows: int, law: list[Any] | None, other: float
) -> tuple[Codes, list[Any]]:
    """Rows, and the law that they have: for each column logits, and what each earlier column adds
    to them."""
    if law is None:
        law = []
        for place, size in enumerate(sizes):
            parents = (
                rng.choice(place, min(place, int(rng.integers(1, 3))), replace=False)
                if place
                else []
            )
            law.append(
                (
                    rng.normal(0, 1.0, size),
                    [(p, rng.normal(0, 0.8, (sizes[p], size))) for p in parents],
                )
            )
    codes: Codes = []
    for alone, parents in law:
        logits = np.tile(alone + other * rng.normal(0, 1, len(alone)), (rows, 1))
        for parent, effect in parents:
            logits += (effect + other * rng.normal(0, 1, effect.shape))[codes[parent]]
        codes.append(np.argmax(logits + rng.gumbel(size=logits.shape), axis=1))
    return codes, law


def tilted(
    rng: np.random.Generator, codes: Codes, sizes: list[int], tilt: str, rows: int
) -> NDArray[np.int64]:
    """Which rows are public."""
    logs = np.zeros(len(codes[0]))
    if tilt in ("two columns", "four columns"):
        number, size = (2, 0.4) if tilt == "two columns" else (4, 0.9)
        for place in rng.choice(len(sizes), number, replace=False):
            logs += rng.normal(0, size, sizes[place])[codes[place]]
    if tilt == "three pairs":
        for _ in range(3):
            a, b = rng.choice(len(sizes), 2, replace=False)
            logs += rng.normal(0, 0.8, (sizes[a], sizes[b]))[codes[a], codes[b]]
    odds = np.exp(logs - logs.max())
    return rng.choice(len(logs), rows, replace=False, p=odds / odds.sum())


def made_up(number: int) -> Case:
    rng = np.random.default_rng([11, number])
    sizes = [
        int(size)
        for size in rng.choice([2, 2, 3, 4, 5, 6, 8, 10, 16, 24], int(rng.integers(8, 16)))
    ]
    tilt, epsilon, tables = TILTS[number % 5], EPSILONS[number // 5 % 5], TABLES[number % 3]
    rows, people = (
        int(rng.choice([1000, 2500, 5000, 10_000, 20_000])),
        int(rng.choice([5000, 20_000, 40_000])),
    )
    pool, law = population(rng, sizes, POOL, None, 0.0)
    own = rng.choice(POOL, people, replace=False)
    rest = [column[np.setdiff1d(np.arange(POOL), own)] for column in pool]
    if tilt == "another population":
        public = population(rng, sizes, rows, law, 0.35)[0]
    else:
        chosen = tilted(rng, rest, sizes, tilt, rows)
        public = [column[chosen] for column in rest]
    return Case(
        f"made up {number}: {tilt}, {rows} public rows",
        public,
        [c[own] for c in pool],
        sizes,
        epsilon,
        tables,
    )


@lru_cache
def table_of(name: str, data: Path) -> tuple[Codes, list[int]]:
    if name == "satellite":
        frame = pl.read_csv(data / "satellite.csv.gz")
        bins = {place: (4, 6, 8, 12)[place % 4] for place in (1, 5, 9, 14, 18, 20, 22, 27, 31, 36)}
        codes = [
            np.searchsorted(np.linspace(27, 157, n + 1)[1:-1], frame[f"x.{p}"].to_numpy())
            for p, n in bins.items()
        ]
        labels, last = np.unique(frame["class"].to_numpy(), return_inverse=True)
        return [*codes, last], [*bins.values(), len(labels)]
    frame = pl.read_csv(data / f"acs_{name}2019.csv.gz", infer_schema_length=0)
    found = [np.unique(frame[column].to_numpy().astype(str), return_inverse=True) for column in ACS]
    age = np.minimum(frame["AGEP"].cast(pl.Float64).to_numpy() // 10, 9).astype(np.int64)
    return [*(codes for _, codes in found), age], [*(len(labels) for labels, _ in found), 10]


def split(number: int, data: Path) -> Case:
    name, rows = (("ma", 2500), ("national", 6000), ("satellite", 2000))[number % 3]
    tilt, epsilon, tables = (
        TILTS[number // 3 % 4],
        EPSILONS[(2 * number + 1) % 5],
        TABLES[(number // 2 + 1) % 3],
    )
    codes, sizes = table_of(name, data)
    public = tilted(np.random.default_rng([13, number]), codes, sizes, tilt, rows)
    rest = np.setdiff1d(np.arange(len(codes[0])), public)
    return Case(
        f"{name} {number}: {tilt}",
        [c[public] for c in codes],
        [c[rest] for c in codes],
        sizes,
        epsilon,
        tables,
    )


def cells(codes: Codes, sizes: list[int], columns: tuple[int, ...]) -> NDArray[np.int64]:
    found = np.zeros(len(codes[0]), dtype=np.int64)
    for column in columns:
        found = found * sizes[column] + codes[column]
    return found


def bought(case: Case, seed: int) -> list[TableTarget]:
    """Noisy tables for the whole epsilon: Laplace, or Gaussian with delta 1e-9 for all pairs."""
    rng = np.random.default_rng([14, seed, len(case.private[0])])
    every = list(itertools.combinations(range(len(case.sizes)), 2))
    pairs = {"columns": 0, "12 pairs": 12, "all pairs": len(every)}[case.tables]
    chosen = rng.choice(len(every), min(pairs, len(every)), replace=False)
    asked = [
        *((place,) for place in range(len(case.sizes))),
        *(every[place] for place in sorted(chosen)),
    ]
    widths = np.array([math.prod(case.sizes[column] for column in columns) for columns in asked])
    if case.tables == "all pairs":
        parts = np.sqrt(widths) / np.sqrt(widths).sum()
        variances = 1.0 / (float(largest_rho(str(case.epsilon), "1e-9")) * parts)
    else:
        variances = 2.0 * (2.0 / (case.epsilon * np.cbrt(widths) / np.cbrt(widths).sum())) ** 2
    found = []
    for columns, width, variance in zip(asked, widths.tolist(), variances.tolist(), strict=True):
        counts = np.bincount(cells(case.private, case.sizes, columns), minlength=width).astype(
            np.float64
        )
        if case.tables == "all pairs":
            counts += rng.normal(0, math.sqrt(variance), width)
        else:
            counts += rng.laplace(0, math.sqrt(variance / 2), width)
        shares, noise = consistent_shares(np.rint(counts), variance, len(case.private[0]))
        codes = cells(case.public, case.sizes, columns).astype(np.uint16)
        found.append(
            TableTarget(
                codes, shares, noise, columns, tuple(case.sizes[column] for column in columns)
            )
        )
    return found


def two_way_tvs(case: Case, weights: dict[str, NDArray[np.float64]]) -> dict[str, float]:
    """The mean distance of all two-way tables, for each kind of weights."""
    found: dict[str, list[float]] = {name: [] for name in weights}
    for columns in itertools.combinations(range(len(case.sizes)), 2):
        width = math.prod(case.sizes[column] for column in columns)
        own = np.bincount(cells(case.private, case.sizes, columns), minlength=width) / len(
            case.private[0]
        )
        codes = cells(case.public, case.sizes, columns)
        for name, masses in weights.items():
            found[name].append(
                float(np.abs(own - np.bincount(codes, weights=masses, minlength=width)).sum()) / 2
            )
    return {name: float(np.mean(values)) for name, values in found.items()}


def like_a_sample(
    targets: list[TableTarget], base: NDArray[np.float64], rows: float | None = None
) -> NDArray[np.float64]:
    plain = [supported(target).target for target in targets]
    return solve(
        plain, base, [np.maximum((rows or len(base)) * one.variances, 1e-9) for one in plain]
    ).masses


def until_explained(targets: list[TableTarget], base: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows speak as a sample of their size, then of a quarter of it, and so on, until noise
    explains what is missed."""
    plain, rows = [supported(target).target for target in targets], float(len(base))
    while True:
        masses = like_a_sample(targets, base, rows)
        missed = sum(
            float(((shares_of(one, masses) - one.shares) ** 2 / one.variances).sum())
            for one in plain
        )
        number = sum(one.cells for one in plain)
        if rows <= 1.0 or missed <= number + 2.0 * math.sqrt(2.0 * number):
            return masses
        rows /= 4.0


def at_rate(rate: float) -> Callable[..., NDArray[np.float64]]:
    def fitted(targets: list[TableTarget], base: NDArray[np.float64]) -> NDArray[np.float64]:
        before, raking.RATE = raking.RATE, rate
        try:
            return rake(targets, base).masses
        finally:
            raking.RATE = before

    return fitted


RULES: dict[str, Callable[..., NDArray[np.float64]]] = {
    "public rows as they are": lambda targets, base: base / base.sum(),
    "as a sample of their size": like_a_sample,
    "as a sample, until noise explains the rest": until_explained,
    "coefficients of size 1": lambda targets, base: rake(targets, base, precision=1.0).masses,
    "tilt sizes, rate 3": at_rate(3.0),
    "tilt sizes, rate 8": at_rate(8.0),
    "tilt sizes, rate 15": at_rate(15.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--cases", type=int, default=45)
    asked = parser.parse_args()
    cases = [*((made_up, (number,)) for number in range(asked.cases))]
    if asked.data:
        cases += [(split, (number, asked.data)) for number in range(18)]  # type: ignore[list-item, misc]
    figures = []
    for make, arguments in cases:
        case = make(*arguments)
        targets, base = bought(case, 0), np.ones(len(case.public[0]))
        found = two_way_tvs(case, {name: rule(targets, base) for name, rule in RULES.items()})
        figures.append(
            {"case": case.name, "epsilon": case.epsilon, "tables": case.tables, "two_way_tv": found}
        )
        print(
            f"{case.name:52s} {case.epsilon:5} {case.tables:10s}",
            *(f"{value:.4f}" for value in found.values()),
            flush=True,
        )
    means = {
        name: float(np.exp(np.mean([np.log(one["two_way_tv"][name]) for one in figures])))
        for name in RULES
    }
    print(json.dumps(means, indent=1))
    asked.out.write_text(json.dumps({"means": means, "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
