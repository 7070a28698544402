"""Log-in through a provider: a small one of our own, on loopback."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from dpublish.server.accounts import Role
from dpublish.server.config import Oidc
from server.conftest import Served


class Provider:
    """Says that everybody is whoever `claims` say."""

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self.signing = self.key
        self.issuer = ""
        self.codes: dict[str, dict[str, str]] = {}
        self.claims: dict[str, Any] = {"sub": "4711", "preferred_username": "Fay", "name": "Fay"}
        self.changed: dict[str, Any] = {}
        self.app = Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self.about),
                Route("/authorize", self.authorize),
                Route("/token", self.token, methods=["POST"]),
                Route("/keys", self.keys),
            ]
        )

    async def about(self, request: Request) -> JSONResponse:
        at = self.issuer
        return JSONResponse({
            "issuer": at, "authorization_endpoint": f"{at}/authorize",
            "token_endpoint": f"{at}/token", "jwks_uri": f"{at}/keys",
            "id_token_signing_alg_values_supported": ["RS256"],
        })  # fmt: skip

    async def authorize(self, request: Request) -> RedirectResponse:
        asked = dict(request.query_params)
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = asked
        back = urlencode({"code": code, "state": asked["state"]})
        return RedirectResponse(f"{asked['redirect_uri']}?{back}")

    async def token(self, request: Request) -> JSONResponse:
        form = await request.form()
        asked = self.codes.pop(str(form["code"]))
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": asked["client_id"], "iat": now, "exp": now + 60,
            "nonce": asked["nonce"], **self.claims, **self.changed,
        }  # fmt: skip
        made = jwt.encode({"alg": "RS256", "kid": "one"}, claims, self.signing)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": made})

    async def keys(self, request: Request) -> JSONResponse:
        return JSONResponse({"keys": [self.key.as_dict(private=False)]})


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider()
    server = uvicorn.Server(uvicorn.Config(made.app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    made.issuer = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield made
    server.should_exit = True
    thread.join()


@pytest.fixture
def office(serving: Callable[..., Served], provider: Provider) -> Served:
    return serving(oidc=Oidc(issuer=provider.issuer, client_id="office", roles_claim="roles"))


def begin(office: Served) -> tuple[TestClient, str]:
    """A browser that was sent to the provider, and where the provider sends it back to."""
    import httpx

    client = office.client()
    sent = client.get("/login/oidc?next=/account")
    assert sent.status_code == 302, sent.text
    back = httpx.get(sent.headers["location"]).headers["location"]
    parts = urlsplit(back)
    return client, f"{parts.path}?{parts.query}"


def test_whom_the_provider_names_comes_in_with_the_roles_it_gives(
    office: Served, provider: Provider
) -> None:
    provider.claims["roles"] = ["curator", "emperor"]
    client, back = begin(office)
    entered = client.get(back)
    assert entered.status_code == 303, entered.text
    assert entered.headers["location"] == "/account"
    assert "with the roles curator." in client.get("/account").text
    provider.claims["roles"] = ["auditor"]
    client, back = begin(office)
    client.get(back)
    assert "with the roles auditor." in client.get("/account").text
    assert [row["name"] for row in office.office.accounts.all()] == ["fay"]


def test_a_local_account_of_the_same_name_is_not_taken_over(
    office: Served, provider: Provider
) -> None:
    office.office.accounts.add("fay", [Role.admin], by="test", password="correct horse battery")
    client, back = begin(office)
    client.get(back)
    page = client.get("/account").text
    assert "<b>fay-2</b>" in page
    assert client.get("/accounts").status_code == 403


@pytest.mark.parametrize(
    "changed",
    [
        {"aud": "another"},
        {"iss": "https://elsewhere.example"},
        {"exp": 1},
        {"nonce": "another"},
        {"sub": ""},
    ],
    ids=lambda one: next(iter(one)),
)
def test_a_token_that_is_not_for_this_log_in_lets_nobody_in(
    office: Served, provider: Provider, changed: dict[str, Any]
) -> None:
    provider.changed = changed
    client, back = begin(office)
    refused = client.get(back)
    assert refused.status_code == 401, refused.text
    assert office.office.cookie not in client.cookies
    assert office.office.accounts.all() == []


def test_a_token_of_another_key_lets_nobody_in(office: Served, provider: Provider) -> None:
    provider.signing = RSAKey.generate_key(2048, {"kid": "one"})
    client, back = begin(office)
    assert client.get(back).status_code == 401


def test_another_browser_cannot_finish_a_log_in(office: Served, provider: Provider) -> None:
    _, back = begin(office)
    assert office.client().get(back).status_code == 400
    client, _ = begin(office)
    state = parse_qs(urlsplit(back).query)["state"][0]
    assert client.get(f"/login/oidc/back?code=x&state={state}").status_code == 401


def test_a_closed_account_stays_closed(office: Served, provider: Provider) -> None:
    client, back = begin(office)
    client.get(back)
    account = office.office.accounts.find("fay")
    assert account is not None
    office.office.accounts.change(account["id"], by="test", active=False)
    client, back = begin(office)
    assert client.get(back).status_code == 400


def test_without_a_provider_there_is_no_such_page(served: Served) -> None:
    assert served.client().get("/login/oidc").status_code == 404
    assert "/login/oidc" not in served.client().get("/login").text
