"""Cases generated from the OpenAPI document: whatever is sent, no failure of the server, no cell of
the rows anywhere, and every refusal in the one shape.

By default some hundred cases; nightly 10,000. Half of them name things that exist, so that they
reach what stands behind the first look-up.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings, strategies as st

from dpublish.server.accounts import Role
from dpublish.server.api.bodies import document
from dpublish.server.config import Limits
from server.conftest import HERE, Served
from server.offices import CANARY, ROWS, Program, make_release, open_desk, set_up, write_rows

KNOWN = {
    "/api/datasets": "visits",
    "/api/releases": "first",
    "/api/office": "first",
    "/api/ledger": "people",
    "/api/desks": "desk",
    "/api/methods": "histogram",
}


def office_with_all(serving: Callable[..., Served], tmp_path: Path) -> Served:
    write_rows(tmp_path / "office" / "data")
    served = serving(two_person=False, limits=Limits(requests_per_minute=0))
    every = Program(served.client(), served.token(*Role))
    set_up(every, every, every, epsilon="9000")
    make_release(every, every, "first")
    open_desk(every, every, "desk")
    every("POST", "/api/desks/desk/seats", person="-".join(sorted(Role)), allowed=100_000)
    # jobs are written down and not run: what a worker does is tested elsewhere
    served.office.jobs._begin = lambda job: None  # type: ignore[attr-defined]
    return served


def run_cases(served: Served, cases: int) -> dict[int, int]:
    """How many answers there were with each status."""
    schema = schemathesis.openapi.from_dict(document())
    operations = [one.ok() for one in schema.get_all_operations()]
    header = served.token(*Role)
    client = served.client(raise_server_exceptions=False)
    found: dict[int, int] = {}
    jobs = [row["id"] for row in served.office.store.rows(_table("JOBS"))]
    proposals = [row["id"] for row in served.office.store.rows(_table("PROPOSALS"))]

    def check(case: Any, real: bool, known: str) -> None:
        if real:
            named = {"name": known, "method": known, "job": jobs[0], "proposal": proposals[0]}
            case.path_parameters = {key: named[key] for key in case.path_parameters or {}}
        sent = case.as_transport_kwargs(base_url=HERE)
        kept = {k: v for k, v in dict(sent["headers"]).items() if k.lower() not in _OURS}
        sent["headers"] = {**kept, **header}
        answer = client.request(**{key: sent[key] for key in sent if key in _TAKEN})
        found[answer.status_code] = found.get(answer.status_code, 0) + 1
        label = f"{sent['method']} {sent['url']} {str(sent.get('json'))[:300]}"
        assert answer.status_code < 500, f"{label}: {answer.status_code} {answer.text[:300]}"
        said = answer.text + str(answer.headers)
        assert CANARY not in said, label
        assert str(served.office.state) not in said, label
        if answer.status_code >= 400:
            error = json.loads(answer.text)["error"]
            assert {"type", "message", "exit_code"} <= set(error), label

    each = max(1, cases // len(operations))
    for operation in operations:
        path = str(operation.path)
        known = next((one for start, one in KNOWN.items() if path.startswith(start)), "x")
        if path.endswith(("/close", "/withdraw")):
            known = "none-such"  # what would end what the other cases ask

        _tried(operation.as_strategy(), each, partial(check, known=known))
    return found


def _tried(cases: Any, most: int, check: Callable[..., None]) -> None:
    @hypothesis.seed(7)
    @settings(
        max_examples=most, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(case=cases, real=st.booleans())
    def one(case: Any, real: bool) -> None:
        check(case, real)

    one()


_OURS = ("authorization", "user-agent")
_TAKEN = ("method", "url", "headers", "params", "json", "data", "content", "cookies")


def _table(name: str) -> Any:
    from dpublish.server import store

    return getattr(store, name)


def hold_against(served: Served, tmp_path: Path, cases: int, caplog: Any) -> dict[int, int]:
    caplog.set_level(logging.DEBUG)
    found = run_cases(served, cases)
    assert CANARY not in caplog.text
    assert served.office.store.broken_action() is None
    served.office.store.close()
    held = b"".join(path.read_bytes() for path in (tmp_path / "office").glob("office.sqlite*"))
    assert CANARY.encode() not in held
    assert f'"rows": {ROWS}'.encode() not in held
    return found


def test_some_hundred_cases(
    serving: Callable[..., Served], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = office_with_all(serving, tmp_path)
    found = hold_against(served, tmp_path, 300, caplog)
    assert found[200] > 30, found


@pytest.mark.nightly
def test_ten_thousand_cases(
    serving: Callable[..., Served], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = office_with_all(serving, tmp_path)
    # some endpoints have fewer different cases than their share
    found = hold_against(served, tmp_path, 11_500, caplog)
    print(f"answers by status: {dict(sorted(found.items()))}")
    assert sum(found.values()) >= 10_000
