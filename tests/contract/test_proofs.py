"""Proof files: each mechanism has one, it has the agreed parts, and its hashes are those of the
code."""

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
    names = [cover.name for cover in listed]
    twice = sorted({name for name in names if names.count(name) > 1})
    assert not twice, f"{path.name} covers {', '.join(twice)} more than once"
    stale = [cover.name for cover in listed if cover.actual != cover.recorded]
    assert not stale, (
        f"{path.name} was written for other code: read it again, then `make proofs` "
        f"({', '.join(stale)})"
    )


def mechanism_modules() -> list[Path]:
    """Modules of all mechanisms, offline and online, also of those that inherit from another
    mechanism."""
    modules = proof_reach.read_modules(proofs.SOURCE)
    roots = ("dpublish.methods.base.Mechanism", "dpublish.methods.online.base.OnlineMechanism")
    names = {name for root in roots for name in proof_reach.subclasses(modules, root)}
    homes = {
        proof_reach.locate(modules, name)[0]
        for name in names
        if name.startswith("dpublish.methods.")
    }
    return [proofs.SOURCE.joinpath(*home.split(".")).with_suffix(".py") for home in sorted(homes)]


def test_every_mechanism_has_a_proof_that_covers_it() -> None:
    modules = mechanism_modules()
    assert modules
    for path in modules:
        proof = path.parent / f"{path.parent.name}.proof.md"
        assert proof.exists(), f"{path.parent.name} has no proof file"
        home = ".".join(path.relative_to(proofs.SOURCE).with_suffix("").parts)
        assert any(cover.name.startswith(home) for cover in proofs.covers(proof)), (
            f"{proof.name} does not cover {home}"
        )


def test_an_edit_changes_the_hash_and_a_comment_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpublish.audit.covers.SOURCE", tmp_path)
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


EDITS = {
    "dpublish.curator.gate.Curator": (
        "if not receipt.fresh:",
        "if receipt.fresh and False:",
    ),
    "dpublish.curator.gate.run_private": (
        "if not ledger.drawing(receipt.key):",
        "if False:",
    ),
    "dpublish.curator.guard.guarded": ("else PrivateSideError()", "else known"),
    "dpublish.curator.guard.stopped": ("else 1)", "else stop.code)"),
    "dpublish.quiet._put_first": ("filters.insert(0, _OURS)", "filters.append(_OURS)"),
    "dpublish.quiet._OURS": ('("ignore", ', '("default", '),
    "dpublish.ledger.chained.ChainedLedger": (
        "head.spent != spent.minus(charged)",
        "head.spent == spent",
    ),
    "dpublish.ledger.chained._RESERVE": ("ledgers.c.seq + 1", "ledgers.c.seq"),
    "dpublish.ledger.chain.Record": ('"previous": self.previous', '"previous": ""'),
    "dpublish.ledger.snapshot.Snapshot": ("record.previous == previous", "record.previous"),
    "dpublish.ledger.chain.Quanta": ("math.ceil(cost.epsilon", "math.floor(cost.epsilon"),
    "dpublish.ledger.tables._TABLES_V1": (
        "UNIQUE (ledger_id, kind, key)",
        "UNIQUE (ledger_id, seq)",
    ),
    "dpublish.ledger.anchor.Anchor": (
        "current.mark.seq >= mark.seq",
        "current.mark.seq > mark.seq",
    ),
    "dpublish.models.junction_tree.fit.fit_model": ("sorted({table.round", "list({table.round"),
    "dpublish.models.junction_tree.beliefs.HELPS": ("HELPS = 0.7", "HELPS = 0.8"),
    "dpublish.models.junction_tree.kernels.sum_cells": (
        "nogil=True",
        "nogil=True, parallel=True",
    ),
    "dpublish.compiled.njit": ("numba.njit(**options)", "numba.njit(fastmath=True, **options)"),
    "dpublish.methods.generalized_table.mechanism.entropy_step": (
        "precision = 128",
        "precision = 53",
    ),
    "dpublish.curator.sessions.session.require_pure": ('!= "pure"', '== "zcdp"'),
}


@pytest.mark.parametrize(
    ("name", "edit"), EDITS.items(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_an_edit_of_code_that_privacy_rests_on_is_noticed(
    name: str,
    edit: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Both by the test above and by `make proofs`, which names the proof to be read again."""
    recorded = {cover.name: cover.recorded for path in FILES for cover in proofs.covers(path)}
    module = Path(
        *proof_reach.locate(proof_reach.read_modules(proofs.SOURCE), name)[0].split(".")
    ).with_suffix(".py")
    text = (proofs.SOURCE / module).read_text(encoding="utf-8")
    copy = tmp_path / "src" / module
    copy.parent.mkdir(parents=True)
    copy.with_suffix(".proof.md").write_text(
        f"Covers: {name} sha256:{recorded[name]}\n", encoding="utf-8"
    )
    monkeypatch.setattr("dpublish.audit.covers.SOURCE", tmp_path / "src")
    monkeypatch.setattr(proofs, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["proofs"])
    for changed, status in ((text, 0), (text.replace(*edit), 1)):
        copy.write_text(changed, encoding="utf-8")
        assert proofs.main() == status
    assert text.replace(*edit) != text
    assert name in capsys.readouterr().out
