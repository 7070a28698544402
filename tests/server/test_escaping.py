"""Whatever people write stays text: a page with it has the same tags and attributes as without."""

from __future__ import annotations

import tomllib
from html.parser import HTMLParser
from typing import Any

from hypothesis import given, settings, strategies as st

from dpublish.server.accounts import Actor, Role
from dpublish.server.config import Config
from dpublish.server.pages import schema_form
from dpublish.server.pages.templates import Pages

PAGES = Pages(Config.read())
PIECES = [
    "<script>", "</script>", '"', "'", "<img src=x onerror=alert(1)>", "&lt;", "&#60;", "-->",
    "<!--", "{{7*7}}",
    "{% raw %}", "</textarea>", "</title>", "javascript:", "\x00", "\u2028", "é", "`", "<",
    ">", "=", " onfocus=x ", "</option>", "\ud7ff", "data-hx-get", "\\", "/>",
]  # fmt: skip
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=8).map("".join)


class Shape(HTMLParser):
    """The tags of a page with the names of their attributes, and the addresses that it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [
            str(value).split(":")[0]
            for name, value in attrs
            if name in ("href", "src", "action") and ":" in str(value)
        ]

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", ()))


def pages_with(text: str) -> dict[str, str]:
    """Pages of every kind, with `text` wherever somebody writes."""
    actor = Actor(
        account="1", name="ada", shown=text, roles=frozenset(Role), via="session", form_key="0" * 64
    )
    row = {
        "name": "x", "title": text, "place": text, "item": text, "population": "p",
        "digest": "0" * 64, "created": "2024-01-01T00:00:00Z", "creator": text, "id": "1",
        "dataset": "x", "release": "x",
        "state": "proposed", "proposer": text, "why": text, "decider": text, "decided": text,
        "reason": text, "job": "", "two_person": True, "cost": "epsilon = 1", "shown": text,
        "roles": "curator", "held": frozenset({Role.curator}), "active": True, "subject": None,
        "asked": {"method": text, "settings": {text: text}, "digest": "0" * 64},
    }  # fmt: skip
    about = dict.fromkeys(
        ("title", "description", "publisher", "contact", "purpose", "licence"), text
    )
    one: dict[str, Any] = {
        "name": "x", "title": text, "published": "2024-01-01T00:00:00Z", "withdrawn": "2024",
        "reason": text, "about": about, "offered": ["x.dpr"], "sizes": {"x.dpr": 1}, "labels": {},
        "hashes": {"x.dpr": "0"}, "cost": "epsilon = 1", "address": "http://x", "citation": text,
        "facts": {
            "method": text, "signatures": [text], "sentences": [text],
            "privacy": {"statement": text, "unit": text},
            "columns": [{"name": text, "kind": text, "title": text, "units": text}],
        },
    }  # fmt: skip
    action = {
        "seq": 1,
        "at": "2024",
        "actor": text,
        "action": text,
        "subject": text,
        "detail": text,
    }
    toml = schema_form.dump(
        {
            "dataset": {"name": text, **about},
            "columns": {text or "x": {"kind": "categorical", "levels": [text], "source": text}},
        }
    )
    show = PAGES.text
    return {
        "home": show("home.html", None, shown=[one], words=text, address="http://x"),
        "release": show("public_release.html", None, one=one, address="http://x"),
        "withdrawn": show("public_withdrawn.html", None, one=one),
        "error": show("error.html", actor, code=400, message=text),
        "login": show("login.html", None, next=text, problem=text, provider=text),
        "link": show("link.html", None, secret=text, problem=None),
        "account": show(
            "account.html", actor, has_password=True, of_provider=False, welcome=True, token=text,
            tokens=[{"id": "1", "name": text, "roles": text, "created": text, "expires": text}],
        ),
        "datasets": show("data/datasets.html", actor, datasets=[row], places={}),
        "schema": show(
            "data/schema.html", actor, row=row, text=toml, fields=schema_form.read(toml),
            kinds=schema_form.KINDS, problems=[text], templates=[text], in_force=False,
        ),
        "proposals": show("data/proposals.html", actor, waiting=[row], decided=[row]),
        "proposal": show(
            "data/proposal.html", actor, row=row, plans=[], problem=text, budget=None, after=None,
            may_approve=True, mine=True,
        ),
        "people": show("office/people.html", actor, accounts=[row], link=text, whose=text),
        "actions": show("audit/actions.html", actor, actions=[action], broken=None, earlier=None),
    }  # fmt: skip


PLAIN = {name: Shape(page) for name, page in pages_with("plain").items()}


@settings(max_examples=60, deadline=None)
@given(HOSTILE)
def test_no_text_of_anybody_changes_what_a_page_is_made_of(text: str) -> None:
    for name, page in pages_with(f"p{text}").items():
        found = Shape(page)
        assert found.tags == PLAIN[name].tags, name
        assert found.addresses == PLAIN[name].addresses, name


@settings(max_examples=150, deadline=None)
@given(HOSTILE, HOSTILE)
def test_a_schema_keeps_what_people_write_through_the_form(name: str, text: str) -> None:
    document = {
        "dataset": {"name": text, "description": text},
        "columns": {name: {"kind": "categorical", "levels": [text, "é"]}},
    }
    assert tomllib.loads(schema_form.dump(document)) == document


def test_a_page_that_does_not_escape_would_be_noticed() -> None:
    loose = Pages(Config.read())
    loose.environment.autoescape = False
    page = loose.text("link.html", None, secret='"><script>', problem=None)
    assert Shape(page).tags != PLAIN["link"].tags
