"""Types of arrays, defined once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Cells of a domain of up to 2^63, and random bits."""
Flags = NDArray[np.bool_]
Codes = NDArray[Any]
"""Whole numbers of the narrowest type that holds them."""
