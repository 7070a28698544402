"""Requests: what JSON carries is what was asked, and what does not fit a field is refused."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from dpublish.errors import InputError
from dpublish.requests.analyst import Export, Query
from dpublish.requests.audit import Audit
from dpublish.requests.base import Caller, Format, Request, TierName, plain
from dpublish.requests.curator import NewKey, Release
from dpublish.requests.ledger import LedgerStatus, OpenLedger
from dpublish.requests.plans import Plan
from dpublish.requests.solve import Solve
from dpublish.server.worker import request_types

REQUESTS = request_types()

EXAMPLES: list[Request] = [
    Query(release=Path("a.dpr"), conditions=("age >= 40",), level=0.9),
    Export(release=Path("a.dpr"), out=Path("a.csv"), to=Format.csv, synthetic=True, number=10),
    Plan(schema=Path("a.toml"), epsilon="1/3", settings={"columns": "age,income"}, size=100),
    Release(data="a.csv", schema=Path("a.toml"), ledger="a.ledger", out=Path("a.dpr"), epsilon="1"),
    Solve(problem="k-median", data="d", public="p", ledger="l", out=Path("o"), epsilon="1", k=3),
    Audit(method="histogram", tiers=(TierName.exact, TierName.replay), samples=200),
]


@pytest.mark.parametrize("request_", EXAMPLES, ids=lambda one: one.verb)
def test_json_carries_a_request(request_: Request) -> None:
    carried = json.loads(json.dumps(request_.to_json()))
    assert type(request_).from_json(carried) == request_
    assert REQUESTS[carried["request"]].from_json(carried) == request_


def test_every_command_that_asks_something_is_a_request() -> None:
    """The demo is a tour through the other commands, and the service another way to ask them."""
    from typer.main import get_command

    from dpublish.cli.app import app

    verbs: set[str] = set()
    tree: Any = get_command(app)
    for name, command in tree.commands.items():
        inner = getattr(command, "commands", None)
        verbs |= {f"{name} {verb}" for verb in inner} if inner else {name}
    assert verbs - {"demo", "serve"} <= set(REQUESTS)
    assert set(REQUESTS) - verbs == {"verify --ledger", "proofs"}


def test_every_option_fills_a_field_of_its_request_or_steers_what_is_shown() -> None:
    from typer.main import get_command

    from dpublish.cli.app import app

    tree: Any = get_command(app)
    groups = {name: getattr(one, "commands", None) for name, one in tree.commands.items()}
    commands = {name: tree.commands[name] for name, inner in groups.items() if not inner}
    commands |= {
        f"{name} {verb}": one
        for name, inner in groups.items()
        for verb, one in (inner or {}).items()
    }
    beside = {
        (verb, param.name)
        for verb, command in commands.items()
        for param in command.params
        if verb in REQUESTS and param.name not in {one.name for one in fields(REQUESTS[verb])}
    }
    assert {pair for pair in beside if pair[1] != "json"} == {
        ("query", "rows"),
        ("sql", "rows"),
        ("docs", "path"),
        ("plan", "survey"),
        # this command fills its request itself
        ("plan", "question"),
        ("plan", "setting"),
        # with a ledger it is another request
        ("verify", "ledger"),
        ("verify", "name"),
    }


@pytest.mark.parametrize(
    ("request_", "document", "words"),
    [
        (Query, {"release": "a", "condition": ["x"]}, "Did you mean 'conditions'"),
        (Query, {"conditions": ["x"]}, "needs release"),
        (Query, {"release": "a", "conditions": "age > 4"}, "must be a list"),
        (Query, {"release": "a", "level": "0.9"}, "must be a number"),
        (Query, {"release": 4}, "must be a path"),
        (Plan, {"schema": "a", "epsilon": 0.1}, "must be text or null"),
        (Plan, {"schema": "a", "size": True}, "must be a whole number"),
        (Plan, {"schema": "a", "settings": ["columns"]}, "an object of texts"),
        (Export, {"release": "a", "out": "b", "to": "cvs"}, "Did you mean 'csv'"),
        (Audit, {"method": "histogram", "tiers": ["exat"]}, "Did you mean 'exact'"),
        (Query, {"request": "sql", "release": "a"}, "not to 'query'"),
    ],
)
def test_what_does_not_fit_is_refused(
    request_: type[Request], document: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        request_.from_json(document)
    assert words in str(refused.value)


def test_a_request_runs_without_a_terminal(tmp_path: Path) -> None:
    url = str(tmp_path / "a.ledger")
    opened = OpenLedger(url=url, epsilon="2").run()
    status = LedgerStatus.from_json({"url": url}).run()
    assert json.dumps(plain(opened.to_json()))
    assert status.remaining == opened.status.remaining


def test_nobody_is_asked_for_a_passphrase_where_nobody_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPUBLISH_SIGNING_PASSPHRASE", raising=False)
    with pytest.raises(InputError, match="nobody can be asked"):
        NewKey(path=tmp_path / "a.key", name="me", passphrase=True).run(Caller())
    assert not (tmp_path / "a.key").exists()
