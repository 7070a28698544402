"""The privacy statement of a release, in words that a data officer and a lawyer can read, made from
public facts.

It says what a cost gives: the most that any guess and any test can gain. Proofs:
statement.proof.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dpublish.privacy.cost import Cost, exp_above, ln_below, show

if TYPE_CHECKING:
    from dpublish.privacy.plan import Plan

EXAMPLE_DELTA = Fraction(1, 10**9)
"""A zCDP cost has an epsilon for every delta; the one for this is stated as an example."""
ALARM = Fraction(1, 20)
"""The rate of false alarms of the tests that statements speak of."""
MAX_CASES = 10**9
LARGEST_FACTOR = 50
LARGEST_RHO = 1000
NO_LIMIT = "at this cost there is no limit worth stating"

_OLD_WORDS = "except with probability"
CORRECTION = (
    "Correction: the words 'except with probability' in this statement claim more than "
    "was proved. What holds: "
)

_CHANGE = {
    "replace-one": "had been replaced by any other",
    "add-remove-one": "had been left out of the data, or added to it",
}
_SIZE = {
    "replace-one": "The number of units in the data is treated as public.",
    "add-remove-one": "Whether a unit is in the data at all is protected.",
}


def privacy_statement(
    plan: Plan,
    *,
    publishable: bool,
    what: Literal["release", "session"] = "release",
    other_budgets: Sequence[str] = (),
) -> str:
    """What the guarantee says and what it does not say, for the manifest and the report."""
    schema = plan.schema
    lines = [
        f"This {what} satisfies {plan.cost.describe()} for one unit ({schema.neighbours}). A unit "
        f"is {schema.unit.describe()}.",
        f"In words: {' '.join(meaning(plan.cost, schema.neighbours, what=what))}",
        _SIZE[schema.neighbours],
        "It holds against any reader, whatever they already know, whatever they compute and "
        "however long they keep it.",
        f"It speaks of this {what} alone; releases about the same units add up, which is what the "
        f"ledger's budget bounds.",
        *(
            f"There is a second budget for the same people: {other}. What both ledgers "
            "pay for is bounded by the two budgets together, not by one of them."
            for other in other_budgets
        ),
        "It assumes that the schema (columns, levels, bounds, sizes, unit) was written without "
        "looking at the private rows.",
        *(
            [
                f"The schema declares {len(schema.totals)} public totals. What they and other "
                f"knowledge tell about a unit is not protected; what this {what} adds to it is "
                "bounded as stated."
            ]
            if schema.totals
            else []
        ),
        *_public_rows(plan, what),
    ]
    if not publishable:
        lines.insert(
            0,
            f"NOT PUBLISHABLE: this {what} was made with fixed or replayed noise for tests, and "
            f"protects nobody.",
        )
    return " ".join(lines)


def _public_rows(plan: Plan, what: str) -> list[str]:
    """What to know where a method was given public rows, as its parameters say."""
    named = plan.parameters.get("public")
    if not isinstance(named, list) or not named:
        return []
    titles = ", ".join(f"'{one['name']}'" for one in named)
    return [
        f"It was made with rows that are taken for public: {titles}. It protects the units of the "
        "private rows. Whoever is among the public rows is not protected as such: they should be "
        f"other people, and what their rows tell about a unit is nothing that this {what} hides."
    ]


def meaning(cost: Cost, neighbours: str, *, what: str = "release") -> list[str]:
    """What a cost says about results, guesses and tests, a sentence each."""
    first, *rest = guesses(cost, neighbours, what=what)
    return [*_results(cost, neighbours), first, _tests(cost, neighbours), *rest]


def guesses(cost: Cost, neighbours: str, *, what: str = "release") -> list[str]:
    """How often a guess about one unit is right at most: of membership and of content, or of
    content alone."""
    if neighbours != "add-remove-one":
        return [
            "Guessing what a unit's rows say: somebody who knows everything else, thinks two "
            "versions of them equally likely, "
            f"and then guesses with the help of this {what}, {_right(best_guess(cost))}."
        ]
    twice = two_steps(cost)
    price = f" ({twice.describe().split(' (')[0]})" if twice is not None else ""
    return [
        "Guessing membership: somebody who knows everything else, thinks it equally likely that "
        "the unit is in the data or "
        f"not, and then guesses with the help of this {what}, {_right(best_guess(cost))}.",
        f"Guessing what the rows of a unit in the data say, of two versions that are equally "
        f"likely, is two such steps{price}: "
        f"the guess {_right(best_guess_in_two_steps(cost))}.",
    ]


def guess_of_answers(epsilon: Fraction) -> str:
    """The same for a person in the local model, where nobody is trusted and a report hides which
    answers were given."""
    return (
        "Guessing a person's answers: somebody who thinks two versions of them equally likely, "
        "and then guesses with the help "
        f"of one set of reports of this person, {_right(best_guess(Cost.pure(epsilon)))}. A "
        f"wallet gives out no second set; "
        "without one, every further set costs as much again."
    )


def correction(statement: str, cost: Cost, neighbours: str) -> str | None:
    """What is to be read instead of a statement of an earlier version that misread delta, or None
    where it is right."""
    return CORRECTION + " ".join(meaning(cost, neighbours)) if _OLD_WORDS in statement else None


def _results(cost: Cost, neighbours: str) -> list[str]:
    """The definition of (epsilon, delta), in words; for a zCDP cost that of one pair that follows
    from it."""
    example = ""
    if cost.rho and cost.rho <= LARGEST_RHO and cost.delta + EXAMPLE_DELTA < 1:
        cost = cost.to_approximate(cost.delta + EXAMPLE_DELTA)
        cost = Cost(epsilon=Fraction(_up(cost.epsilon, 6)), delta=cost.delta)
        example = (
            f"It implies epsilon = {show(cost.epsilon)} with delta = {show(cost.delta)}, "
            f"among other pairs. "
        )
    if cost.rho or cost.delta >= 1:
        return []
    factor = f"exp({show(cost.epsilon)})"
    if cost.epsilon < LARGEST_FACTOR:
        factor += f" (at most {_rounded_up(cost.epsilon)})"
    changed = f"{example}If the unit {_CHANGE.get(neighbours, 'had been changed')}"
    if not cost.delta:
        return [
            f"{changed}, no result could have become more than {factor} times more or less likely."
        ]
    return [
        f"{changed}, the probability of any set of results could have become at most {factor} "
        f"times as large, plus "
        f"{show(cost.delta)}; the same holds the other way round."
    ]


def _tests(cost: Cost, neighbours: str) -> str:
    """Neyman and Pearson: what a test finds, for a given rate of false alarms."""
    sought = (
        "whether the unit is in the data"
        if neighbours == "add-remove-one"
        else "one version of a unit's rows against another"
    )
    found, of = _cases(best_power(cost, ALARM), ALARM)
    test = (
        f"Testing {sought}: a test that raises a false alarm in at most {int(100 * ALARM)} of "
        f"100 cases"
    )
    if found >= of:
        return f"{test} may always find what it looks for: {NO_LIMIT}."
    return (
        f"{test} finds what it looks for in at most {found:,} of {of:,} cases, instead of "
        f"{int(of * ALARM):,}."
    )


def _right(bound: Fraction) -> str:
    right, of = _cases(bound, Fraction(1, 2))
    if right >= of:
        return f"may always be right: {NO_LIMIT}"
    return f"is right in at most {right:,} of {of:,} cases on average, instead of {of // 2:,}"


def _cases(bound: Fraction, chance: Fraction) -> tuple[int, int]:
    """The bound as so many of 100 cases, rounded up; of more cases where 100 would not tell it from
    chance, or from all."""
    of = 100
    while (
        of < MAX_CASES
        and bound != chance
        and not (of * (bound - chance) >= 1 and of * (1 - bound) >= 1)
    ):
        of *= 10
    return math.ceil(of * bound), of


def _rounded_up(epsilon: Fraction) -> str:
    """A bound on exp(epsilon), in three digits."""
    digits = _up(exp_above(epsilon) if epsilon else Fraction(1), 3)
    return f"{digits:f}" if digits < 10**6 else f"{digits:e}"


def _up(x: Fraction, digits: int) -> Decimal:
    """A promise is never rounded down."""
    return Context(prec=digits, rounding=ROUND_CEILING).divide(
        Decimal(x.numerator), Decimal(x.denominator)
    )


# The most that anybody can gain from a release: how often a guess is right, and how often a test
# finds what it looks for.
#
# All numbers are upper bounds on what a `Cost` allows, in exact arithmetic and rounded up. The
# proofs are in statement.proof.md. A guess is between two data sets that are one step of the
# neighbour relation apart and equally likely beforehand.

GRID = 10**12
"""Bounds that follow from rho are searched among multiples of 1 / GRID."""
LARGEST_EPSILON = 60
"""Beyond, exp(epsilon) says nothing: the bound is 1."""
ORDERS = (2, 3, 4, 6, 8, 16)
"""Renyi orders at which tests are bounded, beside the limit 1. Every order gives a true bound;
these are near the best."""


def best_guess(cost: Cost) -> Fraction:
    """How often a guess between two neighbouring data sets is right at most, where 1/2 is
    chance."""
    if cost.delta >= 1:
        return Fraction(1)
    if cost.rho:
        # t is how far the two laws are apart in total variation
        t = _least(lambda t: t * ln_below((1 + t) / (1 - t)) >= cost.rho, Fraction(0))
        right = (1 + t) / 2
    elif cost.epsilon > LARGEST_EPSILON:
        right = Fraction(1)
    else:
        factor = _factor(cost.epsilon)
        right = factor / (1 + factor)
    return (1 - cost.delta) * right + cost.delta


def best_guess_in_two_steps(cost: Cost) -> Fraction:
    """How often a guess is right at most between data sets that are two steps apart."""
    twice = two_steps(cost)
    return (
        best_guess(twice)
        if twice is not None
        else min(Fraction(1), 2 * best_guess(cost) - Fraction(1, 2))
    )


def two_steps(cost: Cost) -> Cost | None:
    """What holds for data sets that are two steps apart; None where rho comes with a delta, which
    has no such rule here."""
    if cost.rho:
        return None if cost.delta else Cost(rho=4 * cost.rho)
    if not cost.delta:
        return Cost(epsilon=2 * cost.epsilon)
    delta = (
        (1 + _factor(cost.epsilon)) * cost.delta if cost.epsilon <= LARGEST_EPSILON else Fraction(1)
    )
    return Cost(epsilon=2 * cost.epsilon, delta=min(delta, Fraction(1)))


def best_power(cost: Cost, alarm: Fraction) -> Fraction:
    """How often a test finds at most what it looks for, if it raises a false alarm with probability
    at most `alarm`."""
    if cost.delta + alarm >= 1:
        return Fraction(1)
    # given an event of probability 1 - delta the laws are as close as without a delta, and this
    # bounds its false alarms
    alarm = alarm / (1 - cost.delta)
    if cost.rho:
        alarm = Fraction(math.ceil(alarm * GRID), GRID)
        power = _least(lambda power: _too_far(power, alarm, cost.rho), alarm)
    elif cost.epsilon > LARGEST_EPSILON:
        power = Fraction(1)
    else:
        factor = _factor(cost.epsilon)
        power = min(factor * alarm, 1 - (1 - alarm) / factor)
    return (1 - cost.delta) * power + cost.delta


def _factor(epsilon: Fraction) -> Fraction:
    """exp(epsilon), rounded up; exactly 1 where nothing is spent."""
    return exp_above(epsilon) if epsilon else Fraction(1)


def _least(holds: Callable[[Fraction], bool], above: Fraction) -> Fraction:
    """A multiple of 1 / GRID beyond `above` for which it holds, or 1: the least one, if it then
    holds for all larger ones."""
    low, high = above.numerator * GRID // above.denominator, GRID
    while high - low > 1:
        middle = (low + high) // 2
        if holds(Fraction(middle, GRID)):
            high = middle
        else:
            low = middle
    return Fraction(high, GRID)


def _too_far(power: Fraction, alarm: Fraction, rho: Fraction) -> bool:
    """Whether two coins with these chances are certainly further apart than rho allows, at some
    order, in one direction."""
    return any(
        _kullback(p, q) >= rho
        or any(_moment(p, q, order) >= order * (order - 1) * rho for order in ORDERS)
        for p, q in ((power, alarm), (alarm, power))
    )


def _kullback(p: Fraction, q: Fraction) -> Fraction:
    """A lower bound on the Kullback-Leibler divergence of two coins."""
    return p * ln_below(p / q) + (1 - p) * ln_below((1 - p) / (1 - q))


def _moment(p: Fraction, q: Fraction, order: int) -> Fraction:
    """A lower bound on (order - 1) times the Renyi divergence of two coins."""
    return ln_below(p**order / q ** (order - 1) + (1 - p) ** order / (1 - q) ** (order - 1))
