"""A real Chromium, started once. Debian's package `chromium` is used, or $CHROMIUM; `make test`
installs it where it can. With CI=true its absence is a failure, elsewhere these tests are skipped
and say so."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

OFF = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def chromium() -> str | None:
    given = os.environ.get("CHROMIUM")
    return given or next(
        (found for name in ("chromium", "chromium-browser") if (found := shutil.which(name))), None
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    where = chromium()
    if where is None:
        text = "There is no Chromium. Debian: apt-get install chromium; or set CHROMIUM=PATH."
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=where, args=OFF)
        yield started
        started.close()


class Watched:
    """A page that may load nothing: requests other than its own file are recorded and refused."""

    def __init__(self, browser: Any, **settings: Any) -> None:
        self.context = browser.new_context(**settings)
        self.requests: list[str] = []
        self.problems: list[str] = []
        self.page = self.context.new_page()
        self.page.on("console", lambda message: self._heard(message))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.route("**/*", self._answer)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def _answer(self, route: Any) -> None:
        address = route.request.url
        if address.startswith("file:"):
            route.continue_()
            return
        self.requests.append(address)
        route.abort()


@pytest.fixture
def watched(browser: Any) -> Iterator[Any]:
    made: list[Watched] = []

    def start(**settings: Any) -> Watched:
        made.append(Watched(browser, **settings))
        return made[-1]

    yield start
    for one in made:
        one.context.close()
