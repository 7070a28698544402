"""The query desk in a browser: what it promises and what is left, then one question at a time."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.curator import MethodList, Methods
from dpublish.requests.online import PlanSession
from dpublish.server.accounts import Role
from dpublish.server.app import Office, dataset_of, desk_of, known, office_of
from dpublish.server.pages.planning import settings_text
from dpublish.server.pages.templates import to
from dpublish.server.store import DESKS


def desks(request: Request, office: Office) -> Response:
    actor = request.state.actor
    office.desks.settle()
    rows = [
        {**one, "seat": office.desks.seat(one["name"], actor)} for one in office.desks.of(actor)
    ]
    return office.pages.show("desk/desks.html", actor, desks=rows)


def desk(request: Request, office: Office) -> Response:
    return _page(request)


def _page(
    request: Request,
    *,
    answer: Mapping[str, Any] | None = None,
    problem: str | None = None,
    query: str = "",
    status: int = 200,
) -> Response:
    office, actor = office_of(request), request.state.actor
    office.desks.settle()
    row = desk_of(request)
    return office.pages.show(
        "desk/desk.html",
        actor,
        status=status,
        desk=office.hide.tree(office.desks.status(row["name"], actor)),
        row=row,
        seats=office.desks.seats(row["name"]) if actor.may({Role.curator, Role.auditor}) else [],
        answer=answer,
        problem=problem,
        query=query,
        key=secrets.token_hex(8),
    )


def ask(request: Request, office: Office) -> Response:
    """The form carries a key: sent twice, it is one question and one answer."""
    actor, form = request.state.actor, request.state.form
    row = desk_of(request)
    query = str(form.get("query", "")).strip()
    try:
        given = office.desks.ask(row["name"], query, str(form.get("key", "")), by=actor)
    except PublishError as error:
        message = office.hide(str(error))
        return _page(request, problem=message, query=query, status=400)
    return _page(request, answer=given, query=query)


def give_seat(request: Request, office: Office) -> Response:
    form = request.state.form
    name = request.path_params["name"]
    text = str(form.get("allowed", ""))
    if not text.isdecimal() or len(text) > 9:
        raise InputError("Say how many questions, as a whole number.")
    office.desks.admit(name, str(form.get("person", "")), int(text), by=request.state.actor)
    return to(f"/desk/{name}")


def close(request: Request, office: Office) -> Response:
    name = request.path_params["name"]
    known(office.store.one(DESKS, name=name), "desk")
    office.desks.close(name, by=request.state.actor)
    return to(f"/desk/{name}")


# -- proposing one


def plan_page(request: Request, office: Office) -> Response:
    return _plan_page(request, asked={})


def _plan_page(
    request: Request,
    *,
    asked: Mapping[str, str],
    plan: Mapping[str, Any] | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    office = office_of(request)
    row = dataset_of(request)
    office.datasets.schema_path(row)  # refuses where no schema is in force
    found = Methods().run()
    assert isinstance(found, MethodList)
    given = {"method": "median-mechanism", "epsilon": "1", "settings": "max_hard=50", **asked}
    return office.pages.show(
        "desk/plan.html",
        request.state.actor,
        status=status,
        row=row,
        methods=[one.to_json() for one in found.by_door["online"]],
        asked=given,
        plan=plan,
        problem=problem,
    )


def plan(request: Request, office: Office) -> Response:
    """Show what a desk would promise, or propose it."""
    row = dataset_of(request)
    given = {
        key: str(value).strip() for key, value in request.state.form.items() if key != "form_key"
    }
    try:
        settings = settings_text(given.get("settings", ""))
        method, epsilon = given.get("method", ""), given.get("epsilon", "")
        asked = PlanSession(
            schema=office.datasets.schema_path(row),
            epsilon=epsilon,
            method=method,
            settings=settings,
        )
        shown = asked.run().to_json()
        if given.get("then") != "propose":
            return _plan_page(request, asked=given, plan=shown)
        one = office.desks.propose(
            row, desk=given.get("desk", ""), title=given.get("title", ""), method=method,
            settings=settings, epsilon=epsilon, why=given.get("why", ""), by=request.state.actor,
        )  # fmt: skip
    except PublishError as error:
        return _plan_page(request, asked=given, problem=office.hide(str(error)), status=400)
    return to(f"/proposals/{one}")
