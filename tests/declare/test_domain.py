"""Domains: codes, labels, bins and cell numbering."""

from __future__ import annotations

import itertools
import math

import pytest

from dpublish.declare.columns import Column
from dpublish.declare.domain import Axis, Domain, lei_bins, resolve_axis
from dpublish.declare.grid import grid_of
from dpublish.declare.schema import Schema
from dpublish.errors import SchemaError


def domain_of(text: str, *names: str, rows: int | None = None, bins: int | None = None) -> Domain:
    return Schema.from_toml('[dataset]\nname = "t"\n' + text).domain(names, rows=rows, bins=bins)


def test_codes_are_values_then_other_then_missing() -> None:
    (axis,) = domain_of(
        '[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\nmissing = true\n', "a"
    ).axes
    assert axis.labels == ("x", "y", "(other)", "(missing)")
    assert (axis.other_code, axis.missing_code, axis.cardinality) == (2, 3, 4)


def test_integers_without_bins_are_values_of_their_own() -> None:
    (axis,) = domain_of('[columns.a]\nkind = "integer"\nlower = -1\nupper = 2\n', "a").axes
    assert axis.labels == ("-1", "0", "1", "2")
    assert axis.exact_values


def test_integer_bins_cover_every_integer_once() -> None:
    (axis,) = domain_of(
        '[columns.a]\nkind = "integer"\nlower = 17\nupper = 90\nbins = 8\n', "a"
    ).axes
    widths = [b - a for a, b in zip(axis.edges, axis.edges[1:], strict=False)]
    assert sum(widths) == 74
    assert max(widths) - min(widths) <= 1
    assert axis.labels[0] == "17..25"
    assert axis.labels[-1].endswith("..90")


def test_more_bins_than_integers_gives_the_integers() -> None:
    (axis,) = domain_of(
        '[columns.a]\nkind = "integer"\nlower = 1\nupper = 3\nbins = 99\n', "a"
    ).axes
    assert axis.cardinality == 3


def test_precision_counts_in_decimals() -> None:
    (axis,) = domain_of(
        '[columns.a]\nkind = "real"\nlower = 0.0\nupper = 1.0\nprecision = 0.1\n', "a"
    ).axes
    assert axis.cardinality == 10
    assert axis.label(9) == "[0.9, 1]"
    assert axis.midpoint(0) == pytest.approx(0.05)


def test_dates() -> None:
    (axis,) = domain_of(
        '[columns.d]\nkind = "date"\nlower = 1969-12-31\nupper = 1970-01-02\n', "d"
    ).axes
    assert axis.labels == ("1969-12-31", "1970-01-01", "1970-01-02")


def test_own_edges_include_the_last_value() -> None:
    (axis,) = domain_of('[columns.a]\nkind = "integer"\nedges = [0, 18, 65, 120]\n', "a").axes
    assert axis.labels == ("0..17", "18..64", "65..120")


def test_lei_bins_follow_the_formula() -> None:
    for rows, dimensions in ((150, 5), (48_842, 5), (10**6, 2)):
        bandwidth = (math.log(rows) / rows) ** (1 / dimensions)
        assert lei_bins(rows, dimensions) == math.ceil(1 / bandwidth - 0.5)
    assert lei_bins(1, 3) == 1


def test_declared_bins_win_over_defaults() -> None:
    text = (
        '[columns.a]\nkind = "real"\nlower = 0\nupper = 1\nbins = 4\n[columns.b]\nkind = '
        '"real"\nlower = 0\nupper = 1\n'
    )
    assert domain_of(text, "a", "b", bins=7).shape == (4, 7)
    assert domain_of(text, "a", "b", rows=10_000).shape == (4, lei_bins(10_000, 2))


def test_bins_finer_than_floats_are_refused() -> None:
    with pytest.raises(SchemaError, match="finer than the numbers"):
        domain_of(
            '[columns.a]\nkind = "real"\nlower = 1.0\nupper = 1.0000000000000004\nbins = 64\n', "a"
        )


