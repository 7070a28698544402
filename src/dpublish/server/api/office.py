"""The steps of the office for programs: data sets, schemas, plans, proposals, jobs, releases,
budgets and the auditor's view. The rules are those of the pages: both call the same functions."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from dpublish.errors import InputError
from dpublish.requests.audit import Audit
from dpublish.requests.base import Request as Asked, plain
from dpublish.requests.ledger import History, LedgerStatus
from dpublish.requests.plans import Compare, Plan, Rehearse
from dpublish.requests.schemas import CheckData
from dpublish.server.api.bodies import BODIES
from dpublish.server.app import Office, dataset_of, known, office_of, release_of
from dpublish.server.pages.audit import ledger_checks, verdicts
from dpublish.server.pages.curator import without_quotes
from dpublish.server.pages.office import opened_budget
from dpublish.server.store import BUDGETS, JOBS, PROPOSALS, RELEASES, Row

# -- data sets


def places(request: Request, office: Office) -> Response:
    """Where rows may come from, and what is there."""
    return JSONResponse({"places": office.datasets.offered()})


def datasets(request: Request, office: Office) -> Response:
    """The data sets of the office: never a row."""
    return JSONResponse({"datasets": [_dataset(one) for one in office.datasets.all()]})


def dataset(request: Request, office: Office) -> Response:
    """One data set: where its rows are, which budget pays, the digest of its schema."""
    return JSONResponse(_dataset(dataset_of(request)))


def add_dataset(request: Request, office: Office) -> Response:
    """Name rows of a configured place as a data set. The same again changes nothing."""
    given = {"title": "", **BODIES["api.office:add_dataset"].read(request.state.json)}
    row = office.datasets.get(given["name"])
    if row is None or any(row[key] != given[key] for key in ("place", "item", "population")):
        row = office.datasets.add(given.pop("name"), by=request.state.actor.name, **given)
    return JSONResponse(_dataset(row))


def schema(request: Request, office: Office) -> Response:
    """The schema in force, as TOML."""
    row = dataset_of(request)
    found = {"dataset": row["name"], "digest": row["digest"]}
    return JSONResponse({**found, "toml": office.datasets.schema_text(row)})


def put_schema(request: Request, office: Office) -> Response:
    """Check a schema, and let releases rest on it if nothing is wrong with it."""
    row = dataset_of(request)
    given = BODIES["api.office:put_schema"].read(request.state.json)
    problems = office.datasets.put_in_force(row["name"], given["toml"], by=request.state.actor.name)
    if problems:
        raise InputError(" ".join(problems[:20]))
    return JSONResponse(_dataset(dataset_of(request)))


# -- before anything is paid


def plan(request: Request, office: Office) -> Response:
    """What a release would cost and promise, from public facts; with questions, a job."""
    asked = Plan(**_with_schema(request, "api.office:plan"))
    if asked.questions or asked.error is not None:
        return _begun(request, asked, "plan")
    return JSONResponse(office.hide.tree(plain(asked.run().to_json())))


def rehearse(request: Request, office: Office) -> Response:
    """A job that makes the whole release on stand-in rows. Free, and not about the data."""
    return _begun(request, Rehearse(**_with_schema(request, "api.office:rehearse")), "rehearse")


def compare(request: Request, office: Office) -> Response:
    """A job that tries every suitable method on stand-in rows."""
    return _begun(request, Compare(**_with_schema(request, "api.office:compare")), "compare")


def check(request: Request, office: Office) -> Response:
    """A job that looks at all rows, for the curator's eyes alone."""
    row = dataset_of(request)
    given = BODIES["api.office:check"].read(request.state.json)
    data, database = office.datasets.source(row)
    path = office.datasets.schema_path(row)
    return _begun(request, CheckData(data=data, database=database, schema=path, **given), "check")


# -- proposals


def proposals(request: Request, office: Office) -> Response:
    """What was proposed, and what was decided about it."""
    rows = office.store.rows(PROPOSALS, newest="created", most=1000)
    return JSONResponse({"proposals": [_proposal(one) for one in rows]})


def proposal(request: Request, office: Office) -> Response:
    """One proposal."""
    return JSONResponse(_proposal(_proposed(request)))


