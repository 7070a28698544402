"""The wall: public code never imports private code, directly or through others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRIVATE = ("dpublish.private", "dpublish.noise", "dpublish.mechanisms", "dpublish.ledger", "dpublish.audit")
SHARED = ("errors", "schema", "columns", "domain", "cost", "plan", "encode", "quiet")


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(text: str) -> set[str]:
    """Every dpublish module named in an import statement, wherever in the file it stands."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return {name for name in found if name.split(".")[0] == "dpublish"}


MODULES = {module_name(path): path for path in SOURCE.rglob("*.py")}


def reach(start: str) -> set[str]:
    """Modules reachable from `start` through import statements (the package root only lists names lazily, so it is a leaf)."""
    seen, todo = set(), [start]
    while todo:
        name = todo.pop()
        if name in seen or name not in MODULES or name == "dpublish":
            continue
        seen.add(name)
        todo += imports_of(MODULES[name].read_text(encoding="utf-8"))
    return seen


def crosses(names: set[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(PRIVATE))


@pytest.mark.parametrize(
    "name",
    sorted(
        n for n in MODULES if n.startswith(("dpublish.public", "dpublish.readers")) or n.removeprefix("dpublish.") in SHARED
    ),
)
def test_public_code_cannot_reach_private_code(name: str) -> None:
    assert crosses(reach(name)) == []


def test_the_walk_would_notice_a_breach() -> None:
    planted = "def f():\n    from dpublish.private.gate import Curator\n"
    assert crosses(imports_of(planted)) == ["dpublish.private.gate", "dpublish.private.gate.Curator"]


def test_public_tables_are_not_read_through_the_private_side() -> None:
    """Methods read public tables with the neutral readers; rows that reach them otherwise come from the gate."""
    for name, path in MODULES.items():
        if name.startswith("dpublish.mechanisms"):
            found = {n for n in imports_of(path.read_text(encoding="utf-8")) if n.startswith("dpublish.private")}
            assert not found, f"{name} imports {sorted(found)}"


def test_noise_and_mechanisms_never_read_files_or_clocks() -> None:
    """The mechanism side is pure: no module there imports a way to touch the world."""
    banned = {"os", "time", "datetime", "pathlib", "logging", "socket", "requests", "random", "sqlalchemy", "polars"}
    for name, path in MODULES.items():
        if name.startswith("dpublish.mechanisms"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            roots = {
                alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
            }
            roots |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
            assert not roots & banned, f"{name} imports {sorted(roots & banned)}"


def test_an_analyst_needs_no_private_code() -> None:
    """With the private packages made unimportable, a release still opens: only the public names are loaded."""
    blocker = (
        "import sys\n"
        f"blocked = {PRIVATE!r}\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.startswith(blocked): raise ImportError('wall: ' + name)\n"
        "sys.meta_path.insert(0, Wall())\n"
        "import dpublish as dp\n"
        "dp.open_release, dp.verify_bundle, dp.Estimate, dp.Schema, dp.Cost\n"
        "import dpublish.public.releases.histogram, dpublish.public.sql, dpublish.public.learn, dpublish.public.report\n"
        "try:\n    dp.Curator\nexcept ImportError as error:\n    assert 'wall' in str(error)\n"
        "else:\n    raise SystemExit('no wall')\n"
    )
    done = subprocess.run([sys.executable, "-c", blocker], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
