"""Headers, hosts, sizes, rates, and words that leave the service."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpublish.server.accounts import Role
from dpublish.server.config import Limits
from dpublish.server.routes import ROUTES
from dpublish.server.security import HEADERS, Hide, Rate
from server.conftest import HERE, Served, post


def test_every_answer_carries_the_headers(served: Served) -> None:
    people = [served.client(), served.person(*Role)]
    paths = ["/none-such", "/api/none-such", *[one.path for one in ROUTES if "{" not in one.path]]
    for client in people:
        for path in paths:
            answer = client.get(path)
            for name in HEADERS:
                assert name in answer.headers, (path, name)
            assert "unsafe" not in answer.headers["content-security-policy"]
            assert "server" not in answer.headers


def test_what_is_behind_login_is_stored_nowhere(served: Served) -> None:
    person = served.person(*Role)
    for route in ROUTES:
        if route.who != "public" and "GET" in route.methods and "{" not in route.path:
            assert person.get(route.path).headers["cache-control"] == "no-store", route.path


def test_cookies_are_secure_behind_https(serving: Callable[..., Served]) -> None:
    served = serving(url="https://data.example.org")
    served.office.accounts.add("ada", [Role.curator], by="test", password="correct horse battery")
    client = served.client()
    client.base_url = "https://data.example.org"
    client.headers["origin"] = "https://data.example.org"
    given = {"name": "ada", "password": "correct horse battery"}
    answer = client.post("/login", data=given)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-dpublish=")
    for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
        assert word in cookie
    assert "strict-transport-security" in answer.headers


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8765", "", "127.0.0.1.evil.example"]
)
def test_other_names_are_not_served(served: Served, host: str) -> None:
    assert served.client().get("/", headers={"host": host}).status_code == 421


def test_long_bodies_are_refused(serving: Callable[..., Served]) -> None:
    served = serving(limits=Limits(form_bytes=1000))
    person = served.person(*Role)
    sent = post(person, "/account/tokens", {"name": "x" * 2000})
    assert sent.status_code == 413

    def pieces() -> object:
        for _ in range(20):
            yield b"name=" + b"x" * 100 + b"&"

    told = {"content-type": "application/x-www-form-urlencoded"}
    assert served.client().post("/login", content=pieces(), headers=told).status_code == 413


def test_requests_are_limited_per_account(serving: Callable[..., Served]) -> None:
    served = serving(limits=Limits(requests_per_minute=5))
    person = served.person(Role.curator)
    codes = [person.get("/account").status_code for _ in range(8)]
    assert codes[0] == 200
    assert codes[-1] == 429


def test_a_rate_refills_and_forgets() -> None:
    rate = Rate(2)
    assert [rate.allows("a") for _ in range(3)] == [True, True, False]
    assert rate.allows("b")
    for number in range(11_000):
        rate.allows(str(number))
    assert not rate.allows("a")
    assert all(Rate(0).allows("a") for _ in range(100))


def test_paths_and_addresses_are_taken_out_of_text() -> None:
    hide = Hide({"/srv/office": "the state folder", "postgresql://u:p@db/x": "the ledger"})
    said = hide("Cannot read '/srv/office/files/a.toml' or '/srv/office' of postgresql://u:p@db/x.")
    assert "/srv" not in said
    assert "u:p" not in said
    assert "a.toml" in said
    assert hide.tree({"a": ["/srv/office/x/y.csv", 3, None]}) == {"a": ["y.csv", 3, None]}


def test_an_unforeseen_failure_says_a_number_and_nothing_else(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("row 17: Mrs. Secret")

    monkeypatch.setattr(served.office.accounts, "all", broken)
    answer = served.person(Role.admin).get("/accounts")
    assert answer.status_code == 500
    assert "incident" in answer.text
    assert "Secret" not in answer.text
    assert "Secret" not in caplog.text
    assert "RuntimeError" in caplog.text
    assert HERE not in answer.text
