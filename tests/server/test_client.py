"""`dp.connect`: the objects of local use, with rows that stay in the office."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpublish as dp
from dpublish.server.accounts import Role
from server.offices import Running, open_desk, set_up, until


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path)
    yield made
    made.stop()


def test_a_release_is_proposed_made_fetched_and_asked(office: Running, tmp_path: Path) -> None:
    curator, approver = office.program(Role.curator), office.program(Role.approver)
    set_up(curator, approver, office.program(Role.admin))
    there = dp.connect(office.url, token=office.token(Role.curator))
    method = dp.Histogram(columns=["ward", "age"])
    visits = there.curator("visits")
    assert visits.plan(method, epsilon="1/2")["cost"]["epsilon"] == "1/2"
    with pytest.raises(dp.InputError, match="waits for approval"):
        visits.publish(method, epsilon="1/2", key="first", wait=0)

    def agree() -> None:
        waiting = until(lambda: approver("GET", "/api/proposals")["proposals"])
        approver("POST", f"/api/proposals/{waiting[0]['id']}/approve")

    other = threading.Thread(target=agree)
    other.start()
    made = visits.publish(method, epsilon="1/2", key="first", out=tmp_path / "first.dpr")
    other.join()
    again = visits.publish(method, epsilon="1/2", key="first")
    assert again.manifest == made.manifest
    curator("POST", "/api/office/releases/first/publish")
    public = dp.connect(office.url)
    until(lambda: public.releases())
    fetched = public.open_release("first")
    assert fetched.manifest == made.manifest
    here = fetched.estimate("age >= 50")
    assert public.estimate("first", "age >= 50") == here
    select = "select ward, count(*) as n from release group by ward"
    assert public.sql("first", select).equals(fetched.sql(select))
    with pytest.raises(dp.QueryError, match="agee"):
        public.estimate("first", "agee > 3")
    with pytest.raises(dp.InputError, match="no published release"):
        public.open_release("other")

    open_desk(curator, approver, "desk")
    token = office.token(Role.researcher)
    curator("POST", "/api/desks/desk/seats", person="researcher", allowed=3)
    desk = dp.connect(office.url, token=token).online("desk")
    assert desk.status()["seat"]["left"] == 3
    first = desk.ask("ward = 'north'", key="a")
    assert desk.ask("ward = 'north'", key="a") == first
    assert first.estimate.low <= first.estimate.value <= first.estimate.high


def test_what_cannot_be_reached_or_sent_says_so() -> None:
    with pytest.raises(dp.PublishError, match="cannot be reached"):
        dp.connect("http://127.0.0.1:9", timeout=2).releases()
    with pytest.raises(dp.InputError, match="https:// only"):
        dp.connect("http://example.org", token="dpo_x")
