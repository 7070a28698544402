"""Data sets: where rows come from, what is declared about them, and what a check found. Never a
row."""

from __future__ import annotations

import re
import secrets
from pathlib import Path
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.responses import Response

from dpublish.errors import InputError
from dpublish.owned import owned_folder, replace_owned
from dpublish.requests.schemas import TEMPLATES, CheckData, Draft, FromCodebook, NewSchema
from dpublish.server.accounts import Actor
from dpublish.server.app import Office
from dpublish.server.datasets import ENDINGS, UPLOADS
from dpublish.server.pages import schema_form
from dpublish.server.pages.templates import to
from dpublish.server.store import PROPOSALS, RELEASES, SCHEMAS, Row


def datasets(actor: Actor, office: Office) -> Response:
    return office.pages.show(
        "data/datasets.html",
        actor,
        datasets=office.datasets.all(),
        places=office.datasets.offered(),
    )


def new_dataset(actor: Actor, office: Office) -> Response:
    return office.pages.show(
        "data/dataset_new.html",
        actor,
        places=office.datasets.offered(),
        budgets=office.datasets.budgets(),
        uploads=office.config.uploads,
        own_place=not office.config.places,
    )


def add_dataset(form: FormData, actor: Actor, office: Office) -> Response:
    place, _, item = str(form.get("rows", "")).partition("/")
    made = office.datasets.add(
        str(form.get("name", "")),
        title=str(form.get("title", "")),
        place=place,
        item=item,
        population=str(form.get("budget", "")),
        by=actor.name,
    )
    return to(f"/datasets/{made['name']}/schema")


async def upload(form: FormData, actor: Actor, office: Office) -> Response:
    """Rows through the browser: only where the configuration allows it."""
    settings = office.config.uploads
    if not settings.allowed:
        raise InputError("Rows cannot be uploaded to this office. Ask its admin for a place.")
    sent, filename = _chosen(form)
    ending = next((one for one in ENDINGS if filename.lower().endswith(one)), None)
    if ending is None:
        raise InputError("The ending of this file is none of a table: see docs/schema.md.")
    content = await sent.read(settings.max_bytes + 1)
    if len(content) > settings.max_bytes:
        raise InputError(f"Files have at most {settings.max_bytes:,} bytes.")
    # the name that the person gave is not kept: it may name somebody
    name = f"upload-{secrets.token_hex(6)}{ending}"
    owned_folder(office.state / UPLOADS)
    replace_owned(office.state / UPLOADS / name, content)
    office.store.did(actor.name, "rows uploaded", name)
    return to("/datasets/new")


def _chosen(form: FormData) -> tuple[UploadFile, str]:
    """The file of a form, and the name that the person's machine has for it."""
    sent = form.get("file")
    if not isinstance(sent, UploadFile) or not sent.filename:
        raise InputError("Choose a file.")
    return sent, sent.filename


def dataset(dataset: Row, actor: Actor, office: Office) -> Response:
    schema = None
    if dataset["digest"] is not None:
        text = office.datasets.schema_text(dataset) or ""
        schema, _ = office.datasets.examine(dataset["name"], text)
    return office.pages.show(
        "data/dataset.html",
        actor,
        row=dataset,
        schema=schema,
        unit=None if schema is None else schema.unit.describe(),
        versions=office.store.rows(SCHEMAS, newest="created", dataset=dataset["name"]),
        releases=office.store.rows(RELEASES, newest="created", dataset=dataset["name"]),
        proposals=office.store.rows(PROPOSALS, newest="created", dataset=dataset["name"]),
        budget=office.datasets.spending(dataset["population"]),
    )


def remove_dataset(dataset: Row, actor: Actor, office: Office) -> Response:
    office.datasets.remove(dataset["name"], by=actor.name)
    return to("/datasets")


# -- the schema editor


