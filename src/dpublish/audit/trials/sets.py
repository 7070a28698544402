"""Made-up inputs for the methods that publish what is bought together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpublish.audit import neighbours
from dpublish.audit.trials.synthetic_inputs import (
    RELATIONS,
    release_call,
    release_twin,
    schema_text,
)
from dpublish.audit.trials.trial import Exact, Sampled, Trial
from dpublish.privacy.cost import Cost

BASKETS = ("bread", "milk", "bread milk")
FILE = "rows.txt"


def set_partition() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield _trial(
            "set-partition", relation, {"fanout": "2", "count_share": "1/4", "separator": " "}
        )


def basic_itemsets() -> Iterator[Trial]:
    for relation in RELATIONS:
        yield _trial("basic-itemsets", relation, {"count_share": "1/4", "separator": " "})


def _trial(method: str, relation: str, settings: Mapping[str, str]) -> Trial:
    # four equal baskets just pass the threshold of a set partition: replacing one shows, however
    # little noise there is
    size = 4 if relation == "replace-one" else 2
    text = schema_text(relation, '[items]\nuniverse = ["bread", "milk"]\n', size=size)
    replaced, added = (
        neighbours.replace_one(BASKETS, rows=size),
        neighbours.add_remove(BASKETS, max_rows=size),
    )
    rows = replaced if relation == "replace-one" else added
    cost = Cost.pure(1)
    return Trial(
        method=method,
        case=relation,
        neighbours=relation,
        claim=cost,
        call=release_call(method, settings, text, cost, file=FILE),
        pairs=[(_lines(one), _lines(other)) for one, other in rows],
        exact=Exact(window=(0, 2), pairs=2),
        sampled=Sampled(runs=1500),
        twin=release_twin(method, settings, text, cost, file=FILE),
    )


def _lines(rows: tuple[str, ...]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()
