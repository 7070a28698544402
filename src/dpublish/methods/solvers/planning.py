"""What the plans of all solvers have in common: which schemas they take, how labels are checked,
how a bound is written."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NotRequired, TypedDict, TypeVar

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.solvers.inputs import Labels, names_of
from dpublish.privacy.cost import Cost, exact
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


def amounts(values: Iterable[object], what: str) -> list[Fraction]:
    """Public weights or costs, exactly. Releases store them as floats and bounds divide them: both
    must stay finite."""
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


def guarantee_sentence(bound: Bound) -> str:
    """The bound in words; one that promises nothing here is not called a guarantee."""
    void = bound.get("says_nothing")
    if void is None:
        return f"Guarantee: {bound['text']}"
    return f"The theorem's bound, which says nothing {void}: {bound['text']}"


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
    """A plan whose release is a solution, with what is guaranteed and what cannot be had."""
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
            guarantee_sentence(settings.bound),
            f"No private method can do better than this in general: {settings.lower_bound['text']}",
        ),
        warnings=tuple(warnings),
    )
