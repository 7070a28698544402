"""The public catalogue: every page and feed as bytes, made when something changes.

A request is then a look-up: no table is read, no template filled, no cookie looked at.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from dpublish.requests.analyst import open_for
from dpublish.server.pages.templates import Pages, decimal, statics
from dpublish.server.releases import Releases
from dpublish.server.store import Row

FRESH: Final = "public, max-age=60"
KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".csv": "text/csv; charset=utf-8",
    ".parquet": "application/vnd.apache.parquet",
    ".dpr": "application/zip",
}
_STATIC_KINDS: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
NAMES: Final = {
    "page.html": "The page: look up counts, with limits",
    "report.html": "The report, for printing",
    "table.csv": "The numbers as CSV",
    "table.parquet": "The numbers as Parquet",
    "croissant.json": "Croissant record",
    "dcat.json": "DCAT record",
    "datapackage.json": "Frictionless data package",
    "registry.json": "Entry for a registry of deployments",
    "label.html": "Privacy label",
    "officer.html": "Sheet for the data protection officer",
}


@dataclass(frozen=True)
class Answer:
    """Bytes with their name, type and mark."""

    content: bytes
    kind: str
    mark: str

    @classmethod
    def of(cls, text: str, kind: str = "text/html; charset=utf-8") -> Answer:
        content = text.encode()
        return cls(content, kind, f'"{hashlib.sha256(content).hexdigest()[:24]}"')

    def response(self, request: Request, status: int = 200) -> Response:
        headers = {"etag": self.mark, "cache-control": FRESH}
        if request.headers.get("if-none-match") == self.mark and status == 200:
            return Response(status_code=304, headers=headers)
        return Response(self.content, status, headers, self.kind)


class Catalogue:
    def __init__(self, releases: Releases, pages: Pages) -> None:
        self._releases, self._pages = releases, pages
        self._lock = threading.Lock()
        self._found: OrderedDict[str, Answer] = OrderedDict()
        self.address = ""
        self.listed: list[dict[str, Any]] = []
        """What is public, the newest first."""
        self.answers: dict[str, Answer] = {}
        self.gone: dict[str, Answer] = {}

    def refresh(self) -> None:
        """Make everything again; whoever asks meanwhile gets what was there before."""
        with self._lock:
            rows = self._releases.all()
            shown = sorted(
                (self._entry(row) for row in rows if row["state"] == "published"),
                key=lambda one: one["published"],
                reverse=True,
            )
            answers = {
                "/": self._home(shown, ""),
                "/catalogue.json": _document(self._json(shown)),
                "/catalogue.jsonld": _document(self._dcat(shown), "application/ld+json"),
                "/feed.json": _document(self._feed(shown), "application/feed+json"),
                **{
                    f"/releases/{one['name']}": self._page(
                        "public_release.html", one=one, address=self.address
                    )
                    for one in shown
                },
            }
            gone = {
                f"/releases/{row['name']}": self._page(
                    "public_withdrawn.html", one=self._entry(row)
                )
                for row in rows
                if row["state"] == "withdrawn"
            }
            self.listed, self.answers, self.gone = shown, answers, gone
            self._found.clear()

    def search(self, words: str) -> Answer:
        """The list of those that hold every word."""
        asked = " ".join(words.lower().split())[:200]
        found = self._found.get(asked)
        if found is None:
            wanted = asked.split()
            shown = [one for one in self.listed if all(word in one["text"] for word in wanted)]
            found = self._home(shown, words[:200])
            with self._lock:
                self._found[asked] = found
                while len(self._found) > 256:
                    self._found.popitem(last=False)
        return found

    def file(self, name: str, file: str) -> Path | None:
        """A public file of a published release, which its page lists."""
        known = next((one for one in self.listed if one["name"] == name), None)
        if known is None or file not in known["offered"]:
            return None
        return self._releases.public_folder(name) / file

    def _home(self, shown: list[dict[str, Any]], words: str) -> Answer:
        return self._page("home.html", shown=shown, words=words, address=self.address)

    def _page(self, template: str, **given: Any) -> Answer:
        return Answer.of(self._pages.text(template, None, **given))

    def _entry(self, row: Row) -> dict[str, Any]:
        facts = json.loads(row["facts"] or "{}")
        name, about = row["name"], facts.get("about", {})
        folder = self._releases.public_folder(name)
        present = sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []
        named = [*NAMES, f"{name}.dpr"]
        tables = [one for one in present if one.endswith(".table.csv")]
        sizes = {one: (folder / one).stat().st_size for one in present}
        entry = {
            "name": name,
            "title": row["title"],
            "published": row["published"] or "",
            "withdrawn": row["withdrawn"],
            "reason": row["reason"],
            "facts": facts,
            "about": about,
            "offered": [one for one in named if one in present] + tables,
            "sizes": sizes,
            "labels": {
                **NAMES,
                **{one: f"Table of {one.removesuffix('.table.csv')}.json" for one in tables},
                f"{name}.dpr": "The release itself (.dpr), with all its guarantees",
            },
            "hashes": {
                one: hashlib.sha256((folder / one).read_bytes()).hexdigest()
                for one in (f"{name}.dpr",)
                if one in present
            },
            "cost": cost_words(facts.get("privacy", {}).get("cost", {})),
            "address": f"{self.address}/releases/{name}",
        }

        columns = [
            str(one.get(key) or "") for one in facts.get("columns", []) for key in ("name", "title")
        ]
        words = [name, row["title"], *map(str, about.values()), facts.get("method", ""), *columns]
        return {**entry, "citation": _citation(entry), "text": " ".join(words).lower()}

    def _json(self, shown: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "title": self._pages.environment.globals["office"],
            "releases": [
                {
                    "name": one["name"],
                    "title": one["title"],
                    "url": one["address"],
                    "published": one["published"],
                    "dataset": one["facts"].get("dataset"),
                    "method": one["facts"].get("method"),
                    "kind": one["facts"].get("kind"),
                    "privacy": one["facts"].get("privacy"),
                    "about": one["about"],
                    "columns": one["facts"].get("columns", []),
                    "citation": one["citation"],
                    "files": [
                        {
                            "name": file,
                            "url": f"{one['address']}/{file}",
                            "bytes": one["sizes"][file],
                            **({"sha256": one["hashes"][file]} if file in one["hashes"] else {}),
                        }
                        for file in one["offered"]
                    ],
                }
                for one in shown
            ],
        }

    def _dcat(self, shown: list[dict[str, Any]]) -> dict[str, Any]:
        office = self._pages.environment.globals["office"]
        return {
            "@context": {
                "dcat": "http://www.w3.org/ns/dcat#",
                "dct": "http://purl.org/dc/terms/",
                "foaf": "http://xmlns.com/foaf/0.1/",
                "xsd": "http://www.w3.org/2001/XMLSchema#",
            },
            "@id": f"{self.address}/",
            "@type": "dcat:Catalog",
            "dct:title": office,
            "dct:description": "Differentially private releases.",
            "dct:publisher": {"@type": "foaf:Agent", "foaf:name": office},
            "dcat:dataset": [_dcat_dataset(one) for one in shown],
        }

    def _feed(self, shown: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "version": "https://jsonfeed.org/version/1.1",
            "title": self._pages.environment.globals["office"],
            "home_page_url": f"{self.address}/",
            "feed_url": f"{self.address}/feed.json",
            "items": [
                {
                    "id": one["address"],
                    "url": one["address"],
                    "title": one["title"],
                    "content_text": one["about"].get("description") or one["citation"],
                    "date_published": one["published"],
                }
                for one in shown
            ],
        }


def _dcat_dataset(one: Mapping[str, Any]) -> dict[str, Any]:
    about = one["about"]
    publisher = about.get("publisher")
    licence = about.get("licence")
    return {
        "@id": one["address"],
        "@type": "dcat:Dataset",
        "dct:identifier": one["name"],
        "dct:title": one["title"],
        "dct:description": about.get("description")
        or f"Differentially private release made by the method {one['facts'].get('method')}.",
        "dct:issued": {"@value": one["published"], "@type": "xsd:dateTime"},
        "dcat:landingPage": {"@id": one["address"]},
        "dcat:distribution": [
            {
                "@id": f"{one['address']}/{file}",
                "@type": "dcat:Distribution",
                "dct:title": one["labels"].get(file, file),
                "dcat:accessURL": {"@id": one["address"]},
                "dcat:downloadURL": {"@id": f"{one['address']}/{file}"},
                "dcat:mediaType": KINDS[Path(file).suffix].partition(";")[0],
                "dcat:byteSize": one["sizes"][file],
            }
            for file in one["offered"]
        ],
        **({"dct:publisher": {"@type": "foaf:Agent", "foaf:name": publisher}} if publisher else {}),
        **({"dct:license": licence} if licence else {}),
    }


def _document(value: Mapping[str, Any], kind: str = "application/json") -> Answer:
    return Answer.of(json.dumps(value, ensure_ascii=False, indent=1), kind)


def _citation(one: Mapping[str, Any]) -> str:
    """How to cite a release: who, when, what, where, and the digest that tells its bytes."""
    who = one["about"].get("publisher") or "Anonymous publisher"
    year = str(one["published"])[:4] or str(dt.datetime.now(dt.UTC).year)
    digest = next(iter(one["hashes"].values()), "")[:16]
    tail = f" SHA-256 {digest}…" if digest else ""
    what = f"{one['title']}. Differentially private release ({one['cost']})"
    return f"{who} ({year}). {what}. {one['address']}.{tail}"


def cost_words(cost: Mapping[str, Any]) -> str:
    """What a release cost, as people write it."""
    if not cost:
        return ""
    if cost.get("rho") not in (None, "0"):
        return f"rho = {decimal(cost['rho'])}"
    delta = cost.get("delta", "0")
    tail = f", delta = {decimal(delta)}" if delta not in (None, "0") else ""
    return f"epsilon = {decimal(cost['epsilon'])}{tail}"


_INLINE: Final = re.compile(rb"<(style|script)(?:\s[^>]*)?>(.*?)</\1>", re.DOTALL)


def policy_of(page: bytes) -> str:
    """A policy under which exactly the inline parts of a finished page work."""
    hashes: dict[bytes, list[str]] = {b"style": [], b"script": []}
    for kind, text in _INLINE.findall(page):
        mark = base64.b64encode(hashlib.sha256(text).digest()).decode()
        hashes[kind].append(f"'sha256-{mark}'")
    style = " ".join(hashes[b"style"]) or "'none'"
    script = " ".join(hashes[b"script"]) or "'none'"
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


@lru_cache(maxsize=64)
def _page_of(path: Path, changed: int) -> tuple[Answer, str]:
    """A finished page and the policy that it works under; read again when the file changes."""
    content = path.read_bytes()
    return Answer.of(content.decode()), policy_of(content)


def file_response(path: Path, request: Request) -> Response:
    """A public file. Pages are shown, everything else is saved."""
    if path.suffix == ".html":
        page, policy = _page_of(path, path.stat().st_mtime_ns)
        answer = page.response(request)
        answer.headers["content-security-policy"] = policy
        return answer
    return FileResponse(
        path,
        media_type=KINDS.get(path.suffix, "application/octet-stream"),
        filename=path.name,
        headers={"cache-control": FRESH},
    )


# Pages for everybody: no login, no cookies.


async def home(request: Request, catalogue: Catalogue) -> Response:
    words = request.query_params.get("q", "").strip() if request.url.query else ""
    return (catalogue.search(words) if words else catalogue.answers["/"]).response(request)


async def feed(request: Request, catalogue: Catalogue) -> Response:
    return catalogue.answers[request.url.path].response(request)


async def release(request: Request, name: str, catalogue: Catalogue) -> Response:
    path = f"/releases/{name}"
    if path in catalogue.gone:
        return catalogue.gone[path].response(request, 410)
    if path not in catalogue.answers:
        raise HTTPException(404, "There is no published release of that name.")
    return catalogue.answers[path].response(request)


async def release_file(request: Request, name: str, file: str, catalogue: Catalogue) -> Response:
    path = catalogue.file(name, file)
    if path is not None:
        return file_response(path, request)
    if f"/releases/{name}" in catalogue.gone:
        raise HTTPException(410, "This release was withdrawn.")
    raise HTTPException(404, "There is no such file.")


async def static(file: str) -> Response:
    if file not in statics():
        raise HTTPException(404, "There is no such file.")
    return Response(
        (files("dpublish.server") / "static" / file).read_bytes(),
        media_type=_STATIC_KINDS[file.rpartition(".")[2]],
        headers={"cache-control": "public, max-age=31536000, immutable"},
    )


# Published releases that are kept open, by the hash of their file, and what they answered.

OPEN_RELEASES: Final = 64
KEPT_ANSWERS: Final = 20_000


class OpenReleases:
    """Published releases that are open, each with a lock: answering fills caches of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[str, tuple[Any, threading.Lock]] = OrderedDict()
        self.answers: OrderedDict[tuple[str, ...], bytes] = OrderedDict()

    def keep(self, where: tuple[str, ...], answer: bytes) -> None:
        if len(answer) <= 20_000:
            with self._lock:
                self.answers[where] = answer
                while len(self.answers) > KEPT_ANSWERS:
                    self.answers.popitem(last=False)

    def get(self, path: Path, digest: str) -> tuple[Any, threading.Lock]:
        with self._lock:
            found = self._open.get(digest)
            if found is None:
                found = self._open[digest] = open_for(path, "manifest"), threading.Lock()
                while len(self._open) > OPEN_RELEASES:
                    self._open.popitem(last=False)
        return found
