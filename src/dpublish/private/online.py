"""A durable online session: paid once when it is opened, then asked one query after another, also after a crash.

    open:  plan -> debit -> count rows -> begin(noise) -> write the folder -> seal it in the ledger
    ask:   lock -> judge and answer(noise) -> transcript on disk -> high-water mark on disk -> show

Nothing is shown before it is on disk, so after kill -9 an answer is either in the transcript, and given again for its key, or
was never seen. The exact counts are taken once, at opening, and kept beside the transcript for the owner's eyes only: all
answers of a session speak of the same rows. The hypotheses follow from the transcript and are made again from it.
"""

from __future__ import annotations

import hashlib
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import (
    BudgetError,
    BudgetExceeded,
    InputError,
    LedgerUnavailable,
    PrivateSideError,
    SchemaError,
)
from dpublish.ledger.crashpoints import reach
from dpublish.mechanisms.online.base import Desk, OnlineMechanism, Query, Reply, dense_counts
from dpublish.noise.base import IntArray, Noise
from dpublish.plan import Plan
from dpublish.private.online_files import SessionFiles, canonical, session_lock
from dpublish.private.online_queries import LINEAR, read_query
from dpublish.public.estimation import Estimate
from dpublish.quiet import quiet_native_code

if TYPE_CHECKING:
    from dpublish.ledger.base import Receipt
    from dpublish.private.gate import Curator, Number
    from dpublish.readers.sources import Source

T = TypeVar("T")
Progress = Callable[[str], None]
FORMAT = "dpublish-online"
FORMAT_VERSION = 1
METHODS: Mapping[str, str] = {
    "median-mechanism": "dpublish.mechanisms.online.median:MedianMechanism",
    "online-multiplicative-weights": "dpublish.mechanisms.online.multiplicative_weights:OnlineMultiplicativeWeights",
}


@dataclass(frozen=True, kw_only=True)
class OnlineAnswer:
    """One answer of a session. `estimate` is in rows; `label` says whether the data was asked ("hard") or not ("easy")."""

    number: int
    key: str
    query: str
    label: str
    estimate: Estimate
    hard_left: int

    def __str__(self) -> str:
        return f"{self.estimate} [{self.label}; {self.hard_left} hard answers left]"

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "key": self.key,
            "query": self.query,
            "label": self.label,
            "estimate": self.estimate.to_json(),
            "hard_left": self.hard_left,
        }

    def to_bytes(self) -> bytes:
        """The answer as it is handed out: the same bytes whenever the same key is asked again."""
        return canonical(self.to_json())


@dataclass(frozen=True, kw_only=True)
class SessionStatus:
    dataset: str
    method: str
    cost: str
    asked: int
    hard: int
    hard_left: int
    state: str
    publishable: bool

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))


