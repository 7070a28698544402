"""Before anything is paid: plans, rehearsals on stand-in rows, and proposals that two people decide
about. And jobs, as people see them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.curator import Methods
from dpublish.requests.plans import Compare, Plan, Rehearse
from dpublish.server.accounts import Actor
from dpublish.server.app import Office
from dpublish.server.catalogue import cost_words
from dpublish.server.desk import ONLINE
from dpublish.server.jobs import JobStatus
from dpublish.server.pages.templates import decimal, to
from dpublish.server.store import JOBS, PROPOSALS, Row

OF_BASKETS = ("basic-itemsets", "frequent-itemsets", "set-partition")
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


def plan_page(
    request: Request,
    dataset: Row,
    actor: Actor,
    office: Office,
    *,
    asked: Mapping[str, Any] | None = None,
    plans: Sequence[Mapping[str, Any]] = (),
    problem: str | None = None,
    status: int = 200,
) -> Response:
    asked = request.query_params if asked is None else asked
    text = office.datasets.schema_text(dataset) or ""
    schema, problems = office.datasets.examine(dataset["name"], text)
    if schema is None:
        raise InputError("Put a schema in force first. " + " ".join(problems[:1]))
    methods = [
        one
        for one in Methods().run().to_json()["release"]
        if (one["name"] in OF_BASKETS) == (schema.items is not None)
    ]
    budget = office.datasets.spending(dataset["population"])
    settings = settings_text(str(asked.get("settings", "")))
    return office.pages.show(
        "data/plan.html",
        actor,
        status=status,
        row=dataset,
        columns=list(schema.columns),
        methods=methods,
        asked={"method": "histogram", "epsilon": "1", **asked},
        chosen=[one for one in settings.get("columns", "").split(",") if one],
        plans=plans,
        problem=problem,
        budget=budget,
    )


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


def plan(request: Request, dataset: Row, form: FormData, actor: Actor, office: Office) -> Response:
    """Show a plan, rehearse it, or propose it: one form, three buttons."""
    given = _asked(form)
    then = given.get("then", "plan")
    try:
        if then == "propose":
            return _propose(office, actor, dataset, given)
        if then == "plan":
            return plan_page(
                request, dataset, actor, office, asked=given, plans=_plans(office, dataset, given)
            )
        job = _set_going(office, actor, dataset, given, then)
    except PublishError as error:
        message = office.hide(str(error))
        return plan_page(request, dataset, actor, office, asked=given, problem=message, status=400)
    return to(f"/jobs/{job}")


def _amounts(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given.get(name) or None for name in ("epsilon", "delta", "rho")}


def _plans(office: Office, row: Row, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = Plan(**_method(office, row, given), **_amounts(given)).run().to_json()
    return list(found.get("plans", [found]))


def _method(office: Office, row: Row, given: Mapping[str, Any]) -> dict[str, Any]:
    """What plans and rehearsals are about."""
    return {
        "schema": office.datasets.schema_path(row),
        "method": given.get("method", "histogram"),
        "settings": office.releases.settings_of(given["settings_"]),
    }


def _set_going(office: Office, actor: Actor, row: Row, given: Mapping[str, Any], then: str) -> str:
    asked = _method(office, row, given)
    questions = given["questions_"]
    delta = given.get("delta") or None
    one: Plan | Rehearse | Compare
    if then == "rehearse":
        one = Rehearse(**asked, questions=questions, **_amounts(given))
    elif then == "solve":
        one = Plan(
            **asked, questions=questions[:1], error=_margin(given.get("error", "")), delta=delta
        )
    elif then == "compare":
        one = Compare(
            schema=asked["schema"],
            epsilon=given.get("epsilon") or "1",
            delta=delta,
            questions=questions,
        )
    else:
        raise InputError("Choose what to do.")
    return office.jobs.submit([one], actor=actor.name, subject=f"{then} {row['name']}")


def _margin(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError("Give the margin of error as a number of rows.") from None


def _propose(office: Office, actor: Actor, row: Row, given: Mapping[str, Any]) -> Response:
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
        why=given.get("why", ""),
        by=actor,
        **amounts,
    )
    return to(f"/proposals/{one}")


# -- proposals


def proposals(actor: Actor, office: Office) -> Response:
    rows = office.store.rows(PROPOSALS, newest="created")
    return office.pages.show(
        "data/proposals.html",
        actor,
        waiting=[_shown(one) for one in rows if one["state"] == "proposed"],
        decided=[_shown(one) for one in rows if one["state"] != "proposed"],
    )


def _shown(row: Row) -> dict[str, Any]:
    asked = json.loads(row["request"])
    exact = {name: asked.get(name) or "0" for name in ("epsilon", "delta", "rho")}
    return {**row, "asked": asked, "cost": cost_words(exact)}


def proposal(proposal: Row, actor: Actor, office: Office) -> Response:
    shown = _shown(proposal)
    asked = shown["asked"]
    mine = proposal["proposer"] == actor.name
    plans: Sequence[Mapping[str, Any]] = ()
    problem = budget = after = None
    dataset = office.datasets.get(proposal["dataset"])
    if proposal["state"] == "proposed" and dataset is not None:
        try:
            (office.desks if asked.get(ONLINE) else office.releases).request_of(proposal)
            plans = _plans(office, dataset, {**asked, "settings_": asked["settings"]})
            budget = office.datasets.spending(dataset["population"])
            after = _left_after(budget, plans[0])
        except PublishError as error:
            problem = office.hide(str(error))
    may_approve = actor.may_decide and not (office.config.two_person and mine)
    return office.pages.show(
        "data/proposal.html", actor, row=shown, plans=plans, problem=problem, budget=budget,
        after=after, may_approve=may_approve, mine=mine,
    )  # fmt: skip


def _left_after(budget: Mapping[str, Any], plan: Mapping[str, Any]) -> str | None:
    """What would be left of a budget in epsilon alone; other currencies are the ledger's to say."""
    left, cost = budget["remaining"], plan["cost"]
    if any(Fraction(one["rho"]) for one in (left, cost)):
        return None
    rest = Fraction(left["epsilon"]) - Fraction(cost["epsilon"])
    return decimal(str(rest)) if rest >= 0 else None


