"""The bootstrap and what stands on it: limits of any statistic, regression tables, independence."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.errors import QueryError
from every_kind import every_kind, rows


@pytest.mark.parametrize("name", ["joined", "histogram"])
def test_limits_of_a_statistic_hold_that_of_the_rows(name: str) -> None:
    """Released at a large epsilon, so that little but sampling is left."""
    release, table = every_kind()[name], rows()

    def risk(frame: pl.DataFrame) -> float:
        yes = [(frame.filter(pl.col("a") == one)["b"] == "yes").mean() for one in ("x", "y")]
        return float(yes[0] / yes[1])

    one = release.bootstrap(risk, runs=20)
    assert one.low <= one.value <= one.high
    assert one.low <= risk(table) <= one.high
    assert one.measure == "statistic"
    assert "covers sampling and noise" in one.note
    # the delta method for two binomial shares of about 300 rows
    assert 0.5 < one.standard_error / 0.25 < 2.0
    assert release.bootstrap(risk, runs=20) == one


def test_replicates_vary_as_samples_do() -> None:
    release = every_kind()["joined"]
    found = [one.cell_counts((0,))[0] for one in release.replicates(40, seed=1)]
    expected = np.sqrt(600 * 0.25)
    assert 0.6 * expected < np.std(found) < 1.6 * expected


@pytest.mark.parametrize("name", ["joined", "histogram"])
def test_a_regression_has_the_columns_of_an_ordinary_table(name: str) -> None:
    release = every_kind()[name]
    found = release.regress("b ~ a", runs=30)
    assert found.family == "logistic"
    assert found.table.columns == [
        "term", "estimate", "standard_error", "z", "p_value", "low", "high"
    ]  # fmt: skip
    line = found.table.filter(pl.col("term") == "a = y").row(0, named=True)
    table = rows()
    shares = [(table.filter(pl.col("a") == one)["b"] == "yes").mean() for one in ("x", "y")]
    truth = np.log(shares[1] / (1 - shares[1])) - np.log(shares[0] / (1 - shares[0]))
    assert line["low"] <= truth <= line["high"]
    assert line["p_value"] < 0.01
    assert "std. error" in str(found)
    assert "covers sampling" in found._repr_html_()
    assert found.to_pandas().shape == found.table.shape


def test_a_linear_regression_and_a_pair_that_was_not_counted() -> None:
    release = every_kind()["joined"]
    assert not release.counted_together("a", "income")
    found = release.regress("income ~ a", runs=20)
    assert found.family == "linear"
    assert "not counted together" in found.warnings[0]
    assert found.table["term"][0] == "(intercept)"


def test_independence_is_told_from_dependence() -> None:
    release = every_kind()["histogram"]
    assert release.independence("a", "b", runs=40).p_value < 0.05
    assert release.independence("a", "income", runs=40).p_value > 0.05
    assert every_kind()["joined"].independence("a", "income", runs=20).warnings


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda r: r.bootstrap(lambda frame: 1.0, runs=3), "from 20"),
        (lambda r: r.bootstrap(lambda frame: "x", runs=20), "one number"),
        (lambda r: r.bootstrap(lambda frame: float("nan"), runs=20), "not finite"),
        (lambda r: r.regress("b"), "formula such as"),
        (lambda r: r.regress("b ~ nothing"), "no column 'nothing'"),
        (lambda r: r.regress("b ~ a + a"), "named twice"),
        (lambda r: r.regress("b ~ a", family="linear"), "family must be"),
        (lambda r: r.regress("income ~ a", family="logistic"), "two levels"),
        (lambda r: r.independence("a", "a"), "two different"),
    ],
)
def test_wrong_requests_are_sentences(call: Any, text: str) -> None:
    with pytest.raises(QueryError, match=text):
        call(every_kind()["histogram"])


def test_kinds_that_cannot_be_made_again_say_so() -> None:
    with pytest.raises(QueryError, match="does not offer regress"):
        every_kind()["weighted"].regress("b ~ a")
