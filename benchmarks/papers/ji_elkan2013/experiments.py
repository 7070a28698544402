"""The experiments behind figures 1 to 6, and the one on the ACS."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from dpublish.methods.erm.design import Design
from dpublish.methods.erm.losses import LogisticLoss
from dpublish.methods.erm.solver import Problem, minimise
from dpublish.methods.importance_weights.balanced import public_weights
from dpublish.methods.importance_weights.mechanism import ImportanceWeights
from dpublish.models.public_rows import PublicSet, encode_public, uniform_rows
from dpublish.models.weight_features import WeightFeatures
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

from .data import Split

LAMBDAS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
GRID = Fraction(1, 1 << 20)
TOLERANCE = 2.0**-20
"""Solver error is 1e-5 or less in the coefficients: nothing beside the noise."""


class Bench:
    """One split with what all experiments share. `norm` is the paper's bound sqrt(d) or the
    schema's sqrt(columns)."""

    def __init__(self, split: Split) -> None:
        self.split = split
        axes = split.schema.domain(list(split.schema.columns)).axes
        self.axes = axes
        self.features = WeightFeatures(axes, numbers="bins")
        self.rich = (
            {axis.name: place for place, axis in enumerate(axes)}["income"]
            if "income" in split.schema.columns
            else 0
        )

    def solve(
        self, private: Sequence[np.ndarray], public: PublicSet, strength: float
    ) -> np.ndarray:
        rows, count = len(private[0]), public.rows
        codes = [
            np.concatenate([own, other]) for own, other in zip(private, public.codes, strict=True)
        ]
        weights = np.concatenate([np.ones(rows), public_weights(public.base, rows)])
        signs = np.concatenate([np.ones(rows), -np.ones(count)])
        ridge = strength / self.features.divisor**2
        flat = np.zeros(self.features.dimension)
        problem = Problem(
            Design(self.features, codes), signs, LogisticLoss(), rows, ridge, flat, weights
        )
        return (
            np.array([float(value) for value in minimise(problem, TOLERANCE * ridge)])
            / self.features.divisor
        )

    def noisy(
        self, beta: np.ndarray, *, strength: float, epsilon: float, norm: float, noise: SeededNoise
    ) -> np.ndarray:
        """Algorithm 1, step 2: the change of beta is at most norm / (N lambda) when a row is added
        or removed."""
        step = Fraction(norm / (self.split.size * strength))
        values = [Fraction(value) for value in beta.tolist()]
        drawn = noise.gamma_norm(values, grid=GRID, sensitivity=step, epsilon=Fraction(epsilon))
        return drawn.astype(np.float64) * float(GRID)

    def weights(self, beta: np.ndarray, public: PublicSet) -> np.ndarray:
        scores = self.features.scores(public.codes, beta)
        masses = public.base * np.exp(scores - scores.max())
        return masses / masses.sum() * public.rows

    def share(self, weights: np.ndarray, public: PublicSet) -> float:
        """Answer to b(x) = income above 50K."""
        return float(weights @ (public.codes[self.rich] == 1)) / float(weights.sum())

    def svm(self, codes: Sequence[np.ndarray], weights: np.ndarray) -> np.ndarray:
        """LIBLINEAR on all features but income; weights are scaled to the number of private
        rows."""
        keep = np.ones(self.features.dimension, dtype=bool)
        start = self.features.starts[self.rich]
        keep[start : start + 2] = False
        vectors = self.features.vectors(codes)[:, keep]
        model = LinearSVC(C=SVM_COST, fit_intercept=False, dual=False, tol=1e-4, max_iter=2000)
        scaled = weights * (self.split.size / weights.sum())
        return np.asarray(model.fit(vectors, codes[self.rich] == 1, sample_weight=scaled).coef_[0])


SVM_COST = 0.1


