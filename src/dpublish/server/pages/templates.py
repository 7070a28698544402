"""Pages from templates: everything a person wrote is escaped, and nothing is inline."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from fractions import Fraction
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from starlette.datastructures import FormData
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dpublish.server.accounts import Actor, Role
from dpublish.server.config import Config


class Pages:
    def __init__(self, config: Config) -> None:
        self.environment = Environment(
            loader=PackageLoader("dpublish.server", "html"),
            autoescape=select_autoescape(default=True),
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.environment.filters |= {
            "moment": moment,
            "decimal": decimal,
            "figure": figure,
            "part_spent": part_spent,
            "statement": statement,
        }
        self.environment.globals.update(
            office=config.title,
            contact=config.contact,
            two_person=config.two_person,
            roles=[role.value for role in Role],
            static={name: f"/static/{name}?{mark}" for name, mark in statics().items()},
        )

    def show(
        self, template: str, actor: Actor | None, *, status: int = 200, **given: Any
    ) -> HTMLResponse:
        """A page for whoever is logged in. It stays in no cache."""
        return HTMLResponse(
            self.text(template, actor, **given),
            status_code=status,
            headers={"cache-control": "no-store"},
        )

    def text(self, template: str, actor: Actor | None, **given: Any) -> str:
        return self.environment.get_template(template).render(actor=actor, **given)


def to(path: str) -> Response:
    """Go on to another page, after a form."""
    return RedirectResponse(path, status_code=303)


def roles_in(form: FormData) -> list[Role]:
    """The roles that are ticked in a form."""
    return [Role(str(one)) for one in form.getlist("roles") if one in Role.__members__]


def statics() -> dict[str, str]:
    """The files that pages load, with a mark of their content."""
    return {
        one.name: hashlib.sha256(one.read_bytes()).hexdigest()[:12]
        for one in (files("dpublish.server") / "static").iterdir()
        if one.name.endswith((".css", ".js", ".svg"))
    }


def decimal(text: str) -> str:
    """An exact amount in few digits."""
    return f"{float(Fraction(str(text))):.6g}"


def figure(value: float | None) -> str:
    """A number as people read it: whole from a hundred up."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def part_spent(status: Mapping[str, Any]) -> int:
    """Percent of a budget's cap that is spent, in the currency that is nearest to its end."""
    parts = [
        Fraction(status["spent"][name]) / Fraction(status["cap"][name])
        for name in ("epsilon", "delta", "rho")
        if Fraction(status["cap"][name])
    ]
    return min(100, round(100 * max(parts, default=Fraction(0))))


def statement(text: str) -> tuple[str, list[str]]:
    """A release's own statement, apart at its sentences; no word of it is changed."""
    first, _, words = text.partition(" In words: ")
    return first, [one for one in re.split(r"(?<=[.!?]) (?=[A-Z])", words) if one]


def moment(text: str | None) -> str:
    """A time as people write it."""
    if not text:
        return ""
    try:
        read = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return text
    return f"{read.day} {read:%B %Y, %H:%M} UTC"