def test_too_many_bins_are_refused() -> None:
    with pytest.raises(SchemaError, match="at most"):
        domain_of('[columns.a]\nkind = "integer"\nlower = 0\nupper = 100000000\n', "a")


def test_strides_number_cells_in_mixed_radix() -> None:
    domain = Domain(
        tuple(
            Axis(name, "categorical", levels=tuple("abcdef"[:n]))
            for name, n in (("p", 2), ("q", 3), ("r", 4))
        )
    )
    assert domain.size == 24
    assert domain.strides == (12, 4, 1)
    assert domain.shape == (2, 3, 4)


def test_json_round_trip() -> None:
    text = (
        '[columns.a]\nkind = "real"\nlower = 0\nupper = 1\nbins = 3\nmissing = true\n'
        '[columns.b]\nkind = "ordinal"\nlevels = ["l", "h"]\noutside = "drop"\n'
        '[columns.d]\nkind = "date"\nlower = 2000-01-01\nupper = 2001-01-01\nbins = 2\n'
    )
    domain = domain_of(text, "a", "b", "d")
    assert Domain.from_json(domain.to_json()) == domain


def test_unknown_axis_gets_a_hint() -> None:
    with pytest.raises(SchemaError, match="Did you mean 'age'"):
        domain_of('[columns.age]\nkind = "boolean"\n', "age").axis("agee")


def read(keys: str) -> Column:
    return Schema.from_toml(f"[dataset]\nname = 'd'\n[columns.x]\n{keys}").columns["x"]


def test_bounds_beside_edges_are_edges_too() -> None:
    column = read("kind = 'real'\nlower = 0.0\nupper = 9.0\nedges = [1.0, 4.0]\nprecision = 0.5")
    assert column.edges == (0.0, 1.0, 4.0, 9.0)
    assert read("kind = 'integer'\nlower = 0\nedges = [0, 4, 8]").edges == (0, 4, 8)
    assert resolve_axis(column, schema_name="d", default_bins=None).edges == column.edges
    assert grid_of(column, schema_name="d").positions == 18
    assert read("kind = 'integer'\nlower = 1\nupper = 9\nedges = [4]").edges == (1, 4, 9)
    for wrong in (
        "lower = 2.0\nupper = 9.0\nedges = [1.0, 4.0]",
        "upper = 3.0\nedges = [1.0, 4.0]",
    ):
        with pytest.raises(SchemaError, match="between lower and upper"):
            read(f"kind = 'real'\n{wrong}")


def test_bins_may_widen_by_a_factor() -> None:
    real = read("kind = 'real'\nlower = 1.0\nupper = 10000.0\nbins = 4\nspacing = 'log'")
    edges = resolve_axis(real, schema_name="d", default_bins=None).edges
    assert edges == pytest.approx((1, 10, 100, 1000, 10000))
    whole = read("kind = 'integer'\nlower = 1\nupper = 999\nbins = 12\nspacing = 'log'")
    found = resolve_axis(whole, schema_name="d", default_bins=None).edges
    assert (found[0], found[-1], len(found)) == (1, 1000, 13)
    assert all(low < high for low, high in itertools.pairwise(found))
    assert Schema.from_toml(Schema(name="d", columns={"x": real}).to_toml()).columns["x"] == real
    for keys, text in (
        ("lower = 0.0\nupper = 9.0\nbins = 3\nspacing = 'log'", "above 0"),
        ("lower = 1.0\nupper = 9.0\nspacing = 'log'", "needs bins"),
        ("lower = 1.0\nupper = 9.0\nbins = 3\nspacing = 'wide'", "even or log"),
        ("edges = [1.0, 9.0]\nspacing = 'log'", "already fix"),
    ):
        with pytest.raises(SchemaError, match=text):
            read(f"kind = 'real'\n{keys}")
