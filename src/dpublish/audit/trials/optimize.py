"""Made-up graphs, demand, elements and agents for the solvers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dpublish.audit.trials.synthetic_inputs import FileCall, csv, paid_commands, set_words
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial, Twin
from dpublish.declare.schema import Schema
from dpublish.methods.base import Mechanism
from dpublish.privacy.cost import Cost

if TYPE_CHECKING:
    from dpublish.counting.graphs import Shape

RELATION: Literal["add-remove-one"] = "add-remove-one"
FILE = "rows.csv"
DELTA = (
    "a claim with a delta holds for e and not for the rational base that is enumerated; the "
    "tests have its own law"
)
NOISY = Exact(window=(0, 1), pairs=2)
"""Noisy counts are enumerated in a small window, what lies beyond joins its ends."""
PRICES = "unequal weights are counted in a millionth of the largest: numbers too large to enumerate"
THREE = "3 2 1\n1 2 1\n2 3 1\n"
LINE = "4 3 2\n1 2 1\n2 3 1\n3 4 1\n"
SETS = {"s1": ("a", "b"), "s2": ("b", "c"), "s3": ("c",)}
COSTS = ("2", "1", "1")
MANY_SETS = 7


def min_cut() -> Iterator[Trial]:
    from dpublish.methods.solvers.min_cut.mechanism import MinCut

    for rule, exact in (("all", NOISY), ("vertex", NOISY), ("exact", Exact(pairs=6))):
        yield _trial(
            "min-cut",
            MinCut(vertices=3, rule=rule),  # type: ignore[arg-type]
            Cost.pure(3),
            case=rule,
            pairs=_graph_pairs(3),
            words=["--public", "3", *set_words({"rule": rule})],
            exact=exact,
            sampled=Sampled(runs=2000),
        )
    yield _trial(
        "min-cut",
        MinCut(vertices=3, size_share="1/4", cost_share=0),
        Cost.pure(3),
        case="with a size",
        pairs=_graph_pairs(3),
        words=["--public", "3", *set_words({"size_share": "1/4", "cost_share": "0"})],
        exact=Exact(pairs=1, window=(0, 1)),
        sampled=Sampled(runs=2000),
    )
    near = Cost.approximate(1, "1/100")
    pairs = _graph_pairs(3)
    for rule in ("near-minimum", "either"):
        yield _trial(
            "min-cut",
            MinCut(vertices=3, rule=rule),  # type: ignore[arg-type]
            near,
            case=rule,
            pairs=pairs,
            words=["--public", "3", *set_words({"rule": rule})],
            exact=DELTA,
            replay=Replay(adds_up=False),
            sampled=Sampled(runs=1000, pairs=4),
        )
    found = (
        "cuts are found by contracting the private graph, so the same draw stands for "
        "another cut on purpose"
    )
    yield _trial(
        "min-cut",
        MinCut(vertices=3, rule="near-minimum", cuts="karger-stein"),
        near,
        case="near-minimum, karger-stein",
        pairs=pairs,
        words=None,
        exact=DELTA,
        replay=found,
        twin=found,
        sampled=Sampled(runs=1000, pairs=4),
    )


def k_median() -> Iterator[Trial]:
    from dpublish.methods.solvers.k_median.mechanism import KMedian
    from dpublish.methods.solvers.k_median.metric import Metric

    three = Metric.matrix([[abs(i - j) for j in range(3)] for i in range(3)])
    yield _trial(
        "k-median",
        KMedian(k=1, metric=three, cost_share="1/4"),
        Cost.pure(2),
        case="demand",
        pairs=_item_pairs(("0", "1", "2")),
        words=[
            "--public",
            "sites.txt",
            "--form",
            "pmed",
            "--k",
            "1",
            *set_words({"cost_share": "1/4"}),
        ],
        public={"sites.txt": THREE.encode()},
        exact=NOISY,
        sampled=Sampled(runs=1500),
    )
    metric = Metric.matrix([[abs(i - j) for j in range(4)] for i in range(4)])
    for rule in ("search", "exact"):
        yield _trial(
            "k-median",
            KMedian(k=2, metric=metric, rule=rule, steps=2),
            Cost.pure(3),
            case=rule,
            pairs=_item_pairs(("0", "1", "2", "3")),
            words=[
                "--public",
                "sites.txt",
                "--form",
                "pmed",
                "--k",
                "2",
                *set_words({"rule": rule, "steps": "2"}),
            ],
            public={"sites.txt": LINE.encode()},
            exact=Exact(pairs=12),
            sampled=Sampled(runs=1500),
        )


def vertex_cover() -> Iterator[Trial]:
    from dpublish.methods.solvers.vertex_cover.mechanism import VertexCover

    blind = (
        "an order is drawn with weights that are private, so the same words lead to other "
        "orders on purpose"
    )
    sized = VertexCover(vertices=3, weights=[1, 1, 2], size_share="1/4")
    for case, settings, mechanism in (
        ("degree", {}, VertexCover(vertices=3)),
        ("degree, weights", {"weights": "weights.txt", "size_share": "1/4"}, sized),
    ):
        yield _trial(
            "vertex-cover",
            mechanism,
            Cost.pure(2),
            case=case,
            pairs=_graph_pairs(3),
            words=["--public", "3", *set_words(settings)],
            public={"weights.txt": b"1\n1\n2\n"},
            exact=PRICES if settings else NOISY,
            sampled=Sampled(runs=1500),
        )
    for case, mechanism in (
        ("schedule", VertexCover(vertices=4, rule="schedule")),
        ("two-phase", VertexCover(vertices=4, rule="two-phase")),
        ("weighted", VertexCover(vertices=4, weights=[1, 1, 1, 2], rule="schedule")),
        ("with a size", VertexCover(vertices=4, rule="schedule", size_share="1/2")),
    ):
        yield _trial(
            "vertex-cover",
            mechanism,
            Cost.pure(1),
            case=case,
            pairs=_graph_pairs(4),
            words=None,
            exact="an order takes whole random words; its law is compared with the stated one in "
            "the tests",
            replay=blind,
            twin=blind,
            sampled=Sampled(runs=3000),
        )


def set_cover() -> Iterator[Trial]:
    from dpublish.methods.solvers.inputs import lists_of
    from dpublish.methods.solvers.set_cover.mechanism import SetCover

    elements = sorted({element for held in SETS.values() for element in held})
    lists = lists_of([[elements.index(element) for element in held] for held in SETS.values()])
    public = {
        "sets.txt": "".join(f"{name} {' '.join(held)}\n" for name, held in SETS.items()).encode()
    }
    pairs = _item_pairs(elements, most=1)
    names = list(SETS)
    costs = {"costs.txt": "".join(f"{cost}\n" for cost in COSTS).encode()}
    yield _trial(
        "set-cover",
        SetCover(sets=lists, elements=elements, set_names=names),
        Cost.pure(2),
        case="presence",
        pairs=pairs,
        words=["--public", "sets.txt"],
        public=public,
        exact=NOISY,
        sampled=Sampled(runs=1500),
    )
    yield _trial(
        "set-cover",
        SetCover(sets=lists, elements=elements, set_names=names, costs=COSTS, size_share="1/4"),
        Cost.pure(2),
        case="presence, with a price",
        pairs=pairs,
        words=["--public", "sets.txt", *set_words({"costs": "costs.txt", "size_share": "1/4"})],
        public={**public, **costs},
        exact=PRICES,
        sampled=Sampled(runs=1500),
    )
    yield _trial(
        "set-cover",
        SetCover(sets=lists, elements=elements, set_names=names, costs=COSTS, rule="exact"),
        Cost.pure(2),
        case="exact",
        pairs=pairs,
        words=["--public", "sets.txt", *set_words({"rule": "exact", "costs": "costs.txt"})],
        public={**public, **costs},
        sampled=Sampled(runs=2000),
    )
    yield _trial(
        "set-cover",
        SetCover(sets=lists, elements=elements, set_names=names, rule="greedy"),
        Cost.pure(2),
        case="greedy",
        pairs=pairs,
        words=["--public", "sets.txt", "--set", "rule=greedy"],
        public=public,
        sampled=Sampled(runs=2000),
    )
    # so many sets that a delta buys something
    many = [f"t{place}" for place in range(len(SETS), MANY_SETS)]
    yield _trial(
        "set-cover",
        SetCover(
            sets=lists_of(
                [
                    *([elements.index(one) for one in held] for held in SETS.values()),
                    *([0] for _ in many),
                ]
            ),
            elements=elements,
            set_names=[*names, *many],
            rule="greedy",
        ),
        Cost.approximate(1, "1/10"),
        case="greedy, with a delta",
        pairs=pairs,
        words=["--public", "sets.txt", "--set", "rule=greedy"],
        public={
            "sets.txt": public["sets.txt"]
            + "".join(f"{name} {elements[0]}\n" for name in many).encode()
        },
        exact=DELTA,
        replay=Replay(adds_up=False),
        sampled=Sampled(runs=2000),
    )


def public_projects() -> Iterator[Trial]:
    from dpublish.methods.solvers.k_median.metric import Metric
    from dpublish.methods.solvers.public_projects.mechanism import PublicProjects

    lists = ("0", "1", "0 1", "2")
    agents = [(), *((one,) for one in lists)]
    pairs = [
        (csv("items", held), csv("items", (*held, extra))) for held in agents for extra in lists
    ]
    free = ["--set", "cost_share=0"]
    yield _trial(
        "public-projects",
        PublicProjects(k=2, resources=3, cost_share=0),
        Cost.pure(2),
        case="greedy",
        pairs=pairs,
        words=["--public", "3", "--k", "2", *free],
        sampled=Sampled(runs=2000),
    )
    yield _trial(
        "public-projects",
        PublicProjects(k=1, resources=3, cost_share="1/2"),
        Cost.pure(2),
        case="with values",
        pairs=pairs,
        words=["--public", "3", "--k", "1", "--set", "cost_share=1/2"],
        exact=NOISY,
        sampled=Sampled(runs=2000),
    )
    yield _trial(
        "public-projects",
        PublicProjects(k=2, resources=3, rule="exact", cost_share=0),
        Cost.pure(2),
        case="all sets",
        pairs=pairs,
        words=["--public", "3", "--k", "2", "--set", "rule=exact", *free],
        sampled=Sampled(runs=2000),
    )
    # so many choices that a delta buys something, of so many resources that a leak stands out above
    # it
    yield _trial(
        "public-projects",
        PublicProjects(k=7, resources=40),
        Cost.approximate(2, "1/10"),
        case="with a delta",
        pairs=pairs,
        words=["--public", "40", "--k", "7"],
        exact=DELTA,
        replay=Replay(adds_up=False),
        sampled=Sampled(runs=2000),
    )
    yield _trial(
        "public-projects",
        PublicProjects(
            k=2,
            resources=4,
            worth="facility",
            metric=Metric.matrix([[abs(i - j) for j in range(4)] for i in range(4)]),
            cost_share=0,
        ),
        Cost.pure(2),
        case="facility",
        pairs=_item_pairs(("0", "1", "2", "3")),
        words=[
            "--public",
            "sites.txt",
            "--form",
            "pmed",
            "--k",
            "2",
            *set_words({"worth": "facility", "cost_share": "0"}),
        ],
        public={"sites.txt": LINE.encode()},
        exact=Exact(pairs=12),
        sampled=Sampled(runs=1500),
    )
    wishes = ("0,1", "1,0", "2,2")
    held = [(), *((one,) for one in wishes)]
    yield _trial(
        "public-projects",
        PublicProjects(
            k=2, resources=3, worth=_half_content, columns=("first", "second"), cost_share=0
        ),
        Cost.pure(2),
        case="a function",
        pairs=[
            (csv("first,second", rows), csv("first,second", (*rows, extra)))
            for rows in held
            for extra in wishes
        ],
        words=None,
        twin="a function is given in Python and not on the command line",
        sampled=Sampled(runs=2000),
    )


def _half_content(row: Mapping[str, Any], chosen: frozenset[int]) -> float:
    """Half a point for each wish that is met; a row without numbers is a failure, which counts as
    0."""
    return (int(row["first"]) in chosen) / 2 + (int(row["second"]) in chosen) / 2


def _trial(
    problem: str,
    mechanism: Mechanism,
    cost: Cost,
    *,
    pairs: Sequence[tuple[bytes, bytes]],
    words: Sequence[str] | None,
    case: str = "",
    public: Mapping[str, bytes] | None = None,
    **tiers: Any,
) -> Trial:
    from dpublish.counting.compute import compute
    from dpublish.counting.graphs import open_structure
    from dpublish.sources.sources import open_source

    schema = Schema(name=problem, neighbours=RELATION)
    plan = mechanism.plan(schema, cost)
    statistic = mechanism.statistic(plan)
    shape = {"GraphEdges": "edges", "PresentItems": "items", "AgentLists": "lists"}.get(
        type(statistic).__name__
    )

    def read(path: Path) -> Any:
        source = (
            open_source(str(path))
            if shape is None
            else open_structure(str(path), cast("Shape", shape))
        )
        return compute(statistic, source, schema, key=bytes(16))

    if words is not None:
        solving = paid_commands(["solve", problem, FILE, *words], cost)
        tiers["twin"] = Twin(commands=solving, name=FILE, public=public or {})
    return Trial(
        method=problem,
        case=f"{RELATION}, {case}" if case else RELATION,
        neighbours=RELATION,
        claim=cost,
        call=FileCall(mechanism, plan, FILE, read),
        pairs=pairs,
        **tiers,
    )


def _graph_pairs(vertices: int) -> list[tuple[bytes, bytes]]:
    """All graphs, each with and without every edge."""
    edges = [f"{a},{b}" for a, b in itertools.combinations(range(vertices), 2)]
    graphs = [
        held for size in range(len(edges) + 1) for held in itertools.combinations(edges, size)
    ]
    return [
        (csv("source,target", graph), csv("source,target", (*graph, edge)))
        for graph in graphs
        for edge in edges
        if edge not in graph
    ]


def _item_pairs(items: Sequence[str], *, most: int = 2) -> list[tuple[bytes, bytes]]:
    """All small collections of items, each with one more; with `most` = 1 nothing is there
    twice."""
    held = [h for size in range(len(items)) for h in itertools.combinations(items, size)]
    return [
        (csv("item", h), csv("item", (*h, extra)))
        for h in held
        for extra in items
        if most > 1 or extra not in h
    ]
