"""The API: the whole way from rows to a public answer, as programs go it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpublish.server.accounts import Role
from dpublish.server.api.bodies import BODIES, document
from dpublish.server.routes import API
from server.conftest import Served
from server.offices import CANARY, ROWS, Program, make_release, open_desk, set_up, write_rows


def programs(served: Served) -> dict[Role, Program]:
    return {role: Program(served.client(), served.token(role)) for role in Role}


@pytest.fixture
def office(serving: Callable[..., Served], tmp_path: Path) -> Served:
    write_rows(tmp_path / "office" / "data")
    return serving()


def test_from_rows_to_public_answers_and_a_desk(office: Served, tmp_path: Path) -> None:
    by = programs(office)
    curator, approver = by[Role.curator], by[Role.approver]
    set_up(curator, approver, by[Role.admin])
    plan = curator("POST", "/api/datasets/visits/plan", epsilon="1")
    assert plan["cost"]["epsilon"] == "1"
    make_release(curator, approver, "first")
    # the same again is the same: one proposal, one payment
    again = curator(
        "POST", "/api/proposals", dataset="visits", release="first", epsilon="1",
        settings={"columns": "ward,age"},
    )  # fmt: skip
    assert again["state"] == "approved"
    budget = by[Role.auditor]("GET", "/api/ledger/people")
    assert budget["status"]["spent"]["epsilon"] == "1"
    debit = next(one for one in budget["entries"] if one["kind"] == "debit")
    assert debit["detail"]["by"] == {
        "who": "approver", "door": "dpublish serve", "proposed_by": "curator",
        "approved_by": "approver", "two_persons": "kept",
    }  # fmt: skip

    anyone = office.client()
    asked = {"conditions": ["age >= 50", "ward = 'north'"]}
    first = anyone.post("/api/releases/first/query", json=asked, headers={"origin": ""})
    assert first.status_code == 200, first.text
    assert [one["predicate"] for one in first.json()["estimates"]] == asked["conditions"]
    assert anyone.post("/api/releases/first/query", json=asked).content == first.content
    select = {"select": "select ward, count(*) as n from release group by ward"}
    answer = anyone.post("/api/releases/first/sql", json=select).json()
    assert answer["columns"] == ["ward", "n", "n_low", "n_high"]
    assert anyone.get("/api/releases/first").json()["method"] == "histogram"
    wrong = anyone.post("/api/releases/first/query", json={"conditions": ["agee > 4"]})
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (400, "QueryError")
    assert anyone.post("/api/releases/other/query", json=asked).status_code == 404

    open_desk(curator, approver, "desk")
    researcher = by[Role.researcher]
    curator("POST", "/api/desks/desk/seats", person="researcher", allowed=2)
    before = researcher("GET", "/api/desks/desk")
    assert before["session"]["hard_left"] == 8
    assert before["session"]["promise"]
    assert before["seat"] == {"allowed": 2, "asked": 0, "hard": 0, "left": 2}
    one = researcher("POST", "/api/desks/desk/ask", query="ward = 'north'", key="a")
    assert researcher("POST", "/api/desks/desk/ask", query="ward = 'north'", key="a") == one
    assert researcher("GET", "/api/desks/desk")["seat"]["asked"] == 1
    researcher("POST", "/api/desks/desk/ask", query="ward = 'south'", key="b")
    full = office.client().post(
        "/api/desks/desk/ask", json={"query": "ward = 'south'", "key": "c"},
        headers=office.token(Role.researcher),
    )  # fmt: skip
    assert (full.status_code, full.json()["error"]["type"]) == (409, "BudgetExceeded")
    curator("POST", "/api/desks/desk/close")

    checks = by[Role.auditor]("GET", "/api/audit/releases")["releases"]
    assert [(one["name"], one["paid"]) for one in checks] == [("first", True)]
    curator("POST", "/api/office/releases/first/withdraw", reason="test")
    assert anyone.post("/api/releases/first/query", json=asked).status_code == 410
    _nothing_private(office, tmp_path)


_ALONE = re.compile(rb"(?<![\w.+/=-])%d(?![\w+/=-])" % ROWS)


def _nothing_private(office: Served, tmp_path: Path) -> None:
    """No cell of the rows, nor their number, in the service's own database.

    The number counts where it stands by itself: its digits alone also turn up by chance, in every
    fifth database or so, inside the tens of thousands of random digits of keys and hashes.
    """
    office.office.store.close()
    held = b"".join(path.read_bytes() for path in (tmp_path / "office").glob("office.sqlite*"))
    assert len(held) > 10_000
    assert CANARY.encode() not in held
    assert not _ALONE.search(held)


def test_a_number_of_rows_is_seen_where_it_stands_by_itself() -> None:
    assert _ALONE.search(b'{"rows": %d}' % ROWS)
    assert _ALONE.search(b"read %d rows" % ROWS)
    assert not _ALONE.search(b"a9%df0" % ROWS)


def test_who_proposes_does_not_approve_unless_the_rule_is_switched_off(
    serving: Callable[..., Served], tmp_path: Path
) -> None:
    write_rows(tmp_path / "office" / "data")
    served = serving(two_person=False)
    both = Program(served.client(), served.token(Role.curator, Role.approver))
    set_up(both, both, programs(served)[Role.admin])
    make_release(both, both, "alone", public=False)
    entries = both("GET", "/api/ledger/people")["entries"]
    said = next(one["detail"]["by"] for one in entries if one["kind"] == "debit")
    assert said["two_persons"] == "switched off"
    strict = serving(two_person=True)
    one = Program(strict.client(), strict.token(Role.curator, Role.approver))
    made = one("POST", "/api/proposals", dataset="visits", release="second", epsilon="1/2",
               settings={"columns": "ward"})  # fmt: skip
    refused = strict.client().post(
        f"/api/proposals/{made['id']}/approve", headers=strict.token(Role.approver, Role.curator)
    )
    assert refused.status_code == 400
    assert "Who proposes does not approve" in refused.text


def test_the_document_describes_every_route_and_every_body_has_a_route() -> None:
    described = document()
    assert described["openapi"] == "3.1.0"
    found = {(path, verb) for path, one in described["paths"].items() for verb in one}
    assert found == {(one.path, verb.lower()) for one in API for verb in one.methods}
    assert {*BODIES} <= {one.handler for one in API}
    for path, verbs in described["paths"].items():
        for verb, one in verbs.items():
            assert one["summary"], f"{verb} {path} has no words"
    query = described["paths"]["/api/releases/{name}/query"]["post"]["requestBody"]
    shown = query["content"]["application/json"]["schema"]["properties"]
    assert set(shown) == {"conditions", "by", "level", "where"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"dataset": "../x", "release": "a"}, "small letters"),
        ({"dataset": "visits", "release": "a", "title": "x" * 161}, "0 to 160"),
        ({"dataset": "visits", "release": "a", "data": "/etc/passwd"}, "has no 'data'"),
        ({"dataset": "visits", "release": "a", "settings": {"k": 3}}, "must be text"),
        ({"dataset": "visits"}, "needs release"),
        (["x"], "one JSON object"),
        ({"dataset": "a\x00", "release": "b"}, "no text has"),
    ],
)
def test_bodies_are_held_to_their_schema(served: Served, body: Any, words: str) -> None:
    answer = served.client().post("/api/proposals", json=body, headers=served.token(Role.curator))
    assert answer.status_code == 400
    assert words in answer.json()["error"]["message"]
    assert set(answer.json()["error"]) == {"type", "message", "exit_code"}


def test_metrics_hold_states_and_no_count_of_rows_or_spending(served: Served) -> None:
    answer = served.client().get("/api/metrics", headers=served.token(Role.auditor))
    assert answer.text.startswith("# TYPE dpublish_up gauge\ndpublish_up 1\n")
