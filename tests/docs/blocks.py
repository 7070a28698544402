"""Fenced blocks of a Markdown page, and how to run them.

```python blocks of a page share one namespace. In ```bash blocks every line that starts with
`dpublish` (or `$ dpublish`) is run; a trailing `# exit N` says which exit code it must have.
```text blocks are not run.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
EXIT = re.compile(r"#\s*exit (\d+)\s*$")
KNOWN = {"python", "bash", "text", "toml", "json", "sql"}


@dataclass(frozen=True)
class Block:
    language: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]


def commands_of(block: Block) -> Iterator[tuple[list[str], int]]:
    """Arguments and expected exit code of each dpublish line."""
    for line in block.text.replace("\\\n", " ").splitlines():
        words = line.strip().removeprefix("$ ")
        if words.startswith("dpublish "):
            expected = EXIT.search(words)
            yield shlex.split(words, comments=True)[1:], int(expected[1]) if expected else 0
