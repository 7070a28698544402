"""What the API takes: bodies that are requests of `dpublish.requests` without the fields that this
server fills in, and those of the office's own steps. The OpenAPI document is made from the same
records.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from dpublish.errors import InputError
from dpublish.requests.analyst import Query, Sql
from dpublish.requests.audit import Audit
from dpublish.requests.base import read_fields
from dpublish.requests.plans import Compare, Plan, Rehearse
from dpublish.requests.schemas import CheckData
from dpublish.server.desk.desks import MOST_QUESTIONS

LONGEST: Final = 10_000
"""Characters of any text, where nothing else is said."""
MOST: Final = 200
"""Items of any list or object."""
NAME: Final = "^[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?$"


def text(most: int, default: Any = None, *, pattern: str | None = None, least: int = 0) -> Any:
    """A field of text with its limits, which schemas state and bodies are held to."""
    limits: dict[str, Any] = {"maxLength": most}
    limits |= {"pattern": pattern} if pattern else {}
    limits |= {"minLength": least} if least else {}
    return field(metadata=limits) if default is ... else field(default=default, metadata=limits)


@dataclass(frozen=True, kw_only=True)
class NewDataset:
    """A data set: rows of a configured place, and the budget that pays for them."""

    name: str = text(62, ..., pattern=NAME)
    title: str = text(160, "")
    place: str = text(100, ...)
    item: str = text(255, ...)
    population: str = text(62, ..., pattern=NAME)


@dataclass(frozen=True, kw_only=True)
class NewSchema:
    """The whole schema, as TOML."""

    toml: str = text(1_000_000, ..., least=1)


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A release to be made, once somebody else agrees."""

    dataset: str = text(62, ..., pattern=NAME)
    release: str = text(62, ..., pattern=NAME)
    title: str = text(160, "")
    method: str = text(62, "histogram")
    settings: Mapping[str, str] = field(default_factory=dict)
    epsilon: str | None = text(60)
    delta: str | None = text(60)
    rho: str | None = text(60)
    why: str = text(4000, "")


@dataclass(frozen=True, kw_only=True)
class DeskProposal:
    """A query desk to be opened, once somebody else agrees."""

    dataset: str = text(62, ..., pattern=NAME)
    desk: str = text(62, ..., pattern=NAME)
    title: str = text(160, "")
    method: str = text(62, "median-mechanism")
    settings: Mapping[str, str] = field(default_factory=dict)
    epsilon: str = text(60, ...)
    why: str = text(4000, "")


@dataclass(frozen=True, kw_only=True)
class Reason:
    reason: str = text(2000, "")


@dataclass(frozen=True, kw_only=True)
class NewBudget:
    """A budget for life."""

    name: str = text(62, ..., pattern=NAME)
    title: str = text(160, "")
    epsilon: str | None = text(60)
    delta: str | None = text(60)
    rho: str | None = text(60)


@dataclass(frozen=True, kw_only=True)
class Seat:
    """How many questions somebody may ask at a desk."""

    person: str = text(64, ..., least=1)
    allowed: int = field(metadata={"minimum": 0, "maximum": MOST_QUESTIONS})


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question. The same key gives the same answer again."""

    query: str = text(LONGEST, ..., least=1)
    key: str = text(100, ..., least=1)


@dataclass(frozen=True)
class Takes:
    """The body of an endpoint: the fields of a record, but those that the server fills in."""

    record: type
    without: tuple[str, ...] = ()

    def read(self, document: Any) -> dict[str, Any]:
        if not isinstance(document, dict):
            raise InputError("The body must be one JSON object.")
        _bounded(document, "body")
        given = read_fields(self.record, document, "body", without=self.without)
        for one in fields(self.record):
            if one.name in given and given[one.name] is not None:
                _within(given[one.name], one.metadata, one.name)
        return given


BODIES: Final[Mapping[str, Takes]] = {
    "api.public:query": Takes(Query, ("release",)),
    "api.public:sql": Takes(Sql, ("release",)),
    "api.office:add_dataset": Takes(NewDataset),
    "api.office:put_schema": Takes(NewSchema),
    "api.office:plan": Takes(Plan, ("schema", "figure", "public", "form", "k")),
    "api.office:rehearse": Takes(Rehearse, ("schema", "public", "out", "overwrite")),
    "api.office:compare": Takes(Compare, ("schema",)),
    "api.office:check": Takes(CheckData, ("data", "schema", "database", "out", "overwrite")),
    "api.office:propose": Takes(Proposal),
    "api.office:decline": Takes(Reason),
    "api.office:withdraw": Takes(Reason),
    "api.office:open_budget": Takes(NewBudget),
    "api.office:start_audit": Takes(Audit),
    "api.desk:propose": Takes(DeskProposal),
    "api.desk:admit": Takes(Seat),
    "api.desk:ask": Takes(Question),
}
"""By handler; endpoints that are not here take no body."""


def _bounded(value: Any, name: str) -> None:
    """Nothing is longer than any request needs, however it is nested."""
    if isinstance(value, str) and len(value) > LONGEST and name != "toml":
        raise InputError(f"'{name}' is longer than {LONGEST} characters.")
    if isinstance(value, str) and "\x00" in value:
        raise InputError(f"'{name}' holds a character that no text has.")
    if isinstance(value, dict | list):
        if len(value) > MOST:
            raise InputError(f"'{name}' has more than {MOST} parts.")
        pairs = value.items() if isinstance(value, dict) else ((name, one) for one in value)
        for key, one in pairs:
            _bounded(str(key), name)
            _bounded(one, str(key))


def _within(value: Any, limits: Mapping[str, Any], name: str) -> None:
    if isinstance(value, str):
        short, long = limits.get("minLength", 0), limits.get("maxLength", LONGEST)
        if not short <= len(value) <= long:
            raise InputError(f"'{name}' has {short} to {long} characters.")
        if "pattern" in limits and not re.search(limits["pattern"], value):
            raise InputError(
                f"'{name}' has small letters, digits and hyphens, and no hyphen at the ends."
            )
    elif type(value) is int and "minimum" in limits:
        low, high = limits["minimum"], limits["maximum"]
        if not low <= value <= high:
            raise InputError(f"'{name}' is {low} to {high}.")
