"""Before anything is paid: plans, rehearsals on stand-in rows, and proposals that two people decide
about. And jobs, as people see them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.curator import MethodList, Methods
from dpublish.requests.ledger import LedgerStatus
from dpublish.requests.plans import Compare, Plan, Rehearse
from dpublish.server.app import Office, dataset_of, known, office_of
from dpublish.server.catalogue import cost_words
from dpublish.server.desk import ONLINE
from dpublish.server.jobs import JobStatus
from dpublish.server.pages.templates import decimal, to
from dpublish.server.store import JOBS, PROPOSALS, Row

STEPS = {
    "release": "Makes a release: checks, debits the ledger, reads the rows, adds noise.",
    "check": "Looks at all rows, for the curator's eyes alone.",
    "schema draft": "Looks at all rows for a first draft of the schema.",
    "rehearse": "Makes the whole release on stand-in rows. Free, and not about the data.",
    "plan": "Finds the epsilon that a margin of error needs, on stand-in rows. Free.",
    "compare": "Tries every suitable method on stand-in rows. Free.",
    "audit": "Tries to refute a method's privacy claim on made-up rows.",
    "online open": "Opens a query desk: debits the ledger, counts the rows once.",
}


def plan_page(request: Request, office: Office) -> Response:
    return _plan_page(request, asked=dict(request.query_params))


def _plan_page(
    request: Request,
    *,
    asked: Mapping[str, Any],
    plans: Sequence[Mapping[str, Any]] = (),
    problem: str | None = None,
    status: int = 200,
) -> Response:
    office, row = office_of(request), dataset_of(request)
    schema, problems = office.datasets.examine(row["name"], office.datasets.schema_text(row) or "")
    if schema is None:
        raise InputError("Put a schema in force first. " + " ".join(problems[:1]))
    found = Methods().run()
    assert isinstance(found, MethodList)
    basket = schema.items is not None
    budget = LedgerStatus(url=office.config.ledger_url, name=row["population"]).run().to_json()
    return office.pages.show(
        "data/plan.html",
        request.state.actor,
        status=status,
        row=row,
        columns=list(schema.columns),
        methods=[one.to_json() for one in found.by_door["release"] if _fits(one.name, basket)],
        asked={"method": "histogram", "epsilon": "1", **asked},
        chosen=_columns_of(asked),
        plans=plans,
        problem=problem,
        budget=budget,
    )


def _fits(method: str, basket: bool) -> bool:
    return (method in ("basic-itemsets", "frequent-itemsets", "set-partition")) == basket


def _columns_of(asked: Mapping[str, Any]) -> list[str]:
    settings = settings_text(str(asked.get("settings", "")))
    return [one for one in settings.get("columns", "").split(",") if one]


def settings_text(text: str) -> dict[str, str]:
    """Settings, one NAME=VALUE per line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if line.strip():
            name, sign, value = line.partition("=")
            if not sign:
                raise InputError(
                    f"'{line.strip()[:60]}' is no setting: write NAME=VALUE, one per line."
                )
            found[name.strip()] = value.strip()
    return found


def _asked(form: Any) -> dict[str, Any]:
    """The fields of the planning form."""
    given = {key: str(value).strip() for key, value in form.items() if key != "form_key"}
    settings = settings_text(given.get("settings", ""))
    columns = [str(one) for one in form.getlist("columns")]
    if columns:
        settings["columns"] = ",".join(columns)
    given["settings"] = "\n".join(f"{name}={value}" for name, value in settings.items())
    questions = [line.strip() for line in given.get("questions", "").splitlines() if line.strip()]
    return {**given, "settings_": settings, "questions_": tuple(questions)}


def plan(request: Request, office: Office) -> Response:
    """Show a plan, rehearse it, or propose it: one form, three buttons."""
    row, form = dataset_of(request), request.state.form
    given = _asked(form)
    then = given.get("then", "plan")
    try:
        if then == "propose":
            return _propose(office, request, row, given)
        if then == "plan":
            plans = _plans(office, row, given)
            return _plan_page(request, asked=given, plans=plans)
        job = _set_going(office, request, row, given, then)
    except PublishError as error:
        message = office.hide(str(error))
        return _plan_page(request, asked=given, problem=message, status=400)
    return to(f"/jobs/{job}")


