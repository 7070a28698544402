"""The privacy statement of a release, in words that a data officer and a lawyer can read, made from
public facts.

It says what a cost gives: the most that any guess and any test can gain. Proofs:
statement.proof.md.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from dpublish.privacy.cost import Cost, exp_above, show
from dpublish.privacy.gains import best_guess, best_guess_in_two_steps, best_power, two_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpublish.privacy.plan import Plan

EXAMPLE_DELTA = Fraction(1, 10**9)
"""A zCDP cost has an epsilon for every delta; the one for this is stated as an example."""
ALARM = Fraction(1, 20)
"""The rate of false alarms of the tests that statements speak of."""
MOST_CASES = 10**9
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
    ]
    if not publishable:
        lines.insert(
            0,
            f"NOT PUBLISHABLE: this {what} was made with fixed or replayed noise for tests, and "
            f"protects nobody.",
        )
    return " ".join(lines)


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
        of < MOST_CASES
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
