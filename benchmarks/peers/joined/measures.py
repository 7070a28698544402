"""How close synthetic rows are to the real ones: total variation of marginals, and models trained
on them."""

from __future__ import annotations

import itertools

import numpy as np
from coded import Coded
from numpy.typing import NDArray

TRIPLES = 100
MIN_AUC_ROWS = 20


def measure(table: Coded, rows: NDArray[np.int64]) -> dict[str, float]:
    """TV-2 over all pairs of columns, TV-3 over 100 fixed triples, the worst pair, and two areas
    under the curve."""
    columns = range(len(table.columns))
    pairs = [variation(table, rows, pair) for pair in itertools.combinations(columns, 2)]
    every = list(itertools.combinations(columns, 3))
    some = np.random.default_rng(7).choice(len(every), size=min(TRIPLES, len(every)), replace=False)
    triples = [variation(table, rows, every[i]) for i in some]
    return {
        "tv2": float(np.mean(pairs)),
        "tv2_worst": float(np.max(pairs)),
        "tv3": float(np.mean(triples)),
        **aucs(table, rows),
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


def aucs(table: Coded, rows: NDArray[np.int64]) -> dict[str, float]:
    """Logistic regression and boosting, trained on `rows`, tested on held-out real rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    label, truth = rows[:, -1], table.test[:, -1]
    if np.bincount(label, minlength=2).min() < MIN_AUC_ROWS:
        return {"auc_logistic": 0.5, "auc_boosting": 0.5}
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
    out["auc_boosting"] = float(roc_auc_score(truth, trees.predict_proba(table.test[:, :-1])[:, 1]))
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
