"""An office with rows, a schema, a budget, a published release and an open desk, made through the
API as programs do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from dpublish.server.accounts import Accounts, Role, office_key
from dpublish.server.store import Store

CANARY = "zq9canary7x"
"""A text that stands in private rows alone."""
ROWS = 3571
"""How many rows there are: a number that nothing public should say."""

SCHEMA = """
[dataset]
name = "visits"
neighbours = "add-remove-one"
nominal_size = 3000
[columns.ward]
kind = "categorical"
levels = ["north", "south"]
[columns.age]
kind = "integer"
lower = 0
upper = 99
bins = 10
"""


def write_rows(folder: Path) -> None:
    """Rows with cells that no schema declares, so that they can only be seen by a leak."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{('north', 'south', CANARY)[i % 3]},{i % 100}" for i in range(ROWS)]
    (folder / "visits.csv").write_text("ward,age\n" + "\n".join(lines) + "\n")


class Program:
    """A program with a token."""

    def __init__(self, client: Any, header: dict[str, str]) -> None:
        self._client, self._header = client, header

    def __call__(self, method: str, path: str, **given: Any) -> Any:
        answer: httpx.Response = self._client.request(
            method, path, headers=self._header, **({"json": given} if method != "GET" else {})
        )
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json()


def until(found: Any, seconds: float = 120) -> Any:
    latest = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < latest, "it took too long"
        time.sleep(0.05)
    return value


def set_up(curator: Program, approver: Program, admin: Program, *, epsilon: str = "4") -> None:
    admin("POST", "/api/ledger", name="people", epsilon=epsilon)
    curator(
        "POST", "/api/datasets", name="visits", place="data", item="visits.csv", population="people"
    )
    curator("PUT", "/api/datasets/visits/schema", toml=SCHEMA)


def make_release(
    curator: Program, approver: Program, name: str, *, epsilon: str = "1", public: bool = True
) -> None:
    proposal = curator(
        "POST",
        "/api/proposals",
        dataset="visits",
        release=name,
        epsilon=epsilon,
        settings={"columns": "ward,age"},
    )
    approver("POST", f"/api/proposals/{proposal['id']}/approve")

    def state() -> str:
        found: str = curator("GET", f"/api/office/releases/{name}")["state"]
        assert found != "failed", curator("GET", "/api/jobs")["jobs"][0]
        return found

    until(lambda: state() == "made")
    if public:
        curator("POST", f"/api/office/releases/{name}/publish")
        until(lambda: state() == "published")


def open_desk(curator: Program, approver: Program, name: str, *, epsilon: str = "1") -> None:
    proposal = curator(
        "POST",
        "/api/desks",
        dataset="visits",
        desk=name,
        epsilon=epsilon,
        settings={"columns": "ward", "max_hard": "8"},
    )
    approver("POST", f"/api/proposals/{proposal['proposal']}/approve")

    def opened() -> bool:
        state = curator("GET", f"/api/desks/{name}")["state"]
        assert state != "failed", curator("GET", "/api/jobs")["jobs"][0]
        return bool(state == "open")

    until(opened)


class Running:
    """An office in a process of its own, which can be killed and started again."""

    def __init__(self, folder: Path, *, jobs: int = 2, **options: str) -> None:
        self.folder, self.state = folder, folder / "office"
        write_rows(self.state / "data")
        self._config = folder / "serve.toml"
        lines = [f'{name} = "{value}"' for name, value in options.items()]
        lines += ["[limits]", "requests_per_minute = 1000000", f"jobs = {jobs}"]
        self._config.write_text("\n".join(lines) + "\n")
        self.database = options.get("database", f"sqlite:///{self.state / 'office.sqlite'}")
        self.ledger = options.get("ledger", f"sqlite:///{self.state / 'office.ledger'}")
        self._port = 0
        self.log = folder / "log"
        self.start()

    def start(self) -> None:
        environment = {**os.environ, "DPUBLISH_STATE": str(self.folder / "anchors")}
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                [
                    sys.executable, "-m", "dpublish", "serve", "--port", str(self._port),
                    "--state", str(self.state), "--config", str(self._config),
                ],
                stdout=subprocess.PIPE, stderr=log, env=environment,
            )  # fmt: skip
        assert self.child.stdout is not None
        words = self.child.stdout.readline().decode()
        self.url = words.split()[-1].rstrip("/")
        self._port = int(self.url.rpartition(":")[2])
        until(self._answers)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/health", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def token(self, *roles: Role, name: str | None = None) -> str:
        store = Store(self.database)
        accounts = Accounts(store, office_key(self.state))
        name = name or "-".join(sorted(roles))
        account = accounts.find(name) or accounts.add(name, roles, by="test")
        token = accounts.new_token(account["id"], "test", roles, by="test")
        store.close()
        return token

    def program(self, *roles: Role, name: str | None = None) -> Program:
        client = httpx.Client(base_url=self.url, timeout=120)
        return Program(client, {"authorization": f"Bearer {self.token(*roles, name=name)}"})

    def kill(self) -> None:
        self.child.kill()
        self.child.wait()

    def stop(self) -> None:
        self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
