"""The query desk in a browser: what it promises and what is left, then one question at a time."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.curator import Methods
from dpublish.server.accounts import Actor, Role
from dpublish.server.app import Office, desk_of, known
from dpublish.server.pages.planning import settings_text
from dpublish.server.pages.templates import to
from dpublish.server.store import DESKS, Row


def desks(actor: Actor, office: Office) -> Response:
    office.desks.settle()
    return office.pages.show(
        "desk/desks.html",
        actor,
        desks=[
            {**one, "seat": office.desks.seat(one["name"], actor)} for one in office.desks.of(actor)
        ],
    )


def show(
    request: Request,
    actor: Actor,
    office: Office,
    *,
    answer: Mapping[str, Any] | None = None,
    problem: str | None = None,
    query: str = "",
    status: int = 200,
) -> Response:
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


def ask(request: Request, desk: Row, form: FormData, actor: Actor, office: Office) -> Response:
    """The form carries a key: sent twice, it is one question and one answer."""
    query = str(form.get("query", "")).strip()
    try:
        given = office.desks.ask(desk["name"], query, str(form.get("key", "")), by=actor)
    except PublishError as error:
        message = office.hide(str(error))
        return show(request, actor, office, problem=message, query=query, status=400)
    return show(request, actor, office, answer=given, query=query)


def give_seat(name: str, form: FormData, actor: Actor, office: Office) -> Response:
    text = str(form.get("allowed", ""))
    if not text.isdecimal() or len(text) > 9:
        raise InputError("Say how many questions, as a whole number.")
    office.desks.admit(name, str(form.get("person", "")), int(text), by=actor)
    return to(f"/desk/{name}")


def close(name: str, actor: Actor, office: Office) -> Response:
    known(office.store.one(DESKS, name=name), "desk")
    office.desks.close(name, by=actor)
    return to(f"/desk/{name}")


# -- proposing one


def plan_page(
    dataset: Row,
    actor: Actor,
    office: Office,
    *,
    asked: Mapping[str, str] | None = None,
    plan: Mapping[str, Any] | None = None,
    problem: str | None = None,
    status: int = 200,
) -> Response:
    office.datasets.schema_path(dataset)  # refuses where no schema is in force
    usual = {"method": "median-mechanism", "epsilon": "1", "settings": "max_hard=50"}
    return office.pages.show(
        "desk/plan.html",
        actor,
        status=status,
        row=dataset,
        methods=Methods().run().to_json()["online"],
        asked={**usual, **(asked or {})},
        plan=plan,
        problem=problem,
    )


def plan(dataset: Row, form: FormData, actor: Actor, office: Office) -> Response:
    """Show what a desk would promise, or propose it."""
    given = {key: str(value).strip() for key, value in form.items() if key != "form_key"}
    try:
        asked: dict[str, Any] = {
            "method": given.get("method", ""),
            "settings": settings_text(given.get("settings", "")),
            "epsilon": given.get("epsilon", ""),
        }
        shown = office.desks.plan(dataset, **asked)
        if given.get("then") != "propose":
            return plan_page(dataset, actor, office, asked=given, plan=shown)
        one = office.desks.propose(
            dataset, desk=given.get("desk", ""), title=given.get("title", ""),
            why=given.get("why", ""), by=actor, **asked,
        )  # fmt: skip
    except PublishError as error:
        message = office.hide(str(error))
        return plan_page(dataset, actor, office, asked=given, problem=message, status=400)
    return to(f"/proposals/{one}")
