"""dpublish: publish private data once, with a proved privacy guarantee, and let anyone analyse the result for ever.

    import dpublish as dp

Curators use `Schema`, `Budget`, `Curator` and the release methods; analysts need only `open_release`; auditors `audit`.
Names are loaded when they are first used, so that importing dpublish, and the command line's help, stay fast, and so that an
analyst's installation never loads private code.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from dpublish import audit as audit
    from dpublish import local as local
    from dpublish import optimize as optimize
    from dpublish import theory as theory
    from dpublish.cost import Budget as Budget
    from dpublish.cost import Cost as Cost
    from dpublish.domain import Domain as Domain
    from dpublish.errors import BudgetError as BudgetError
    from dpublish.errors import BudgetExceeded as BudgetExceeded
    from dpublish.errors import BundleError as BundleError
    from dpublish.errors import InputError as InputError
    from dpublish.errors import LedgerUnavailable as LedgerUnavailable
    from dpublish.errors import PlanError as PlanError
    from dpublish.errors import PrivateSideError as PrivateSideError
    from dpublish.errors import PublishError as PublishError
    from dpublish.errors import QueryError as QueryError
    from dpublish.errors import SchemaError as SchemaError
    from dpublish.ledger import open_ledger as open_ledger
    from dpublish.mechanisms.base import Mechanism as Mechanism
    from dpublish.mechanisms.learning.private_classifier import PrivateClassifier as PrivateClassifier
    from dpublish.mechanisms.online.median import MedianMechanism as MedianMechanism
    from dpublish.mechanisms.online.multiplicative_weights import OnlineMultiplicativeWeights as OnlineMultiplicativeWeights
    from dpublish.mechanisms.queries.halfspaces import Halfspaces as Halfspaces
    from dpublish.mechanisms.queries.interval_tree import IntervalTree as IntervalTree
    from dpublish.mechanisms.queries.multiplicative_weights import MultiplicativeWeights as MultiplicativeWeights
    from dpublish.mechanisms.queries.net import Net as Net
    from dpublish.mechanisms.sets.basic_itemsets import BasicItemsets as BasicItemsets
    from dpublish.mechanisms.sets.set_partition import SetPartition as SetPartition
    from dpublish.mechanisms.tables.generalized_table import GeneralizedTable as GeneralizedTable
    from dpublish.mechanisms.tables.histogram import Histogram as Histogram
    from dpublish.mechanisms.tables.importance_weights import ImportanceWeights as ImportanceWeights
    from dpublish.mechanisms.tables.joined_histograms import JoinedHistograms as JoinedHistograms
    from dpublish.mechanisms.tables.projected_histogram import ProjectedHistogram as ProjectedHistogram
    from dpublish.plan import Plan as Plan
    from dpublish.private.draft import draft_schema as draft_schema
    from dpublish.private.gate import Curator as Curator
    from dpublish.private.online import OnlineSession as OnlineSession
    from dpublish.public.estimation import Estimate as Estimate
    from dpublish.public.releases.base import Release as Release
    from dpublish.public.releases.base import open_release as open_release
    from dpublish.public.verify import verify_bundle as verify_bundle
    from dpublish.query_classes import HalfspaceQueries as HalfspaceQueries
    from dpublish.query_classes import Intervals as Intervals
    from dpublish.query_classes import LinearQueries as LinearQueries
    from dpublish.query_classes import Marginals as Marginals
    from dpublish.query_classes import Parities as Parities
    from dpublish.query_classes import Predicates as Predicates
    from dpublish.query_classes import RandomSubsets as RandomSubsets
    from dpublish.readers.sources import SqlSource as SqlSource
    from dpublish.schema import Schema as Schema

_CURATOR = {
    "Halfspaces": "dpublish.mechanisms.queries.halfspaces",
    "Predicates": "dpublish.query_classes",
    "Parities": "dpublish.query_classes",
    "Marginals": "dpublish.query_classes",
    "LinearQueries": "dpublish.query_classes",
    "RandomSubsets": "dpublish.query_classes",
    "Intervals": "dpublish.query_classes",
    "HalfspaceQueries": "dpublish.query_classes",
    "Net": "dpublish.mechanisms.queries.net",
    "MultiplicativeWeights": "dpublish.mechanisms.queries.multiplicative_weights",
    "GeneralizedTable": "dpublish.mechanisms.tables.generalized_table",
    "IntervalTree": "dpublish.mechanisms.queries.interval_tree",
    "theory": "",
    "BasicItemsets": "dpublish.mechanisms.sets.basic_itemsets",
    "SetPartition": "dpublish.mechanisms.sets.set_partition",
    "Budget": "dpublish.cost",
    "Cost": "dpublish.cost",
    "Curator": "dpublish.private.gate",
    "Domain": "dpublish.domain",
    "Histogram": "dpublish.mechanisms.tables.histogram",
    "ImportanceWeights": "dpublish.mechanisms.tables.importance_weights",
    "JoinedHistograms": "dpublish.mechanisms.tables.joined_histograms",
    "Mechanism": "dpublish.mechanisms.base",
    "MedianMechanism": "dpublish.mechanisms.online.median",
    "OnlineMultiplicativeWeights": "dpublish.mechanisms.online.multiplicative_weights",
    "OnlineSession": "dpublish.private.online",
    "Plan": "dpublish.plan",
    "PrivateClassifier": "dpublish.mechanisms.learning.private_classifier",
    "ProjectedHistogram": "dpublish.mechanisms.tables.projected_histogram",
    "Schema": "dpublish.schema",
    "SqlSource": "dpublish.readers.sources",
    "draft_schema": "dpublish.private.draft",
    "open_ledger": "dpublish.ledger",
    "local": "",
    "optimize": "",
}
_ANALYST = {
    "Estimate": "dpublish.public.estimation",
    "Release": "dpublish.public.releases.base",
    "open_release": "dpublish.public.releases.base",
    "verify_bundle": "dpublish.public.verify",
}
_AUDITOR = {"audit": ""}
_ERRORS = dict.fromkeys(
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
)
_HOMES = {**_CURATOR, **_ANALYST, **_AUDITOR, **_ERRORS}

__all__ = ["__version__", *_CURATOR, *_ANALYST, *_AUDITOR, *_ERRORS]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'dpublish' has no attribute '{name}'")
    value = getattr(import_module(home), name) if home else import_module(f"dpublish.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
