"""What every answer carries and every question must satisfy: headers, forms, rates, sizes, words.

Everything here knows nothing of the product; `app` puts it around each route.
"""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "frame-src 'self'"
)
"""Of pages that are made here: nothing inline, nothing from elsewhere."""

HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": PAGE_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=()",
}
SECURE: Final = "max-age=31536000; includeSubDomains"


class TooLarge(Exception):
    """The body is longer than the route takes."""


class Rate:
    """At most so many a minute for each key: a bucket that refills evenly."""

    def __init__(self, per_minute: int) -> None:
        self._most = per_minute
        self._held: dict[str, tuple[float, float]] = {}
        self._room = 10_000
        self._lock = threading.Lock()

    def allows(self, key: str) -> bool:
        if not self._most:
            return True
        moment = time.monotonic()
        with self._lock:
            left, seen = self._held.get(key, (float(self._most), moment))
            left = min(float(self._most), left + (moment - seen) * self._most / 60)
            allowed = left >= 1
            self._held[key] = (left - 1 if allowed else left, moment)
            if len(self._held) > self._room:
                # full buckets say nothing that an absent one does not
                self._held = {
                    one: (held, at)
                    for one, (held, at) in self._held.items()
                    if held + (moment - at) * self._most / 60 < self._most
                }
                self._room = max(10_000, 2 * len(self._held))
        return allowed


class Outer:
    """Around everything: who the request is addressed to, how long its body is, and the headers of
    its answer."""

    def __init__(self, app: ASGIApp, *, hosts: Iterable[str], secure: bool) -> None:
        self._app = app
        self._hosts = frozenset(one.lower() for one in hosts)
        headers = {**HEADERS, **({"strict-transport-security": SECURE} if secure else {})}
        self._pairs = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if _host_name(host.decode("latin-1")) not in self._hosts:
            await send({"type": "http.response.start", "status": 421, "headers": []})
            await send(
                {"type": "http.response.body", "body": b"This address is not served here.\n"}
            )
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *[pair for pair in self._pairs if pair[0] not in given],
                ]
            await send(message)

        await self._app(scope, receive, with_headers)


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def limited(receive: Receive, most: int, headers: Headers) -> Receive:
    """The body, as long as it is no longer than `most`."""
    try:
        declared = int(headers.get("content-length", "0"))
    except ValueError:
        raise TooLarge from None
    if declared > most:
        raise TooLarge
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise TooLarge
        return message

    return counted


def from_here(request: Request, origins: frozenset[str]) -> bool:
    """Whether a browser sent an unsafe request from a page of this service."""
    origin = request.headers.get("origin")
    if origin is not None and origin != "null":
        return origin in origins
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    parts = urlsplit(request.headers.get("referer", ""))
    return f"{parts.scheme}://{parts.netloc}" in origins


def form_key_right(given: object, wanted: str) -> bool:
    return (
        isinstance(given, str)
        and bool(wanted)
        and hmac.compare_digest(given.encode(), wanted.encode())
    )


class Hide:
    """Takes the server's paths and addresses out of text that leaves it."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known`: paths and addresses, and what to say instead."""
        self._known = dict(sorted(known.items(), key=lambda one: -len(one[0])))
        words = "|".join(re.escape(one) for one in self._known if one)
        self._pattern = re.compile(rf"(?:{words})[^\s'\",;)]*") if words else None

    def __call__(self, text: str) -> str:
        return text if self._pattern is None else self._pattern.sub(self._said, text)

    def _said(self, found: re.Match[str]) -> str:
        start = next(one for one in self._known if found[0].startswith(one))
        name = found[0].removeprefix(start).rstrip("/").rpartition("/")[2]
        return name or self._known[start]

    def tree(self, value: object) -> object:
        """The same for every text of a JSON document."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {key: self.tree(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.tree(one) for one in value]
        return value
