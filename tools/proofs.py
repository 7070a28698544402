"""Proof files and the code they cover.

What is hashed is in `dpublish.audit.covers`. `make proofs` rewrites the hashes.

A move or a rename is no edit. `--renamed MAP.json --before REV` rewrites a hash only if the code of
that revision, with the map applied, is the code of today: {"modules": {old: new}, "names": {old:
new}}, dotted names of modules, and identifiers.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpublish.audit.covers import (
    SOURCE,
    Cover,
    covered_code,
    covers,
    defined_names,
    hash_of,
    normalised_source,
    on_disk,
    proof_files,
)

ROOT = Path(__file__).resolve().parent.parent

__all__ = [
    "SOURCE",
    "Cover",
    "covers",
    "defined_names",
    "hash_of",
    "normalised_source",
    "proof_files",
]


def _at_revision(revision: str) -> Callable[[str], str | None]:
    def read(path: str) -> str | None:
        done = subprocess.run(
            ["git", "show", f"{revision}:src/{path}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else None

    return read


@dataclass(frozen=True)
class Renaming:
    """A map of modules (dotted) and of identifiers from an earlier revision to today."""

    modules: Mapping[str, str]
    names: Mapping[str, str]

    def dotted(self, name: str) -> str:
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            if (moved := self.modules.get(".".join(parts[:cut]))) is not None:
                return ".".join([moved, *(self.names.get(part, part) for part in parts[cut:])])
        return ".".join(self.names.get(part, part) for part in parts)

    def before(self, dotted: str, read: Callable[[str], str | None]) -> str | None:
        """The code that is called `dotted` today, as it was, with the map applied; None if it was
        not there."""
        names = {new: old for old, new in self.names.items()}
        folded = [(new, old) for old, new in self.modules.items() if f"{dotted}.".startswith(new)]
        for back in [{}, *({new: old} for new, old in folded)]:  # several may be one file today
            was = Renaming(back, names).dotted(dotted)
            with suppress(LookupError):
                parts = covered_code(was, read)
                return "".join(ast.dump(_plain_imports(part, self)) for part in parts)
        return None


def _plain_imports(tree: ast.AST, renaming: Renaming) -> ast.AST:
    """The tree with the map applied, and each import written as `import whole.name as bound`,
    however it was spelled."""

    class Apply(ast.NodeTransformer):
        def visit_ImportFrom(self, node: ast.ImportFrom) -> list[ast.stmt]:
            found = []
            for alias in node.names:
                bound = renaming.names.get(alias.asname or alias.name, alias.asname or alias.name)
                found.append(
                    ast.Import([ast.alias(renaming.dotted(f"{node.module}.{alias.name}"), bound)])
                )
            return found

        def generic_visit(self, node: ast.AST) -> ast.AST:
            for field in ("id", "attr", "arg", "name"):
                value = getattr(node, field, None)
                if isinstance(value, str):
                    setattr(node, field, renaming.names.get(value, value))
            if (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and node.value.startswith("dpublish.")
            ):
                module, _, attribute = node.value.partition(":")
                node.value = renaming.dotted(module) + (f":{attribute}" if attribute else "")
            super().generic_visit(node)
            for field in (
                "body",
                "orelse",
            ):  # a sorter of imports puts moved modules elsewhere in their block
                if isinstance(block := getattr(node, field, None), list):
                    runs = itertools.groupby(
                        block, key=lambda statement: isinstance(statement, ast.Import)
                    )
                    setattr(
                        node,
                        field,
                        [
                            s
                            for imports, run in runs
                            for s in (sorted(run, key=ast.dump) if imports else run)
                        ],
                    )
            return node

    return Apply().visit(tree)


def only_renamed(dotted: str, renaming: Renaming, revision: str) -> bool:
    today = "".join(
        ast.dump(_plain_imports(part, Renaming({}, {}))) for part in covered_code(dotted, on_disk)
    )
    return renaming.before(dotted, _at_revision(revision)) == today


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite stale hashes")
    parser.add_argument(
        "--renamed",
        type=Path,
        help="a map of renames: rewrite hashes of code that only changed its names",
    )
    parser.add_argument(
        "--before",
        default="HEAD",
        help="with --renamed: the revision that the hashes were written for",
    )
    asked = parser.parse_args()
    renaming = (
        Renaming(**json.loads(asked.renamed.read_text(encoding="utf-8"))) if asked.renamed else None
    )
    stale = refused = 0
    for proof in proof_files():
        text = proof.read_text(encoding="utf-8")
        for cover in covers(proof):
            if cover.actual != cover.recorded:
                if renaming is not None and not only_renamed(cover.name, renaming, asked.before):
                    refused += 1
                    print(
                        f"{proof.relative_to(ROOT)}: {cover.name} is other code than it was: read "
                        f"the proof again"
                    )
                    continue
                stale += 1
                print(f"{proof.relative_to(ROOT)}: {cover.name}")
                line = re.compile(
                    rf"^(Covers:\s+`?{re.escape(cover.name)}`?\s+sha256:)\w+", re.MULTILINE
                )
                text = line.sub(rf"\g<1>{cover.actual}", text)
        if asked.write or renaming is not None:
            proof.write_text(text, encoding="utf-8")
    if renaming is not None:
        print(f"{stale} hashes of renamed code rewritten, {refused} refused")
        return 1 if refused else 0
    done = "refreshed: read those proofs again" if asked.write else "hashes"
    print(f"{stale} stale {done}" if stale else "all hashes are current")
    return 0 if asked.write or not stale else 1


if __name__ == "__main__":
    sys.exit(main())
