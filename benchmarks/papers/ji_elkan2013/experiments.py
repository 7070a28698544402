"""The experiments behind figures 1 to 6, and the one on the ACS. All weights are those that
`ImportanceWeights` publishes, with seeded noise."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from sklearn.svm import LinearSVC

from dpublish.declare.encode import encode_frame
from dpublish.methods.importance_weights.mechanism import ImportanceWeights
from dpublish.models.linear_features import WeightFeatures
from dpublish.models.public_rows import PublicSet, encode_public, uniform_rows
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

from .data import Split

LAMBDAS = ("0.001", "0.01", "0.03", "0.1", "0.3", "1", "10")
EPSILONS = ("0.02", "0.05", "0.1", "0.2", "0.5", "1")
LAMBDA, EPSILON = "0.1", "0.1"
"""What the others vary around."""
NO_NOISE = "1000000"
"""An epsilon at which the noise is far below every other error."""
VARIANTS = {
    "output, sqrt(d)": {"variant": "output", "norm_bound": "dimension"},
    "output": {"variant": "output"},
    "objective": {"variant": "objective"},
}
"""The paper's algorithm with its own bound on a row; with the schema's; and with noise in the
objective, which the paper names without an analysis."""
SVM_COST = 0.1
SVM_EPSILONS = ("0.02", "0.5", "1")


class Bench:
    """One split with what all experiments share."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.axes = split.schema.domain(list(split.schema.columns)).axes
        self.features = WeightFeatures(self.axes)
        self.rich = [axis.name for axis in self.axes].index("income")
        self._plans: dict[tuple[Any, ...], tuple[ImportanceWeights, Plan]] = {}

    def weights(
        self,
        name: str,
        private: Sequence[np.ndarray],
        public: pl.DataFrame,
        *,
        seed: int,
        strength: str = LAMBDA,
        epsilon: str = EPSILON,
    ) -> np.ndarray:
        """The weights of the public rows in a release of one of `VARIANTS`."""
        key = (name, id(public), strength, epsilon)
        if key not in self._plans:
            method = ImportanceWeights(
                public=public,
                columns=[axis.name for axis in self.axes],
                regularization=strength,
                **VARIANTS[name],  # type: ignore[arg-type]
            )
            self._plans[key] = method, method.plan(self.split.schema, Cost.pure(epsilon))
        method, plan = self._plans[key]
        content = method.run(SeededNoise(seed), private, plan)
        return np.asarray(content.tables["weights"]["weight"])

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


def estimates(bench: Bench, bootstraps: int, say: Any) -> dict[str, Any]:
    """Figures 1, 2, 4 and 5: the income query."""
    by_lambda: dict[str, dict[str, list[float]]] = {
        name: {x: [] for x in LAMBDAS} for name in VARIANTS
    }
    by_epsilon: dict[str, dict[str, list[float]]] = {
        name: {x: [] for x in EPSILONS} for name in VARIANTS
    }
    no_noise: dict[str, list[float]] = {x: [] for x in LAMBDAS}
    public = bench.split.public
    for seed in range(bootstraps):
        private = bench.split.resampled(seed)

        def share(name: str, *, seed: int = seed, rows: Any = private, **settings: str) -> float:
            weights = bench.weights(name, rows, public.frame, seed=seed, **settings)
            return bench.share(weights, public)

        for strength in LAMBDAS:
            no_noise[strength].append(share("output", strength=strength, epsilon=NO_NOISE))
            for name in VARIANTS:
                by_lambda[name][strength].append(share(name, strength=strength))
        for epsilon, name in itertools.product(EPSILONS, VARIANTS):
            known = by_lambda[name][LAMBDA][-1]
            by_epsilon[name][epsilon].append(
                known if epsilon == EPSILON else share(name, epsilon=epsilon)
            )
        say(f"bootstrap {seed + 1} of {bootstraps}")
    return {"lambda": by_lambda, "epsilon": by_epsilon, "no_noise": no_noise}


