"""The guard: whatever happens inside, what comes out is a result, a constant text, or the wish to
stop."""

from __future__ import annotations

import threading
import traceback
import warnings
from typing import Any

import pytest

from dpublish.curator.guard import guarded
from dpublish.errors import BudgetExceeded, InputError, PrivateSideError, PublishError
from dpublish.quiet import no_logs

CANARY = "canary-9d1e"


def failing(failure: BaseException) -> Any:
    def action() -> None:
        held = CANARY  # a local that a traceback would keep
        failure.add_note(held)
        try:
            raise ValueError(held)
        except ValueError as cause:
            raise failure from cause

    return action


def caught(failure: BaseException, **options: Any) -> BaseException:
    with pytest.raises(BaseException) as found:
        guarded(failing(failure), **options)
    return found.value


def said(error: BaseException) -> str:
    frames = [
        frame
        for frame, _ in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_name not in ("caught", "said")
    ]
    private = [
        repr(frame.f_locals) for frame in frames if "test_guard" not in frame.f_code.co_filename
    ]
    links = [repr(link) for link in (error.__cause__, error.__context__) if link is not None]
    return " ".join([repr(error), repr(error.args), repr(vars(error)), *private, *links])


class Panic(BaseException):
    """What native code raises: no Exception."""


@pytest.mark.parametrize(
    "failure",
    [
        ValueError(CANARY),
        MemoryError(CANARY),
        Panic(CANARY),
        InputError(CANARY),
        PublishError(CANARY),
        RecursionError(CANARY),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_failures_have_one_constant_text(failure: BaseException) -> None:
    found = caught(failure)
    assert type(found) is PrivateSideError
    assert CANARY not in said(found)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (KeyboardInterrupt(CANARY), KeyboardInterrupt),
        (SystemExit(CANARY), SystemExit),
        (GeneratorExit(CANARY), GeneratorExit),
    ],
    ids=lambda one: "",
)
def test_a_wish_to_stop_carries_nothing_else(
    failure: BaseException, kind: type[BaseException]
) -> None:
    found = caught(failure)
    assert type(found) is kind
    assert CANARY not in said(found)


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        (None, None),
        (0, 0),
        (1, 1),
        (143, 143),
        (CANARY, 1),
        (True, 1),
        ([CANARY], 1),
        (2, 1),
        (-3, 1),
        (37, 1),
        (128, 1),
        (10**30, 1),
    ],
)
def test_exit_codes_are_those_of_signals(code: Any, kept: int | None) -> None:
    found = caught(SystemExit(code))
    assert isinstance(found, SystemExit)
    assert found.code == kept
    assert type(found.code) is type(kept)


def test_filters_of_a_host_that_comes_and_goes_meanwhile_are_its_own() -> None:
    """A thread of the host may enter and leave `catch_warnings` while rows are read, in any
    order."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        ours, host = no_logs(), warnings.catch_warnings()
        ours.__enter__()  # ours first, the host leaves last
        host.__enter__()
        warnings.warn(CANARY, stacklevel=1)
        ours.__exit__(None, None, None)
        host.__exit__(None, None, None)
        assert warnings.filters == before
        ours, host = no_logs(), warnings.catch_warnings()
        host.__enter__()  # the host first, ours leaves last
        warnings.simplefilter("ignore")
        ours.__enter__()
        host.__exit__(None, None, None)
        ours.__exit__(None, None, None)
        assert warnings.filters == before
        with pytest.raises(UserWarning):
            warnings.warn("seen again", stacklevel=1)


def test_foreseen_texts_are_kept_and_only_those() -> None:
    found = caught(BudgetExceeded("used up"), foreseen=(BudgetExceeded,))
    assert (type(found), str(found)) == (BudgetExceeded, "used up")
    assert CANARY not in said(found)

    class Closer(BudgetExceeded):
        """A kind that its maker did not announce."""

    assert type(caught(Closer(CANARY), foreseen=(BudgetExceeded,))) is PrivateSideError


def test_warnings_of_one_thread_stay_hidden_while_another_leaves() -> None:
    first, second, left = threading.Event(), threading.Event(), threading.Event()

    def early() -> None:
        def action() -> None:
            first.set()
            second.wait(10)

        guarded(action)
        left.set()

    def late() -> None:
        def action() -> None:
            second.set()
            left.wait(10)
            warnings.warn(CANARY, stacklevel=1)

        first.wait(10)
        guarded(action)

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=one) for one in (early, late)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [str(one.message) for one in seen] == []
        warnings.warn("shown again", stacklevel=1)
        assert [str(one.message) for one in seen] == ["shown again"]
