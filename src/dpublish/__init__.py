"""dpublish: publish private data once, with a proved privacy guarantee, and let anyone analyse the
result for ever.

    import dpublish as dp

Curators use `Schema`, `Budget`, `Curator` and the release methods; analysts need only
`open_release`; auditors `audit`. Names are loaded when they are first used, so that importing
dpublish, and the command line's help, stay fast, and so that an analyst's installation never loads
private code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpublish.catalogue import methods

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dpublish import audit as audit, local as local, optimize as optimize
    from dpublish.client import connect as connect
    from dpublish.curator.draft import draft_schema as draft_schema
    from dpublish.curator.gate import Curator as Curator
    from dpublish.curator.sessions.session import OnlineSession as OnlineSession
    from dpublish.declare.domain import Domain as Domain
    from dpublish.declare.schema import Schema as Schema
    from dpublish.errors import (
        BudgetError as BudgetError,
        BudgetExceeded as BudgetExceeded,
        BundleError as BundleError,
        InputError as InputError,
        LedgerUnavailable as LedgerUnavailable,
        PlanError as PlanError,
        PrivateSideError as PrivateSideError,
        PublishError as PublishError,
        QueryError as QueryError,
        SchemaError as SchemaError,
    )
    from dpublish.estimate import Estimate as Estimate
    from dpublish.ledger import open_ledger as open_ledger
    from dpublish.methods.base import Mechanism as Mechanism
    from dpublish.methods.basic_itemsets.mechanism import BasicItemsets as BasicItemsets
    from dpublish.methods.frequent_itemsets.mechanism import FrequentItemsets as FrequentItemsets
    from dpublish.methods.generalized_table.mechanism import GeneralizedTable as GeneralizedTable
    from dpublish.methods.halfspaces.mechanism import Halfspaces as Halfspaces
    from dpublish.methods.histogram.mechanism import Histogram as Histogram
    from dpublish.methods.importance_weights.mechanism import ImportanceWeights as ImportanceWeights
    from dpublish.methods.interval_tree.mechanism import IntervalTree as IntervalTree
    from dpublish.methods.joined_histograms.mechanism import JoinedHistograms as JoinedHistograms
    from dpublish.methods.multiplicative_weights.mechanism import (
        MultiplicativeWeights as MultiplicativeWeights,
    )
    from dpublish.methods.net.mechanism import Net as Net
    from dpublish.methods.online.median.mechanism import MedianMechanism as MedianMechanism
    from dpublish.methods.online.multiplicative_weights.mechanism import (
        OnlineMultiplicativeWeights as OnlineMultiplicativeWeights,
    )
    from dpublish.methods.private_classifier.mechanism import PrivateClassifier as PrivateClassifier
    from dpublish.methods.projected_histogram.choose_k import discernibility as discernibility
    from dpublish.methods.projected_histogram.mechanism import (
        ProjectedHistogram as ProjectedHistogram,
    )
    from dpublish.methods.set_partition.mechanism import SetPartition as SetPartition
    from dpublish.methods.workload.mechanism import Workload as Workload
    from dpublish.privacy.cost import Budget as Budget, Cost as Cost
    from dpublish.privacy.plan import Plan as Plan
    from dpublish.releases.base import Release as Release, open_release as open_release
    from dpublish.releases.bundle.bundle import verify_bundle as verify_bundle
    from dpublish.releases.bundle.signing_key import SigningKey as SigningKey
    from dpublish.sources.sources import SqlSource as SqlSource
    from dpublish.workloads import theory as theory
    from dpublish.workloads.query_classes import (
        HalfspaceQueries as HalfspaceQueries,
        Intervals as Intervals,
        LinearQueries as LinearQueries,
        Marginals as Marginals,
        MixedQueries as MixedQueries,
        Parities as Parities,
        Predicates as Predicates,
        RandomSubsets as RandomSubsets,
    )

_HOMES = {
    # for curators
    **{
        method.class_name: method.mechanism.partition(":")[0]
        for method in methods("release", "online").values()
    },
    **dict.fromkeys(
        (
            "HalfspaceQueries",
            "Intervals",
            "LinearQueries",
            "Marginals",
            "MixedQueries",
            "Parities",
            "Predicates",
            "RandomSubsets",
        ),
        "dpublish.workloads.query_classes",
    ),
    "Budget": "dpublish.privacy.cost",
    "Cost": "dpublish.privacy.cost",
    "Curator": "dpublish.curator.gate",
    "Domain": "dpublish.declare.domain",
    "Mechanism": "dpublish.methods.base",
    "OnlineSession": "dpublish.curator.sessions.session",
    "Plan": "dpublish.privacy.plan",
    "Schema": "dpublish.declare.schema",
    "SigningKey": "dpublish.releases.bundle.signing_key",
    "SqlSource": "dpublish.sources.sources",
    "discernibility": "dpublish.methods.projected_histogram.choose_k",
    "draft_schema": "dpublish.curator.draft",
    "local": "dpublish.local",
    "open_ledger": "dpublish.ledger",
    "optimize": "dpublish.optimize",
    "theory": "dpublish.workloads.theory",
    # for analysts
    "Estimate": "dpublish.estimate",
    "Release": "dpublish.releases.base",
    "connect": "dpublish.client",
    "open_release": "dpublish.releases.base",
    "verify_bundle": "dpublish.releases.bundle.bundle",
    # for auditors
    "audit": "dpublish.audit",
    # for all of them
    **dict.fromkeys(
        (
            "BudgetError",
            "BudgetExceeded",
            "BundleError",
            "InputError",
            "LedgerUnavailable",
            "PlanError",
            "PrivateSideError",
            "PublishError",
            "QueryError",
            "SchemaError",
        ),
        "dpublish.errors",
    ),
}
"""The public names by reader, and the modules that they are loaded from."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dpublish' has no attribute '{name}'")
    module = import_module(home)
    value = module if home.rpartition(".")[2] == name else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