def _amounts(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given.get(name) or None for name in ("epsilon", "delta", "rho")}


def _plans(office: Office, row: Row, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    asked = Plan(
        schema=office.datasets.schema_path(row),
        method=given.get("method", "histogram"),
        settings=office.releases.settings_of(given["settings_"]),
        **_amounts(given),
    )
    found = asked.run().to_json()
    plans: list[Mapping[str, Any]] = list(found.get("plans", [found]))
    return plans


def _set_going(
    office: Office, request: Request, row: Row, given: Mapping[str, Any], then: str
) -> str:
    schema, actor = office.datasets.schema_path(row), request.state.actor.name
    method, settings = (
        given.get("method", "histogram"),
        office.releases.settings_of(given["settings_"]),
    )
    questions = given["questions_"]
    one: Plan | Rehearse | Compare
    if then == "rehearse":
        one = Rehearse(
            schema=schema, method=method, settings=settings, questions=questions, **_amounts(given)
        )
    elif then == "solve":
        one = Plan(
            schema=schema, method=method, settings=settings, questions=questions[:1],
            error=_margin(given.get("error", "")), delta=given.get("delta") or None,
        )  # fmt: skip
    elif then == "compare":
        epsilon = given.get("epsilon") or "1"
        one = Compare(
            schema=schema, epsilon=epsilon, delta=given.get("delta") or None, questions=questions
        )
    else:
        raise InputError("Choose what to do.")
    return office.jobs.submit([one], actor=actor, subject=f"{then} {row['name']}")


def _margin(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("Give the margin of error as a number of rows.") from None


def _propose(office: Office, request: Request, row: Row, given: Mapping[str, Any]) -> Response:
    amounts = _amounts(given)
    if any("," in (one or "") for one in amounts.values()):
        raise InputError("A proposal has one amount: choose one of those you compared.")
    _plans(office, row, given)  # refuses what cannot be made, before anybody is asked to approve
    one = office.releases.propose(
        row,
        release=given.get("release", ""),
        title=given.get("title", ""),
        method=given.get("method", "histogram"),
        settings=given["settings_"],
        epsilon=amounts["epsilon"],
        delta=amounts["delta"],
        rho=amounts["rho"],
        why=given.get("why", ""),
        by=request.state.actor,
    )
    return to(f"/proposals/{one}")


# -- proposals


def proposals(request: Request, office: Office) -> Response:
    rows = office.store.rows(PROPOSALS, newest="created")
    return office.pages.show(
        "data/proposals.html",
        request.state.actor,
        waiting=[_shown(one) for one in rows if one["state"] == "proposed"],
        decided=[_shown(one) for one in rows if one["state"] != "proposed"],
    )


def _shown(row: Row) -> dict[str, Any]:
    asked = json.loads(row["request"])
    exact = {name: asked.get(name) or "0" for name in ("epsilon", "delta", "rho")}
    return {**row, "asked": asked, "cost": cost_words(exact)}


def proposal(request: Request, office: Office) -> Response:
    actor = request.state.actor
    row = known(office.store.one(PROPOSALS, id=request.path_params["one"]), "proposal")
    shown = _shown(row)
    plans: Sequence[Mapping[str, Any]] = ()
    problem = budget = after = None
    dataset = office.datasets.get(row["dataset"])
    if row["state"] == "proposed" and dataset is not None:
        try:
            if shown["asked"].get(ONLINE):
                office.desks.request_of(row)
            else:
                office.releases.request_of(row)
            plans = _plans(
                office, dataset, {**shown["asked"], "settings_": shown["asked"]["settings"]}
            )
            budget = (
                LedgerStatus(url=office.config.ledger_url, name=dataset["population"])
                .run()
                .to_json()
            )
            after = _left_after(budget, plans[0])
        except PublishError as error:
            problem = office.hide(str(error))
    may_approve = actor.may_decide and not (
        office.config.two_person and row["proposer"] == actor.name
    )
    return office.pages.show(
        "data/proposal.html", actor, row=shown, plans=plans, problem=problem, budget=budget,
        after=after, may_approve=may_approve, mine=row["proposer"] == actor.name,
    )  # fmt: skip


def _left_after(budget: Mapping[str, Any], plan: Mapping[str, Any]) -> str | None:
    """What would be left of a budget in epsilon alone; other currencies are the ledger's to say."""
    left, cost = budget["remaining"], plan["cost"]
    if any(Fraction(one["rho"]) for one in (left, cost)):
        return None
    rest = Fraction(left["epsilon"]) - Fraction(cost["epsilon"])
    return decimal(str(rest)) if rest >= 0 else None


def approve(request: Request, office: Office) -> Response:
    job = office.releases.approve(request.path_params["one"], by=request.state.actor)
    return to(f"/jobs/{job}")


def decline(request: Request, office: Office) -> Response:
    actor = request.state.actor
    one = request.path_params["one"]
    if office.releases.proposal(one)["proposer"] != actor.name and not actor.may_decide:
        raise HTTPException(403, "This is for whoever proposed it, and for approvers.")
    office.releases.decline(one, reason=str(request.state.form.get("reason", "")), by=actor)
    return to("/proposals")


# -- jobs


def jobs(request: Request, office: Office) -> Response:
    found = [
        office.jobs.status(row["id"]) for row in office.store.rows(JOBS, newest="created", most=100)
    ]
    return office.pages.show("office/jobs.html", request.state.actor, jobs=found)


def job(request: Request, office: Office) -> Response:
    return _job_page(request, "office/job.html")


def job_part(request: Request, office: Office) -> Response:
    """The part that is asked for again while a job runs."""
    answer = _job_page(request, "office/job_part.html")
    if office.jobs.status(request.path_params["job"]).over:
        answer.headers["hx-refresh"] = "true"  # the whole page says what can be done now
    return answer


def _job_page(request: Request, template: str) -> Response:
    office = office_of(request)
    try:
        status = office.jobs.status(request.path_params["job"])
    except InputError:
        raise HTTPException(404, "There is no such job.") from None
    office.releases.settle()
    about = status.subject.partition(" ")[2]
    public = _public_result(office, status)
    return office.pages.show(
        template,
        request.state.actor,
        job=status,
        about=about,
        does=STEPS.get(status.verbs[0] if status.verbs else "", "Makes public files of a release."),
        lost=_lost(status),
        error=None if status.error is None else office.hide.tree(status.error),
        public=public,
        back=_back(public),
    )


def _back(public: Mapping[str, Any] | None) -> str:
    """What the form of the plan held, as far as the result tells: nobody types it twice."""
    plans = (public or {}).get("plans") or ([public] if public and "method" in public else [])
    if not public or not plans or "cost" not in plans[0]:
        return ""
    answers = public.get("answers") or public.get("expected") or []
    columns = plans[0].get("parameters", {}).get("columns")
    kept = {
        "method": plans[0]["method"],
        "epsilon": ",".join(decimal(one["cost"]["epsilon"]) for one in plans),
        "questions": "\n".join(dict.fromkeys(one["question"] for one in answers)),
        "settings": f"columns={','.join(columns)}" if isinstance(columns, list) else "",
    }
    return f"?{urlencode(kept)}"


def _lost(status: JobStatus) -> str:
    """What cancelling means, before it is asked for."""
    if "release" in status.verbs or "online open" in status.verbs:
        return (
            "If the ledger was debited already, that stays spent: there is no way back. Before "
            "noise is drawn the job can be run again for the same payment; after that its result "
            "is lost."
        )
    return "Nothing was paid, so nothing but the work is lost."


def _public_result(office: Office, status: JobStatus) -> Mapping[str, Any] | None:
    """Results that are not about the rows: rehearsals, comparisons, solved plans, audits."""
    if (
        status.state == "done"
        and status.verbs
        and status.verbs[0] in ("rehearse", "plan", "compare", "audit")
    ):
        results = office.jobs.results(status.id)
        return results[0] if results else None
    return None


def cancel(request: Request, office: Office) -> Response:
    actor = request.state.actor
    one = request.path_params["job"]
    office.jobs.cancel(one, actor=actor.name)
    return to(f"/jobs/{one}")
