"""diffprivlib's private logistic regression, pure epsilon: no synthetic rows, only scores of the
held-out rows.

The same indicator columns as in measures.py; the norm of a row is bounded from the domain.
Neighbours: one row replaced.
"""

from __future__ import annotations

import numpy as np
from diffprivlib.models import LogisticRegression
from peer import Task, task


def wide(given: Task, codes: np.ndarray) -> np.ndarray:
    blocks = []
    for place, (count, ordered) in enumerate(
        zip(given.levels[:-1], given.ordered[:-1], strict=True)
    ):
        column = codes[:, place]
        blocks.append((column / max(1, count - 1))[:, None] if ordered else np.eye(count)[column])
    return np.hstack(blocks)


def main() -> None:
    given = task()
    given.start()
    bound = float(np.sqrt(len(given.levels) - 1))
    model = LogisticRegression(
        epsilon=given.epsilon, data_norm=bound, max_iter=300, random_state=given.seed
    )
    model.fit(wide(given, given.codes), given.codes[:, -1])
    given.answer(scores=model.predict_proba(wide(given, given.test))[:, 1])


if __name__ == "__main__":
    main()
