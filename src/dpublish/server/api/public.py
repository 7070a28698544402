"""For everybody: published releases as JSON, and questions to them. No rows, no ledger, no login.

A release is opened once and kept open; an answer that was given before is given again from memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.requests.analyst import OfRelease, Query, Show, Sql, offering
from dpublish.requests.base import plain
from dpublish.requests.curator import Methods
from dpublish.server.api.bodies import BODIES, document
from dpublish.server.app import Office
from dpublish.server.catalogue import FRESH, Catalogue


def listed(request: Request, catalogue: Catalogue) -> Response:
    """The published releases, as in the feed of the catalogue."""
    return catalogue.answers["/catalogue.json"].response(request)


def shown(name: str, office: Office) -> Response:
    """What a release holds, what it cost, what it promises and who signed it."""
    return _answered(office, name, Show, {})


async def query(request: Request, name: str, office: Office) -> Response:
    """Rows that meet conditions, or counts by columns, with standard errors and intervals."""
    return await _known_or_asked(office, name, Query, request.state.json)


async def sql(request: Request, name: str, office: Office) -> Response:
    """A SELECT over the weighted rows of a release."""
    return await _known_or_asked(office, name, Sql, request.state.json)


def methods() -> Response:
    """What there is to publish with."""
    return _json(Methods().run().to_json())


def method(method: str) -> Response:
    """One method with all its settings."""
    return _json(Methods(name=method).run().to_json())


async def openapi() -> Response:
    """This document."""
    return _json(document())


def digest_of(office: Office, name: str) -> str:
    """The hash of a published release; 404 or 410 where there is none."""
    known = next((one for one in office.catalogue.listed if one["name"] == name), None)
    if known is not None:
        return str(known["hashes"][f"{name}.dpr"])
    if f"/releases/{name}" in office.catalogue.gone:
        raise HTTPException(410, "This release was withdrawn.")
    raise HTTPException(404, "There is no published release of that name.")


async def _known_or_asked(office: Office, name: str, kind: type[OfRelease], body: Any) -> Response:
    where = (digest_of(office, name), kind.verb, json.dumps(body, sort_keys=True))
    known = office.open_releases.answers.get(where)
    if known is not None:
        return _document(known)
    given = BODIES[f"api.public:{kind.verb}"].read(body)
    answer = await run_in_threadpool(_answered, office, name, kind, given)
    office.open_releases.keep(where, bytes(answer.body))
    return answer


def _answered(
    office: Office, name: str, kind: type[OfRelease], given: Mapping[str, Any]
) -> Response:
    path = office.releases.public_folder(name) / f"{name}.dpr"
    opened, lock = office.open_releases.get(path, digest_of(office, name))
    asked = kind(release=path, **given)
    asked.check()
    with lock:
        found = asked.answer(offering(opened, asked.needs)).to_json()
    return _json(found)


def _json(value: Mapping[str, Any]) -> Response:
    return _document(json.dumps(plain(value), ensure_ascii=False).encode())


def _document(content: bytes) -> Response:
    return Response(content, media_type="application/json", headers={"cache-control": FRESH})
