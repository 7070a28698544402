"""The verifiers: what a solution costs, or is worth, on rows that the caller brings along, counted
as the plan's bound counts.

Rows that name nothing public are left out, as the release left them out, and an edge or an element
counts once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpublish.arrays import Floats, Ints
from dpublish.declare.spelling import ZERO_FRACTION
from dpublish.errors import QueryError
from dpublish.sources.objects import series_from_objects

Valuation = Callable[[Mapping[str, Any], frozenset[int]], float]
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


def known_form(name: Any, known: Any) -> Any:
    """The public name that is meant, read as the rows of the release were; None if there is none.

    A text may stand for a number and a number for a text: a text file names things by texts, also
    where they have numbers only.
    """
    if (
        not isinstance(name, bool | np.bool_) and name in known
    ):  # a truth is no number, though Python takes it for 0 or 1
        return name
    text = (
        name
        if isinstance(name, str)
        else str(name)
        if isinstance(name, tuple)
        else series_from_objects([name]).item()
    )
    if text is None:
        return None
    text = " ".join(text.split())
    whole = re.fullmatch(ZERO_FRACTION, text)
    number = whole[1] if whole else text
    # no 64-bit number is longer, and Python refuses to read thousands of digits
    forms = (text, int(number)) if len(number) <= 20 and _WHOLE.fullmatch(number) else (text,)
    return next((form for form in forms if form in known), None)


def best_limits(problem: str, size: Mapping[str, Any], level: float = 0.95) -> tuple[float, float]:
    """Between which numbers the cheapest solution's cost lies with probability `level`, from the
    noisy size that was paid for.

    Of a cut it is the cost itself; of a vertex cover something between it and twice it; of a set
    cover the price of one in parts, which is at most the cost, and at least `factor` times less.
    Weights are rounded up, which adds no more than `above`; `below` is what a certificate lacks,
    and `most` what some solution costs whatever the rows are.
    """
    whole = 0.0 if size.get("weighted") else 1.0
    reach = float(Fraction(size["scale"])) * math.log(1 / (1 - level)) + whole
    low = size["value"] - reach - float(size.get("above", 0.0))
    high = size["value"] + reach + float(size.get("below", 0.0))
    if problem == "vertex-cover":
        low /= 2
    high = max(0.0, high) * float(size.get("factor", 1.0))
    low, high = max(0.0, low), min(high, float(size.get("most", high)))
    return min(low, high), high


def cut_cost(edges: Iterable[Sequence[Any]], side: Mapping[Any, bool]) -> float:
    """How many edges run across."""
    return float(sum(side[u] != side[v] for u, v in _edges(edges, side)))


def vertex_cost(
    edges: Iterable[Sequence[Any]], place: Mapping[Any, int], weights: Floats | None
) -> float:
    """The weight of all earlier ends; without weights their number. `weights` are by place in the
    order."""
    used = sorted({min(place[u], place[v]) for u, v in _edges(edges, place)})
    return float(len(used)) if weights is None else float(weights[used].sum())


def set_cost(
    elements: Iterable[Any], number: Mapping[Any, int], assigned: Ints, costs: Floats
) -> float:
    """The cost of all sets that serve an element."""
    found = (known_form(element, number) for element in elements)
    used = sorted({int(assigned[number[element]]) for element in found if element is not None})
    return float(costs[used].sum())


def median_cost(demand: Any, distances: Any, sites: Ints, facts: Mapping[str, Any]) -> float:
    """The demand's distances to its nearest sites. A distance is capped and rounded as it was for
    the release."""
    counts, matrix = _demand(demand, distances, int(facts["sites"]))
    return float(counts @ _nearest(matrix, sites, facts))


def facility_value(demand: Any, distances: Any, sites: Ints, facts: Mapping[str, Any]) -> float:
    """1 for an agent at a chosen site, falling to 0 at the largest distance that counts."""
    counts, matrix = _demand(demand, distances, int(facts["resources"]))
    # releases made before 0.1.0 do not say what the largest is
    largest = float(facts.get("diameter", matrix.max() or 1.0))
    return float((counts * (1 - _nearest(matrix, sites, facts) / largest)).sum())


def coverage_value(rows: Iterable[Any], chosen: Iterable[Any], marks: str = " ,;") -> float:
    """How many agents name a chosen resource. A row is a list of names or a text of them, cut at
    any of `marks`."""
    wanted = set(chosen)
    between = re.compile(f"[{marks.replace(' ', chr(92) + 's')}]+")
    total = 0
    for row in rows:
        named = between.split(row) if isinstance(row, str) else row
        if not isinstance(named, Iterable):
            raise QueryError(
                "Give one list of resources an agent, such as [['pool', 'park'], ['park']]."
            )
        total += any(known_form(item, wanted) is not None for item in named)
    return float(total)


def function_value(
    rows: Iterable[Mapping[str, Any]], valuation: Valuation, chosen: frozenset[int]
) -> float:
    """The sum over agents of a value in [0, 1]; a function that fails on a row is worth 0 to that
    agent, as in the release."""
    total = 0.0
    for row in rows:
        try:
            value = float(valuation(row, chosen))
        except Exception:  # one row's failure did not decide about the release either
            continue
        total += min(1.0, max(0.0, value))  # what is no number counts as 0
    return total


def _edges(edges: Iterable[Sequence[Any]], known: Any) -> set[tuple[Any, Any]]:
    """Each edge between two different public vertices once, whichever end is written first."""
    found: set[tuple[Any, Any]] = set()
    for edge in edges:
        # networkx may hand a third thing along; numpy rows are edges too
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) < 2:
            raise QueryError("Edges are pairs of vertices, such as [('ann', 'bob')].")
        u, v = known_form(edge[0], known), known_form(edge[1], known)
        if u is not None and v is not None and u != v and (v, u) not in found:
            found.add((u, v))
    return found


def _demand(demand: Any, distances: Any, size: int) -> tuple[Floats, Floats]:
    if distances is None:
        raise QueryError("Give distances = ..., a matrix of distances between all places.")
    try:
        counts, matrix = (np.asarray(one, dtype=np.float64) for one in (demand, distances))
    except (TypeError, ValueError):
        counts = matrix = np.empty(0)
    if counts.shape != (size,) or matrix.shape != (size, size):
        raise QueryError(
            f"Give {size} counts, one a place, and distances = a matrix of {size} rows and columns."
        )
    return counts, matrix


def _nearest(matrix: Floats, sites: Ints, facts: Mapping[str, Any]) -> Floats:
    """Distances to the nearest site, as the release counted them: whole numbers of the unit, and
    none above the cap."""
    nearest: Floats = matrix[:, sites].min(axis=1)
    if "unit" not in facts:
        return nearest
    unit, largest = float(facts["unit"]), float(facts["diameter"])
    return np.minimum(np.floor(nearest / unit + 0.5) * unit, largest)
