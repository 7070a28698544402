"""From a file of rows to a public page, as people of the office do it, without a browser."""

from __future__ import annotations

import json
import re
import stat
import time
import zipfile
from collections.abc import Callable
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from starlette.testclient import TestClient

from dpublish.curator.check import check_data
from dpublish.declare.schema import Schema
from dpublish.requests.base import plain
from dpublish.requests.curator import NewKey
from dpublish.server.accounts import Role
from dpublish.server.config import Uploads
from dpublish.server.pages.curator import without_quotes
from server.conftest import Served, post

SCHEMA = """
[dataset]
name = "visits"
title = "Visits to the clinic"
publisher = "The clinic"
population = "patients of the clinic"
neighbours = "add-remove-one"
unit = "patient"
max_rows_per_unit = 2
nominal_size = 500

[columns.age]
kind = "integer"
lower = 0
upper = 100
bins = 5
source = "what the form accepts"

[columns.ward]
kind = "categorical"
levels = ["north", "south"]
"""
CANARY = "QX7canaryVALUE"


def write_rows(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{n % 300},{n % 101},{('north', 'south', CANARY)[n % 3]}" for n in range(600)]
    (folder / "visits.csv").write_text("patient,age,ward\n" + "\n".join(lines) + "\n")


def finished(served: Served, client: TestClient, answer: Any) -> str:
    """The job that an answer leads to, once it is over."""
    assert answer.status_code == 303, answer.text
    where: str = answer.headers["location"]
    assert where.startswith("/jobs/"), where
    job = where.removeprefix("/jobs/")
    until = time.monotonic() + 120
    while not served.office.jobs.status(job).over:
        assert time.monotonic() < until, "the job takes too long"
        assert client.get(where).status_code == 200
        time.sleep(0.1)
    page = client.get(where)
    assert page.status_code == 200
    return job


def stated(served: Served, job: str) -> str:
    status = served.office.jobs.status(job)
    assert status.state == "done", status
    return job


@pytest.fixture
def ready(served: Served) -> Served:
    """An office with a budget, rows in its place, and a data set with a schema in force."""
    write_rows(served.office.state / "data")
    admin = served.person(Role.admin)
    opened = post(admin, "/ledger", {"title": "Patients", "name": "patients", "epsilon": "3"})
    assert opened.status_code == 303, opened.text
    curator = served.person(Role.curator, name="ada")
    given = {"title": "Visits", "name": "visits", "rows": "data/visits.csv", "budget": "patients"}
    assert post(curator, "/datasets", given).status_code == 303
    saved = post(
        curator, "/datasets/visits/schema", {"mode": "text", "text": SCHEMA, "then": "in force"}
    )
    assert saved.status_code == 303, saved.text
    return served


def propose(served: Served, name: str = "visits-2024", epsilon: str = "1") -> str:
    given = {
        "method": "histogram", "columns": ["age", "ward"], "epsilon": epsilon, "then": "propose",
        "title": "Visits 2024", "release": name, "why": "the yearly report",
    }  # fmt: skip
    answer = post(served.person(Role.curator, name="ada"), "/datasets/visits/plan", given)
    assert answer.status_code == 303, answer.text
    return str(answer.headers["location"]).removeprefix("/proposals/")


def test_from_rows_to_the_public_page_and_back(ready: Served) -> None:
    curator, approver = ready.person(Role.curator, name="ada"), ready.person(Role.approver)
    auditor = ready.person(Role.auditor)

    shown = post(
        curator,
        "/datasets/visits/plan",
        {"method": "histogram", "epsilon": "1", "columns": ["age"], "then": "plan"},
    )
    assert "What this means for one person" in shown.text
    one = propose(ready)
    assert "Another approver decides" in curator.get(f"/proposals/{one}").text
    assert post(curator, f"/proposals/{one}/approve").status_code == 403
    both = ready.person(Role.curator, Role.approver, name="ada-two")
    assert "Approve and make" in both.get(f"/proposals/{one}").text
    job = finished(ready, approver, post(approver, f"/proposals/{one}/approve"))
    stated(ready, job)
    assert "made" in curator.get("/office/releases/visits-2024").text

    for what in ("report", "page"):
        looked = curator.get(f"/office/releases/visits-2024/look/{what}")
        assert looked.status_code == 200
        assert "sha256-" in looked.headers["content-security-policy"]
    history = curator.get("/ledger/patients").text
    assert "proposed by ada" in history
    assert ready.client().get("/releases/visits-2024").status_code == 404
    stated(ready, finished(ready, curator, post(curator, "/office/releases/visits-2024/publish")))
    public = ready.client()
    page = public.get("/releases/visits-2024")
    assert page.status_code == 200
    assert "Visits 2024" in page.text
    assert "The clinic (20" in page.text
    assert "Visits 2024" in public.get("/").text
    assert "Visits 2024" in public.get("/?q=clinic+WARD").text
    assert "Visits 2024" not in public.get("/?q=weather").text
    again = public.get("/releases/visits-2024", headers={"if-none-match": page.headers["etag"]})
    assert again.status_code == 304
    feed = public.get("/catalogue.json").json()["releases"][0]
    for file in feed["files"]:
        got = public.get(file["url"])
        assert got.status_code == 200, file
        assert len(got.content) == file["bytes"]
        assert "unsafe" not in got.headers["content-security-policy"]
    dcat = public.get("/catalogue.jsonld").json()["dcat:dataset"][0]
    assert dcat["dct:title"] == "Visits 2024"
    assert public.get("/feed.json").json()["items"][0]["title"] == "Visits 2024"

    for path in ("", "/ledger", "/releases", "/proofs", "/runs", "/actions"):
        assert auditor.get(f"/audit{path}").status_code == 200, path
    assert "paid, unaltered" in auditor.get("/audit/releases").text
    assert "code differs" not in auditor.get("/audit/proofs").text
    taken = zipfile.ZipFile(BytesIO(auditor.get("/audit/export").content))
    assert json.loads(taken.read("releases.json"))[0]["paid"] is True
    everything = b"".join(taken.read(name) for name in taken.namelist()).decode()
    assert str(ready.office.state) not in everything

    gone = post(curator, "/office/releases/visits-2024/withdraw", {"reason": "a wrong ward"})
    assert gone.status_code == 303
    withdrawn = public.get("/releases/visits-2024")
    assert withdrawn.status_code == 410
    assert "a wrong ward" in withdrawn.text
    assert "stays spent" in withdrawn.text
    assert public.get("/releases/visits-2024/visits-2024.dpr").status_code == 410
    assert "1" in curator.get("/ledger/patients").text
    assert ready.office.store.broken_action() is None


def test_the_private_view_of_a_check_quotes_no_cell(ready: Served) -> None:
    curator = ready.person(Role.curator, name="ada")
    job = stated(ready, finished(ready, curator, post(curator, "/datasets/visits/check")))
    page = curator.get(f"/checks/{job}")
    assert page.status_code == 200
    assert "as private as they are" in page.text
    assert page.headers["cache-control"] == "no-store"
    assert CANARY not in page.text
    assert CANARY not in curator.get(f"/jobs/{job}").text
    for role in (Role.approver, Role.auditor, Role.admin, Role.researcher):
        assert ready.person(role).get(f"/checks/{job}").status_code == 403
    assert post(curator, f"/checks/{job}/delete").status_code == 303
    assert curator.get(f"/checks/{job}").status_code == 400


def test_examples_are_quoted_where_the_configuration_says_so(
    serving: Callable[..., Served],
) -> None:
    found = {
        "problems": [f"Column 'ward' (categorical): 3% are read. Others, for example: '{CANARY}'."],
        "notes": [f"The data has no column 'x'. It has: {CANARY}, b."],
        "columns": [{"column": "ward", "examples": [CANARY], "hints": [f"'{CANARY}' is a mark"]}],
        "unit": None,
    }
    assert CANARY not in json.dumps(without_quotes(found, ["ward"]))
    assert "'ward'" in without_quotes(found, ["ward"])["problems"][0]


@pytest.mark.parametrize(
    "cell",
    [
        f"O'{CANARY}",
        f"'{CANARY}",
        f"{CANARY}'",
        f"it's {CANARY} 'n' it's",
        f"\\' {CANARY}",
        f"ward' {CANARY}",
        f"Column 'ward' {CANARY}",
        f"{CANARY} It has: x",
    ],
)
def test_no_part_of_a_cell_that_holds_quotes_is_shown(cell: str) -> None:
    schema = Schema.from_toml(
        '[dataset]\nname = "visits"\n[columns.ward]\nkind = "categorical"\n'
        'levels = ["north", "south"]\noutside = "other"\n'
        '[columns.days]\nkind = "integer"\nlower = 0\nupper = 9\nbins = 5\n'
    )
    rows = pl.DataFrame({"ward": [cell, "x", f"{cell} y"] * 9, "days": [f"{cell}1", cell, ""] * 9})
    found = plain(check_data(rows, schema).to_json())
    assert CANARY in json.dumps(found["problems"])
    shown = without_quotes(found, ["ward", "days"])
    assert CANARY not in json.dumps(shown)
    for name, said in zip(("ward", "days"), shown["problems"], strict=False):
        assert said.startswith(f"Column '{name}' (")
        assert "Others, for example: '…'." in said
    headless = pl.DataFrame({f"wart' {cell}": ["north"]})
    said = plain(check_data(headless, schema).to_json())
    assert CANARY in json.dumps(said["problems"])
    shown = without_quotes(said, [])
    assert CANARY not in json.dumps(shown)
    assert shown["problems"][0] == "The data has no column 'ward'."


def test_a_draft_from_rows_is_private_until_it_was_declared(ready: Served) -> None:
    curator = ready.person(Role.curator, name="ada")
    answer = post(curator, "/datasets/visits/schema/start", {"how": "draft"})
    stated(ready, finished(ready, curator, answer))
    assert post(curator, "/datasets/visits/schema/draft").status_code == 303
    page = curator.get("/datasets/visits/schema").text
    assert "Drafted from the rows" in page
    refused = post(
        curator,
        "/datasets/visits/schema",
        {"mode": "text", "text": ready.office.datasets.editing("visits"), "then": "in force"},
    )
    assert refused.status_code == 400
    assert "[draft] table is still there" in refused.text


def test_a_rehearsal_and_a_solved_epsilon_are_free(ready: Served) -> None:
    curator = ready.person(Role.curator, name="ada")
    given = {
        "method": "histogram",
        "columns": ["age"],
        "questions": "age >= 40",
        "epsilon": "0.5,1",
    }
    job = finished(
        ready, curator, post(curator, "/datasets/visits/plan", {**given, "then": "rehearse"})
    )
    page = curator.get(f"/jobs/{job}").text
    assert "What answers would look like" in page
    back = curator.get(unescape(re.findall(r'"(/datasets/visits/plan[^"]*)"', page)[0])).text
    assert "age &gt;= 40" in back
    assert 'value="0.5,1"' in back
    solved = {**given, "epsilon": "", "error": "40", "then": "solve"}
    job = finished(ready, curator, post(curator, "/datasets/visits/plan", solved))
    assert "is enough for that margin" in curator.get(f"/jobs/{job}").text
    assert ready.office.store.rows  # nothing was paid:
    from dpublish.requests.ledger import LedgerStatus

    status = LedgerStatus(url=ready.office.config.ledger_url, name="patients").run()
    assert status.debits == 0


@pytest.mark.parametrize(
    ("method", "setting"),
    [
        ("importance-weights", "public=/etc/passwd"),
        ("importance-weights", "public=../../office.key"),
        ("projected-histogram", "public_data=data/visits.csv"),
        ("importance-weights", "alternatives=/etc/passwd"),
    ],
)
def test_no_setting_names_a_file_of_the_server(ready: Served, method: str, setting: str) -> None:
    curator = ready.person(Role.curator, name="ada")
    for then in ("plan", "rehearse", "propose"):
        given = {
            "method": method,
            "settings": setting,
            "epsilon": "1",
            "then": then,
            "release": "x",
        }
        answer = post(curator, "/datasets/visits/plan", given)
        assert answer.status_code == 400
        assert "no file of the server can be named" in answer.text


def test_every_setting_that_takes_a_path_is_known() -> None:
    from dpublish.requests.curator import MethodList, Methods
    from dpublish.server.releases import FILE_SETTINGS

    found = Methods().run()
    assert isinstance(found, MethodList)
    named = {
        setting.name
        for door in ("release", "online")
        for method in found.by_door[door]  # type: ignore[index]
        for setting in method.settings
        if "path" in setting.text.lower()
    }
    assert named
    assert named <= FILE_SETTINGS


def test_no_schema_names_a_file_of_the_server(ready: Served) -> None:
    curator = ready.person(Role.curator, name="ada")
    text = '[dataset]\nname = "x"\n[items]\nuniverse_file = "/etc/passwd"\n'
    given = {"mode": "text", "text": text, "then": "in force"}
    answer = post(curator, "/datasets/visits/schema", given)
    assert answer.status_code == 400
    assert "names a file of the server" in answer.text
    assert "root:" not in answer.text


def test_rows_come_from_configured_places_only(ready: Served, tmp_path: Path) -> None:
    curator = ready.person(Role.curator, name="ada")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    data = ready.office.state / "data"
    (data / "linked.csv").symlink_to(tmp_path / "secret.csv")
    (data / ".hidden.csv").write_text("a\n1\n")
    for rows in (
        "data/../office.key",
        "data/linked.csv",
        "data/.hidden.csv",
        "/etc/passwd",
        "data/",
    ):
        given = {"title": "x", "name": "x", "rows": rows, "budget": "patients"}
        answer = post(curator, "/datasets", given)
        assert answer.status_code == 400, rows
    assert "linked.csv" not in curator.get("/datasets/new").text


def test_files_that_can_be_read_are_offered() -> None:
    from dpublish.server.datasets import ENDINGS
    from dpublish.sources import sources
    from dpublish.sources.files import PACKED

    packed = {one + end for one in sources._TEXTS for end in PACKED}
    assert set(ENDINGS) == {*sources._TEXTS, *packed, *sources._WHOLE}


def test_uploads_are_kept_for_the_owner_alone_and_deleted_after_use(
    serving: Callable[..., Served],
) -> None:
    served = serving(uploads=Uploads(allowed=True, max_bytes=5000))
    admin, curator = served.person(Role.admin), served.person(Role.curator, name="ada")
    post(admin, "/ledger", {"title": "Patients", "name": "patients", "epsilon": "3"})
    assert post(curator, "/datasets/upload", files={"file": ("x.exe", b"a")}).status_code == 400
    large = post(curator, "/datasets/upload", files={"file": ("x.csv", b"a" * 6000)})
    assert large.status_code == 400
    huge = post(curator, "/datasets/upload", files={"file": ("x.csv", b"a" * 1_100_000)})
    assert huge.status_code == 413
    rows = b"patient,age,ward\n" + b"".join(b"%d,%d,north\n" % (n, n) for n in range(90))
    assert post(curator, "/datasets/upload", files={"file": ("../x.csv", rows)}).status_code == 303
    path = next((served.office.state / "uploads").glob("*.csv"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    given = {"title": "x", "name": "visits", "rows": f"uploads/{path.name}", "budget": "patients"}
    assert post(curator, "/datasets", given).status_code == 303
    schema = {"mode": "text", "text": SCHEMA, "then": "in force"}
    assert post(curator, "/datasets/visits/schema", schema).status_code == 303
    approver = served.person(Role.approver)
    answer = post(approver, f"/proposals/{propose(served)}/approve")
    stated(served, finished(served, approver, answer))
    assert not path.exists()
    assert "rows uploaded" in str(served.office.store.actions())


def test_uploads_are_off_unless_they_are_allowed(serving: Callable[..., Served]) -> None:
    served = serving()
    curator = served.person(Role.curator)
    sent = post(curator, "/datasets/upload", files={"file": ("x.csv", b"a\n1\n")})
    assert sent.status_code == 400
    assert "cannot be uploaded" in sent.text
    assert [one.name for one in (served.office.state / "uploads").iterdir()] == ["CACHEDIR.TAG"]


def test_who_proposes_does_not_approve(ready: Served) -> None:
    both = ready.person(Role.curator, Role.approver, name="ada")
    account = ready.office.accounts.find("ada")
    assert account is not None
    ready.office.accounts.change(account["id"], by="test", roles=[Role.curator, Role.approver])
    one = propose(ready)
    both = ready.person(Role.curator, Role.approver, name="ada")
    refused = post(both, f"/proposals/{one}/approve")
    assert refused.status_code == 400
    assert "Who proposes does not approve" in refused.text


def test_a_proposal_is_decided_once(ready: Served) -> None:
    one = propose(ready)
    approver = ready.person(Role.approver)
    assert post(approver, f"/proposals/{one}/decline", {"reason": "too dear"}).status_code == 303
    assert "too dear" in approver.get(f"/proposals/{one}").text
    assert post(approver, f"/proposals/{one}/approve").status_code == 400


def test_a_schema_that_changed_after_a_proposal_stops_it(ready: Served) -> None:
    one = propose(ready)
    curator = ready.person(Role.curator, name="ada")
    given = {"mode": "text", "text": SCHEMA.replace("100", "110"), "then": "in force"}
    assert post(curator, "/datasets/visits/schema", given).status_code == 303
    refused = post(ready.person(Role.approver), f"/proposals/{one}/approve")
    assert refused.status_code == 400
    assert "schema was changed" in refused.text


def test_an_office_of_one_person_that_signs(serving: Callable[..., Served], tmp_path: Path) -> None:
    """Whoever proposes approves too, and the ledger says that the rule was switched off."""
    key = tmp_path / "office.key"
    NewKey(path=key, name="The clinic").run()
    served = serving(two_person=False, signing_key=key)
    assert served.client().get("/health").json() == {
        "status": "ok", "tables": "ok", "ledger": "ok"
    }  # fmt: skip
    write_rows(served.office.state / "data")
    ada = served.person(*Role, name="ada")
    post(ada, "/ledger", {"title": "Patients", "name": "patients", "epsilon": "3"})
    given = {"title": "Visits", "name": "visits", "rows": "data/visits.csv", "budget": "patients"}
    assert post(ada, "/datasets", given).status_code == 303
    schema = {"mode": "text", "text": SCHEMA, "then": "in force"}
    assert post(ada, "/datasets/visits/schema", schema).status_code == 303
    stated(served, finished(served, ada, post(ada, f"/proposals/{propose(served)}/approve")))
    page = ada.get("/office/releases/visits-2024").text
    assert "two-person rule switched off" in page
    assert "The clinic" in page
    assert "(two-person rule off)" in ada.get("/ledger/patients").text
    assert post(ada, "/office/releases/visits-2024/sign").status_code == 303


def test_a_ledger_that_cannot_be_read_is_told(ready: Served) -> None:
    (ready.office.state / "office.ledger").write_bytes(b"nonsense")
    told = ready.client().get("/health")
    assert told.status_code == 503
    assert told.json()["ledger"] == "cannot be read"
    page = ready.person(Role.curator, name="ada").get("/ledger")
    assert page.status_code == 200
    assert str(ready.office.state) not in page.text
