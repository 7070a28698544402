"""The steps of the office for programs: data sets, schemas, plans, proposals, jobs, releases,
budgets, the auditor's view and query desks. The rules are those of the pages: both call the same
functions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dpublish.errors import InputError
from dpublish.requests.audit import Audit
from dpublish.requests.base import Request as Asked, plain
from dpublish.requests.ledger import History
from dpublish.requests.plans import Compare, Plan, Rehearse
from dpublish.requests.schemas import CheckData
from dpublish.server.accounts import Actor, Role
from dpublish.server.app import Office, dataset_of, known, office_of, proposal_of, release_of
from dpublish.server.desk import ONLINE
from dpublish.server.pages.audit import ledger_checks, verdicts
from dpublish.server.pages.curator import without_quotes
from dpublish.server.pages.office import opened_budget
from dpublish.server.store import BUDGETS, JOBS, PROPOSALS, RELEASES, Row, picked

# -- data sets


def places(office: Office) -> Response:
    """Where rows may come from, and what is there."""
    return JSONResponse({"places": office.datasets.offered()})


def datasets(office: Office) -> Response:
    """The data sets of the office: never a row."""
    return JSONResponse({"datasets": [_dataset(one) for one in office.datasets.all()]})


def dataset(dataset: Row) -> Response:
    """One data set: where its rows are, which budget pays, the digest of its schema."""
    return JSONResponse(_dataset(dataset))


def add_dataset(given: dict[str, Any], actor: Actor, office: Office) -> Response:
    """Name rows of a configured place as a data set. The same again changes nothing."""
    row = office.datasets.get(given["name"])
    if row is None or any(row[key] != given[key] for key in ("place", "item", "population")):
        row = office.datasets.add(by=actor.name, **{"title": "", **given})
    return JSONResponse(_dataset(row))


def schema(dataset: Row, office: Office) -> Response:
    """The schema in force, as TOML."""
    return JSONResponse(
        {
            "dataset": dataset["name"],
            "digest": dataset["digest"],
            "toml": office.datasets.schema_text(dataset),
        }
    )


def put_schema(
    request: Request, dataset: Row, given: Mapping[str, Any], actor: Actor, office: Office
) -> Response:
    """Check a schema, and let releases rest on it if nothing is wrong with it."""
    problems = office.datasets.put_in_force(dataset["name"], given["toml"], by=actor.name)
    if problems:
        raise InputError(" ".join(problems[:20]))
    return JSONResponse(_dataset(dataset_of(request)))


# -- before anything is paid


def plan(request: Request, given: dict[str, Any], office: Office) -> Response:
    """What a release would cost and promise, from public facts; with questions, a job."""
    asked = Plan(**_with_schema(request, given))
    if asked.questions or asked.error is not None:
        return _begun(request, asked, "plan")
    return JSONResponse(office.hide.tree(plain(asked.run().to_json())))


def rehearse(request: Request, given: dict[str, Any]) -> Response:
    """A job that makes the whole release on stand-in rows. Free, and not about the data."""
    return _begun(request, Rehearse(**_with_schema(request, given)), "rehearse")


def compare(request: Request, given: dict[str, Any]) -> Response:
    """A job that tries every suitable method on stand-in rows."""
    return _begun(request, Compare(**_with_schema(request, given)), "compare")


def check(request: Request, dataset: Row, given: Mapping[str, Any], office: Office) -> Response:
    """A job that looks at all rows, for the curator's eyes alone."""
    data, database = office.datasets.source(dataset)
    path = office.datasets.schema_path(dataset)
    return _begun(request, CheckData(data=data, database=database, schema=path, **given), "check")


# -- proposals


def proposals(office: Office) -> Response:
    """What was proposed, and what was decided about it."""
    rows = office.store.rows(PROPOSALS, newest="created", most=1000)
    return JSONResponse({"proposals": [_proposal(one) for one in rows]})


def proposal(proposal: Row) -> Response:
    """One proposal."""
    return JSONResponse(_proposal(proposal))


def propose(given: dict[str, Any], actor: Actor, office: Office) -> Response:
    """Ask for a release. The same proposal again is the same proposal: it is made once."""
    row = known(office.datasets.get(given.pop("dataset")), "data set")
    release = given.pop("release")
    empty: dict[str, Any] = {
        "method": "histogram", "settings": {}, "epsilon": None, "delta": None, "rho": None,
    }  # fmt: skip
    content: dict[str, Any] = {"title": "", "why": "", **empty, **given}
    asked = {name: content[name] for name in empty}
    for one in _same_before(office, actor, row, release, asked):
        if one["state"] in ("proposed", "approved"):
            return JSONResponse(_proposal(one))
    # refuses what cannot be made, before anybody is asked to approve
    Plan(
        schema=office.datasets.schema_path(row),
        **{**asked, "settings": office.releases.settings_of(content["settings"])},
    ).run()
    made = office.releases.propose(row, release=release, by=actor, **content)
    return JSONResponse(_proposal(office.releases.proposal(made)))


