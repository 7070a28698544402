"""Linear algebra on one thread, and as it was afterwards."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info

from dpublish.models.one_thread import on_one_thread


def threads() -> list[int]:
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def fails() -> None:
    raise ValueError("on purpose")


def test_one_thread_and_then_as_before() -> None:
    on_one_thread(threads)()  # loads what there is
    before = threads()
    assert set(on_one_thread(on_one_thread(threads))()) == {1}
    assert threads() == before
    with pytest.raises(ValueError, match="on purpose"):
        on_one_thread(fails)()
    assert threads() == before