def svm_distances(bench: Bench, bootstraps: int, say: Any) -> dict[str, Any]:
    """Figures 3, 5 and 6: the distance of SVM coefficients, and the three extreme cases for both
    queries."""
    split = bench.split
    target = bench.svm(split.private, np.ones(split.size))
    sets = {
        "E = D": encode_public("same", split.frame, bench.axes),
        "skewed E": split.public,
        "uniform E": encode_public(
            "uniform", uniform_rows(bench.axes, split.public.rows), bench.axes
        ),
    }
    distances: dict[str, dict[str, list[float]]] = {
        name: {x: [] for x in (*SVM_EPSILONS, EPSILON, "none")} for name in VARIANTS
    }
    extreme: dict[str, dict[str, dict[str, list[float]]]] = {
        name: {case: {"share": [], "distance": []} for case in sets} for name in VARIANTS
    }
    for seed in range(1000, 1000 + bootstraps):
        private = split.resampled(seed)

        def distance(weights: np.ndarray, public: PublicSet) -> float:
            return float(np.linalg.norm(bench.svm(public.codes, weights) - target))

        for (case, public), name in itertools.product(sets.items(), VARIANTS):
            weights = bench.weights(name, private, public.frame, seed=seed)
            extreme[name][case]["share"].append(bench.share(weights, public))
            extreme[name][case]["distance"].append(distance(weights, public))
        public = split.public
        clean = bench.weights("output", private, public.frame, seed=seed, epsilon=NO_NOISE)
        for name, runs in distances.items():
            runs["none"].append(distance(clean, public))
            runs[EPSILON].append(extreme[name]["skewed E"]["distance"][-1])
            for epsilon in SVM_EPSILONS:
                drawn = bench.weights(name, private, public.frame, seed=seed, epsilon=epsilon)
                runs[epsilon].append(distance(drawn, public))
        say(f"SVM bootstrap {seed - 999} of {bootstraps}")
    d, n = bench.features.dimension, split.size
    return {
        "distance": distances,
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
    bench: Bench, bootstraps: int, epsilons: Sequence[str] = ("0.02", "0.1", "1")
) -> dict[str, Any]:
    """The default variant on the same split."""
    split = bench.split
    found: dict[str, Any] = {}
    target = bench.svm(split.private, np.ones(split.size))
    for epsilon in epsilons:
        method = ImportanceWeights(public=split.public.frame, columns=list(split.schema.columns))
        plan = method.plan(split.schema, Cost.pure(epsilon))
        shares, gaps = [], []
        for seed in range(bootstraps):
            content = method.run(SeededNoise(seed), split.resampled(seed), plan)
            weights = np.asarray(content.tables["weights"]["weight"])
            shares.append(bench.share(weights, split.public))
            if seed < 10:
                gaps.append(float(np.linalg.norm(bench.svm(split.public.codes, weights) - target)))
        found[epsilon] = {"share": shares, "distance": gaps}
    return found


def svm_lengths(bench: Bench) -> dict[str, Any]:
    """How long the coefficients of the SVM are, by loss, C and coding: the paper says 7.17 and none
    of these."""
    split, found = bench.split, {}
    rich = split.private[bench.rich] == 1
    start = bench.features.starts[bench.rich]
    vectors = np.delete(bench.features.vectors(split.private), [start, start + 1], axis=1)
    firsts = [one for one in bench.features.starts[:-1] if one != start]
    firsts = [one if one < start else one - 2 for one in firsts]
    # one level of each column is left out, and a constant added
    reference = np.hstack([np.delete(vectors, firsts, axis=1), np.ones((len(vectors), 1))])
    for loss, coding in itertools.product(("squared_hinge", "hinge"), ("indicators", "reference")):
        for cost in (0.1, 1.0, 10.0) if loss == "hinge" else (0.1, 1.0, 10.0, 100.0, 1000.0):
            model = LinearSVC(C=cost, loss=loss, fit_intercept=False, max_iter=5000, random_state=0,
                              dual=loss == "hinge")  # fmt: skip
            model.fit(vectors if coding == "indicators" else reference, rich)
            found[f"{loss}, {coding}, C = {cost:g}"] = float(np.linalg.norm(model.coef_))
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
            public=split.public.frame,
            columns=list(split.schema.columns),
            variant=variant,  # type: ignore[arg-type]
        )
        plan = method.plan(split.schema, Cost.pure(epsilon))
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
