"""The measured tables of a joined release, as its file holds them, and the checks that they fit each other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import BundleError
from dpublish.public.junction.fit import MeasuredColumn, MeasuredPair
from dpublish.public.junction.grouping import MAX_GROUPS
from dpublish.public.junction.margins import Ints
from dpublish.public.manifest import text, whole

NoiseName = Literal["laplace", "gaussian"]
Arrays = Mapping[str, Mapping[str, NDArray[np.int64]]]

TABLES = {"columns": ("column", "count"), "pairs": ("pair", "count"), "groups": ("side", "group")}
MAX_LABELS = 255
_BELIEVABLE = 1 << 52


@dataclass(frozen=True)
class Measured:
    """Everything a joined release holds. `columns` has None in the place of the target."""

    noise: NoiseName
    target: int | None
    columns: tuple[MeasuredColumn | None, ...]
    pairs: tuple[MeasuredPair, ...]
    total: int | None

    @property
    def labels(self) -> int:
        return next(int(one.counts.shape[1]) for one in self.columns if one is not None)


def read_measured(domain: Domain, facts: Mapping[str, Any], tables: Arrays) -> Measured:
    """Read and check. Raises `BundleError` for facts and tables that do not fit each other."""
    noise = text(facts, "noise", "facts")
    if noise not in ("laplace", "gaussian"):
        raise BundleError("facts: 'noise' must be laplace or gaussian.")
    names = list(domain.names)
    target = None if facts.get("target") is None else _index(names, facts["target"])
    labels = 1 if target is None else domain.shape[target]
    if whole(facts, "labels", "facts", limit=MAX_LABELS, lowest=1) != labels:
        raise BundleError("facts: 'labels' is not the number of levels of the target.")
    featured = [column for column in range(len(names)) if column != target]
    if not featured:
        raise BundleError("A joined release needs a column beside the target.")
    counts = _unstack(tables, "columns", featured, [domain.shape[column] * labels for column in featured])
    variances = _variances(facts, "column_scales", len(featured), noise)
    columns: list[MeasuredColumn | None] = [None] * len(names)
    for column, values, variance in zip(featured, counts, variances, strict=True):
        columns[column] = MeasuredColumn(values.reshape(-1, labels).astype(np.float64), variance)
    return Measured(
        noise=cast(NoiseName, noise),
        target=target,
        columns=tuple(columns),
        pairs=_read_pairs(domain, facts, tables, target, labels, noise),
        total=_total(facts),
    )


def _read_pairs(
    domain: Domain, facts: Mapping[str, Any], tables: Arrays, target: int | None, labels: int, noise: str
) -> tuple[MeasuredPair, ...]:
    listed = facts.get("pairs")
    if not isinstance(listed, list) or not all(isinstance(item, list) and len(item) == 2 for item in listed):
        raise BundleError("facts: 'pairs' must be a list of pairs of names.")
    names = list(domain.names)
    edges = [(_index(names, first), _index(names, second)) for first, second in listed]
    _check_forest(edges, len(names), target)
    sides = [column for edge in edges for column in edge]
    groups = _unstack(tables, "groups", list(range(len(sides))), [domain.shape[column] for column in sides])
    for group_of in groups:
        numbers = int(group_of.max()) + 1
        if group_of.min() < 0 or numbers > MAX_GROUPS or len(np.unique(group_of)) != numbers:
            raise BundleError("groups.parquet: the groups of a column must be numbered from 0 without gaps.")
    shapes = [(int(groups[2 * i].max()) + 1, int(groups[2 * i + 1].max()) + 1) for i in range(len(edges))]
    counts = _unstack(tables, "pairs", list(range(len(edges))), [first * second * labels for first, second in shapes])
    variances = _variances(facts, "pair_scales", len(edges), noise)
    return tuple(
        MeasuredPair(
            *edge,
            first_groups=groups[2 * i],
            second_groups=groups[2 * i + 1],
            counts=counts[i].reshape(*shapes[i], labels).astype(np.float64),
            variance=variances[i],
        )
        for i, edge in enumerate(edges)
    )


def _unstack(tables: Arrays, name: str, keys: Sequence[int], lengths: Sequence[int]) -> list[Ints]:
    """The arrays that a long table holds one after the other; their order and lengths are fixed by the facts."""
    key, value = TABLES[name]
    table = tables[name]
    if not np.array_equal(table[key], np.repeat(np.array(keys, dtype=np.int64), lengths)):
        raise BundleError(f"{name}.parquet does not hold the tables that the facts name.")
    values = table[value]
    if len(values) and max(abs(int(values.min())), abs(int(values.max()))) > _BELIEVABLE:
        raise BundleError(f"{name}.parquet holds a number that is not believable.")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _variances(facts: Mapping[str, Any], key: str, count: int, noise: str) -> list[float]:
    """The noise variance of each table from its exact scale (Laplace) or squared sigma (Gaussian)."""
    listed = facts.get(key)
    if not isinstance(listed, list) or len(listed) != count or not all(isinstance(item, str) for item in listed):
        raise BundleError(f"facts: '{key}' must list {count} fractions, one a table.")
    out = []
    for item in listed:
        try:
            scale = float(Fraction(item))
        except (ValueError, ZeroDivisionError, OverflowError):
            raise BundleError(f"facts: '{key}' holds something that is not a fraction.") from None
        if len(item) > 400 or not 1e-9 <= scale <= 1e24:
            raise BundleError(f"facts: '{key}' holds a scale that is not believable.")
        out.append(laplace_variance(scale) if noise == "laplace" else scale)
    return out


def laplace_variance(scale: float) -> float:
    """Of discrete Laplace noise; never 0, so that it can be divided by."""
    rate = 1.0 / scale
    return max(1e-12, 2.0 * math.exp(-rate) / math.expm1(-rate) ** 2)


def _check_forest(edges: Sequence[tuple[int, int]], columns: int, target: int | None) -> None:
    tree = list(range(columns))
    for first, second in edges:
        if target in (first, second) or tree[first] == tree[second]:
            raise BundleError("facts: 'pairs' must join columns other than the target, without a circle.")
        old, new = tree[second], tree[first]
        tree = [new if root == old else root for root in tree]


def _index(names: list[str], name: Any) -> int:
    if name not in names:
        raise BundleError("facts: a column is named that the domain does not have.")
    return names.index(name)


def _total(facts: Mapping[str, Any]) -> int | None:
    total = facts.get("total")
    if not isinstance(total, Mapping) or total.get("kind") not in ("public", "unknown"):
        raise BundleError("facts: 'total' must be an object with kind public or unknown.")
    return whole(total, "value", "total", limit=1 << 52) if total["kind"] == "public" else None
