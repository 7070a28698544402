"""Do two states of the code make the same releases? One digest per release, of all that can be seen
of it.

    python tools/compare_releases.py --before REV          this checkout against a commit
    python tools/compare_releases.py                       the digests of this checkout
    python tools/compare_releases.py --source DIR          the digests of another checkout
    python tools/compare_releases.py --only joined ...     only cases with this word in their name

A release is made with seeded noise for every method, relation and variant (`release_cases.py`), and
everything that a curator or an analyst sees of it is compared (`release_texts.py`): manifest with
the hash of every table, plan, show, query, sql, report, export. Receipt, date, versions and hashes
of code are left out. Ends with 1 when anything differs.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import subprocess
import tempfile
from pathlib import Path

from checkouts import ROOT, command_with, source_of

MAKER = Path(__file__).with_name("release_texts.py")
SHOWN = 12
"""Lines of difference that are shown per file."""


def make(source: Path, out: Path, only: list[str]) -> None:
    """All texts of the releases that the code in `source` makes."""
    command, environment = command_with(source, MAKER, [str(out), *only])
    made = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    if made.returncode:
        raise SystemExit(f"The releases of {source} could not be made:\n{made.stderr}")


def remembered(revision: str, only: list[str]) -> Path:
    """The texts of a commit, which stay as they are: they are made once for the same cases."""
    source = source_of(revision)
    asked = b"".join(
        Path(__file__).with_name(name).read_bytes()
        for name in ("release_cases.py", "solver_cases.py", "release_texts.py")
    )
    known = source.with_name(
        f"{source.name}.{hashlib.sha256(asked + repr(only).encode()).hexdigest()[:12]}"
    )
    if not known.exists():
        with tempfile.TemporaryDirectory(dir=source.parent) as made:
            make(source, Path(made, "texts"), only)
            Path(made, "texts").rename(known)
    return known


def digests(folder: Path) -> dict[str, str]:
    """One digest for each case."""
    found = {}
    for case in sorted(folder.iterdir()):
        whole = hashlib.sha256()
        for part in sorted(case.iterdir()):
            whole.update(f"{part.name} {hashlib.sha256(part.read_bytes()).hexdigest()}\n".encode())
        found[case.name] = whole.hexdigest()
    return found


def differences(before: Path, after: Path) -> list[str]:
    """What differs, file by file, with the first lines of it."""
    names = sorted(
        {path.relative_to(side) for side in (before, after) for path in side.glob("*/*.txt")}
    )
    lines: list[str] = []
    for name in names:
        sides = [
            (side / name).read_text(encoding="utf-8").splitlines() if (side / name).exists() else []
            for side in (before, after)
        ]
        if sides[0] != sides[1]:
            changed = list(
                difflib.unified_diff(*sides, f"before/{name}", f"after/{name}", lineterm="", n=0)
            )
            lines += [line[:200] for line in changed[:SHOWN]]
            lines += [f"... {len(changed) - SHOWN} more lines"] if len(changed) > SHOWN else []
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", metavar="REV", help="compare with this commit")
    parser.add_argument(
        "--source",
        metavar="DIR",
        type=Path,
        default=ROOT,
        help="the checkout to run; this one when left out",
    )
    parser.add_argument(
        "--only",
        metavar="WORD",
        action="append",
        default=[],
        help="only cases with this word; repeatable",
    )
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="keep the texts in this new folder"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = given.keep or Path(made)
        make(given.source, folder / "after", given.only)
        after = digests(folder / "after")
        if given.before is None:
            for name, digest in after.items():
                print(f"{digest}  {name}")
            return
        before = remembered(given.before, given.only)
        lines = differences(before, folder / "after")
        print("\n".join(lines) or f"All {len(after)} cases are the same as at {given.before}.")
        raise SystemExit(1 if lines else 0)


if __name__ == "__main__":
    main()
