"""Public rows as weights are put on them."""

from __future__ import annotations

import polars as pl

from dpublish.declare.domain import Axis
from dpublish.models.public_rows import encode_public, with_truth

TRUTH = Axis("ill", "boolean", levels=("false", "true"), other=True, missing=True, outside="other")


def test_a_truth_that_is_neither_is_kept_apart_from_missing_ones() -> None:
    """As in private rows, so that both are counted under the same level."""
    found = encode_public(
        "some", pl.DataFrame({"ill": ["yes", "no", "perhaps", None, ""]}), [TRUTH]
    )
    assert found.codes[0].tolist() == [
        1,
        0,
        TRUTH.other_code,
        TRUTH.missing_code,
        TRUTH.missing_code,
    ]
    assert found.frame["ill"].to_list() == ["true", "false", "(other)", None, None]
    again = encode_public("again", found.frame, [TRUTH])
    assert [codes.tolist() for codes in again.codes] == [codes.tolist() for codes in found.codes]
    assert with_truth(found.frame, [TRUTH])["ill"].dtype == pl.String


def test_plain_truths_are_booleans() -> None:
    found = encode_public("some", pl.DataFrame({"ill": ["yes", "no", None]}), [TRUTH])
    assert with_truth(found.frame, [TRUTH])["ill"].to_list() == [True, False, None]
