from __future__ import annotations

import datetime as dt

import numpy as np
import polars as pl
import pytest

from dpublish.declare.domain import Axis, Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import QueryError
from dpublish.releases.frames import cell_frame, column_values, decode_cells, free_name, sample_rows
from releases.simulated import people, varied


@pytest.mark.parametrize("domain", [people(), varied()])
def test_cells_decode_to_their_codes(domain: Domain) -> None:
    cells = np.arange(domain.size, dtype=np.uint64)
    expected = np.unravel_index(np.arange(domain.size), domain.shape)
    for index, codes in enumerate(expected):
        assert np.array_equal(decode_cells(cells, domain, index), codes)


@pytest.mark.parametrize("domain", [people(), varied()])
def test_values_and_samples_encode_back_to_their_cells(domain: Domain) -> None:
    cells = np.arange(domain.size, dtype=np.uint64)
    weights = np.ones(domain.size, dtype=np.int64)
    for frame in (
        cell_frame(cells, weights, domain, intervals=False),
        sample_rows(cells, weights, domain, 3000, 7),
    ):
        codes = encode_frame(frame, domain).codes
        for axis, code in zip(domain.axes, codes, strict=True):
            known = frame[axis.name].is_not_null().to_numpy()
            back = column_values(axis, np.asarray(code, dtype=np.int64))
            if axis.kind in ("integer", "real", "date") and not axis.exact_values:
                shown = back.cast(pl.Int32) if axis.kind == "date" else back
                middle = np.abs(
                    shown.to_numpy()[known] - frame[axis.name].cast(shown.dtype).to_numpy()[known]
                )
                assert np.all(
                    middle <= np.diff(np.array(axis.edges, dtype=np.float64)).max() / 2 + 1
                )
            else:
                assert (
                    back.filter(pl.Series(known)).to_list()
                    == frame[axis.name].filter(pl.Series(known)).to_list()
                )


def test_midpoints_and_missing() -> None:
    domain = varied()
    assert column_values(domain.axes[0], np.array([0, 3])).to_list() == ["small", None]
    assert column_values(domain.axes[1], np.array([0, 2, 3])).to_list() == [0.75, 6.5, None]
    assert column_values(domain.axes[2], np.array([0])).to_list() == [dt.date(2020, 1, 5)]
    assert column_values(people().axes[1], np.array([2])).to_list() == ["(other)"]
    assert column_values(people().axes[0], np.array([0])).to_list() == [21.5]


def test_samples_follow_the_weights_and_the_seed() -> None:
    domain = Domain((Axis("x", "categorical", levels=("a", "b", "c")),))
    cells, counts = np.array([0, 2], dtype=np.uint64), np.array([100, 300])
    frame = sample_rows(cells, counts, domain, 40_000, 1)
    share = frame["x"].value_counts(normalize=True).sort("x")
    assert share["x"].to_list() == ["a", "c"]
    # a standard deviation is 0.0022; five of them give a false alarm once in two million
    assert abs(share["proportion"][0] - 0.25) < 0.011
    assert frame.equals(sample_rows(cells, counts, domain, 40_000, 1))
    assert not frame.equals(sample_rows(cells, counts, domain, 40_000, 2))


def test_samples_fill_their_bins() -> None:
    domain = varied()
    frame = sample_rows(
        np.arange(domain.size, dtype=np.uint64),
        np.ones(domain.size, dtype=np.int64),
        domain,
        5000,
        3,
    )
    assert frame["day"].n_unique() == 31
    assert frame["day"].min() == dt.date(2020, 1, 1)
    prices = frame["price"].drop_nulls()
    assert prices.n_unique() > 3000
    assert 0 <= float(prices.min()) < float(prices.max()) < 10  # type: ignore[arg-type]
    assert set(
        sample_rows(np.array([0], dtype=np.uint64), np.array([5]), people(), 2000, 1)["age"]
    ) == set(range(17, 27))


@pytest.mark.parametrize("number", [-1, 1.5, True, 10**12])
def test_sample_sizes_are_checked(number: object) -> None:
    with pytest.raises(QueryError, match="whole number"):
        sample_rows(np.array([0], dtype=np.uint64), np.array([5]), people(), number, 1)  # type: ignore[arg-type]


def test_names_do_not_clash() -> None:
    domain = Domain(
        (
            Axis("weight", "integer", edges=(0, 5, 10)),
            Axis("weight_bin", "categorical", levels=("a",)),
        )
    )
    frame = cell_frame(np.array([0], dtype=np.uint64), np.array([5]), domain, intervals=True)
    assert frame.columns == ["weight", "weight_bin_", "weight_bin", "weight_"]
    assert free_name("x", ("x", "x_")) == "x__"
