"""Settings of the wrong type are refused by name when a method is set up, instead of failing
somewhere inside its plan."""

from __future__ import annotations

import dataclasses
import functools
import numbers
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from dpublish.declare.schema import Schema
from dpublish.errors import InputError, PlanError
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan

_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    bool: "true or false",
    str: "a text",
    float: "a number",
    Fraction: "a number",
    type(None): "left out",
}


MAX_AMOUNT = Fraction(10**12)
LARGEST_SETTING = Fraction(10**100)
"""Floats can multiply such numbers a few times; methods have narrower limits of their own, and
words for them."""
LEAST = {"epsilon": Fraction(1, 10**6), "rho": Fraction(1, 10**12), "delta": Fraction(1, 10**300)}
"""Below, noise would be wider than the numbers that a release may hold, so that a paid release
could not be opened."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A declared constraint on a setting: `bins: Annotated[int | None, Interval(1)] = None`.

    The ends belong to it unless `above` or `below` leaves them out; None sets no limit. A setting
    that is left out (None) is not held to it, and a list is held to it item by item.
    """

    least: int | Fraction | None = None
    most: int | Fraction | None = None
    above: int | Fraction | None = None
    below: int | Fraction | None = None

    def holds(self, value: Any) -> bool:
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def describe(self) -> str:
        if self.least is not None and self.most is not None:
            return f"lie between {_written(self.least)} and {_written(self.most)}"
        ends = (("at least", self.least), ("above", self.above), ("at most", self.most))
        return "be " + " and ".join(
            f"{word} {_written(end)}"
            for word, end in (*ends, ("below", self.below))
            if end is not None
        )

    def check(self, name: str, value: Any) -> None:
        if value is None:
            return
        if isinstance(value, list | tuple):
            for item in value:
                self.check(name, item)
            return
        amount = value if isinstance(value, int) else exact(value, name)
        if not self.holds(amount):
            raise PlanError(f"{name} must {self.describe()}, not {value}.")


def _written(end: int | Fraction) -> str:
    return f"{end:,}" if isinstance(end, int) else f"{float(end):g}"


def check_cost(cost: Cost, rows_per_unit: int) -> None:
    """What a plan promises is worked out in floats, which end long before exact amounts do."""
    widened = {
        "epsilon": rows_per_unit,
        "rho": rows_per_unit**2,
        "delta": 1,
    }  # noise grows with the rows of a unit
    for name, least in LEAST.items():
        amount, least = getattr(cost, name), least * widened[name]
        if amount and not least <= amount <= MAX_AMOUNT:
            size = "small" if amount < least else "large"
            units = f" for units of up to {rows_per_unit:,} rows" if widened[name] > 1 else ""
            raise PlanError(
                f"{name} is so {size} that nothing can be planned with it{units}. Use "
                f"{float(least):g} to {float(MAX_AMOUNT):g}."
            )


def require_columns(schema: Schema, who: str) -> None:
    """Refuse set-valued data for what `who` names, such as "A histogram needs"."""
    if schema.items is not None:
        raise PlanError(f"{who} [columns]; this schema declares set-valued data ([items]).")


def require_pure(cost: Cost, who: str) -> None:
    """Refuse any other cost for what `who` names, such as "A histogram costs"."""
    if cost.kind != "pure" or cost.epsilon <= 0:
        raise PlanError(
            f"{who} a pure epsilon above 0: give epsilon = ... and leave delta and rho out."
        )


