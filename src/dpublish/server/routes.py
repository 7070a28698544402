"""The one table of routes: path, methods, who may, handler. Nothing is reached but through it.

`app` makes the application from it, and the test of authorisation walks it for every role. A route
that states no rule cannot be written down.

A handler is `def handler(request) -> Response` (run in a thread) or `async def`. It finds

    request.state.actor     who asks (`accounts.Actor`); absent on public routes
    request.state.form      the fields of a form, checked against forgery (kind "form")
    request.state.json      the document of a JSON body (kind "json", methods with a body)
    request.app.state.office    the `app.Office`: config, store, accounts, jobs, ledger, catalogue
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dpublish.server.accounts import Role

Who = frozenset[Role] | Literal["public", "anyone"]
"""Roles, of which one is enough; `anyone` who is logged in; or the public, without login."""

PUBLIC: Final = "public"
ANYONE: Final = "anyone"
ADMIN: Final = frozenset({Role.admin})
CURATOR: Final = frozenset({Role.curator})
DECIDES: Final = frozenset({Role.approver})
OFFICE: Final = frozenset({Role.curator, Role.approver, Role.auditor, Role.admin})
AUDITOR: Final = frozenset({Role.auditor})
ASKS: Final = frozenset({Role.researcher, Role.curator})

Kind = Literal["page", "form", "json"]
"""`page`: asked for with GET. `form`: posted by a page, and must carry the session's form key.
`json`: of the API, by token, or by a session with the form key in the header X-Form-Key."""


@dataclass(frozen=True, kw_only=True)
class Route:
    path: str
    methods: tuple[str, ...]
    who: Who
    handler: str
    """MODULE:FUNCTION below `dpublish.server`."""
    kind: Kind
    most_bytes: int | None = None
    """Largest body, where it is not that of other forms."""


def page(path: str, who: Who, handler: str) -> Route:
    return Route(path=path, methods=("GET",), who=who, handler=handler, kind="page")


def form(path: str, who: Who, handler: str, *, most_bytes: int | None = None) -> Route:
    return Route(
        path=path, methods=("POST",), who=who, handler=handler, kind="form", most_bytes=most_bytes
    )


def json(path: str, who: Who, handler: str, *methods: str) -> Route:
    return Route(path=path, methods=methods or ("GET",), who=who, handler=handler, kind="json")


PAGES: Final = (
    page("/", PUBLIC, "pages.public:home"),
    page("/static/{file}", PUBLIC, "pages.public:static"),
    page("/login", PUBLIC, "pages.entry:login_page"),
    form("/login", PUBLIC, "pages.entry:login"),
    page("/login/link", PUBLIC, "pages.entry:link_page"),
    form("/login/link", PUBLIC, "pages.entry:use_link"),
    form("/logout", ANYONE, "pages.entry:logout"),
    page("/account", ANYONE, "pages.entry:account"),
    form("/account/password", ANYONE, "pages.entry:set_password"),
    form("/account/tokens", ANYONE, "pages.entry:new_token"),
    form("/account/tokens/{token}/end", ANYONE, "pages.entry:end_token"),
)

API: Final = (
    json("/health", PUBLIC, "app:health"),
    json("/api/me", ANYONE, "app:me"),
)
"""JSON for programs; `/openapi.json` and everything below `/api/`."""

ROUTES: Final = (*PAGES, *API)
