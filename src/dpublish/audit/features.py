"""What a sampled audit looks at in an output: numbers and symbols whose distributions are compared.

An output as a whole is one feature, but outputs with many parts rarely repeat, so every part is
looked at too, with the shape, the number of parts, their sum, and, for floats, the position of the
lowest set bit: floating-point noise leaves holes in the set of possible answers, and that bit tells
on which side of a hole an answer lies (Mironov 2012).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.noise.enumerator import Raised, freeze

Features = dict[str, Hashable]
MAX_PARTS = 32
PLAIN = (bool, int, float, str, bytes, Fraction)


def features_of(output: Any) -> Features:
    """Named features of one output. A feature that is missing from an output counts as the value
    None."""
    found: Features = {"whole": freeze(output), "kind": type(output).__name__}
    if isinstance(output, Raised):
        return found
    parts: dict[str, Any] = {}
    _collect("", output, parts)
    numbers = [
        value
        for value in parts.values()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    found["parts"] = len(parts)
    if numbers:
        found["sum"] = (
            _finite(math.fsum(numbers))
            if any(isinstance(n, float) for n in numbers)
            else sum(numbers)
        )
    if all(isinstance(value, int) for value in numbers):
        # A row that moves from one cell to another leaves the sum alone and shows twice in a
        # difference.
        for (i, one), (j, other) in itertools.combinations(enumerate(numbers[:4]), 2):
            found[f"number {i} less number {j}"] = one - other
    for name, value in list(parts.items())[:MAX_PARTS]:
        found[f"part {name}"] = freeze(value) if not isinstance(value, float) else _finite(value)
        if isinstance(value, float):
            found[f"lowest bit of {name}"] = lowest_bit(value)
    return found


def lowest_bit(value: float) -> int | str:
    """The exponent of the lowest set bit of a float; a word for zero and what is not finite."""
    if value == 0 or not math.isfinite(value):
        return repr(value)
    numerator, denominator = value.as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def _finite(value: float) -> float | str:
    # nan is not equal to itself, which would make every occurrence a value of its own.
    return value if math.isfinite(value) else repr(value)


def _collect(name: str, value: Any, parts: dict[str, Any]) -> None:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PLAIN):
        parts[name or "value"] = value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _collect(f"{name}[{key!r}]", item, parts)
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            _collect(f"{name}[{position}]", item, parts)
    elif value is None:
        parts[name or "value"] = value
    elif hasattr(value, "__dict__"):
        _collect(name, vars(value), parts)
