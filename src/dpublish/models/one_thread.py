"""Small systems are solved on one thread: sharing one of a hundred rows out among threads takes
longer than solving it, many times longer on a busy machine, and its last digits would depend on how
many threads there were."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from dpublish.models.junction_tree.plain import is_reading

P = ParamSpec("P")
T = TypeVar("T")


def on_one_thread(function: Callable[P, T]) -> Callable[P, T]:
    """The function with linear algebra kept to one thread."""

    @functools.wraps(function)
    def kept(*args: P.args, **keywords: P.kwargs) -> T:
        with _libraries(not is_reading()).limit(limits=1, user_api="blas"):
            return function(*args, **keywords)

    return kept


@functools.cache
def _libraries(compiled: bool) -> Any:
    # what is not loaded yet would not be found: numpy's library, and scipy's, which compiled loops
    # call
    import numpy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    if compiled:
        import scipy.linalg.cython_lapack  # noqa: F401
    return ThreadpoolController()
