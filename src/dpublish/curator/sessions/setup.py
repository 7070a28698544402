"""The private part of opening an online session."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpublish.curator.guard import guarded
from dpublish.curator.sessions.files import SessionFiles
from dpublish.errors import BudgetExceeded, LedgerUnavailable, PublishError
from dpublish.ledger.crashpoints import reach
from dpublish.methods.online.base import OnlineMechanism, dense_counts
from dpublish.methods.online.state import OnlineSettings
from dpublish.noise.base import Noise
from dpublish.privacy.plan import Plan

if TYPE_CHECKING:
    from dpublish.ledger.base import Receipt
    from dpublish.sources.sources import Source

FORMAT = "dpublish-online"
FORMAT_VERSION = 1
FORESEEN = (BudgetExceeded, LedgerUnavailable, PublishError)
"""Exact types of failures whose texts this package makes from public facts: a session that is used
up, a disk that is full."""


def set_up(
    mechanism: OnlineMechanism,
    plan: Plan[OnlineSettings],
    source: Source,
    noise: Noise,
    receipt: Receipt,
    home: Path,
    seed: int | None,
) -> None:
    """Count the rows, draw what a session starts with, and make its folder, which answers nothing
    before it is sealed."""
    from dpublish.counting.compute import compute
    from dpublish.curator.gate import require_unchanged
    from dpublish.privacy.statement import privacy_statement

    domain = plan.settings.domain

    def begin() -> None:
        # a debit of an earlier version did not draw it
        key = receipt.rows_key or noise.key(label="rows of a unit")
        numbers = compute(mechanism.statistic(plan), source, plan.schema, key=key, progress=None)
        require_unchanged(source)
        if plan.settings.support is None:
            counts = dense_counts(numbers.cells, numbers.counts, domain.size)
        else:
            counts = np.stack(numbers).astype(np.int64)
        opening = mechanism.begin(noise, counts, plan.settings)
        reach("online:ran")
        public = dict(opening.public)
        if plan.schema.neighbours == "replace-one":
            # a noisy number of counted rows may pass the public number of all; limits of answers
            # need not
            for end in ("total_low", "total_high"):
                public[end] = min(public[end], plan.settings.rows)
        header = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "session": secrets.token_hex(16),
            "dataset": plan.schema.name,
            "method": plan.method,
            "parameters": dict(plan.parameters),
            "facts": dict(plan.facts),
            "public": public,
            "domain": domain.to_json(),
            "cost": plan.cost.to_json(),
            "cost_text": plan.cost.describe(),
            "sentences": list(plan.sentences),
            "statement": privacy_statement(
                plan,
                publishable=noise.publishable,
                what="session",
                other_budgets=[other.describe() for other in receipt.other_budgets],
            ),
            "publishable": noise.publishable,
            "seed": seed,
            "created": receipt.created,
            "receipt": receipt.to_json(),
        }
        SessionFiles.create(home, header, counts, opening.threshold)

    guarded(begin, foreseen=FORESEEN)
