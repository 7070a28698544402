"""What the plans of all solvers have in common: which schemas they take, how labels are checked,
how a bound is written."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NotRequired, TypedDict, TypeVar

import numpy as np

from dpublish.arrays import Floats
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import Labels, names_of
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact, exp_above, ln_below
from dpublish.privacy.plan import Plan, Settings, hidden

MAX_ITEMS = 1 << 31
SMALLEST, LARGEST = Fraction(1, 10**150), Fraction(10**150)


def check_schema(schema: Schema, what: str) -> None:
    """Solvers protect one row (an edge, a demand point, an element, an agent), present or
    absent."""
    if schema.neighbours != "add-remove-one":
        raise PlanError(
            f"{what} protects whether a row is there at all, so it needs neighbours = "
            f'"add-remove-one", not '
            f'"{schema.neighbours}".'
        )
    if schema.unit.column is not None:
        raise PlanError(
            f'{what} protects single rows; unit = "{schema.unit.column}" is not supported. Use '
            f'"row" and divide epsilon '
            "by the number of rows that a person may own."
        )


def pure(cost: Cost, what: str) -> None:
    if cost.rho or cost.delta or cost.epsilon <= 0:
        raise PlanError(
            f"{what} is planned with epsilon alone, not {cost.describe()}. Leave delta and rho out."
        )


def with_delta(cost: Cost, what: str) -> None:
    if cost.rho or cost.epsilon <= 0 or not 0 < cost.delta < 1:
        raise PlanError(
            f"{what} needs epsilon and a delta between 0 and 1, such as delta = 1e-6, not "
            f"{cost.describe()}."
        )


def no_rho(cost: Cost, what: str) -> None:
    if cost.rho or cost.epsilon <= 0:
        raise PlanError(f"{what} is planned with epsilon (and delta), not {cost.describe()}.")


def numbered(names: int | Sequence[object], what: str) -> tuple[int, Labels]:
    """How many public things there are, and their labels when they have any."""
    if isinstance(names, bool):
        raise PlanError(f"{what} must be a number or a list of names.")
    if isinstance(names, int | np.integer):
        if not 1 <= names < MAX_ITEMS:
            raise PlanError(f"{what}: there must be between 1 and 2^31, not {names}.")
        return int(names), None
    labels = tuple(names_of(names))
    if not labels:
        raise PlanError(f"{what}: the public list is empty.")
    if len(set(labels)) != len(labels):
        raise PlanError(
            f"{what}: '{Counter(labels).most_common(1)[0][0]}' is listed twice. Blanks around a "
            f"name do not count."
        )
    if "" in labels:
        raise PlanError(
            f"{what}: a name is empty. A row without a name could be meant by it; give it one."
        )
    return len(labels), labels


def amounts(values: Iterable[object] | None, what: str, count: int, things: str) -> list[Fraction]:
    """Public weights or costs of so many things, exactly; 1 of each where there are none. Releases
    store them as floats and bounds divide them: both must stay finite."""
    if values is None:
        return [Fraction(1)] * count
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise PlanError(f"{what}s must be a list of numbers.")
    found = [
        exact(value.item() if isinstance(value, np.generic) else value, what) for value in values
    ]
    if any(value <= 0 for value in found):
        raise PlanError(f"A {what} must be above 0.")
    if any(not SMALLEST <= value <= LARGEST for value in found):
        raise PlanError(
            f"A {what} must lie between 1e-150 and 1e150. Give all of them in another unit."
        )
    if len(found) != count:
        raise PlanError(f"There are {count} {things} but {len(found)} {what}s.")
    return found


def digest_of(*parts: object) -> str:
    """SHA-256 of a public structure, so that the ledger can tell whether a key comes with the same
    request."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(str((part.dtype.str, part.shape)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def label_column(labels: Labels, numbers: Iterable[int]) -> dict[str, Any]:
    """A column of names for a table of the release, when there are names."""
    return (
        {}
        if labels is None
        else {"label": np.array([labels[int(number)] for number in numbers], dtype=str)}
    )


class Bound(TypedDict):
    """A statement about the cost: at most (or at least) `factor` times the best plus `additive`.

    `says_nothing` tells where it holds of every solution, however bad, so that it promises nothing.
    """

    factor: float
    additive: float
    text: str
    says_nothing: NotRequired[str]