def propose(request: Request, office: Office) -> Response:
    """Ask for a release. The same proposal again is the same proposal: it is made once."""
    actor = request.state.actor
    given = BODIES["api.office:propose"].read(request.state.json)
    row = known(office.datasets.get(given.pop("dataset")), "data set")
    release = given.pop("release")
    empty: dict[str, Any] = {
        "method": "histogram",
        "settings": {},
        "epsilon": None,
        "delta": None,
        "rho": None,
    }
    content: dict[str, Any] = {"title": "", "why": "", **empty, **given}
    for one in office.store.rows(PROPOSALS, release=release, proposer=actor.name):
        said = json.loads(one["request"])
        same = all(said.get(name) == content[name] for name in empty)
        if same and one["dataset"] == row["name"] and one["state"] in ("proposed", "approved"):
            return JSONResponse(_proposal(one))
    # refuses what cannot be made, before anybody is asked to approve
    Plan(
        schema=office.datasets.schema_path(row),
        **{
            **{name: content[name] for name in empty},
            "settings": office.releases.settings_of(content["settings"]),
        },
    ).run()
    made = office.releases.propose(row, release=release, by=actor, **content)
    return JSONResponse(_proposal(office.releases.proposal(made)))


def approve(request: Request, office: Office) -> Response:
    """Agree to another's proposal: the job that pays begins."""
    row = _proposed(request)
    if row["state"] != "approved":
        office.releases.approve(row["id"], by=request.state.actor)
    return JSONResponse(_proposal(_proposed(request)))


def decline(request: Request, office: Office) -> Response:
    """Refuse another's proposal, or take back one's own. Nothing was paid."""
    row = _proposed(request)
    given = {"reason": "", **BODIES["api.office:decline"].read(request.state.json)}
    office.releases.decline(row["id"], by=request.state.actor, **given)
    return JSONResponse(_proposal(_proposed(request)))


# -- jobs


def jobs(request: Request, office: Office) -> Response:
    """The jobs of the office, the newest first."""
    rows = office.store.rows(JOBS, newest="created", most=200)
    return JSONResponse({"jobs": [_job(office, one["id"]) for one in rows]})


def job(request: Request, office: Office) -> Response:
    """Where a job is: the name of its step, and never a count."""
    return JSONResponse(_job(office, _job_id(request)))


def results(request: Request, office: Office) -> Response:
    """What a job's requests answered; of a check as private as the rows."""
    one = _job_id(request)
    found = [dict(result) for result in office.jobs.results(one)]
    if office.jobs.status(one).verbs == ("check",) and not office.config.private_examples:
        found = [without_quotes(each, [col["column"] for col in each["columns"]]) for each in found]
    return JSONResponse({"job": one, "results": office.hide.tree(found)})


def cancel(request: Request, office: Office) -> Response:
    """End a job. What was paid stays paid; its `error` says what is lost and what is not."""
    one = _job_id(request)
    office.jobs.cancel(one, actor=request.state.actor.name)
    return JSONResponse(_job(office, one))


# -- releases


def releases(request: Request, office: Office) -> Response:
    """Every release of the office, public or not."""
    office.releases.settle()
    return JSONResponse({"releases": [_release(one) for one in office.releases.all()]})


def release(request: Request, office: Office) -> Response:
    """One release: where it is on its way, and the public facts of its manifest."""
    office.releases.settle()
    return JSONResponse(_release(release_of(request)))


def publish(request: Request, office: Office) -> Response:
    """Put a release into the public catalogue. It is post-processing: nothing is paid."""
    row = release_of(request)
    if row["state"] not in ("publishing", "published"):
        office.releases.publish(row["name"], by=request.state.actor)
    return JSONResponse(_release(release_of(request)))


def withdraw(request: Request, office: Office) -> Response:
    """Take a release off the catalogue. What it cost stays spent, and its page says so."""
    row = release_of(request)
    given = {"reason": "", **BODIES["api.office:withdraw"].read(request.state.json)}
    office.releases.withdraw(row["name"], by=request.state.actor, **given)
    return JSONResponse(_release(release_of(request)))


def run_again(request: Request, office: Office) -> Response:
    """Go on with a release that failed, under the same key: what was paid is not paid again."""
    row = release_of(request)
    office.releases.run_again(row["name"], by=request.state.actor)
    return JSONResponse(_release(release_of(request)))


# -- budgets, and the auditor's view


def budgets(request: Request, office: Office) -> Response:
    """The budgets of the office, with what is spent and what is left."""
    found = [_budget(office, one["name"]) for one in office.datasets.budgets()]
    return JSONResponse({"budgets": found})


def open_budget(request: Request, office: Office) -> Response:
    """Open a budget for life. The same again changes nothing."""
    given = BODIES["api.office:open_budget"].read(request.state.json)
    if office.store.one(BUDGETS, name=given["name"]) is None:
        opened_budget(office, given, request.state.actor)
    return JSONResponse(_budget(office, given["name"]))


