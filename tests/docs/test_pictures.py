"""Pictures of the tutorials: each is drawn by the page that shows it, and is small."""

from __future__ import annotations

import office_picture
import page_screenshots
import pictures

from docs.stand_in import ROOT


def test_every_picture_is_drawn_by_its_page() -> None:
    drawn: set[str] = set()
    for page, saved in pictures.PICTURES.items():
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for file, name in saved.items():
            assert f'savefig("{file}")' in text, f"{page} does not save {file}"
            assert f"](images/{name})" in text, f"{page} does not show {name}"
        drawn |= set(saved.values())
    assert {path.name for path in pictures.IMAGES.iterdir()} == {
        *drawn,
        office_picture.PICTURE.name,
        *page_screenshots.VIEWS,
    }


def test_the_views_of_the_page_are_shown() -> None:
    text = (ROOT / "docs" / "page.md").read_text(encoding="utf-8")
    for name in page_screenshots.VIEWS:
        assert f"](images/{name})" in text


def test_the_picture_of_the_office_is_shown() -> None:
    for page, place in (("README.md", "docs/images"), ("docs/serve.md", "images")):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert f"]({place}/{office_picture.PICTURE.name})" in text


def test_pictures_are_small() -> None:
    for path in pictures.IMAGES.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 100_000, f"{path.name} is too large"
