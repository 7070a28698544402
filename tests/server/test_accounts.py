"""Passwords, links, tokens and sessions: what lets a person in, and what does not."""

from __future__ import annotations

import stat
from collections.abc import Callable

import pytest

from dpublish.errors import InputError
from dpublish.server.accounts import Role
from dpublish.server.store import LINKS, LOGINS, TOKENS, now
from server.conftest import PASSWORD, Served, form_key, post


def log_in(served: Served, name: str, password: str) -> int:
    sent = served.client().post("/login", data={"name": name, "password": password})
    return int(sent.status_code)


def test_a_password_lets_its_owner_in_and_nobody_else(served: Served) -> None:
    served.office.accounts.add("ada", [Role.curator], by="test", password=PASSWORD)
    assert log_in(served, "ada", PASSWORD) == 303
    assert log_in(served, "ADA ", PASSWORD) == 303
    assert log_in(served, "ada", PASSWORD + "x") == 401
    assert log_in(served, "nobody", PASSWORD) == 401
    assert PASSWORD not in str(served.office.accounts.all())


def test_the_answer_does_not_tell_whether_an_account_exists(served: Served) -> None:
    served.office.accounts.add("ada", [Role.curator], by="test", password=PASSWORD)
    pages = [
        served.client().post("/login", data={"name": name, "password": "wrong password"}).text
        for name in ("ada", "bob")
    ]
    assert pages[0] == pages[1]


def test_guessing_is_slowed_down(serving: Callable[..., Served]) -> None:
    served = serving()
    codes = [log_in(served, "ada", "guess number one") for _ in range(12)]
    assert codes[0] == 401
    assert codes[-1] == 429


def test_a_link_works_once(served: Served) -> None:
    secret = served.office.first_link()
    client = served.client()
    shown = client.get(f"/login/link?key={secret}")
    assert "lets you in once" in shown.text
    entered = client.post("/login/link", data={"key": secret})
    assert entered.status_code == 303
    assert client.get("/account").status_code == 200
    assert served.client().post("/login/link", data={"key": secret}).status_code == 401
    assert secret not in str(served.office.store.rows(LINKS))


def test_a_link_is_offered_until_somebody_can_log_in(served: Served) -> None:
    first = served.office.first_link()
    assert first is not None
    client = served.client()
    client.post("/login/link", data={"key": first})
    assert served.office.first_link() is not None
    changed = post(client, "/account/password", {"password": PASSWORD, "again": PASSWORD})
    assert changed.status_code == 303
    assert served.office.first_link() is None
    assert log_in(served, "admin", PASSWORD) == 303


def test_a_session_is_signed_and_bound_to_its_browser(served: Served) -> None:
    person = served.person(Role.curator)
    cookie = person.cookies[served.office.cookie]
    assert person.get("/account").status_code == 200
    for forged in (cookie[:-1] + ("0" if cookie[-1] != "0" else "1"), cookie.split(".")[0], "."):
        other = served.client()
        other.cookies.set(served.office.cookie, forged)
        assert other.get("/account").status_code == 303
    stolen = served.client()
    stolen.cookies.set(served.office.cookie, cookie)
    stolen.headers["user-agent"] = "another browser"
    assert stolen.get("/account").status_code == 303
    assert cookie.split(".")[0] not in str(served.office.store.rows(LOGINS))


@pytest.mark.parametrize("column", ["seen", "expires"])
def test_a_session_ends(served: Served, column: str) -> None:
    person = served.person(Role.curator)
    account = served.office.accounts.find("curator")
    assert account is not None
    served.office.store.set(
        LOGINS, {"account": account["id"]}, {column: "2000-01-01T00:00:00.000Z"}
    )
    assert person.get("/account").status_code == 303


def test_logging_out_ends_the_session_for_good(served: Served) -> None:
    person = served.person(Role.curator)
    cookie = person.cookies[served.office.cookie]
    assert post(person, "/logout").status_code == 303
    again = served.client()
    again.cookies.set(served.office.cookie, cookie)
    assert again.get("/account").status_code == 303


def test_a_token_is_shown_once_and_kept_as_a_hash(served: Served) -> None:
    person = served.person(Role.curator, Role.auditor, name="ada")
    shown = post(person, "/account/tokens", {"name": "script", "roles": ["auditor"]})
    token = shown.text.split('class="secret">')[1].split("<")[0]
    assert token not in person.get("/account").text
    assert token not in str(served.office.store.rows(TOKENS))
    program = served.client()
    program.headers["authorization"] = f"Bearer {token}"
    assert program.get("/api/me").json()["roles"] == ["auditor"]
    assert program.get("/account").status_code == 303, "a token opens no pages"
    one = served.office.store.rows(TOKENS)[0]["id"]
    post(person, f"/account/tokens/{one}/end")
    assert program.get("/api/me").status_code == 401


