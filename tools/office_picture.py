"""The picture of the office in README.md and docs/serve.md: python tools/office_picture.py

Starts the demo office in a folder that is deleted afterwards, lets Ada propose a release, and takes
a picture of what Ben sees before he approves it.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from demo_office import PASSWORD, actor, prepare
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "office.png"


@contextmanager
def running(state: Path, *, publish: bool = True) -> Iterator[tuple[str, Any]]:
    """The demo office, listening on a free port of this machine: its address and itself."""
    app = prepare(state, port=0, publish=publish)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    office = app.state.office
    office.listens(server.servers[0].sockets[0].getsockname()[1])
    try:
        yield office.address, office
    finally:
        server.should_exit = True
        thread.join()


def enter(page: Any, address: str, name: str, to: str = "**/datasets") -> None:
    page.goto(f"{address}/login")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url(to)


def take(browser: Any, address: str, office: Any) -> bytes:
    dataset = office.datasets.get("visits-2023")
    one = office.releases.propose(
        dataset, release="emergencies-2023", title="Emergencies by age and ward, 2023",
        method="histogram", settings={"columns": "age,ward,emergency"}, epsilon="1", delta=None,
        rho=None, why="For the plan of night shifts", by=actor(office, "ada"),
    )  # fmt: skip
    page = browser.new_page(viewport={"width": 1120, "height": 800})
    enter(page, address, "ben")
    page.goto(f"{address}/proposals/{one}")
    picture: bytes = page.screenshot()
    return picture


def main() -> None:
    from playwright.sync_api import sync_playwright

    sys.path.insert(0, str(ROOT / "tests"))
    from conftest import OFF, chromium

    folder = Path(tempfile.mkdtemp())
    os.environ["DPUBLISH_STATE"] = str(folder / "anchors")
    try:
        with running(folder / "office") as (address, office), sync_playwright() as play:
            browser = play.chromium.launch(executable_path=chromium(), args=OFF)
            taken = Image.open(io.BytesIO(take(browser, address, office)))
            taken.convert("RGB").quantize(64).save(PICTURE, optimize=True)
            browser.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
