"""Coming in and going out: log-in, one-time links, passwords, API tokens, and log-in through an
identity provider (the authorisation code flow with PKCE, by Authlib).

Who the provider names is known by issuer and subject, never by a name or a mail address, which a
provider may give to somebody else. A local account is never taken over.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError
from dpublish.server.accounts import Actor, Role, read_roles, write_roles
from dpublish.server.app import Office
from dpublish.server.config import Oidc
from dpublish.server.pages.templates import roles_in, to
from dpublish.server.store import ACCOUNTS, Row

WAY: Final = "dpublish-oidc"
"""The cookie that says which log-in a browser began; signed, and gone after ten minutes."""
_MINUTES: Final = 10
REFUSED: Final = "The identity provider did not confirm this log-in. Try again."


async def start(request: Request, office: Office) -> Response:
    """Send the browser to the provider."""
    client = _client(office)
    request.scope["session"] = {"next": request.query_params.get("next", "/datasets")}
    try:
        answer: Response = await client.authorize_redirect(
            request, f"{office.address}/login/oidc/back"
        )
    except Exception:
        raise HTTPException(502, "The identity provider cannot be reached.") from None
    held = json.dumps(request.scope["session"], default=str)
    answer.set_cookie(
        WAY, office.accounts.sealed("oidc", held), max_age=_MINUTES * 60, httponly=True,
        samesite="lax", secure=office.config.secure, path="/login/oidc",
    )  # fmt: skip
    return answer


async def back(request: Request, office: Office) -> Response:
    """The browser comes back with a code, which is exchanged for who it is."""
    client = _client(office)
    held = office.accounts.unsealed("oidc", request.cookies.get(WAY, ""))
    if held is None:
        raise HTTPException(400, REFUSED)
    request.scope["session"] = json.loads(held)
    aim = str(request.scope["session"].get("next", ""))
    try:
        token = await client.authorize_access_token(request)
    except Exception:
        # what a provider sends can be wrong in any way, and none of them lets anybody in
        raise HTTPException(401, REFUSED) from None
    claims = token.get("userinfo") or {}
    if not claims.get("sub"):
        raise HTTPException(401, REFUSED)
    answer = let_in(office, request, account_of(office, claims), aim, how="identity provider")
    answer.delete_cookie(WAY, path="/login/oidc")
    return answer


def account_of(office: Office, claims: Any) -> Row:
    """The account of whom the provider names; made at their first visit, without roles unless a
    claim of the provider gives them."""
    settings = office.config.oidc
    subject = f"{settings.issuer}#{claims['sub']}"
    roles = _roles(settings, claims)
    row = office.store.one(ACCOUNTS, subject=subject)
    if row is None:
        wanted = str(claims.get("preferred_username") or claims.get("email") or claims["sub"])
        return office.accounts.add(
            _free(office, wanted),
            roles or [],
            by="identity provider",
            shown=str(claims.get("name") or wanted),
            subject=subject,
        )
    if not row["active"]:
        raise InputError("This account is closed. Ask an admin of this office.")
    if roles is not None and write_roles(roles) != row["roles"]:
        office.accounts.change(row["id"], by="identity provider", roles=roles)
    return office.store.one(ACCOUNTS, subject=subject) or row


def _roles(settings: Oidc, claims: Any) -> list[Role] | None:
    if settings.roles_claim is None:
        return None
    given = claims.get(settings.roles_claim, [])
    words = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    return [Role(one) for one in words if isinstance(one, str) and one in Role.__members__]


def _free(office: Office, wanted: str) -> str:
    base = re.sub(r"[^a-z0-9._@-]+", "-", wanted.lower()).strip("-._@")[:56] or "person"
    names = {row["name"] for row in office.accounts.all()}
    return next(
        one for one in (base, *(f"{base}-{n}" for n in range(2, 10_000))) if one not in names
    )


def _client(office: Office) -> Any:
    settings = office.config.oidc
    if settings.issuer is None:
        raise HTTPException(404, "This office has no identity provider.")
    if office.provider is None:
        from authlib.integrations.starlette_client import OAuth

        secret = None
        if settings.client_secret_file is not None:
            try:
                secret = settings.client_secret_file.read_text(encoding="utf-8").strip()
            except OSError:
                raise InputError(
                    "The client secret of the identity provider cannot be read."
                ) from None
        office.provider = OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=secret,
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
        )
    return office.provider


# Without a provider: passwords, one-time links, API tokens.

START = "/datasets"
WRONG = "The name or the password is wrong."
TOO_MANY = "Too many attempts. Wait a minute."
USED = "This link was used already, or is too old. Ask an admin for a new one."


def login_page(request: Request, office: Office) -> Response:
    return _login_page(office, request.query_params.get("next", START), None)


def login(request: Request, form: FormData, office: Office) -> Response:
    name = str(form.get("name", ""))
    aim = str(form.get("next", ""))
    if not _may_try(office, request, name):
        return _login_page(office, aim, TOO_MANY, status=429)
    account = office.accounts.check_password(name, str(form.get("password", "")))
    if account is None:
        office.store.did("nobody", "log-in refused", name.strip().lower()[:64])
        return _login_page(office, aim, WRONG, status=401)
    return let_in(office, request, account, aim, how="password")


def _login_page(office: Office, aim: str, problem: str | None, *, status: int = 200) -> Response:
    return office.pages.show(
        "login.html",
        None,
        status=status,
        next=_inside(aim),
        problem=problem,
        provider=office.config.oidc.name if office.config.oidc.issuer else None,
    )


def _may_try(office: Office, request: Request, name: str) -> bool:
    here = office.login_rate.allows(f"address {office.address_of(request)}")
    return office.login_rate.allows(f"name {name.strip().lower()[:64]}") and here


def _inside(aim: str) -> str:
    """An address of this service, whatever was asked for."""
    plain = aim.startswith("/") and not aim.startswith(("//", "/\\")) and aim.isprintable()
    return aim if plain and "\\" not in aim else START


def let_in(office: Office, request: Request, account: Row, aim: str, *, how: str) -> Response:
    """A new session for this browser; one that it had before ends."""
    browser = request.headers.get("user-agent", "")
    before = office.accounts.by_cookie(request.cookies.get(office.cookie, ""), browser)
    if before is not None:
        office.accounts.log_out(before)
    cookie = office.accounts.log_in(account, browser, how=how)
    roles = read_roles(account["roles"])
    aim = _inside(aim)
    if aim == START and roles <= {Role.researcher}:
        aim = "/desk" if roles else "/account"
    answer = to(aim)
    answer.set_cookie(
        office.cookie,
        cookie,
        max_age=office.config.limits.session_hours * 3600,
        secure=office.config.secure,
        httponly=True,
        samesite="lax",
    )
    return answer


def link_page(request: Request, office: Office) -> Response:
    """Asks before the link is used up: programs that look at links in mails use none."""
    return office.pages.show(
        "link.html", None, secret=request.query_params.get("key", ""), problem=None
    )


def use_link(request: Request, form: FormData, office: Office) -> Response:
    if not _may_try(office, request, "link"):
        return office.pages.show("link.html", None, status=429, secret="", problem=TOO_MANY)
    account = office.accounts.use_link(str(form.get("key", "")))
    if account is None:
        return office.pages.show("link.html", None, status=401, secret="", problem=USED)
    return let_in(office, request, account, "/account?welcome=1", how="link")


def logout(actor: Actor, office: Office) -> Response:
    office.accounts.log_out(actor)
    answer = to("/")
    answer.delete_cookie(office.cookie, secure=office.config.secure, httponly=True, samesite="lax")
    return answer


def account(
    request: Request, actor: Actor, office: Office, *, token: str | None = None
) -> Response:
    row = office.accounts.find(actor.name)
    return office.pages.show(
        "account.html",
        actor,
        has_password=bool(row and row["password"]),
        of_provider=bool(row and row["subject"]),
        welcome="welcome" in request.query_params,
        tokens=[one for one in office.accounts.tokens(actor.account) if one["ended"] is None],
        token=token,
    )


def set_password(request: Request, form: FormData, actor: Actor, office: Office) -> Response:
    fresh = str(form.get("password", ""))
    row = office.store.known(ACCOUNTS, "account", id=actor.account)
    if fresh != str(form.get("again", "")):
        raise InputError("The two passwords differ.")
    if row["password"]:
        if not _may_try(office, request, actor.name):
            raise InputError(TOO_MANY)
        if office.accounts.check_password(actor.name, str(form.get("old", ""))) is None:
            raise InputError("The old password is wrong.")
    office.accounts.set_password(actor.account, fresh, by=actor.name)
    return let_in(office, request, row, "/account", how="new password")


def new_token(request: Request, form: FormData, actor: Actor, office: Office) -> Response:
    name = str(form.get("name", ""))
    token = office.accounts.new_token(actor.account, name, roles_in(form), by=actor.name)
    return account(request, actor, office, token=token)


def end_token(token: str, actor: Actor, office: Office) -> Response:
    office.accounts.end_token(token, account=actor.account, by=actor.name)
    return to("/account")
