"""Paths that are none, where a release is opened, checked or written."""

from __future__ import annotations

import io
from typing import Any

import pytest

import dpublish as dp
from every_kind import every_kind


@pytest.mark.parametrize(
    "given", [None, 3, b"a.dpr", io.BytesIO(b"PK")], ids=lambda given: type(given).__name__
)
def test_what_is_no_path_is_refused_in_words(given: Any) -> None:
    calls = (
        dp.open_release,
        dp.verify_bundle,
        every_kind()["histogram"].save,
        every_kind()["joined"].report,
    )
    for call in calls:
        with pytest.raises(
            dp.InputError, match=f"as text or as a Path, not {type(given).__name__}"
        ):
            call(given)
