"""What a curator can ask: methods, plans, releases, and the key that vouches for them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpublish.catalogue import ALIASES, Door, load, methods
from dpublish.curator.other_people import require_other_people
from dpublish.errors import InputError, PlanError, did_you_mean
from dpublish.ledger import open_ledger
from dpublish.ledger.payment import payment_problems, seal_problems
from dpublish.ledger.state import remember
from dpublish.methods.registry import MethodHelp, describe, method_from_settings
from dpublish.outputs import keep_apart
from dpublish.privacy.cost import Budget
from dpublish.requests.analyst import Verdict, Verify
from dpublish.requests.base import NOBODY, Caller, Request, read_schema

if TYPE_CHECKING:
    from dpublish.ledger.base import Ledger, Status
    from dpublish.releases.base import Release as Opened
    from dpublish.releases.bundle.signatures import Signature
    from dpublish.releases.bundle.signing_key import SigningKey

DOORS: tuple[Door, ...] = ("release", "online", "solve")
"""Where methods that read a curator's rows are called."""


def allowance_of(budget: str | None, delta: str | None = None) -> Budget | None:
    """What a ledger that does not exist yet is made with."""
    if budget is None:
        if delta is not None:
            raise InputError("--budget-delta goes with --budget, which makes the ledger.")
        return None
    return Budget(epsilon=budget, delta=delta or "0")


def source_of(data: str, database: str | None, spark: str | None = None) -> object:
    """What the private side opens: a path, a query with the database it runs in, or a table of a
    cluster."""
    if data.startswith("spark:"):
        from dpublish.sources.spark import SparkSource

        return SparkSource(data.removeprefix("spark:"), spark or "local[*]")
    if spark is not None:
        raise InputError("--spark goes with DATA of the form 'spark:TABLE' or 'spark:PATH'.")
    if not data.startswith("sql:"):
        if database is not None:
            raise InputError(
                "--database goes with DATA of the form 'sql:QUERY', for example 'sql:select * "
                "from visits'."
            )
        return data
    if database is None:
        raise InputError("DATA is a query, so --database URL must say where to run it.")
    from dpublish.sources.sources import SqlSource

    return SqlSource(database, data.removeprefix("sql:"))


def numbers_of(**given: str | None) -> dict[str, Any]:
    """The amounts that were given, under the names that the Python interface uses."""
    return {name: text for name, text in given.items() if text is not None}


def store_of(ledger: str, name: str = "default") -> Path:
    """Keys are unique within a named ledger, so each name has a folder of its own."""
    from dpublish.curator.store import default_store

    store = default_store(ledger)
    return store if name == "default" else store / hashlib.sha256(name.encode()).hexdigest()[:16]


def unlocked(path: Path, caller: Caller) -> SigningKey:
    """The key in a file, with its passphrase from the caller."""
    from dpublish.releases.bundle.signing_key import SigningKey

    return SigningKey.read(path, passphrase=lambda: caller.passphrase(fresh=False))


def not_signed(made: Opened, key: SigningKey | None, out: Path) -> list[str]:
    """What to say when a release was to be signed with a key and is not, since it was made
    before."""
    if key is None or any(one.public_key == key.public_key for one in made.signatures):
        return []
    return [
        f"It is not signed with the key of {key.describe()}: it was made before, and one request "
        "key gives the same "
        f"bytes. 'dpublish key sign {out}' adds the signature."
    ]


@dataclass(frozen=True, kw_only=True)
class MethodList:
    by_door: Mapping[Door, Sequence[MethodHelp]]

    def to_json(self) -> Mapping[str, Any]:
        return {
            door: [method.to_json() for method in found] for door, found in self.by_door.items()
        }


@dataclass(frozen=True, kw_only=True)
class Methods(Request, verb="methods"):
    """What there is to publish with, or one method with all its settings, in its own words."""

    name: str | None = None

    def run(self, caller: Caller = NOBODY) -> MethodList | MethodHelp:
        if self.name is not None:
            return _described(self.name)
        return MethodList(
            by_door={door: [_described(name) for name in methods(door)] for door in DOORS}
        )


