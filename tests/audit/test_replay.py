"""Tier B: what is added up, what is compared, and how failures are told."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from dpublish import audit
from dpublish.errors import InputError
from dpublish.noise.base import Noise

ONE = Fraction(1)
PAIR = [((0, 1), (0,))]


def count(noise: Noise, rows: tuple[int, ...]) -> list[int]:
    return noise.laplace(np.array([len(rows)]), sensitivity=ONE, epsilon=ONE).tolist()


def gaussian(noise: Noise, rows: tuple[int, ...]) -> list[int]:
    return noise.gaussian(np.array([len(rows)]), sensitivity=ONE, rho=Fraction(1, 8)).tolist()


def test_losses_add_up_over_the_measured_moves() -> None:
    def by_part(noise: Noise, rows: tuple[int, ...]) -> list[list[int]]:
        return [count(noise, tuple(row for row in rows if row == part)) for part in (0, 1)]

    report = audit.replay(by_part, PAIR, epsilon=1)
    assert report.passed, report.summary()
    assert report.loss == 1  # parallel composition, found rather than declared
    assert audit.replay(lambda n, rows: [count(n, rows), count(n, rows)], PAIR).loss == 2


def test_claims_in_rho() -> None:
    assert audit.replay(gaussian, PAIR, rho="1/8").passed
    assert not audit.replay(gaussian, PAIR, rho="1/9").passed
    assert not audit.replay(gaussian, PAIR, epsilon=100).passed
    assert audit.replay(count, PAIR, rho="1/2").passed
    assert not audit.replay(count, PAIR, rho="0.49").passed
    with pytest.raises(InputError, match="not both"):
        audit.replay(count, PAIR, epsilon=1, rho=1)


def test_the_input_is_not_changed_and_logging_is_put_back() -> None:
    import logging

    before = (logging.getLogger().level, list(logging.getLogger().handlers))
    rows = [0, 1]
    audit.replay(lambda noise, data: (data.clear(), 0)[1], [(rows, [0])])
    assert rows == [0, 1]
    assert (logging.getLogger().level, list(logging.getLogger().handlers)) == before


def test_an_error_is_compared_like_an_output() -> None:
    def fails_on_one_row(noise: Noise, rows: tuple[int, ...]) -> int:
        answer = count(noise, rows)[0]
        if len(rows) == 1:
            raise ValueError("too small")
        return answer

    checks = {finding.check for finding in audit.replay(fails_on_one_row, PAIR).findings}
    assert checks == {"error", "output"}


def test_a_mechanism_that_always_raises_is_not_audited() -> None:
    report = audit.replay(lambda noise, rows: 1 / 0, PAIR)
    assert [finding.check for finding in report.findings] == ["raised"]


def test_report_is_json_and_counts_taps() -> None:
    report = audit.replay(count, PAIR, epsilon=1, runs=3)
    document = json.loads(json.dumps(report.to_json()))
    assert document["passed"] is True
    assert document["loss"] == "1"
    assert document["taps"] == 6
    assert document["tier"] == "replay"
    with pytest.raises(InputError, match="no pair"):
        audit.replay(count, [])
