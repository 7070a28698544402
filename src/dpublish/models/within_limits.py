"""Which whole numbers a release may hold as noisy counts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_COUNT = 1 << 52


def believable(counts: NDArray[np.int64]) -> bool:
    """Whether all lie within MAX_COUNT of 0. Both ends are looked at: the lowest whole number is
    its own absolute value."""
    return not counts.size or bool(counts.min() >= -MAX_COUNT and counts.max() <= MAX_COUNT)
