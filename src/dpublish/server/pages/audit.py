"""What an auditor needs: the ledger's chain and its check, releases against payments, proofs
tied to code, runs of audits, versions, and who did what when. All of it can be taken away as one
file."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import platform
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError, PublishError
from dpublish.requests.audit import Audit, Proofs
from dpublish.requests.base import TierName
from dpublish.requests.curator import Methods, VerifyPaid
from dpublish.requests.ledger import VerifyLedger
from dpublish.server.accounts import Actor
from dpublish.server.app import Office
from dpublish.server.pages.office import entries_of
from dpublish.server.pages.templates import to
from dpublish.server.store import DATASETS, JOBS, PROPOSALS, RELEASES, now, picked

PER_PAGE = 200


def overview(actor: Actor, office: Office) -> Response:
    return office.pages.show(
        "audit/overview.html",
        actor,
        broken=office.store.broken_action(),
        actions=office.store.actions(most=12),
        budgets=office.datasets.budgets(),
        runs=_runs(office)[:8],
        versions=versions(),
        count=len(office.store.rows(RELEASES)),
    )


def chain(actor: Actor, office: Office) -> Response:
    """Every ledger recomputed from its first entry, now."""
    return office.pages.show("audit/ledger.html", actor, checks=ledger_checks(office))


def ledger_checks(office: Office) -> list[dict[str, Any]]:
    checks = []
    for row in office.datasets.budgets():
        name = row["name"]
        found: dict[str, Any] = {"budget": name, "ok": False, "problem": None, "entries": []}
        try:
            found["status"] = VerifyLedger(url=office.config.ledger_url, name=name).run().to_json()
            found["ok"] = True
            found["entries"] = entries_of(office, name)
        except PublishError as error:
            found["problem"] = office.hide(str(error))
        checks.append(found)
    return checks


def payments(actor: Actor, office: Office) -> Response:
    """Every release against the ledger's own history, now."""
    return office.pages.show("audit/releases.html", actor, verdicts=verdicts(office))


def verdicts(office: Office) -> list[dict[str, Any]]:
    found = []
    for row in office.releases.all():
        dataset = office.store.one(DATASETS, name=row["dataset"])  # also one that was removed
        path = office.releases.file_of(row["name"])
        if row["state"] in ("making", "failed") or dataset is None or not path.exists():
            continue
        asked = VerifyPaid(
            release=path, ledger=office.config.ledger_url, name=dataset["population"]
        )
        try:
            verdict: Mapping[str, Any] = asked.run().to_json()
        except PublishError as error:
            verdict = {"paid": None, "problems": [str(error)]}
        facts = json.loads(row["facts"] or "{}")
        found.append({
            "name": row["name"], "state": row["state"], "paid": verdict["paid"],
            "problems": [office.hide(one) for one in verdict["problems"]],
            "receipt": facts.get("receipt", {}),
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "signatures": facts.get("signatures", []),
        })  # fmt: skip
    return found


@lru_cache(maxsize=1)
def proof_list() -> Mapping[str, Any]:
    """What is installed does not change while the service runs: hashed once."""
    return Proofs().run().to_json()


def proofs(actor: Actor, office: Office) -> Response:
    """Each proof, the functions it covers, and whether their code is what was read."""
    return office.pages.show("audit/proofs.html", actor, proofs=proof_list()["proofs"])


def runs(actor: Actor, office: Office) -> Response:
    return office.pages.show(
        "audit/runs.html",
        actor,
        runs=_runs(office),
        methods=[one["name"] for door in Methods().run().to_json().values() for one in door],
        tiers=[one.value for one in TierName],
    )


def _runs(office: Office) -> list[dict[str, Any]]:
    found = []
    for row in office.store.rows(JOBS, newest="created"):
        status = office.jobs.status(row["id"])
        if status.verbs == ("audit",):
            results = office.jobs.results(status.id) if status.state == "done" else ()
            found.append(
                {"job": status, "survived": results[0].get("survived") if results else None}
            )
    return found


def start_run(form: FormData, actor: Actor, office: Office) -> Response:
    tier = str(form.get("tier", ""))
    if tier not in TierName.__members__:
        raise InputError("Choose a tier of audits.")
    one = Audit(method=str(form.get("method", "")), tiers=(TierName(tier),))
    job = office.jobs.submit([one], actor=actor.name, subject=f"audit {one.method}")
    return to(f"/jobs/{job}")


def actions(request: Request, actor: Actor, office: Office) -> Response:
    """Who did what, when."""
    text = request.query_params.get("before", "")
    before = int(text) if text.isdecimal() and len(text) < 18 else None
    found = office.store.actions(most=PER_PAGE, before=before)
    return office.pages.show(
        "audit/actions.html",
        actor,
        actions=found,
        broken=office.store.broken_action(),
        earlier=found[-1]["seq"] if len(found) == PER_PAGE else None,
    )


def versions() -> dict[str, str]:
    wanted = (
        "dpublish",
        "numpy",
        "polars",
        "pyarrow",
        "sqlalchemy",
        "starlette",
        "uvicorn",
        "cryptography",
    )
    return {"python": platform.python_version(), **{one: metadata.version(one) for one in wanted}}


def export(actor: Actor, office: Office) -> Response:
    """All of it in one archive: nothing in it is a row, a password or a token."""
    office.store.did(actor.name, "audit exported", "everything")
    documents = {
        "about.json": {
            "office": office.config.title,
            "made": now(),
            "by": actor.name,
            "versions": versions(),
        },
        "ledgers.json": ledger_checks(office),
        "releases.json": verdicts(office),
        "proofs.json": proof_list(),
        "proposals.json": office.store.rows(PROPOSALS),
        "audits.json": [
            {"job": vars(one["job"]), "survived": one["survived"]} for one in _runs(office)
        ],
        "people.json": [
            picked(one, "name", "shown", "roles", "active", "created")
            for one in office.accounts.all()
        ],
    }
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in documents.items():
            text = json.dumps(office.hide.tree(value), indent=1, ensure_ascii=False, default=str)
            archive.writestr(name, text)
        lines = io.StringIO()
        writer = csv.DictWriter(
            lines, ["seq", "at", "actor", "action", "subject", "detail", "previous", "hash"]
        )
        writer.writeheader()
        writer.writerows(
            {key: _cell(value) for key, value in one.items()}
            for one in reversed(office.store.actions())
        )
        archive.writestr("actions.csv", lines.getvalue())
    return Response(
        held.getvalue(),
        media_type="application/zip",
        headers={"content-disposition": f'attachment; filename="audit-{now()[:10]}.zip"'},
    )


def _cell(value: Any) -> str:
    """Text that no spreadsheet takes for a formula."""
    text = str(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