def public_sets(bench: Bench) -> dict[str, PublicSet]:
    split = bench.split
    uniform = encode_public("uniform", uniform_rows(bench.axes, split.public.rows), bench.axes)
    return {
        "E = D": encode_public("same", split.frame, bench.axes),
        "skewed E": split.public,
        "uniform E": uniform,
    }


def estimates(bench: Bench, bootstraps: int, say: Any) -> dict[str, Any]:
    """Figures 1, 2, 4 and 5: the income query."""
    norms = {"sqrt(d)": bench.features.dimension**0.5, "sqrt(columns)": len(bench.axes) ** 0.5}
    by_lambda: dict[str, dict[str, list[float]]] = {
        name: {str(x): [] for x in LAMBDAS} for name in norms
    }
    by_epsilon: dict[str, dict[str, list[float]]] = {
        name: {str(x): [] for x in EPSILONS} for name in norms
    }
    no_noise: dict[str, list[float]] = {str(x): [] for x in LAMBDAS}
    public, noise = bench.split.public, SeededNoise(2013)
    for seed in range(bootstraps):
        private = bench.split.resampled(seed)
        for strength in LAMBDAS:
            beta = bench.solve(private, public, strength)
            no_noise[str(strength)].append(bench.share(bench.weights(beta, public), public))
            for name, norm in norms.items():
                drawn = bench.noisy(beta, strength=strength, epsilon=0.1, norm=norm, noise=noise)
                by_lambda[name][str(strength)].append(
                    bench.share(bench.weights(drawn, public), public)
                )
                if strength == 0.1:
                    for epsilon in EPSILONS:
                        drawn = bench.noisy(
                            beta, strength=strength, epsilon=epsilon, norm=norm, noise=noise
                        )
                        by_epsilon[name][str(epsilon)].append(
                            bench.share(bench.weights(drawn, public), public)
                        )
        say(f"bootstrap {seed + 1} of {bootstraps}")
    return {"lambda": by_lambda, "epsilon": by_epsilon, "no_noise": no_noise}


def svm_distances(bench: Bench, bootstraps: int, say: Any) -> dict[str, Any]:
    """Figures 3, 5 and 6: the distance of SVM coefficients, and the three extreme cases for both
    queries."""
    split, noise = bench.split, SeededNoise(63)
    norms = {"sqrt(d)": bench.features.dimension**0.5, "sqrt(columns)": len(bench.axes) ** 0.5}
    target = bench.svm(split.private, np.ones(split.size))
    distances: dict[str, dict[str, list[float]]] = {
        name: {str(x): [] for x in (*EPSILONS, "none")} for name in norms
    }
    sets = public_sets(bench)
    extreme: dict[str, dict[str, dict[str, list[float]]]] = {
        name: {case: {"share": [], "distance": []} for case in sets} for name in norms
    }
    for seed in range(bootstraps):
        private = split.resampled(1000 + seed)
        for case, public in sets.items():
            beta = bench.solve(private, public, 0.1)
            for name, norm in norms.items():
                drawn = bench.noisy(beta, strength=0.1, epsilon=0.1, norm=norm, noise=noise)
                weights = bench.weights(drawn, public)
                extreme[name][case]["share"].append(bench.share(weights, public))
                gap = float(np.linalg.norm(bench.svm(public.codes, weights) - target))
                extreme[name][case]["distance"].append(gap)
                if case == "skewed E":
                    distances[name]["0.1"].append(gap)
                    for epsilon in (0.02, 0.5, 1.0):
                        again = bench.noisy(
                            beta, strength=0.1, epsilon=epsilon, norm=norm, noise=noise
                        )
                        fitted = bench.svm(public.codes, bench.weights(again, public))
                        distances[name][str(epsilon)].append(float(np.linalg.norm(fitted - target)))
            if case == "skewed E":
                clean = float(
                    np.linalg.norm(bench.svm(public.codes, bench.weights(beta, public)) - target)
                )
                for name in norms:
                    distances[name]["none"].append(clean)
        say(f"SVM bootstrap {seed + 1} of {bootstraps}")
    filled = {
        name: {key: values for key, values in found.items() if values}
        for name, found in distances.items()
    }
    d, n = bench.features.dimension, split.size
    return {
        "distance": filled,
        "extreme": extreme,
        "svm_norm": float(np.linalg.norm(target)),
        "unweighted_distance": float(
            np.linalg.norm(bench.svm(split.public.codes, np.ones(split.public.rows)) - target)
        ),
        # the paper's closed form for private ERM: 2 d sqrt(d + 1) / (N Lambda epsilon)
        "private_erm_length": 2 * d * (d + 1) ** 0.5 / (n * 0.1 * 0.1),
        "private_erm_length_paper": 2 * 63 * 64**0.5 / (21_000 * 0.1 * 0.1),
    }


