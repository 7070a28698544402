"""The coding of rows as vectors: values, names, and the length bound that the privacy proof rests
on."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpublish.declare.domain import Axis
from dpublish.models.linear_features import LinearFeatures, feature_count

AXES = (
    Axis("age", "integer", edges=(0, 10, 20, 30), other=True, missing=True),
    Axis("size", "ordinal", levels=("s", "m", "l"), missing=True),
    Axis("ward", "categorical", levels=("n", "s"), other=True),
    Axis("ok", "boolean", levels=("false", "true")),
    Axis("one", "categorical", levels=("only",)),
    Axis("day", "date", edges=(700_000, 700_001)),
    Axis("temperature", "real", edges=(-5.0, 0.0, 5.0)),
)


def vectors(features: LinearFeatures) -> np.ndarray:
    every = np.array(list(itertools.product(*(range(axis.cardinality) for axis in features.axes))))
    out = np.empty((len(every), features.dimension))
    features.fill(list(every.T), out)
    return out


def test_no_row_is_longer_than_one_exactly() -> None:
    features = LinearFeatures(AXES)
    bound = features.longest_square()
    assert bound <= 1
    for row in vectors(features).tolist():
        assert sum(Fraction(x) ** 2 for x in row) <= bound


@pytest.mark.parametrize("columns", [1, 2, 3, 14, 36, 100, 1000])
def test_the_bound_holds_for_any_number_of_columns(columns: int) -> None:
    flags = LinearFeatures(
        tuple(Axis(f"c{i}", "categorical", levels=("a", "b", "c")) for i in range(columns))
    )
    assert Fraction(999, 1000) < flags.longest_square() <= 1
    assert flags.divisor == pytest.approx(math.sqrt(columns + 1))


def test_values_and_names() -> None:
    features = LinearFeatures(AXES)
    tables = dict(zip([axis.name for axis in AXES], features.tables, strict=True))
    scale = features.divisor
    assert np.allclose(
        tables["age"] * scale,
        [[4.5 / 29, 0, 0], [14.5 / 29, 0, 0], [24.5 / 29, 0, 0], [0, 1, 0], [0, 0, 1]],
    )
    assert np.allclose(tables["size"] * scale, [[0, 0], [0.5, 0], [1, 0], [0, 1]])
    assert np.allclose(tables["ward"] * scale, [[0, 0], [1, 0], [0, 1]])
    assert np.allclose(tables["ok"] * scale, [[0], [1]])
    assert tables["one"].shape == (1, 0)
    assert np.allclose(tables["day"] * scale, [[0]])
    assert np.allclose(tables["temperature"] * scale, [[0.25], [0.75]])
    assert features.names[:6] == (
        ("(constant)", ""),
        ("age", ""),
        ("age", "(other)"),
        ("age", "(missing)"),
        ("size", ""),
        ("size", "(missing)"),
    )
    assert len(features.names) == features.dimension
    assert features.dimension == 1 + sum(table.shape[1] for table in features.tables)


def test_widths_are_known_without_tables() -> None:
    assert [feature_count(axis) for axis in AXES] == [3, 2, 2, 1, 0, 1, 1]
    huge = Axis("h", "categorical", levels=tuple(str(i) for i in range(100_000)))
    assert LinearFeatures((huge,)).dimension == 100_000
