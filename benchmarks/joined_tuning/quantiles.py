"""Quantiles of raw numbers that come back from joined histograms, by their rank error.

    python benchmarks/joined_tuning/quantiles.py --seeds 8 --set bin_share=0 --set ""

Ten columns between declared bounds 0 and 1,000,000: four log-normal, three Pareto, three with heaps
at one or two values. 10,000 rows, one row replaced, epsilon 1, pure and with delta = 1e-9. Nine
quantiles of each column of 40,000 drawn rows. A rank error is how far the wanted share is from the
ranks that the found value has among the true ones.

    python benchmarks/joined_tuning/quantiles.py --drawn --seeds 12 --set "" --set bins=24

does the same with ten columns whose shapes are drawn too: log-normal, Pareto, gamma and normal
ones, and up to three heaps of 5 to 40% at round numbers, the bounds among them. Defaults are chosen
on these, and the ten above are left to see what came of it.

    python benchmarks/joined_tuning/quantiles.py --tied --seeds 6 --set "" --set bins=24

does it with the drawn shapes of columns that depend on each other, all by one hidden number and
neighbours by another, and adds the total variation of pairs (each column in ten bins of as many
true rows): what fewer bins cost the pairs.

    python benchmarks/joined_tuning/quantiles.py --grid --seeds 2

prints, for other numbers of rows and costs, what the plan's warning about quantiles goes by beside
how many quantiles are off by more than 0.02: `QUANTILE_NOISE` in the plan was read off it.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tune import parsed, set_constants

SHARES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
ROWS = 10_000
Numbers = dict[str, NDArray[np.float64]]


def numbers(seed: int) -> Numbers:
    rng = np.random.default_rng(seed)
    made: Numbers = {}
    for place, (middle, spread) in enumerate(((10.3, 0.7), (8, 1.2), (0.5, 1), (11, 0.4))):
        made[f"lognormal{place}"] = rng.lognormal(middle, spread, ROWS)
    for place, (shape, least) in enumerate(((1.5, 1000), (2.5, 20), (1.1, 5000))):
        made[f"pareto{place}"] = (rng.pareto(shape, ROWS) + 1) * least
    body = rng.lognormal(9, 1, ROWS)
    made["heap0"] = np.where(rng.random(ROWS) < 0.4, 0.0, body)
    made["heap1"] = np.where(rng.random(ROWS) < 0.3, 5000.0, body)
    low = np.where(rng.random(ROWS) < 0.15, 40.0, rng.gamma(2, 20_000, ROWS))
    made["heap2"] = np.where(rng.random(ROWS) < 0.2, 100_000.0, low)
    return {name: np.minimum(values, 1e6) for name, values in made.items()}


def drawn_numbers(seed: int) -> Numbers:
    rng = np.random.default_rng(50_000 + seed)
    made: Numbers = {}
    for place in range(10):
        kind = rng.integers(7)
        if kind == 0:
            values = rng.lognormal(rng.uniform(0, 11.5), rng.uniform(0.3, 1.6), ROWS)
        elif kind == 1:
            values = (rng.pareto(rng.uniform(1, 3), ROWS) + 1) * 10 ** rng.uniform(0.5, 4)
        elif kind == 2:
            values = rng.gamma(rng.uniform(0.7, 4), 10 ** rng.uniform(2, 5), ROWS)
        elif kind == 3:
            values = rng.normal(rng.uniform(2e5, 8e5), rng.uniform(1e4, 1e5), ROWS)
        else:
            values = rng.lognormal(rng.uniform(5, 11.5), rng.uniform(0.4, 1.3), ROWS)
            for _ in range(rng.integers(1, 4)):
                at = float(rng.choice([0, 1, 2, 5, 10, 15, 20, 25, 40, 50, 75, 100]))
                at *= 10.0 ** rng.integers(0, 5)
                values = np.where(rng.random(ROWS) < rng.uniform(0.05, 0.4), at, values)
        made[f"drawn{place}"] = np.clip(values, 0, 1e6)
    return made


def tied_numbers(seed: int) -> Numbers:
    """The drawn columns, their rows in an order that ties them."""
    rng = np.random.default_rng(70_000 + seed)
    shared, before = rng.normal(size=ROWS), rng.normal(size=ROWS)
    made: Numbers = {}
    for name, values in drawn_numbers(seed).items():
        own = rng.normal(size=ROWS)
        place = rng.uniform(0, 1) * shared + rng.uniform(0, 1.5) * before + own
        made[name] = np.sort(values)[np.argsort(np.argsort(place))]
        before = own
    return made


def pairs_apart(true: Numbers, found: Numbers) -> list[float]:
    """The total variation of every pair, each column in up to ten bins of as many true rows."""
    ends = {name: np.quantile(values, np.arange(1, 10) / 10) for name, values in true.items()}

    def tables(numbers: Numbers) -> dict[str, NDArray[np.int64]]:
        return {
            name: np.searchsorted(ends[name], values, side="right")
            for name, values in numbers.items()
        }

    codes, others = tables(true), tables(found)
    out = []
    for one, two in itertools.combinations(true, 2):
        both = [np.bincount(some[one] * 10 + some[two], minlength=100) for some in (codes, others)]
        out.append(0.5 * float(np.abs(both[0] / both[0].sum() - both[1] / both[1].sum()).sum()))
    return out


def rank_error(ordered: NDArray[np.float64], found: float, share: float) -> float:
    first = np.searchsorted(ordered, found, side="left") / len(ordered)
    last = np.searchsorted(ordered, found, side="right") / len(ordered)
    return float(max(0.0, first - share, share - last))


def schema_text(rows: int, names: Iterable[str]) -> str:
    text = f'[dataset]\nname = "numbers"\nsize = {rows}\n'
    for name in names:
        text += f'[columns.{name}]\nkind = "real"\nlower = 0.0\nupper = 1000000.0\n'
    return text


def grid(seeds: int) -> None:
    """The share of quantiles that are off by more than 0.02, where the plan warns and where not."""
    import dpublish as dp
    from dpublish.methods.joined_histograms.plan import quantile_noise
    from dpublish.privacy.cost import Cost

    pure = [Cost.pure(epsilon) for epsilon in ("0.5", "1", "1.4", "2", "4")]
    both = [Cost.approximate(epsilon, "1e-9") for epsilon in ("0.3", "0.6", "1")]
    for rows in (3_000, 10_000, 40_000):
        globals()["ROWS"] = rows
        for cost in [*pure, *both]:
            schema = dp.Schema.from_toml(schema_text(rows, numbers(0)))
            plan = dp.JoinedHistograms().plan(schema, cost)
            found = np.array([errors(seed, cost, {}).ranks for seed in range(seeds)])
            warned = any("uantiles" in text for text in plan.warnings)
            noise = quantile_noise(plan.forecast["column_deviation_high"], 32, rows)
            print(
                f"{rows} rows, {cost.describe()}, {plan.settings.noise}: noise {noise:.4f}, mean "
                f"{found.mean():.4f}, above 0.02 {np.mean(found > 0.02):.3f}, warned {warned}",
                flush=True,
            )


@dataclass(frozen=True)
class Errors:
    """The rank error of every quantile of every column, the total variation of every pair, and the
    CPU seconds of the mechanism and the fit."""

    ranks: list[float]
    pairs: list[float]
    cpu: float


def errors(
    seed: int, cost: Any, settings: dict[str, Any], columns: Callable[[int], Numbers] = numbers
) -> Errors:
    import dpublish as dp
    from dpublish.models.junction_tree.fit import fit_model
    from dpublish.models.junction_tree.measured import read_measured
    from dpublish.noise.source import SeededNoise
    from dpublish.releases.frames import drawn_values
    from dpublish.releases.joined_histograms.release import shaped

    made = columns(seed)
    method = dp.JoinedHistograms(**settings)
    plan = method.plan(dp.Schema.from_toml(schema_text(ROWS, made)), cost)
    codes = [
        np.minimum(np.searchsorted(axis.edges, made[axis.name], side="right") - 1, axis.base - 1)
        for axis in method.statistic(plan).domain.axes
    ]
    start = time.process_time()
    output = method.run(SeededNoise(seed), codes, plan)
    domain = output.domain or plan.settings.domain
    measured = read_measured(domain, output.facts, output.tables)
    model = fit_model(measured.columns, measured.tables, target=None, total=measured.total)
    used = time.process_time() - start
    rng = np.random.default_rng(0)
    out, drawn_rows = [], {}
    axes = [shaped(axis, one) for axis, one in zip(domain.axes, measured.columns, strict=True)]
    for axis, drawn in zip(axes, model.sample_codes(4 * ROWS, rng), strict=True):
        ordered = np.sort(made[axis.name])
        drawn_rows[axis.name] = drawn_values(axis, drawn, rng).to_numpy()
        values = np.sort(drawn_rows[axis.name])
        out += [rank_error(ordered, values[int(share * len(values))], share) for share in SHARES]
    return Errors(out, pairs_apart(made, drawn_rows), used)


def main() -> None:
    from dpublish.privacy.cost import Cost

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", action="append", dest="settings")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--drawn", action="store_true", help="columns of drawn shapes")
    parser.add_argument("--tied", action="store_true", help="the same, and pairs that depend")
    given = parser.parse_args()
    if given.grid:
        grid(given.seeds)
        return
    for name, cost in (("pure", Cost.pure(1)), ("delta", Cost.approximate(1, "1e-9"))):
        for text in given.settings or [""]:
            columns = tied_numbers if given.tied else drawn_numbers if given.drawn else numbers
            settings, constants = parsed(text)
            before, seeds = set_constants(constants), range(given.first, given.first + given.seeds)
            runs = [errors(seed, cost, settings, columns) for seed in seeds]
            set_constants(before)
            found = np.array([run.ranks for run in runs])
            pairs = np.array([run.pairs for run in runs])
            print(
                f"{name} {text}: mean {found.mean():.4f}, above 0.02 {np.mean(found > 0.02):.3f}, "
                f"largest {found.max():.3f}, pairs {pairs.mean():.4f}, worst pair "
                f"{pairs.max(axis=1).mean():.4f}, CPU {np.mean([run.cpu for run in runs]):.2f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
