"""The query desk over HTTP: what is promised and what is left is shown before anything is asked."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dpublish.requests.base import plain
from dpublish.server.accounts import Role
from dpublish.server.api.bodies import BODIES
from dpublish.server.app import Office, desk_of, known
from dpublish.server.store import PROPOSALS


def desks(request: Request, office: Office) -> Response:
    """The desks that the caller may see."""
    actor = request.state.actor
    office.desks.settle()
    keys = ("name", "title", "dataset", "state", "created")
    return JSONResponse(
        {"desks": [{key: one[key] for key in keys} for one in office.desks.of(actor)]}
    )


def propose(request: Request, office: Office) -> Response:
    """Ask for a desk to be opened. The same proposal again is the same proposal."""
    actor = request.state.actor
    given = BODIES["api.desk:propose"].read(request.state.json)
    row = known(office.datasets.get(given.pop("dataset")), "data set")
    desk = given.pop("desk")
    content = {
        "title": "",
        "method": "median-mechanism",
        "settings": {},
        "why": "",
        **given,
    }
    for one in office.store.rows(PROPOSALS, release=desk, proposer=actor.name):
        said = json.loads(one["request"])
        same = all(said[name] == content[name] for name in ("method", "settings", "epsilon"))
        if same and one["dataset"] == row["name"] and said.get("online"):
            return JSONResponse({"proposal": one["id"], "state": one["state"]})
    made = office.desks.propose(row, desk=desk, by=actor, **content)
    return JSONResponse({"proposal": made, "state": "proposed"})


def desk(request: Request, office: Office) -> Response:
    """What a desk promises, how many hard answers are left, and what the caller may still ask."""
    row = desk_of(request)
    office.desks.settle()
    found = office.desks.status(row["name"], request.state.actor)
    if request.state.actor.may({Role.curator, Role.auditor}):
        keys = ("who", "allowed", "asked", "hard")
        found["seats"] = [
            {key: one[key] for key in keys} for one in office.desks.seats(row["name"])
        ]
    return JSONResponse(office.hide.tree(plain(found)))


def admit(request: Request, office: Office) -> Response:
    """Give somebody a seat, or change how many questions it has."""
    row = desk_of(request)
    given = BODIES["api.desk:admit"].read(request.state.json)
    office.desks.admit(row["name"], given["person"], given["allowed"], by=request.state.actor)
    return JSONResponse({"desk": row["name"], **given})


def ask(request: Request, office: Office) -> Response:
    """One question. It is counted, answered and on disk before this returns."""
    row = desk_of(request)
    given = BODIES["api.desk:ask"].read(request.state.json)
    answer: dict[str, Any] = office.desks.ask(
        row["name"], given["query"], given["key"], by=request.state.actor
    )
    return JSONResponse(answer)


def close(request: Request, office: Office) -> Response:
    """End a desk for good: its exact counts are deleted, its answers stay."""
    row = desk_of(request)
    office.desks.close(row["name"], by=request.state.actor)
    return JSONResponse({"desk": row["name"], "state": "closed"})
