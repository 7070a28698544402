"""Made-up sessions for the online mechanisms: an analyst whose next question depends on the answers so far.

A real plan refuses data of two rows, since nothing useful can be promised for them. The tiers that call a mechanism therefore
use public facts made by hand, of the smallest session that still has easy and hard answers. The twin run has a real plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dpublish.audit import neighbours
from dpublish.audit.trials.made_up import LEDGER, csv, schema_text
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial, Twin
from dpublish.cost import Cost
from dpublish.errors import BudgetExceeded
from dpublish.mechanisms.online.base import OnlineMechanism, Query
from dpublish.noise.base import Noise
from dpublish.plan import Plan
from dpublish.schema import Schema

CELLS = 3
FILE = "rows.csv"
FACTS: Mapping[str, Any] = {
    "accounting": "sparse-vector",
    "rows": 2,
    "max_rows_per_unit": 1,
    "resolution": 1,
    "level": 0.95,
    "max_queries": 10,
    "stops_after_max_queries": False,
    "count_epsilon": "0",
    "max_hard": 1,
    "check_epsilon": "3/4",
    "hard_answer_epsilon": "1/4",
    "check_sensitivity": 1,
    "threshold": 1,
}
COLUMN = '[columns.v]\nkind = "integer"\nlower = 0\nupper = 7\nbins = 8\noutside = "clip"\n'
ROWS = 2000


def median_mechanism() -> Iterator[Trial]:
    from dpublish.mechanisms.online.median import MedianMechanism

    mechanism = MedianMechanism(hypotheses="listed", database_size=2, resolution=1, grid=2, max_hard=1)
    facts = {**FACTS, "grid": 2, "reach": 1, "hypotheses": "listed", "database_size": 2}
    yield _trial("median-mechanism", mechanism, facts)


def online_multiplicative_weights() -> Iterator[Trial]:
    from dpublish.mechanisms.online.multiplicative_weights import OnlineMultiplicativeWeights

    yield _trial("online-multiplicative-weights", OnlineMultiplicativeWeights(resolution=1, max_hard=1), FACTS)


def _trial(method: str, mechanism: OnlineMechanism, facts: Mapping[str, Any]) -> Trial:
    text = schema_text("replace-one", COLUMN, size=2)
    plan = Plan(method=method, kind="online", schema=Schema.from_toml(text), cost=Cost.pure(1), facts=dict(facts))
    pairs = [(_counts(one), _counts(other)) for one, other in neighbours.replace_one(range(CELLS), rows=2)]
    return Trial(
        method=method,
        case="replace-one",
        neighbours="replace-one",
        claim=plan.cost,
        call=Conversation(mechanism, plan),
        pairs=pairs,
        exact=Exact(window=(-2, 3), pairs=4),
        # sparse vector costs less than the sum of its draws
        replay=Replay(adds_up=False, runs=8),
        sampled=Sampled(runs=2000),
        twin=_twin(method),
    )


class Conversation:
    """(noise, counts) -> all that an analyst sees of a session of up to three questions."""

    def __init__(
        self, mechanism: OnlineMechanism, plan: Plan, choose: Callable[[list[str]], Sequence[int] | None] | None = None
    ):
        self.name = plan.method
        self._mechanism, self._plan = mechanism, plan
        self._choose = choose or _next_question

    def __call__(self, noise: Noise, counts: tuple[int, ...]) -> tuple[tuple[str, int | None], ...]:
        exact = np.array(counts, dtype=np.int64)
        opening = self._mechanism.begin(noise, exact, self._plan)
        desk = self._mechanism.desk(self._plan.facts, opening.public, len(counts))
        seen: list[tuple[str, int | None]] = []
        while (flags := self._choose([label for label, _ in seen])) is not None:
            query = Query(np.array(flags, dtype=np.int64) * desk.resolution, "q")
            try:
                reply = desk.answer(noise, exact, opening.threshold, query)
            except BudgetExceeded:
                seen.append(("halted", None))
                break
            desk.learn(query, reply)
            seen.append((reply.label, reply.noisy if reply.label == "hard" else round(reply.value * 1000)))
        return tuple(seen)


def _next_question(labels: list[str]) -> Sequence[int] | None:
    if not labels:
        return (1, 0, 0)
    if len(labels) == 1:
        return (1, 1, 0) if labels[0] == "easy" else (0, 1, 0)
    return None


def _counts(rows: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.bincount(np.array(rows, dtype=np.int64), minlength=CELLS).tolist())


def _twin(method: str) -> Twin:
    """A session over two thousand rows: opened, asked, looked at, closed.

    session.json holds a digest of the private file, blinded by 256 random bits that never leave it; with entropy frozen the
    blind is the same and the digest is not. The transcript is chained to it. What both say is printed as JSON, and compared.
    """
    text = schema_text("replace-one", COLUMN, size=ROWS)
    settings = ["--set", "max_hard=3", "--set", "max_queries=20"]
    opening = ["online", "open", FILE, "desk", "--schema", "tiny.toml", "--method", method, "--epsilon", "4", *settings]
    commands = [[*opening, *LEDGER, "--budget", "4", "--key", "twin"]]
    for number, question in enumerate(("v = 0", "v < 4", "v >= 6")):
        commands.append(["online", "ask", "desk", question, "--key", f"question {number}", "--json"])
    commands += [["online", "status", "desk", "--json"], ["online", "close", "desk"]]
    rows = [str(place % 3) for place in range(ROWS)]
    inputs = csv("v", rows), csv("v", ["7", *rows[1:]])
    private = ("desk/private.bin", "desk/session.json", "desk/transcript.jsonl")
    return Twin(commands=commands, name=FILE, public={"tiny.toml": text.encode()}, inputs=inputs, private=private)
