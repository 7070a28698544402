"""Pages for everybody: no login, no cookies, and bytes that were made in advance."""

from __future__ import annotations

from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.server.app import office_of
from dpublish.server.templates import statics

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


def home(request: Request) -> Response:
    return office_of(request).pages.show("home.html", None)


async def static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in statics():
        raise HTTPException(404, "There is no such file.")
    content = (files("dpublish.server") / "static" / name).read_bytes()
    kind = _KINDS[name.rpartition(".")[2]]
    keep = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=kind, headers=keep)
