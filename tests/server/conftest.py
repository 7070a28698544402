"""An office in a folder of its own, asked without a network; and people with one role each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from dpublish.server.accounts import Role
from dpublish.server.app import Office, create_app
from dpublish.server.config import Config

HERE = "http://127.0.0.1:8765"
PASSWORD = "correct horse battery"


@dataclass
class Served:
    app: Starlette
    clients: list[TestClient] = field(default_factory=list)

    @property
    def office(self) -> Office:
        office: Office = self.app.state.office
        return office

    def client(self, **given: Any) -> TestClient:
        made = TestClient(self.app, base_url=HERE, follow_redirects=False, **given)
        made.headers["origin"] = HERE
        self.clients.append(made)
        return made

    def person(self, *roles: Role, name: str | None = None) -> TestClient:
        """Somebody with these roles, logged in."""
        name = name or "-".join(sorted(roles)) or "nobody"
        accounts = self.office.accounts
        account = accounts.find(name) or accounts.add(name, roles, by="test")
        client = self.client()
        cookie = accounts.log_in(account, client.headers["user-agent"], how="test")
        client.cookies.set(self.office.cookie, cookie)
        return client

    def token(self, *roles: Role) -> dict[str, str]:
        """The header of a program with these roles."""
        name = "-".join(sorted(roles))
        accounts = self.office.accounts
        account = accounts.find(name) or accounts.add(name, roles, by="test")
        token = accounts.new_token(account["id"], "test", roles, by="test")
        return {"authorization": f"Bearer {token}"}


def form_key(page: httpx.Response) -> str:
    found = re.search(r'name="form_key" value="([0-9a-f]+)"', page.text)
    assert found is not None, page.text[:500]
    return found[1]


def post(client: TestClient, path: str, data: dict[str, Any] | None = None, **given: Any) -> Any:
    """As a page of the service would: with the key of this session's forms."""
    key = form_key(client.get("/account"))
    return client.post(path, data={"form_key": key, **(data or {})}, **given)


@pytest.fixture
def serving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "anchors"))
    made: list[Served] = []

    def start(**given: Any) -> Served:
        given = {"state": tmp_path / "office", **given}
        made.append(Served(create_app(Config.read(**given))))
        return made[-1]

    yield start
    for one in made:
        for client in one.clients:
            client.close()
        one.office.close()


@pytest.fixture
def served(serving: Callable[..., Served]) -> Served:
    return serving()
