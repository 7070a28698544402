"""Names that covered code leans on, found by reading the source: what a proof file may have
forgotten to cover.

A proof covers a function by its hash. When the function calls a helper, an edit of the helper
changes what the function does and leaves the hash alone, so helpers have to be covered too. This
walks the syntax trees: from each covered function, class or constant to the names it uses, in its
own module and through imports from the packages that privacy rests on. Annotations are left out,
since they do nothing when the program runs. What an object's method does is not followed through a
variable: it is covered with its class, which is reached where it is made or named.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from proofs import defined_names

PACKAGES = (
    "dpublish.noise",
    "dpublish.methods",
    "dpublish.counting",
    "dpublish.curator",
    "dpublish.local",
    "dpublish.privacy.cost",
    "dpublish.declare.calendar",
    "dpublish.declare.encode",
    "dpublish.declare.grid",
    "dpublish.workloads.query_classes",
    "dpublish.sources.units",
    # what a mechanism's proof needs to be a function of published numbers, or right to a bound
    "dpublish.models.junction_tree",
    "dpublish.models.hierarchical_counts",
    "dpublish.models.lookup_kernels",
    "dpublish.models.one_thread",
    "dpublish.compiled",
    # what the order and the sums of payments rest on
    "dpublish.ledger",
    "dpublish.quiet",
)


@dataclass
class Module:
    """What one file defines at its top, and what it imports, wherever the import stands."""

    defined: dict[str, ast.AST] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)
    whole: dict[str, str] = field(default_factory=dict)
    changers: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """For a global variable, the functions that set it: what reads the variable leans on them."""


@cache
def read_modules(source: Path) -> dict[str, Module]:
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = _module(ast.parse(path.read_text(encoding="utf-8")))
    return modules


def _module(tree: ast.Module) -> Module:
    module = Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                module.imported[alias.asname or alias.name] = (node.module, alias.name)
        elif isinstance(node, ast.Import):
            module.whole.update(
                {alias.asname or alias.name: alias.name for alias in node.names if alias.asname}
            )
    for statement in tree.body:
        for name in defined_names(statement):
            module.defined.setdefault(name, statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Global):
                for name in node.names:
                    module.changers[name] |= set(defined_names(statement))
    return module


class _Uses(ast.NodeVisitor):
    """Plain names and `module.name` pairs of a piece of code, annotations left out."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name):
            self.pairs.add((node.value.id, node.attr))
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        for part in (node.target, node.value):
            if part is not None:
                self.visit(part)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.decorator_list, node.args, *node.body):
            self.visit(part)

    def visit_Call(self, node: ast.Call) -> None:
        # the first argument of cast() is an annotation in other clothes
        cast = isinstance(node.func, ast.Name) and node.func.id == "cast"
        for part in (
            node.func,
            *(node.args[1:] if cast else node.args),
            *(word.value for word in node.keywords),
        ):
            self.visit(part)


def uses(modules: dict[str, Module], dotted: str) -> set[str]:
    """The full names that the code of `dotted` uses and that are defined in its module or in one of
    the packages."""
    home, name = locate(modules, dotted)
    visitor = _Uses()
    visitor.visit(modules[home].defined[name])
    names = visitor.names | modules[home].changers.get(name, set())
    found = {_resolve(modules, home, used) for used in names}
    for module, attribute in visitor.pairs:
        target = _module_named(modules, home, module)
        if target is not None:
            found.add(_resolve(modules, target, attribute))
    kept = {used for used in found if used is not None and used != f"{home}.{name}"}
    return {used for used in kept if locate(modules, used)[0] == home or _inside(used)}


def locate(modules: dict[str, Module], dotted: str) -> tuple[str, str]:
    """Module and top-level name of a dotted name; a method stands for its class."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        home = ".".join(parts[:cut])
        if home in modules and parts[cut] in modules[home].defined:
            return home, parts[cut]
    raise LookupError(f"'{dotted}' is defined nowhere")


def _inside(dotted: str) -> bool:
    return any(dotted.startswith(package + ".") for package in PACKAGES)


def _resolve(modules: dict[str, Module], home: str, name: str) -> str | None:
    module = modules.get(home)
    if module is None:
        return None
    if name in module.defined:
        return f"{home}.{name}"
    if name in module.imported:
        origin, original = module.imported[name]
        return _resolve(modules, origin, original) if origin != home else None
    return None


def _module_named(modules: dict[str, Module], home: str, name: str) -> str | None:
    if name in modules[home].whole:
        return modules[home].whole[name]
    if name in modules[home].imported:
        dotted = ".".join(modules[home].imported[name])
        return dotted if dotted in modules else None
    return None


def uncovered(
    modules: dict[str, Module], covered: Iterable[str], exempt: Iterable[str] = ()
) -> dict[str, set[str]]:
    """Names that covered code uses and no proof covers, each with the covered names that use it.

    A name that some proof covers in part (one method of a class) counts as reached and covered only
    by the whole.
    """
    held, spared = set(covered), set(exempt)
    missing: dict[str, set[str]] = defaultdict(set)
    for dotted in sorted(held):
        for used in uses(modules, dotted):
            if used not in held and used not in spared:
                missing[used].add(dotted)
    return dict(missing)


def subclasses(modules: dict[str, Module], root: str) -> set[str]:
    """Every class that inherits from `root`, directly or through others."""
    parents: dict[str, set[str]] = {}
    for home, module in modules.items():
        for name, node in module.defined.items():
            if isinstance(node, ast.ClassDef):
                bases = {
                    _resolve(modules, home, base.id)
                    for base in node.bases
                    if isinstance(base, ast.Name)
                }
                parents[f"{home}.{name}"] = {base for base in bases if base is not None}
    found: set[str] = set()
    while new := {name for name, bases in parents.items() if bases & (found | {root})} - found:
        found |= new
    return found
