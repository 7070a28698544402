"""What every peer script shares: python SCRIPT IN.npz OUT.npz EPSILON DELTA SEED [WORDS]. Needs
numpy and nothing else."""

from __future__ import annotations

import math
import resource
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np


@dataclass
class Task:
    """The coded rows with their public domain, and what may be spent on them."""

    codes: np.ndarray
    levels: list[int]
    ordered: list[bool]
    test: np.ndarray
    epsilon: float
    delta: float
    seed: int
    words: list[str]
    columns: list[str]
    _target: str
    _clock: tuple[float, float] = field(default_factory=lambda: (time.perf_counter(), _cpu()))

    def start(self) -> None:
        """Start the clock: imports and reading are not counted, for no method."""
        self._clock = (time.perf_counter(), _cpu())

    def answer(self, **arrays: np.ndarray) -> None:
        """Stop the clock and write synthetic rows (`rows`) or scores of the held-out rows
        (`scores`)."""
        wall, cpu = time.perf_counter() - self._clock[0], _cpu() - self._clock[1]
        np.savez(self._target, seconds=wall, cpu=cpu, peak_mb=_peak(), **arrays)


def task() -> Task:
    source, target, epsilon, delta, seed = sys.argv[1:6]
    held = np.load(source)
    codes = held["train"].astype(np.int64)
    return Task(
        codes=codes,
        levels=[int(count) for count in held["levels"]],
        ordered=[bool(flag) for flag in held["ordered"]],
        test=held["test"].astype(np.int64),
        epsilon=float(epsilon),
        delta=float(delta),
        seed=int(seed),
        words=sys.argv[6:],
        columns=[f"c{place}" for place in range(codes.shape[1])],
        _target=target,
    )


def largest_rho(epsilon: float, delta: float) -> float:
    """By bisection on the simple and tight conversion of zCDP (Canonne, Kamath and Steinke
    2020)."""
    orders = 1 + np.exp(np.linspace(-6, 12, 4000))
    tail = np.log1p(-1 / orders) + (math.log(1 / delta) - np.log(orders)) / (orders - 1)
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if np.min(middle * orders + tail) <= epsilon else (low, middle)
    return low


def _peak() -> float:
    """The most memory this process has held, in MB. Not ru_maxrss: a child inherits that of the
    process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _cpu() -> float:
    """Of this process and of those it has started: some peers hand their work to others."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
