"""A page of the docs that a program writes: put it down with --write, or see with --check whether
it is current."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def write_or_check(page: Path, text: str, about: str | None) -> int:
    """What the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(description=about)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    if parser.parse_args().write:
        page.write_text(text, encoding="utf-8")
        return 0
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        print(f"docs/{page.name} is not current. Run: make docs", file=sys.stderr)
        return 1
    return 0