class OnlineSession:
    """An open query desk. Made by `Curator.answer_online`, or found again by its folder."""

    def __init__(self, folder: str | Path) -> None:
        self._files = SessionFiles(Path(folder))
        header = self._files.header
        self.domain = Domain.from_json(header["domain"])
        self._mechanism = online_class(header["method"])(**header["parameters"])
        self._turn = RLock()
        with session_lock(self._files.lock):
            self._private = self._files.read_private()
            self._desk: Desk = self._mechanism.desk(header["facts"], header["public"], self.domain.size)
            self._entries: list[dict[str, Any]] = []
            self._by_key: dict[str, dict[str, Any]] = {}
            self._catch_up()

    @property
    def folder(self) -> Path:
        return self._files.folder

    @property
    def header(self) -> Mapping[str, Any]:
        """Public facts of the session: method, settings, promise, receipt."""
        return self._files.header

    def ask(self, query: str | Sequence[float] | NDArray[np.float64], *, key: str | None = None) -> OnlineAnswer:
        """Answer one query: a predicate as `estimate` takes it, or one weight from 0 to 1 for every cell of the domain.

        The same `key` with the same query gives the same bytes again, whatever happened in between.
        """
        asked = read_query(query, self.domain, self._desk.resolution)
        asked_digest = hashlib.sha256(asked.weights.tobytes()).hexdigest()
        key = key if key is not None else secrets.token_hex(16)
        if not isinstance(key, str) or not 1 <= len(key) <= 200:
            raise InputError("A key is a text of 1 to 200 characters.")
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
            known = self._by_key.get(key)
            if known is not None:
                if known["query_digest"] != asked_digest:
                    raise BudgetError(f"Key '{key}' belongs to another query of this session. Use a new key.")
                return _answer(known)
            self._require_open()
            number = len(self._entries) + 1
            noise, (counts, threshold) = self._noise(number), self._require_private()
            reply = guarded(lambda: self._desk.answer(noise, counts, threshold, asked))
            reach("online:drawn")
            entry = self._entry(number, key, asked, asked_digest, reply)
            self._files.append(entry)
            reach("online:written")
            self._take_in(entry, asked)
            self._mark()
            reach("online:marked")
            return _answer(entry)

    def status(self) -> SessionStatus:
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
        header = self._files.header
        state = "closed" if self._closed else "used up" if self._desk.halted else "open"
        return SessionStatus(
            dataset=header["dataset"],
            method=header["method"],
            cost=header["cost_text"],
            asked=self._desk.asked,
            hard=self._desk.hard,
            hard_left=self._desk.max_hard - self._desk.hard,
            state=state,
            publishable=header["publishable"],
        )

    def transcript(self) -> list[OnlineAnswer]:
        """Every answer so far, oldest first. Public."""
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
        return [_answer(entry) for entry in self._entries if "label" in entry]

    def close(self) -> None:
        """End the session for good and delete its private part. What it answered stays readable."""
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
            if not self._closed:
                entry = {"number": len(self._entries) + 1, "key": "", "closed": True, "query_digest": ""}
                self._files.append(entry)
                self._take_in(entry, None)
                self._mark()
            self._files.delete_private()

    @property
    def _closed(self) -> bool:
        return bool(self._entries and self._entries[-1].get("closed"))

    def _require_open(self) -> None:
        if self._closed:
            raise BudgetExceeded("This session is closed. Open a new one, which is paid for separately.")
        self._desk.require_open()

    def _require_private(self) -> tuple[IntArray, int]:
        if self._private is None:
            raise LedgerUnavailable(f"The private part of '{self.folder}' is gone, so the session cannot go on.")
        return self._private

    def _noise(self, number: int) -> Noise:
        from dpublish.private.gate import make_noise

        seed = self._files.header["seed"]
        return make_noise(None if seed is None else (int(seed) << 32) + number)

    def _entry(self, number: int, key: str, asked: Query, digest: str, reply: Reply) -> dict[str, Any]:
        entry = {
            "number": number,
            "key": key,
            "query": asked.text,
            "query_digest": digest,
            **vars(reply),
            "hard_left": self._desk.max_hard - self._desk.hard - (reply.label == "hard"),
        }
        if reply.label == "hard" and asked.text == LINEAR:
            entry["weights"] = asked.weights.tolist()  # the hypotheses are made again from it
        return entry

    def _catch_up(self) -> None:
        """Take in what is on disk and not yet here: all of it after a restart, or what other processes have asked."""
        for entry in self._files.new_entries():
            query = None
            if entry.get("label") == "hard":
                if "weights" in entry:
                    query = Query(np.array(entry["weights"], dtype=np.int64), LINEAR)
                else:
                    query = read_query(entry["query"], self.domain, self._desk.resolution)
            self._take_in(entry, query)
        self._mark()

    def _take_in(self, entry: dict[str, Any], query: Query | None) -> None:
        self._entries.append(entry)
        if "label" not in entry:
            return
        self._by_key[entry["key"]] = entry
        reply = Reply(**{name: entry[name] for name in Reply.__dataclass_fields__})
        self._desk.learn(query or Query(np.empty(0, dtype=np.int64), entry["query"]), reply)

    def _mark(self) -> None:
        self._files.mark(len(self._entries))


