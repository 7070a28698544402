"""Shared by the tests of table mechanisms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpublish.methods.projected_histogram.choose_k import split_kd
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import private_kd
from dpublish.methods.projected_histogram.scores import Contrast, PairCount, PairsPerRow, Purity
from dpublish.noise.source import SeededNoise


@pytest.fixture(scope="session")
def compiled_kernels() -> None:
    """Compile before an audit looks: the compiler writes debug log lines, which a replay would take
    for the mechanism's."""
    table = CodedTable([np.array([0, 1, 1])] * 3, [2] * 3, np.array([0, 1, 0]), 2)
    for score in (PairCount(3), PairsPerRow(2), Purity(1), Contrast(3)):
        private_kd(SeededNoise(1), table, 2, epsilon=Fraction(1), score=score)
    for part_score in (PairsPerRow(2), Purity(1)):
        split_kd(
            SeededNoise(1),
            table,
            (1, 2),
            epsilon=Fraction(1),
            score=part_score,
            sigma=Fraction(0),
            rows=3,
        )
    table.count_cells([0, 1])
