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
from dpublish.server.app import Office, office_of
from dpublish.server.catalogue import FRESH


def listed(request: Request, office: Office) -> Response:
    """The published releases, as in the feed of the catalogue."""
    return office.catalogue.answers["/catalogue.json"].response(request)


def shown(request: Request, office: Office) -> Response:
    """What a release holds, what it cost, what it promises and who signed it."""
    return _answered(request, Show, {})


async def query(request: Request, office: Office) -> Response:
    """Rows that meet conditions, or counts by columns, with standard errors and intervals."""
    return await _known_or_asked(request, Query, "api.public:query")


async def sql(request: Request, office: Office) -> Response:
    """A SELECT over the weighted rows of a release."""
    return await _known_or_asked(request, Sql, "api.public:sql")


def methods(request: Request, office: Office) -> Response:
    """What there is to publish with."""
    return _json(Methods().run().to_json())


def method(request: Request, office: Office) -> Response:
    """One method with all its settings."""
    return _json(Methods(name=request.path_params["method"]).run().to_json())


async def openapi(request: Request, office: Office) -> Response:
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


async def _known_or_asked(request: Request, kind: type[OfRelease], handler: str) -> Response:
    office, name = office_of(request), request.path_params["name"]
    digest = digest_of(office, name)
    where = (digest, kind.verb, json.dumps(request.state.json, sort_keys=True))
    known = office.open_releases.known(where)
    if known is not None:
        return Response(known, media_type="application/json", headers={"cache-control": FRESH})
    given = BODIES[handler].read(request.state.json)
    answer = await run_in_threadpool(_answered, request, kind, given)
    office.open_releases.keep(where, bytes(answer.body))
    return answer


def _answered(request: Request, kind: type[OfRelease], given: Mapping[str, Any]) -> Response:
    office, name = office_of(request), request.path_params["name"]
    path = office.releases.public_folder(name) / f"{name}.dpr"
    opened, lock = office.open_releases.get(path, digest_of(office, name))
    asked = kind(release=path, **given)
    asked.check()
    with lock:
        found = asked.answer(offering(opened, asked.needs)).to_json()
    return _json(found)


def _json(value: Mapping[str, Any]) -> Response:
    content = json.dumps(plain(value), ensure_ascii=False).encode()
    return Response(content, media_type="application/json", headers={"cache-control": FRESH})