@dataclass(frozen=True, kw_only=True)
class SolverSettings(Settings):
    """What all solvers work with and say. `released` names the facts that a solution carries."""

    released: ClassVar[tuple[str, ...]]

    problem: str
    labels: Labels = hidden()
    sensitivity: Fraction = Fraction(1)
    bound: Bound
    lower_bound: Bound

    def facts(self) -> dict[str, Any]:
        return {name: value for name, value in super().facts().items() if value is not None}

    def solution_facts(self) -> dict[str, Any]:
        said = self.facts()
        return {name: said[name] for name in (*self.released, "problem", "bound", "lower_bound")}


P = TypeVar("P", bound=SolverSettings)


def solution_plan(
    *,
    method: str,
    schema: Schema,
    cost: Cost,
    parameters: Mapping[str, Any],
    settings: P,
    sentences: Sequence[str],
    warnings: Sequence[str] = (),
) -> Plan[P]:
    """A plan whose release is a solution, with what is guaranteed and what cannot be had. A bound
    that promises nothing here is not called a guarantee."""
    void = settings.bound.get("says_nothing")
    said = "Guarantee" if void is None else f"The theorem's bound, which says nothing {void}"
    return Plan(
        method=method,
        kind="solution",
        schema=schema,
        cost=cost,
        parameters=parameters,
        settings=settings,
        sentences=(
            *sentences,
            f"Cost {cost.describe()}, protecting {schema.unit.describe()} ({schema.neighbours}).",
            f"{said}: {settings.bound['text']}",
            f"No private method can do better than this in general: {settings.lower_bound['text']}",
        ),
        warnings=tuple(warnings),
    )


# What a decision costs on the private rows, beside the public one that needs no data: two noisy
# numbers, paid for with a share of epsilon.

LEVEL = 0.95
COST_SHARE = Fraction(1, 10)
"""Share of epsilon that buys the costs; see benchmarks/baselines/decisions.py."""


def estimated_costs(
    noise: Noise,
    chosen: int,
    public: int | None,
    *,
    sensitivity: Fraction,
    epsilon: Fraction,
    unit: float = 1.0,
    most: float = math.inf,
) -> dict[str, Any]:
    """Noisy costs as facts of a release; `public` is None where the public solution was chosen.

    `sensitivity` bounds how far one row moves both costs together, in units; `most` is a public
    bound on a cost. Nothing is drawn without an epsilon.
    """
    if not epsilon:
        return {}
    costs = [chosen] if public is None else [chosen, public]
    noisy = noise.laplace(
        np.array(costs, dtype=np.int64),
        sensitivity=sensitivity,
        epsilon=epsilon,
        label="costs of the solutions",
    )
    scale = float(sensitivity / epsilon) * unit
    reach = scale * math.log(1 / (1 - LEVEL)) + unit
    found = []
    for drawn in noisy.tolist():
        value = drawn * unit
        low, middle, high = (
            min(max(end, 0.0), most) for end in (value - reach, value, value + reach)
        )
        found.append(
            {
                "value": middle,
                "standard_error": math.sqrt(2) * scale,
                "low": low,
                "high": high,
                "level": LEVEL,
            }
        )
    return {"cost_estimate": found[0], "public_cost_estimate": found[-1]}


# What every private method must lose on some instance of a given size: arguments of the thesis,
# with their constants.
#
# The theorems of chapter 7 hold "up to constants", for some range of epsilon and for large
# instances. Quoted outside of it they say what is impossible, such as a cut with more edges than
# there are. So each proof is gone through here for the size at hand: rows that differ by t change
# a probability p to at most exp(epsilon t) p + delta (exp(epsilon t) - 1) / (exp(epsilon) - 1).

_TRIED = 400