@dataclass(frozen=True, kw_only=True)
class Warmed:
    """What became of each method."""

    methods: Mapping[str, str]

    def to_json(self) -> Mapping[str, Any]:
        return {"methods": dict(self.methods)}


@dataclass(frozen=True, kw_only=True)
class Warm(Request, verb="warm"):
    """Compile now what releases run. Reads no data and spends nothing."""

    methods: tuple[str, ...] = ()

    def run(self, caller: Caller = NOBODY) -> Warmed:
        from dpublish.curator.warm import warm_methods

        return Warmed(methods=warm_methods(self.methods))


def _described(name: str) -> MethodHelp:
    known = methods(*DOORS)
    name = ALIASES.get(name, name)
    if name not in known:
        lists = " ".join(f"Methods of '{door}': {', '.join(methods(door))}." for door in DOORS)
        raise PlanError(
            f"There is no method '{name}'.{did_you_mean(name, known)} {lists} "
            "'dpublish local' has randomisers of its own."
        )
    return describe(name, load(known[name].mechanism))


@dataclass(frozen=True, kw_only=True)
class Released:
    """A release that was made, and what is left of the budget."""

    out: Path
    release: Opened
    left: Status
    account: tuple[str, ...]
    """What the ledger had to say."""
    unsigned: tuple[str, ...]

    @property
    def signatures(self) -> list[dict[str, str]]:
        return [one.facts() for one in self.release.signatures]

    def to_json(self) -> Mapping[str, Any]:
        manifest = self.release.manifest
        return {
            "out": self.out,
            "dataset": manifest["dataset"],
            "method": manifest["method"],
            "cost": manifest["privacy"]["cost"],
            "publishable": manifest["publishable"],
            "receipt": manifest["receipt"],
            "signatures": self.signatures,
            "budget": {
                name: getattr(self.left, name).to_json() for name in ("cap", "spent", "remaining")
            },
            "warnings": list(manifest["plan"].get("warnings", ())),
            "news": [*self.account, *self.unsigned],
        }


@dataclass(frozen=True, kw_only=True)
class Paid(Request):
    """What is paid from a ledger. A `budget` makes the ledger where there is none."""

    ledger: str
    budget: str | None = None
    second_budget: bool = False
    key: str | None = None
    name: str = "default"
    again: bool = False

    def allowance(self) -> Budget | None:
        """What a ledger that does not exist yet is made with."""
        return allowance_of(self.budget)

    def opened(self, allowance: Budget | None, caller: Caller) -> Ledger:
        return open_ledger(
            self.ledger,
            budget=allowance,
            name=self.name,
            create=allowance is not None,
            second_budget=self.second_budget,
            actor=caller.actor,
        )


@dataclass(frozen=True, kw_only=True)
class PaidFile(Paid):
    """What is paid for and written to a file."""

    out: Path
    delta: str | None = None
    budget_delta: str | None = None
    overwrite: bool = False

    def allowance(self) -> Budget | None:
        return allowance_of(self.budget, self.budget_delta)


@dataclass(frozen=True, kw_only=True)
class Release(PaidFile, verb="release"):
    """Check the request, debit the ledger, read the rows, add noise, write the release."""

    data: str
    schema: Path
    epsilon: str | None = None
    rho: str | None = None
    method: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    database: str | None = None
    spark: str | None = None
    store: Path | None = None
    sign_with: Path | None = None

    def run(self, caller: Caller = NOBODY) -> Released:
        from dpublish.curator.gate import Curator
        from dpublish.requests.plans import method_for

        elsewhere = self.database is not None or self.data.startswith("spark:")
        file = None if elsewhere else self.data
        keep_apart(self.out, self.schema, file, self.ledger.removeprefix("sqlite:///"))
        facts = read_schema(self.schema)
        facts.require_final()  # before a ledger is made
        mechanism = method_from_settings(method_for(self.method, facts), self.settings)
        require_other_people(mechanism, file)
        source = source_of(self.data, self.database, self.spark)
        allowance = self.allowance()
        key = None if self.sign_with is None else unlocked(self.sign_with, caller)
        if file is not None:
            remember(file)
        with caller.private() as progress, self.opened(allowance, caller) as account:
            curator = Curator(
                source,
                facts,
                ledger=account,
                store=self.store or store_of(self.ledger, account.name),
                signing_key=key,
            )
            made = curator.publish(
                mechanism,
                **numbers_of(epsilon=self.epsilon, delta=self.delta, rho=self.rho),
                key=self.key,
                out=self.out,
                overwrite=self.overwrite,
                again=self.again,
                progress=progress,
            )
            left = account.status()
        return Released(
            out=self.out,
            release=made,
            left=left,
            account=tuple(account.news),
            unsigned=tuple(not_signed(made, key, self.out)),
        )