def open_session(
    curator: Curator,
    mechanism: OnlineMechanism,
    *,
    epsilon: Number | None,
    key: str | None,
    folder: str | Path | None,
    seed: int | None,
    progress: Progress | None,
) -> OnlineSession:
    """Pay for a session and set it up; with a key that was paid before, find that session again."""
    from dpublish.private.gate import as_cost, make_noise, prepare_folders, request_of, unit_columns

    say = progress or (lambda step: None)
    if curator.schema.draft:
        raise SchemaError(
            f"Schema '{curator.schema.name}' still carries the [draft] stamp: its levels and bounds were read off the rows. "
            "Replace them by what you know without looking at the data, then delete the [draft] table."
        )
    say("planning")
    source = curator._open_source()
    schema = curator._sized_schema(source)
    plan = mechanism.plan(schema, as_cost(epsilon, None, None))
    assert plan.domain is not None
    source.require([*unit_columns(schema), *plan.domain.names], schema_name=schema.name)
    key = key if key is not None else secrets.token_hex(16)
    home = Path(folder) if folder is not None else curator._store / f"online-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    prepare_folders(home.absolute().parent, None)
    if home.exists() and SessionFiles(home).header["receipt"]["key"] != key:
        raise InputError(f"'{home}' holds another session. Choose another folder. Nothing was spent.")

    say("debiting the ledger")
    receipt = curator.ledger.debit(key, plan.cost, {**request_of(plan, seed), "online": True})
    reach("online:debited")
    with session_lock(home.absolute().with_name(f".{home.name}.opening")):
        sealed = curator.ledger.answer(key)
        if sealed is None:
            # no answer can have been shown before the seal, so a set-up cut short by a crash may be made again
            if not home.exists():
                say("reading rows")
                _set_up(mechanism, plan, source, make_noise(seed), receipt, home, seed)
                reach("online:ready")
            files = SessionFiles(home)
            if files.header["receipt"]["head_hash"] != receipt.head_hash:
                raise BudgetError(f"'{home}' was not made by the debit of key '{key}'. Use a new key and another folder.")
            files.mark(0)
            curator.ledger.seal(key, sha256=files.digest, size=files.header_size, location=home.name)
            reach("online:sealed")
        elif not home.exists() or SessionFiles(home).digest != sealed.sha256:
            raise BudgetError(
                f"Key '{key}' was paid for on {receipt.created}, but its session is not at '{home}'. It is not made again: its "
                "answers and its secret threshold are part of the guarantee. Put the folder back, or use a new key."
            )
    return OnlineSession(home)


def _set_up(
    mechanism: OnlineMechanism, plan: Plan, source: Source, noise: Noise, receipt: Receipt, home: Path, seed: int | None
) -> None:
    from dpublish.private.answers import answer_need
    from dpublish.private.statement import privacy_statement

    domain = plan.domain
    assert domain is not None

    def begin() -> tuple[IntArray, Mapping[str, Any], int]:
        key = noise.key(label="rows of a unit")
        numbers = answer_need(mechanism.needs(plan), source, plan.schema, key=key, progress=None)
        counts = dense_counts(numbers.cells, numbers.counts, domain.size)
        opening = mechanism.begin(noise, counts, plan)
        return counts, opening.public, opening.threshold

    counts, public, threshold = guarded(begin)
    reach("online:ran")
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "session": secrets.token_hex(16),
        "dataset": plan.schema.name,
        "method": plan.method,
        "parameters": dict(plan.parameters),
        "facts": dict(plan.facts),
        "public": dict(public),
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
    SessionFiles.create(home, header, counts, threshold)


def guarded(action: Callable[[], T]) -> T:
    """Run something that sees private numbers. Whatever goes wrong in here comes out as one constant text."""
    failure: PrivateSideError | BudgetExceeded
    try:
        with warnings.catch_warnings(), quiet_native_code():
            warnings.simplefilter("ignore")
            return action()
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BudgetExceeded as used_up:  # decided by public answers, before private numbers are looked at
        failure = BudgetExceeded(str(used_up))
    except BaseException:
        failure = PrivateSideError()
    # raised outside the handler, so that neither __cause__ nor __context__ holds an exception that could quote a count
    raise failure


def online_class(name: str) -> type[OnlineMechanism]:
    """The class of an online method by its name."""
    from importlib import import_module

    home = METHODS.get(name)
    if home is None:
        raise InputError(f"The online method '{name}' is not known to this version of dpublish. Known: {', '.join(METHODS)}.")
    module, _, attribute = home.partition(":")
    return cast(type[OnlineMechanism], getattr(import_module(module), attribute))


def _answer(entry: Mapping[str, Any]) -> OnlineAnswer:
    return OnlineAnswer(
        number=entry["number"],
        key=entry["key"],
        query=entry["query"],
        label=entry["label"],
        estimate=Estimate(**{name: entry[name] for name in ("value", "standard_error", "low", "high", "level")}),
        hard_left=entry["hard_left"],
    )
