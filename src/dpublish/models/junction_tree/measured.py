"""The measured tables of a joined release, as its file holds them, and the checks that they fit
each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.declare.domain import Axis, Domain
from dpublish.declare.rules import (
    MAX_RULES,
    MAX_TOTALS,
    Rule,
    Total,
    cells_where,
    rule_of,
    total_of,
)
from dpublish.errors import BundleError, InputError
from dpublish.models.integer_limits import within_limits
from dpublish.models.junction_tree.cliques import MAX_GROUPS, CliqueTree, Zeros, structural_zeros
from dpublish.models.junction_tree.fit import (
    MeasuredColumn,
    MeasuredTable,
    common_states,
    prior_states,
)
from dpublish.models.junction_tree.known_sums import KnownSum, known_sums
from dpublish.models.junction_tree.model_error import (
    KNOWN_VERSIONS,
    MODEL_VERSION,
    ModelError,
    read_model_error,
)
from dpublish.models.public_prior import PublicPair, PublicPrior
from dpublish.privacy.budget_split import laplace_variance
from dpublish.releases.bundle.manifest import text, whole

NoiseName = Literal["laplace", "gaussian"]
Arrays = Mapping[str, Mapping[str, NDArray[np.int64]]]

TABLES = {"columns": ("column", "count"), "joined": ("table", "count"), "groups": ("side", "group")}
PUBLIC_TABLES = {
    "public_columns": ("column", "count"),
    "public_pairs": ("table", "count"),
    "public_groups": ("side", "group"),
}
"""What a release holds beside these where it was made with a public table."""
MAX_TITLE = 200
MAX_WIDTH = 3
"""Columns of one joint table, beside the target."""
MAX_LABELS = 255
MAX_ROUNDS = 8
MAX_MODEL = 1 << 27
"""Cells of a whole junction tree."""


@dataclass(frozen=True)
class Measured:
    """Everything a joined release holds. `columns` has None in the place of the target."""

    noise: NoiseName
    target: int | None
    columns: tuple[MeasuredColumn | None, ...]
    tables: tuple[MeasuredTable, ...]
    total: int | None
    model_error: ModelError | None = None
    zeros: tuple[Zeros, ...] = ()
    totals: tuple[Total, ...] = ()
    known: tuple[KnownSum, ...] = ()
    prior: PublicPrior | None = None
    version: int = MODEL_VERSION
    """The fit that the release speaks of."""

    @property
    def labels(self) -> int:
        return next(int(one.counts.shape[1]) for one in self.columns if one is not None)


def read_measured(domain: Domain, facts: Mapping[str, Any], tables: Arrays) -> Measured:
    """Read and check. Raises `BundleError` for facts and tables that do not fit each other."""
    noise = text(facts, "noise", "facts")
    _require(noise in ("laplace", "gaussian"), "facts: 'noise' must be laplace or gaussian.")
    names = list(domain.names)
    target = None if facts.get("target") is None else _index(names, facts["target"])
    labels = 1 if target is None else domain.shape[target]
    _require(
        whole(facts, "labels", "facts", limit=MAX_LABELS, lowest=1) == labels,
        "facts: 'labels' is not the number of levels of the target.",
    )
    featured = [column for column in range(len(names)) if column != target]
    _require(featured, "A joined release needs a column beside the target.")
    counts = _unstack(
        tables, "columns", featured, [domain.shape[column] * labels for column in featured]
    )
    variances = _variances(facts, "column_scales", len(featured), noise)
    columns: list[MeasuredColumn | None] = [None] * len(names)
    for column, values, variance in zip(featured, counts, variances, strict=True):
        columns[column] = MeasuredColumn(
            values.reshape(-1, labels).astype(np.float64),
            variance,
            ordered_widths(domain.axes[column]),
        )
    zeros = structural_zeros(_read_rules(domain, facts), domain, target)
    totals, known = _read_totals(domain, facts, target)
    joined = _read_joined(domain, facts, tables, target, labels, noise)
    prior = _read_prior(domain, facts, tables, target, labels, noise)
    taken = [] if prior is None else [pair for pair in prior.pairs if pair.taken]
    _check_size(domain, joined, target, labels, zeros, taken)
    model_error = read_model_error(facts, noise)
    return Measured(
        noise=cast(NoiseName, noise),
        target=target,
        columns=tuple(columns),
        tables=joined,
        zeros=zeros,
        total=_total(facts),
        totals=totals,
        known=known,
        prior=prior,
        model_error=model_error,
        version=_version(facts, model_error),
    )


def _version(facts: Mapping[str, Any], model_error: ModelError | None) -> int:
    """The fit of a release: as its model error says, or the release itself. Of those before version
    7 only the former did; the newest stands for one that is not known."""
    if model_error is not None:
        return model_error.version
    stated = facts.get("model", 6)
    return stated if stated in KNOWN_VERSIONS else MODEL_VERSION


def _require(holds: object, said: str) -> None:
    """Refuse a release of which this does not hold."""
    if not holds:
        raise BundleError(said)


def _listed(found: Any, count: int) -> bool:
    return isinstance(found, list) and len(found) == count


def ordered_widths(axis: Axis) -> tuple[float, ...]:
    """The widths of the levels that follow each other: of bins as declared, of grades one; other
    and missing values do not. A bin of one value among wider ones, where rows may heap, has 0."""
    if not axis.numeric:
        return (1.0,) * axis.base if axis.ordered else ()
    widths = [float(high - low) for low, high in itertools.pairwise(axis.edges)]
    if axis.kind == "real":
        ends = (math.nextafter(low, math.inf) for low in axis.edges)
        return tuple(
            0.0 if high <= end else width
            for width, high, end in zip(widths, axis.edges[1:], ends, strict=False)
        )
    beside = [max(pair) for pair in zip([1.0, *widths], [*widths[1:], 1.0], strict=False)]
    return tuple(
        0.0 if width == 1.0 < most else width for width, most in zip(widths, beside, strict=True)
    )


def _read_joined(
    domain: Domain,
    facts: Mapping[str, Any],
    tables: Arrays,
    target: int | None,
    labels: int,
    noise: str,
) -> tuple[MeasuredTable, ...]:
    listed: Any = facts.get("joined")
    _require(
        isinstance(listed, list)
        and all(isinstance(item, list) and 2 <= len(item) <= MAX_WIDTH for item in listed),
        "facts: 'joined' must be a list of tables, each a list of names of columns.",
    )
    names = list(domain.names)
    joined = [tuple(_index(names, name) for name in item) for item in listed]
    _require(
        all(target not in columns and len(set(columns)) == len(columns) for columns in joined),
        "facts: a table of 'joined' must name different columns other than the target.",
    )
    rounds = _rounds(facts, len(joined))
    sides = [column for columns in joined for column in columns]
    groups = iter(
        _unstack(
            tables, "groups", list(range(len(sides))), [domain.shape[column] for column in sides]
        )
    )
    grouped = [tuple(next(groups) for _ in columns) for columns in joined]
    shapes = [
        (*(_count_groups(group_of) for group_of in some), labels if apart else 1)
        for some, apart in zip(grouped, _by_label(facts, len(joined)), strict=True)
    ]
    counts = _unstack(
        tables, "joined", list(range(len(joined))), [math.prod(shape) for shape in shapes]
    )
    variances = _variances(facts, "joined_scales", len(joined), noise)
    return tuple(
        MeasuredTable(columns, some, values.reshape(shape).astype(np.float64), variance, number)
        for columns, some, shape, values, variance, number in zip(
            joined, grouped, shapes, counts, variances, rounds, strict=True
        )
    )


def _read_prior(
    domain: Domain,
    facts: Mapping[str, Any],
    tables: Arrays,
    target: int | None,
    labels: int,
    noise: str,
) -> PublicPrior | None:
    """What was taken of a public table, and what the checks of it say."""
    found = facts.get("public")
    if found is None:
        return None
    where = "facts: 'public'"
    _require(isinstance(found, Mapping), f"{where} must be an object.")
    name, digest = text(found, "name", where), text(found, "sha256", where)
    _require(
        0 < len(name) <= MAX_TITLE and name.isprintable(),
        f"{where}: the name must be 1 to {MAX_TITLE} printable characters.",
    )
    rows = whole(found, "rows", where, limit=1 << 52, lowest=1)
    names, listed, pairs = list(domain.names), found.get("columns"), found.get("pairs")
    _require(
        isinstance(listed, list) and isinstance(pairs, list),
        f"{where} must list columns and pairs.",
    )
    columns = [_index(names, one) for one in listed]
    _require(
        len(set(columns)) == len(columns) > 0 and target not in columns,
        f"{where} must name different columns other than the target.",
    )
    edges = []
    for one in pairs:
        edge = tuple(_index(names, column) for column in one) if isinstance(one, list) else ()
        _require(
            len(edge) == len(set(edge)) == 2 and set(edge) <= set(columns),
            f"{where}: a pair must name two of its columns.",
        )
        edges.append((edge[0], edge[1]))
    counts = _unstack(
        tables, "public_columns", columns, [domain.shape[one] * labels for one in columns]
    )
    sides = [column for edge in edges for column in edge]
    groups = _unstack(
        tables, "public_groups", list(range(len(sides))), [domain.shape[one] for one in sides]
    )
    grouped = list(zip(groups[::2], groups[1::2], strict=True))
    shapes = [(*(_count_groups(side) for side in some), labels) for some in grouped]
    cells = _unstack(
        tables, "public_pairs", list(range(len(edges))), [math.prod(one) for one in shapes]
    )
    _require(
        all((some >= 0).all() and some.sum() <= 1 << 52 for some in (*counts, *cells)),
        f"{where}: a public table holds a number that is not believable.",
    )
    variances = _variances(found, "check_scales", len(edges), noise)
    checks, taken = found.get("checks"), found.get("taken")
    _require(
        _listed(taken, len(edges)) and all(isinstance(one, bool) for one in taken),
        f"{where}: 'taken' must say true or false of every pair.",
    )
    _require(
        _listed(checks, len(edges))
        and all(type(one) is int and abs(one) < 1 << 52 for one in checks),
        f"{where}: 'checks' must list a whole number for every pair.",
    )
    return PublicPrior(
        name,
        rows,
        digest,
        {c: table.reshape(-1, labels) for c, table in zip(columns, counts, strict=True)},
        tuple(
            PublicPair(edge, some, table.reshape(shape), check, Fraction(scale), variance, use)
            for edge, some, shape, table, check, scale, variance, use in zip(
                edges,
                grouped,
                shapes,
                cells,
                checks,
                found["check_scales"],
                variances,
                taken,
                strict=True,
            )
        ),
    )


def _read_rules(domain: Domain, facts: Mapping[str, Any]) -> list[Rule]:
    """The rules that the rows obeyed."""
    listed = facts.get("rules", [])
    _require(
        isinstance(listed, list) and len(listed) <= MAX_RULES,
        "facts: 'rules' must be a list of rules.",
    )
    out = []
    for item in listed:
        _require(
            isinstance(item, Mapping) and set(item) == {"if", "then"},
            "facts: a rule must have 'if' and 'then'.",
        )
        try:
            rule = rule_of(text(item, "if", "rules"), text(item, "then", "rules"), domain, "rules")
            cells_where(rule, domain)
        except InputError:
            raise BundleError("facts: a rule does not fit the domain.") from None
        out.append(rule)
    return out


def _read_totals(
    domain: Domain, facts: Mapping[str, Any], target: int | None
) -> tuple[tuple[Total, ...], tuple[KnownSum, ...]]:
    """The public totals that the model has exactly, and the sums that they are."""
    listed = facts.get("totals", [])
    _require(
        isinstance(listed, list) and len(listed) <= MAX_TOTALS,
        "facts: 'totals' must be a list of totals.",
    )
    out = []
    for item in listed:
        _require(
            isinstance(item, Mapping) and set(item) <= {"rows", "where", "source"},
            "facts: a total has 'rows', 'source' and 'where'.",
        )
        try:
            one = total_of(item.get("rows"), item.get("where", ""), item.get("source"), domain, "")
            fits = not one.where or known_sums([one], domain, target)[0] is not None
        except InputError:
            fits = False
        _require(fits, "facts: a total does not fit the domain.")
        out.append(one)
    known = known_sums([one for one in out if one.where], domain, target)
    return tuple(out), tuple(one for one in known if one is not None)


def _rounds(facts: Mapping[str, Any], tables: int) -> list[int]:
    """The round of each table, from how many tables each round had."""
    sizes: Any = facts.get("rounds")
    _require(
        isinstance(sizes, list)
        and all(isinstance(size, int) and 0 <= size <= tables for size in sizes),
        "facts: 'rounds' must list how many tables each round had.",
    )
    out = [number for number, size in enumerate(sizes) for _ in range(size)]
    _require(
        len(out) == tables and len(sizes) <= MAX_ROUNDS + 1,
        "facts: 'rounds' does not fit the tables of 'joined'.",
    )
    return out


def _by_label(facts: Mapping[str, Any], tables: int) -> list[bool]:
    """Whether each table was counted by label: all were, where nothing is said."""
    listed: list[bool] = facts.get("by_label", [True] * tables)
    _require(
        _listed(listed, tables) and all(isinstance(item, bool) for item in listed),
        "facts: 'by_label' must say true or false of every table of 'joined'.",
    )
    return listed


def _count_groups(group_of: Ints) -> int:
    numbers = int(group_of.max()) + 1
    _require(
        group_of.min() >= 0 and numbers <= MAX_GROUPS and len(np.unique(group_of)) == numbers,
        "groups.parquet: the groups of a column must be numbered from 0 without gaps.",
    )
    return numbers


def _check_size(
    domain: Domain,
    tables: Sequence[MeasuredTable],
    target: int | None,
    labels: int,
    zeros: Sequence[Zeros],
    prior: Sequence[PublicPair],
) -> None:
    """The junction tree that the tables lead to must fit in memory, whoever wrote the file."""
    columns = [column for column in range(len(domain.shape)) if column != target]
    levels = {column: domain.shape[column] for column in columns}
    states = {
        c: int(common_states(count, c, tables, prior_states(count, c, zeros, prior)).max()) + 1
        for c, count in levels.items()
    }
    together = [one.columns for some in (zeros, prior, tables) for one in some]
    tree = CliqueTree.of(columns, together, states)
    _require(
        tree.cells(states) * labels <= MAX_MODEL,
        "The tables of 'joined' lead to a model that is too large to hold.",
    )


def _unstack(tables: Arrays, name: str, keys: Sequence[int], lengths: Sequence[int]) -> list[Ints]:
    """The arrays that a long table holds one after the other; their order and lengths are fixed by
    the facts."""
    key, value = (TABLES | PUBLIC_TABLES)[name]
    table = tables[name]
    _require(
        np.array_equal(table[key], np.repeat(np.array(keys, dtype=np.int64), lengths)),
        f"{name}.parquet does not hold the tables that the facts name.",
    )
    values = table[value]
    _require(within_limits(values), f"{name}.parquet holds a number that is not believable.")
    return np.split(values, np.cumsum(lengths)[:-1]) if len(lengths) else []


def _variances(facts: Mapping[str, Any], key: str, count: int, noise: str) -> list[float]:
    """The noise variance of each table from its exact scale (Laplace) or squared sigma
    (Gaussian)."""
    listed: Any = facts.get(key)
    _require(
        _listed(listed, count) and all(isinstance(item, str) for item in listed),
        f"facts: '{key}' must list {count} fractions, one a table.",
    )
    out = []
    for item in listed:
        try:
            scale = float(Fraction(item))
        except (ValueError, ZeroDivisionError, OverflowError):
            raise BundleError(f"facts: '{key}' holds something that is not a fraction.") from None
        _require(
            len(item) <= 400 and 1e-9 <= scale <= 1e24,
            f"facts: '{key}' holds a scale that is not believable.",
        )
        out.append(laplace_variance(scale) if noise == "laplace" else scale)
    return out


def _index(names: list[str], name: Any) -> int:
    _require(name in names, "facts: a column is named that the domain does not have.")
    return names.index(name)


def _total(facts: Mapping[str, Any]) -> int | None:
    total: Any = facts.get("total")
    _require(
        isinstance(total, Mapping) and total.get("kind") in ("public", "unknown"),
        "facts: 'total' must be an object with kind public or unknown.",
    )
    return whole(total, "value", "total", limit=1 << 52) if total["kind"] == "public" else None