def schema(
    dataset: Row,
    actor: Actor,
    office: Office,
    *,
    text: str | None = None,
    problems: list[str] | None = None,
    status: int = 200,
) -> Response:
    in_force = office.datasets.schema_text(dataset)
    text = text or office.datasets.editing(dataset["name"]) or in_force
    if text is not None and problems is None:
        _, problems = office.datasets.examine(dataset["name"], text)
    return office.pages.show(
        "data/schema.html",
        actor,
        status=status,
        row=dataset,
        text=text,
        fields=None if text is None else schema_form.read(text),
        kinds=schema_form.KINDS,
        problems=problems or [],
        templates=TEMPLATES,
        in_force=text is not None and text == in_force,
    )


async def start_schema(dataset: Row, form: FormData, actor: Actor, office: Office) -> Response:
    """A first text: from a template, a code book, a finished file, or drafted from the rows."""
    how = str(form.get("how", ""))
    name = dataset["name"]
    if how == "template":
        text = NewSchema(template=str(form.get("template", ""))).run().toml
    elif how in ("codebook", "file"):
        sent, filename = _chosen(form)
        content = await sent.read()
        text = (
            _from_codebook(office, name, filename, content) if how == "codebook" else _utf8(content)
        )
    elif how == "draft":
        data, database = office.datasets.source(dataset)
        asked = Draft(
            data=data,
            database=database,
            name=name,
            out=office.datasets.folder(name) / "drafted.toml",
            overwrite=True,
        )
        job = office.jobs.submit([asked], actor=actor.name, subject=f"draft {name}")
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
    replace_owned(path, content)
    try:
        return FromCodebook(codebook=path, name=name).run().toml
    finally:
        path.unlink(missing_ok=True)


def use_draft(dataset: Row, office: Office) -> Response:
    """Take what was drafted from the rows into the editor; it cannot be released as it is."""
    path = office.datasets.folder(dataset["name"]) / "drafted.toml"
    if not path.exists():
        raise InputError("There is no draft.")
    office.datasets.edit(dataset["name"], path.read_text(encoding="utf-8"))
    path.unlink()
    return to(f"/datasets/{dataset['name']}/schema")


def save_schema(dataset: Row, form: FormData, actor: Actor, office: Office) -> Response:
    """Keep what was written; put it in force when that is asked for and nothing is wrong."""
    name = dataset["name"]
    then = form.get("then")
    text = str(form.get("text", "")).replace("\r\n", "\n")
    if form.get("mode") == "form":
        text = schema_form.write(text, form)
    office.datasets.edit(name, None if then == "discard" else text)
    if then != "in force":
        return to(f"/datasets/{name}/schema")
    problems = office.datasets.put_in_force(name, text, by=actor.name)
    if problems:
        return schema(dataset, actor, office, text=text, problems=problems, status=400)
    return to(f"/datasets/{name}")


# -- the check: a private view


def check(dataset: Row, actor: Actor, office: Office) -> Response:
    data, database = office.datasets.source(dataset)
    asked = CheckData(data=data, database=database, schema=office.datasets.schema_path(dataset))
    job = office.jobs.submit([asked], actor=actor.name, subject=f"check {dataset['name']}")
    return to(f"/jobs/{job}")


def checked(one: str, actor: Actor, office: Office) -> Response:
    """What a check found, for the curator's eyes. It can be deleted, and is, a day later,
    with the next job or start of the service."""
    name = _checked_dataset(office, one)
    results = office.jobs.results(one)
    if not results:
        raise InputError("What this check found was deleted, or it is not done.")
    found = dict(results[0])
    if not office.config.private_examples:
        found = without_quotes(found, [column["column"] for column in found["columns"]])
    return office.pages.show(
        "data/check.html", actor, name=name, row=office.datasets.get(name), found=found, job=one,
        quotes=office.config.private_examples,
    )  # fmt: skip


def forget_check(one: str, actor: Actor, office: Office) -> Response:
    name = _checked_dataset(office, one)
    office.jobs.forget(one)
    office.store.did(actor.name, "check deleted", f"check {name}")
    return to(f"/datasets/{name}")


def _checked_dataset(office: Office, job: str) -> str:
    status = office.jobs.status(job)
    if status.verbs != ("check",):
        raise InputError("This job is no check.")
    return status.subject.removeprefix("check ")


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
