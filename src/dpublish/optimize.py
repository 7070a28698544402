"""Private combinatorial optimisation: a public structure and private rows in, a publishable
solution out.

    import dpublish as dp
    metric = dp.optimize.Metric.haversine(latitudes, longitudes)
    release = dp.optimize.k_median("patients.csv", k=3, metric=metric, epsilon=1,
                                   ledger="sqlite:///clinic.ledger", budget=dp.Budget(epsilon=3))

Every function goes through the same gate and ledger as `Curator.publish`: the request is checked,
the ledger debited, and only then are rows read. `ledger`, `budget`, `key`, `out`, `overwrite`,
`store`, `signing_key` and `seed` mean what they mean there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast

import numpy as np

from dpublish.counting.graphs import (
    open_structure,
    read_lists,
    read_names,
    read_pmed,
    read_scp,
    read_sets,
)
from dpublish.curator.gate import Curator, Number, Progress, as_cost
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.ledger.base import Ledger
from dpublish.methods.base import Mechanism
from dpublish.methods.solvers.inputs import Labels, Lists, lists_of, names_of
from dpublish.methods.solvers.k_median.mechanism import KMedian
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.methods.solvers.min_cut.mechanism import MinCut
from dpublish.methods.solvers.public_projects.mechanism import PublicProjects, Valuation, Worth
from dpublish.methods.solvers.set_cover.mechanism import SetCover
from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover
from dpublish.privacy.cost import Budget
from dpublish.privacy.plan import Plan
from dpublish.releases.bundle.signing_key import SigningKey
from dpublish.releases.solution.release import SolutionRelease

__all__ = [
    "KMedian",
    "Metric",
    "MinCut",
    "PublicProjects",
    "SetCover",
    "SolutionRelease",
    "VertexCover",
    "k_median",
    "min_cut",
    "public_projects",
    "read_lists",
    "read_names",
    "read_pmed",
    "read_scp",
    "read_sets",
    "set_cover",
    "vertex_cover",
]


NO_FACILITY_LOCATION = (
    "There is no facility location: a private list of opened sites costs about sqrt(n) times the "
    "best (corollary 48 of the "
    "thesis). Fix the number of sites and use k-median, or public projects with worth = "
    "'facility'; where a site serves some "
    "places only, the order of set cover tells everyone where to go."
)


if not TYPE_CHECKING:  # a type checker would take every name for granted

    def __getattr__(name: str) -> Any:
        if name == "facility_location":
            raise AttributeError(NO_FACILITY_LOCATION)
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


class Payment(TypedDict, total=False):
    """What every solver takes besides its problem: who pays, how much, and where the release
    goes."""

    epsilon: Number
    delta: Number | None
    ledger: str | Path | Ledger
    budget: Budget | None
    second_budget: bool
    name: str
    population: str | None
    key: str | None
    out: str | Path | None
    overwrite: bool
    again: bool
    store: str | Path | None
    signing_key: SigningKey | str | Path | None
    seed: int | None
    progress: Progress | None


def min_cut(
    edges: object,
    *,
    vertices: int | Iterable[object] | None = None,
    rule: Literal["all", "vertex", "either", "exact", "near-minimum"] | None = None,
    cuts: Literal["listed", "karger-stein"] = "listed",
    size_share: Number = 0,
    cost_share: Number = "1/10",
    **payment: Unpack[Payment],
) -> SolutionRelease:
    """Split public vertices in two so that few private edges run across (thesis, section 7.3).

    `edges` may be a networkx graph. Its nodes are not taken as public by themselves: say
    `vertices=graph.nodes` if they are.
    """
    mechanism = MinCut(
        vertices=_vertices(vertices),
        rule=rule,
        cuts=cuts,
        size_share=size_share,
        cost_share=cost_share,
    )
    return publish(
        mechanism, open_structure(edges, "edges", row_names(mechanism)), "min-cut", **payment
    )


def k_median(
    demand: object,
    *,
    k: int,
    metric: Metric,
    labels: Sequence[object] | None = None,
    positions: Any = None,
    rule: Literal["demand", "search", "exact"] = "demand",
    steps: int | None = None,
    cost_share: Number = "1/10",
    nominal_size: int | None = None,
    **payment: Unpack[Payment],
) -> SolutionRelease:
    """Open k of the public sites so that private demand points are close to one (section 7.4)."""
    return publish(
        KMedian(
            k=k,
            metric=metric,
            labels=labels,
            positions=positions,
            rule=rule,
            steps=steps,
            cost_share=cost_share,
            nominal_size=nominal_size,
        ),
        open_structure(demand, "items"),
        "k-median",
        **payment,
    )


def vertex_cover(
    edges: object,
    *,
    vertices: int | Iterable[object] | None = None,
    weights: Sequence[Number] | None = None,
    rule: Literal["degree", "schedule", "two-phase"] = "degree",
    phase: Number = "1/2",
    size_share: Number = 0,
    cost_share: Number = "1/10",
    nominal_size: int | None = None,
    **payment: Unpack[Payment],
) -> SolutionRelease:
    """Order public vertices so that the earlier ends of private edges are few (sections 7.5 and
    7.6).

    `edges` may be a networkx graph, as for `min_cut`.
    """
    mechanism = VertexCover(
        vertices=_vertices(vertices),
        weights=weights,
        rule=rule,
        phase=phase,
        size_share=size_share,
        cost_share=cost_share,
        nominal_size=nominal_size,
    )
    return publish(
        mechanism, open_structure(edges, "edges", row_names(mechanism)), "vertex-cover", **payment
    )


def set_cover(
    elements: object,
    *,
    sets: Lists | Sequence[Sequence[object]] | Mapping[str, Sequence[object]],
    universe: int | Sequence[object] | None = None,
    costs: Sequence[Number] | None = None,
    rule: Literal["presence", "greedy", "weighted", "any-weights", "exact", "classes"] = "presence",
    cost_share: Number = "1/10",
    size_share: Number = 0,
    **payment: Unpack[Payment],
) -> SolutionRelease:
    """Order public sets so that the first sets to hold the private elements are few or cheap
    (section 7.7).

    `sets` are rows of elements, by name when `universe` lists names (or is left out: then it is all
    elements of the sets), by number when it is a number; a mapping also names the sets.
    """
    lists, names, listed = _family(sets, universe)
    return publish(
        SetCover(
            sets=lists,
            elements=listed,
            costs=costs,
            set_names=names,
            rule=rule,
            cost_share=cost_share,
            size_share=size_share,
        ),
        open_structure(elements, "items"),
        "set-cover",
        **payment,
    )


def public_projects(
    agents: object,
    *,
    k: int,
    resources: int | Sequence[object],
    worth: Worth | Valuation = "coverage",
    metric: Metric | None = None,
    columns: Sequence[str] = (),
    examples: Sequence[Mapping[str, Any]] = (),
    rule: Literal["greedy", "exact"] = "greedy",
    cost_share: Number = "1/10",
    **payment: Unpack[Payment],
) -> SolutionRelease:
    """Choose k public resources that are worth much to agents whose valuations are private (section
    7.8)."""
    mechanism = PublicProjects(
        k=k,
        resources=resources,
        worth=worth,
        metric=metric,
        columns=tuple(columns),
        examples=tuple(examples),
        rule=rule,
        cost_share=cost_share,
    )
    source: object = agents
    if worth == "coverage":
        source = open_structure(agents, "lists", row_names(mechanism))
    elif worth == "facility":
        source = open_structure(agents, "items")
    return publish(mechanism, source, "public-projects", **payment)


def row_names(mechanism: Mechanism) -> Labels:
    """The public names that rows of a problem are looked up in, where they have any."""
    for field in ("vertices", "labels", "elements", "resources"):
        named = getattr(mechanism, field, None)
        if isinstance(named, Iterable):
            return tuple(names_of(named))
    return None


def plan(
    mechanism: Mechanism, *, epsilon: Number, delta: Number | None = None, name: str = "solution"
) -> Plan:
    """What a solver would cost and guarantee. Reads nothing and spends nothing."""
    return mechanism.plan(_schema(name), as_cost(epsilon, delta, None))


def publish(
    mechanism: Mechanism, source: object, default_name: str, **payment: Unpack[Payment]
) -> SolutionRelease:
    """Plan, debit, read, solve and seal, as `Curator.publish` does."""
    given = dict(payment)
    if "ledger" not in given:
        raise PlanError(
            "Give ledger = ..., the URL or path of the ledger that pays for the release."
        )
    release = Curator(
        source,
        _schema(
            str(given.pop("name", None) or default_name), cast(Any, given.pop("population", None))
        ),
        ledger=cast(Any, given.pop("ledger")),
        budget=cast(Any, given.pop("budget", None)),
        second_budget=bool(given.pop("second_budget", False)),
        store=cast(Any, given.pop("store", None)),
        signing_key=cast(Any, given.pop("signing_key", None)),
    ).publish(mechanism, **cast(Any, given))
    assert isinstance(release, SolutionRelease)
    return release


def _schema(name: str, population: str | None = None) -> Schema:
    """Public facts of a problem are the solver's own parameters; the schema only names the data and
    the relation."""
    return Schema(name=name, neighbours="add-remove-one", population=population)


def _vertices(vertices: int | Iterable[object] | None) -> int | Sequence[object]:
    if vertices is None:
        # a graph that was built from its edges has exactly the vertices that touch one
        raise PlanError(
            "Give vertices = ..., their number or their public names: they cannot be taken from "
            "private edges. For a networkx "
            "graph, vertices = graph.nodes says that its nodes are public, also those without an "
            "edge."
        )
    if isinstance(vertices, int | np.integer):
        return int(vertices)
    if not isinstance(vertices, Iterable):
        raise PlanError(f"vertices must be a whole number or a list of names, not {vertices!r}.")
    return names_of(vertices)


def _number(element: object) -> int:
    """An element of a universe that is a number."""
    (text,) = names_of([element])
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text, re.ASCII):
        raise PlanError(
            f"A set holds '{text[:80]}'. Where universe is a number, elements are whole numbers "
            f"from 0 on."
        )
    return int(text)


def _family(
    sets: Lists | Sequence[Sequence[object]] | Mapping[str, Sequence[object]],
    universe: int | Sequence[object] | None,
) -> tuple[Lists, list[str] | None, int | Sequence[object]]:
    names = [str(name) for name in sets] if isinstance(sets, Mapping) else None
    if isinstance(sets, Lists):
        if universe is None:
            raise PlanError("Give universe = ..., the number of elements or their public names.")
        return sets, names, universe
    rows = list(sets.values()) if isinstance(sets, Mapping) else list(sets)
    if any(isinstance(row, str) or not isinstance(row, Iterable) for row in rows):
        raise PlanError("A set is a list of elements, such as sets = [['a', 'b'], ['c']].")
    if isinstance(universe, int | np.integer):
        return (
            lists_of([[_number(element) for element in row] for row in rows]),
            names,
            int(universe),
        )
    named = [names_of(row) for row in rows]
    listed = (
        names_of(universe)
        if universe is not None
        else sorted({element for row in named for element in row})
    )
    number = {element: index for index, element in enumerate(listed)}
    unknown = next((element for row in named for element in row if element not in number), None)
    if unknown is not None:
        raise PlanError(f"A set holds '{unknown}', which is not in the universe.")
    return lists_of([[number[element] for element in row] for row in named]), names, listed
