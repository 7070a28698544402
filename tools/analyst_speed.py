"""How long an analyst waits: the page, a query and a million rows of a joined release of 20 columns.

    python tools/analyst_speed.py [--release FILE] [--browser]

Times are CPU seconds of the process that does the work, so that a busy machine does not change
them; in the browser (`--browser`) they are the browser's own clock, the least of five. Without a
release, one of 20,000 made-up rows is published first.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import dpublish as dp

ROWS, NUMBERS, TEXTS = 20_000, 8, 12
BARS = {
    "page, MB": 1.5,
    "page": 10.0,
    "to_frame(1e6)": 1.0,
    "query, warm": 1.0,
    "query, first in an empty cache": 3.0,
    "first paint": 1.0,
    "an answer": 0.05,
}


def made(folder: Path) -> Path:
    """A joined release of 20 columns that depend on each other."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=ROWS)
    columns: dict[str, Any] = {}
    text = f'[dataset]\nname = "twenty"\nneighbours = "replace-one"\nsize = {ROWS}\n'
    for place in range(NUMBERS):
        drawn = (hidden * (place % 3) + rng.normal(size=ROWS)) * 15 + 50
        columns[f"n{place}"] = np.clip(drawn, 0, 99).astype(int)
        text += f'[columns.n{place}]\nkind = "integer"\nlower = 0\nupper = 99\nbins = 20\n'
    for place in range(TEXTS):
        levels = [f"l{level}" for level in range(2 + place)]
        drawn = (hidden + rng.normal(size=ROWS) + 3) * len(levels) / 6
        codes = np.clip(drawn, 0, len(levels) - 1).astype(int)
        columns[f"c{place}"] = np.array(levels)[codes]
        listed = ", ".join(f'"{level}"' for level in levels)
        text += f'[columns.c{place}]\nkind = "categorical"\nlevels = [{listed}]\n'
    curator = dp.Curator(
        pl.DataFrame(columns),
        dp.Schema.from_toml(text),
        ledger=folder / "l.ledger",
        budget=dp.Budget(epsilon=2),
    )
    curator.publish(dp.JoinedHistograms(target="c0"), epsilon=2, seed=1, out=folder / "twenty.dpr")
    return folder / "twenty.dpr"


def spent(work: Callable[[], Any]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def spent_by(words: list[str], **settings: str) -> float:
    """CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **settings})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_browser(page: Path) -> dict[str, float]:
    """Seconds to the first paint, and from a choice to its answer."""
    from playwright.sync_api import sync_playwright

    where = os.environ.get("CHROMIUM") or shutil.which("chromium")
    paints, answers = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=where, args=["--no-sandbox"])
        for _ in range(5):
            view = browser.new_page()
            view.goto(page.as_uri())
            paints.append(float(view.evaluate(PAINT)))
            answers.append(float(view.evaluate(ANSWER)))
            view.close()
        browser.close()
    return {"first paint": min(paints) / 1000, "an answer": min(answers) / 1000}


PAINT = """() => new Promise((done) => {
  const seen = (found) => found.find((one) => one.name === "first-contentful-paint");
  const watch = new PerformanceObserver((list) => {
    const one = seen(list.getEntries());
    if (one) done(one.startTime);
  });
  watch.observe({ type: "paint", buffered: true });
})"""
ANSWER = """() => {
  const field = document.getElementById("column"), by = document.getElementById("by");
  const start = performance.now();
  field.selectedIndex = 2;
  field.dispatchEvent(new Event("change"));
  by.selectedIndex = 1;
  by.dispatchEvent(new Event("change"));
  document.body.getBoundingClientRect();
  return (performance.now() - start) / 2;
}"""


def main() -> None:
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--release", type=Path)
    reader.add_argument("--browser", action="store_true")
    given = reader.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = given.release or made(Path(folder))
        page = Path(folder, "page.html")
        found = {"page": spent(lambda: dp.open_release(file).page(page))}
        found["page, MB"] = page.stat().st_size / 1e6
        release: Any = dp.open_release(file)
        release.to_frame(10)
        found["to_frame(1e6)"] = spent(lambda: release.to_frame(1_000_000))
        column = release.domain.names[0]
        words = [sys.executable, "-m", "dpublish", "query", str(file), f"{column} is not null"]
        empty = {"NUMBA_CACHE_DIR": f"{folder}/cache", "XDG_CACHE_HOME": f"{folder}/xdg"}
        found["query, first in an empty cache"] = spent_by(words, **empty)
        found["query, warm"] = spent_by(words)
        if given.browser:
            found |= in_browser(page)
    for name, figure in found.items():
        print(f"{name:32} {figure:8.3f}  (at most {BARS[name]:g})")
    sys.exit(any(figure > BARS[name] for name, figure in found.items()))


if __name__ == "__main__":
    main()
