"""Made-up inputs for the methods that publish what is bought together."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from dpublish.audit import neighbours
from dpublish.audit.trials.synthetic_inputs import (
    RELATIONS,
    release_call,
    release_twin,
    schema_text,
)
from dpublish.audit.trials.tables import in_rho
from dpublish.audit.trials.trial import Exact, Sampled, Trial
from dpublish.privacy.cost import Cost

BASKETS = ("bread", "milk", "bread milk")
FILE = "rows.txt"


def frequent_itemsets() -> Iterator[Trial]:
    tiny = {"separator": " ", "weight_grid": "2"}
    for relation in RELATIONS:
        yield _trial("frequent-itemsets", relation, tiny, exact=Exact(window=(0, 1), pairs=2))
    rho = Cost.zcdp("1/4")
    yield _trial(
        "frequent-itemsets",
        "replace-one",
        {"separator": " ", "keep": "2", "pairs": "1"},
        claim=rho,
        case="two looks, Gaussian noise",
        universe=("bread", "milk", "beer", "wine", "salt", "soap", "tea"),
        baskets=("bread milk beer wine", "beer", "milk wine"),
        exact="Gaussian noise has no rational law that could be enumerated",
        sampled=in_rho(rho, runs=1000),
    )


def set_partition() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield _trial(
            "set-partition", relation, {"fanout": "2", "count_share": "1/4", "separator": " "}
        )


def basic_itemsets() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield _trial("basic-itemsets", relation, {"count_share": "1/4", "separator": " "})


def _trial(
    method: str,
    relation: str,
    settings: Mapping[str, str],
    *,
    claim: Cost | None = None,
    case: str | None = None,
    universe: Sequence[str] = ("bread", "milk"),
    baskets: Sequence[str] = BASKETS,
    exact: Exact | str | None = None,
    sampled: Sampled | None = None,
) -> Trial:
    # four equal baskets just pass the threshold of a set partition: replacing one shows, however
    # little noise there is
    size = 4 if relation == "replace-one" else 2
    text = schema_text(relation, f"[items]\nuniverse = {json.dumps(universe)}\n", size=size)
    replaced, added = (
        neighbours.replace_one(baskets, rows=size),
        neighbours.add_remove(baskets, max_rows=size),
    )
    rows = replaced if relation == "replace-one" else added
    cost = claim or Cost.pure(1)
    return Trial(
        method=method,
        case=case or relation,
        neighbours=relation,
        claim=cost,
        call=release_call(method, settings, text, cost, file=FILE),
        pairs=[(_lines(one), _lines(other)) for one, other in rows],
        exact=exact or Exact(window=(0, 2), pairs=2),
        sampled=sampled or Sampled(runs=1500),
        twin=release_twin(method, settings, text, cost, file=FILE),
    )


def _lines(rows: tuple[str, ...]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()
