"""The shipped histogram under the audits: exact on all tiny tables, replayed, and (nightly) sampled
in many settings."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from built_in import exact_on_every_pair
from dpublish import audit
from dpublish.audit.trials.synthetic_inputs import RELATIONS, schema_text, unit_lines
from dpublish.audit.trials.tables import bits, table_trial
from dpublish.audit.trials.trial import Exact
from dpublish.declare.schema import Schema
from dpublish.methods.histogram.mechanism import Histogram
from dpublish.privacy.cost import Cost

COLUMN = bits("a")


def schema_of(relation: str, per_unit: int = 1) -> Schema:
    return Schema.from_toml(schema_text(relation, COLUMN, size=3, extra=unit_lines(per_unit)))


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("per_unit", [1, 2], ids=["one row", "two rows"])
def test_exact_privacy_is_the_claim_on_all_tiny_tables(relation: str, per_unit: int) -> None:
    """Every neighbouring pair, every outcome: the worst log-ratio is at most epsilon, and close to
    it: noise is not wasted."""
    settings = {"threshold": "1", "count_share": "0"}
    report = exact_on_every_pair(
        table_trial(
            "histogram",
            relation,
            ("a",),
            settings=settings,
            per_unit=per_unit,
            exact=Exact(window=(-2, 5)),
        )
    )
    assert 0.8 < report.loss <= 1 + 1e-9


def test_the_paid_total_is_part_of_the_claim() -> None:
    schema = schema_of("add-remove-one")
    tried = audit.subject(Histogram(threshold=1, count_share="1/2"), schema, Cost.pure(1))
    report = audit.exact(tried, list(tried.pairs(rows=1)), epsilon=1, window=(-2, 4))
    assert report.passed, report.summary()
    cheated = audit.exact(tried, list(tried.pairs(rows=1)), epsilon=Fraction(3, 4), window=(-2, 4))
    assert not cheated.passed, "a claim that forgets a part of the cost must be refuted"


@pytest.mark.parametrize("relation", RELATIONS)
def test_replay_in_many_settings(relation: str) -> None:
    for threshold, epsilon in itertools.product((None, 0, 3), ("1/10", 1, 4)):
        tried = audit.subject(
            Histogram(threshold=threshold), schema_of(relation), Cost.pure(epsilon)
        )
        report = audit.replay(tried, list(tried.pairs(rows=2)), epsilon=epsilon)
        assert report.passed, report.summary()


SETTINGS = list(itertools.product(RELATIONS, (1, 2), (0, 2), ("1/2", 1, 3)))


@pytest.mark.nightly
@pytest.mark.parametrize(("relation", "per_unit", "threshold", "epsilon"), SETTINGS)
def test_sampled_bound_never_exceeds_the_claim(
    relation: str, per_unit: int, threshold: int, epsilon: str | int
) -> None:
    """24 settings x 10 pairs x 25 events; family-wise false-alarm rate 1e-3 over the whole test."""
    tried = audit.subject(
        Histogram(threshold=threshold), schema_of(relation, per_unit), Cost.pure(epsilon)
    )
    pairs = list(tried.pairs(rows=3))[:10]
    report = audit.sampled(
        tried,
        pairs,
        epsilon=epsilon,
        samples=20_000,
        max_events=25,
        false_alarm=1e-3 / len(SETTINGS),
    )
    assert report.passed, report.summary()
