"""An office that runs elsewhere, with the objects of local use: `connect(url, token=...)`.

Published releases are fetched and opened here, so that everything a release can be asked is asked
without the office, for ever. A curator's releases are proposed there, and made there once somebody
has agreed; rows never travel. Only the standard library is needed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import secrets
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dpublish.errors import BundleError, InputError, PublishError, error_named
from dpublish.estimate import Estimate

if TYPE_CHECKING:
    from dpublish.releases.base import Release

_PAUSE: Final = 0.25
_NUMBERS: Final = ("value", "standard_error", "low", "high", "level")


def connect(url: str, *, token: str | None = None, timeout: float = 60.0) -> Office:
    """The office at an address such as https://data.example.org. Published releases need no token.

    >>> connect("ftp://data.example.org")
    Traceback (most recent call last):
        ...
    dpublish.errors.InputError: An office has an address that begins with https:// or http://, not 'ftp://data.example.org'.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(
            f"An office has an address that begins with https:// or http://, not '{url[:200]}'."
        )
    here = parts.hostname in ("127.0.0.1", "localhost", "::1")
    if token is not None and parts.scheme == "http" and not here:
        raise InputError("A token travels over https:// only, unless to this very machine.")
    return Office(url.rstrip("/"), token, timeout)


class Office:
    """An open connection. Made by `connect`."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        self.url = url
        self._token, self._timeout = token, timeout

    def releases(self) -> list[dict[str, Any]]:
        """What is published there."""
        return list(self._json("GET", "/api/releases")["releases"])

    def open_release(self, name: str, *, out: str | Path | None = None) -> Release:
        """Fetch a published release, check its hash, and open it. `out` keeps the file."""
        known = next((one for one in self.releases() if one["name"] == name), None)
        if known is None:
            raise InputError(f"There is no published release '{name}' at {self.url}.")
        file = next(one for one in known["files"] if one["name"] == f"{name}.dpr")
        content = self._bytes("GET", f"/releases/{_part(name)}/{_part(name)}.dpr")
        if hashlib.sha256(content).hexdigest() != file["sha256"]:
            raise BundleError(f"What was fetched of '{name}' is not what the catalogue lists.")
        return _opened(content, name, out)

    def estimate(self, release: str, condition: str, *, level: float = 0.95) -> Estimate:
        """One answer of a published release, worked out there."""
        found = self._json(
            "POST",
            f"/api/releases/{_part(release)}/query",
            {"conditions": [condition], "level": level},
        )
        return _estimate(found["estimates"][0])

    def sql(self, release: str, select: str, *, level: float | None = 0.95) -> Any:
        """A SELECT over the rows of a published release, as a polars frame."""
        import polars as pl

        found = self._json(
            "POST", f"/api/releases/{_part(release)}/sql", {"select": select, "level": level}
        )
        return pl.DataFrame(found["rows"], schema=found["columns"], orient="row")

    def curator(self, dataset: str) -> RemoteCurator:
        """The curator's side of one data set of the office."""
        return RemoteCurator(self, dataset)

    def online(self, desk: str) -> RemoteSession:
        """A query desk at which the caller has a seat."""
        return RemoteSession(self, desk)

    def _json(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        return dict(json.loads(self._bytes(method, path, body)))

    def _bytes(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> bytes:
        headers = {"accept": "application/json", "user-agent": "dpublish"}
        if self._token is not None and path.startswith("/api/"):
            headers["authorization"] = f"Bearer {self._token}"
        data = None
        if method != "GET":
            data = json.dumps(body or {}).encode()
            headers["content-type"] = "application/json"
        asked = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with _OPENER.open(asked, timeout=self._timeout) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise _said(error) from None
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise PublishError(
                f"The office at {self.url} cannot be reached ({reason}). Ask again with the same "
                "key: nothing is paid twice."
            ) from None


class RemoteCurator:
    """As `Curator`, for rows that stay in the office."""

    def __init__(self, office: Office, dataset: str) -> None:
        self._office, self.dataset = office, dataset

    def plan(self, mechanism: Any, **amounts: Any) -> dict[str, Any]:
        """What a release would cost and promise."""
        body = {**_asked(mechanism), **_amounts(amounts)}
        return self._office._json("POST", f"/api/datasets/{_part(self.dataset)}/plan", body)

    def propose(self, mechanism: Any, *, key: str, title: str = "", **amounts: Any) -> str:
        """Ask for a release named `key`; the id of the proposal, the same one for the same key."""
        body = {
            "dataset": self.dataset,
            "release": key,
            "title": title,
            **_asked(mechanism),
            **_amounts(amounts),
        }
        return str(self._office._json("POST", "/api/proposals", body)["id"])

    def publish(
        self,
        mechanism: Any,
        *,
        key: str,
        title: str = "",
        out: str | Path | None = None,
        wait: float = 600.0,
        **amounts: Any,
    ) -> Release:
        """Propose a release, wait until it was approved and made, and fetch it.

        Calling again with the same `key` goes on waiting, and pays nothing more.
        """
        proposal = self.propose(mechanism, key=key, title=title, **amounts)
        latest = time.monotonic() + wait
        while True:
            row = self._office._json("GET", f"/api/proposals/{proposal}")
            if row["state"] in ("rejected", "retracted"):
                raise InputError(f"The proposal '{key}' was {row['state']}: {row['reason'] or ''}")
            if row["state"] == "approved":
                release = self._office._json("GET", f"/api/office/releases/{_part(key)}")
                if release["state"] == "failed":
                    error = self._office._json("GET", f"/api/jobs/{_part(row['job'])}")["error"]
                    raise error_named(error["type"], error["message"])
                if release["state"] != "making":
                    break
            if time.monotonic() > latest:
                raise InputError(
                    f"The release '{key}' waits for approval, or is being made. Ask again with the "
                    "same key: nothing is paid twice."
                )
            time.sleep(_PAUSE)
        content = self._office._bytes("GET", f"/api/office/releases/{_part(key)}/file")
        return _opened(content, key, out)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RemoteAnswer:
    """As the answer of a local session."""

    number: int
    key: str
    query: str
    label: str
    estimate: Estimate
    hard_left: int

    def __str__(self) -> str:
        return f"{self.estimate} [{self.label}; {self.hard_left} hard answers left]"


class RemoteSession:
    """As an online session, at a desk of the office."""

    def __init__(self, office: Office, desk: str) -> None:
        self._office, self.desk = office, desk

    def status(self) -> dict[str, Any]:
        """What is promised, what is left of hard answers, and of the caller's own questions."""
        return self._office._json("GET", f"/api/desks/{_part(self.desk)}")

    def ask(self, query: str, *, key: str | None = None) -> RemoteAnswer:
        """One question. The same key gives the same answer again."""
        found = self._office._json(
            "POST",
            f"/api/desks/{_part(self.desk)}/ask",
            {"query": query, "key": key or secrets.token_hex(16)},
        )
        return RemoteAnswer(**{**found, "estimate": _estimate(found["estimate"])})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the address that was given, and nowhere else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirect)


def _said(error: urllib.error.HTTPError) -> PublishError:
    try:
        said = json.loads(error.read())["error"]
        return error_named(str(said["type"]), str(said["message"]))
    except (ValueError, KeyError, TypeError, OSError):
        return PublishError(f"The office answered with status {error.code}.")


def _part(name: str) -> str:
    """A name as one part of an address."""
    return urllib.parse.quote(name, safe="")


def _opened(content: bytes, name: str, out: str | Path | None) -> Release:
    from dpublish.releases.base import open_release

    if out is not None:
        Path(out).write_bytes(content)
        return open_release(out)
    with tempfile.TemporaryDirectory(prefix="dpublish-") as folder:
        path = Path(folder) / f"{re.sub(r'[^a-z0-9-]', '-', name)}.dpr"
        path.write_bytes(content)
        return open_release(path)


def _estimate(found: Mapping[str, Any]) -> Estimate:
    given: dict[str, Any] = {
        one: float("nan") if found.get(one) is None else float(found[one]) for one in _NUMBERS
    }
    given |= {one: found[one] for one in ("measure", "basis", "note") if one in found}
    return Estimate(**given, warnings=tuple(found.get("warnings", ())))


def _amounts(given: Mapping[str, Any]) -> dict[str, str]:
    """Costs as text, which is read exactly; a float as its shortest decimal."""
    strange = set(given) - {"epsilon", "delta", "rho"}
    if strange:
        raise InputError(f"There is no '{min(strange)}'. Give epsilon (and delta), or rho.")
    return {
        name: str(Fraction(one)) if isinstance(one, Fraction) else str(one)
        for name, one in given.items()
        if one is not None
    }


def _asked(mechanism: Any) -> dict[str, Any]:
    """A method as the office takes it: its name, and the settings that are not the default's."""
    from dpublish.requests.base import default_of

    given = {one: getattr(mechanism, one.name) for one in dataclasses.fields(mechanism)}
    settings = {
        one.name: _text(value, one.name) for one, value in given.items() if value != default_of(one)
    }
    name = type(mechanism).__name__
    return {"method": re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower(), "settings": settings}


def _text(value: Any, name: str) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, str | int | float | Fraction):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(one, str | int | float) for one in value):
        return ",".join(str(one) for one in value)
    raise InputError(f"The setting {name} cannot be sent to an office: it is no text or number.")
