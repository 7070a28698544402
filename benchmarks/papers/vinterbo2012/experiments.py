"""The two experiments of section 3: classifiers at epsilon = 1, and sweeps of epsilon, k and
gamma."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.analyse.predict import hand_till_auc

from .models import Bench, stratified_folds

Rows = NDArray[np.int64]
SCORES = ("discernibility", "prediction")
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
GAMMAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MOST_COLUMNS = 8
FOLDS = 10
BASELINE = 1.0
FINE_BINS, FINE_COLUMNS = 16, 4


def compare(bench: Bench, repeats: int) -> dict[str, Any]:
    """Figure 1: the AUC of every classifier on every fold. Several repeats of the folds show what
    one draw of noise hides."""
    many = bench.classes > 2
    plain, tilted = ("OMLR", "PMLR") if many else ("OLR", "PLR")
    table = "HMLR" if many else "HLR"
    chosen: dict[str, list[list[str]]] = {score: [] for score in SCORES}
    facts: dict[str, Any] = {}

    def on_table(
        score: str, name: str | None = None, **settings: Any
    ) -> Callable[[Rows, Rows, int], NDArray[np.float64]]:
        def run(train: Rows, test: Rows, seed: int) -> NDArray[np.float64]:
            scores, found = bench.projected(
                train, test, epsilon=BASELINE, seed=seed, score=score, **settings
            )
            chosen.setdefault(name or score, []).append(found.pop("chosen"))
            facts[name or score] = found
            return scores

        return run

    def private(perturbation: str) -> Callable[[Rows, Rows, int], NDArray[np.float64]]:
        return lambda train, test, seed: bench.private_regression(
            train, test, epsilon=BASELINE, seed=seed, perturbation=perturbation
        )

    methods: dict[str, Callable[[Rows, Rows, int], NDArray[np.float64]]] = {
        f"{plain}\n(not private)": lambda train, test, seed: bench.open_regression(train, test),
        f"{table}\nall by the paper": on_table("discernibility", "paper", rule="paper"),
        f"{table}\ndiscernibility": on_table("discernibility"),
        f"{table}\nprediction": on_table("prediction"),
        f"{tilted}\noutput": private("output"),
        f"{tilted}\nobjective": private("objective"),
    }
    areas = {name: list(_areas(bench, method, repeats)) for name, method in methods.items()}
    return {
        "auc": areas,
        "median": {name: median(values) for name, values in areas.items()},
        "estimated": facts,
        "chosen": {score: _frequencies(sets) for score, sets in chosen.items()},
    }


def chosen_with_fine_bins(bench: Bench) -> dict[str, Any]:
    """Which columns each score chooses when numeric columns have many bins, that is, many
    levels."""
    out: dict[str, Any] = {"bins": FINE_BINS, "k": FINE_COLUMNS}
    folds = stratified_folds(bench.labels, FOLDS, 1)
    for score in SCORES:
        settings = {"epsilon": BASELINE, "score": score, "bins": FINE_BINS, "k": FINE_COLUMNS}
        if len(bench.names) <= FINE_COLUMNS or not bench.can_publish(**settings):
            continue
        sets = [
            bench.projected(train, test, seed=seed, **settings)[1]["chosen"]
            for seed, (train, test) in enumerate(folds)
        ]
        out[score] = _frequencies(sets)
    return out


def sweep(bench: Bench, repeats: int) -> dict[str, Any]:
    """Figure 2: median AUC of the table-based classifier as one parameter moves, the others being
    estimated."""
    out: dict[str, Any] = {}
    most = min(MOST_COLUMNS, len(bench.names))
    for score in SCORES:
        lines: dict[str, list[tuple[float, float]]] = {"epsilon": [], "k": [], "gamma": []}
        for epsilon in EPSILONS:
            lines["epsilon"].append(
                (epsilon, _median(bench, repeats, epsilon=epsilon, score=score))
            )
        for k in range(1, most + 1):
            if bench.can_publish(epsilon=BASELINE, score=score, k=k):
                lines["k"].append((k, _median(bench, repeats, epsilon=BASELINE, score=score, k=k)))
        for gamma in GAMMAS:
            lines["gamma"].append(
                (gamma, _median(bench, repeats, epsilon=BASELINE, score=score, gamma=gamma))
            )
        _, facts = bench.projected(
            *stratified_folds(bench.labels, FOLDS, 1)[0], epsilon=BASELINE, seed=0, score=score
        )
        out[score] = {**lines, "estimated": {"k": facts["k"], "gamma": facts["gamma"]}}
    return out


def _median(bench: Bench, repeats: int, **settings: Any) -> float:
    return median(
        _areas(
            bench,
            lambda train, test, seed: bench.projected(train, test, seed=seed, **settings)[0],
            repeats,
        )
    )


def _areas(
    bench: Bench, method: Callable[[Rows, Rows, int], NDArray[np.float64]], repeats: int
) -> Iterator[float]:
    classes = list(range(bench.classes))
    for repeat in range(repeats):
        for fold, (train, test) in enumerate(stratified_folds(bench.labels, FOLDS, 1 + repeat)):
            yield hand_till_auc(
                bench.labels[test], method(train, test, 1000 * repeat + fold), classes=classes
            )


def _frequencies(sets: list[list[str]]) -> dict[str, float]:
    names = sorted({name for chosen in sets for name in chosen})
    shares = {name: sum(name in chosen for chosen in sets) / len(sets) for name in names}
    return dict(sorted(shares.items(), key=lambda item: -item[1])[:12])
