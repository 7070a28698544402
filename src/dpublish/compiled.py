"""Kernels compiled by numba, kept on disk where that is possible.

Compiling takes seconds, so numba keeps what it made: beside the source, or in the user's cache
folder, or in `$NUMBA_CACHE_DIR`. None of them need be there. A package that root installed and a
service account uses has no folder to write to, and a disk may be full; numba then raises, and a
release that was just paid for would be lost over a file that is there only to save time. So here a
kernel that cannot be kept or found again is compiled for the process at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
from numba.core.caching import FunctionCache

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


class _Kept(FunctionCache):
    """What numba keeps of one function; whatever is wrong with it is no reason to fail."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(
            Exception
        ):  # an unreadable file, or one that a loss of power left half written
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(Exception):
            super().save_overload(sig, data)


def njit(*, cache: bool, **options: Any) -> Callable[[Kernel], Kernel]:
    """`numba.njit`, with a cache that may fail."""
    options.setdefault("no_cfunc_wrapper", True)  # nobody calls kernels from C

    def compiled(function: Kernel) -> Kernel:
        dispatcher: Any = numba.njit(**options)(function)
        if cache:
            with suppress(RuntimeError):  # numba's word for: there is no folder that can be written
                dispatcher._cache = _Kept(function)  # what numba's own cache=True does
        return cast(Kernel, dispatcher)

    return compiled


def interpreted(kernel: Kernel) -> Kernel:
    """The same code, run by Python: for so few bytes that compiling it would take longer."""
    function: Any = getattr(kernel, "py_func", kernel)
    names = {
        name: interpreted(value)
        for name in function.__code__.co_names
        if hasattr(value := function.__globals__.get(name), "py_func")
    }
    space = function.__globals__ | names
    return cast(Kernel, FunctionType(function.__code__, space, function.__name__))
