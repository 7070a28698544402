from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpublish.errors import QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.noisy_counts import Suppression
from dpublish.releases.histogram.intervals import CellSums, Question, Total, answer
from releases.simulated import people_release


def sums(counts: float, released: float, suppressed: float, k2: float = 8.0) -> CellSums:
    each = (counts, released, suppressed, k2 * released, 0.0, 100.0 * released)
    return CellSums(*(np.array([float(number)]) for number in each))


LAW = Suppression(10, Fraction(2))


def ask(part: CellSums, whole: CellSums, total: Total, level: float = 0.95):  # type: ignore[no-untyped-def]
    return answer(LAW, whole, total, Question(part, part, part), level).one()


def test_one_released_cell_has_the_exact_laplace_interval() -> None:
    got = ask(sums(100, 1, 0), sums(1000, 10, 0), Total("public", 1000))
    assert (got.low, got.high) == (94.0, 106.0)
    assert got.value == 100


def test_the_whole_is_the_public_total() -> None:
    whole = sums(1003, 10, 5)
    got = ask(whole, whole, Total("public", 1000))
    assert (got.low, got.value, got.high) == (1000, 1000, 1000)


def test_nothing_is_zero() -> None:
    got = ask(sums(0, 0, 0), sums(1000, 10, 5), Total("public", 1000))
    assert (got.low, got.value, got.high) == (0, 0, 0)


def test_a_suppressed_cell_lies_between_zero_and_a_little_above_the_threshold() -> None:
    got = ask(sums(0, 0, 1), sums(1000, 10, 100), Total("unknown", 0))
    assert got.low == 0
    assert LAW.threshold < got.high <= LAW.threshold + 8


def test_missing_rows_are_spread_over_the_suppressed_cells() -> None:
    whole = sums(700, 10, 100)
    got = ask(sums(100, 1, 50), whole, Total("public", 1000))
    assert 225 <= got.value <= 260
    assert got.low <= 100 <= got.value <= got.high


def test_an_unknown_total_spreads_nothing() -> None:
    got = ask(sums(100, 1, 50), sums(700, 10, 100), Total("unknown", 0))
    assert got.value <= 100


def test_higher_levels_are_wider_and_a_bound_helps() -> None:
    part, whole = sums(100, 3, 50), sums(700, 10, 100)
    narrow, wide = (ask(part, whole, Total("public", 750), level) for level in (0.8, 0.99))
    assert wide.low <= narrow.low <= narrow.high <= wide.high
    bounded = ask(part, whole, Total("unknown", 0, bound=750))
    assert bounded.high < ask(part, whole, Total("unknown", 0)).high
    assert bounded.high <= 750


def test_a_noisy_total_is_less_certain_than_a_public_one() -> None:
    part, whole = sums(600, 9, 60), sums(700, 10, 100)
    public, noisy = (
        ask(part, whole, Total("public", 750)),
        ask(part, whole, Total("noisy", 750, Fraction(20))),
    )
    assert noisy.high > public.high


@pytest.mark.parametrize("level", [0, 1, 0.4, 1.5, True, "0.9", float("nan")])
def test_levels_are_checked(level: object) -> None:
    with pytest.raises(QueryError, match="level"):
        check_level(level)  # type: ignore[arg-type]


def test_estimate_reads_well() -> None:
    got = ask(sums(1100, 1, 0), sums(2000, 10, 0), Total("public", 2000))
    assert str(got) == "1,100 (95% interval 1,094 to 1,106)"
    assert got.to_json()["value"] == 1100


def test_total_from_facts() -> None:
    total = Total.from_facts(
        {"total": {"kind": "unknown", "value": None, "scale": None}, "max_total": 5}
    )
    assert total.bound == 5
    assert total.ceiling == 5


def test_a_level_is_never_rounded_to_certainty() -> None:
    for level, shown in ((0.95, "95%"), (0.975, "97.5%"), (0.999, "99.9%"), (0.9999, "99.99%")):
        assert f"({shown} interval" in str(Estimate(5.0, 1.0, 3.0, 7.0, level))
        axis = people_release().plot("sex", level=level).axes[0].get_xlabel()
        assert axis == f"rows ({shown} intervals)"
