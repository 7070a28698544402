"""Named places where a fault test may stop the process.

In production `reach` does nothing. There is no environment variable and no setting: only code that
runs inside the process and calls `armed` can install a hook, and a test checks that nothing in the
package does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

POINTS: Final = (
    "debit.locked",  # the amount is reserved inside the transaction
    "debit.inserted",  # the entry is written, nothing is committed
    "debit.committed",  # durable in the ledger, not yet anchored
    "debit.anchored",  # about to return the receipt
    "seal.locked",
    "seal.inserted",
    "seal.committed",
    "seal.anchored",
    "write-off.locked",
    "write-off.inserted",
    "anchor.written",  # the temporary file is complete, the old mark still stands
    "anchor.renamed",  # the new mark stands, its directory is not yet flushed
)

_hook: Callable[[str], None] | None = None


def reach(name: str) -> None:
    """Tell an armed test that execution got here."""
    if _hook is not None:
        _hook(name)


@contextmanager
def armed(hook: Callable[[str], None]) -> Iterator[None]:
    """Tests only: call `hook` with the name of every point that is reached."""
    global _hook
    before, _hook = _hook, hook
    try:
        yield
    finally:
        _hook = before
