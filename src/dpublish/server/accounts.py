"""People of the office: accounts, passwords, one-time links, API tokens, sessions.

Secrets are kept as hashes: passwords with argon2, random secrets with SHA-256, which is enough for
what nobody can guess. A session's cookie is signed with the office's own key, and bound to the
browser that it was given to.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from sqlalchemy import Connection, insert

from dpublish.errors import InputError
from dpublish.owned import owned_folder, replace_owned
from dpublish.server.store import (
    ACCOUNTS,
    LINKS,
    LOGINS,
    TOKENS,
    Row,
    Store,
    later,
    now,
    record,
    set_rows,
)

TOKEN_PREFIX: Final = "dpo_"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")
_SHORTEST_PASSWORD: Final = 12


class Role(StrEnum):
    curator = "curator"
    approver = "approver"
    auditor = "auditor"
    researcher = "researcher"
    admin = "admin"


@dataclass(frozen=True, kw_only=True)
class Actor:
    """Who asks. `via`: a browser's session, an API token, or the program itself."""

    account: str
    name: str
    shown: str
    roles: frozenset[Role]
    via: Literal["session", "token", "program"]
    form_key: str = ""
    """What a form of this session must carry."""
    login: str = ""
    """The hash of the session, to end it by."""

    @property
    def may_decide(self) -> bool:
        return Role.approver in self.roles

    def may(self, roles: Iterable[Role]) -> bool:
        return not self.roles.isdisjoint(roles)


