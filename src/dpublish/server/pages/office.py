"""Releases as the office sees them, budgets with their history, and the people of the office."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from sqlalchemy import insert
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.analyst import Page, Report
from dpublish.requests.base import Caller
from dpublish.requests.ledger import History, LedgerStatus, OpenLedger, actor_of
from dpublish.server.accounts import Actor, Role, read_roles
from dpublish.server.app import Office, known, office_of, release_of
from dpublish.server.catalogue import cost_words, policy_of
from dpublish.server.datasets import named, titled
from dpublish.server.pages.templates import part_spent, to
from dpublish.server.store import ACCOUNTS, BUDGETS, PROPOSALS, Row, now, record


class Named(Caller):
    """Runs a request in somebody's name."""

    def __init__(self, actor: Actor) -> None:
        self._name = actor.name

    @property
    def actor(self) -> Any:
        return actor_of({"who": self._name, "door": "dpublish serve"})


# -- releases


def releases(request: Request, office: Office) -> Response:
    office.releases.settle()
    rows = [{**one, "facts": json.loads(one["facts"] or "{}")} for one in office.releases.all()]
    return office.pages.show(
        "office/releases.html",
        request.state.actor,
        releases=[{**one, "cost": _cost(one)} for one in rows],
    )


def _cost(row: Mapping[str, Any]) -> str:
    return cost_words(row["facts"].get("privacy", {}).get("cost", {}))


def release(request: Request, office: Office) -> Response:
    office.releases.settle()
    row = release_of(request)
    facts = json.loads(row["facts"] or "{}")
    proposals = office.store.rows(PROPOSALS, release=row["name"], state="approved")
    error = (
        office.jobs.status(row["job"]).error if row["state"] == "failed" and row["job"] else None
    )
    return office.pages.show(
        "office/release.html",
        request.state.actor,
        row={**row, "facts": facts},
        cost=_cost({"facts": facts}),
        proposal=proposals[0] if proposals else None,
        error=None if error is None else office.hide.tree(error),
        signing=office.config.signing_key is not None,
        size=office.releases.file_of(row["name"]).stat().st_size if facts else 0,
    )


def release_look(request: Request, office: Office) -> Response:
    """Its report or page as the public would see it, for the office."""
    row = release_of(request)
    what, release = request.path_params["what"], office.releases.file_of(row["name"])
    if what not in ("report", "page") or row["state"] in ("making", "failed"):
        raise HTTPException(404, "There is no such page.")
    with tempfile.TemporaryDirectory(dir=office.state / "files") as folder:
        out = Path(folder) / "look.html"
        (Report if what == "report" else Page)(release=release, out=out).run()
        content = out.read_bytes()
    policy = {"content-security-policy": policy_of(content)}
    return Response(content, media_type="text/html; charset=utf-8", headers=policy)


def publish(request: Request, office: Office) -> Response:
    job = office.releases.publish(release_of(request)["name"], by=request.state.actor)
    return to(f"/jobs/{job}")


def withdraw(request: Request, office: Office) -> Response:
    name = release_of(request)["name"]
    reason = str(request.state.form.get("reason", ""))
    office.releases.withdraw(name, reason=reason, by=request.state.actor)
    return to(f"/office/releases/{name}")


def sign(request: Request, office: Office) -> Response:
    name = release_of(request)["name"]
    office.releases.sign(name, by=request.state.actor)
    return to(f"/office/releases/{name}")


def run_again(request: Request, office: Office) -> Response:
    job = office.releases.run_again(release_of(request)["name"], by=request.state.actor)
    return to(f"/jobs/{job}")


# -- budgets


def ledger(request: Request, office: Office) -> Response:
    found = [_budget(office, row) for row in office.datasets.budgets()]
    return office.pages.show("office/ledger.html", request.state.actor, budgets=found)


def _budget(office: Office, row: Row) -> dict[str, Any]:
    """A budget as it stands, or why that cannot be said."""
    try:
        status = LedgerStatus(url=office.config.ledger_url, name=row["name"]).run().to_json()
    except PublishError as error:
        return {**row, "status": None, "problem": office.hide(str(error)), "part": 0}
    return {**row, "status": status, "problem": None, "part": part_spent(status)}


