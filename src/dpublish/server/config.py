"""Every option of the service, from a TOML file and the command line.

An option is a field with its meaning beside it; docs/serve.md lists the same names, and a test
holds one against the other. Nothing is read from anywhere else.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_type_hints
from urllib.parse import urlsplit

from dpublish.errors import InputError, did_you_mean

PORT: Final = 8765


def option(default: Any, meaning: str) -> Any:
    """A field of a table of the configuration file, with what it means."""
    held = "default_factory" if callable(default) else "default"
    return field(**{held: default}, metadata={"meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class Place:
    """Somewhere that rows may come from: a folder of files, or a database with the tables named."""

    folder: Path | None = option(
        None, "Folder whose files may be data sets; links are not followed out of it."
    )
    database: str | None = option(
        None, "Database address; only the tables named below can be read."
    )
    tables: tuple[str, ...] = option((), "Tables of that database that may be data sets.")


@dataclass(frozen=True, kw_only=True)
class Uploads:
    """Whether rows may be sent through the browser at all."""

    allowed: bool = option(False, "Whether files of rows may be uploaded.")
    max_bytes: int = option(50_000_000, "Largest file of rows.")
    keep_days: int = option(1, "Days after which an uploaded file is deleted, used or not.")


@dataclass(frozen=True, kw_only=True)
class Oidc:
    """Log-in through an identity provider. Without `issuer` there are local accounts only."""

    issuer: str | None = option(
        None, "Address of the provider; its /.well-known/openid-configuration is read."
    )
    client_id: str | None = option(None, "What the provider calls this service.")
    client_secret_file: Path | None = option(
        None, "File with the client secret, for its owner alone."
    )
    name: str = option("single sign-on", "What the button says.")
    roles_claim: str | None = option(
        None, "Claim that lists the roles of a person; without it an admin gives them."
    )


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much may be asked, and how often."""

    form_bytes: int = option(1_000_000, "Largest form or JSON body.")
    logins_per_minute: int = option(10, "Attempts to log in, per address and per account name.")
    requests_per_minute: int = option(1200, "Requests behind login, per account.")
    public_per_minute: int = option(0, "Requests to public pages, per address; 0: no limit.")
    session_hours: int = option(12, "Hours after which a person logs in again.")
    idle_minutes: int = option(60, "Minutes without a request after which a person logs in again.")
    token_days: int = option(365, "Days after which an API token ends.")
    jobs: int = option(2, "Private jobs that run at once; others wait.")
    job_minutes: int = option(240, "Minutes after which a job is ended.")


