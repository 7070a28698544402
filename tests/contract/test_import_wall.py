"""The wall: public code never imports private code, directly or through others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
PRIVATE = tuple(
    f"dpublish.{room}"
    for room in ("counting", "noise", "methods", "ledger", "curator", "audit", "local")
)
OPEN = (
    "declare",
    "privacy",
    "workloads",
    "sources",
    "models",
    "releases",
    "query",
    "analyse",
    "present",
)
"""Rooms on the analyst's side of the wall, and what both sides share."""
DOORS = ("__init__", "__main__", "optimize")
"""Modules beside the rooms are shared too, but for these."""
BEYOND = ("dpublish.counting", "dpublish.ledger", "dpublish.curator")
"""Where private rows and budgets are: no method goes there."""


def is_open(name: str, path: Path) -> bool:
    beside = path.parent.name == "dpublish" and path.stem not in DOORS
    asked = name in (
        "dpublish.requests",
        "dpublish.requests.analyst",
        "dpublish.requests.base",
        "dpublish.requests.base",
    )
    return beside or asked or name.startswith(tuple(f"dpublish.{room}" for room in OPEN))


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
    """Modules reachable from `start` through import statements (the package root only lists names
    lazily, so it is a leaf)."""
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
    "name", sorted(name for name, path in MODULES.items() if is_open(name, path))
)
def test_public_code_cannot_reach_private_code(name: str) -> None:
    assert crosses(reach(name)) == []


def test_the_walk_would_notice_a_breach() -> None:
    planted = "def f():\n    from dpublish.curator.gate import Curator\n"
    assert crosses(imports_of(planted)) == [
        "dpublish.curator.gate",
        "dpublish.curator.gate.Curator",
    ]


def test_public_tables_are_not_read_through_the_private_side() -> None:
    """Methods read public tables with the neutral readers; rows that reach them otherwise come from
    the gate."""
    for name, path in MODULES.items():
        if name.startswith("dpublish.methods"):
            found = {
                n
                for n in imports_of(path.read_text(encoding="utf-8"))
                if n.startswith(("dpublish.counting", "dpublish.ledger", "dpublish.curator"))
            }
            assert not found, f"{name} imports {sorted(found)}"


TAP = ("dpublish.noise.words", "dpublish.local.coins")
"""The two modules that ask the operating system for randomness: on the curator's side, and on a
person's own device."""
WORLD = {
    "datetime",
    "glob",
    "io",
    "logging",
    "os",
    "pathlib",
    "polars",
    "requests",
    "shutil",
    "socket",
    "sqlalchemy",
}
WORLD |= {"sqlite3", "subprocess", "tempfile", "time", "urllib"}
RANDOM_MODULES = {"cryptography", "random", "secrets", "ssl", "uuid", "numpy.random", "scipy.stats"}
RANDOM_NAMES = {
    "random",
    "urandom",
    "getrandom",
    "default_rng",
    "RandomState",
    "rvs",
    "shuffle",
    "sample",
}
"""Attributes that lead to randomness: np.random, os.urandom, and the methods of generators and of
data frames."""
NAMING = {"secrets", "secrets.token_hex"}
"""What private code may use for keys of requests and names of files, which are no noise."""
PUBLIC_DRAWS = {"dpublish.methods.importance_weights.public_sets": {"release.sample"}}
"""Rows drawn with a fixed seed from a release that serves as the public table."""


