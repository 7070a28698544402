"""Links in the documentation lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.stand_in import ROOT

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def anchors_of(text: str) -> set[str]:
    """The anchors that code hosts make of headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


def links_of(page: Path) -> list[str]:
    prose = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    return LINK.findall(prose)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_resolve(page: Path) -> None:
    for link in links_of(page):
        if link.startswith(("https://", "mailto:")):
            continue
        assert not link.startswith("http://"), f"{page.name}: {link} is not encrypted"
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{page.name}: {link} leaves the repository"
        assert target.exists(), f"{page.name}: {link} leads nowhere"
        if anchor:
            assert anchor in anchors_of(target.read_text(encoding="utf-8")), (
                f"{page.name}: no heading for {link}"
            )


def test_every_page_is_reached_from_the_index() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "docs" / "index.md"]
    while todo:
        page = todo.pop()
        if page not in seen and page.suffix == ".md":
            seen.add(page)
            todo += [
                (page.parent / link.partition("#")[0]).resolve()
                for link in links_of(page)
                if "://" not in link
            ]
    assert set((ROOT / "docs").glob("*.md")) <= seen
