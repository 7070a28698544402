"""The privacy statement says what was proved, for every kind of cost: its numbers are held to exact
trade-off curves."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import norm

import exact_laws
from dpublish.declare.schema import Schema
from dpublish.local.unary import BinaryResponse
from dpublish.privacy.cost import Cost, exp_above, largest_rho
from dpublish.privacy.plan import Plan, Settings
from dpublish.privacy.statement import (
    best_guess,
    best_guess_in_two_steps,
    best_power,
    correction,
    guess_of_answers,
    guesses,
    meaning,
    privacy_statement,
    two_steps,
)
from dpublish.releases.base import open_release

RELATIONS = ("add-remove-one", "replace-one")
FIVE = 0.05
RIGHT = re.compile(r"right in at most ([\d,]+) of ([\d,]+) cases on average, instead of ([\d,]+)")
FOUND = re.compile(
    r"false alarm in at most 5 of 100 cases finds what it looks for in at most ([\d,]+) of "
    r"([\d,]+) cases"
)
PAIR = re.compile(
    r"at most exp\(([\d.e-]+)\) \(at most ([\d.e+]+)\) times as large, plus ([\d.e-]+);"
)


def plan_of(cost: Cost, relation: str = "replace-one", unit: str = "") -> Plan:
    text = (
        f'[dataset]\nname = "t"\nneighbours = "{relation}"\n{unit}\n[columns.a]\nkind = "boolean"\n'
    )
    return Plan(method="m", kind="k", schema=Schema.from_toml(text), cost=cost, settings=Settings())


def statement(cost: Cost, relation: str = "replace-one", *, publishable: bool = True) -> str:
    return privacy_statement(plan_of(cost, relation), publishable=publishable)


def share(text: str, of: str) -> Fraction:
    return Fraction(int(text.replace(",", "")), int(of.replace(",", "")))


def printed(text: str) -> tuple[list[Fraction], Fraction]:
    """The shares of right guesses that a statement prints, one step first, and the share that tests
    find."""
    guessed = re.findall(rf"Guessing .*?(?:{RIGHT.pattern}|may always be right)", text)
    tested = re.findall(rf"Testing .*?(?:{FOUND.pattern}|may always find what it looks for)", text)
    assert len(tested) == 1
    shares = [share(number, of) if of else Fraction(1) for number, of, *_ in (*guessed, *tested)]
    return shares[:-1], shares[-1]


def test_how_it_reads() -> None:
    text = statement(Cost.pure(1), "add-remove-one")
    assert text.startswith(
        "This release satisfies epsilon = 1 (pure differential privacy) for one unit "
        "(add-remove-one)."
    )
    assert (
        "A unit is one row. In words: If the unit had been left out of the data, or added to it, "
        "no result" in text
    )
    assert (
        "no result could have become more than exp(1) (at most 2.72) times more or less likely"
        in text
    )
    assert "Guessing membership: somebody who knows everything else" in text
    assert (
        "is right in at most 74 of 100 cases on average, instead of 50. Testing whether the unit "
        "is in the data" in text
    )
    assert "is two such steps (epsilon = 2): the guess is right in at most 89 of 100 cases" in text
    same = statement(Cost.pure(1))
    assert "membership" not in same
    assert "Guessing what a unit's rows say" in same
    assert "two such steps" not in same


def test_each_sentence_says_what_it_speaks_of() -> None:
    """Who is protected, whether membership or content is guessed, and whether a release or a
    session is spoken of."""
    unit = 'unit = "patient"\nmax_rows_per_unit = 3'
    plan = plan_of(
        Cost.zcdp("1/8"),
        "add-remove-one",
        f'{unit}\n[columns.patient]\nkind = "categorical"\nlevels = ["x"]',
    )
    text = privacy_statement(plan, publishable=True, what="session")
    assert (
        "A unit is all rows that share one value of 'patient' (at most 3 of them are used)" in text
    )
    assert "with the help of this session" in text
    assert "release" not in text.replace("releases about", "")
    assert "two such steps (rho = 0.5)" in text
    assert plan.meaning == guesses(plan.cost, "add-remove-one")
    assert all(sentence in plan.text() for sentence in plan.meaning)
    assert plan.to_json()["meaning"] == plan.meaning


def test_test_releases_say_so_first() -> None:
    assert statement(Cost.pure(1), publishable=False).startswith("NOT PUBLISHABLE")


@pytest.mark.parametrize(
    ("epsilon", "said"),
    [
        ("0.7", "exp(0.7) (at most 2.02) times"),
        ("1.1", "exp(1.1) (at most 3.01) times"),
        ("1/3", "exp(1/3) (at most 1.40) times"),
    ],
)
def test_a_promise_is_never_rounded_down(epsilon: str, said: str) -> None:
    assert said in statement(Cost.pure(epsilon))
    assert f"{said} as large, plus 1.2344e-5; the same" in statement(
        Cost.approximate(epsilon, "1.2344e-5")
    )


class TestGaussian:
    """The exact trade-off curve of Gaussian noise: with mu^2 = 2 rho a test of level a has power
    Phi(Phi^-1(a) + mu)."""

    @pytest.mark.parametrize(
        "rho", ["1/1000000", "1/1000", "1/100", "1/20", "1/8", "1/2", "1", "2", "4", "8"]
    )
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_printed_numbers_hold(self, rho: str, relation: str) -> None:
        mu = math.sqrt(2 * Fraction(rho))
        text = statement(Cost.zcdp(rho), relation)
        pair = PAIR.search(text)
        assert pair is not None
        assert excess(mu, float(pair[1])) <= float(pair[3])
        assert math.exp(float(pair[1])) <= float(pair[2])
        rights, found = printed(text)
        assert norm.cdf(norm.ppf(FIVE) + mu) <= found
        for steps, said in enumerate(rights, start=1):
            assert norm.cdf(steps * mu / 2) <= said
        assert len(rights) == (2 if relation == "add-remove-one" else 1)

    @pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "4"])
    @pytest.mark.parametrize("delta", ["1e-9", "1e-6", "1e-3"])
    def test_noise_for_an_epsilon_and_a_delta(self, epsilon: str, delta: str) -> None:
        mu = math.sqrt(2 * largest_rho(epsilon, delta))
        rights, found = printed(statement(Cost.approximate(epsilon, delta), "add-remove-one"))
        assert norm.cdf(norm.ppf(FIVE) + mu) <= found
        assert norm.cdf(mu / 2) <= rights[0]
        assert norm.cdf(mu) <= rights[1]

    def test_why_no_statement_speaks_of_exceptions(self) -> None:
        """'More than exp(epsilon) times likelier, except with probability delta' is false for the
        noise that was calibrated."""
        cost = Cost.zcdp("1/100").to_approximate("1e-9")
        mu = math.sqrt(2 / 100)
        exceptions = norm.sf(float(cost.epsilon) / mu - mu / 2)
        assert exceptions == pytest.approx(7.65e-9, rel=1e-3)
        assert excess(mu, float(cost.epsilon)) <= 1e-9
        mu = math.sqrt(2 * largest_rho("0.1", "1e-6"))
        assert norm.sf(0.1 / mu - mu / 2) / 1e-6 == pytest.approx(41.8, abs=0.1)
        assert excess(mu, 0.1) <= 1e-6
        for cost in (Cost.zcdp("1/100"), Cost.approximate("0.1", "1e-6")):
            for relation in RELATIONS:
                assert "except with" not in statement(cost, relation)

    @pytest.mark.parametrize("variance", [0.3, 1, 2.5, 50])
    @pytest.mark.parametrize("delta", ["0", "1e-3", "1/50"])
    def test_discrete_gaussian(self, variance: float, delta: str) -> None:
        """Counts of a unit in and out of the data, and of two versions of it; some of the time the
        truth is given away."""
        reach = math.ceil(12 * math.sqrt(variance)) + 2
        cost = Cost.zcdp(1 / (2 * Fraction(variance)), delta)
        laws = {shift: exact_laws.discrete_gaussian(variance, shift, reach) for shift in (-1, 0, 1)}
        near = exact_laws.revealing(laws[0], laws[1], float(Fraction(delta)))
        far = exact_laws.revealing(laws[-1], laws[1], float(Fraction(delta)))
        rights, found = printed(statement(cost, "add-remove-one"))
        assert exact_laws.right(*near) <= rights[0]
        assert exact_laws.right(*far) <= rights[1]
        assert exact_laws.power(*near, FIVE) <= found


def excess(mu: float, epsilon: float) -> float:
    """The least delta for which Gaussian noise is (epsilon, delta)-private (Balle and Wang
    2018)."""
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
    )


def rational(epsilon: str) -> Fraction:
    """A rational below exp(epsilon), and very near it: laws made of it are exact and
    epsilon-private."""
    return exp_above(Fraction(epsilon)) - Fraction(1, 10**30)


class TestExactLaws:
    """Noise whose probabilities are rational: what is printed is no less than the truth, and hardly
    more."""

    @pytest.mark.parametrize("epsilon", ["1/100", "1/10", "1/2", "1", "3", "10"])
    @pytest.mark.parametrize("delta", ["0", "1e-9", "1e-3", "1/10"])
    @pytest.mark.parametrize("relation", RELATIONS)
    def test_the_worst_mechanism_of_all(self, epsilon: str, delta: str, relation: str) -> None:
        """Randomised response that gives the truth away with probability delta reaches the bounds:
        they are not slack."""
        factor, part = rational(epsilon), Fraction(delta)
        yes = factor / (1 + factor)
        pair = exact_laws.revealing([yes, 1 - yes], [1 - yes, yes], part)
        cost = Cost.approximate(epsilon, delta)
        rights, found = printed(statement(cost, relation))
        for truth, bound, said in (
            (exact_laws.right(*pair), best_guess(cost), rights[0]),
            (exact_laws.power(*pair, Fraction(1, 20)), best_power(cost, Fraction(1, 20)), found),
        ):
            assert truth <= bound <= said
            assert bound - truth < Fraction(1, 10**25)
            assert said - truth <= max(Fraction(1, 100), 1 - truth)

    @pytest.mark.parametrize("epsilon", ["1/10", "1", "3"])
    def test_laplace(self, epsilon: str) -> None:
        ratio = 1 / rational(epsilon)
        rights, found = printed(statement(Cost.pure(epsilon), "add-remove-one"))
        laws = {shift: exact_laws.geometric(ratio, shift, 40) for shift in (-1, 0, 1)}
        assert all(sum(law) == 1 for law in laws.values())
        assert exact_laws.right(laws[0], laws[1]) <= rights[0]
        assert exact_laws.right(laws[-1], laws[1]) <= rights[1]
        assert exact_laws.power(laws[0], laws[1], Fraction(1, 20)) <= found

    @pytest.mark.parametrize("epsilon", ["1/2", "1", "4"])
    def test_randomised_response_of_the_local_model(self, epsilon: str) -> None:
        """The coins of a person's device, by their stated law."""
        coin = BinaryResponse(epsilon)
        yes, no = ([coin.law(value)[report] for report in (0, 1)] for value in (1, 0))
        text = guess_of_answers(Fraction(epsilon))
        assert "all reports" not in text, "two runs without a wallet are two sets, and tell more"
        assert "one set of reports of this person" in text
        said = [share(*match[:2]) for match in RIGHT.findall(text)]
        assert exact_laws.right(yes, no) <= said[0] < exact_laws.right(yes, no) + Fraction(1, 50)

    @pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "2", "3"])
    def test_the_bound_from_rho_is_reached(self, epsilon: str) -> None:
        """Randomised response is (epsilon tanh(epsilon / 2))-concentrated: no better bound on
        guesses follows from rho."""
        half = float(Fraction(epsilon)) / 2
        truth = 1 / (1 + math.exp(-2 * half))
        rho = 2 * half * math.tanh(half)
        for order in (1.01, 1.1, 1.5, 2, 3, 5, 10, 100):
            moment = truth**order * (1 - truth) ** (1 - order) + (1 - truth) ** order * truth ** (
                1 - order
            )
            assert math.log(moment) / (order - 1) <= order * rho
        assert float(best_guess(Cost.zcdp(rho))) == pytest.approx(truth, abs=1e-9)


