"""Pages that are opened in the one Chromium of `tests/conftest.py`, and may load nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


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
