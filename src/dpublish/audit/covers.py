"""Proofs and the code they cover, as it is installed.

A proof file `<name>.proof.md` ends with lines `Covers: <dotted name> sha256:<hash>`. The hash is
taken over the normalised source of the function, class or constant (its syntax tree without
docstrings), so comments and layout may change freely, while an edit of the code asks for the proof
to be read again. Statements of the module that do something with the name, such as registering it
somewhere, are hashed with it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
COVERS = re.compile(r"^Covers:\s+`?([\w.]+)`?\s+sha256:(\w+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Cover:
    proof: Path
    name: str
    recorded: str

    @property
    def actual(self) -> str:
        return hash_of(self.name)


def proof_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.proof.md"))


def covers(proof: Path) -> Iterator[Cover]:
    for match in COVERS.finditer(proof.read_text(encoding="utf-8")):
        yield Cover(proof, match.group(1), match.group(2))


def hash_of(dotted: str) -> str:
    return hashlib.sha256(normalised_source(dotted).encode()).hexdigest()


def normalised_source(dotted: str) -> str:
    """The syntax tree of a function, class, method or module constant given by its full dotted
    name, docstrings left out."""
    return "".join(ast.dump(part) for part in covered_code(dotted, on_disk))


def covered_code(dotted: str, read: Callable[[str], str | None]) -> list[ast.AST]:
    """The covered statements, docstrings left out; `read` gives the text of a module, or None where
    there is no such module."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        text = read("/".join(parts[:cut]) + ".py")
        if text is not None:
            tree = ast.parse(text)
            node: ast.AST = tree
            for name in parts[cut:]:
                node = _child(node, name, dotted)
            mentions = _mentions(tree, parts[cut]) if cut == len(parts) - 1 else []
            return [_without_docstrings(part) for part in (node, *mentions)]
    raise LookupError(f"'{dotted}' is in no module under src")


def on_disk(path: str) -> str | None:
    return (SOURCE / path).read_text(encoding="utf-8") if (SOURCE / path).is_file() else None


def defined_names(statement: ast.AST) -> list[str]:
    """The names that a statement defines; `_A, _B = 1, 2` defines two."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    else:
        targets = [statement.target] if isinstance(statement, ast.AnnAssign) else []
    parts = [
        part
        for target in targets
        for part in (target.elts if isinstance(target, ast.Tuple) else [target])
    ]
    return [part.id for part in parts if isinstance(part, ast.Name)]


def _child(node: ast.AST, name: str, dotted: str) -> ast.AST:
    for child in ast.iter_child_nodes(node):
        if name in defined_names(child):
            return child
    raise LookupError(f"'{dotted}' is not defined where its name says")


def _mentions(tree: ast.Module, name: str) -> list[ast.stmt]:
    """Statements that run when the module is loaded, define nothing, and use the name."""
    loose = [statement for statement in tree.body if not defined_names(statement)]
    return [
        statement
        for statement in loose
        if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(statement))
    ]


def _without_docstrings(node: ast.AST) -> ast.AST:
    for child in ast.walk(node):
        if (
            isinstance(child, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
            and ast.get_docstring(child) is not None
        ):
            child.body = child.body[1:] or [ast.Pass()]
    return node
