"""`make demo-serve`: the office with invented patients starts with a published release."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from dpublish.server.store import BUDGETS

TOOL = Path(__file__).parents[2] / "tools" / "demo_office.py"


def test_the_demo_office_has_a_release_that_anybody_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "anchors"))
    prepare = runpy.run_path(str(TOOL))["prepare"]
    app = prepare(tmp_path / "office")
    client = TestClient(app, base_url="http://127.0.0.1:8765", follow_redirects=True)
    assert "Patients by age, ward and readmission, 2023" in client.get("/").text
    (budget,) = app.state.office.store.rows(BUDGETS)
    assert budget["title"] == "Patients of the example hospital"
    prepare(tmp_path / "office")  # a second start finds the office as it is
