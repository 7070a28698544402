"""How much code there is: statements of `src`, docstrings left out, so that layout and prose do not
count.

    python tools/statements.py                  by folder, and the files with the most
    python tools/statements.py --before REV     the same beside an earlier commit
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/dpublish"


def statements(text: str) -> int:
    """The `ast.stmt` nodes of a module that are no docstring: a constant that stands by itself."""
    return sum(
        isinstance(node, ast.stmt)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in ast.walk(ast.parse(text))
    )


def today() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        yield str(path.relative_to(ROOT / PACKAGE)), path.read_text(encoding="utf-8")


def at(revision: str) -> Iterator[tuple[str, str]]:
    packed = subprocess.run(
        ["git", "archive", revision, PACKAGE], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        for member in archive:
            found = archive.extractfile(member) if member.name.endswith(".py") else None
            if found is not None:
                yield member.name.removeprefix(f"{PACKAGE}/"), found.read().decode()


def counted(files: Iterator[tuple[str, str]]) -> dict[str, int]:
    return {name: statements(text) for name, text in files}


def by_folder(found: dict[str, int]) -> Counter[str]:
    folders: Counter[str] = Counter()
    for name, count in found.items():
        folders[name.partition("/")[0] if "/" in name else "."] += count
    return folders


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", help="a revision to hold today's code against")
    asked = parser.parse_args()
    now = counted(today())
    before = counted(at(asked.before)) if asked.before else now
    folders, earlier = by_folder(now), by_folder(before)
    for folder in sorted({*folders, *earlier}):
        change = f"{folders[folder] - earlier[folder]:+7,}" if asked.before else ""
        print(f"{folder:12} {folders[folder]:7,} {change}")
    change = f"{sum(now.values()) - sum(before.values()):+7,}" if asked.before else ""
    print(f"{'all':12} {sum(now.values()):7,} {change}  in {len(now)} files")


if __name__ == "__main__":
    main()
