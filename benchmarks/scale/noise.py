"""How fast exact noise is, beside numpy's inexact Laplace (the floor) and OpenDP's exact one (the
peer), in one run.

    python benchmarks/scale/noise.py [--json FILE] [--draws N]

Tables and compiled kernels are warm. Each figure is the best of several rounds, and the rounds of
all contestants are interleaved, so that a busy machine slows them alike.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import opendp.prelude as opendp

from dpublish.noise.gaussian import discrete_gaussian, discrete_laplace
from dpublish.noise.geometric import ranks_to_cells, survivors
from dpublish.noise.source import SystemNoise
from dpublish.noise.words import SystemStream, uniform_below

ROUNDS = 7
PEER_DRAWS = 5_000
SCALES = (
    Fraction(1, 2),
    Fraction(2),
    Fraction(7, 3),
    Fraction(20),
    Fraction(100),
    Fraction(1000),
    Fraction(10**6),
)


@dataclass(frozen=True)
class Trial:
    """One contestant: `run` returns how many items it made."""

    group: str
    name: str
    run: Callable[[], int]


@dataclass(frozen=True)
class Figure:
    group: str
    name: str
    items: int
    nanoseconds: float


def trials(draws: int) -> list[Trial]:
    stream, noise, floor = SystemStream(), SystemNoise(), np.random.default_rng()
    zeros = np.zeros(draws, dtype=np.int64)
    listed = [
        Trial("words", "64-bit words of the system stream", lambda: stream.words(draws).size),
        Trial("words", "uniform below 10", lambda: uniform_below(stream, 10, draws).size),
    ]
    for scale in SCALES:
        group = f"laplace, scale {scale}"
        listed += [
            Trial(
                group,
                "dpublish (exact)",
                lambda scale=scale: discrete_laplace(stream, scale, draws).size,
            ),
            Trial(
                group,
                "numpy (float, inexact)",
                lambda scale=scale: floor.laplace(0, float(scale), draws).size,
            ),
            Trial(group, "OpenDP (exact)", _opendp_laplace(float(scale))),
        ]
    listed.append(
        Trial(
            "laplace, scale 2",
            "dpublish, added to counts",
            lambda: noise.laplace(zeros, sensitivity=Fraction(2), epsilon=Fraction(1)).size,
        )
    )
    for variance in (Fraction(1), Fraction(25), Fraction(10**8)):
        group = f"gaussian, variance {variance}"
        sigma = float(variance) ** 0.5
        listed += [
            Trial(
                group,
                "dpublish (exact)",
                lambda v=variance: discrete_gaussian(stream, v, draws).size,
            ),
            Trial(group, "numpy (float, inexact)", lambda s=sigma: floor.normal(0, s, draws).size),
        ]
    for log_domain in (40, 63):
        listed += _survivor_trials(log_domain, draws, stream, floor)
    return listed


def _opendp_laplace(scale: float) -> Callable[[], int]:
    opendp.enable_features("contrib")
    measure = opendp.m.make_laplace(
        opendp.vector_domain(opendp.atom_domain(T="i64")), opendp.l1_distance(T="i64"), scale
    )
    zeros = [0] * PEER_DRAWS
    return lambda: len(measure(zeros))


def _survivor_trials(
    log_domain: int, draws: int, stream: SystemStream, floor: np.random.Generator
) -> list[Trial]:
    """A threshold that lets about `draws` cells of the domain pass."""
    scale, domain = Fraction(20), 1 << log_domain
    threshold = round(float(scale) * math.log(domain / (2 * draws)))
    occupied = np.unique(floor.integers(0, domain, draws, dtype=np.uint64))
    ranks = survivors(stream, domain - occupied.size, scale, threshold)
    group = f"survivors, domain 2^{log_domain}"
    return [
        Trial(
            group,
            "gaps: count and sorted ranks",
            lambda: survivors(stream, domain, scale, threshold).size,
        ),
        Trial(group, "ranks to cells", lambda: ranks_to_cells(ranks, occupied).size),
    ]


def measure(listed: list[Trial]) -> list[Figure]:
    best: dict[Trial, Figure] = {}
    for trial in listed:
        trial.run()
    for _ in range(ROUNDS):
        for trial in listed:
            start = time.perf_counter_ns()
            items = trial.run()
            figure = Figure(
                trial.group, trial.name, items, (time.perf_counter_ns() - start) / items
            )
            if trial not in best or figure.nanoseconds < best[trial].nanoseconds:
                best[trial] = figure
    return sorted((best[trial] for trial in listed), key=lambda f: f.group)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--draws", type=int, default=1_000_000)
    arguments = parser.parse_args()
    figures = measure(trials(arguments.draws))
    print(f"{'what':<28} {'how':<34} {'items':>9} {'ns/item':>9}")
    for figure in figures:
        print(f"{figure.group:<28} {figure.name:<34} {figure.items:>9} {figure.nanoseconds:>9.1f}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps([asdict(figure) for figure in figures], indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
