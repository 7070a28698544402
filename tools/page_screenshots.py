"""Pictures of the page for the docs, taken in a real browser.

    python tools/page_screenshots.py --out docs/images

The demo's release is made anew (of made-up rows), its page is opened from disk, and three views of
it are kept: a column, a cross-table in the dark, and a phone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VIEWS = {
    "page-column.png": ("#column=age", "light", (1000, 900)),
    "page-cross.png": ("#column=ward&by=emergency", "dark", (1000, 900)),
    "page-phone.png": ("#column=ward", "light", (390, 844)),
}


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--out", type=Path, default=Path("docs/images"))
    out = reader.parse_args().out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        command = [sys.executable, "-m", "dpublish", "demo", "--out", f"{made}/demo"]
        alone = {**os.environ, "DPUBLISH_STATE": f"{made}/state"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=alone)
        photograph(Path(made, "demo", "hospital.html"), out)


def photograph(page: Path, out: Path) -> None:
    from playwright.sync_api import sync_playwright

    where = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=where, args=["--no-sandbox"])
        for name, (view, scheme, (width, height)) in VIEWS.items():
            size = {"width": width, "height": height}
            context = browser.new_context(color_scheme=scheme, viewport=size)
            shown = context.new_page()
            shown.goto(f"{page.as_uri()}{view}")
            shown.locator("#explore").scroll_into_view_if_needed()
            shown.evaluate("document.getElementById('explore').scrollIntoView()")
            shown.screenshot(path=out / name)
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
