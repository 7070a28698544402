"""What can be asked of a query desk that answers one question at a time."""

from __future__ import annotations

import abc
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dpublish.errors import InputError
from dpublish.ledger.state import remember
from dpublish.methods.registry import method_from_settings
from dpublish.requests.base import NOBODY, Caller, Request, read_schema
from dpublish.requests.curator import Paid, source_of

if TYPE_CHECKING:
    from dpublish.curator.sessions.answers import OnlineAnswer, SessionStatus
    from dpublish.curator.sessions.session import OnlineSession
    from dpublish.privacy.plan import Plan as Priced


@dataclass(frozen=True, kw_only=True)
class SessionShown:
    """A session as it stands, what it promised, and what the ledger had to say when it was
    opened."""

    session: Path
    status: SessionStatus
    header: Mapping[str, Any]
    news: tuple[str, ...] = ()

    @classmethod
    def of(cls, session: OnlineSession, news: Sequence[str] = ()) -> SessionShown:
        return cls(
            session=session.folder, status=session.status(), header=session.header, news=tuple(news)
        )

    @property
    def promise(self) -> tuple[list[str], list[str]]:
        """What the plan said about the answers of this session, and what it held beside that: other
        ways, and theory."""
        sentences = self.header["sentences"]
        easy = (i for i, sentence in enumerate(sentences) if sentence.startswith("An easy answer"))
        start = next(easy, 0)
        hard = [sentence for sentence in sentences[:start] if "hard answers" in sentence]
        return [*sentences[start : start + 1], *hard], list(sentences[start + 1 :])

    def to_json(self) -> Mapping[str, Any]:
        promise, compared = self.promise
        return {
            "session": self.session,
            **self.status.to_json(),
            "receipt": self.header["receipt"],
            "promise": promise,
            "compared_with": compared,
            "plan": self.header["sentences"],
            "statement": self.header["statement"],
            "news": list(self.news),
        }


@dataclass(frozen=True, kw_only=True)
class PlanSession(Request, verb="online plan"):
    """What a session would promise, from the schema alone."""

    schema: Path
    epsilon: str | None = None
    method: str = "median-mechanism"
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self, caller: Caller = NOBODY) -> Priced:
        from dpublish.curator.gate import as_cost

        method = method_from_settings(self.method, self.settings, "online")
        return cast(
            "Priced", method.plan(read_schema(self.schema), as_cost(self.epsilon, None, None))
        )


@dataclass(frozen=True, kw_only=True)
class OpenSession(Paid, verb="online open"):
    """Pay for a session, count the rows once, and make the folder that `Ask` reads."""

    data: str
    session: Path
    schema: Path
    epsilon: str | None = None
    method: str = "median-mechanism"
    settings: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None

    def run(self, caller: Caller = NOBODY) -> SessionShown:
        from dpublish.curator.gate import Curator

        mechanism = method_from_settings(self.method, self.settings, "online")
        source = source_of(self.data, self.database)
        allowance = self.allowance()
        if self.database is None:
            remember(self.data)
        with caller.private() as progress:
            facts = read_schema(self.schema)
            facts.require_final()  # before a ledger is made
            with self.opened(allowance, caller) as account:
                opened = Curator(
                    source, facts, ledger=account, store=self.session.absolute().parent
                ).answer_online(
                    mechanism,
                    epsilon=self.epsilon,
                    key=self.key,
                    folder=self.session,
                    again=self.again,
                    progress=progress,
                )
        return SessionShown.of(opened, account.news)


def opened_session(folder: Path) -> OnlineSession:
    from dpublish.curator.sessions.session import OnlineSession

    return OnlineSession(folder)


@dataclass(frozen=True, kw_only=True)
class OfSession(Request):
    """Asks one session. `answer` takes it already open, as a server keeps it."""

    session: Path

    def run(self, caller: Caller = NOBODY) -> Any:
        return self.answer(opened_session(self.session))

    @abc.abstractmethod
    def answer(self, opened: OnlineSession) -> Any:
        """What the open session says."""


@dataclass(frozen=True, kw_only=True)
class Ask(OfSession, verb="online ask"):
    """One query: a condition, or a file with one weight per cell."""

    query: str | None = None
    weights: Path | None = None
    key: str | None = None

    def answer(self, opened: OnlineSession) -> OnlineAnswer:
        if (self.query is None) == (self.weights is None):
            raise InputError("Give a QUERY, or --weights FILE, and not both.")
        asked: Any = self.query if self.weights is None else _read_weights(self.weights)
        return opened.ask(asked, key=self.key)


@dataclass(frozen=True, kw_only=True)
class SessionState(OfSession, verb="online status"):
    """How many queries were asked, and how many hard answers are left."""

    def answer(self, opened: OnlineSession) -> SessionShown:
        return SessionShown.of(opened)


@dataclass(frozen=True, kw_only=True)
class CloseSession(OfSession, verb="online close"):
    """End a session for good and delete its private part. Its answers stay readable."""

    def answer(self, opened: OnlineSession) -> SessionShown:
        opened.close()
        return SessionShown.of(opened)


def _read_weights(path: Path) -> list[float]:
    try:
        weights = json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise InputError(f"'{path}' cannot be read as a JSON list of weights.") from None
    if not isinstance(weights, list) or not all(isinstance(item, int | float) for item in weights):
        raise InputError(f"'{path}' must hold one JSON list of numbers between 0 and 1.")
    return [float(item) for item in weights]
