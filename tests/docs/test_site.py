"""The documentation as a site and in the wheel: strict, complete, and without a network."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import docs_site
import pytest

from docs.stand_in import ROOT
from dpublish.errors import InputError
from dpublish.requests.docs import Docs, Page, Pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert docs_site.build(folder / "site", folder / "pages") == []
    return folder / "site"


def test_every_page_is_there_and_can_be_searched(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"glossary.html", "nist-800-226.html", "api.html"} <= found
    assert "Discovery" in (site / "api.html").read_text()


def test_what_would_be_fetched_from_elsewhere_is_found(site: Path) -> None:
    for line in (
        '<script src="https://example.org/a.js">',
        "<link rel=stylesheet href=//example.org/a.css>",
        "@import url(https://example.org/a.css)",
    ):
        assert docs_site.FETCHED.search(line)
    assert not docs_site.FETCHED.search('<a href="https://example.org">')


def test_notebooks_hold_the_code_of_the_tutorials(site: Path) -> None:
    made = sorted((site / "notebooks").glob("*.ipynb"))
    assert len(made) >= 9
    for path in made:
        notebook = json.loads(path.read_text())
        assert notebook["nbformat"] == 4
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        for cell in code:
            text = "".join(cell["source"])
            assert text.startswith("%%bash\n") or compile(text, path.name, "exec")
        assert code


def test_the_wheel_holds_docs_examples_and_templates(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--no-build-isolation",
         "--no-index", "--quiet", "--wheel-dir", str(tmp_path),
         f"--config-settings=--build-option=--bdist-dir={tmp_path / 'dist'}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    pages = {f"dpublish/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}
    assert pages <= names
    assert {
        "dpublish/docs/examples/adult.toml",
        "dpublish/docs/notebooks/tutorial.ipynb",
        "dpublish/declare/templates/survey.toml",
        "dpublish/methods/discovery/discovery.proof.md",
    } <= names


def test_pages_are_listed_printed_and_searched() -> None:
    listed = Docs().run()
    assert isinstance(listed, Pages)
    assert listed.titles["nist-800-226"].startswith("NIST SP 800-226")
    page = Docs(page="docs/schema.md").run()
    assert isinstance(page, Page)
    assert page.text.startswith("# ")
    found = Docs(search="paid discovery").run()
    assert isinstance(found, Pages)
    assert any(name == "schema" for name, _, _ in found.found)
    with pytest.raises(InputError, match="Did you mean 'schema'"):
        Docs(page="shema").run()


def test_the_site_is_searched_from_a_folder_without_a_server(site: Path, browser: Any) -> None:
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("max_rows_per_unit")
        found = page.locator(".md-search-result__item a.md-search-result__link").first
        found.wait_for(state="attached", timeout=60_000)
        assert "schema.html" in " ".join(
            str(one.get_attribute("href"))
            for one in page.locator("a.md-search-result__link").all()[:12]
        )
    finally:
        context.close()