def approve(request: Request, proposal: Row, actor: Actor, office: Office) -> Response:
    """Agree to another's proposal: the job that pays begins."""
    if proposal["state"] != "approved":
        office.releases.approve(proposal["id"], by=actor)
    return JSONResponse(_proposal(proposal_of(request)))


def decline(
    request: Request, proposal: Row, given: Mapping[str, Any], actor: Actor, office: Office
) -> Response:
    """Refuse another's proposal, or take back one's own. Nothing was paid."""
    office.releases.decline(proposal["id"], by=actor, **{"reason": "", **given})
    return JSONResponse(_proposal(proposal_of(request)))


# -- jobs


def jobs(office: Office) -> Response:
    """The jobs of the office, the newest first."""
    rows = office.store.rows(JOBS, newest="created", most=200)
    return JSONResponse({"jobs": [_job(office, one["id"]) for one in rows]})


def job(job: str, office: Office) -> Response:
    """Where a job is: the name of its step, and never a count."""
    return JSONResponse(_job(office, job))


def results(job: str, office: Office) -> Response:
    """What a job's requests answered; of a check as private as the rows."""
    found = [dict(result) for result in office.jobs.results(job)]
    if office.jobs.status(job).verbs == ("check",) and not office.config.private_examples:
        found = [without_quotes(each, [col["column"] for col in each["columns"]]) for each in found]
    return JSONResponse({"job": job, "results": office.hide.tree(found)})


def cancel(job: str, actor: Actor, office: Office) -> Response:
    """End a job. What was paid stays paid; its `error` says what is lost and what is not."""
    office.jobs.cancel(job, actor=actor.name)
    return JSONResponse(_job(office, job))


# -- releases


def releases(office: Office) -> Response:
    """Every release of the office, public or not."""
    office.releases.settle()
    return JSONResponse({"releases": [_release(one) for one in office.releases.all()]})


def release(request: Request, office: Office) -> Response:
    """One release: where it is on its way, and the public facts of its manifest."""
    office.releases.settle()
    return JSONResponse(_release(release_of(request)))


def publish(request: Request, release: Row, actor: Actor, office: Office) -> Response:
    """Put a release into the public catalogue. It is post-processing: nothing is paid."""
    if release["state"] not in ("publishing", "published"):
        office.releases.publish(release["name"], by=actor)
    return JSONResponse(_release(release_of(request)))


def withdraw(
    request: Request, release: Row, given: Mapping[str, Any], actor: Actor, office: Office
) -> Response:
    """Take a release off the catalogue. What it cost stays spent, and its page says so."""
    office.releases.withdraw(release["name"], by=actor, **{"reason": "", **given})
    return JSONResponse(_release(release_of(request)))


def run_again(request: Request, release: Row, actor: Actor, office: Office) -> Response:
    """Go on with a release that failed, under the same key: what was paid is not paid again."""
    office.releases.run_again(release["name"], by=actor)
    return JSONResponse(_release(release_of(request)))


# -- budgets, and the auditor's view


def budgets(office: Office) -> Response:
    """The budgets of the office, with what is spent and what is left."""
    return JSONResponse(
        {"budgets": [_budget(office, one["name"]) for one in office.datasets.budgets()]}
    )


def open_budget(given: Mapping[str, Any], actor: Actor, office: Office) -> Response:
    """Open a budget for life. The same again changes nothing."""
    if office.store.one(BUDGETS, name=given["name"]) is None:
        opened_budget(office, given, actor)
    return JSONResponse(_budget(office, given["name"]))


def budget(name: str, office: Office) -> Response:
    """One budget, and every entry of its history with who made it."""
    found = _budget(office, name)
    history = History(url=office.config.ledger_url, name=name).run().to_json()
    return JSONResponse({**found, "entries": office.hide.tree(plain(history["entries"]))})


def audit_ledger(office: Office) -> Response:
    """Every ledger recomputed from its first entry, now."""
    return JSONResponse({"ledgers": office.hide.tree(plain(ledger_checks(office)))})


def audit_releases(office: Office) -> Response:
    """Every release against the ledger's own history, now."""
    return JSONResponse({"releases": office.hide.tree(plain(verdicts(office)))})


def start_audit(request: Request, given: Mapping[str, Any]) -> Response:
    """A job that tries to refute a method's privacy claim on made-up rows."""
    return _begun(request, Audit(**given), "audit")


def actions(request: Request, office: Office) -> Response:
    """Who did what, when; each line holds the hash of the one before."""
    found = office.store.actions(
        most=_number(request, "most", 1000) or 200, before=_number(request, "before", 2**53)
    )
    return JSONResponse({"actions": found, "broken_at": office.store.broken_action()})