class TestTwoSteps:
    @pytest.mark.parametrize(
        "cost", [Cost.approximate(1, "1e-3"), Cost.approximate("1/4", "1/100"), Cost.pure(2)]
    )
    def test_two_steps_are_one_step_twice(self, cost: Cost) -> None:
        """Power of power: what a test finds two steps away is at most the bound on what it finds
        one step away, twice."""
        twice = two_steps(cost)
        assert twice is not None
        alarm = Fraction(1, 50)
        again = best_power(cost, best_power(cost, alarm))
        assert again <= best_power(twice, alarm) + Fraction(1, 10**50)
        least = Fraction(1, 1000)  # where false alarms are rare the two agree
        assert best_power(cost, best_power(cost, least)) == pytest.approx(
            best_power(twice, least), abs=1e-30
        )

    def test_a_delta_beside_rho_goes_by_total_variation(self) -> None:
        cost = Cost.zcdp("1/8", "1e-3")
        assert two_steps(cost) is None
        assert best_guess_in_two_steps(cost) == 2 * best_guess(cost) - Fraction(1, 2)


@settings(max_examples=60, deadline=None)
@given(
    amount=st.fractions(0, 10**6) | st.integers(0, 40).map(lambda n: Fraction(1, 10**n)),
    delta=st.just(Fraction(0))
    | st.fractions(0, 3)
    | st.integers(1, 60).map(lambda n: Fraction(1, 10**n)),
    concentrated=st.booleans(),
    relation=st.sampled_from([*RELATIONS, "something else"]),
)
def test_every_cost_has_its_sentences(
    amount: Fraction, delta: Fraction, concentrated: bool, relation: str
) -> None:
    """Also absurd ones, as a file from elsewhere may claim them; what is said never falls below the
    bound."""
    cost = Cost.zcdp(amount, delta) if concentrated else Cost.approximate(amount, delta)
    text = " ".join(meaning(cost, relation))
    bounds = [best_guess(cost), best_guess_in_two_steps(cost)]
    assert Fraction(1, 2) <= bounds[0] <= bounds[1] <= 1
    assert Fraction(1, 20) <= best_power(cost, Fraction(1, 20)) <= 1
    for match in RIGHT.findall(text):
        assert share(match[2], match[1]) == Fraction(1, 2)
    said = [share(*match[:2]) for match in RIGHT.findall(text)]
    for bound, shown in zip(bounds, said, strict=False):
        assert bound <= shown < 1
    assert len(said) + text.count("may always be right") == (
        2 if relation == "add-remove-one" else 1
    )


