"""The application, made from the table of routes: every route is guarded by the rule beside it."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import secrets
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from operator import attrgetter
from typing import Any, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route as Path_

from dpublish.errors import BudgetError, InputError, LedgerUnavailable, PublishError
from dpublish.owned import owned_folder, replace_owned
from dpublish.server import security
from dpublish.server.accounts import Accounts, Actor, Role, office_key
from dpublish.server.api.bodies import BODIES
from dpublish.server.catalogue import Catalogue, OpenReleases
from dpublish.server.config import Config
from dpublish.server.datasets import Datasets
from dpublish.server.desk import Desks
from dpublish.server.jobs import JobRunner
from dpublish.server.pages.templates import Pages
from dpublish.server.releases import Releases
from dpublish.server.routes import ROUTES, Route, load
from dpublish.server.security import Hide, Rate, TooLarge, form_key_right, from_here
from dpublish.server.store import JOBS, PROPOSALS, RELEASES, Row, Store

LOG = logging.getLogger("dpublish.server")
CACHE_TAG = b"Signature: 8a477f597d28d172789f06886806bc55\n"
UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_HEALTH_SECONDS = 10.0


class Office:
    """What handlers work with."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.state = config.state
        self.cookie = "__Host-dpublish" if config.secure else "dpublish"
        for name in ("", "data", "files", "public", "jobs", "uploads", "desks"):
            owned_folder(self.state / name)
        for name in ("jobs", "uploads"):  # they may hold rows: backups leave them out
            replace_owned(self.state / name / "CACHEDIR.TAG", CACHE_TAG)
        self.store = Store(config.database_url)
        limits = config.limits
        self.accounts = Accounts(
            self.store,
            office_key(self.state),
            session_hours=limits.session_hours,
            idle_minutes=limits.idle_minutes,
            token_days=limits.token_days,
        )
        self.jobs = JobRunner(
            self.store, self.state / "jobs", at_once=limits.jobs, minutes=limits.job_minutes
        )
        self.pages = Pages(config)
        self.datasets = Datasets(config, self.store)
        self.desks = Desks(config, self.store, self.datasets, self.jobs, self.accounts)
        self.releases = Releases(config, self.store, self.datasets, self.jobs, self.desks)
        self.catalogue = Catalogue(self.releases, self.pages)
        self.releases.changed = self.catalogue.refresh
        self.hide = Hide(
            {
                str(config.state): "the state folder",
                config.ledger_url: "the ledger",
                config.database_url: "the service's database",
                **{
                    str(place.folder or place.database): f"the place '{name}'"
                    for name, place in config.all_places.items()
                },
            }
        )
        self.open_releases = OpenReleases()
        self.login_rate = Rate(limits.logins_per_minute)
        self.rate = Rate(limits.requests_per_minute)
        self.public_rate = Rate(limits.public_per_minute)
        self._health: tuple[float, dict[str, str]] = (float("-inf"), {})
        self._health_lock = threading.Lock()
        self.provider: Any = None
        """The client of the identity provider, once somebody has asked for it."""
        self.origins: set[str] = set()
        """Where forms may come from; the port is known once the service listens."""
        self.listens(config.port)

    def listens(self, port: int) -> None:
        self.address = (self.config.url or _origin(self.config.host, port)).rstrip("/")
        """What links begin with."""
        self.origins = {self.address, *[_origin(one, port) for one in self.config.hosts]}
        self.catalogue.address = self.address
        self.catalogue.refresh()

    def address_of(self, request: Request) -> str:
        """Who sent it; a proxy's word is taken where the configuration names the proxy."""
        client = request.client.host if request.client is not None else ""
        if client in self.config.proxies:
            return request.headers.get("x-forwarded-for", client).rpartition(",")[2].strip()
        return client

    def first_link(self) -> str | None:
        """A one-time link for the first person, as long as nobody can log in otherwise."""
        if any(
            row["active"] and (row["password"] or row["subject"]) for row in self.accounts.all()
        ):
            return None
        first = self.accounts.find("admin") or self.accounts.add("admin", Role, by="office")
        return self.accounts.new_link(first["id"], by="office", hours=24)

    def health(self) -> dict[str, str]:
        """Whether tables and ledger can be read. Looked at every ten seconds at most: anyone may
        ask."""
        with self._health_lock:
            moment, found = self._health
            if time.monotonic() - moment > _HEALTH_SECONDS:
                found = {"tables": "ok", "ledger": "ok"}
                try:
                    for budget in self.datasets.budgets()[:1]:
                        self.datasets.spending(budget["name"])
                except PublishError:
                    found["ledger"] = "cannot be read"
                except Exception:
                    found["tables"] = "cannot be read"
                status = "ok" if set(found.values()) == {"ok"} else "failing"
                found = {"status": status, **found}
                self._health = (time.monotonic(), found)
            return found

    def close(self) -> None:
        self.jobs.close()
        self.desks.stop()
        self.store.close()