def open_budget(request: Request, office: Office) -> Response:
    name = opened_budget(office, request.state.form, request.state.actor)
    return to(f"/ledger/{name}")


def opened_budget(office: Office, given: Mapping[str, Any], actor: Actor) -> str:
    """Open a budget for life, and say its name."""
    name = named(str(given.get("name", "")), "budget")
    amounts: dict[str, Any] = {
        key: str(given.get(key) or "").strip() or None for key in ("epsilon", "delta", "rho")
    }
    if office.store.one(BUDGETS, name=name) is not None:
        raise InputError(f"There is a budget '{name}' already. A cap is for life.")
    asked = OpenLedger(
        url=office.config.ledger_url, name=name, witness=office.config.witness, **amounts
    )
    asked.run(Named(actor))
    words = ", ".join(f"{key} = {value}" for key, value in amounts.items() if value)
    with office.store.change() as connection:
        connection.execute(
            insert(BUDGETS).values(
                name=name, title=titled(str(given.get("title", "")), name), amount=words,
                created=now(), creator=actor.name,
            )
        )  # fmt: skip
        record(connection, actor=actor.name, action="budget opened", subject=name, amount=words)
    return name


def budget(request: Request, office: Office) -> Response:
    row = known(office.store.one(BUDGETS, name=request.path_params["name"]), "budget")
    found = _budget(office, row)
    entries: list[Mapping[str, Any]] = []
    if found["status"] is not None:
        asked = History(url=office.config.ledger_url, name=row["name"])
        entries = [entry(one) for one in asked.run().to_json()["entries"]]
    return office.pages.show(
        "office/budget.html",
        request.state.actor,
        budget=found,
        entries=list(reversed(entries)),
        datasets=[one for one in office.datasets.all() if one["population"] == row["name"]],
    )


def entry(one: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a ledger's history, as people read it."""
    detail = one.get("detail", {})
    asked = detail.get("request", {}) if isinstance(detail, Mapping) else {}
    return {
        **one,
        "amount": cost_words(one["charged"]) if _paid(one["charged"]) else "",
        "method": asked.get("method", "") if isinstance(asked, Mapping) else "",
        "by": one.get("by") or detail.get("by") or {},
    }


def _paid(cost: Mapping[str, Any]) -> bool:
    return any(Fraction(cost.get(name) or 0) for name in ("epsilon", "delta", "rho"))


# -- people


def people(request: Request, office: Office) -> Response:
    return _people(request)


def _people(request: Request, *, link: str | None = None, whose: str | None = None) -> Response:
    office = office_of(request)
    accounts = [{**one, "held": read_roles(one["roles"])} for one in office.accounts.all()]
    return office.pages.show(
        "office/people.html", request.state.actor, accounts=accounts, link=link, whose=whose
    )


def add_person(request: Request, office: Office) -> Response:
    form = request.state.form
    roles = [Role(one) for one in form.getlist("roles") if one in Role.__members__]
    by = request.state.actor.name
    made = office.accounts.add(
        str(form.get("name", "")), roles, by=by, shown=str(form.get("shown", ""))
    )
    secret = office.accounts.new_link(made["id"], by=by, hours=72)
    return _people(request, link=f"{office.address}/login/link?key={secret}", whose=made["name"])


def change_person(request: Request, office: Office) -> Response:
    form, actor = request.state.form, request.state.actor
    account = known(office.store.one(ACCOUNTS, id=request.path_params["account"]), "account")
    then = str(form.get("then", "roles"))
    if then == "link":
        secret = office.accounts.new_link(account["id"], by=actor.name, hours=72)
        return _people(
            request, link=f"{office.address}/login/link?key={secret}", whose=account["name"]
        )
    if account["id"] == actor.account:
        raise InputError("Nobody changes their own roles: ask another admin.")
    if then == "roles":
        roles = [Role(one) for one in form.getlist("roles") if one in Role.__members__]
        office.accounts.change(account["id"], by=actor.name, roles=roles)
    elif then in ("close", "open"):
        office.accounts.change(account["id"], by=actor.name, active=then == "open")
    return to("/accounts")
