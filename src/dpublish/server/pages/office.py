"""Releases as the office sees them, budgets with their history, and the people of the office."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.analyst import Page, Report
from dpublish.requests.base import Caller
from dpublish.requests.ledger import History, OpenLedger, actor_of
from dpublish.server.accounts import Actor, read_roles
from dpublish.server.app import Office, known, release_of
from dpublish.server.catalogue import cost_words, policy_of
from dpublish.server.datasets import named, titled
from dpublish.server.pages.templates import part_spent, roles_in, to
from dpublish.server.store import ACCOUNTS, BUDGETS, PROPOSALS, Row, now


class Named(Caller):
    """Runs a request in somebody's name."""

    def __init__(self, actor: Actor) -> None:
        self._name = actor.name

    @property
    def actor(self) -> Any:
        return actor_of({"who": self._name, "door": "dpublish serve"})


# -- releases


def releases(actor: Actor, office: Office) -> Response:
    office.releases.settle()
    return office.pages.show(
        "office/releases.html",
        actor,
        releases=[_with_facts(one) for one in office.releases.all()],
    )


def _with_facts(row: Row) -> dict[str, Any]:
    facts = json.loads(row["facts"] or "{}")
    cost = cost_words(facts.get("privacy", {}).get("cost", {}))
    return {**row, "facts": facts, "cost": cost}


def release(request: Request, actor: Actor, office: Office) -> Response:
    office.releases.settle()
    row = _with_facts(release_of(request))
    proposals = office.store.rows(PROPOSALS, release=row["name"], state="approved")
    error = (
        office.jobs.status(row["job"]).error if row["state"] == "failed" and row["job"] else None
    )
    return office.pages.show(
        "office/release.html",
        actor,
        row=row,
        cost=row["cost"],
        proposal=proposals[0] if proposals else None,
        error=None if error is None else office.hide.tree(error),
        signing=office.config.signing_key is not None,
        size=office.releases.file_of(row["name"]).stat().st_size if row["facts"] else 0,
    )


def release_look(release: Row, what: str, office: Office) -> Response:
    """Its report or page as the public would see it, for the office."""
    if what not in ("report", "page") or release["state"] in ("making", "failed"):
        raise HTTPException(404, "There is no such page.")
    path = office.releases.file_of(release["name"])
    with tempfile.TemporaryDirectory(dir=office.state / "files") as folder:
        out = Path(folder) / "look.html"
        (Report if what == "report" else Page)(release=path, out=out).run()
        content = out.read_bytes()
    return Response(
        content,
        media_type="text/html; charset=utf-8",
        headers={"content-security-policy": policy_of(content)},
    )


def publish(release: Row, actor: Actor, office: Office) -> Response:
    return to(f"/jobs/{office.releases.publish(release['name'], by=actor)}")


def withdraw(release: Row, form: FormData, actor: Actor, office: Office) -> Response:
    office.releases.withdraw(release["name"], reason=str(form.get("reason", "")), by=actor)
    return to(f"/office/releases/{release['name']}")


def sign(release: Row, actor: Actor, office: Office) -> Response:
    office.releases.sign(release["name"], by=actor)
    return to(f"/office/releases/{release['name']}")


def run_again(release: Row, actor: Actor, office: Office) -> Response:
    return to(f"/jobs/{office.releases.run_again(release['name'], by=actor)}")


# -- budgets


def ledger(actor: Actor, office: Office) -> Response:
    return office.pages.show(
        "office/ledger.html",
        actor,
        budgets=[_budget(office, row) for row in office.datasets.budgets()],
    )


def _budget(office: Office, row: Row) -> dict[str, Any]:
    """A budget as it stands, or why that cannot be said."""
    try:
        status = office.datasets.spending(row["name"])
    except PublishError as error:
        return {**row, "status": None, "problem": office.hide(str(error)), "part": 0}
    return {**row, "status": status, "problem": None, "part": part_spent(status)}


def open_budget(form: FormData, actor: Actor, office: Office) -> Response:
    return to(f"/ledger/{opened_budget(office, form, actor)}")


def opened_budget(office: Office, given: Mapping[str, Any], actor: Actor) -> str:
    """Open a budget for life, and say its name."""
    name = named(str(given.get("name", "")), "budget")
    amounts: dict[str, Any] = {
        key: str(given.get(key) or "").strip() or None for key in ("epsilon", "delta", "rho")
    }
    if office.store.one(BUDGETS, name=name) is not None:
        raise InputError(f"There is a budget '{name}' already. A cap is for life.")
    OpenLedger(
        url=office.config.ledger_url, name=name, witness=office.config.witness, **amounts
    ).run(Named(actor))
    words = ", ".join(f"{key} = {value}" for key, value in amounts.items() if value)
    office.store.add(
        BUDGETS,
        {
            "name": name, "title": titled(str(given.get("title", "")), name), "amount": words,
            "created": now(), "creator": actor.name,
        },
        by=actor.name, action="budget opened", subject=name, amount=words,
    )  # fmt: skip
    return name


def budget(name: str, actor: Actor, office: Office) -> Response:
    found = _budget(office, known(office.store.one(BUDGETS, name=name), "budget"))
    return office.pages.show(
        "office/budget.html",
        actor,
        budget=found,
        entries=[] if found["status"] is None else entries_of(office, name)[::-1],
        datasets=[one for one in office.datasets.all() if one["population"] == name],
    )


def entries_of(office: Office, budget: str) -> list[dict[str, Any]]:
    """The ledger's history of a budget, line by line as people read it."""
    return [
        _entry(one)
        for one in History(url=office.config.ledger_url, name=budget).run().to_json()["entries"]
    ]


def _entry(one: Mapping[str, Any]) -> dict[str, Any]:
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


def people(actor: Actor, office: Office, *, invited: Row | None = None) -> Response:
    """The accounts; for one that was just invited the link that lets its person in."""
    link = None
    if invited is not None:
        secret = office.accounts.new_link(invited["id"], by=actor.name, hours=72)
        link = f"{office.address}/login/link?key={secret}"
    return office.pages.show(
        "office/people.html",
        actor,
        accounts=[{**one, "held": read_roles(one["roles"])} for one in office.accounts.all()],
        link=link,
        whose=None if invited is None else invited["name"],
    )


def add_person(form: FormData, actor: Actor, office: Office) -> Response:
    made = office.accounts.add(
        str(form.get("name", "")), roles_in(form), by=actor.name, shown=str(form.get("shown", ""))
    )
    return people(actor, office, invited=made)


def change_person(account: str, form: FormData, actor: Actor, office: Office) -> Response:
    row = known(office.store.one(ACCOUNTS, id=account), "account")
    then = str(form.get("then", "roles"))
    if then == "link":
        return people(actor, office, invited=row)
    if account == actor.account:
        raise InputError("Nobody changes their own roles: ask another admin.")
    if then == "roles":
        office.accounts.change(account, by=actor.name, roles=roles_in(form))
    elif then in ("close", "open"):
        office.accounts.change(account, by=actor.name, active=then == "open")
    return to("/accounts")
