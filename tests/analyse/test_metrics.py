"""Areas under the curve: against scikit-learn, against counting all pairs, and at the edges."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from dpublish.analyse.predict import _area, _checked, hand_till_auc
from dpublish.errors import InputError


def binary_auc(
    positive: ArrayLike, scores: ArrayLike, *, weights: ArrayLike | None = None
) -> float:
    """The area of one class against all others, by the code that `hand_till_auc` takes means of."""
    marks = np.asarray(positive, dtype=np.bool_)
    values, weight = _checked(scores, weights, marks.shape)
    area = _area(marks, values, weight)
    if area is None:
        raise InputError("The area under the curve needs rows of both classes.")
    return area


def by_pairs(positive: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> float:
    up, down = positive, ~positive
    wins = (scores[up][:, None] > scores[down][None, :]) + 0.5 * (
        scores[up][:, None] == scores[down][None, :]
    )
    pairs = weights[up][:, None] * weights[down][None, :]
    return float((wins * pairs).sum() / pairs.sum())


def some_scores(seed: int, rows: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, rows)
    # few distinct values, so that ties are common
    scores = rng.integers(1, 6, (rows, classes)) + 2.0 * (labels[:, None] == np.arange(classes))
    return (
        labels,
        scores / scores.sum(axis=1, keepdims=True),
        rng.integers(0, 4, rows).astype(float),
    )


@pytest.mark.parametrize("seed", range(5))
def test_binary_area_is_scikit_learns(seed: int) -> None:
    from sklearn.metrics import roc_auc_score

    labels, scores, weights = some_scores(seed, 80, 2)
    assert binary_auc(labels == 1, scores[:, 1]) == pytest.approx(
        roc_auc_score(labels, scores[:, 1])
    )
    weighted = roc_auc_score(labels, scores[:, 1], sample_weight=weights)
    assert binary_auc(labels == 1, scores[:, 1], weights=weights) == pytest.approx(weighted)
    assert weighted == pytest.approx(by_pairs(labels == 1, scores[:, 1], weights))


@pytest.mark.parametrize("classes", [3, 4, 7])
@pytest.mark.parametrize("seed", range(3))
def test_hand_till_is_scikit_learns_one_against_one_mean(seed: int, classes: int) -> None:
    from sklearn.metrics import roc_auc_score

    labels, scores, _ = some_scores(seed, 150, classes)
    peer = roc_auc_score(labels, scores, multi_class="ovo", average="macro")
    assert hand_till_auc(labels, scores) == pytest.approx(peer)


def test_whole_weights_count_as_repeated_rows() -> None:
    labels, scores, weights = some_scores(9, 60, 4)
    repeats = weights.astype(int)
    repeated = hand_till_auc(np.repeat(labels, repeats), np.repeat(scores, repeats, axis=0))
    assert hand_till_auc(labels, scores, weights=weights) == pytest.approx(repeated)


def test_two_classes_agree_with_the_binary_area() -> None:
    labels, scores, weights = some_scores(2, 50, 2)
    expected = binary_auc(labels == 1, scores[:, 1], weights=weights)
    assert hand_till_auc(labels, scores, weights=weights) == pytest.approx(expected)


def test_names_of_classes_and_their_order() -> None:
    labels, scores, _ = some_scores(3, 40, 3)
    names = np.array(["zebra", "ant", "mole"])
    assert hand_till_auc(names[labels], scores, classes=names.tolist()) == pytest.approx(
        hand_till_auc(labels, scores)
    )


def test_a_class_without_rows_is_left_out() -> None:
    labels, scores, _ = some_scores(4, 60, 3)
    kept = labels != 2
    part = hand_till_auc(labels[kept], scores[kept], classes=[0, 1, 2])
    both = (
        by_pairs(labels[kept] == 0, scores[kept, 0], np.ones(kept.sum()))
        + by_pairs(labels[kept] == 1, scores[kept, 1], np.ones(kept.sum()))
    ) / 2
    assert part == pytest.approx(both)


def test_perfect_reversed_and_constant_scores() -> None:
    labels = np.array([0, 0, 1, 1])
    assert binary_auc(labels == 1, [0.1, 0.2, 0.3, 0.4]) == 1
    assert binary_auc(labels == 1, [4, 3, 2, 1]) == 0
    assert binary_auc(labels == 1, [1, 1, 1, 1]) == 0.5
    assert binary_auc(labels == 1, [-np.inf, 0, 1, np.inf]) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: binary_auc([True, True], [1, 2]), "both classes"),
        (lambda: binary_auc([True, False], [1, 2], weights=[1, 0]), "both classes"),
        (lambda: binary_auc([True, False], [1, 2, 3]), "as long as each other"),
        (lambda: binary_auc([True, False], [1, float("nan")]), "must be numbers"),
        (lambda: binary_auc([True, False], [1, 2], weights=[1, -1]), "not negative"),
        (
            lambda: hand_till_auc([0, 1], [[1, 0, 0], [0, 1, 0]], classes=[0, 1]),
            "2 rows and 2 columns",
        ),
        (lambda: hand_till_auc([0, 5], [[1, 0], [0, 1]], classes=[0, 1]), "not in classes"),
        (lambda: hand_till_auc([0, 0], [[1, 0], [0, 1]], classes=[0, 1]), "at least two classes"),
        (lambda: hand_till_auc([0, 1], [[1, float("nan")], [0, 1]]), "must be numbers"),
    ],
)
def test_refusals(call: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()  # type: ignore[operator]