def metrics(office: Office) -> Response:
    """What the service is doing, for a monitor: states of jobs and releases, and no count of
    rows, answers or spending."""
    lines = ["# TYPE dpublish_up gauge", "dpublish_up 1"]
    for name, table in (("jobs", JOBS), ("releases", RELEASES)):
        states = Counter(row["state"] for row in office.store.rows(table))
        lines.append(f"# TYPE dpublish_{name} gauge")
        lines += [f'dpublish_{name}{{state="{one}"}} {states[one]}' for one in sorted(states)]
    return Response("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


# -- query desks: what is promised and what is left is shown before anything is asked


def desks(actor: Actor, office: Office) -> Response:
    """The desks that the caller may see."""
    office.desks.settle()
    return JSONResponse(
        {
            "desks": [
                picked(one, "name", "title", "dataset", "state", "created")
                for one in office.desks.of(actor)
            ]
        }
    )


def propose_desk(given: dict[str, Any], actor: Actor, office: Office) -> Response:
    """Ask for a desk to be opened. The same proposal again is the same proposal."""
    row = known(office.datasets.get(given.pop("dataset")), "data set")
    desk = given.pop("desk")
    content = {"title": "", "method": "median-mechanism", "settings": {}, "why": "", **given}
    asked = {ONLINE: True, **picked(content, "method", "settings", "epsilon")}
    same = _same_before(office, actor, row, desk, asked)
    if same:
        return JSONResponse({"proposal": same[0]["id"], "state": same[0]["state"]})
    made = office.desks.propose(row, desk=desk, by=actor, **content)
    return JSONResponse({"proposal": made, "state": "proposed"})


def desk(desk: Row, actor: Actor, office: Office) -> Response:
    """What a desk promises, how many hard answers are left, and what the caller may still ask."""
    office.desks.settle()
    found = office.desks.status(desk["name"], actor)
    if actor.may({Role.curator, Role.auditor}):
        found["seats"] = [
            picked(one, "who", "allowed", "asked", "hard")
            for one in office.desks.seats(desk["name"])
        ]
    return JSONResponse(office.hide.tree(plain(found)))


def admit(desk: Row, given: Mapping[str, Any], actor: Actor, office: Office) -> Response:
    """Give somebody a seat, or change how many questions it has."""
    office.desks.admit(desk["name"], given["person"], given["allowed"], by=actor)
    return JSONResponse({"desk": desk["name"], **given})


def ask(desk: Row, given: Mapping[str, Any], actor: Actor, office: Office) -> Response:
    """One question. It is counted, answered and on disk before this returns."""
    return JSONResponse(office.desks.ask(desk["name"], given["query"], given["key"], by=actor))


def close_desk(desk: Row, actor: Actor, office: Office) -> Response:
    """End a desk for good: its exact counts are deleted, its answers stay."""
    office.desks.close(desk["name"], by=actor)
    return JSONResponse({"desk": desk["name"], "state": "closed"})


# -- shared


def _dataset(row: Row) -> dict[str, Any]:
    return picked(
        row, "name", "title", "place", "item", "population", "digest", "created", "creator"
    )


def _with_schema(request: Request, given: dict[str, Any]) -> dict[str, Any]:
    office = office_of(request)
    if "settings" in given:
        given["settings"] = office.releases.settings_of(given["settings"])
    return {**given, "schema": office.datasets.schema_path(dataset_of(request))}


def _begun(request: Request, asked: Asked, verb: str) -> Response:
    office, actor = office_of(request), request.state.actor
    about = request.path_params.get("name") or getattr(asked, "method", "")
    one = office.jobs.submit([asked], actor=actor.name, subject=f"{verb} {about}")
    return JSONResponse(_job(office, one))


def _same_before(
    office: Office, by: Actor, dataset: Row, name: str, asked: Mapping[str, Any]
) -> list[Row]:
    """Proposals of the same person that ask for the very same."""
    return [
        one
        for one in office.store.rows(PROPOSALS, release=name, proposer=by.name)
        if one["dataset"] == dataset["name"] and asked.items() <= json.loads(one["request"]).items()
    ]


def _proposal(row: Row) -> dict[str, Any]:
    return {
        **picked(
            row, "id", "dataset", "release", "title", "state", "proposer", "created", "why",
            "decider", "decided", "reason", "job", "two_person",
        ),
        "request": json.loads(row["request"]),
    }  # fmt: skip


def _job(office: Office, one: str) -> Any:
    return office.hide.tree(plain(vars(office.jobs.status(one))))


def _release(row: Row) -> dict[str, Any]:
    return {
        **picked(
            row, "name", "dataset", "title", "job", "state", "created", "creator", "published",
            "withdrawn", "reason",
        ),
        "facts": json.loads(row["facts"] or "{}"),
    }  # fmt: skip


def _budget(office: Office, name: str) -> dict[str, Any]:
    row = known(office.store.one(BUDGETS, name=name), "budget")
    status = office.hide.tree(plain(office.datasets.spending(name)))
    return {"name": name, "title": row["title"], "status": status}


def _number(request: Request, name: str, most: int) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and 1 <= int(text) <= most):
        raise InputError(f"{name} is a whole number from 1 to {most}.")
    return int(text)
