"""How close synthetic rows are to the real ones: total variation of marginals, questions about raw
numbers, and models trained on them."""

from __future__ import annotations

import itertools

import numpy as np
from coded import Coded
from numpy.typing import NDArray

TRIPLES = 100
RANGES = 500
QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
MIN_AUC_ROWS = 20


def measure(table: Coded, rows: NDArray[np.int64], values: NDArray[np.float64]) -> dict[str, float]:
    """TV-2 over all pairs of columns, TV-3 over 100 fixed triples, the worst pair; 500 fixed ranges
    and nine quantiles of every number, on `values`; two areas under the curve, and F1."""
    columns = range(len(table.columns))
    pairs = [variation(table, rows, pair) for pair in itertools.combinations(columns, 2)]
    every = list(itertools.combinations(columns, 3))
    some = np.random.default_rng(7).choice(len(every), size=min(TRIPLES, len(every)), replace=False)
    triples = [variation(table, rows, every[i]) for i in some]
    return {
        "tv2": float(np.mean(pairs)),
        "tv2_worst": float(np.max(pairs)),
        "tv3": float(np.mean(triples)),
        "ranges": ranges(table, values),
        **quantiles(table, values),
        **models(table, rows),
    }


def variation(table: Coded, rows: NDArray[np.int64], columns: tuple[int, ...]) -> float:
    """Total variation distance of one marginal to that of the training rows."""
    size = int(np.prod([table.levels[i] for i in columns]))
    shares = []
    for part in (table.train, rows):
        cells = np.zeros(len(part), dtype=np.int64)
        for i in columns:
            cells = cells * table.levels[i] + part[:, i]
        shares.append(np.bincount(cells, minlength=size) / max(1, len(part)))
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def ranges(table: Coded, values: NDArray[np.float64]) -> float:
    """Mean absolute error of the share of rows in a range, over fixed conjunctions of one to three
    columns: between two values of real rows, or in a set of levels."""
    generator = np.random.default_rng(11)
    errors = []
    for _ in range(RANGES):
        count = generator.integers(1, 4)
        inside = [np.ones(len(part), dtype=bool) for part in (table.values, values)]
        for place in generator.choice(len(table.columns), count, replace=False):
            if table.bounds[place] is None:
                kept = generator.random(table.levels[place]) < 0.5
                kept[generator.integers(len(kept))] = True
                found = [kept[part[:, place].astype(int)] for part in (table.values, values)]
            else:
                low, high = np.sort(generator.choice(table.values[:, place], 2))
                found = [
                    (part[:, place] >= low) & (part[:, place] <= high)
                    for part in (table.values, values)
                ]
            inside = [some & more for some, more in zip(inside, found, strict=True)]
        errors.append(abs(inside[0].mean() - inside[1].mean()))
    return float(np.mean(errors))


def quantiles(table: Coded, values: NDArray[np.float64]) -> dict[str, float]:
    """How far the rank, among the real rows, of a quantile of the synthetic ones is from where it
    should be: mean and worst over numbers and quantiles. A value that many real rows share has all
    their ranks."""
    errors = []
    for place, bound in enumerate(table.bounds):
        if bound is None:
            continue
        real = np.sort(table.values[:, place][~np.isnan(table.values[:, place])])
        drawn = values[:, place][~np.isnan(values[:, place])]
        for share in QUANTILES:
            at = np.quantile(drawn, share, method="inverted_cdf") if len(drawn) else bound[0]
            low, high = (np.searchsorted(real, at, side) / len(real) for side in ("left", "right"))
            errors.append(max(low - share, share - high, 0.0))
    if not errors:
        return {}
    return {"rank_error": float(np.mean(errors)), "rank_error_worst": float(np.max(errors))}


def models(table: Coded, rows: NDArray[np.int64]) -> dict[str, float]:
    """Logistic regression and boosting, trained on `rows`, tested on held-out real rows: areas
    under the curve, and F1 of what boosting predicts of the target's second level."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import f1_score, roc_auc_score

    label, truth = rows[:, -1], table.test[:, -1]
    if np.bincount(label, minlength=2).min() < MIN_AUC_ROWS:
        only = np.full(len(truth), np.bincount(label, minlength=2).argmax())
        f1 = float(f1_score(truth, only, zero_division=0.0))
        return {"auc_logistic": 0.5, "auc_boosting": 0.5, "f1_boosting": f1}
    out = {}
    wide = [_indicators(table, part) for part in (rows, table.test)]
    model = LogisticRegression(max_iter=300).fit(wide[0], label)
    out["auc_logistic"] = float(roc_auc_score(truth, model.predict_proba(wide[1])[:, 1]))
    kinds = [
        i for i, ordered in enumerate(table.ordered[:-1]) if not ordered and table.levels[i] <= 255
    ]
    trees = HistGradientBoostingClassifier(categorical_features=kinds, random_state=0).fit(
        rows[:, :-1], label
    )
    likely = trees.predict_proba(table.test[:, :-1])[:, 1]
    out["auc_boosting"] = float(roc_auc_score(truth, likely))
    out["f1_boosting"] = float(f1_score(truth, likely >= 0.5, zero_division=0.0))
    return out


def auc_of(table: Coded, scores: NDArray[np.float64]) -> float:
    """Of a method that makes no rows but scores the held-out ones."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(table.test[:, -1], scores))


def _indicators(table: Coded, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    blocks = []
    for i, (count, ordered) in enumerate(zip(table.levels[:-1], table.ordered[:-1], strict=True)):
        if ordered:
            blocks.append((rows[:, i] / max(1, count - 1))[:, None])
        else:
            blocks.append(np.eye(count)[rows[:, i]])
    return np.hstack(blocks)