def guarded(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """A `plan` that checks the cost first."""

    @functools.wraps(plan)
    def checked(self: Any, schema: Schema, cost: Cost) -> Plan:
        check_cost(cost, schema.unit.max_rows)
        return plan(self, schema, cost)

    return checked


class Checked:
    """What methods and online methods share: settings of their declared types, and plans that check
    the cost first."""

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if "plan" in vars(cls):
            cls.plan = guarded(vars(cls)["plan"])  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        check_fields(self)


def check_fields(method: Any) -> None:
    """Hold every field of a dataclass to its declared type. Ranges, and which texts are known, are
    the method's business, but for amounts beyond those that floats can work with."""
    kind: Any = type(method)
    for name, declared in _hints(kind).items():
        value = getattr(method, name)
        hint, *constraints = (
            get_args(declared) if get_origin(declared) is Annotated else (declared,)
        )
        if not fits(value, hint):
            raise PlanError(f"{name} must be {wanted(hint)}, not {_shown(value)}.")
        if Fraction in get_args(hint):
            _check_amount(name, value)
        # a manifest quotes settings, and knows no numbers of numpy and no decimals
        if isinstance(value, np.number):
            value = value.item()
        elif isinstance(value, Decimal) and Fraction not in get_args(hint):
            value = float(value)
        elif isinstance(value, list | tuple) and any(isinstance(item, np.number) for item in value):
            value = type(value)(
                item.item() if isinstance(item, np.number) else item for item in value
            )
        object.__setattr__(method, name, value)
        for constraint in constraints:
            if isinstance(constraint, Interval):
                constraint.check(name, value)


def _check_amount(name: str, value: Any) -> None:
    try:
        amount = abs(exact(value, name))
    except (InputError, TypeError, ValueError):
        return  # the method says what it wants instead, a name among other things
    if amount and not 1 / LARGEST_SETTING <= amount <= LARGEST_SETTING:
        size = "small" if amount < 1 else "large"
        raise PlanError(
            f"{name} is so {size} that nothing can be planned with it, {_shown(value)}."
        )


@functools.cache
def _hints(method: Any) -> dict[str, Any]:
    hints = get_type_hints(method, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(method)}


def fits(value: Any, hint: Any) -> bool:
    """Whether a value may stand where `hint` is declared; numbers of numpy and decimals count as
    numbers."""
    if hint is Any or hint is object:
        return True
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, choice) for choice in get_args(hint))
    if origin is Literal:
        return isinstance(value, tuple({type(choice) for choice in get_args(hint)}))
    if origin is not None:
        return _fits_generic(value, origin, get_args(hint))
    if hint is int:
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if hint in (float, Fraction):
        return isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)
    return isinstance(value, hint)


def _fits_generic(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if origin is Callable:
        return callable(value)
    if issubclass(origin, Mapping):
        # a tree of names may be lists all the way up; whoever reads it says what is wrong with it
        return (inner[1] is object and isinstance(value, list | tuple)) or (
            isinstance(value, Mapping)
            and all(fits(k, inner[0]) and fits(v, inner[1]) for k, v in value.items())
        )
    if issubclass(origin, Sequence):
        # arrays and series are lists to their users; a text, or names without an order, is a
        # mistake
        return (
            not isinstance(value, str | bytes | Mapping | set | frozenset)
            and isinstance(value, Iterable)
            and hasattr(value, "__len__")
            and all(fits(item, inner[0]) for item in value)
        )
    return isinstance(value, origin)


def wanted(hint: Any) -> str:
    """A declared type in words."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        parts = list(dict.fromkeys(wanted(choice) for choice in get_args(hint)))
        if (
            "a number" in parts
        ):  # exact amounts may be written as texts such as 1/3, and whole numbers are numbers
            parts = [part for part in parts if part not in ("a text", "a whole number")]
        return " or ".join(parts)
    if origin is Literal:
        return "one of " + ", ".join(str(choice) for choice in get_args(hint))
    if origin is Callable:
        return "a function"
    if origin is not None and issubclass(origin, Mapping):
        return "a table by name"
    if origin is not None:
        inner: Any = get_args(hint)[0] if get_args(hint) else object
        return f"a list of { ({str: 'texts', int: 'whole numbers'}.get(inner, 'things')) }"
    return _WORDS.get(hint, f"a {getattr(hint, '__name__', hint)}")


def _shown(value: Any) -> str:
    if not isinstance(value, str | int | float | Fraction | None):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
