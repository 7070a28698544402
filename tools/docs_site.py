"""The documentation as a site: built offline and strictly, and read offline too.

    python tools/docs_site.py [--out build/site]

Takes the pages of docs/ as they are and adds what a site has beside them: pages that they link to
outside docs/ (proofs, examples), a page of the Python interface for every public name, and a
notebook of every tutorial. Fails on a link or an anchor that leads nowhere, and on anything that
a reader's browser would fetch from elsewhere.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHIM = ROOT / "tools" / "site" / "iframe-worker-1.0.4.min.js"
"""Lets a page that is opened as a file be searched, where browsers start no workers (npm package
iframe-worker, MIT)."""
CODE_HOME = "beside/"
OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+)((?:#[^)\s]*)?)\)")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\n?", re.DOTALL | re.MULTILINE)
FETCHED = re.compile(
    r"<(?:script|img|iframe)[^>]+src=[\"']?(?:https?:)?//|<link[^>]+rel=[\"']?(?:stylesheet|"
    r"preconnect|icon)[^>]*href=[\"']?(?:https?:)?//|@import\s+url\([\"']?https?:"
)
NAV = {
    "Start": ["index", "tutorial", "glossary"],
    "Tutorials": "tutorial-*",
    "Curators": ["schema", "methods", "ledger", "signatures", "cli", "serve", "compliance"],
    "Analysts": ["estimates", "page", "coverage", "regression-coverage", "records"],
    "Auditors": ["promise", "threat-model", "nist-800-226", "audits", "limitations", "standing"],
    "Reference": ["bundle-format", "theory", "python-api"],
}


def notebook_of(page: str) -> dict[str, Any]:
    """A tutorial as a notebook: prose, Python cells, and lines of the shell as cells too."""
    cells: list[dict[str, Any]] = []

    def add(kind: str, text: str) -> None:
        lines = text.strip("\n").splitlines(keepends=True)
        if lines:
            more = {} if kind == "markdown" else {"execution_count": None, "outputs": []}
            cell = {"id": f"cell-{len(cells)}", "cell_type": kind, "metadata": {}, "source": lines}
            cells.append(cell | more)

    start = 0
    for block in FENCE.finditer(page):
        language, text = block[1], block[2]
        if language not in ("python", "bash"):
            continue
        add("markdown", page[start : block.start()])
        add("code", text if language == "python" else f"%%bash\n{text.replace('$ dpub', 'dpub')}")
        start = block.end()
    add("markdown", page[start:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def write_notebooks(folder: Path) -> list[Path]:
    """A notebook for every tutorial that has something to run."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for page in sorted((ROOT / "docs").glob("tutorial*.md")):
        path, notebook = folder / f"{page.stem}.ipynb", notebook_of(page.read_text("utf-8"))
        if all(cell["cell_type"] == "markdown" for cell in notebook["cells"]):
            continue
        path.write_text(json.dumps(notebook, indent=1) + "\n")
        made.append(path)
    return made


def gather(folder: Path) -> None:
    """The pages of the site as Markdown."""
    shutil.copytree(ROOT / "docs", folder)
    for page in sorted(folder.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for found in OUTSIDE.finditer(text):
            _take_along(ROOT / found[1], folder / CODE_HOME / _beside(found[1]))
        text = OUTSIDE.sub(lambda m: f"]({CODE_HOME}{_beside(m[1])}{m[2]})", text)
        page.write_text(text, encoding="utf-8")
    made = write_notebooks(folder / "notebooks")
    listed = "\n".join(f"- [{path.stem}](notebooks/{path.name})" for path in made)
    (folder / "notebooks.md").write_text(
        f"# Notebooks\n\nTutorials as Jupyter notebooks, made from the pages themselves:\n\n{listed}\n"
    )
    (folder / "api.md").write_text(_api_page())


def _beside(path: str) -> str:
    return path.replace("/", "-")


def _take_along(source: Path, target: Path) -> None:
    """A file outside docs/ that a page links to; its own links stay behind."""
    target.parent.mkdir(exist_ok=True)
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".md":
        text = re.sub(r"!?\[([^\]]*)\]\((?!https?:)[^)]*\)", r"\1", text)
    target.write_text(text, encoding="utf-8")


def _api_page() -> str:
    """The Python interface by object, from the docstrings."""
    import dpublish

    lines = ["# Python by object", "", "How they work together: [Python](python-api.md).", ""]
    for name in dpublish.__all__:
        thing = getattr(dpublish, name)
        if name.startswith("__"):
            continue
        module = getattr(thing, "__module__", None)
        home = f"{module}.{thing.__qualname__}" if module else thing.__name__
        lines += [f"## {name}", "", f"::: {home}", ""]
    return "\n".join(lines)


def nav_of(folder: Path) -> list[Any]:
    pages = {path.stem for path in folder.glob("*.md")}
    titles = {
        title: sorted(path.stem for path in folder.glob(f"{names}.md"))
        if isinstance(names, str)
        else [name for name in names if name in pages]
        for title, names in NAV.items()
    }
    titles["Tutorials"] += ["notebooks"]
    known = {name for names in titles.values() for name in names} | {"api"}
    titles["Reference"] += ["api", *sorted(pages - known)]
    return [{title: [f"{name}.md" for name in names]} for title, names in titles.items()]


def build(out: Path, work: Path) -> list[str]:
    """Build the site; what is wrong with it."""
    import logging

    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    shutil.rmtree(work, ignore_errors=True)
    gather(work)
    (work / "assets").mkdir(exist_ok=True)
    shutil.copy(SHIM, work / "assets")
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    ear = Ear(logging.WARNING)
    log = logging.getLogger("mkdocs")
    log.addHandler(ear)
    try:
        config = load_config(
            str(ROOT / "mkdocs.yml"), docs_dir=str(work), site_dir=str(out), nav=nav_of(work)
        )
        config.extra["polyfills"] = [f"assets/{SHIM.name}"]
        mkdocs_build(config)
    finally:
        log.removeHandler(ear)
    fetched = [
        f"{page.relative_to(out)} fetches something from elsewhere"
        for page in [*out.rglob("*.html"), *out.rglob("*.css")]
        if FETCHED.search(page.read_text(encoding="utf-8"))
    ]
    return heard + fetched


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    out = parser.parse_args().out.resolve()
    problems = build(out, out.parent / f"{out.name}-pages")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        sys.exit(1)
    print(f"The site is in {out}: open index.html.")


if __name__ == "__main__":
    main()
