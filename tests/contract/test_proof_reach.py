"""Proofs cover the code that covered code leans on, and everything that draws noise has a proof."""

from __future__ import annotations

from pathlib import Path

import proof_reach
import proofs
import pytest
from proof_exemptions import EXEMPT, is_exempt

from dpublish.audit import covers

MODULES = proof_reach.read_modules(proofs.SOURCE)
COVERED = {cover.name for path in proofs.proof_files() for cover in proofs.covers(path)}

ROOTS = (
    "dpublish.methods.base.Mechanism",
    "dpublish.methods.online.base.OnlineMechanism",
    "dpublish.local.base.Randomizer",
    "dpublish.noise.base.Noise",
)
# draws for audits, tests and simulations; a release made with them is marked as not publishable, or
# cannot be made
NOT_FOR_RELEASES = (
    "dpublish.audit.",
    "dpublish.noise.source.SeededNoise",
    "dpublish.noise.tape.",
    "dpublish.noise.enumerator.",
)


def test_what_covered_code_uses_is_covered() -> None:
    missing = {
        name: users
        for name, users in proof_reach.uncovered(MODULES, COVERED).items()
        if not is_exempt(name)
    }
    shown = "\n".join(
        f"  {name}, used by {', '.join(sorted(users))}" for name, users in sorted(missing.items())
    )
    assert not missing, (
        "Covered code uses names that no proof covers. Add 'Covers:' lines to the proofs that "
        "rely on them, with a "
        f"sentence that says so, or an exemption with its reason:\n{shown}"
    )


def test_every_exemption_is_needed() -> None:
    used = proof_reach.uncovered(MODULES, COVERED)
    for entry in (entry for entries in EXEMPT.values() for entry in entries):
        assert any(
            name == entry or (entry.endswith(".") and name.startswith(entry)) for name in used
        ), entry


def test_no_exemption_stands_for_a_module_that_proofs_speak_of() -> None:
    """There a helper that comes near private values would be spared with the words beside it."""
    wide = [entry for entries in EXEMPT.values() for entry in entries if entry.endswith(".")]
    assert wide
    assert not {entry for entry in wide if any(name.startswith(entry) for name in COVERED)}


@pytest.mark.parametrize("root", ROOTS)
def test_every_class_that_meets_private_values_is_covered(root: str) -> None:
    found = {
        name
        for name in proof_reach.subclasses(MODULES, root)
        if not name.startswith(NOT_FOR_RELEASES)
    }
    assert found
    assert not found - COVERED


def test_indirect_subclasses_are_found() -> None:
    online = proof_reach.subclasses(MODULES, "dpublish.methods.online.base.OnlineMechanism")
    assert "dpublish.methods.online.median.mechanism.MedianMechanism" in online
    tables = proof_reach.subclasses(MODULES, "dpublish.methods.base.Mechanism")
    assert "dpublish.methods.projected_histogram.mechanism.ProjectedHistogram" in tables


PLANTED = """
import numpy as np
from dpublish.noise.helper import scale
from dpublish.methods import tool

LIMIT = 3
_LEFT, _RIGHT = 1, 2
count = 0

def raised():
    global count
    count += 1

class Base: ...

def run(x: Annotated) -> Annotated:
    return helper(x) * LIMIT + _RIGHT + scale(x) + tool.turn(x) + count

def helper(x):
    return np.abs(x)

class Annotated(Base): ...
"""


@pytest.fixture
def planted(tmp_path: Path) -> dict[str, proof_reach.Module]:
    for name, text in {
        "noise/helper.py": "def scale(x):\n    return deeper(x)\n\ndef deeper(x):\n    return x\n",
        "methods/tool.py": "def turn(x):\n    return -x\n",
        "methods/planted.py": PLANTED,
        "errors.py": "class Oops(Exception): ...\n",
    }.items():
        path = tmp_path / "dpublish" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return proof_reach.read_modules(tmp_path)


def test_a_new_helper_is_noticed(planted: dict[str, proof_reach.Module]) -> None:
    home = "dpublish.methods.planted"
    run = f"{home}.run"
    used = {f"{home}.helper", f"{home}.LIMIT", f"{home}._RIGHT", f"{home}.count"}
    abroad = {"dpublish.noise.helper.scale", "dpublish.methods.tool.turn"}
    assert proof_reach.uncovered(planted, {run}) == {name: {run} for name in used | abroad}
    # a covered helper brings what it uses itself, and a variable the functions that set it
    held = {run} | used | abroad
    assert set(proof_reach.uncovered(planted, held)) == {
        "dpublish.noise.helper.deeper",
        f"{home}.raised",
    }
    assert not proof_reach.uncovered(
        planted, held | {"dpublish.noise.helper.deeper", f"{home}.raised"}
    )


def test_inheritance_is_followed(planted: dict[str, proof_reach.Module]) -> None:
    home = "dpublish.methods.planted"
    assert set(proof_reach.uncovered(planted, {f"{home}.Annotated"})) == {f"{home}.Base"}
    assert proof_reach.subclasses(planted, f"{home}.Base") == {f"{home}.Annotated"}


def test_a_registration_belongs_to_what_it_registers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(covers, "SOURCE", tmp_path)
    text = "def f():\n    pass\n\n_A, _B = 1, 2\n"
    hashes = []
    for more in ("", "register(f)\n"):
        (tmp_path / "m.py").write_text(text + more)
        hashes.append((proofs.hash_of("m.f"), proofs.hash_of("m._B")))
    assert hashes[0][0] != hashes[1][0]
    assert hashes[0][1] == hashes[1][1]