def budget(request: Request, office: Office) -> Response:
    """One budget, and every entry of its history with who made it."""
    name = request.path_params["name"]
    found = _budget(office, name)
    history = History(url=office.config.ledger_url, name=name).run().to_json()
    return JSONResponse({**found, "entries": office.hide.tree(plain(history["entries"]))})


def audit_ledger(request: Request, office: Office) -> Response:
    """Every ledger recomputed from its first entry, now."""
    return JSONResponse({"ledgers": office.hide.tree(plain(ledger_checks(office)))})


def audit_releases(request: Request, office: Office) -> Response:
    """Every release against the ledger's own history, now."""
    return JSONResponse({"releases": office.hide.tree(plain(verdicts(office)))})


def start_audit(request: Request, office: Office) -> Response:
    """A job that tries to refute a method's privacy claim on made-up rows."""
    given = BODIES["api.office:start_audit"].read(request.state.json)
    return _begun(request, Audit(**given), "audit")


def actions(request: Request, office: Office) -> Response:
    """Who did what, when; each line holds the hash of the one before."""
    asked = request.query_params
    most = _number(asked.get("most"), "most", 1000) or 200
    before = _number(asked.get("before"), "before", 2**53)
    found = office.store.actions(most=most, before=before)
    return JSONResponse({"actions": found, "broken_at": office.store.broken_action()})


def metrics(request: Request, office: Office) -> Response:
    """What the service is doing, for a monitor: states of jobs and releases, and no count of
    rows, answers or spending."""
    lines = ["# TYPE dpublish_up gauge", "dpublish_up 1", "# TYPE dpublish_jobs gauge"]
    for name, table in (("jobs", JOBS), ("releases", RELEASES)):
        states: dict[str, int] = {}
        for row in office.store.rows(table):
            states[row["state"]] = states.get(row["state"], 0) + 1
        if name == "releases":
            lines.append("# TYPE dpublish_releases gauge")
        lines += [f'dpublish_{name}{{state="{one}"}} {states[one]}' for one in sorted(states)]
    return Response("\n".join([*lines, ""]), media_type="text/plain; version=0.0.4")


# -- shared


def _dataset(row: Row) -> dict[str, Any]:
    keys = ("name", "title", "place", "item", "population", "digest", "created", "creator")
    return {key: row[key] for key in keys}


def _with_schema(request: Request, handler: str) -> dict[str, Any]:
    office = office_of(request)
    given = BODIES[handler].read(request.state.json)
    if "settings" in given:
        given["settings"] = office.releases.settings_of(given["settings"])
    return {**given, "schema": office.datasets.schema_path(dataset_of(request))}


def _begun(request: Request, asked: Asked, verb: str) -> Response:
    office, actor = office_of(request), request.state.actor
    about = request.path_params.get("name") or getattr(asked, "method", "")
    one = office.jobs.submit([asked], actor=actor.name, subject=f"{verb} {about}")
    return JSONResponse(_job(office, one))


def _proposed(request: Request) -> Row:
    row = office_of(request).store.one(PROPOSALS, id=request.path_params["proposal"])
    return known(row, "proposal")


def _proposal(row: Row) -> dict[str, Any]:
    keys = (
        "id", "dataset", "release", "title", "state", "proposer", "created", "why", "decider",
        "decided", "reason", "job", "two_person",
    )  # fmt: skip
    return {**{key: row[key] for key in keys}, "request": json.loads(row["request"])}


def _job_id(request: Request) -> str:
    one = str(request.path_params["job"])
    known(office_of(request).store.one(JOBS, id=one), "job")
    return one


def _job(office: Office, one: str) -> Any:
    return office.hide.tree(plain(vars(office.jobs.status(one))))


def _release(row: Row) -> dict[str, Any]:
    keys = (
        "name", "dataset", "title", "job", "state", "created", "creator", "published", "withdrawn",
        "reason",
    )  # fmt: skip
    return {**{key: row[key] for key in keys}, "facts": json.loads(row["facts"] or "{}")}


def _budget(office: Office, name: str) -> dict[str, Any]:
    row = known(office.store.one(BUDGETS, name=name), "budget")
    status = plain(LedgerStatus(url=office.config.ledger_url, name=name).run().to_json())
    return {"name": name, "title": row["title"], "status": office.hide.tree(status)}


def _number(text: str | None, name: str, most: int) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 17 and 1 <= int(text) <= most):
        raise InputError(f"{name} is a whole number from 1 to {most}.")
    return int(text)
