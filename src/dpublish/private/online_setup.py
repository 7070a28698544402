"""The private part of opening an online session, and the wall around everything in a session that sees private numbers."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dpublish.errors import BudgetExceeded, LedgerUnavailable, PrivateSideError, PublishError
from dpublish.ledger.crashpoints import reach
from dpublish.mechanisms.online.base import OnlineMechanism, dense_counts
from dpublish.noise.base import Noise
from dpublish.plan import Plan
from dpublish.private.online_files import SessionFiles
from dpublish.quiet import quiet_native_code

if TYPE_CHECKING:
    from dpublish.ledger.base import Receipt
    from dpublish.readers.sources import Source

T = TypeVar("T")
FORMAT = "dpublish-online"
FORMAT_VERSION = 1
FORESEEN = (BudgetExceeded, LedgerUnavailable, PublishError)
"""Exact types of failures whose texts this package makes from public facts: a session that is used up, a disk that is full."""


def set_up(
    mechanism: OnlineMechanism, plan: Plan, source: Source, noise: Noise, receipt: Receipt, home: Path, seed: int | None
) -> None:
    """Count the rows, draw what a session starts with, and make its folder, which answers nothing before it is sealed."""
    from dpublish.private.answers import answer_need
    from dpublish.private.statement import privacy_statement

    domain = plan.domain
    assert domain is not None

    def begin() -> None:
        key = noise.key(label="rows of a unit")
        numbers = answer_need(mechanism.needs(plan), source, plan.schema, key=key, progress=None)
        counts = dense_counts(numbers.cells, numbers.counts, domain.size)
        opening = mechanism.begin(noise, counts, plan)
        reach("online:ran")
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "session": secrets.token_hex(16),
            "dataset": plan.schema.name,
            "method": plan.method,
            "parameters": dict(plan.parameters),
            "facts": dict(plan.facts),
            "public": dict(opening.public),
            "domain": domain.to_json(),
            "cost": plan.cost.to_json(),
            "cost_text": plan.cost.describe(),
            "sentences": list(plan.sentences),
            "statement": privacy_statement(plan, publishable=noise.publishable),
            "publishable": noise.publishable,
            "seed": seed,
            "created": receipt.created,
            "receipt": receipt.to_json(),
        }
        SessionFiles.create(home, header, counts, opening.threshold)

    guarded(begin)


def guarded(action: Callable[[], T]) -> T:
    """Run something that sees private numbers. Whatever goes wrong in here comes out as one constant text.

    `action` fetches those numbers itself: a traceback keeps the local variables of every frame it passed, so they must live
    only in frames that end before the exception is raised.
    """
    failure: BaseException
    try:
        with warnings.catch_warnings(), quiet_native_code():
            warnings.simplefilter("ignore")
            return action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit) as stop:
        failure = stop.with_traceback(None)
        failure.__cause__ = failure.__context__ = None
    except PublishError as known:
        failure = type(known)(str(known)) if type(known) in FORESEEN else PrivateSideError()
    except BaseException:  # a panic of native code is not an Exception
        failure = PrivateSideError()
    # raised outside the handler, so that neither __cause__ nor __context__ holds an exception that could quote a count
    raise failure
