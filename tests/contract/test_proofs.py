"""Proof files: each mechanism has one, it has the agreed parts, and its hashes are those of the code."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import proofs  # noqa: E402

FILES = proofs.proof_files()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_proof_has_its_parts_and_current_hashes(path: Path) -> None:
    text = path.read_text(encoding="utf-8").lower()
    for part in ("claim", "proof"):
        assert f"# {part}" in text or f"**{part}" in text, f"{path.name} has no part '{part}'"
    listed = list(proofs.covers(path))
    assert listed, f"{path.name} covers no code"
    stale = [cover.name for cover in listed if cover.actual != cover.recorded]
    assert not stale, f"{path.name} was written for other code: read it again, then `make proofs` ({', '.join(stale)})"


def mechanism_modules() -> list[Path]:
    found = []
    for path in (ROOT / "src/dpublish/mechanisms").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "Mechanism" for base in node.bases
            ):
                found.append(path)
    return found


def test_every_mechanism_has_a_proof_that_covers_it() -> None:
    modules = mechanism_modules()
    assert modules
    for path in modules:
        proof = path.with_suffix(".proof.md")
        assert proof.exists(), f"{path.name} has no proof file"
        home = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        assert any(cover.name.startswith(home) for cover in proofs.covers(proof)), f"{proof.name} does not cover {home}"


def test_an_edit_changes_the_hash_and_a_comment_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "SOURCE", tmp_path)
    module = tmp_path / "m.py"
    hashes = []
    for text in (
        "def f(x):\n    return x + 1\n",
        'def f(x):\n    """Doc."""\n    # why\n    return x  +  1\n',
        "def f(x):\n    return x + 2\n",
    ):
        module.write_text(text)
        hashes.append(proofs.hash_of("m.f"))
    assert hashes[0] == hashes[1] != hashes[2]
