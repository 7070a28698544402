"""Tier A on mechanisms whose privacy loss is known exactly."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpublish import audit
from dpublish.audit import neighbours
from dpublish.errors import InputError
from dpublish.noise.base import Noise

ONE, HALF = Fraction(1), Fraction(1, 2)
ADD = list(neighbours.add_remove((0, 1), max_rows=2))


def counts(noise: Noise, rows: tuple[int, ...]) -> list[int]:
    exact = np.bincount(np.array(rows, dtype=np.int64), minlength=2).astype(np.int64)
    return noise.laplace(exact, sensitivity=ONE, epsilon=HALF).tolist()


def test_the_loss_of_a_histogram_is_found_exactly() -> None:
    report = audit.exact(counts, ADD, epsilon="1/2")
    assert report.passed
    assert report.loss == 0.5
    assert report.excess == 0
    assert report.base == 4
    assert report.pairs == len(ADD)
    assert "survived" in report.summary()
    assert "verif" not in report.summary()


def test_a_claim_just_below_the_loss_is_refuted_in_every_base() -> None:
    for root in (2, 3):
        report = audit.exact(counts, ADD, epsilon=Fraction(49, 100), root=root)
        assert not report.passed
        assert math.isclose(report.loss, 0.5)
        assert {finding.check for finding in report.findings} == {"privacy"}
        assert "FAILED" in report.summary()


def test_delta_is_the_hockey_stick() -> None:
    """Randomised response with truth 3/4 in base 2: P = 3/4, 1/4; at epsilon 1 the excess is 3/4 -
    2/4 = 1/4."""

    def response(noise: Noise, rows: tuple[int]) -> int:
        return rows[0] if noise.integers(4, size=1)[0] < 3 else 1 - rows[0]

    pair = [((0,), (1,))]
    report = audit.exact(response, pair, epsilon=1, base=2)
    assert report.excess == Fraction(1, 4)
    assert not report.passed
    assert audit.exact(response, pair, epsilon=1, delta="1/4", base=2).passed
    assert not audit.exact(response, pair, epsilon=1, delta="0.249", base=2).passed


def test_impossible_outcomes_are_unbounded() -> None:
    report = audit.exact(lambda noise, rows: len(rows), ADD, epsilon=1)
    assert math.isinf(report.loss)
    assert report.excess == 1
    assert json.loads(json.dumps(report.to_json()))["loss"] == "infinite"


def test_tails_apart_only_certify() -> None:
    wide = audit.exact(counts, ADD, epsilon="1/2", window=(-9, 11), tails="apart")
    assert wide.passed
    assert 0.48 < wide.loss <= 0.5
    assert not audit.exact(counts, ADD, epsilon="1/4", window=(-9, 11), tails="apart").passed
    narrow = audit.exact(counts, ADD, epsilon="1/4", window=(0, 1), tails="apart")
    assert (
        narrow.passed
    )  # almost everything is outside: nothing can be certified, and nothing is claimed
    assert narrow.loss < 0.25


def test_clipped_tails_can_accuse_a_private_sparse_vector_and_tails_apart_do_not() -> None:
    """The known limit of clipping (docs/audits.md): comparing two clamped noisy values is not
    post-processing of either."""

    def above(noise: Noise, answers: tuple[int, ...]) -> tuple[bool, ...]:
        shift = int(noise.laplace(np.array([0]), sensitivity=ONE, epsilon=Fraction(1, 4))[0])
        shown: list[bool] = []
        for answer in answers:
            shown.append(
                int(noise.laplace(np.array([answer]), sensitivity=ONE, epsilon=Fraction(3, 8))[0])
                >= shift
            )
            if shown[-1]:
                break
        return tuple(shown)

    pair = [((2, 2, 2, -1), (3, 3, 3, -2))]
    assert not audit.exact(above, pair, epsilon=1, window=(-2, 3)).passed
    assert audit.exact(above, pair, epsilon=1, window=(-2, 3), tails="apart").passed


def test_inputs_that_enlarge_the_base_late_are_compared_in_one_base() -> None:
    def uneven(noise: Noise, rows: tuple[int, ...]) -> int:
        return int(
            noise.laplace(
                np.array([len(rows)]), sensitivity=ONE, epsilon=Fraction(1, 1 + len(rows))
            )[0]
        )

    report = audit.exact(uneven, ADD, epsilon=1)
    assert report.base == 2**6
    assert not report.passed


def test_a_mechanism_that_always_raises_is_not_audited() -> None:
    report = audit.exact(lambda noise, rows: 1 / 0, ADD, epsilon=1)
    assert [finding.check for finding in report.findings] == ["raised"]


def test_floats_at_the_tap_and_empty_pairs() -> None:
    report = audit.exact(
        lambda n, rows: n.laplace(np.array([0.5]), sensitivity=ONE, epsilon=ONE), ADD, epsilon=1
    )
    assert [finding.check for finding in report.findings] == ["tap"]
    with pytest.raises(InputError, match="no pair"):
        audit.exact(counts, [], epsilon=1)


def test_neighbours() -> None:
    assert list(neighbours.add_remove("ab", max_rows=1)) == [((), ("a",)), ((), ("b",))]
    assert list(neighbours.replace_one("ab", rows=2)) == [
        (("a", "a"), ("a", "b")),
        (("a", "b"), ("b", "b")),
    ]
    assert len(list(neighbours.replace_one("ab", rows=2, ordered=True))) == 2
    assert len(list(neighbours.add_remove("ab", max_rows=3))) == 2 * (1 + 2 + 3)
    for one, other in neighbours.add_remove_unit("ab", units=2, max_rows_per_unit=2):
        assert set(one) <= set(other)
        assert len({unit for unit, _ in other} - {unit for unit, _ in one}) == 1
    for one, other in neighbours.replace_one_unit("ab", units=2, max_rows_per_unit=2):
        assert [row for row in one if row[0] == 0] == [row for row in other if row[0] == 0]
        assert one != other
