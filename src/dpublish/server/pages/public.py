"""Pages for everybody: no login, no cookies, and bytes that were made in advance."""

from __future__ import annotations

from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dpublish.server.app import Office
from dpublish.server.catalogue import file_response
from dpublish.server.pages.templates import statics

_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}


async def home(request: Request, office: Office) -> Response:
    catalogue = office.catalogue
    words = request.query_params.get("q", "").strip() if request.url.query else ""
    found = catalogue.search(words) if words else catalogue.answers["/"]
    return found.response(request)


async def feed(request: Request, office: Office) -> Response:
    return office.catalogue.answers[request.url.path].response(request)


async def release(request: Request, office: Office) -> Response:
    catalogue = office.catalogue
    path = f"/releases/{request.path_params['name']}"
    if path in catalogue.gone:
        return catalogue.gone[path].response(request, 410)
    if path not in catalogue.answers:
        raise HTTPException(404, "There is no published release of that name.")
    return catalogue.answers[path].response(request)


async def release_file(request: Request, office: Office) -> Response:
    catalogue = office.catalogue
    name, file = request.path_params["name"], request.path_params["file"]
    path = catalogue.file(name, file)
    if path is None:
        if f"/releases/{name}" in catalogue.gone:
            raise HTTPException(410, "This release was withdrawn.")
        raise HTTPException(404, "There is no such file.")
    return file_response(path, request)


async def static(request: Request, office: Office) -> Response:
    name = request.path_params["file"]
    if name not in statics():
        raise HTTPException(404, "There is no such file.")
    content = (files("dpublish.server") / "static" / name).read_bytes()
    kind = _KINDS[name.rpartition(".")[2]]
    keep = {"cache-control": "public, max-age=31536000, immutable"}
    return Response(content, media_type=kind, headers=keep)
