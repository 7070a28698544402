"""Tables, SQL and models from the boxes of an interval tree agree with what its ranges and
conditions say."""

from __future__ import annotations

import numpy as np
import pytest

from dpublish.errors import QueryError
from every_kind import every_kind, rows


@pytest.mark.parametrize("name", ["tree", "plane"])
def test_a_table_by_bins_is_that_of_its_ranges(name: str) -> None:
    release = every_kind()[name]
    table = release.marginal("income")
    assert table.columns == ["income", "count", "standard_error", "low", "high"]
    # the bins of whole numbers read 'first..last'
    for label, count, _, low, high in table.head(5).iter_rows():
        first, _, last = label.partition("..")
        found = release.count(income=(int(first), int(last or first)))
        assert (count, low, high) == (found.value, found.low, found.high)
    whole = release.estimate("true")
    assert table["count"].sum() == pytest.approx(release.counts.sum(), rel=0.05)
    assert whole.low <= whole.value <= whole.high


def test_two_columns_of_a_plane_make_a_table() -> None:
    release = every_kind()["plane"]
    table = release.marginal("height", "income")
    assert table.columns[:2] == ["height", "income"]
    assert table.height == release.marginal("height").height * release.marginal("income").height
    with pytest.raises(QueryError, match="named twice"):
        release.marginal("height", "height")
    with pytest.raises(QueryError, match="No column 'nothing'"):
        release.marginal("nothing")


@pytest.mark.parametrize("name", ["tree", "plane"])
def test_sql_counts_what_conditions_count(name: str) -> None:
    release = every_kind()[name]
    total = release.sql("select count(*) as n, avg(income) as mean from release")
    assert total["n"].item() == pytest.approx(release.estimate("true").value)
    assert total["mean"].item() == pytest.approx(rows()["income"].mean(), abs=40)
    # the table has a cut at every end of a box, so a condition there divides none
    cut = int(release.marginal("income")["income"][3].partition("..")[0])
    limited = release.sql(f"select count(*) as n from release where income < {cut}", level=0.95)
    found = release.estimate(f"income < {cut}")
    assert limited["n"].item() == pytest.approx(found.value, abs=1e-6)
    assert (limited["n_low"].item(), limited["n_high"].item()) == (found.low, found.high)


def test_sql_of_nothing_is_nothing() -> None:
    found = every_kind()["tree"].sql(
        "select count(*) as n from release where income > 5000", level=0.95
    )
    assert found.rows() == [(0.0, 0.0, 0.0)]


def test_groups_have_limits() -> None:
    release = every_kind()["plane"]
    found = release.sql(
        "select income, count(*) as n from release group by income order by income", level=0.9
    )
    table = release.marginal("income", level=0.9)
    assert found.height == table.height
    assert np.allclose(found["n"].to_numpy().clip(min=0), table["count"].to_numpy(), atol=1e-6)
    assert (found["n_high"] >= table["high"] - 1e-9).all()
