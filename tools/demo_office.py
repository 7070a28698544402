"""An office with made-up people and rows: `make demo-serve`, the browser tests, the screenshot.

Everything goes through the same doors as in earnest: a budget is opened, a schema put in force, a
release proposed by one person, approved by another, paid from the ledger and published.
"""

from __future__ import annotations

import argparse
import logging
import os
import time
from pathlib import Path

from starlette.applications import Starlette

from dpublish.cli.hospital import SCHEMA, write_hospital
from dpublish.requests.ledger import OpenLedger
from dpublish.server.accounts import Actor, Role, read_roles
from dpublish.server.app import Office, create_app
from dpublish.server.config import Config
from dpublish.server.listen import serve_app
from dpublish.server.store import BUDGETS

PEOPLE = {
    "ada": ("Ada, curator", [Role.curator]),
    "ben": ("Ben, approver", [Role.approver]),
    "cleo": ("Cleo, auditor", [Role.auditor]),
    "dora": ("Dora, researcher", [Role.researcher]),
    "emil": ("Emil, admin", [Role.admin]),
}
WORDS = """
[dataset]
title = "Hospital visits 2023"
description = "Visits of invented patients: age, ward, emergencies, length of stay, readmission."
publisher = "Example hospital"
contact = "data@hospital.example"
purpose = "Planning of wards and staff"
licence = "CC-BY-4.0"
population = "patients of the example hospital"
"""
PASSWORD = "only for the demo"


def actor(office: Office, name: str) -> Actor:
    row = office.accounts.find(name)
    assert row is not None
    return Actor(
        account=row["id"],
        name=name,
        shown=row["shown"],
        roles=read_roles(row["roles"]),
        via="program",
    )


def prepare(state: Path, *, port: int = 8765, publish: bool = True) -> Starlette:
    """The application, with people, a budget, a data set and a published release."""
    config = Config.read(state=state, port=port, title="Example hospital, data office")
    app = create_app(config)
    office: Office = app.state.office
    if office.accounts.all():
        return app
    for name, (shown, roles) in PEOPLE.items():
        office.accounts.add(name, roles, by="demo", shown=shown, password=PASSWORD)
    write_hospital(state / "data")
    OpenLedger(url=config.ledger_url, name="patients", epsilon="4").run()
    office.store.add(
        BUDGETS,
        {
            "name": "patients", "title": "Patients of the example hospital",
            "amount": "epsilon = 4", "created": "2024-01-08", "creator": "emil",
        },
        by="emil", action="budget opened", subject="patients",
    )  # fmt: skip
    office.datasets.add(
        "visits-2023", title="Hospital visits 2023", place="data", item="hospital.csv",
        population="patients", by="ada",
    )  # fmt: skip
    text = SCHEMA.replace("[dataset]\n", WORDS.lstrip(), 1)
    problems = office.datasets.put_in_force("visits-2023", text, by="ada")
    assert not problems, problems
    if publish:
        make_release(office, "wards-2023", "Patients by age, ward and readmission, 2023")
    return app


def make_release(office: Office, name: str, title: str) -> None:
    """Proposed by Ada, approved by Ben, published by Ada."""
    dataset = office.datasets.get("visits-2023")
    assert dataset is not None
    one = office.releases.propose(
        dataset, release=name, title=title, method="histogram",
        settings={"columns": "age,ward,readmitted"}, epsilon="1", delta=None, rho=None,
        why="For the planning of wards", by=actor(office, "ada"),
    )  # fmt: skip
    wait(office, office.releases.approve(one, by=actor(office, "ben")))
    wait(office, office.releases.publish(name, by=actor(office, "ada")))


def wait(office: Office, job: str) -> None:
    while not (status := office.jobs.status(job)).over:
        time.sleep(0.1)
    assert status.state == "done", status
    office.releases.settle()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, default=Path("demo-office"))
    parser.add_argument("--port", type=int, default=8765)
    asked = parser.parse_args()
    state = asked.state.resolve()
    # the demo's ledger is anchored in its own folder, so that deleting the folder deletes it all
    os.environ.setdefault("DPUBLISH_STATE", str(state / "anchors"))
    logging.getLogger("dpublish").setLevel(logging.ERROR)
    print("Making an office with invented patients; the first start takes a moment.", flush=True)
    app = prepare(state, port=asked.port)
    people = ", ".join(PEOPLE)
    print(f"Log in as one of {people}; the password is '{PASSWORD}'.", flush=True)
    serve_app(app)


if __name__ == "__main__":
    main()
