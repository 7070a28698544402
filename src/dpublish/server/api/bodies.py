"""What the API takes: bodies that are requests of `dpublish.requests` without the fields that this
server fills in, and those of the office's own steps. The OpenAPI document is made from the same
records.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from dpublish import __version__
from dpublish.errors import InputError
from dpublish.requests.analyst import Query, Sql
from dpublish.requests.audit import Audit
from dpublish.requests.base import default_of, plain, read_fields
from dpublish.requests.plans import Compare, Plan, Rehearse
from dpublish.requests.schemas import CheckData
from dpublish.server.desk import MAX_QUESTIONS
from dpublish.server.routes import API, Route, load

LONGEST: Final = 10_000
"""Characters of any text, where nothing else is said."""
MAX_PARTS: Final = 200
"""Items of any list or object."""
NAME: Final = "^[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?$"


def text(most: int, default: Any = None, *, pattern: str | None = None, least: int = 0) -> Any:
    """A field of text with its limits, which schemas state and bodies are held to."""
    given = {"maxLength": most, "pattern": pattern, "minLength": least}
    limits = {name: limit for name, limit in given.items() if limit}
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
    allowed: int = field(metadata={"minimum": 0, "maximum": MAX_QUESTIONS})


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

    def fields(self) -> list[dataclasses.Field[Any]]:
        return [one for one in fields(self.record) if one.name not in self.without]

    def read(self, document: Any) -> dict[str, Any]:
        if not isinstance(document, dict):
            raise InputError("The body must be one JSON object.")
        _bounded(document, "body")
        given = read_fields(self.record, document, "body", without=self.without)
        for one in self.fields():
            if given.get(one.name) is not None:
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
    "api.office:propose_desk": Takes(DeskProposal),
    "api.office:admit": Takes(Seat),
    "api.office:ask": Takes(Question),
}
"""By handler; endpoints that are not here take no body."""


def _bounded(value: Any, name: str) -> None:
    """Nothing is longer than any request needs, however it is nested."""
    if isinstance(value, str) and len(value) > LONGEST and name != "toml":
        raise InputError(f"'{name}' is longer than {LONGEST} characters.")
    if isinstance(value, str) and "\x00" in value:
        raise InputError(f"'{name}' holds a character that no text has.")
    if isinstance(value, dict | list):
        if len(value) > MAX_PARTS:
            raise InputError(f"'{name}' has more than {MAX_PARTS} parts.")
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


# The OpenAPI 3.1 document of the API, derived from the table of routes, the docstrings of handlers
# and the records of `bodies`. Nothing is written down twice.

ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "additionalProperties": False,
    "properties": {
        "error": {
            "type": "object",
            "required": ["type", "message", "exit_code"],
            "properties": {
                "type": {"type": "string"},
                "message": {"type": "string"},
                "exit_code": {"type": "integer", "description": "As of the command line."},
            },
        }
    },
}
_PLAIN: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string", "maxLength": LONGEST},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    Path: {"type": "string", "maxLength": LONGEST},
}
_STATUS: Final = {
    400: "The request is wrong; nothing was spent.",
    401: "Nobody is logged in.",
    403: "The caller has not the role for this.",
    404: "There is no such thing.",
    409: "The budget does not allow it, or the key belongs to something else.",
    410: "It was withdrawn.",
    413: "The body is too long.",
    429: "Too many requests.",
    503: "The ledger cannot be read, trusted or written.",
}
QUERY: Final[Mapping[str, Mapping[str, Any]]] = {
    "api.office:actions": {
        "before": {"type": "integer", "minimum": 1, "maximum": 2**53},
        "most": {"type": "integer", "minimum": 1, "maximum": 1000},
    },
}
"""Query parameters, by handler."""


def schema_of(hint: Any) -> dict[str, Any]:
    """The JSON Schema of a field's type."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(one) for one in get_args(hint)]}
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [one.value for one in hint]}
    if origin is tuple:
        return {"type": "array", "maxItems": MAX_PARTS, "items": schema_of(get_args(hint)[0])}
    if origin is not None and issubclass(origin, Mapping):
        return {
            "type": "object",
            "maxProperties": MAX_PARTS,
            "additionalProperties": schema_of(get_args(hint)[1]),
        }
    return dict(_PLAIN[hint])


def body_schema(takes: Takes) -> dict[str, Any]:
    """The JSON Schema of a body."""
    hints = get_type_hints(takes.record)
    shown: dict[str, Any] = {}
    required = []
    for one in takes.fields():
        made = _limited(schema_of(hints[one.name]), one.metadata)
        default = default_of(one)
        if default is dataclasses.MISSING:
            required.append(one.name)
        else:
            made["default"] = plain(default)
        shown[one.name] = made
    return {
        "type": "object",
        "description": _first_words(takes.record.__doc__),
        "properties": shown,
        "additionalProperties": False,
        **({"required": required} if required else {}),
    }


def _limited(made: dict[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    if "anyOf" not in made:
        return {**made, **limits}
    return {
        "anyOf": [{**one, **limits} if one.get("type") != "null" else one for one in made["anyOf"]]
    }


@cache
def document() -> dict[str, Any]:
    """All of it."""
    paths: dict[str, dict[str, Any]] = {}
    for route in API:
        for method in route.methods:
            paths.setdefault(route.path, {})[method.lower()] = _operation(route, method)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dpublish serve",
            "version": __version__,
            "description": "Releases with a proved privacy guarantee: published ones for "
            "everybody, and the steps that lead to them for the people of the office.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "An API token."}
            },
        },
    }


def _operation(route: Route, method: str) -> dict[str, Any]:
    made: dict[str, Any] = {
        "operationId": f"{method.lower()}_{re.sub(r'[^a-z0-9]+', '_', route.path).strip('_')}",
        "summary": _first_words(inspect.getdoc(load(route.handler))),
        "responses": _responses(route, method),
    }
    if route.who != "public":
        made["security"] = [{"token": []}]
        if isinstance(route.who, frozenset):
            made["description"] = f"For the roles: {', '.join(sorted(route.who))}."
    places: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 200},
        }
        for name in re.findall(r"\{(\w+)\}", route.path)
    ] + [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in QUERY.get(route.handler, {}).items()
    ]
    if places:
        made["parameters"] = places
    if method in ("POST", "PUT") and route.handler in BODIES:
        made["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body_schema(BODIES[route.handler])}},
        }
    return made


def _responses(route: Route, method: str) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    wanted = {
        *(400, 404, 429),
        *((401, 403, 503) if route.who != "public" else ()),
        *((409, 413, 503) if method != "GET" or "ledger" in route.path else ()),
        *((410,) if route.path.startswith("/api/releases/{name}") else ()),
    }
    found = {str(code): {"description": _STATUS[code], "content": error} for code in sorted(wanted)}
    kind = "text/plain" if route.path == "/api/metrics" else "application/json"
    shape: dict[str, Any] = {"type": "string"} if kind == "text/plain" else {"type": "object"}
    return {"200": {"description": "Done.", "content": {kind: {"schema": shape}}}, **found}


def _first_words(doc: str | None) -> str:
    return " ".join((doc or "").strip().split("\n\n")[0].split())
