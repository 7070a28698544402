"""Proof files: each mechanism has one, it has the agreed parts, and its hashes are those of the code."""

from __future__ import annotations

from pathlib import Path

import proof_reach
import proofs
import pytest

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
    """Modules of all mechanisms, offline and online, also of those that inherit from another mechanism."""
    modules = proof_reach.read_modules(proofs.SOURCE)
    roots = ("dpublish.methods.base.Mechanism", "dpublish.methods.online.base.OnlineMechanism")
    names = {name for root in roots for name in proof_reach.subclasses(modules, root)}
    homes = {proof_reach.locate(modules, name)[0] for name in names if name.startswith("dpublish.methods.")}
    return [proofs.SOURCE.joinpath(*home.split(".")).with_suffix(".py") for home in sorted(homes)]


def test_every_mechanism_has_a_proof_that_covers_it() -> None:
    modules = mechanism_modules()
    assert modules
    for path in modules:
        proof = path.parent / f"{path.parent.name}.proof.md"
        assert proof.exists(), f"{path.parent.name} has no proof file"
        home = ".".join(path.relative_to(proofs.SOURCE).with_suffix("").parts)
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
