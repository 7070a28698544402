"""Tables with known structure for tuning joined histograms, so that figures on real tables stay
honest.

Random Bayesian networks (two or three parents per column), chains through hidden classes
(mixtures), surveys with a rare target, and people with hidden traits (census); columns of 2 to 60
levels, some skewed, some ordered, and a target of two labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.int64]
HELD_OUT = 8000


@dataclass(frozen=True)
class Synthetic:
    """A table of codes, its levels, which columns are ordered; the target is the last column."""

    name: str
    levels: tuple[int, ...]
    ordered: tuple[bool, ...]
    codes: Codes
    held_out: Codes = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))

    def split(self) -> Synthetic:
        """The same with the last `HELD_OUT` rows kept for testing what was learnt."""
        return replace(self, codes=self.codes[:-HELD_OUT], held_out=self.codes[-HELD_OUT:])

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(f"c{i}" for i in range(len(self.levels)))


def network(seed: int, *, rows: int, columns: int, parents: int) -> Synthetic:
    """Every column is a noisy function of up to `parents` earlier ones; how strongly differs from
    column to column."""
    rng = np.random.default_rng([1, seed])
    levels, ordered = _kinds(rng, columns)
    codes = np.zeros((rows, columns), dtype=np.int64)
    places = np.zeros((rows, columns))  # where a code lies within its column, 0 to 1
    for column in range(columns):
        above = rng.choice(
            column, size=min(column, int(rng.integers(1, parents + 1))), replace=False
        )
        drift = np.zeros(rows)
        for i, one in enumerate(above):
            if ordered[one]:
                effect = np.sin(rng.uniform(1, 4) * places[:, one] + rng.uniform(0, 6))
            else:
                effect = rng.normal(size=levels[one])[codes[:, one]]
            drift += rng.uniform(0.5, 1.5) * effect
            if i:  # an interaction with the parent before
                before = above[i - 1]
                drift += rng.uniform(0, 1) * effect * np.where(places[:, before] > 0.5, 1.0, -1.0)
        codes[:, column] = _codes_of(
            rng,
            drift + rng.normal(scale=rng.uniform(0.4, 1.5), size=rows),
            levels[column],
            ordered[column],
        )
        places[:, column] = codes[:, column] / max(1, levels[column] - 1)
    return Synthetic(f"network-{parents}-{seed}", tuple(levels), tuple(ordered), codes)


def mixture(seed: int, *, rows: int, columns: int, classes: int) -> Synthetic:
    """Hidden classes; each column has its own law in every class."""
    rng = np.random.default_rng([2, seed])
    levels, ordered = _kinds(rng, columns)
    hidden = rng.choice(classes, size=rows, p=rng.dirichlet(np.full(classes, 2.0)))
    codes = np.zeros((rows, columns), dtype=np.int64)
    for column in range(columns):
        centre = rng.normal(scale=rng.uniform(0.3, 1.5), size=classes)
        codes[:, column] = _codes_of(
            rng, centre[hidden] + rng.normal(size=rows), levels[column], ordered[column]
        )
    return Synthetic(f"mixture-{classes}-{seed}", tuple(levels), tuple(ordered), codes)


def survey(seed: int, *, rows: int, columns: int) -> Synthetic:
    """Unordered columns only, most of them weakly related to a rare target, as in a survey."""
    rng = np.random.default_rng([3, seed])
    levels = [int(rng.choice([2, 3, 4, 6, 10, 16, 30])) for _ in range(columns - 1)] + [2]
    hidden = rng.normal(size=(rows, 3))
    codes = np.zeros((rows, columns), dtype=np.int64)
    score = 0.2 * hidden[:, 0]
    for column, count in enumerate(levels[:-1]):
        drift = hidden @ rng.normal(size=3) * rng.uniform(0, 1)
        codes[:, column] = _codes_of(rng, drift + rng.normal(size=rows), count, False)
        effect = rng.normal(size=count) * rng.choice([0, 0.15, 0.4])
        score += effect[codes[:, column]]
    odds = np.exp(score - np.quantile(score, 0.85))
    codes[:, -1] = rng.random(rows) < odds / (1 + odds)
    return Synthetic(f"survey-{seed}", tuple(levels), (False,) * columns, codes)


def census(seed: int, *, rows: int, columns: int) -> Synthetic:
    """People with a few hidden traits: numbers and kinds that follow from them, two pairs of
    columns of which one is a coarser kind of the other, and a target that many columns tell
    about."""
    rng = np.random.default_rng([4, seed])
    traits = rng.normal(size=(rows, 4))
    levels, ordered, parts = [], [], []
    for _ in range(columns - 5):
        count = int(rng.choice([2, 2, 3, 5, 8, 16, 32]))
        as_number = count >= 16 or bool(count > 3 and rng.random() < 0.3)
        drift = traits @ (rng.normal(size=4) * rng.choice([0.0, 0.5, 1.0], size=4))
        parts.append(_codes_of(rng, drift + rng.normal(size=rows), count, as_number))
        levels.append(count)
        ordered.append(as_number)
    for fine, coarse in ((60, 12), (24, 5)):
        drift = traits @ rng.normal(size=4) + 0.7 * rng.normal(size=rows)
        codes = _codes_of(rng, drift, fine, False)
        kinds = rng.permutation(np.arange(fine) % coarse)
        parts += [codes, kinds[codes]]
        levels += [fine, coarse]
        ordered += [False, False]
    score = traits @ np.array([1.5, 1.0, 0.7, 0.4]) + 0.8 * traits[:, 0] * traits[:, 1]
    score += rng.normal(scale=0.8, size=rows)
    parts.append((score > np.quantile(score, 0.78)).astype(np.int64))
    codes = np.stack(parts, axis=1)
    return Synthetic(f"census-{seed}", (*levels, 2), (*ordered, False), codes)


def dense(seed: int, *, rows: int, columns: int) -> Synthetic:
    """Numbers that all depend on each other, as the brightnesses of a picture do: each a mix of
    four hidden ones, in 32 even bins; the target follows from two of these."""
    rng = np.random.default_rng([5, seed])
    hidden = rng.normal(size=(rows, 4))
    codes = np.zeros((rows, columns), dtype=np.int64)
    for column in range(columns - 1):
        drift = hidden @ rng.normal(size=4) + rng.uniform(0.3, 1.0) * rng.normal(size=rows)
        codes[:, column] = _codes_of(rng, drift, 32, True)
    codes[:, -1] = hidden[:, 0] + hidden[:, 1] + 0.5 * rng.normal(size=rows) > 0.5
    levels, ordered = (32,) * (columns - 1), (True,) * (columns - 1)
    return Synthetic(f"dense-{seed}", (*levels, 2), (*ordered, False), codes)


def tables_to_learn_from(seed: int) -> list[Synthetic]:
    """Eight tables of 6,000 to 40,000 rows beside those held out."""
    more = HELD_OUT
    made = [
        network(seed, rows=40_000 + more, columns=14, parents=2),
        network(seed + 50, rows=20_000 + more, columns=20, parents=3),
        mixture(seed + 50, rows=12_000 + more, columns=25, classes=4),
        census(seed, rows=6_000 + more, columns=20),
        census(seed + 1, rows=20_000 + more, columns=20),
        census(seed + 2, rows=40_000 + more, columns=15),
        survey(seed, rows=9_000 + more, columns=17),
        survey(seed + 1, rows=30_000 + more, columns=12),
    ]
    return [table.split() for table in made]


def all_tables(seed: int) -> list[Synthetic]:
    """Six tables of 6,000 to 40,000 rows and 10 to 25 columns."""
    return [
        network(seed, rows=40_000, columns=14, parents=2),
        network(seed + 50, rows=20_000, columns=20, parents=3),
        network(seed + 100, rows=6_000, columns=18, parents=2),
        network(seed + 150, rows=30_000, columns=10, parents=3),
        mixture(seed, rows=30_000, columns=15, classes=6),
        mixture(seed + 50, rows=12_000, columns=25, classes=4),
    ]


def _kinds(rng: np.random.Generator, columns: int) -> tuple[list[int], list[bool]]:
    levels = [int(rng.choice([2, 3, 5, 8, 12, 16, 24, 32, 40])) for _ in range(columns - 1)] + [2]
    ordered = [count >= 12 and bool(rng.random() < 0.7) for count in levels]
    return levels, ordered


def _codes_of(
    rng: np.random.Generator, drift: NDArray[np.float64], levels: int, ordered: bool
) -> Codes:
    """A hidden number cut into levels of uneven size; levels of unordered columns are shuffled."""
    shares = (
        np.sort(rng.dirichlet(np.full(levels, rng.choice([0.3, 1.0, 5.0]))))[::-1]
        if not ordered
        else None
    )
    if shares is None:
        # numbers pile up as real ones do: evenly cut in range, with a long tail for half of the
        # columns
        value = np.exp(drift / 1.5) if rng.random() < 0.5 else drift
        low, high = np.quantile(value, [0.001, 0.999])
        return np.clip((value - low) / max(1e-9, high - low) * levels, 0, levels - 1).astype(
            np.int64
        )
    cuts = np.quantile(drift, np.cumsum(rng.permutation(shares))[:-1])
    codes = np.searchsorted(cuts, drift)
    return rng.permutation(levels)[codes].astype(np.int64)