def test_statements_of_earlier_versions_are_corrected() -> None:
    old = (
        "no result could have become more than exp(1) = 2.72 (except with probability 1e-6) "
        "times more or less likely."
    )
    cost = Cost.approximate(1, "1e-6")
    fixed = correction(old, cost, "replace-one")
    assert fixed is not None
    assert all(sentence in fixed for sentence in meaning(cost, "replace-one"))
    assert correction(statement(cost), cost, "replace-one") is None
    kept = open_release(
        Path(__file__).parents[1] / "golden" / "first" / "releases" / "solution-sets.dpr"
    )
    assert kept.privacy.startswith(kept.manifest["privacy"]["statement"] + " Correction: ")
    assert "at most exp(4) (at most 54.6) times as large, plus 1e-6" in kept.privacy


def test_the_table_of_the_promise() -> None:
    """docs/promise.md tells what epsilons mean; its numbers are these bounds, rounded up."""
    page = (Path(__file__).parents[2] / "docs" / "promise.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (epsilon|rho) = ([\d./]+) \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE
    )
    assert len(rows) >= 6
    for kind, amount, one, two, found in rows:
        cost = Cost.pure(amount) if kind == "epsilon" else Cost.zcdp(amount)
        exact = (best_guess(cost), best_guess_in_two_steps(cost), best_power(cost, Fraction(1, 20)))
        assert [int(one), int(two), int(found)] == [math.ceil(100 * bound) for bound in exact]
