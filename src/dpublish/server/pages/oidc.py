"""Log-in through an identity provider: the authorisation code flow with PKCE, by Authlib.

Who the provider names is known by issuer and subject, never by a name or a mail address, which a
provider may give to somebody else. A local account is never taken over.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError
from dpublish.server.accounts import Role, write_roles
from dpublish.server.app import Office, office_of
from dpublish.server.config import Oidc
from dpublish.server.pages.entry import let_in
from dpublish.server.store import Row
from dpublish.server.tables import ACCOUNTS

WAY: Final = "dpublish-oidc"
"""The cookie that says which log-in a browser began; signed, and gone after ten minutes."""
_MINUTES: Final = 10
REFUSED: Final = "The identity provider did not confirm this log-in. Try again."


async def start(request: Request) -> Response:
    """Send the browser to the provider."""
    office = office_of(request)
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


async def back(request: Request) -> Response:
    """The browser comes back with a code, which is exchanged for who it is."""
    office = office_of(request)
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
        shown = str(claims.get("name") or wanted)
        name = _free(office, wanted)
        return office.accounts.add(
            name, roles or [], by="identity provider", shown=shown, subject=subject
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
    known = office.provider
    if known is None:
        from authlib.integrations.starlette_client import OAuth

        secret = None
        if settings.client_secret_file is not None:
            try:
                secret = settings.client_secret_file.read_text(encoding="utf-8").strip()
            except OSError:
                raise InputError(
                    "The client secret of the identity provider cannot be read."
                ) from None
        known = OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=secret,
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
        )
        office.provider = known
    return known
