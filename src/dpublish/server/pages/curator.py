"""Data sets: where rows come from, what is declared about them, and what a check found. Never a
row."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from dpublish.errors import InputError
from dpublish.owned import owned_folder, replace_owned
from dpublish.requests.ledger import LedgerStatus
from dpublish.requests.schemas import TEMPLATES, CheckData, Draft, FromCodebook, NewSchema
from dpublish.server.app import Office, dataset_of, office_of
from dpublish.server.datasets import ENDINGS, UPLOADS
from dpublish.server.pages import schema_form
from dpublish.server.pages.templates import to
from dpublish.server.store import PROPOSALS, RELEASES, SCHEMAS, Row


def datasets(request: Request, office: Office) -> Response:
    return office.pages.show(
        "data/datasets.html",
        request.state.actor,
        datasets=office.datasets.all(),
        places=office.datasets.offered(),
    )


def new_dataset(request: Request, office: Office) -> Response:
    return office.pages.show(
        "data/dataset_new.html",
        request.state.actor,
        places=office.datasets.offered(),
        budgets=office.datasets.budgets(),
        uploads=office.config.uploads,
        own_place=not office.config.places,
    )


def add_dataset(request: Request, office: Office) -> Response:
    form = request.state.form
    place, _, item = str(form.get("rows", "")).partition("/")
    made = office.datasets.add(
        str(form.get("name", "")),
        title=str(form.get("title", "")),
        place=place,
        item=item,
        population=str(form.get("budget", "")),
        by=request.state.actor.name,
    )
    return to(f"/datasets/{made['name']}/schema")


async def upload(request: Request, office: Office) -> Response:
    """Rows through the browser: only where the configuration allows it."""
    sent = request.state.form.get("file")
    settings = office.config.uploads
    if not settings.allowed:
        raise InputError("Rows cannot be uploaded to this office. Ask its admin for a place.")
    if not isinstance(sent, UploadFile) or not sent.filename:
        raise InputError("Choose a file.")
    ending = next((one for one in ENDINGS if sent.filename.lower().endswith(one)), None)
    if ending is None:
        raise InputError("The ending of this file is none of a table: see docs/schema.md.")
    content = await sent.read(settings.max_bytes + 1)
    if len(content) > settings.max_bytes:
        raise InputError(f"Files have at most {settings.max_bytes:,} bytes.")
    # the name that the person gave is not kept: it may name somebody
    name = f"upload-{secrets.token_hex(6)}{ending}"
    owned_folder(office.state / UPLOADS)
    replace_owned(office.state / UPLOADS / name, content)
    office.store.did(request.state.actor.name, "rows uploaded", name)
    return to("/datasets/new")


def dataset(request: Request, office: Office) -> Response:
    row = dataset_of(request)
    schema = None
    if row["digest"] is not None:
        schema, _ = office.datasets.examine(row["name"], office.datasets.schema_text(row) or "")
    asked = LedgerStatus(url=office.config.ledger_url, name=row["population"])
    return office.pages.show(
        "data/dataset.html",
        request.state.actor,
        row=row,
        schema=schema,
        unit=None if schema is None else schema.unit.describe(),
        versions=office.store.rows(SCHEMAS, newest="created", dataset=row["name"]),
        releases=office.store.rows(RELEASES, newest="created", dataset=row["name"]),
        proposals=office.store.rows(PROPOSALS, newest="created", dataset=row["name"]),
        budget=asked.run().to_json(),
    )


def remove_dataset(request: Request, office: Office) -> Response:
    row = dataset_of(request)
    office.datasets.remove(row["name"], by=request.state.actor.name)
    return to("/datasets")


# -- the schema editor


def schema(request: Request, office: Office) -> Response:
    return _editor(request, dataset_of(request))


def _editor(
    request: Request,
    row: Row,
    *,
    text: str | None = None,
    problems: list[str] | None = None,
    status: int = 200,
) -> Response:
    office = office_of(request)
    text = text or office.datasets.editing(row["name"]) or office.datasets.schema_text(row)
    if text is not None and problems is None:
        _, problems = office.datasets.examine(row["name"], text)
    return office.pages.show(
        "data/schema.html",
        request.state.actor,
        status=status,
        row=row,
        text=text,
        fields=None if text is None else schema_form.read(text),
        kinds=schema_form.KINDS,
        problems=problems or [],
        templates=TEMPLATES,
        in_force=text is not None and text == office.datasets.schema_text(row),
    )


async def start_schema(request: Request, office: Office) -> Response:
    """A first text: from a template, a code book, a finished file, or drafted from the rows."""
    row, form = dataset_of(request), request.state.form
    how = str(form.get("how", ""))
    name = row["name"]
    if how == "template":
        text = NewSchema(template=str(form.get("template", ""))).run().toml
    elif how in ("codebook", "file"):
        sent = form.get("file")
        if not isinstance(sent, UploadFile) or not sent.filename:
            raise InputError("Choose a file.")
        content = await sent.read()
        text = (
            _from_codebook(office, name, sent.filename, content)
            if how == "codebook"
            else _utf8(content)
        )
    elif how == "draft":
        data, database = office.datasets.source(row)
        out = office.datasets.folder(name) / "drafted.toml"
        asked = Draft(data=data, database=database, name=name, out=out, overwrite=True)
        job = office.jobs.submit([asked], actor=request.state.actor.name, subject=f"draft {name}")
        return to(f"/jobs/{job}")
    else:
        raise InputError("Choose where the schema comes from.")
    office.datasets.edit(name, text)
    return to(f"/datasets/{name}/schema")


def _utf8(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError("A schema is a text file in UTF-8.") from None


def _from_codebook(office: Office, name: str, given: str, content: bytes) -> str:
    ending = re.sub(r"[^a-z0-9.]", "", Path(given).suffix.lower())[:8]
    path = office.datasets.folder(name) / f"codebook{ending}"
    owned_folder(path.parent)
    replace_owned(path, content)
    try:
        return FromCodebook(codebook=path, name=name).run().toml
    finally:
        path.unlink(missing_ok=True)


def use_draft(request: Request, office: Office) -> Response:
    """Take what was drafted from the rows into the editor; it cannot be released as it is."""
    row = dataset_of(request)
    path = office.datasets.folder(row["name"]) / "drafted.toml"
    if not path.exists():
        raise InputError("There is no draft.")
    office.datasets.edit(row["name"], path.read_text(encoding="utf-8"))
    path.unlink()
    return to(f"/datasets/{row['name']}/schema")


def save_schema(request: Request, office: Office) -> Response:
    """Keep what was written; put it in force when that is asked for and nothing is wrong."""
    row, form = dataset_of(request), request.state.form
    text = str(form.get("text", "")).replace("\r\n", "\n")
    if form.get("mode") == "form":
        text = schema_form.write(text, form)
    if form.get("then") == "discard":
        office.datasets.edit(row["name"], None)
        return to(f"/datasets/{row['name']}/schema")
    office.datasets.edit(row["name"], text)
    if form.get("then") != "in force":
        return to(f"/datasets/{row['name']}/schema")
    problems = office.datasets.put_in_force(row["name"], text, by=request.state.actor.name)
    if problems:
        return _editor(request, row, text=text, problems=problems, status=400)
    return to(f"/datasets/{row['name']}")


# -- the check: a private view


def check(request: Request, office: Office) -> Response:
    row = dataset_of(request)
    data, database = office.datasets.source(row)
    asked = CheckData(data=data, database=database, schema=office.datasets.schema_path(row))
    job = office.jobs.submit(
        [asked], actor=request.state.actor.name, subject=f"check {row['name']}"
    )
    return to(f"/jobs/{job}")


def checked(request: Request, office: Office) -> Response:
    """What a check found, for the curator's eyes. It can be deleted, and is, a day later,
    with the next job or start of the service."""
    job = request.path_params["job"]
    status = office.jobs.status(job)
    if status.verbs != ("check",):
        raise InputError("This job is no check.")
    results = office.jobs.results(job)
    if not results:
        raise InputError("What this check found was deleted, or it is not done.")
    name = status.subject.removeprefix("check ")
    found = dict(results[0])
    row = office.datasets.get(name)
    if not office.config.private_examples:
        found = without_quotes(found, [one["column"] for one in found["columns"]])
    return office.pages.show(
        "data/check.html", request.state.actor, name=name, row=row, found=found, job=job,
        quotes=office.config.private_examples,
    )  # fmt: skip


def forget_check(request: Request, office: Office) -> Response:
    job = request.path_params["job"]
    status = office.jobs.status(job)
    if status.verbs != ("check",):
        raise InputError("This job is no check.")
    office.jobs.forget(job)
    office.store.did(request.state.actor.name, "check deleted", status.subject)
    return to(f"/datasets/{status.subject.removeprefix('check ')}")


_NAMED = re.compile(r"(?:[Cc]olumn|Is) $")
"""What stands before a quote that may be of a column's name: cells are quoted after other words."""


def without_quotes(found: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """What a check found, without any cell: quotes are kept of declared names alone. A cell may
    hold quotes itself, so that all goes from the first other quote to the last."""
    unit = found.get("unit") or {}
    known = [f"'{name}'" for name in (*columns, unit.get("column")) if name is not None]

    def unquoted(text: str) -> str:
        if text.startswith("The data has no column '"):  # and then which it has: perhaps a row
            return text.partition("'.")[0] + "'."
        start = text.find("'")
        while start >= 0:
            name = next((one for one in known if text.startswith(one, start)), None)
            if name is None or not _NAMED.search(text[:start]):
                return f"{text[:start]}'…'" + text.rpartition("'")[2]
            start = text.find("'", start + len(name))
        return text

    return {
        **found,
        "problems": [unquoted(one) for one in found["problems"]],
        "notes": [unquoted(one) for one in found["notes"]],
        "columns": [
            {**one, "examples": [], "hints": [unquoted(hint) for hint in one["hints"]]}
            for one in found["columns"]
        ],
    }
