"""What a release costs and what a budget holds, in exact arithmetic.

A `Cost` is one of three claims about a mechanism, all for the same neighbour relation:

    pure          epsilon-DP                        Cost.pure("1/2")
    approximate   (epsilon, delta)-DP               Cost.approximate(1, "1e-6")
    zcdp          delta-approximate rho-zCDP        Cost.zcdp("1/8")

Amounts are `Fraction`s. Composition is exact. A conversion that needs a logarithm or a root
evaluates it with certified bounds and rounds against the user: what is charged goes up, what is
promised goes down. The proofs are in cost.proof.md.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import reduce
from typing import Literal

from dpublish.errors import BudgetError, PlanError

Amount = int | float | str | Decimal | Fraction
Kind = Literal["pure", "approximate", "zcdp"]
ZERO = Fraction(0)
_NUMBER = re.compile(r"[+-]?\d+/\d+|[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
# characters; far beyond any sensible amount, and keeps a hostile plan from asking for huge integers
_LONGEST_NUMBER = 120
_WORKING_DIGITS = 60
_RESULT_DIGITS = 20
_NEAR_ONE = Fraction(1, 1000)


def exact(x: object, what: str = "epsilon") -> Fraction:
    """The number the user wrote: 0.1 means one tenth, "1/3" a third. Signs and zero are the
    caller's business."""
    given = f"{what} = {x!r}"
    if isinstance(x, bool):
        raise PlanError(f"{given} is not a number. Write it as 0.5, '1/2' or '1e-6'.")
    if isinstance(x, numbers.Rational):
        return Fraction(int(x.numerator), int(x.denominator))
    if isinstance(x, float):
        text = float.__repr__(x)
    elif isinstance(x, Decimal):
        text = str(x)
    elif isinstance(x, str):
        text = x.strip()
    else:
        raise PlanError(
            f"{what} is a {type(x).__name__}, not a number. Write it as 0.5, '1/2' or '1e-6'."
        )
    if text.lower().lstrip("+-") in {"nan", "snan", "inf", "infinity"}:
        raise PlanError(f"{given} is not a finite number. Give a finite one, such as 0.5.")
    if len(text) > _LONGEST_NUMBER or not _NUMBER.fullmatch(text):
        shown = text if len(text) <= _LONGEST_NUMBER else text[:20] + "..."
        raise PlanError(
            f"{what} = {shown!r} cannot be read as a number. Write it as 0.5, '1/2' or '1e-6'."
        )
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise PlanError(f"{given} divides by zero.") from None


def positive(x: object, what: str = "epsilon") -> Fraction:
    """`exact`, refusing zero and below."""
    value = exact(x, what)
    if value <= 0:
        raise PlanError(f"{what} must be above 0, not {x}.")
    return value


def _not_negative(x: object, what: str) -> Fraction:
    value = exact(x, what)
    if value < 0:
        raise PlanError(f"{what} = {x} must not be negative.")
    return value


def _probability(x: object, what: str) -> Fraction:
    value = _not_negative(x, what)
    if value >= 1:
        raise PlanError(f"{what} = {x} must be below 1; a delta of 1 or more promises nothing.")
    return value


def show(x: Fraction) -> str:
    """Short text for people: exact where the decimals end soon or the fraction is short, otherwise
    six digits, rounded up."""
    ends = any((x * 10**digits).denominator == 1 for digits in range(19))
    if not ends and x.denominator < 1000:
        return str(x)
    value = _decimal(x, ROUND_CEILING, _WORKING_DIGITS if ends else 6).normalize(
        _digits(ROUND_CEILING)
    )
    return f"{value:e}" if 0 < value < Decimal("1e-4") else f"{value:f}"


# Bounds on ln, sqrt and exp. Decimal's are correctly rounded (the error is at most half a unit in
# the last place), so one step outwards is a proof. The argument is rounded outwards first because
# all three functions increase.


def _digits(rounding: str, digits: int = _WORKING_DIGITS) -> Context:
    return Context(prec=digits, rounding=rounding, Emin=-999_999, Emax=999_999)


def _decimal(x: Fraction, rounding: str, digits: int = _WORKING_DIGITS) -> Decimal:
    return _digits(rounding, digits).divide(Decimal(x.numerator), Decimal(x.denominator))


def _above(x: Fraction, function: Callable[[Decimal, Context], Decimal]) -> Fraction:
    context = _digits(ROUND_HALF_EVEN)
    return Fraction(function(_decimal(x, ROUND_CEILING), context).next_plus(context))


