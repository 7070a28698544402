"""Who may do what: every route, asked by every role and by nobody."""

from __future__ import annotations

import re

import pytest
from starlette.routing import Route as Path_

from dpublish.server.accounts import Role
from dpublish.server.routes import ROUTES, Route
from server.conftest import Served

WHO = [None, *Role]


def example(route: Route) -> str:
    return re.sub(r"\{[^}]+\}", "none-such", route.path)


def allowed(route: Route, role: Role | None) -> bool:
    if route.who == "public":
        return True
    return role is not None and (route.who == "anyone" or role in route.who)


def test_the_application_has_the_routes_of_the_table_and_no_other(served: Served) -> None:
    def methods(given: object) -> set[str]:
        return set(given) - {"HEAD"}  # type: ignore[call-overload]

    found = [one for one in served.app.routes if isinstance(one, Path_)]
    assert len(found) == len(served.app.routes)
    assert [(one.path, methods(one.methods)) for one in found] == [
        (one.path, methods(one.methods)) for one in ROUTES
    ]


@pytest.mark.parametrize("role", WHO, ids=str)
def test_every_route_keeps_to_its_rule(served: Served, role: Role | None) -> None:
    """Forms are sent without their key and JSON with an empty document: what is let in is refused
    for another reason than the role, and changes nothing."""
    client = served.client() if role is None else served.person(role)
    program = {} if role is None else served.token(role)
    for route in ROUTES:
        for method in route.methods:
            bearer = program if route.kind == "json" else {}
            asked = client if not bearer else served.client()
            answer = asked.request(method, example(route), headers=bearer)
            label = f"{method} {route.path} as {role}: {answer.status_code}"
            if allowed(route, role):
                refused = answer.status_code in (401, 403) and "people with the role" in answer.text
                to_login = answer.headers.get("location", "").startswith("/login")
                assert not refused, label
                assert not to_login or route.who == "public", label
                assert answer.status_code != 500, label
            elif role is None:
                to_login = answer.headers.get("location", "").startswith("/login?next=")
                assert answer.status_code == 401 or (answer.status_code == 303 and to_login), label
            else:
                assert answer.status_code == 403, label
                assert "people with the role" in answer.text, label


def test_public_pages_set_no_cookie_and_do_not_depend_on_one(served: Served) -> None:
    person = served.person(Role.admin)
    for route in ROUTES:
        if route.who == "public" and route.kind == "page":
            mine, theirs = person.get(example(route)), served.client().get(example(route))
            assert "set-cookie" not in mine.headers
            assert mine.content == theirs.content, route.path


def test_a_form_without_its_key_or_from_elsewhere_is_refused(served: Served) -> None:
    person = served.person(*Role)
    for route in ROUTES:
        if route.kind == "form" and route.who != "public":
            assert person.post(example(route), data={"form_key": "0" * 64}).status_code == 403
    for route in ROUTES:
        if route.kind == "form":
            sent = person.post(example(route), headers={"origin": "http://elsewhere.example"})
            assert sent.status_code == 403, route.path
            assert "not sent from a page of this service" in sent.text


def test_json_with_a_cookie_needs_the_key_in_a_header(served: Served) -> None:
    person = served.person(*Role)
    for route in ROUTES:
        for method in set(route.methods) & {"POST", "PUT", "PATCH", "DELETE"}:
            if route.kind == "json" and route.who != "public":
                assert person.request(method, example(route), json={}).status_code == 403
