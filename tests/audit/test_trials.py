"""The built-in audits. Every day: replay of each on a few pairs, and one exact law a family.
Nightly: all tiers of all.

The nightly sampled tier has a family-wise false-alarm rate of 1e-3 over all trials together: each
gets an equal part, and within one the rate is divided over ten pairs and twenty-five events. The
same audit with a tap that gives a sixteenth of the noise must fail: that is the planted bug of
every trial, and shows that its events can see a leak.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpublish.audit import Report
from dpublish.audit.trials import TRIALS, Declined, Tier, Trial, trials_of
from dpublish.audit.trials.trial import Exact
from dpublish.catalogue import methods
from dpublish.declare.schema import Schema
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost

from .cheat import cheap

FAMILY_WISE = 1e-3
cached_trials = functools.cache(trials_of)


def counts() -> dict[str, int]:
    """How many trials each name has, stated so that collecting the tests plans nothing; a test
    holds it to the truth."""
    several = {
        "histogram": 6,
        "discovery": 5,
        "projected-histogram": 3,
        "joined-histograms": 10,
        "importance-weights": 6,
        "generalized-table": 3,
        "private-classifier": 4,
        "frequent-itemsets": 3,
        "set-partition": 2,
        "basic-itemsets": 2,
        "multiplicative-weights": 3,
        "net": 3,
        "workload": 8,
        "interval-tree": 10,
        "halfspaces": 3,
        "k-median": 3,
        "set-cover": 5,
        "hadamard": 2,
        "min-cut": 7,
        "vertex-cover": 6,
        "public-projects": 6,
        "median-mechanism": 3,
        "online-multiplicative-weights": 7,
    }
    return {name: several.get(name, 1) for name in TRIALS}


EACH = [(name, place) for name, count in counts().items() for place in range(count)]
each_trial = pytest.mark.parametrize(("name", "place"), EACH, ids=lambda part: str(part))


def survived(trial: Trial, tier: Tier, **keywords: Any) -> Report | Declined:
    report = trial.run(tier, **keywords)
    if not isinstance(report, Declined):
        assert report.passed, report.summary()
    return report


def test_the_counts_are_right() -> None:
    assert {name: len(cached_trials(name)) for name in TRIALS} == counts()
    assert len(TRIALS) >= 20


@pytest.mark.parametrize("name", TRIALS)
def test_replay_on_a_few_pairs(name: str) -> None:
    for trial in cached_trials(name):
        survived(trial, "replay", pairs=2)


@pytest.mark.parametrize(
    "name", ["importance-weights", "basic-itemsets", "net", "public-projects", "kary"]
)
def test_exact_law_of_one_method_a_family(name: str) -> None:
    survived(cached_trials(name)[0], "exact", pairs=2)


def test_an_exact_tier_that_cannot_be_enumerated_is_a_mistake_of_the_trial() -> None:
    trial = replace(cached_trials("net")[0], exact=Exact(max_branches=2))
    with pytest.raises(AssertionError, match="More than 2 branches"):
        trial.run("exact")


@pytest.mark.nightly
@each_trial
def test_exact(name: str, place: int) -> None:
    survived(cached_trials(name)[place], "exact")


@pytest.mark.nightly
@each_trial
def test_replay(name: str, place: int) -> None:
    survived(cached_trials(name)[place], "replay")


@pytest.mark.nightly
@each_trial
def test_sampled(name: str, place: int) -> None:
    """Up to 10 pairs x 25 events each, family-wise error 1e-3 over all."""
    survived(
        cached_trials(name)[place], "sampled", false_alarm=FAMILY_WISE / len(EACH), first_seed=1000
    )


@pytest.mark.nightly
@each_trial
def test_twin(name: str, place: int) -> None:
    """The whole command line. Sessions and solvers too: what is asked, shown and written is
    compared byte by byte."""
    report = survived(cached_trials(name)[place], "twin")
    if not isinstance(report, Declined):
        assert report.to_json()["exit_codes"] == [0] * len(report.to_json()["commands"]), (
            report.summary()
        )


# Draws that take no epsilon: the randomisers of the local model, and vertex orders, whose weights
# the mechanism makes itself.
WITHOUT_EPSILON = {"vertex-cover", *methods("local")}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "place"), [entry for entry in EACH if entry[0] not in WITHOUT_EPSILON], ids=str
)
def test_a_sixteenth_of_the_noise_is_found(name: str, place: int) -> None:
    """The planted bug of every trial that draws its noise from a tap with an epsilon."""
    trial = cached_trials(name)[place]
    # weights fitted to Gaussian moments, or to a moved objective, hardly ever repeat: few runs see
    # only a coarser cheat
    coarse = {
        ("importance-weights", "Gaussian noise"),
        ("private-classifier", "noise in the objective"),
    }
    found(trial, draws=cheap(64 if (name, trial.case.rpartition(", ")[2]) in coarse else 16))


@pytest.mark.nightly
@pytest.mark.parametrize("place", range(counts()["vertex-cover"]))
def test_an_order_with_hardly_any_hallucinated_edges_is_found(place: int) -> None:
    """Drawn as if a thousand times the epsilon had been paid."""
    trial = cached_trials("vertex-cover")[place]
    mechanism = trial.call.mechanism  # type: ignore[attr-defined]
    plan = mechanism.plan(Schema(name="planted", neighbours="add-remove-one"), Cost.pure(1000))
    found(
        replace(
            trial,
            call=lambda noise, content: mechanism.run(noise, trial.call.numbers(content), plan),
        )
    )  # type: ignore[attr-defined]


def found(trial: Trial, **keywords: Any) -> None:
    """By a small audit, or else by one of the size that runs every night."""
    for size in ({"samples": 800, "pairs": 3}, {}):
        report = trial.run("sampled", false_alarm=FAMILY_WISE / len(EACH), **size, **keywords)
        assert not isinstance(report, Declined)
        if not report.passed:
            return
    pytest.fail(report.summary())


def half_wrong(report: Callable[[Noise, Any], Any]) -> Callable[[Noise, Any], Any]:
    """Half of the reports are the value itself."""
    return lambda noise, value: (
        report(noise, value) if int(noise.integers(2, size=1)[0]) else ("true", repr(value))
    )


@pytest.mark.nightly
@pytest.mark.parametrize("name", methods("local"))
def test_a_randomiser_that_tells_the_truth_half_of_the_time_is_found(name: str) -> None:
    trial = cached_trials(name)[0]
    found(replace(trial, call=half_wrong(trial.call)))
