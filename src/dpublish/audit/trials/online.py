"""Made-up sessions for the online mechanisms: an analyst whose next question depends on the answers
so far.

A real plan refuses data of two rows, since nothing useful can be promised for them. The tiers that
call a mechanism therefore use public facts made by hand, of the smallest session that still has
easy and hard answers. The twin run has a real plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dpublish.arrays import Ints
from dpublish.audit.neighbours import row_pairs, rows_of, unit_pairs
from dpublish.audit.trials.synthetic_inputs import (
    LEDGER,
    UNIT,
    csv,
    schema_text,
    under_both,
    unit_lines,
)
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial, Twin
from dpublish.declare.schema import Schema
from dpublish.errors import BudgetExceeded
from dpublish.methods.online.base import OnlineMechanism
from dpublish.methods.online.joined import plan_of
from dpublish.methods.online.state import OnlineState, Query
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

CELLS = 3
FILE = "rows.csv"
COLUMN = '[columns.v]\nkind = "integer"\nlower = 0\nupper = 7\nbins = 8\noutside = "clip"\n'
SMALL = '[columns.v]\nkind = "integer"\nlower = 0\nupper = 2\nbins = 3\noutside = "clip"\n'
BOTH = "".join(f'[columns.{name}]\nkind = "boolean"\noutside = "drop"\n' for name in ("a", "b"))
ROWS = 2000
TINY: Mapping[str, Any] = {
    "domain_size": CELLS,
    "rows": 2,
    "max_rows_per_unit": 1,
    "sensitivity": Fraction(1),
    "resolution": 1,
    "level": 0.95,
    "max_queries": 10,
    "max_hard": 1,
    "count_epsilon": Fraction(0),
    "check_epsilon": Fraction(3, 4),
    "hard_answer_epsilon": Fraction(1, 4),
    "hard_answer_scale": 4.0,
    "check_sensitivity": 1,
    "threshold": 1,
}
# a noisy total takes a part of the claim where the number of rows is private
ADDED: Mapping[str, Any] = {
    **TINY,
    "count_epsilon": Fraction(1, 4),
    "check_epsilon": Fraction(1, 2),
}
SEVERAL: Mapping[str, Any] = {**ADDED, "max_rows_per_unit": 2, "check_sensitivity": 2}
# two comparisons and one hard answer, which add up to the claim
THESIS: Mapping[str, Any] = {
    **TINY,
    "accounting": "thesis",
    "max_queries": 2,
    "stops_after_max_queries": True,
    "check_epsilon": Fraction(1, 4),
    "hard_answer_epsilon": Fraction(1, 2),
    "gamma_grid": 1,
    "threshold_steps": 1,
}
ALIKE = "the same program as with hard answers; what it shows is in the other tiers"
FEW = (
    "the thesis's parameters ask for more rows than a made-up file can have; they are refused "
    "before anything is read"
)


def median_mechanism() -> Iterator[Trial]:
    from dpublish.methods.online.median.mechanism import MedianMechanism

    method = "median-mechanism"
    small: dict[str, Any] = {
        "hypotheses": "listed",
        "database_size": 2,
        "resolution": 1,
        "grid": 2,
        "max_hard": 1,
    }
    mechanism, thesis = MedianMechanism(**small), MedianMechanism(**small, accounting="thesis")
    more = {"grid": 2, "reach": 1, "hypotheses": "listed", "database_size": 2}
    yield _trial(method, mechanism, {**TINY, **more})
    yield _trial(method, mechanism, {**ADDED, **more}, relation="add-remove-one")
    yield _trial(method, thesis, {**THESIS, **more}, case="accounting of the thesis", twin=FEW)


def _synopsis(settings: Mapping[str, Any], moves: int) -> dict[str, Any]:
    """All of epsilon on the noisy histogram: no comparison, no hard answer."""
    return {
        **settings,
        "check_epsilon": Fraction(0),
        "count_epsilon": Fraction(0),
        "max_hard": 0,
        "synopsis_epsilon": Fraction(1),
        "synopsis_scale": Fraction(moves),
        "total_is_public": moves == 2,
    }


def online_multiplicative_weights() -> list[Trial]:
    from dpublish.methods.online.multiplicative_weights.mechanism import OnlineMultiplicativeWeights

    made = partial(OnlineMultiplicativeWeights, resolution=1, max_hard=1)
    method = OnlineMultiplicativeWeights.method
    trial, added = partial(_trial, method, made()), "add-remove-one"
    return [
        trial(TINY),
        trial(ADDED, relation=added),
        trial(_synopsis(TINY, 2), case="synopsis", twin=ALIKE),
        trial(_synopsis(ADDED, 1), relation=added, case="synopsis", twin=ALIKE),
        trial(SEVERAL, relation=added, case="several rows a person", per_unit=2),
        *under_both(partial(_joined_trial, method, made(synopsis="joined"))),
    ]


def _joined_trial(method: str, mechanism: OnlineMechanism, relation: str) -> Trial:
    """Half of the claim on joined histograms of two columns, the rest on comparisons and one hard
    answer."""
    schema = Schema.from_toml(schema_text(relation, BOTH, size=2))
    bought = plan_of(schema, Fraction(1), ("a", "b"), None, 2)
    given = TINY if relation == "replace-one" else ADDED
    domain = bought.settings.fine
    spent = {"domain_size": domain.size, "support": 16, "synopsis_epsilon": Fraction(1)}
    made = mechanism.settings_type(domain=domain, joined=bought, **{**given, **spent})
    plan = Plan(method=method, kind="online", schema=schema, cost=Cost.pure(2), settings=made)
    return Trial(
        method=method,
        case=f"{relation}, joined synopsis",
        neighbours=relation,
        claim=plan.cost,
        call=WideConversation(mechanism, plan),
        pairs=list(row_pairs(relation, range(4), rows=2)),
        exact="the draws of joined histograms and of a session together are too many to list; "
        "each has its own exact trial",
        replay=Replay(adds_up=False, runs=4, pairs=12),
        sampled=Sampled(runs=400, pairs=3),
        twin=_twin(method, relation, 1, "--set", "synopsis=joined"),
    )


def _trial(
    method: str,
    mechanism: OnlineMechanism,
    settings: Mapping[str, Any],
    *,
    relation: str = "replace-one",
    case: str = "",
    per_unit: int = 1,
    twin: str | None = None,
) -> Trial:
    unit = unit_lines(per_unit)
    schema = Schema.from_toml(schema_text(relation, SMALL, size=2, extra=unit))
    made = mechanism.settings_type(domain=schema.domain(("v",), rows=2), **settings)
    plan = Plan(method=method, kind="online", schema=schema, cost=Cost.pure(1), settings=made)
    pairs = row_pairs(relation, range(CELLS), rows=2)
    if per_unit > 1:
        units = unit_pairs(relation, range(CELLS), units=2, max_rows_per_unit=per_unit)
        pairs = ((rows_of(one), rows_of(other)) for one, other in units)
    return Trial(
        method=method,
        case=f"{relation}, {case}" if case else relation,
        neighbours=relation,
        claim=plan.cost,
        call=Conversation(mechanism, plan),
        pairs=[(_counts(one), _counts(other)) for one, other in pairs],
        exact=Exact(window=(-2, 3), pairs=4),
        # sparse vector costs less than the sum of its draws
        replay=Replay(adds_up=False, runs=8),
        sampled=Sampled(runs=2000),
        twin=twin or _twin(method, relation, per_unit),
    )


class Conversation:
    """(noise, counts) -> all that an analyst sees of a session of up to three questions."""

    def __init__(
        self,
        mechanism: OnlineMechanism,
        plan: Plan,
        choose: Callable[[list[str]], Sequence[int] | None] | None = None,
    ):
        self.name = plan.method
        self._mechanism, self.plan = mechanism, plan
        self._choose = choose or _next_question

    def exact(self, counts: tuple[int, ...]) -> Ints:
        return np.array(counts, dtype=np.int64)

    def query(self, flags: Sequence[int], state: OnlineState[Any]) -> Query:
        return Query(np.array(flags, dtype=np.int64) * state.resolution, "q")

    def __call__(self, noise: Noise, counts: tuple[int, ...]) -> tuple[tuple[str, int | None], ...]:
        exact = self.exact(counts)
        settings = self.plan.settings
        opening = self._mechanism.begin(noise, exact, settings)
        state = self._mechanism.state(settings, opening.public)
        seen: list[tuple[str, int | None]] = []
        while (flags := self._choose([label for label, _ in seen])) is not None:
            query = self.query(flags, state)
            try:
                reply = state.answer(noise, exact, opening.threshold, query)
            except BudgetExceeded:
                seen.append(("halted", None))
                break
            state.learn(query, reply)
            seen.append(
                (reply.label, reply.noisy if reply.label == "hard" else round(reply.value * 1000))
            )
        return tuple(seen)


class WideConversation(Conversation):
    """The same of a session that stands on a support: rows are codes of two columns, and questions
    name the columns."""

    def exact(self, counts: tuple[int, ...]) -> Ints:
        rows = np.array(counts, dtype=np.int64)
        return np.stack([rows // 2, rows % 2])

    def query(self, flags: Sequence[int], state: OnlineState[Any]) -> Query:
        def holds(rows: Ints) -> Ints:
            found = np.any([rows[place] == 1 for place in range(2) if flags[place]], axis=0)
            return np.asarray(found, dtype=np.int64)

        assert state.codes is not None
        return Query(holds(state.codes) * state.resolution, "q", holds)


def _next_question(labels: list[str]) -> Sequence[int] | None:
    if not labels:
        return (1, 0, 0)
    if len(labels) == 1:
        return (1, 1, 0) if labels[0] == "easy" else (0, 1, 0)
    return None


def _counts(rows: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.bincount(np.array(rows, dtype=np.int64), minlength=CELLS).tolist())


def _twin(method: str, relation: str, per_unit: int, *more: str) -> Twin:
    """A session over two thousand rows: opened, asked, looked at, closed.

    session.json holds a digest of the private file, blinded by 256 random bits that never leave it;
    with entropy frozen the blind is the same and the digest is not. The transcript is chained to
    it. What both say is printed as JSON, and compared.
    """
    text = schema_text(relation, COLUMN, size=ROWS // per_unit, extra=unit_lines(per_unit))
    settings = ["--set", "max_hard=3", "--set", "max_queries=20", *more]
    opening = ["online", "open", FILE, "desk", "--schema", "tiny.toml", "--method", method]
    asking = [
        ["online", "ask", "desk", question, "--key", f"question {number}", "--json"]
        for number, question in enumerate(("v = 0", "v < 4", "v >= 6"))
    ]
    values = [str(place % 3) for place in range(ROWS)]
    if relation == "replace-one":
        other = _file(["7"] * per_unit + values[per_unit:], per_unit)
    else:
        other = _file(values[per_unit:], per_unit, first=1)
    return Twin(
        commands=[
            [*opening, "--epsilon", "4", *settings, *LEDGER, "--budget", "4", "--key", "twin"],
            *asking,
            ["online", "status", "desk", "--json"],
            ["online", "close", "desk"],
        ],
        name=FILE,
        public={"tiny.toml": text.encode()},
        inputs=(_file(values, per_unit), other),
        private=("desk/private.bin", "desk/session.json", "desk/transcript.jsonl"),
    )


def _file(values: Sequence[str], per_unit: int, *, first: int = 0) -> bytes:
    """Rows of people who have `per_unit` each, numbered from `first`."""
    if per_unit == 1:
        return csv("v", values)
    return csv(
        f"{UNIT},v", (f"{first + place // per_unit},{value}" for place, value in enumerate(values))
    )
