"""Coming in and going out: log-in, one-time links, passwords, API tokens."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dpublish.errors import InputError
from dpublish.server.accounts import Actor, Role, read_roles
from dpublish.server.app import Office, office_of
from dpublish.server.store import Row

START = "/datasets"
WRONG = "The name or the password is wrong."
USED = "This link was used already, or is too old. Ask an admin for a new one."


def login_page(request: Request) -> Response:
    return _login_page(office_of(request), request.query_params.get("next", START), None)


def login(request: Request) -> Response:
    office = office_of(request)
    form = request.state.form
    name, aim = str(form.get("name", "")), str(form.get("next", ""))
    if not _may_try(office, request, name):
        return _login_page(office, aim, "Too many attempts. Wait a minute.", status=429)
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
    """A new session for this browser; one that it had before is left behind."""
    cookie = office.accounts.log_in(account, request.headers.get("user-agent", ""), how=how)
    roles = read_roles(account["roles"])
    aim = _inside(aim)
    if aim == START and roles <= {Role.researcher}:
        aim = "/desk" if roles else "/account"
    answer = RedirectResponse(aim, status_code=303)
    answer.set_cookie(
        office.cookie,
        cookie,
        max_age=office.config.limits.session_hours * 3600,
        secure=office.config.secure,
        httponly=True,
        samesite="lax",
    )
    return answer


def link_page(request: Request) -> Response:
    """Asks before the link is used up: programs that look at links in mails use none."""
    office = office_of(request)
    return office.pages.show(
        "link.html", None, secret=request.query_params.get("key", ""), problem=None
    )


def use_link(request: Request) -> Response:
    office = office_of(request)
    if not _may_try(office, request, "link"):
        return office.pages.show(
            "link.html", None, status=429, secret="", problem="Too many attempts. Wait a minute."
        )
    account = office.accounts.use_link(str(request.state.form.get("key", "")))
    if account is None:
        return office.pages.show("link.html", None, status=401, secret="", problem=USED)
    return let_in(office, request, account, "/account?welcome=1", how="link")


def logout(request: Request) -> Response:
    office = office_of(request)
    office.accounts.log_out(request.state.actor)
    answer = RedirectResponse("/", status_code=303)
    answer.delete_cookie(office.cookie, secure=office.config.secure, httponly=True, samesite="lax")
    return answer


def account(request: Request) -> Response:
    return _account_page(request)


def _account_page(request: Request, *, token: str | None = None) -> Response:
    office, actor = office_of(request), request.state.actor
    row = office.accounts.find(actor.name)
    return office.pages.show(
        "account.html",
        actor,
        has_password=bool(row and row["password"]),
        welcome="welcome" in request.query_params,
        tokens=[one for one in office.accounts.tokens(actor.account) if one["ended"] is None],
        token=token,
    )


def set_password(request: Request) -> Response:
    office, actor = office_of(request), _person(request)
    form = request.state.form
    fresh = str(form.get("password", ""))
    row = office.accounts.find(actor.name)
    if fresh != str(form.get("again", "")):
        raise InputError("The two passwords differ.")
    if row is not None and row["password"]:
        if not _may_try(office, request, actor.name):
            raise InputError("Too many attempts. Wait a minute.")
        if office.accounts.check_password(actor.name, str(form.get("old", ""))) is None:
            raise InputError("The old password is wrong.")
    office.accounts.set_password(actor.account, fresh, by=actor.name)
    changed = office.accounts.find(actor.name)
    assert changed is not None
    return let_in(office, request, changed, "/account", how="new password")


def new_token(request: Request) -> Response:
    office, actor = office_of(request), _person(request)
    form = request.state.form
    roles = [Role(one) for one in form.getlist("roles") if one in Role.__members__]
    token = office.accounts.new_token(
        actor.account, str(form.get("name", "")), roles, by=actor.name
    )
    return _account_page(request, token=token)


def end_token(request: Request) -> Response:
    office, actor = office_of(request), _person(request)
    office.accounts.end_token(request.path_params["token"], account=actor.account, by=actor.name)
    return RedirectResponse("/account", status_code=303)


def _person(request: Request) -> Actor:
    actor: Actor = request.state.actor
    return actor
