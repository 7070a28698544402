"""What a request is: a frozen record of what is asked, which runs and answers with a result; both
can be written as JSON.

Failures are the exceptions of `dpublish.errors`. Whatever a request needs of its surroundings while
it runs (somewhere to name
the current step, somebody to ask for a passphrase, a way to run private work so that nothing of it
is overheard) it asks of
its `Caller`.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime as dt
import enum
import math
import os
import types
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    Protocol,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from dpublish.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from dpublish.declare.schema import Schema

Progress = Callable[[str], None]


class Result(Protocol):
    """What a request answers with: typed for a program in Python, and as one JSON document."""

    def to_json(self) -> Mapping[str, Any]: ...


class Caller:
    """What surrounds a request while it runs. This one shows nothing, and has nobody to ask."""

    @property
    def actor(self) -> Any:
        """Who asks, as the `Actor` of a ledger's entries, which this side of the wall does not
        know; None: whoever this process runs for."""
        return None

    def progress(self, step: str) -> None:
        """The name of the current step. Never a count: totals and rates would speak of the rows."""

    @contextmanager
    def private(self) -> Iterator[Progress]:
        """Around work that reads private rows: a skin leads its own output elsewhere meanwhile."""
        yield self.progress

    def passphrase(self, *, fresh: bool) -> str:
        """The passphrase of a signing key; `fresh` when one is chosen rather than remembered."""
        given = os.environ.get(PASSPHRASE)
        if given:
            return given
        raise InputError(
            "A passphrase is needed and nobody can be asked for it here. "
            f"Set {PASSPHRASE}. Nothing was spent."
        )


NOBODY = Caller()
REQUESTS: dict[str, type[Request]] = {}
"""The requests of all modules that are loaded, by verb."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request(abc.ABC):
    """One thing to ask. Fields hold text, numbers, paths and lists of them, so that JSON can carry
    every request.

    Amounts that privacy rests on are text, which is read exactly. A class states its verb, by which
    documents name it.
    """

    verb: ClassVar[str]

    def __init_subclass__(cls, *, verb: str | None = None, **stated: Any) -> None:
        super().__init_subclass__(**stated)
        if verb is not None:
            cls.verb = verb
            REQUESTS[verb] = cls

    @abc.abstractmethod
    def run(self, caller: Caller = NOBODY) -> Result:
        """Do it, and say what came of it."""

    def to_json(self) -> dict[str, Any]:
        """The request as JSON; what is left at its default is left out."""
        given = {one: getattr(self, one.name) for one in dataclasses.fields(self)}
        kept = {one.name: plain(value) for one, value in given.items() if value != default_of(one)}
        return {"request": self.verb, **kept}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The request that a document holds. Nothing in it is guessed: what does not fit a field is
        refused."""
        given = {key: value for key, value in document.items() if key != "request"}
        if document.get("request", cls.verb) != cls.verb:
            raise InputError(f"This is a request to '{document['request']}', not to '{cls.verb}'.")
        return cls(**read_fields(cls, given, cls.verb))


def read_fields(
    kind: type, given: Mapping[str, Any], verb: str, *, without: Container[str] = ()
) -> dict[str, Any]:
    """What a document holds for the fields of a record, each read as its type; `without` are fields
    that it may not give."""
    fields = {one.name: one for one in dataclasses.fields(kind) if one.name not in without}
    for key in given:
        if key not in fields:
            raise InputError(
                f"'{verb}' has no '{key}'.{did_you_mean(key, fields)} It takes: "
                f"{', '.join(fields)}."
            )
    absent = [
        name
        for name, one in fields.items()
        if default_of(one) is dataclasses.MISSING and name not in given
    ]
    if absent:
        raise InputError(f"'{verb}' needs {', '.join(absent)}.")
    hints = get_type_hints(kind)
    return {key: _read(value, hints[key], f"{verb}: {key}") for key, value in given.items()}


def read_schema(path: Path, size: int | None = None) -> Schema:
    """The schema in a file; `size` where it does not declare how many units there are."""
    from dpublish.declare.schema import Schema

    facts = Schema.read(path)
    return facts if size is None else facts.with_size(size)


def default_of(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def plain(value: Any) -> Any:
    """A value as JSON can hold it: exact numbers as text, dates as ISO text, what is not finite as
    null."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Fraction | Path):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return plain(value.item()) if hasattr(value, "item") else str(value)


def _read(value: Any, hint: Any, what: str) -> Any:
    """A value of a document as the type of its field."""
    choices = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    for choice in choices:
        read = _read_as(value, choice, what)
        if read is not _NOT:
            return read
    wanted = " or ".join(
        _WORDS.get(get_origin(choice) or choice, str(choice)) for choice in choices
    )
    raise InputError(f"{what} must be {wanted}, not {str(value)[:80]!r}.")


_NOT = object()
_WORDS = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Path: "a path",
    tuple: "a list",
    Mapping: "an object of texts",
    type(None): "null",
}


def _read_as(value: Any, kind: Any, what: str) -> Any:
    origin = get_origin(kind)
    if origin is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum)):
        known = [str(one) for one in (get_args(kind) or kind)]
        if value in known:
            return value if origin is Literal else kind(value)
        raise InputError(
            f"{what} = '{value}' is not known.{did_you_mean(str(value), known)} Use "
            f"{', '.join(known)}."
        )
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(item, get_args(kind)[0], what) for item in value)
    if origin is Mapping and isinstance(value, Mapping):
        return {str(key): _read(item, get_args(kind)[1], what) for key, item in value.items()}
    if kind is Path and isinstance(value, str | Path):
        return Path(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    return value if isinstance(kind, type) and type(value) is kind else _NOT


# Choices that requests and commands share, by name. Loads nothing, so that help stays fast.

PASSPHRASE = "DPUBLISH_SIGNING_PASSPHRASE"
"""Where the passphrase of a signing key may stand."""


Format = StrEnum(
    "Format",
    ["csv", "parquet", "croissant", "dcat", "frictionless", "registry", "label", "dpo"],
)


class TierName(StrEnum):
    exact = "exact"
    replay = "replay"
    sampled = "sampled"
    twin = "twin"
    distributional = "distributional"


class Relation(StrEnum):
    replace_one = "replace-one"
    add_remove_one = "add-remove-one"
