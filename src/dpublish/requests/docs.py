"""The documentation, wherever dpublish is installed: a page, the list, or where words stand."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpublish.errors import InputError, did_you_mean
from dpublish.requests.base import NOBODY, Caller, Request

_MAX_FOUND = 200


def docs_folder() -> Path:
    """The folder of the pages: in the package, or beside the source."""
    package = Path(__file__).parents[1]
    for folder in (package / "docs", package.parents[1] / "docs"):
        if (folder / "index.md").is_file():
            return folder
    raise InputError("This installation has no documentation. Install dpublish from its wheel.")


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page, as Markdown."""

    name: str
    path: Path
    text: str

    def to_json(self) -> Mapping[str, Any]:
        return {"page": self.name, "path": self.path, "text": self.text}


@dataclass(frozen=True, kw_only=True)
class Pages:
    """Pages with their titles, and with `search` the lines that hold the words."""

    folder: Path
    titles: Mapping[str, str]
    found: tuple[tuple[str, int, str], ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        return {
            "folder": self.folder,
            "pages": dict(self.titles),
            "found": [
                {"page": page, "line": line, "text": text} for page, line, text in self.found
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Docs(Request, verb="docs"):
    """Read the documentation that comes with dpublish. Without a page, the list of them."""

    page: str | None = None
    search: str | None = None

    def run(self, caller: Caller = NOBODY) -> Page | Pages:
        folder = docs_folder()
        known = {path.stem: path for path in sorted(folder.glob("*.md"))}
        if self.page is not None:
            name = self.page.removesuffix(".md").removeprefix("docs/")
            if name not in known:
                raise InputError(
                    f"There is no page '{self.page}'.{did_you_mean(name, known)} Pages: "
                    f"{', '.join(known)}."
                )
            path = known[name]
            return Page(name=name, path=path, text=path.read_text(encoding="utf-8"))
        texts = {name: path.read_text(encoding="utf-8") for name, path in known.items()}
        return Pages(
            folder=folder,
            titles={name: _title(name, text) for name, text in texts.items()},
            found=tuple(_found(texts, self.search)[:_MAX_FOUND]) if self.search else (),
        )


def _title(name: str, text: str) -> str:
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1] if heading else name


def _found(texts: Mapping[str, str], words: str) -> list[tuple[str, int, str]]:
    wanted = words.lower().split()
    return [
        (name, number, line.strip())
        for name, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if all(word in line.lower() for word in wanted)
    ]