def approve(one: str, actor: Actor, office: Office) -> Response:
    return to(f"/jobs/{office.releases.approve(one, by=actor)}")


def decline(one: str, form: FormData, actor: Actor, office: Office) -> Response:
    if office.releases.proposal(one)["proposer"] != actor.name and not actor.may_decide:
        raise HTTPException(403, "This is for whoever proposed it, and for approvers.")
    office.releases.decline(one, reason=str(form.get("reason", "")), by=actor)
    return to("/proposals")


# -- jobs


def jobs(actor: Actor, office: Office) -> Response:
    rows = office.store.rows(JOBS, newest="created", most=100)
    return office.pages.show(
        "office/jobs.html", actor, jobs=[office.jobs.status(row["id"]) for row in rows]
    )


def job_part(job: str, actor: Actor, office: Office) -> Response:
    """The part that is asked for again while a job runs."""
    answer = job_page(job, actor, office, template="office/job_part.html")
    if office.jobs.status(job).over:
        answer.headers["hx-refresh"] = "true"  # the whole page says what can be done now
    return answer


def job_page(
    job: str, actor: Actor, office: Office, *, template: str = "office/job.html"
) -> Response:
    status = office.jobs.status(job)
    office.releases.settle()
    public = _public_result(office, status)
    return office.pages.show(
        template,
        actor,
        job=status,
        about=status.subject.partition(" ")[2],
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
    return "?" + urlencode(
        {
            "method": plans[0]["method"],
            "epsilon": ",".join(decimal(one["cost"]["epsilon"]) for one in plans),
            "questions": "\n".join(dict.fromkeys(one["question"] for one in answers)),
            "settings": f"columns={','.join(columns)}" if isinstance(columns, list) else "",
        }
    )


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
    verb = status.verbs[0] if status.verbs else ""
    public = status.state == "done" and verb in ("rehearse", "plan", "compare", "audit")
    results = office.jobs.results(status.id) if public else ()
    return results[0] if results else None


def cancel(one: str, actor: Actor, office: Office) -> Response:
    office.jobs.cancel(one, actor=actor.name)
    return to(f"/jobs/{one}")