@dataclass(frozen=True, kw_only=True)
class Config:
    """All of it."""

    host: str = option("127.0.0.1", "Address to listen on.")
    port: int = option(PORT, "Port to listen on; 0 takes a free one.")
    state: Path = option(
        Path("~/.local/share/dpublish/office"),
        "Folder of everything the service keeps: tables, ledger, releases, jobs.",
    )
    url: str | None = option(
        None,
        "Address under which people reach the service, such as https://data.example.org; with "
        "https, cookies are marked secure.",
    )
    title: str = option("Data office", "Name of the office, on every page.")
    contact: str | None = option(None, "Who to ask, on every public page.")
    database: str | None = option(
        None, "Address of the service's own tables; without it, SQLite in the state folder."
    )
    ledger: str | None = option(
        None, "Address of the ledger; without it, SQLite in the state folder."
    )
    witness: str | None = option(
        None, "Folder or database that keeps a second anchor of the ledger."
    )
    two_person: bool = option(True, "Whether who proposes a release must not be who approves it.")
    private_examples: bool = option(
        False, "Whether a check of the data may quote cells to the curator."
    )
    signing_key: Path | None = option(
        None, "Key that new releases are signed with (made by 'dpublish key new')."
    )
    proxies: tuple[str, ...] = option(
        (), "Addresses of reverse proxies whose X-Forwarded-For is believed."
    )
    places: Mapping[str, Place] = option(dict, "Where rows may come from, by name.")
    uploads: Uploads = option(Uploads, "Rows sent through the browser.")
    oidc: Oidc = option(Oidc, "Log-in through an identity provider.")
    limits: Limits = option(Limits, "How much may be asked, and how often.")

    @classmethod
    def read(cls, path: Path | None = None, **given: Any) -> Config:
        """The file's options, and over them those of the command line that were given."""
        document: dict[str, Any] = {}
        home = Path.cwd()
        if path is not None:
            home = path.resolve().parent
            try:
                document = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise InputError(f"The configuration '{path}' cannot be read ({error}).") from None
            except tomllib.TOMLDecodeError as error:
                raise InputError(f"The configuration '{path}' is not TOML: {error}") from None
        changed = {name: value for name, value in given.items() if value is not None}
        made: Config = dataclasses.replace(_table(cls, document, "", home), **changed)
        return made._checked()

    def _checked(self) -> Config:
        if not 0 <= self.port <= 65535:
            raise InputError(f"port = {self.port} is not between 0 and 65535.")
        for name, place in self.places.items():
            if not name.isidentifier() or name == "uploads":
                raise InputError(
                    f"[places.{name}]: names are letters, digits and _, and not 'uploads'."
                )
            if (place.folder is None) == (place.database is None):
                raise InputError(f"[places.{name}] needs a folder or a database, one of the two.")
            if place.database is not None and not place.tables:
                raise InputError(f"[places.{name}] must name the tables that may be read.")
        if self.oidc.issuer is not None:
            if self.oidc.client_id is None:
                raise InputError("[oidc] needs client_id beside issuer.")
            parts = urlsplit(self.oidc.issuer)
            if parts.scheme != "https" and not _loopback(parts.hostname or ""):
                raise InputError("[oidc] issuer must begin with https://.")
        if not self.secure and not _loopback(self.host) and self.url is None:
            raise InputError(
                f"host = {self.host} is reached from other machines: give the url = 'https://...' "
                "under which a reverse proxy offers it. Passwords never travel in the clear."
            )
        if self.url is not None and urlsplit(self.url).scheme not in ("http", "https"):
            raise InputError(f"url = '{self.url}' does not begin with http:// or https://.")
        if (
            self.url is not None
            and not self.secure
            and not _loopback(urlsplit(self.url).hostname or "")
        ):
            raise InputError(
                f"url = '{self.url}' must be https://: passwords never travel in the clear."
            )
        return dataclasses.replace(self, state=self.state.expanduser().resolve())

    @property
    def secure(self) -> bool:
        return self.url is not None and self.url.startswith("https://")

    @property
    def database_url(self) -> str:
        return self.database or f"sqlite:///{self.state / 'office.sqlite'}"

    @property
    def ledger_url(self) -> str:
        return self.ledger or f"sqlite:///{self.state / 'office.ledger'}"

    @property
    def hosts(self) -> frozenset[str]:
        """Names that a request may be addressed to; others are refused, as a page elsewhere could
        lead its own name here."""
        named = {self.host, "localhost", "127.0.0.1", "::1"}
        if self.url is not None:
            named.add(urlsplit(self.url).hostname or "")
        return frozenset(named)

    @property
    def all_places(self) -> Mapping[str, Place]:
        """Places of the file, or the folder `data` of the state folder where none is named."""
        return self.places or {"data": Place(folder=self.state / "data")}


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _table(kind: type, document: Mapping[str, Any], where: str, home: Path) -> Any:
    fields = {one.name: one for one in dataclasses.fields(kind)}
    hints = get_type_hints(kind)
    made: dict[str, Any] = {}
    for name, value in document.items():
        label = f"{where}{name}"
        if name not in fields:
            raise InputError(
                f"The configuration has no '{label}'.{did_you_mean(name, fields)} "
                f"Known: {', '.join(fields)}."
            )
        made[name] = _value(hints[name], value, label, home)
    return kind(**made)


def _value(hint: Any, value: Any, label: str, home: Path) -> Any:
    if hint == Mapping[str, Place]:
        if not isinstance(value, dict) or not all(isinstance(one, dict) for one in value.values()):
            raise InputError(f"{label} must be tables: [{label}.NAME].")
        return {name: _table(Place, one, f"{label}.{name}.", home) for name, one in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, dict):
            raise InputError(f"{label} must be a table: [{label}].")
        return _table(hint, value, f"{label}.", home)
    if hint in (Path, Path | None) and isinstance(value, str):
        return home / Path(value).expanduser()
    if (
        (hint in (str, str | None) and isinstance(value, str))
        or (hint is bool and isinstance(value, bool))
        or (hint is int and type(value) is int and value >= 0)
    ):
        return value
    if (
        hint == tuple[str, ...]
        and isinstance(value, list)
        and all(isinstance(one, str) for one in value)
    ):
        return tuple(value)
    words = {
        bool: "true or false",
        int: "a whole number from 0 up",
        tuple[str, ...]: "a list of texts",
    }
    raise InputError(f"{label} must be {words.get(hint, 'text')}, not {str(value)[:60]!r}.")


def options(kind: type = Config, where: str = "") -> dict[str, tuple[str, str]]:
    """Every option by its full name: its default as TOML would have it, and its meaning."""
    found: dict[str, tuple[str, str]] = {}
    hints = get_type_hints(kind)
    for one in dataclasses.fields(kind):
        hint, meaning = hints[one.name], str(one.metadata["meaning"])
        if hint == Mapping[str, Place]:
            found |= options(Place, f"{where}{one.name}.NAME.")
        elif dataclasses.is_dataclass(hint) and isinstance(hint, type):
            found |= options(hint, f"{where}{one.name}.")
        else:
            found[f"{where}{one.name}"] = (_shown(one.default), meaning)
    return found


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(f'"{one}"' for one in value) + "]"
    return str(value) if isinstance(value, int) else f'"{value}"'
