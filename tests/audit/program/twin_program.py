"""A small release program for twin runs: reads rows.csv, writes release.json. --bug plants a
leak."""

from __future__ import annotations

import json
import logging
import secrets
import sys
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import numpy as np

from dpublish.noise.base import Noise


class SteadyNoise(Noise):
    """Draws without a sampler, so that the child starts fast: every answer is the value plus the
    seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def answer(self, draw):
        return draw.private[0] + self._seed


def make_noise():
    raise AssertionError("a twin run must replace the noise")


def now():
    return datetime.now(UTC)


def main() -> int:
    planted = sys.argv[sys.argv.index("--bug") + 1] if "--bug" in sys.argv else ""
    rows = [int(line) for line in Path("rows.csv").read_text().split()]
    log = logging.getLogger("program")
    noise = make_noise()
    exact = np.bincount(rows, minlength=2).astype(np.int64)
    if planted == "draws":
        noisy = [
            int(noise.laplace(exact[[row]], sensitivity=Fraction(1), epsilon=Fraction(1))[0])
            for row in rows
        ]
    else:
        noisy = noise.laplace(exact, sensitivity=Fraction(1), epsilon=Fraction(1)).tolist()
    release = {"counts": noisy, "created": now().isoformat(), "id": secrets.token_hex(8)}
    log.info("counted the rows")
    if planted == "printed":
        print("rows:", len(rows))
    if planted == "file-bytes":
        release["n"] = len(rows)
    if planted == "log":
        log.info("loaded %d rows", len(rows))
    if planted == "stderr":
        print(f"warning: last row was {rows[-1]} of {len(rows)}", file=sys.stderr)
    name = f"release-{len(rows)}.json" if planted == "file-name" else "release.json"
    Path(name).write_text(json.dumps(release))
    Path("secret.ledger").write_text(repr(len(rows)))
    print("released", release["id"])
    return 1 if planted == "exit-code" and len(rows) > 3 else 0