def cut_excess(vertices: int, epsilon: float, delta: float = 0.0) -> float:
    """Edges more than the smallest cut has, in expectation (theorem 42).

    Take a d-connected graph in which all degrees are d: d even, or all pairs. One of the n cuts
    that part a vertex v has at most probability 1/n. Without the d edges of v that cut is empty,
    and all others have at least d - 1 edges, because the graph without v is still (d -
    1)-connected.
    """
    if vertices < 3:
        return 0.0
    degrees = np.append(
        2.0 * _tried(min((vertices - 1) / 2, math.log(vertices) / (2 * epsilon))), vertices - 1.0
    )
    return _best((degrees - 1) * (1 - _grown(1 / vertices, degrees, epsilon, delta)))


def missed(places: int, k: int, epsilon: float, delta: float = 0.0) -> float:
    """Of demand at k of n places, how many points are at none of k chosen ones, in expectation
    (theorems 47 and 66).

    L points at each place of a random set. With one place i of it exchanged for another, which
    changes 2L points, i is as likely as any place outside the rest of the set, and so chosen with
    probability at most k / (n - k + 1).
    """
    known = k / (places - k + 1)
    if known >= 1:
        return 0.0
    points = _tried(-math.log(known) / (2 * epsilon))
    return _best(k * points * (1 - _grown(known, 2 * points, epsilon, delta)))


def cover_factor(vertices: int, epsilon: float, delta: float = 0.0) -> float:
    """How many times the smallest cover, in expectation (theorem 51).

    A star of t edges with a random centre is covered by one vertex. Without any edge the method
    knows nothing of the centre: of t pairs it gives half to the other end, and all of them for one
    vertex in t + 1 at most.
    """
    if vertices < 2:
        return 1.0
    around = np.maximum(1.0, np.round(1 / epsilon) + np.arange(-2.0, 4.0))
    edges = np.minimum(vertices - 1.0, np.append(_tried(vertices - 1), around))
    spread = np.minimum(edges * epsilon, 700.0)
    lost = delta * np.expm1(spread) / math.expm1(min(epsilon, 700.0)) * (edges - 1)
    return 1.0 + _best(np.exp(-spread) * (edges / 2 - 1 / (edges + 1) - lost))


def nothing_ruled_out(theorem: int) -> str:
    """What a plan says where a bound is 0."""
    return f"theorem {theorem} rules nothing out at this size and epsilon."


def _grown(chance: float, rows: Floats, epsilon: float, delta: float) -> Floats:
    """The most that a probability may become when so many rows change."""
    spread = np.minimum(rows * epsilon, 700.0)
    found: Floats = np.exp(spread) * chance + delta * np.expm1(spread) / math.expm1(
        min(epsilon, 700.0)
    )
    return found


def _tried(most: float) -> Floats:
    """Whole numbers from 1 to `most`, or some of them: what is proved with any of them is
    proved."""
    found: Floats = np.unique(np.floor(np.geomspace(1.0, max(1.0, most), _TRIED)))
    return found


def _best(values: Floats) -> float:
    return max(0.0, float(values.max()))


# Exact calibrations that several solvers share: the epsilon of a greedy sequence of choices.

_SHORT = 1 << 40


def rounded_down(x: Fraction) -> Fraction:
    """A short fraction at most x (x > 0) and within 2^-40 of it in relative terms: exact noise is
    faster with short numbers."""
    scale = max(1, math.ceil(_SHORT / x)) if x < _SHORT else 1
    power = 1 << (scale - 1).bit_length()
    return Fraction(math.floor(x * power), power)


def step_epsilon(epsilon: Fraction, hazard: Fraction) -> Fraction:
    """The largest e' found, rounded down, with (exp(e') - 1) * hazard <= epsilon and e' <= epsilon.

    `hazard` bounds the expected gain of one unit over the whole greedy sequence (see
    set_cover.proof.md, theorem 1).
    """
    return rounded_down(min(epsilon, ln_below(1 + epsilon / hazard)))


def first_hit_hazard(delta: Fraction) -> Fraction:
    """ln(1/delta): the expected gain that a unit can have missed before it is served, except with
    probability delta."""
    return -ln_below(delta)


def total_gain_hazard(delta: Fraction) -> Fraction:
    """The least (b + ln(1/delta)) / (1 - exp(-b)) found over b: expected gain of a unit whose
    realised gain is at most one."""
    inverse, tried = -ln_below(delta), (Fraction(tenths, 10) for tenths in range(5, 100))
    return min((b + inverse) / (1 - exp_above(-b)) for b in tried)
