"""Made-up graphs, demand, elements and agents for the solvers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from dpublish.audit.trials.synthetic_inputs import FileCall, csv, paid_commands, set_words
from dpublish.audit.trials.trial import Exact, Replay, Sampled, Trial, Twin
from dpublish.declare.schema import Schema
from dpublish.methods.base import Mechanism
from dpublish.privacy.cost import Cost

if TYPE_CHECKING:
    from dpublish.counting.graphs import Shape
    from dpublish.methods.solvers.k_median.metric import Metric

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

    made = partial(MinCut, vertices=3)
    trial = partial(_trial, "min-cut", pairs=_graph_pairs(3), sampled=Sampled(runs=2000))
    for rule, exact in (("all", NOISY), ("vertex", NOISY), ("exact", Exact(pairs=6))):
        words = ["--public", "3", *set_words({"rule": rule})]
        named = made(rule=rule)  # type: ignore[arg-type]
        yield trial(named, Cost.pure(3), case=rule, words=words, exact=exact)
    yield trial(
        made(size_share="1/4", cost_share=0),
        Cost.pure(3),
        case="with a size",
        words=["--public", "3", *set_words({"size_share": "1/4", "cost_share": "0"})],
        exact=Exact(pairs=1, window=(0, 1)),
    )
    near = partial(
        trial,
        cost=Cost.approximate(1, "1/100"),
        exact=DELTA,
        replay=Replay(adds_up=False),
        sampled=Sampled(runs=1000, pairs=4),
    )
    for rule in ("near-minimum", "either"):
        words = ["--public", "3", *set_words({"rule": rule})]
        yield near(made(rule=rule), case=rule, words=words)  # type: ignore[arg-type]
    found = (
        "cuts are found by contracting the private graph, so the same draw stands for "
        "another cut on purpose"
    )
    yield near(
        made(rule="near-minimum", cuts="karger-stein"),
        case="near-minimum, karger-stein",
        words=None,
        replay=found,
        twin=found,
    )


def k_median() -> list[Trial]:
    from dpublish.methods.solvers.k_median.mechanism import KMedian

    trial = partial(_trial, "k-median", sampled=Sampled(runs=1500))
    small: tuple[Literal["search", "exact"], ...] = ("search", "exact")
    return [
        trial(
            KMedian(k=1, metric=_line(3), cost_share="1/4"),
            Cost.pure(2),
            case="demand",
            pairs=_item_pairs(("0", "1", "2")),
            words=[*_on_a_line(1), *set_words({"cost_share": "1/4"})],
            public={"sites.txt": THREE.encode()},
            exact=NOISY,
        ),
        *(
            trial(
                KMedian(k=2, metric=_line(4), rule=rule, steps=2),
                Cost.pure(3),
                case=rule,
                pairs=_item_pairs(("0", "1", "2", "3")),
                words=[*_on_a_line(2), *set_words({"rule": rule, "steps": "2"})],
                public={"sites.txt": LINE.encode()},
                exact=Exact(pairs=12),
            )
            for rule in small
        ),
    ]


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


def set_cover() -> list[Trial]:
    from dpublish.methods.solvers.inputs import lists_of
    from dpublish.methods.solvers.set_cover.mechanism import SetCover

    elements = sorted({element for held in SETS.values() for element in held})
    lists = lists_of([[elements.index(element) for element in held] for held in SETS.values()])
    public = {
        "sets.txt": "".join(f"{name} {' '.join(held)}\n" for name, held in SETS.items()).encode()
    }
    names = list(SETS)
    costs = {"costs.txt": "".join(f"{cost}\n" for cost in COSTS).encode()}
    made = partial(SetCover, sets=lists, elements=elements, set_names=names)
    trial = partial(
        _trial,
        "set-cover",
        cost=Cost.pure(2),
        pairs=_item_pairs(elements, most=1),
        public=public,
        sampled=Sampled(runs=2000),
    )
    # so many sets that a delta buys something
    many = [f"t{place}" for place in range(len(SETS), MANY_SETS)]
    rows = [lists.row(place).tolist() for place in range(len(SETS))]
    more = "".join(f"{name} {elements[0]}\n" for name in many).encode()
    return [
        trial(
            made(),
            case="presence",
            words=["--public", "sets.txt"],
            exact=NOISY,
            sampled=Sampled(runs=1500),
        ),
        trial(
            made(costs=COSTS, size_share="1/4"),
            case="presence, with a price",
            words=["--public", "sets.txt", *set_words({"costs": "costs.txt", "size_share": "1/4"})],
            public={**public, **costs},
            exact=PRICES,
            sampled=Sampled(runs=1500),
        ),
        trial(
            made(costs=COSTS, rule="exact"),
            case="exact",
            words=["--public", "sets.txt", *set_words({"rule": "exact", "costs": "costs.txt"})],
            public={**public, **costs},
        ),
        trial(
            made(rule="greedy"),
            case="greedy",
            words=["--public", "sets.txt", "--set", "rule=greedy"],
        ),
        trial(
            made(
                sets=lists_of([*rows, *([0] for _ in many)]),
                set_names=[*names, *many],
                rule="greedy",
            ),
            cost=Cost.approximate(1, "1/10"),
            case="greedy, with a delta",
            words=["--public", "sets.txt", "--set", "rule=greedy"],
            public={"sets.txt": public["sets.txt"] + more},
            exact=DELTA,
            replay=Replay(adds_up=False),
        ),
    ]


def public_projects() -> list[Trial]:
    from dpublish.methods.solvers.public_projects.mechanism import PublicProjects

    trial = partial(
        _trial,
        "public-projects",
        cost=Cost.pure(2),
        pairs=_with_one_more("items", ("0", "1", "0 1", "2")),
        sampled=Sampled(runs=2000),
    )
    free = ["--set", "cost_share=0"]
    return [
        trial(
            PublicProjects(k=2, resources=3, cost_share=0),
            case="greedy",
            words=["--public", "3", "--k", "2", *free],
        ),
        trial(
            PublicProjects(k=1, resources=3, cost_share="1/2"),
            case="with values",
            words=["--public", "3", "--k", "1", "--set", "cost_share=1/2"],
            exact=NOISY,
        ),
        trial(
            PublicProjects(k=2, resources=3, rule="exact", cost_share=0),
            case="all sets",
            words=["--public", "3", "--k", "2", "--set", "rule=exact", *free],
        ),
        # so many choices that a delta buys something, of so many resources that a leak stands out
        # above it
        trial(
            PublicProjects(k=7, resources=40),
            cost=Cost.approximate(2, "1/10"),
            case="with a delta",
            words=["--public", "40", "--k", "7"],
            exact=DELTA,
            replay=Replay(adds_up=False),
        ),
        trial(
            PublicProjects(k=2, resources=4, worth="facility", metric=_line(4), cost_share=0),
            case="facility",
            pairs=_item_pairs(("0", "1", "2", "3")),
            words=[*_on_a_line(2), *set_words({"worth": "facility", "cost_share": "0"})],
            public={"sites.txt": LINE.encode()},
            exact=Exact(pairs=12),
            sampled=Sampled(runs=1500),
        ),
        trial(
            PublicProjects(
                k=2, resources=3, worth=_half_content, columns=("first", "second"), cost_share=0
            ),
            case="a function",
            pairs=_with_one_more("first,second", ("0,1", "1,0", "2,2")),
            words=None,
            twin="a function is given in Python and not on the command line",
        ),
    ]


def _half_content(row: Mapping[str, Any], chosen: frozenset[int]) -> float:
    """Half a point for each wish that is met; a row without numbers is a failure, which counts as
    0."""
    return (int(row["first"]) in chosen) / 2 + (int(row["second"]) in chosen) / 2


def _line(places: int) -> Metric:
    """Places in a row, one apart."""
    from dpublish.methods.solvers.k_median.metric import Metric

    return Metric.matrix([[abs(i - j) for j in range(places)] for i in range(places)])


def _on_a_line(k: int) -> list[str]:
    return ["--public", "sites.txt", "--form", "pmed", "--k", str(k)]


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


def _with_one_more(header: str, rows: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """No row or one, and the same with one more."""
    few: list[tuple[str, ...]] = [(), *((row,) for row in rows)]
    return [(csv(header, held), csv(header, (*held, extra))) for held in few for extra in rows]