def hashed(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def read_roles(text: str) -> frozenset[Role]:
    return frozenset(Role(word) for word in text.split() if word in Role.__members__)


def write_roles(roles: Iterable[Role]) -> str:
    return " ".join(sorted(set(roles)))


def office_key(state: Path) -> bytes:
    """The key that sessions are signed with; made once, for its owner alone."""
    path = state / "office.key"
    if not path.exists():
        owned_folder(state)
        replace_owned(path, secrets.token_bytes(32))
    return path.read_bytes()


class Accounts:
    def __init__(
        self,
        store: Store,
        key: bytes,
        *,
        session_hours: int = 12,
        idle_minutes: int = 60,
        token_days: int = 365,
    ) -> None:
        self.store, self._key = store, key
        self._hours, self._idle, self._days = session_hours, idle_minutes, token_days

    # -- people

    def all(self) -> list[Row]:
        return sorted(self.store.rows(ACCOUNTS), key=lambda row: row["name"])

    def find(self, name: str) -> Row | None:
        return self.store.one(ACCOUNTS, name=name.strip().lower())

    def add(
        self,
        name: str,
        roles: Iterable[Role],
        *,
        by: str,
        shown: str = "",
        password: str | None = None,
        subject: str | None = None,
    ) -> Row:
        """A new account. Without a password it is entered by a link, or through the provider."""
        name = name.strip().lower()
        if not _NAME.fullmatch(name):
            raise InputError("An account name has letters, digits and . _ @ - (at most 64).")
        if self.find(name) is not None:
            raise InputError(f"There is an account '{name}' already.")
        row = {
            "id": secrets.token_hex(8),
            "name": name,
            "shown": shown.strip()[:80] or name,
            "password": None if password is None else _password_hash(password),
            "subject": subject,
            "roles": write_roles(roles),
            "active": True,
            "created": now(),
        }
        self.store.add(
            ACCOUNTS, row, by=by, action="account added", subject=name, roles=row["roles"]
        )
        return row

    def change(
        self,
        account: str,
        *,
        by: str,
        roles: Iterable[Role] | None = None,
        active: bool | None = None,
    ) -> None:
        """Other roles, or no entry any more. Its sessions end either way."""
        row = self.store.known(ACCOUNTS, "account", id=account)
        given = {"roles": None if roles is None else write_roles(roles), "active": active}
        values = {name: value for name, value in given.items() if value is not None}
        with self.store.change() as connection:
            set_rows(connection, ACCOUNTS, {"id": account}, values)
            _end_entries(connection, account, links=active is False)
            record(connection, actor=by, action="account changed", subject=row["name"], **values)

    def set_password(self, account: str, password: str, *, by: str) -> None:
        """A new password ends every session of the account, and links that nobody has used."""
        if self.store.known(ACCOUNTS, "account", id=account)["subject"] is not None:
            raise InputError(
                "This account is the identity provider's: whom that lets in no longer must not "
                "have another way in. It has no password here."
            )
        values = {"password": _password_hash(password)}
        with self.store.change() as connection:
            set_rows(connection, ACCOUNTS, {"id": account}, values)
            _end_entries(connection, account, links=True)
            record(connection, actor=by, action="password set", subject=by)

    def check_password(self, name: str, password: str) -> Row | None:
        """The account, if the password is its own. Takes as long for names that nobody has."""
        row = self.store.one(ACCOUNTS, name=name.strip().lower(), active=True, subject=None)
        known = None if row is None else row["password"]
        right = _password_right(known or _NOBODYS, password)
        return row if right and known is not None else None

    # -- one-time links

    def new_link(self, account: str, *, by: str, hours: float = 24) -> str:
        """A secret that lets a person in once."""
        secret = secrets.token_urlsafe(32)
        self.store.add(
            LINKS,
            {"hash": hashed(secret), "account": account, "expires": later(hours=hours)},
            by=by,
            action="link made",
            subject=account,
        )
        return secret

    def use_link(self, secret: str) -> Row | None:
        """The account of a link, which is used up by asking."""
        row = self.store.one(LINKS, hash=hashed(secret))
        if row is None or row["used"] is not None or row["expires"] < now():
            return None
        if not self.store.set(LINKS, {"hash": row["hash"], "used": None}, {"used": now()}):
            return None
        return self.store.one(ACCOUNTS, id=row["account"], active=True)

    # -- API tokens

    def new_token(self, account: str, name: str, roles: Iterable[Role], *, by: str) -> str:
        """An API token, shown this once. It may what its roles may, while its account has them."""
        held = self.store.known(ACCOUNTS, "account", id=account)
        given = write_roles(frozenset(roles) & read_roles(held["roles"]))
        if not given:
            raise InputError("A token needs at least one role that its account has.")
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        self.store.add(
            TOKENS,
            {
                "id": secrets.token_hex(8),
                "account": account,
                "name": name.strip()[:80] or "token",
                "hash": hashed(token),
                "roles": given,
                "created": now(),
                "expires": later(days=self._days),
            },
            by=by,
            action="token made",
            subject=name,
            roles=given,
        )
        return token

    def tokens(self, account: str) -> list[Row]:
        return self.store.rows(TOKENS, newest="created", account=account)

    def end_token(self, token: str, *, account: str, by: str) -> None:
        if self.store.set(
            TOKENS, {"id": token, "account": account, "ended": None}, {"ended": now()}
        ):
            self.store.did(by, "token ended", token)

    def by_token(self, token: str) -> Actor | None:
        if not token.startswith(TOKEN_PREFIX):
            return None
        row = self.store.one(TOKENS, hash=hashed(token))
        if row is None or row["ended"] is not None or row["expires"] < now():
            return None
        account = self.store.one(ACCOUNTS, id=row["account"], active=True)
        if account is None:
            return None
        return Actor(
            account=account["id"],
            name=account["name"],
            shown=account["shown"],
            roles=read_roles(row["roles"]) & read_roles(account["roles"]),
            via="token",
        )

    # -- sessions

    def log_in(self, account: Row, browser: str, *, how: str) -> str:
        """The cookie of a new session."""
        secret = secrets.token_urlsafe(32)
        with self.store.change() as connection:
            connection.execute(LOGINS.delete().where(LOGINS.c.expires < now()))
            connection.execute(
                insert(LOGINS).values(
                    hash=hashed(secret),
                    account=account["id"],
                    bound=self._signed("browser", browser),
                    created=now(),
                    seen=now(),
                    expires=later(hours=self._hours),
                )
            )
            record(
                connection,
                actor=account["name"],
                action="logged in",
                subject=account["name"],
                how=how,
            )
        return f"{secret}.{self._signed('session', secret)}"

    def by_cookie(self, cookie: str, browser: str) -> Actor | None:
        """Who a session is of; None when it is forged, ended, idle for too long, or another
        browser's."""
        secret, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signed("session", secret).encode()):
            return None
        row = self.store.one(LOGINS, hash=hashed(secret))
        if row is None or row["expires"] < now() or row["seen"] < later(minutes=-self._idle):
            return None
        if not hmac.compare_digest(row["bound"], self._signed("browser", browser)):
            return None
        account = self.store.one(ACCOUNTS, id=row["account"], active=True)
        if account is None:
            return None
        if row["seen"] < later(minutes=-1):
            self.store.set(LOGINS, {"hash": row["hash"]}, {"seen": now()})
        return Actor(
            account=account["id"],
            name=account["name"],
            shown=account["shown"],
            roles=read_roles(account["roles"]),
            via="session",
            form_key=self._signed("form", secret),
            login=row["hash"],
        )

    def log_out(self, actor: Actor) -> None:
        with self.store.change() as connection:
            connection.execute(LOGINS.delete().where(LOGINS.c.hash == actor.login))
            record(connection, actor=actor.name, action="logged out", subject=actor.name)

    def sealed(self, what: str, text: str) -> str:
        """Text that a browser may hold for a while, signed."""
        held = base64.urlsafe_b64encode(text.encode()).decode()
        return f"{held}.{self._signed(what, held)}"

    def unsealed(self, what: str, given: str) -> str | None:
        held, _, signature = given.partition(".")
        if not hmac.compare_digest(signature.encode(), self._signed(what, held).encode()):
            return None
        return base64.urlsafe_b64decode(held).decode()

    def _signed(self, what: str, text: str) -> str:
        return hmac.new(self._key, f"{what}:{text}".encode(), hashlib.sha256).hexdigest()


def _end_entries(connection: Connection, account: str, *, links: bool) -> None:
    """End the sessions of an account and, where asked for, links that would let somebody in."""
    connection.execute(LOGINS.delete().where(LOGINS.c.account == account))
    if links:
        connection.execute(LINKS.delete().where(LINKS.c.account == account, LINKS.c.used.is_(None)))


def _password_hash(password: str) -> str:
    from argon2 import PasswordHasher

    if len(password) < _SHORTEST_PASSWORD:
        raise InputError(f"A password has at least {_SHORTEST_PASSWORD} characters.")
    if len(password) > 1000:
        raise InputError("A password has at most 1,000 characters.")
    return PasswordHasher().hash(password)


def _password_right(known: str, given: str) -> bool:
    from argon2 import PasswordHasher
    from argon2.exceptions import Argon2Error, InvalidHashError

    try:
        return PasswordHasher().verify(known, given[:1000])
    except (Argon2Error, InvalidHashError):
        return False


_NOBODYS: Final = (
    "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$"
    "rLFhqcVjRK3rQf0YSoQUSJCfyD5tmXSRlJMrjvW7t9Q"
)
"""Checked when there is no such account, so that time does not tell."""