def imported_by(tree: ast.AST) -> set[str]:
    """Every name in an import statement, with its module."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def world_of(text: str) -> set[str]:
    """Ways to files, clocks and networks in a source text."""
    tree = ast.parse(text)
    calls = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return {name.split(".")[0] for name in imported_by(tree)} & WORLD | calls & {"open", "input"}


def randomness_of(text: str) -> set[str]:
    """Sources of randomness in a source text: modules that are imported, and attributes by which
    they are reached."""
    tree = ast.parse(text)
    imported = imported_by(tree)
    found = {
        name
        for name in imported
        if any(name == m or name.startswith(f"{m}.") for m in RANDOM_MODULES)
    }
    found |= {
        name
        for name in imported
        if name.split(".")[0] in ("os", "numpy") and name.split(".")[-1] in RANDOM_NAMES
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            if node.attr in RANDOM_NAMES or whole.split(".")[0] in ("secrets", "uuid"):
                found.add(whole)
    return found


def side(*packages: str) -> dict[str, str]:
    """The source of every module of these packages, outside the tap."""
    homes = tuple(f"dpublish.{package}" for package in packages)
    chosen = {
        name: path for name, path in MODULES.items() if name.startswith(homes) and name not in TAP
    }
    return {name: path.read_text(encoding="utf-8") for name, path in chosen.items()}


def test_noise_and_mechanisms_never_read_files_or_clocks() -> None:
    """The mechanism side is pure: no module there has a way to touch the world, except that the tap
    asks for randomness."""
    found = {name: world_of(text) for name, text in side("noise", "methods").items()}
    assert {name: ways for name, ways in found.items() if ways} == {}
    assert world_of(MODULES[TAP[0]].read_text(encoding="utf-8")) == {"os"}


def test_all_privacy_noise_comes_from_one_tap() -> None:
    found = {name: randomness_of(text) for name, text in side("noise", "methods", "local").items()}
    found |= {
        name: randomness_of(text) - NAMING
        for name, text in side("counting", "curator", "declare.encode").items()
    }
    assert {name: sources for name, sources in found.items() if sources} == PUBLIC_DRAWS
    assert len(found) > 100
    for name in TAP:
        assert "os.urandom" in randomness_of(MODULES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "planted",
    [
        "import random",
        "from random import gauss",
        "import numpy as np\ndef f(x):\n    return x + np.random.laplace()",
        "def f():\n    from numpy.random import default_rng",
        "from numpy import random",
        "import numpy.random as draws",
        "from os import urandom",
        "import os\nkey = os.urandom(8)",
        "import secrets\nbit = secrets.randbits(1)",
        "from secrets import randbelow",
        "import uuid",
        "def f(frame):\n    return frame.sample(10)",
        "from scipy.stats import laplace",
        "from cryptography.hazmat.primitives.ciphers import Cipher",
    ],
)
def test_a_second_tap_would_be_noticed(planted: str) -> None:
    assert randomness_of(planted) - NAMING


def test_a_way_into_the_world_would_be_noticed() -> None:
    for planted in (
        "import time",
        "def f():\n    from datetime import date",
        "import os.path",
        "text = open('x').read()",
    ):
        assert world_of(planted)
    assert (
        not world_of("import math")
        | randomness_of("import secrets\nkey = secrets.token_hex(16)") - NAMING
    )


def test_an_analyst_needs_no_private_code() -> None:
    """With the private packages made unimportable, a release still opens: only the public names are
    loaded."""
    blocker = (
        "import sys\n"
        f"blocked = {PRIVATE!r}\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.startswith(blocked): raise ImportError('wall: ' + name)\n"
        "sys.meta_path.insert(0, Wall())\n"
        "import dpublish as dp\n"
        "dp.open_release, dp.verify_bundle, dp.Estimate, dp.Schema, dp.Cost\n"
        "import dpublish.releases.histogram.release, dpublish.query.sql, dpublish.analyse.learn, "
        "dpublish.present.report\n"
        "import dpublish.requests.analyst\n"
        "try:\n    dp.Curator\nexcept ImportError as error:\n    assert 'wall' in str(error)\n"
        "else:\n    raise SystemExit('no wall')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", blocker], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def eager_imports(text: str) -> set[str]:
    """What a module imports when it is loaded: none inside functions, none for types alone."""
    found: set[str] = set()
    waiting = list(ast.parse(text).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If):
            typing = "TYPE_CHECKING" in ast.dump(node.test)
            waiting += node.orelse if typing else [*node.body, *node.orelse]
        elif isinstance(node, ast.Try):
            waiting += node.body
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= imports_of(ast.unparse(node))
    return found


def cycle_in(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a ring, the first found; none if there is no ring."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for other in sorted(graph.get(name, ())):
            if ring := visit(other, [*path, name]):
                return ring
        done.add(name)
        return []

    return next((ring for name in sorted(graph) if (ring := visit(name, []))), [])


SERVED = ("dpublish.requests", "dpublish.errors", "dpublish.owned", "dpublish.server")
"""All that the service is made of: what people see of dpublish goes through requests."""


def test_the_service_is_a_skin_over_requests_and_nothing_else_imports_it() -> None:
    for name, path in MODULES.items():
        found = imports_of(path.read_text(encoding="utf-8"))
        if name.startswith("dpublish.server"):
            strange = {one for one in found if not one.startswith(SERVED) and one != "dpublish"}
            assert strange <= {"dpublish.__version__"}, f"{name} imports {sorted(strange)}"
        elif name != "dpublish.cli.serve":
            assert not any(one.startswith("dpublish.server") for one in found), name


def test_no_modules_import_each_other_in_a_ring() -> None:
    graph = {
        name: {
            other
            for other in eager_imports(path.read_text(encoding="utf-8"))
            if other in MODULES and other not in (name, "dpublish")
        }
        for name, path in MODULES.items()
    }
    assert cycle_in(graph) == []
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
