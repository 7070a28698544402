"""Settings shared by all tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# A run of the whole suite that collects fewer tests than this has lost some: a folder not
# collected, an import guarded away.
FLOOR = 4200


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly", action="store_true", help="run the long audits and fault runs too"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    whole_suite = not config.option.keyword and all(
        Path(arg.split("::")[0]).name == "tests" for arg in config.args
    )
    if whole_suite and len(items) < FLOOR:
        raise pytest.UsageError(
            f"only {len(items)} tests were collected; the suite has at least {FLOOR}"
        )
    if not config.getoption("--nightly"):
        config.hook.pytest_deselected(
            items=[item for item in items if item.get_closest_marker("nightly")]
        )
        items[:] = [item for item in items if item.get_closest_marker("nightly") is None]


@pytest.fixture(autouse=True, scope="module")
def _state_folder_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What a file of tests makes once is remembered apart too: no test file knows the ledgers of
    another, or the curator's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPUBLISH_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(autouse=True)
def _state_folder(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep the ledger anchors of a test out of the home folder."""
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path_factory.mktemp("state")))


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
    """A real Chromium, started once. Debian's package `chromium` is used, or $CHROMIUM; `make test`
    installs it where it can. With CI=true its absence is a failure, elsewhere tests that need it
    are skipped and say so."""
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