def moments(
    bench: Bench, bootstraps: int, epsilons: Sequence[float] = (0.02, 0.1, 1.0)
) -> dict[str, Any]:
    """The default variant on the same split."""
    split = bench.split
    found: dict[str, Any] = {}
    for epsilon in epsilons:
        method = ImportanceWeights(public=split.public.frame, columns=list(split.schema.columns))
        plan = method.plan(split.schema, Cost.pure(str(epsilon)))
        shares, gaps = [], []
        target = bench.svm(split.private, np.ones(split.size))
        for seed in range(bootstraps):
            content = method.run(SeededNoise(seed), split.resampled(seed), plan)
            weights = np.asarray(content.tables["weights"]["weight"])
            shares.append(bench.share(weights, split.public))
            if seed < 10:
                gaps.append(float(np.linalg.norm(bench.svm(split.public.codes, weights) - target)))
        found[str(epsilon)] = {"share": shares, "distance": gaps}
    return found


def tables_apart(split: Split, weights: np.ndarray) -> dict[str, float]:
    """Mean total variation distance of all one-way and two-way tables, private against weighted
    public rows."""
    sizes = [axis.cardinality for axis in split.schema.domain(list(split.schema.columns)).axes]

    def apart(places: Sequence[int]) -> float:
        keys = []
        for codes in (split.private, split.public.codes):
            key = np.zeros(len(codes[0]), dtype=np.int64)
            for place in places:
                key = key * sizes[place] + codes[place].astype(np.int64)
            keys.append(key)
        cells = int(np.prod([sizes[place] for place in places]))
        private = np.bincount(keys[0], minlength=cells) / len(keys[0])
        public = np.bincount(keys[1], weights=weights / weights.sum(), minlength=cells)
        return float(np.abs(private - public).sum() / 2)

    ones = [apart([place]) for place in range(len(sizes))]
    twos = [apart(list(pair)) for pair in itertools.combinations(range(len(sizes)), 2)]
    return {"one-way": float(np.mean(ones)), "two-way": float(np.mean(twos))}


def acs_experiment(split: Split, repeats: int) -> dict[str, Any]:
    """Massachusetts estimated from the national excerpt."""
    found: dict[str, Any] = {"unweighted": tables_apart(split, np.ones(split.public.rows))}
    for variant, epsilon in itertools.product(("moments", "output", "objective"), ("0.1", "1")):
        method = ImportanceWeights(
            public=split.public.frame, columns=list(split.schema.columns), variant=variant
        )  # type: ignore[arg-type]
        plan = method.plan(split.schema, Cost.pure(epsilon))
        from dpublish.declare.encode import encode_frame

        assert plan.domain is not None
        codes = [
            np.asarray(one)
            for one in encode_frame(split.frame.select(plan.domain.names), plan.domain).codes
        ]
        runs = []
        for seed in range(repeats):
            content = method.run(SeededNoise(seed), codes, plan)
            runs.append(tables_apart(split, np.asarray(content.tables["weights"]["weight"])))
        found[f"{variant}, epsilon {epsilon}"] = {
            key: float(np.mean([run[key] for run in runs])) for key in runs[0]
        }
    return found
