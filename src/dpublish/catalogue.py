"""The catalogue: everything that dpublish can run on private data, one record per method.

    name        what people type, and what manifests say
    door        how it is reached: `release`, `online`, `solve`, or `local` for the model without a
                curator
    mechanism   the class that plans and runs it
    kind        the kind of release that it makes, if it makes one
    trial       the built-in audit

Records hold dotted names and nothing else, and this module imports nothing of dpublish, so both
sides of the wall may read it. Adding a method is a folder under `methods/` and a line here: the
public names, `dpublish methods`, `--set`, the audits and the reference page follow from the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple

Door = Literal["release", "online", "solve", "local"]


class Method(NamedTuple):
    """One line of the catalogue."""

    name: str
    door: Door
    mechanism: str
    kind: str | None
    trial: str

    @property
    def class_name(self) -> str:
        return self.mechanism.partition(":")[2]


def _release(name: str, class_name: str, kind: str, trials: str) -> Method:
    short = name.replace("-", "_")
    return Method(
        name,
        "release",
        f"dpublish.methods.{short}.mechanism:{class_name}",
        kind,
        f"dpublish.audit.trials.{trials}:{short}",
    )


def _online(name: str, class_name: str, folder: str) -> Method:
    return Method(
        name,
        "online",
        f"dpublish.methods.online.{folder}.mechanism:{class_name}",
        None,
        f"dpublish.audit.trials.online:{name.replace('-', '_')}",
    )


def _solve(name: str, class_name: str) -> Method:
    short = name.replace("-", "_")
    return Method(
        name,
        "solve",
        f"dpublish.methods.solvers.{short}.mechanism:{class_name}",
        "solution",
        f"dpublish.audit.trials.optimize:{short}",
    )


def _local(name: str, home: str) -> Method:
    return Method(
        name,
        "local",
        f"dpublish.local.{home}",
        None,
        f"dpublish.audit.trials.local:{name.replace('-', '_')}",
    )


CATALOGUE: tuple[Method, ...] = (
    _release("histogram", "Histogram", "histogram", "tables"),
    _release("projected-histogram", "ProjectedHistogram", "histogram", "tables"),
    _release("joined-histograms", "JoinedHistograms", "joined-histograms", "tables"),
    _release("generalized-table", "GeneralizedTable", "generalized-table", "tables"),
    _release("importance-weights", "ImportanceWeights", "weighted-rows", "tables"),
    _release("private-classifier", "PrivateClassifier", "linear-model", "tables"),
    _release("frequent-itemsets", "FrequentItemsets", "itemsets", "queries"),
    _release("set-partition", "SetPartition", "itemsets", "queries"),
    _release("basic-itemsets", "BasicItemsets", "itemsets", "queries"),
    _release("discovery", "Discovery", "discovery", "tables"),
    _release("interval-tree", "IntervalTree", "interval-tree", "queries"),
    _release("halfspaces", "Halfspaces", "halfspaces", "queries"),
    _release("workload", "Workload", "workload", "queries"),
    _release("net", "Net", "synthetic", "queries"),
    _release("multiplicative-weights", "MultiplicativeWeights", "synthetic", "queries"),
    _online("median-mechanism", "MedianMechanism", "median"),
    _online(
        "online-multiplicative-weights", "OnlineMultiplicativeWeights", "multiplicative_weights"
    ),
    _solve("min-cut", "MinCut"),
    _solve("k-median", "KMedian"),
    _solve("vertex-cover", "VertexCover"),
    _solve("set-cover", "SetCover"),
    _solve("public-projects", "PublicProjects"),
    _local("binary", "unary:BinaryResponse"),
    _local("kary", "unary:KaryResponse"),
    _local("unary", "unary:UnaryEncoding"),
    _local("hashing", "hashing:LocalHashing"),
    _local("hadamard", "hashing:HadamardResponse"),
    _local("mean", "mean:MeanResponse"),
    _local("conjunctions", "conjunctions:Conjunctions"),
    _local("heavy-hitters", "hitters:HeavyHitters"),
)

RELEASES: Mapping[str, str] = {
    kind: f"dpublish.releases.{kind.replace('-', '_')}.release"
    for kind in sorted({method.kind for method in CATALOGUE if method.kind is not None})
}
"""Which module defines the class of each kind of release."""

ALIASES: Mapping[str, str] = {"mwem": "multiplicative-weights"}
"""Names by which the literature knows a method."""


def methods(*doors: Door) -> dict[str, Method]:
    """The methods behind some doors, by name, in alphabetical order; of all doors if none is
    named."""
    return {
        method.name: method for method in sorted(CATALOGUE) if not doors or method.door in doors
    }


def load(dotted: str) -> Any:
    """What a dotted name `module:attribute` stands for."""
    module, _, attribute = dotted.partition(":")
    return getattr(import_module(module), attribute)