def _origin(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def office_of(request: Request) -> Office:
    office: Office = request.app.state.office
    return office


def known(row: Row | None, what: str) -> Row:
    """A row that was asked for, or the answer that there is none."""
    if row is None:
        raise HTTPException(404, f"There is no such {what}.")
    return row


def dataset_of(request: Request) -> Row:
    """The data set that a path names."""
    return known(office_of(request).datasets.get(request.path_params["name"]), "data set")


def release_of(request: Request) -> Row:
    """The release that a path names."""
    name = request.path_params["name"]
    return known(office_of(request).store.one(RELEASES, name=name), "release")


def desk_of(request: Request) -> Row:
    """The desk that a path names, if this person may see it; others are not there."""
    name = request.path_params["name"]
    seen = office_of(request).desks.of(request.state.actor)
    return known(next((one for one in seen if one["name"] == name), None), "desk")


def job_of(request: Request) -> str:
    """The id of the job that a path names."""
    name = request.path_params["job"]
    return str(known(office_of(request).store.one(JOBS, id=name), "job")["id"])


def proposal_of(request: Request) -> Row:
    """The proposal that a path names."""
    name = request.path_params["proposal"]
    return known(office_of(request).store.one(PROPOSALS, id=name), "proposal")


def release_file(release: Row, office: Office) -> Response:
    """The release file itself.

    That of the release which a path names, whether it is public or not."""
    path = office.releases.file_of(release["name"])
    if release["state"] in ("making", "failed") or not path.exists():
        raise HTTPException(404, "There is no such file.")
    return FileResponse(path, media_type="application/zip", filename=path.name)


def create_app(config: Config) -> Starlette:
    """The whole service. `app.state.office` holds what it works with."""
    office = Office(config)

    @asynccontextmanager
    async def living(app: Starlette) -> AsyncIterator[None]:
        chores = asyncio.create_task(_chores(office))
        yield
        chores.cancel()
        office.close()

    app = Starlette(
        routes=[
            Path_(one.path, _guarded(one), methods=list(one.methods), name=one.handler)
            for one in ROUTES
        ],
        middleware=[Middleware(security.Outer, hosts=config.hosts, secure=config.secure)],
        exception_handlers={HTTPException: _http_failure, Exception: _failure},
        lifespan=living,
    )
    app.state.office = office
    return app


async def _chores(office: Office) -> None:
    """What nobody asks for: jobs that ended are written down, old uploads are deleted."""
    while True:
        try:
            await run_in_threadpool(office.releases.settle)
            await run_in_threadpool(office.desks.settle)
            await run_in_threadpool(office.datasets.sweep_uploads)
        except Exception as error:
            LOG.error("chores: %s", _incident(error))
        await asyncio.sleep(1)


_PARTS: Final[Mapping[str, Callable[[Request], Any]]] = {
    "actor": attrgetter("state.actor"),
    "form": attrgetter("state.form"),
    "catalogue": attrgetter("app.state.office.catalogue"),
    "office": office_of,
    "dataset": dataset_of,
    "desk": desk_of,
    "job": job_of,
    "proposal": proposal_of,
    "release": release_of,
}


def _part(request: Request, route: Route, name: str) -> Any:
    """What a handler's parameter of this name stands for; see `routes`."""
    if name == "request":
        return request
    if name == "given":
        return BODIES[route.handler].read(request.state.json)
    return _PARTS[name](request) if name in _PARTS else request.path_params[name]


def _guarded(route: Route) -> Callable[[Request], Awaitable[Response]]:
    handler = load(route.handler)
    names = [
        one.name
        for one in inspect.signature(handler).parameters.values()
        if one.kind is not one.KEYWORD_ONLY
    ]

    def run(request: Request) -> Any:
        return handler(*[_part(request, route, name) for name in names])

    async def in_thread(request: Request) -> Any:
        return await run_in_threadpool(run, request)

    answering = run if inspect.iscoroutinefunction(handler) else in_thread

    async def endpoint(request: Request) -> Response:
        answer: Response
        try:
            answer = await _admit(request, route) or await answering(request)
        except TooLarge:
            answer = _refused(request, route, 413, "This is longer than the service takes.")
        except (PublishError, HTTPException) as error:
            answer = _explained(request, route, error)
        except Exception as error:
            answer = _refused(request, route, 500, _incident(error))
        if "cache-control" not in answer.headers:
            answer.headers["cache-control"] = "no-store"  # what is behind login is in no cache
        return answer

    return endpoint


async def _admit(request: Request, route: Route) -> Response | None:
    """Let a request in, or say why not. What it carries is read here, after who it is is known."""
    office = office_of(request)
    actor: Actor | None = None
    if route.who == "public" and not office.public_rate.allows(office.address_of(request)):
        return _refused(request, route, 429, "Too many requests. Wait a minute.")
    if route.who != "public":
        actor = await run_in_threadpool(_identify, office, request, route)
        if actor is None:
            return _unknown(request, route)
        if isinstance(route.who, frozenset) and not actor.may(route.who):
            words = " or ".join(sorted(route.who))
            return _refused(
                request,
                route,
                403,
                f"This is for people with the role {words}. An admin of this office gives roles.",
            )
        if not office.rate.allows(actor.account):
            return _refused(request, route, 429, "Too many requests. Wait a minute.")
        request.state.actor = actor
    if request.method in UNSAFE:
        from_browser = route.kind == "form" if actor is None else actor.via == "session"
        if from_browser and not from_here(request, frozenset(office.origins)):
            return _refused(
                request, route, 403, "This form was not sent from a page of this service."
            )
        limits, uploads = office.config.limits, office.config.uploads
        most = limits.form_bytes + (uploads.max_bytes if route.upload and uploads.allowed else 0)
        request._receive = security.limited(request.receive, most, request.headers)
        if route.kind == "form":
            form = await request.form(max_files=4, max_fields=5000, max_part_size=most)
            if actor is not None and not form_key_right(form.get("form_key"), actor.form_key):
                return _refused(
                    request,
                    route,
                    403,
                    "This form is out of date. Go back, reload it and send it again.",
                )
            request.state.form = form
        else:
            sent = request.headers.get("x-form-key")
            if from_browser and actor is not None and not form_key_right(sent, actor.form_key):
                return _refused(request, route, 403, "The header X-Form-Key is missing or wrong.")
            request.state.json = _document(await request.body())
    return None


def _identify(office: Office, request: Request, route: Route) -> Actor | None:
    sent = request.headers.get("authorization", "")
    if sent:
        scheme, _, token = sent.partition(" ")
        # pages are for people: a token opens the API alone
        right = route.kind == "json" and scheme.lower() == "bearer"
        return office.accounts.by_token(token.strip()) if right else None
    return office.accounts.by_cookie(
        request.cookies.get(office.cookie, ""), request.headers.get("user-agent", "")
    )


def _document(body: bytes) -> Any:
    if not body:
        return {}
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("The body is not JSON.") from None


def _unknown(request: Request, route: Route) -> Response:
    if route.kind == "json":
        answer = _refused(
            request, route, 401, "Log in, or send an API token: 'Authorization: Bearer dpo_...'."
        )
        answer.headers["www-authenticate"] = "Bearer"
        return answer
    aim = request.url.path if request.method == "GET" else "/"
    return RedirectResponse(f"/login?next={aim}", status_code=303)


def failed(kind: str, message: str, exit_code: int, status: int) -> JSONResponse:
    """The one shape of failures in JSON, as on the command line."""
    return JSONResponse(
        {"error": {"type": kind, "message": message, "exit_code": exit_code}}, status_code=status
    )


_KINDS = {
    400: "UsageError",
    401: "NotLoggedIn",
    403: "NotAllowed",
    404: "NotFound",
    405: "UsageError",
    413: "TooLarge",
    429: "TooMany",
    500: "UnexpectedError",
}


def _refused(request: Request, route: Route | None, status: int, message: str) -> Response:
    if (route is not None and route.kind == "json") or request.url.path.startswith("/api/"):
        return failed(_KINDS.get(status, "UsageError"), message, 70 if status == 500 else 2, status)
    return office_of(request).pages.show(
        "error.html",
        getattr(request.state, "actor", None),
        status=status,
        code=status,
        message=message,
    )


_STATUS: Final = ((LedgerUnavailable, 503), (BudgetError, 409), (InputError, 400))
"""Of the failures that are told in full, the first that fits; any other is 500."""


def _explained(request: Request, route: Route, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return _refused(request, route, error.status_code, str(error.detail))
    assert isinstance(error, PublishError)
    message = office_of(request).hide(str(error))
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if route.kind == "json":
        return failed(type(error).__name__, message, error.exit_code, status)
    return _refused(request, route, status, message)


def _incident(error: BaseException) -> str:
    """A failure that was not foreseen: where, into the log; its words could quote anything."""
    incident = secrets.token_hex(4)
    where = [
        f"{frame.f_code.co_qualname} line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    LOG.error(
        "incident %s: %s in %s", incident, type(error).__name__, " < ".join(reversed(where[-6:]))
    )
    return f"The service failed in a way it did not foresee (incident {incident})."


async def _http_failure(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "There is no such page.", 405: "This address does not take that method."}
    answer = _refused(
        request, None, error.status_code, words.get(error.status_code, "This cannot be done.")
    )
    answer.headers.update(error.headers or {})
    return answer


async def _failure(request: Request, error: Exception) -> Response:
    return _refused(request, None, 500, _incident(error))


def health(office: Office) -> Response:
    """Whether the service can do its work: its tables and its ledger can be read."""
    found = office.health()
    return JSONResponse(found, status_code=200 if found["status"] == "ok" else 503)


def me(actor: Actor) -> Response:
    """Who the caller is, and what they may."""
    return JSONResponse({"account": actor.name, "name": actor.shown, "roles": sorted(actor.roles)})