def _below(x: Fraction, function: Callable[[Decimal, Context], Decimal]) -> Fraction:
    context = _digits(ROUND_HALF_EVEN)
    return Fraction(function(_decimal(x, ROUND_FLOOR), context).next_minus(context))


def ln_below(x: Fraction) -> Fraction:
    """A lower bound on ln x, for x above 0."""
    return _below(x, Decimal.ln)


def exp_above(x: Fraction) -> Fraction:
    """An upper bound on exp x."""
    return _above(x, Decimal.exp)


def _log(x: Fraction) -> float:
    """A float logarithm for searches; takes numerator and denominator apart so that tiny numbers do
    not vanish, nor tiny distances from 1."""
    if abs(x - 1) < _NEAR_ONE:
        return math.log1p(float(x - 1))
    return math.log(x.numerator) - math.log(x.denominator)


def _minimise(objective: Callable[[float], float], low: float, high: float) -> float:
    """Golden section. A wrong answer costs accuracy, never privacy: the caller's bound holds at
    every point."""
    ratio = (math.sqrt(5) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = objective(a), objective(b)
    for _ in range(90):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - ratio * (high - low)
            at_a = objective(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + ratio * (high - low)
            at_b = objective(b)
    return (low + high) / 2


def _best_order(log_rho: float, log_inverse_delta: float) -> Fraction:
    """A Renyi order alpha near the optimum of Canonne, Kamath and Steinke (2020), proposition
    12."""
    rho = math.exp(max(log_rho, -600.0))

    def epsilon(t: float) -> float:
        s = math.exp(t)  # alpha - 1
        return rho * (1 + s) - math.log1p(1 / s) + (log_inverse_delta - math.log1p(s)) / s

    centre = 0.5 * (math.log(log_inverse_delta) - math.log(rho))
    low = max(centre - 8, -30.0)  # below, 1 + s would be 1
    return Fraction(1 + math.exp(_minimise(epsilon, low, max(low + 1, min(centre + 8, 320.0)))))


def _overhead(alpha: Fraction, delta: Fraction) -> Fraction:
    """Upper bound on ln(1 - 1/alpha) + (ln(1/delta) - ln alpha) / (alpha - 1): epsilon is at most
    rho alpha plus this."""
    logarithms = _above(1 / delta, Decimal.ln) - _below(alpha, Decimal.ln)
    return _above(1 - 1 / alpha, Decimal.ln) + logarithms / (alpha - 1)


def simple_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """rho + 2 sqrt(rho ln(1/delta)), rounded up (Bun and Steinke 2016, proposition 1.3)."""
    bound = rho + 2 * _above(rho * _above(1 / delta, Decimal.ln), Decimal.sqrt)
    return Fraction(_decimal(bound, ROUND_CEILING, _RESULT_DIGITS))


def tight_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    """An epsilon, rounded up, such that every rho-zCDP mechanism is (epsilon, delta)-DP; never
    above the simple bound."""
    if rho == 0:
        return ZERO
    alpha = _best_order(_log(rho), -_log(delta))
    bound = Fraction(
        _decimal(max(alpha * rho + _overhead(alpha, delta), ZERO), ROUND_CEILING, _RESULT_DIGITS)
    )
    return min(bound, simple_epsilon(rho, delta))


def largest_rho(epsilon: object, delta: object) -> Fraction:
    """The largest rho found, rounded down, such that rho-zCDP implies (epsilon, delta)-DP.

    The result converts back to at most `epsilon`, so a release planned with it fits the budget it
    was planned for.
    """
    epsilon, delta = positive(epsilon, "epsilon"), positive(_probability(delta, "delta"), "delta")
    log_inverse = _above(1 / delta, Decimal.ln)
    # (sqrt(L + epsilon) - sqrt(L))^2, the inverse of the simple bound, is at least this; the search
    # only improves on it.
    rho = epsilon * epsilon / (4 * (log_inverse + epsilon))
    for _ in range(12):  # the best order depends on rho and the reverse; a few rounds settle both
        alpha = _best_order(_log(rho), -_log(delta))
        better = (epsilon - _overhead(alpha, delta)) / alpha
        if better <= rho * (1 + Fraction(1, 10**12)):
            break
        rho = Fraction(_decimal(better, ROUND_FLOOR, _WORKING_DIGITS))
    for slack in range(12, 0, -1):
        candidate = Fraction(
            _decimal(rho * (1 - Fraction(1, 10**slack)), ROUND_FLOOR, _RESULT_DIGITS)
        )
        if tight_epsilon(candidate, delta) <= epsilon:
            return candidate
    raise PlanError(
        f"No rho was found for epsilon = {show(epsilon)}, delta = {show(delta)}. Use a larger "
        f"epsilon or delta."
    )


@dataclass(frozen=True, kw_only=True, init=False)
class Cost:
    """What one mechanism, or several together, spend. At most one of `epsilon` and `rho` is above
    zero.

    >>> (Cost.pure("0.1") + Cost.pure("0.2")).epsilon
    Fraction(3, 10)
    >>> (Cost.pure("1/2") + Cost.zcdp("1/8")).describe()
    'rho = 0.25 (zero-concentrated differential privacy)'
    """

    epsilon: Fraction = ZERO
    delta: Fraction = ZERO
    rho: Fraction = ZERO

    def __init__(self, *, epsilon: Amount = 0, delta: Amount = 0, rho: Amount = 0) -> None:
        object.__setattr__(self, "epsilon", _not_negative(epsilon, "epsilon"))
        # A sum of deltas may pass 1: the claim is then empty but true, and no budget covers it.
        object.__setattr__(self, "delta", _not_negative(delta, "delta"))
        object.__setattr__(self, "rho", _not_negative(rho, "rho"))
        if self.epsilon and self.rho:
            raise PlanError(
                "A cost has either epsilon or rho, not both. Add a pure cost and a zCDP cost with "
                "`+`."
            )

    @classmethod
    def pure(cls, epsilon: Amount) -> Cost:
        """epsilon-differential privacy."""
        return cls(epsilon=epsilon)

    @classmethod
    def approximate(cls, epsilon: Amount, delta: Amount) -> Cost:
        """(epsilon, delta)-differential privacy."""
        return cls(epsilon=epsilon, delta=delta)

    @classmethod
    def zcdp(cls, rho: Amount, delta: Amount = 0) -> Cost:
        """rho-zero-concentrated differential privacy, up to an event of probability delta."""
        return cls(rho=rho, delta=delta)

    @property
    def kind(self) -> Kind:
        if self.rho:
            return "zcdp"
        return "approximate" if self.delta else "pure"

    def then(self, other: Cost) -> Cost:
        """Sequential composition: both mechanisms see the same rows; the second may depend on the
        first answer."""
        if self.rho or other.rho:
            a, b = self.to_zcdp(), other.to_zcdp()
            return Cost(rho=a.rho + b.rho, delta=a.delta + b.delta)
        return Cost(epsilon=self.epsilon + other.epsilon, delta=self.delta + other.delta)

    def __add__(self, other: object) -> Cost:
        return self.then(other) if isinstance(other, Cost) else NotImplemented

    def scaled(self, times: int) -> Cost:
        """The cost of running the mechanism `times` times on the same rows. This is not group
        privacy."""
        if isinstance(times, bool) or not isinstance(times, int) or times < 0:
            raise PlanError(f"A cost can be repeated a whole number of times, not {times!r}.")
        return Cost(epsilon=self.epsilon * times, delta=self.delta * times, rho=self.rho * times)

    def to_zcdp(self) -> Cost:
        """(epsilon, delta)-DP is delta-approximate (epsilon^2 / 2)-zCDP. Exact."""
        return self if self.rho else Cost(rho=self.epsilon * self.epsilon / 2, delta=self.delta)

    def to_approximate(self, delta: Amount) -> Cost:
        """The same guarantee as (epsilon, delta)-DP for the given total delta; epsilon is rounded
        up."""
        target = _probability(delta, "delta")
        if not self.rho:
            if target < self.delta:
                raise PlanError(
                    f"The cost already has delta = {show(self.delta)}; it cannot be stated with "
                    f"delta = {show(target)}."
                )
            return Cost(epsilon=self.epsilon, delta=target)
        if target <= self.delta:
            raise PlanError(
                f"A zCDP cost needs a delta above its own {show(self.delta)} to become (epsilon, "
                f"delta), not {show(target)}."
            )
        return Cost(epsilon=tight_epsilon(self.rho, target - self.delta), delta=target)

    def covers(self, other: Cost) -> bool:
        """True when `other`, in the same currency, is no larger in any component."""
        return self.epsilon >= other.epsilon and self.delta >= other.delta and self.rho >= other.rho

    def to_json(self) -> dict[str, str]:
        return {
            "kind": self.kind,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "rho": str(self.rho),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Cost:
        return cls(
            **_read_fractions(value, "cost", required={"epsilon", "delta", "rho"}, ignored={"kind"})
        )

    def describe(self) -> str:
        tail = f", delta = {show(self.delta)}" if self.delta else ""
        if self.rho:
            return f"rho = {show(self.rho)}{tail} (zero-concentrated differential privacy)"
        return f"epsilon = {show(self.epsilon)}{tail} ({self.kind} differential privacy)"


def _read_fractions(
    value: object, what: str, *, required: set[str], ignored: set[str]
) -> dict[str, Fraction]:
    if not isinstance(value, Mapping):
        raise PlanError(f"A {what} in JSON is an object, not a {type(value).__name__}.")
    names = set(value)
    if names - ignored != required:
        raise PlanError(
            f"A {what} in JSON has the fields {sorted(required)}, not "
            f"{sorted(map(str, names - ignored))}."
        )
    return {name: _long_fraction(value[name], name) for name in required}


def _long_fraction(x: object, what: str) -> Fraction:
    """A fraction we wrote ourselves; sums of many unlike fractions can be longer than what a person
    may type."""
    if isinstance(x, str) and len(x) <= 4000 and re.fullmatch(r"\d+(/[1-9]\d*)?", x, re.ASCII):
        return Fraction(x)
    return exact(x, what)


def sequential(costs: Iterable[Cost]) -> Cost:
    """Total of mechanisms that all see the same rows."""
    return reduce(Cost.then, costs, Cost())


@dataclass(frozen=True, kw_only=True, init=False)
class Budget:
    """The most that a named ledger may ever spend: an epsilon (with a delta) or a rho (with a
    delta).

    `delta_share` matters only when an (epsilon, delta) budget pays for a zCDP cost: each such cost
    is converted with this share of the budget's delta.

    >>> Budget(epsilon=3).charge(Cost.pure("1/2")).epsilon
    Fraction(1, 2)
    >>> Budget(rho="1/2").charge(Cost.pure("1/2")).rho
    Fraction(1, 8)
    """

    epsilon: Fraction | None = None
    delta: Fraction = ZERO
    rho: Fraction | None = None
    delta_share: Fraction = Fraction(1, 100)

    def __init__(
        self,
        *,
        epsilon: Amount | None = None,
        delta: Amount = 0,
        rho: Amount | None = None,
        delta_share: Amount = "1/100",
    ) -> None:
        if (epsilon is None) == (rho is None):
            raise PlanError(
                "A budget needs either epsilon or rho, such as Budget(epsilon=3) or "
                "Budget(rho='1/2')."
            )
        object.__setattr__(
            self, "epsilon", None if epsilon is None else positive(epsilon, "epsilon")
        )
        object.__setattr__(self, "delta", _probability(delta, "delta"))
        object.__setattr__(self, "rho", None if rho is None else positive(rho, "rho"))
        share = positive(delta_share, "delta_share")
        if share > 1:
            raise PlanError(f"delta_share = {delta_share} must be at most 1.")
        object.__setattr__(self, "delta_share", share)

    @property
    def cap(self) -> Cost:
        """The whole budget as a cost."""
        return Cost(epsilon=self.epsilon or 0, delta=self.delta, rho=self.rho or 0)

    def charge(self, cost: Cost, *, delta_share: Amount | None = None) -> Cost:
        """The cost in this budget's currency. Whether it still fits is for the ledger to say."""
        if cost.delta and not self.delta:
            raise BudgetError(
                f"The release needs delta = {show(cost.delta)}, but the budget has delta = 0. "
                "Use a mechanism without delta, or a budget with one."
            )
        if self.rho is not None:
            return cost.to_zcdp()
        if not cost.rho:
            return cost
        if not self.delta:
            raise BudgetError(
                "A zCDP cost (Gaussian noise) cannot be paid from a budget of epsilon alone. Open "
                "the ledger with "
                "Budget(epsilon=..., delta=...) or Budget(rho=...), or use a mechanism with "
                "Laplace noise."
            )
        share = self.delta_share if delta_share is None else positive(delta_share, "delta_share")
        return cost.to_approximate(cost.delta + share * self.delta)

    def to_json(self) -> dict[str, str]:
        return {name: str(value) for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> Budget:
        optional = {"epsilon", "rho"} & set(value) if isinstance(value, Mapping) else set()
        required = {"delta", "delta_share"} | optional
        return cls(**_read_fractions(value, "budget", required=required, ignored=set()))

    def describe(self) -> str:
        return self.cap.describe()