def test_a_token_loses_what_its_account_loses(served: Served) -> None:
    header = served.token(Role.curator)
    accounts = served.office.accounts
    account = accounts.find("curator")
    assert account is not None
    accounts.change(account["id"], by="test", roles=[Role.auditor])
    assert served.client().get("/api/me", headers=header).json()["roles"] == []
    accounts.change(account["id"], by="test", active=False)
    assert served.client().get("/api/me", headers=header).status_code == 401


def test_a_token_has_no_role_that_its_account_lacks(served: Served) -> None:
    account = served.office.accounts.add("ada", [Role.auditor], by="test")
    with pytest.raises(InputError, match="at least one role"):
        served.office.accounts.new_token(account["id"], "x", [Role.admin], by="ada")


def test_another_role_ends_sessions(served: Served) -> None:
    person = served.person(Role.curator)
    account = served.office.accounts.find("curator")
    assert account is not None
    served.office.accounts.change(account["id"], by="test", roles=[Role.admin])
    assert person.get("/account").status_code == 303


@pytest.mark.parametrize(
    "aim", ["//evil.example", "https://evil.example", "/\\evil", "javascript:x"]
)
def test_after_log_in_people_stay_here(served: Served, aim: str) -> None:
    served.office.accounts.add("ada", [Role.curator], by="test", password=PASSWORD)
    sent = served.client().post("/login", data={"name": "ada", "password": PASSWORD, "next": aim})
    assert sent.headers["location"] == "/datasets"


def test_short_passwords_and_odd_names_are_refused(served: Served) -> None:
    accounts = served.office.accounts
    with pytest.raises(InputError, match="at least 12"):
        accounts.add("ada", [], by="test", password="short")
    for name in ("", "a b", "<script>", "a" * 65):
        with pytest.raises(InputError, match="account name"):
            accounts.add(name, [], by="test")
    accounts.add("ada", [], by="test")
    with pytest.raises(InputError, match="already"):
        accounts.add("Ada", [], by="test")


def test_the_key_of_the_office_is_for_its_owner_alone(served: Served) -> None:
    path = served.office.state / "office.key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(path.read_bytes()) == 32
    tables = served.office.state / "office.sqlite"
    assert stat.S_IMODE(tables.stat().st_mode) == 0o600
    assert form_key(served.person(Role.admin).get("/account")) not in path.read_bytes().hex()
    assert now() > "2020"


def test_an_account_of_the_provider_gets_no_password(served: Served) -> None:
    """Whom the provider no longer lets in would keep a way in of their own."""
    accounts = served.office.accounts
    row = accounts.add("fay", [Role.curator], by="test", subject="https://id.example#4711")
    with pytest.raises(InputError, match="identity provider"):
        accounts.set_password(row["id"], PASSWORD, by="fay")
    old = accounts.add("gil", [Role.curator], by="test", password=PASSWORD, subject="https://id#2")
    assert accounts.check_password(old["name"], PASSWORD) is None
    client = served.client()
    client.post("/login/link", data={"key": accounts.new_link(row["id"], by="test")})
    page = client.get("/account").text
    assert "identity provider" in page
    assert "/account/password" not in page


def test_a_new_password_and_a_closed_account_end_links(served: Served) -> None:
    accounts = served.office.accounts
    row = accounts.add("ada", [Role.curator], by="test", password=PASSWORD)
    first = accounts.new_link(row["id"], by="test")
    accounts.set_password(row["id"], PASSWORD + "2", by="ada")
    assert accounts.use_link(first) is None
    second = accounts.new_link(row["id"], by="test")
    accounts.change(row["id"], by="test", active=False)
    accounts.change(row["id"], by="test", active=True)
    assert accounts.use_link(second) is None


def test_logging_in_again_ends_the_session_that_the_browser_had(served: Served) -> None:
    served.office.accounts.add("ada", [Role.curator], by="test", password=PASSWORD)
    client = served.client()
    for _ in range(2):
        assert client.post("/login", data={"name": "ada", "password": PASSWORD}).status_code == 303
    assert len(served.office.store.rows(LOGINS)) == 1
