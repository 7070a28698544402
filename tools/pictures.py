"""Draw the pictures of the tutorials, with the tutorials' own code: python tools/pictures.py

Each page is run as a reader would run it, in an empty folder with the made-up stand-in for the
Adult table, and the figures that it saves are copied to docs/images. Data and noise have fixed
seeds, so that a picture changes only when something does.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
PICTURES = {
    "tutorial.md": {"education.png": "histogram.png"},
    "tutorial-joined.md": {"structure.png": "joined-structure.png", "age.png": "joined-age.png"},
    "tutorial-weights.md": {"ill.png": "weights.png"},
    "tutorial-baskets.md": {
        "items.png": "baskets-items.png",
        "itemsets.png": "baskets-itemsets.png",
    },
    "tutorial-intervals.md": {"journeys.png": "intervals.png"},
}
"""Which files a page saves, and what they are called in docs/images."""


def draw(page: Path, pictures: dict[str, str]) -> None:
    """Run all blocks of a page, up to the last picture."""
    from docs.blocks import blocks_of, commands_of
    from docs.stand_in import write_adult
    from dpublish.cli.app import run
    from dpublish.curator import gate

    seeds = iter(range(1, 1000))
    usual = gate.make_noise
    names: dict[str, Any] = {"__name__": "__docs__"}
    home = Path.cwd()
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(gate, "make_noise", lambda seed: usual(seed or next(seeds))),
        # what other ledgers of this machine paid for is none of a picture's business
        mock.patch.dict(os.environ, {"DPUBLISH_STATE": f"{folder}/state"}),
    ):
        os.chdir(folder)
        try:
            write_adult(Path("adult.csv.gz"))
            shutil.copytree(ROOT / "examples", "examples")
            for block in blocks_of(page):
                if block.language == "python":
                    exec(compile(block.text, f"{page.name}, line {block.line}", "exec"), names)
                elif block.language == "bash":
                    for words, expected in commands_of(block):
                        code = run(words)
                        # seeded releases are not fit to be given out, and verify says so
                        assert code == expected or words[0] == "verify", (page.name, words)
                if all(Path(saved).exists() for saved in pictures):
                    break
            for saved, name in pictures.items():
                shutil.copy(saved, IMAGES / name)
        finally:
            os.chdir(home)


def main() -> None:
    os.environ["MPLBACKEND"] = "Agg"
    sys.path.insert(0, str(ROOT / "tests"))
    IMAGES.mkdir(exist_ok=True)
    for name, pictures in PICTURES.items():
        draw(ROOT / "docs" / name, pictures)


if __name__ == "__main__":
    main()