@dataclass(frozen=True, kw_only=True)
class KeyFacts:
    """The public half of a signing key."""

    name: str
    fingerprint: str
    public_key: str

    @classmethod
    def of(cls, key: SigningKey) -> KeyFacts:
        return cls(name=key.name, fingerprint=key.fingerprint, public_key=key.public_line())

    def to_json(self) -> Mapping[str, Any]:
        return {"name": self.name, "fingerprint": self.fingerprint, "public_key": self.public_key}


@dataclass(frozen=True, kw_only=True)
class NewKey(Request, verb="key new"):
    """Make a key that only its owner can read; its public half goes beside it."""

    path: Path
    name: str
    passphrase: bool = False

    def run(self, caller: Caller = NOBODY) -> KeyFacts:
        from dpublish.releases.bundle.signing_key import SigningKey

        key = SigningKey.new(self.name)
        key.save(self.path, passphrase=caller.passphrase(fresh=True) if self.passphrase else None)
        return KeyFacts.of(key)


@dataclass(frozen=True, kw_only=True)
class ShowKey(Request, verb="key show"):
    """The public half of a key and its fingerprint."""

    path: Path

    def run(self, caller: Caller = NOBODY) -> KeyFacts:
        return KeyFacts.of(unlocked(self.path, caller))


@dataclass(frozen=True, kw_only=True)
class Signed:
    release: Path
    signatures: Sequence[Signature]

    def to_json(self) -> Mapping[str, Any]:
        return {"release": self.release, "signatures": [one.facts() for one in self.signatures]}


@dataclass(frozen=True, kw_only=True)
class Sign(Request, verb="key sign"):
    """Sign a release that was published before. Its content, its manifest and its payment stay as
    they are."""

    release: Path
    sign_with: Path

    def run(self, caller: Caller = NOBODY) -> Signed:
        from dpublish.releases.bundle.bundle import add_signature

        sign = unlocked(self.sign_with, caller).sign
        return Signed(release=self.release, signatures=add_signature(self.release, sign))


@dataclass(frozen=True, kw_only=True)
class VerifyPaid(Verify, verb="verify --ledger"):
    """As an analyst's `verify`, and whether a ledger paid for the release."""

    ledger: str
    name: str = "default"

    def run(self, caller: Caller = NOBODY) -> Verdict:
        verdict = super().run(caller)
        if verdict.problems:
            return verdict
        problems = self._unpaid(caller)
        return replace(verdict, problems=tuple(problems), paid=not problems)

    def _unpaid(self, caller: Caller) -> list[str]:
        """Hold the release against the ledger's own, verified, history."""
        from dpublish.releases.bundle.bundle import read_bundle

        bundle = read_bundle(self.release)
        with open_ledger(self.ledger, name=self.name, actor=caller.actor) as ledger:
            problems = payment_problems(ledger, bundle.manifest)
            if problems:
                return problems
            sealed = ledger.answer(bundle.manifest["receipt"]["key"])
        problems = seal_problems(
            sealed, bundle.manifest_sha256, lambda: bundle.archive_sha256(signed=False)
        )
        if not problems and bundle.padded:
            return [
                "The file holds more than the release that was paid for: bytes that belong to "
                "none of its parts."
            ]
        return problems
