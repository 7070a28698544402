"""The one table of routes: path, methods, who may, handler. Nothing is reached but through it.

`app` makes the application from it, and the test of authorisation walks it for every role. A route
that states no rule cannot be written down.

A handler is `def handler(...) -> Response` (run in a thread) or `async def`. It is given what the
names of its parameters say, found in their order:

    request, office         the request, and the `app.Office` (config, store, accounts, jobs, ...)
    actor                   who asks (`accounts.Actor`); absent on public routes
    form                    the fields of a form, checked against forgery (kind "form")
    given                   the body as `api.bodies` reads it (kind "json", methods with a body)
    dataset, desk,          the row that the path names, of a job its id; 404 where there is none
    job, proposal, release
    catalogue               what anyone may read
    any other               that part of the path

Parameters that are keywords only are for callers of its own module, such as a form that is shown
again with what was wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Literal

from dpublish.server.accounts import Role

Who = frozenset[Role] | Literal["public", "anyone"]
"""Roles, of which one is enough; `anyone` who is logged in; or the public, without login."""

PUBLIC: Final = "public"
ANYONE: Final = "anyone"
ADMIN: Final = frozenset({Role.admin})
CURATOR: Final = frozenset({Role.curator})
DECIDES: Final = frozenset({Role.approver})
PROPOSES_OR_DECIDES: Final = CURATOR | DECIDES
OFFICE: Final = frozenset({Role.curator, Role.approver, Role.auditor, Role.admin})
AUDITOR: Final = frozenset({Role.auditor})
ASKS: Final = frozenset({Role.researcher, Role.curator})
DESK: Final = OFFICE | ASKS

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
    upload: bool = False
    """Whether it takes files of rows, which have a limit of their own."""


def load(handler: str) -> Any:
    module, _, name = handler.partition(":")
    return getattr(import_module(f"dpublish.server.{module}"), name)


def page(path: str, who: Who, handler: str) -> Route:
    return Route(path=path, methods=("GET",), who=who, handler=handler, kind="page")


def form(path: str, who: Who, handler: str, *, upload: bool = False) -> Route:
    return Route(path=path, methods=("POST",), who=who, handler=handler, kind="form", upload=upload)


def json(path: str, who: Who, handler: str, *methods: str) -> Route:
    return Route(path=path, methods=methods or ("GET",), who=who, handler=handler, kind="json")


PAGES: Final = (
    page("/", PUBLIC, "catalogue:home"),
    page("/catalogue.json", PUBLIC, "catalogue:feed"),
    page("/catalogue.jsonld", PUBLIC, "catalogue:feed"),
    page("/feed.json", PUBLIC, "catalogue:feed"),
    page("/releases/{name}", PUBLIC, "catalogue:release"),
    page("/releases/{name}/{file}", PUBLIC, "catalogue:release_file"),
    page("/static/{file}", PUBLIC, "catalogue:static"),
    page("/login", PUBLIC, "pages.entry:login_page"),
    form("/login", PUBLIC, "pages.entry:login"),
    page("/login/link", PUBLIC, "pages.entry:link_page"),
    form("/login/link", PUBLIC, "pages.entry:use_link"),
    page("/login/oidc", PUBLIC, "pages.entry:start"),
    page("/login/oidc/back", PUBLIC, "pages.entry:back"),
    form("/logout", ANYONE, "pages.entry:logout"),
    page("/account", ANYONE, "pages.entry:account"),
    form("/account/password", ANYONE, "pages.entry:set_password"),
    form("/account/tokens", ANYONE, "pages.entry:new_token"),
    form("/account/tokens/{token}/end", ANYONE, "pages.entry:end_token"),
    # data sets
    page("/datasets", OFFICE, "pages.curator:datasets"),
    page("/datasets/new", CURATOR, "pages.curator:new_dataset"),
    form("/datasets", CURATOR, "pages.curator:add_dataset"),
    form("/datasets/upload", CURATOR, "pages.curator:upload", upload=True),
    page("/datasets/{name}", OFFICE, "pages.curator:dataset"),
    form("/datasets/{name}/remove", CURATOR, "pages.curator:remove_dataset"),
    page("/datasets/{name}/schema", CURATOR, "pages.curator:schema"),
    form("/datasets/{name}/schema", CURATOR, "pages.curator:save_schema"),
    form("/datasets/{name}/schema/start", CURATOR, "pages.curator:start_schema"),
    form("/datasets/{name}/schema/draft", CURATOR, "pages.curator:use_draft"),
    form("/datasets/{name}/check", CURATOR, "pages.curator:check"),
    page("/checks/{one}", CURATOR, "pages.curator:checked"),
    form("/checks/{one}/delete", CURATOR, "pages.curator:forget_check"),
    # plans, proposals, jobs
    page("/datasets/{name}/plan", CURATOR, "pages.planning:plan_page"),
    form("/datasets/{name}/plan", CURATOR, "pages.planning:plan"),
    page("/proposals", OFFICE, "pages.planning:proposals"),
    page("/proposals/{proposal}", OFFICE, "pages.planning:proposal"),
    form("/proposals/{one}/approve", DECIDES, "pages.planning:approve"),
    form("/proposals/{one}/decline", PROPOSES_OR_DECIDES, "pages.planning:decline"),
    page("/jobs", OFFICE, "pages.planning:jobs"),
    page("/jobs/{job}", OFFICE, "pages.planning:job_page"),
    page("/jobs/{job}/part", OFFICE, "pages.planning:job_part"),
    form("/jobs/{one}/cancel", PROPOSES_OR_DECIDES, "pages.planning:cancel"),
    # releases, budgets, people
    page("/office/releases", OFFICE, "pages.office:releases"),
    page("/office/releases/{name}", OFFICE, "pages.office:release"),
    page("/office/releases/{name}/download", OFFICE, "app:release_file"),
    page("/office/releases/{name}/look/{what}", OFFICE, "pages.office:release_look"),
    form("/office/releases/{name}/publish", CURATOR, "pages.office:publish"),
    form("/office/releases/{name}/withdraw", CURATOR, "pages.office:withdraw"),
    form("/office/releases/{name}/sign", CURATOR, "pages.office:sign"),
    form("/office/releases/{name}/again", DECIDES, "pages.office:run_again"),
    page("/ledger", OFFICE, "pages.office:ledger"),
    form("/ledger", ADMIN, "pages.office:open_budget"),
    page("/ledger/{name}", OFFICE, "pages.office:budget"),
    page("/accounts", ADMIN, "pages.office:people"),
    form("/accounts", ADMIN, "pages.office:add_person"),
    form("/accounts/{account}", ADMIN, "pages.office:change_person"),
    # query desk
    page("/desk", DESK, "pages.desk:desks"),
    page("/desk/{name}", DESK, "pages.desk:show"),
    form("/desk/{name}/ask", ASKS, "pages.desk:ask"),
    form("/desk/{name}/seats", CURATOR, "pages.desk:give_seat"),
    form("/desk/{name}/close", CURATOR, "pages.desk:close"),
    page("/datasets/{name}/desk", CURATOR, "pages.desk:plan_page"),
    form("/datasets/{name}/desk", CURATOR, "pages.desk:plan"),
    # audit
    page("/audit", AUDITOR, "pages.audit:overview"),
    page("/audit/ledger", AUDITOR, "pages.audit:chain"),
    page("/audit/releases", AUDITOR, "pages.audit:payments"),
    page("/audit/proofs", AUDITOR, "pages.audit:proofs"),
    page("/audit/runs", AUDITOR, "pages.audit:runs"),
    form("/audit/runs", AUDITOR, "pages.audit:start_run"),
    page("/audit/actions", AUDITOR, "pages.audit:actions"),
    page("/audit/export", AUDITOR, "pages.audit:export"),
)

API: Final = (
    json("/health", PUBLIC, "app:health"),
    json("/api/me", ANYONE, "app:me"),
    json("/openapi.json", PUBLIC, "api.public:openapi"),
    json("/api/releases", PUBLIC, "api.public:listed"),
    json("/api/releases/{name}", PUBLIC, "api.public:shown"),
    json("/api/releases/{name}/query", PUBLIC, "api.public:query", "POST"),
    json("/api/releases/{name}/sql", PUBLIC, "api.public:sql", "POST"),
    json("/api/methods", PUBLIC, "api.public:methods"),
    json("/api/methods/{method}", PUBLIC, "api.public:method"),
    # data sets and plans
    json("/api/places", CURATOR, "api.office:places"),
    json("/api/datasets", OFFICE, "api.office:datasets"),
    json("/api/datasets", CURATOR, "api.office:add_dataset", "POST"),
    json("/api/datasets/{name}", OFFICE, "api.office:dataset"),
    json("/api/datasets/{name}/schema", CURATOR, "api.office:schema"),
    json("/api/datasets/{name}/schema", CURATOR, "api.office:put_schema", "PUT"),
    json("/api/datasets/{name}/plan", CURATOR, "api.office:plan", "POST"),
    json("/api/datasets/{name}/rehearse", CURATOR, "api.office:rehearse", "POST"),
    json("/api/datasets/{name}/compare", CURATOR, "api.office:compare", "POST"),
    json("/api/datasets/{name}/check", CURATOR, "api.office:check", "POST"),
    # proposals, jobs, releases
    json("/api/proposals", OFFICE, "api.office:proposals"),
    json("/api/proposals", CURATOR, "api.office:propose", "POST"),
    json("/api/proposals/{proposal}", OFFICE, "api.office:proposal"),
    json("/api/proposals/{proposal}/approve", DECIDES, "api.office:approve", "POST"),
    json("/api/proposals/{proposal}/decline", PROPOSES_OR_DECIDES, "api.office:decline", "POST"),
    json("/api/jobs", OFFICE, "api.office:jobs"),
    json("/api/jobs/{job}", OFFICE, "api.office:job"),
    json("/api/jobs/{job}/results", CURATOR, "api.office:results"),
    json("/api/jobs/{job}/cancel", PROPOSES_OR_DECIDES, "api.office:cancel", "POST"),
    json("/api/office/releases", OFFICE, "api.office:releases"),
    json("/api/office/releases/{name}", OFFICE, "api.office:release"),
    json("/api/office/releases/{name}/file", OFFICE, "app:release_file"),
    json("/api/office/releases/{name}/publish", CURATOR, "api.office:publish", "POST"),
    json("/api/office/releases/{name}/withdraw", CURATOR, "api.office:withdraw", "POST"),
    json("/api/office/releases/{name}/again", DECIDES, "api.office:run_again", "POST"),
    # budgets and audit
    json("/api/ledger", OFFICE, "api.office:budgets"),
    json("/api/ledger", ADMIN, "api.office:open_budget", "POST"),
    json("/api/ledger/{name}", OFFICE, "api.office:budget"),
    json("/api/audit/ledger", AUDITOR, "api.office:audit_ledger"),
    json("/api/audit/releases", AUDITOR, "api.office:audit_releases"),
    json("/api/audit/actions", AUDITOR, "api.office:actions"),
    json("/api/audit/runs", AUDITOR, "api.office:start_audit", "POST"),
    json("/api/metrics", OFFICE, "api.office:metrics"),
    # query desks
    json("/api/desks", ANYONE, "api.office:desks"),
    json("/api/desks", CURATOR, "api.office:propose_desk", "POST"),
    json("/api/desks/{name}", ANYONE, "api.office:desk"),
    json("/api/desks/{name}/seats", CURATOR, "api.office:admit", "POST"),
    json("/api/desks/{name}/ask", ASKS, "api.office:ask", "POST"),
    json("/api/desks/{name}/close", CURATOR, "api.office:close_desk", "POST"),
)
"""JSON for programs; `/openapi.json` and everything below `/api/`."""

ROUTES: Final = (*PAGES, *API)
