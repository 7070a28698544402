"""A durable online session: paid once when it is opened, then asked one query after another, also
after a crash.

    open:  plan -> debit -> count rows -> say in the ledger that noise is drawn -> begin(noise)
           -> write the folder -> seal it in the ledger -> mark it as sealed
    ask:   lock -> note and room on disk -> judge and answer(noise) -> transcript on disk ->
           high-water mark on disk -> show

Nothing is shown before it is on disk, so after kill -9 an answer is either in the transcript, and
given again for its key, or was never seen. The exact counts are taken once, at opening, and kept
beside the transcript for the owner's eyes only: all answers of a session speak of the same rows.
The hypotheses follow from the transcript and are made again from it.

A failure could tell what the reply was: only a hard linear query writes its weights, which may not
fit the disk or the memory. Room for the longest line is therefore taken before noise is drawn, and
whatever happens after that (an error, a full disk, kill -9) the query counts as a hard one. So at
most `max_hard` hard replies are ever drawn, and what anyone sees, failures included, is a function
of replies that the session has paid for.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.catalogue import load, methods
from dpublish.curator.guard import guarded
from dpublish.curator.sessions.answers import (
    LINEAR,
    OnlineAnswer,
    SessionStatus,
    answer_of,
    read_query,
)
from dpublish.curator.sessions.files import SessionFiles, canonical, session_lock
from dpublish.declare.domain import Domain
from dpublish.errors import (
    BudgetError,
    BudgetExceeded,
    InputError,
    LedgerUnavailable,
    PlanError,
    PrivateSideError,
    PublishError,
)
from dpublish.ledger.base import Ledger, Receipt
from dpublish.ledger.crashpoints import reach
from dpublish.methods.online.base import OnlineMechanism, dense_counts
from dpublish.methods.online.joined import method_of
from dpublish.methods.online.state import OnlineSettings, OnlineState, Query, Reply
from dpublish.noise.base import Noise
from dpublish.privacy.plan import Plan
from dpublish.privacy.statement import privacy_statement

if TYPE_CHECKING:
    from dpublish.curator.gate import Curator, Number, Run
    from dpublish.sources.sources import Source

Progress = Callable[[str], None]
_WIDEST = -1.2345678901234567e-300
"""No number is longer in JSON."""
_CHAIN = 256
"""More bytes than a line has besides its entry: two hashes, their names, the end of the line."""


class OnlineSession:
    """An open session. Made by `Curator.answer_online`, or found again by its folder.

    >>> OnlineSession("absent")
    Traceback (most recent call last):
        ...
    dpublish.errors.InputError: 'absent' is not an online session. 'dpublish online open' makes one.
    """

    def __init__(self, folder: str | Path) -> None:
        self._files = SessionFiles(Path(folder))
        header = self._files.header
        self._turn = RLock()
        with session_lock(self._files.lock):
            answered = (
                self._files.new_entries()
            )  # before anything is made of the header: this tells whether it was altered
            self.domain = Domain.from_json(header["domain"])
            self._mechanism = online_class(header["method"])(**header["parameters"])
            self._private = self._files.read_private()
            settings = self._mechanism.settings_type.read(header["facts"], self.domain)
            self._state: OnlineState[Any] = self._mechanism.state(settings, header["public"])
            self._entries: list[dict[str, Any]] = []
            self._closed = False
            self._by_key: dict[str, dict[str, Any]] = {}
            self._follow(answered)

    @property
    def folder(self) -> Path:
        return self._files.folder

    @property
    def header(self) -> Mapping[str, Any]:
        """Public facts of the session: method, settings, promise, receipt."""
        return self._files.header

    def ask(
        self, query: str | Sequence[float] | NDArray[np.float64], *, key: str | None = None
    ) -> OnlineAnswer:
        """Answer one query: a predicate as `estimate` takes it, or one weight from 0 to 1 for every
        cell of the domain.

        The same `key` with the same query gives the same bytes again, whatever happened in between.
        A query that fails after noise was drawn for it counts as a hard one, since the failure may
        have told that it was.
        """
        asked = self._read(query)
        # rows of a support do not tell all predicates apart
        whole = asked.weights.tobytes() + (b"" if asked.holds is None else asked.text.encode())
        asked_digest = hashlib.sha256(whole).hexdigest()
        key = key if key is not None else secrets.token_hex(16)
        if not isinstance(key, str) or not 1 <= len(key) <= 200:
            raise InputError("A key is a text of 1 to 200 characters.")
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
            known = self._by_key.get(key)
            if known is not None:
                if known["query_digest"] != asked_digest:
                    raise BudgetError(
                        f"Key '{key}' belongs to another query of this session. Use a new key."
                    )
                return answer_of(known)
            self._require_open()
            self._require_private()
            number = len(self._entries) + 1
            self._files.begin(number, self._room(number, key, asked, asked_digest))
            reach("online:begun")
            entry = self._reply(number, key, asked, asked_digest)
            reach("online:written")
            self._take_in(entry, asked)
            self._mark()
            reach("online:marked")
            return answer_of(entry)

    def status(self) -> SessionStatus:
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
        header = self._files.header
        state = "closed" if self._closed else "used up" if self._state.halted else "open"
        return SessionStatus(
            dataset=header["dataset"],
            method=header["method"],
            cost=header["cost_text"],
            asked=self._state.asked,
            hard=self._state.hard,
            hard_left=max(0, self._state.max_hard - self._state.hard),
            state=state,
            publishable=header["publishable"],
        )

    def transcript(self) -> list[OnlineAnswer]:
        """Every answer so far, oldest first. Public."""
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
        return [answer_of(entry) for entry in self._entries if "label" in entry]

    def close(self) -> None:
        """End the session for good and delete its private part. What it answered stays readable."""
        with self._turn, session_lock(self._files.lock):
            self._catch_up()
            if not self._closed:
                number = len(self._entries) + 1
                entry = {"number": number, "key": "", "closed": True, "query_digest": ""}
                self._files.begin(number, len(canonical(entry)) + _CHAIN)
                self._files.append(entry)
                self._take_in(entry, None)
                self._mark()
            self._files.delete_private()

    def _read(self, query: str | Sequence[float] | NDArray[np.float64]) -> Query:
        return read_query(query, self.domain, self._state.resolution, self._state.codes)

    def _require_open(self) -> None:
        if self._closed:
            raise BudgetExceeded(
                "This session is closed. Open a new one, which is paid for separately."
            )
        self._state.require_open()

    def _require_private(self) -> tuple[Ints, int]:
        if self._private is None:
            raise LedgerUnavailable(
                f"The private part of '{self.folder}' is gone, so the session cannot go on."
            )
        return self._private

    def _noise(self, number: int) -> Noise:
        from dpublish.curator.gate import make_noise

        seed = self._files.header["seed"]
        return make_noise(None if seed is None else (int(seed) << 32) + number)

    def _reply(self, number: int, key: str, asked: Query, digest: str) -> dict[str, Any]:
        """Judge and answer a query that was begun, and put the reply on disk."""

        def draw() -> dict[str, Any]:
            reply = self._state.answer(self._noise(number), *self._require_private(), asked)
            reach("online:drawn")
            entry = self._entry(number, key, asked, digest, reply)
            self._files.append(entry)
            return entry

        try:
            return guarded(draw, foreseen=FORESEEN)
        except BudgetExceeded:  # decided by public answers, before noise was drawn
            self._files.withdraw()
            raise

    def _room(self, number: int, key: str, asked: Query, digest: str) -> int:
        """How many bytes the longest line takes that a query can lead to, whatever the reply."""
        ends = dict.fromkeys(("value", "standard_error", "low", "high", "level"), _WIDEST)
        reply = Reply(label="hard", noisy=-1 << 63, **ends)
        widest = self._entry(number, key, Query(asked.weights[:0], asked.text), digest, reply)
        weights = (
            asked.weights.size * len(f"{self._state.resolution},") if asked.text == LINEAR else 0
        )
        try:
            return len(canonical(widest)) + weights + _CHAIN
        except UnicodeEncodeError:
            raise InputError(
                "The key or the query holds a character that cannot be written as UTF-8."
            ) from None

    def _entry(
        self, number: int, key: str, asked: Query, digest: str, reply: Reply
    ) -> dict[str, Any]:
        entry = {
            "number": number,
            "key": key,
            "query": asked.text,
            "query_digest": digest,
            **vars(reply),
            "hard_left": max(0, self._state.max_hard - self._state.hard - (reply.label == "hard")),
        }
        if reply.label == "hard" and asked.text == LINEAR:
            entry["weights"] = asked.weights.tolist()  # the hypotheses are made again from it
        return entry

    def _catch_up(self) -> None:
        """Take in what is on disk and not yet here: what other processes have asked."""
        self._follow(self._files.new_entries())

    def _follow(self, entries: Sequence[dict[str, Any]]) -> None:
        for entry in entries:
            query = None
            if entry.get("label") == "hard":
                query = (
                    Query(np.array(entry["weights"], dtype=np.int64), LINEAR)
                    if "weights" in entry
                    else self._read(entry["query"])
                )
            self._take_in(entry, query)
        self._mark()

    def _take_in(self, entry: dict[str, Any], query: Query | None) -> None:
        self._entries.append(entry)
        if entry.get("closed"):
            self._closed = True
            return
        if entry.get("lost"):
            # nobody can say what was drawn, so it is paid for as the dearest reply
            self._state.asked += 1
            self._state.hard += 1
            return
        self._by_key[entry["key"]] = entry
        reply = Reply(**{name: entry[name] for name in Reply.__dataclass_fields__})
        self._state.learn(query or Query(np.empty(0, dtype=np.int64), entry["query"]), reply)

    def _mark(self) -> None:
        self._files.mark(len(self._entries))


def open_session(
    curator: Curator,
    mechanism: OnlineMechanism,
    *,
    epsilon: Number | None,
    key: str | None,
    folder: str | Path | None,
    again: bool,
    seed: int | None,
    progress: Progress | None,
) -> OnlineSession:
    """Pay for a session and set it up; with a key that was paid before, find that session again."""
    if not isinstance(mechanism, OnlineMechanism):
        raise PlanError(
            "A session is opened with an online method, such as MedianMechanism() or "
            f"OnlineMultiplicativeWeights(), not with {type(mechanism).__name__}. Nothing was "
            "spent."
        )
    say = progress or (lambda step: None)
    curator.schema.require_final()
    say("planning")
    source = curator._open_source()
    with source.pinned():  # the units that are counted, and the rows, are those that were there now
        home = _opened(
            curator, source, mechanism, epsilon, key, folder, again=again, seed=seed, say=say
        )
    return OnlineSession(home)


def _opened(
    curator: Curator,
    source: Source,
    mechanism: OnlineMechanism,
    epsilon: Number | None,
    key: str | None,
    folder: str | Path | None,
    *,
    again: bool,
    seed: int | None,
    say: Progress,
) -> Path:
    """The folder of the session that was paid for, sealed."""
    from dpublish.counting.ruled import require_rules
    from dpublish.curator.expressible import require_readable
    from dpublish.curator.gate import as_cost, make_noise, request_of, telling, unit_columns
    from dpublish.curator.store import prepare_folders, require_own
    from dpublish.curator.warm import warm

    schema = curator._sized_schema(source)
    plan = mechanism.plan(schema, as_cost(epsilon, None, None))
    require_pure(plan)
    domain = plan.settings.domain
    source.require([*unit_columns(schema), *domain.names], schema_name=schema.name)
    require_readable(None, source, schema, domain)
    require_rules(source, schema)
    key = key if key is not None else secrets.token_hex(16)
    home = (
        Path(folder)
        if folder is not None
        else curator._store / f"online-{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    )
    prepare_folders(home.absolute().parent, None, shared=home.name if folder is not None else None)
    if home.exists() and SessionFiles(home).header["receipt"]["key"] != key:
        raise InputError(
            f"'{home}' holds another session. Choose another folder. Nothing was spent."
        )
    require_own(curator.ledger, key, home)

    if plan.settings.joined is not None:
        joined = method_of(domain.names, mechanism.bins)
        warm(joined, plan.settings.joined, source, say=say)
    say("debiting the ledger")
    noise = make_noise(seed)
    receipt = curator.ledger.debit(
        key,
        plan.cost,
        {**request_of(plan, seed), "online": True},
        rows_key=noise.key(label="rows of a unit"),
        again=again or seed is not None,
    )
    reach("online:debited")
    opening = session_lock(home.absolute().with_name(f".{home.name}.opening"))
    with telling(receipt) as run, opening:
        sealed = curator.ledger.answer(key)
        if sealed is None:
            # what was set up and not sealed is the one draw of this debit; a set-up that ended
            # before it drew may be made again
            if not home.exists():
                if not receipt.fresh:
                    _require_undrawn(curator.ledger, receipt)
                    curator.ledger.run_again(key)
                say("reading rows")
                set_up(mechanism, plan, source, noise, curator.ledger, receipt, run, home, seed)
                reach("online:ready")
            files = SessionFiles(home)
            if files.header["receipt"]["head_hash"] != receipt.head_hash:
                raise BudgetError(
                    f"'{home}' was not made by the debit of key '{key}'. Use a new key and "
                    f"another folder."
                )
            files.require_own()
            digest = _seal(curator.ledger, key, files)
        else:
            digest = sealed.sha256
        found = SessionFiles(home) if home.exists() else None
        if found is None or found.digest != digest:
            if (
                found is not None
                and found.never_sealed
                and found.header["receipt"]["head_hash"] == receipt.head_hash
            ):
                found.discard()  # another set-up of this key was sealed, so this one never will be
            raise BudgetError(
                f"Key '{key}' was paid for on {receipt.created}, but its session is not at "
                f"'{home}'. It is not made again: its "
                "answers and its secret threshold are part of the guarantee. Put the folder back, "
                "or use a new key."
            )
        found.confirm()
        reach("online:confirmed")
    return home


def _require_undrawn(ledger: Ledger, receipt: Receipt) -> None:
    """Refuse to set up again what drew noise, or failed once rows were read: a second draw would be
    one that nobody paid for."""
    if any(entry.kind == "drawing" and entry.key == receipt.key for entry in ledger.history()):
        raise BudgetError(
            f"Key '{receipt.key}' was paid for on {receipt.created}, and setting its session up "
            "drew noise, or failed after rows were read. It is not made again for this payment: "
            "open it at the folder where it was set up, if it is there, or use a new key."
        )


def require_pure(plan: Plan) -> None:
    """Other releases and sessions run beside a session. That their costs add up is proved for pure
    ones (cost.proof.md)."""
    if plan.cost.kind != "pure":
        raise PlanError(
            f"A session of {plan.method} would cost {plan.cost.describe()}, and sessions are paid "
            f"with a pure epsilon alone, "
            "since others may run at the same time. Give epsilon = ... and leave delta and rho "
            "out. Nothing was spent."
        )


def _seal(ledger: Ledger, key: str, files: SessionFiles) -> str:
    """The digest of the one session of a key: this one, or one that was set up elsewhere and sealed
    first."""
    try:
        ledger.seal(key, sha256=files.digest, size=files.header_size, location=files.folder.name)
    except LedgerUnavailable:
        raise
    except BudgetError:
        first = ledger.answer(key)
        if first is None:
            raise
        return first.sha256
    reach("online:sealed")
    return files.digest


def online_class(name: str) -> type[OnlineMechanism]:
    """The class of an online method by its name."""
    known = methods("online")
    if name not in known:
        raise InputError(
            f"The online method '{name}' is not known to this version of dpublish. Known: "
            f"{', '.join(known)}."
        )
    return cast(type[OnlineMechanism], load(known[name].mechanism))


# The private part of opening an online session.

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
    ledger: Ledger,
    receipt: Receipt,
    run: Run,
    home: Path,
    seed: int | None,
) -> None:
    """Count the rows, say in the ledger that noise is drawn, draw what a session starts with, and
    make its folder, which answers nothing before it is sealed. One set-up of a key draws, and what
    ends after that, however it ends, is not made again. Room for the folder is tried before; a
    failure of the private side closes the key."""
    from dpublish.counting.compute import compute
    from dpublish.curator.gate import require_unchanged

    domain = plan.settings.domain

    def begin() -> bool:
        assert receipt.rows_key is not None
        SessionFiles.try_room(home, _bytes_of(plan))
        numbers = compute(
            mechanism.statistic(plan), source, plan.schema, key=receipt.rows_key, progress=None
        )
        require_unchanged(source)
        counts = (
            dense_counts(numbers.cells, numbers.counts, domain.size)
            if plan.settings.support is None
            else np.stack(numbers).astype(np.int64)
        )
        reach("online:counted")
        # said first: a run that is interrupted while the entry is written may have written it
        run.drew = True
        if not ledger.drawing(receipt.key):
            run.drew = False
            return False
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
        return True

    try:
        drew = guarded(begin, foreseen=FORESEEN)
    except PrivateSideError:
        with suppress(LedgerUnavailable):
            ledger.failed(receipt.key)
        raise
    if not drew:
        raise BudgetError(
            f"Another run draws the noise of key '{receipt.key}' at this moment, or was stopped "
            "while it did. Open it again as that run did, or use a new key."
        )


def _bytes_of(plan: Plan[OnlineSettings]) -> int:
    """About what the folder takes, by public facts: counts or codes, and a noisy synopsis."""
    settings = plan.settings
    numbers = settings.domain.size
    if settings.support is not None:
        numbers = len(settings.domain.axes) * (settings.rows + settings.support)
    return 32 * numbers + (1 << 16)
