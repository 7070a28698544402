"""Made-up inputs for the methods that publish a table, or something learnt from one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dpublish.audit.trials.synthetic_inputs import (
    RELATIONS,
    csv,
    people_pairs,
    release_call,
    release_twin,
    schema_text,
    under_both,
    unit_lines,
    with_all_units,
)
from dpublish.audit.trials.trial import SAMPLED_PAIRS, Exact, Sampled, Trial
from dpublish.declare.schema import Schema
from dpublish.methods.discovery.mechanism import Discovery
from dpublish.privacy.cost import Cost

ONE_BIT = ("true", "false")
TWO_BITS = tuple(f"{a},{b}" for a in ONE_BIT for b in ONE_BIT)
THREE_BITS = tuple(f"{pair},{c}" for pair in TWO_BITS for c in ONE_BIT)
LATTICE = "continuous noise on a grid has no rational law that could be enumerated"
GAUSSIAN = "Gaussian noise has no rational law that could be enumerated"
SEVERAL = "several rows a person"
MOVED = (
    "the noise is part of what is minimised: the same draw leads to other answers on "
    "purpose, and the proof pairs draws"
)
VOLUNTEERS = {"volunteers.csv": csv("a", ["true", "false", "true", "true"])}
THREE_VOLUNTEERS = {"volunteers.csv": csv("a,b,c", THREE_BITS)}
NEIGHBOURHOOD = {
    "others.csv": csv("a,b", ["true,true"] * 20 + ["false,false"] * 20 + ["true,false"] * 4)
}


def bits(*names: str, outside: str = "drop") -> str:
    """Columns of yes or no; what is neither is dropped, unless said otherwise."""
    return "".join(f'[columns.{name}]\nkind = "boolean"\noutside = "{outside}"\n' for name in names)


def table_trial(
    method: str,
    relation: str,
    columns: tuple[str, ...],
    *,
    facts: str = "",
    outside: str = "drop",
    **options: Any,
) -> Trial:
    """A release method on all small tables of yes-or-no columns; `facts` are rules or totals."""
    universe = {1: ONE_BIT, 2: TWO_BITS, 3: THREE_BITS}[len(columns)]
    declared = bits(*columns, outside=outside) + facts
    return release_trial(method, relation, declared, ",".join(columns), universe, **options)


def release_trial(
    method: str,
    relation: str,
    columns: str,
    header: str,
    universe: Sequence[str],
    *,
    settings: Mapping[str, str],
    rows: int = 2,
    claim: Cost | None = None,
    case: str = "",
    public: Mapping[str, bytes] | None = None,
    size: int | None = None,
    per_unit: int = 1,
    twin: str | None = None,
    **tiers: Any,
) -> Trial:
    """A release method on all small tables of rows of a universe. `per_unit` > 1: of `rows` people
    with several rows each."""
    cost = claim or Cost.pure(1)
    several = per_unit > 1
    pairs = people_pairs(relation, header, universe, rows=rows, per_unit=per_unit)
    text = schema_text(relation, columns, size=size or rows, extra=unit_lines(per_unit))
    together = with_all_units(pairs, rows) if several and relation == "replace-one" else None
    return Trial(
        method=method,
        case=", ".join(filter(None, (relation, case, SEVERAL if several else ""))),
        neighbours=relation,
        claim=cost,
        call=release_call(method, settings, text, cost, public=public),
        pairs=pairs,
        twin=twin or release_twin(method, settings, text, cost, public=public, inputs=together),
        **tiers,
    )


def histogram() -> Iterator[Trial]:
    trial = partial(table_trial, "histogram", columns=("a",), settings={"threshold": "1"})
    for relation in RELATIONS:
        yield trial(relation)
        yield trial(relation, per_unit=2, sampled=Sampled(runs=1500))
        yield found_bins("histogram", relation, NUMBER, "a", ("0", "1", "2"), count_share="0")


def found_bins(
    method: str,
    relation: str,
    columns: str,
    header: str,
    universe: tuple[str, ...],
    exact: Exact | str = Exact(window=(0, 1), pairs=2),  # noqa: B008 - a constant
    **own: str,
) -> Trial:
    """Bins of a number that declares none, found in tables of two rows."""
    return release_trial(
        method,
        relation,
        columns,
        header,
        universe,
        settings={"threshold": "1", "bin_share": "1/2", "bins": "2", **own},
        case="bins that are found",
        exact=exact,
        sampled=Sampled(runs=1500),
    )


NUMBER = '[columns.a]\nkind = "integer"\nlower = 0\nupper = 2\n'
FOUND = (
    '[columns.a]\nkind = "categorical"\ndiscover = true\n',
    '[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\ndiscover = true\n'
    '[columns.b]\nkind = "integer"\nlower = 0\nupper = 1\ndiscover = true\n',
)


def discovery() -> Iterator[Trial]:
    """Texts that can be anything, and a universe with bounds; one and several rows a person. In a
    base above e the tails are lighter than in the claim, so its delta holds there too."""
    for relation in RELATIONS:
        yield _discovery(relation, "texts", FOUND[0], "a", ("x", "y"), Cost.approximate(1, "1e-9"))
        yield _discovery(relation, "public", FOUND[1], "a,b", ("x,0", "y,1"), Cost.pure(2))
    yield _discovery(
        "add-remove-one", "texts", FOUND[0], "a", ("x", "y", "z"), Cost.approximate(1, "1e-9"), 2
    )


def _discovery(
    relation: str,
    case: str,
    columns: str,
    header: str,
    universe: tuple[str, ...],
    cost: Cost,
    per_unit: int = 1,
) -> Trial:
    """Beside the rows that differ there is a crowd of people of the first kind, as many as the
    threshold: whether it is found depends on a single person."""
    people = 2 if per_unit == 1 else 1
    pairs = people_pairs(relation, header, universe, rows=people, per_unit=per_unit)
    extra = unit_lines(per_unit)
    case = f"{case}, {SEVERAL}" if extra else case
    schema = Schema.from_toml(schema_text(relation, columns, size=2, extra=extra))
    crowd = Discovery().plan(schema, cost).settings.parts[0].threshold
    lines = (f"crowd {n},{universe[0]}" if extra else universe[0] for n in range(crowd))
    added = "".join(f"{line}\n" for line in lines).encode()
    pairs = [(one + added, other + added) for one, other in pairs]
    text = schema_text(relation, columns, size=2 + crowd, extra=extra)
    return Trial(
        method="discovery",
        case=f"{relation}, {case}",
        neighbours=relation,
        claim=cost,
        call=release_call("discovery", {}, text, cost),
        pairs=pairs,
        exact=Exact(root=4, window=(0, 2), pairs=8),
        sampled=Sampled(runs=1500),
        twin=release_twin("discovery", {}, text, cost),
    )


def projected_histogram() -> list[Trial]:
    return [
        *under_both(
            partial(table_trial, "projected-histogram"),
            ("a", "b", "label"),
            settings={"target": "label", "k": "1", "threshold": "1"},
            exact=Exact(window=(0, 2), pairs=2),
            sampled=Sampled(runs=1500),
        ),
        found_bins(
            "projected-histogram",
            "add-remove-one",
            NUMBER + bits("label"),
            "a,label",
            ("0,true", "2,false"),
            "the histogram's trial enumerates finding bins, and the others choosing and counting",
            target="label",
            k="1",
            count_share="0",
        ),
    ]


def joined_histograms() -> list[Trial]:
    trial = partial(
        table_trial,
        "joined-histograms",
        settings={"noise": "laplace"},
        claim=Cost.pure(2),
        sampled=Sampled(runs=1000),
    )
    others = partial(
        trial,
        columns=("a", "b"),
        settings={"noise": "laplace", "public": "others.csv", "misfit_share": "0"},
        public=NEIGHBOURHOOD,
        case="a public table of other people",
    )
    few, rho = Exact(window=(0, 1), pairs=4), Cost.zcdp("1/4")
    return [
        *under_both(trial, ("a", "b"), exact=few),
        trial(
            "replace-one",
            ("a", "b"),
            case="a rule that rows may break",
            facts="[[rules]]\nif = 'a = true'\nthen = 'b = true'\n",
            exact=few,
        ),
        trial("add-remove-one", ("a", "b"), rows=1, per_unit=2, exact=few),
        *under_both(
            trial,
            ("a",),
            case="public totals that the rows may contradict",
            facts="[[totals]]\nrows = 2\nsource = 'a census'\n"
            "[[totals]]\nrows = 1\nwhere = 'a = true'\nsource = 'a census'\n",
            outside="other",
            exact=Exact(window=(0, 2), pairs=12),
        ),
        *under_both(others, exact=Exact(window=(0, 1), pairs=2)),
        others(
            "replace-one",
            rows=1,
            per_unit=2,
            exact="the trials of one row a person enumerate the same draws",
        ),
        trial(
            "replace-one",
            ("a", "b"),
            settings={"noise": "gaussian"},
            claim=rho,
            case="Gaussian noise",
            exact=GAUSSIAN,
            sampled=in_rho(rho, runs=1000),
        ),
    ]


def importance_weights() -> list[Trial]:
    trial = partial(table_trial, "importance-weights", public=VOLUNTEERS)
    rho = Cost.zcdp("1/4")
    return [
        *under_both(
            trial,
            ("a",),
            settings={"public": "volunteers.csv", "choose_pairs": "0"},
            sampled=Sampled(runs=1500),
        ),
        trial(
            "add-remove-one",
            ("a",),
            settings={"public": "volunteers.csv", "variant": "output", "regularization": "1/4"},
            case="noise in the answer",
            exact=LATTICE,
            sampled=Sampled(runs=600),
        ),
        trial(
            "replace-one",
            ("a",),
            settings={"public": "volunteers.csv", "variant": "gaussian", "regularization": "1/4"},
            claim=rho,
            case="Gaussian noise",
            exact=LATTICE,
            sampled=in_rho(rho, runs=600),
        ),
        trial(
            "replace-one",
            ("a", "b", "c"),
            settings={"public": "volunteers.csv", "choose_pairs": "1"},
            public=THREE_VOLUNTEERS,
            claim=rho,
            case="a chosen pair, Gaussian noise",
            exact=GAUSSIAN,
            sampled=in_rho(rho, runs=600, pairs=6),
        ),
        trial(
            "replace-one",
            ("a",),
            settings={"public": "volunteers.csv", "variant": "objective", "regularization": "1/4"},
            claim=Cost.pure(2),
            case="noise in the objective",
            exact=LATTICE,
            replay=MOVED,
            twin=MOVED,
            sampled=Sampled(runs=600, statistics=[_first_sign, _rising], pairs=6),
        ),
    ]


def _first_sign(content: Any) -> bool:
    return bool(content.tables["coefficients"]["value"][0] > 0)


def _rising(content: Any) -> bool:
    first, second = content.tables["coefficients"]["value"][:2]
    return bool(second > first)


def generalized_table() -> list[Trial]:
    trial = partial(
        table_trial,
        "generalized-table",
        columns=("a", "b"),
        settings={"fanout": "2", "splits": "1", "split_at": "1/1000"},
        exact=Exact(window=(0, 1), pairs=24),
        sampled=Sampled(runs=1500),
    )
    return [*under_both(trial), trial("replace-one", rows=1, per_unit=2)]


def private_classifier() -> list[Trial]:
    trial = partial(table_trial, "private-classifier", columns=("a", "label"), exact=LATTICE)
    output = partial(
        trial,
        settings={"target": "label", "perturbation": "output"},
        case="noise in the answer",
        sampled=Sampled(runs=600, statistics=SIGNS),
    )
    return [
        *under_both(output, rows=3),
        output("add-remove-one", rows=1, size=3, per_unit=2),
        trial(
            "replace-one",
            settings={"target": "label", "perturbation": "objective", "regularization": "1/10"},
            rows=3,
            case="noise in the objective",
            replay=MOVED,
            twin=MOVED,
            sampled=Sampled(runs=600, statistics=SIGNS, pairs=6),
        ),
    ]


def _positive(place: int, content: Any) -> bool:
    """Whether the number at a place of all tables is above 0."""
    numbers = [
        n for table in content.tables.values() for column in table.values() for n in column.tolist()
    ]
    number = numbers[place] if len(numbers) > place else None
    return isinstance(number, int | float) and number > 0


SIGNS = [partial(_positive, place) for place in range(6)]
"""Coefficients hardly ever repeat, so their signs are looked at too."""


def in_rho(rho: Cost, *, runs: int, pairs: int = SAMPLED_PAIRS) -> Sampled:
    """What a claim in rho says about events: an epsilon with a delta that so few runs can see."""
    delta = "1/100"
    epsilon = rho.to_approximate(delta).epsilon
    return Sampled(runs=runs, epsilon=epsilon, delta=delta, pairs=pairs)
