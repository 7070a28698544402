"""Everything that runs on private data has a built-in audit: a method added without one fails here."""

from __future__ import annotations

import pytest

from dpublish.audit.trials import TIERS, TRIALS, trials_of
from dpublish.cli.solve import Problem
from dpublish.curator.sessions.session import METHODS as ONLINE_METHODS
from dpublish.local.survey import METHODS as SURVEY_METHODS
from dpublish.methods.registry import METHODS as RELEASE_METHODS


def test_every_method_has_a_trial() -> None:
    problems = {problem.value for problem in Problem}
    assert set(TRIALS) == {*RELEASE_METHODS, *ONLINE_METHODS, *SURVEY_METHODS, *problems}


@pytest.mark.parametrize("name", TRIALS)
def test_trials_are_complete(name: str) -> None:
    """Both relations where a method has both, unique names, a sampled tier always, and reasons where a tier is left out."""
    made = trials_of(name)
    assert len({trial.name for trial in made}) == len(made)
    assert all(trial.method == name for trial in made)
    if name in RELEASE_METHODS:
        assert {trial.neighbours for trial in made} == {"replace-one", "add-remove-one"}
    for trial in made:
        settings = {tier: getattr(trial, tier) for tier in TIERS}
        assert not isinstance(settings["sampled"], str)
        assert sum(isinstance(setting, str) for setting in settings.values()) <= 3
        assert all(len(setting) > 20 for setting in settings.values() if isinstance(setting, str))
        assert len(trial.pairs) >= 1
        assert all(one != other for one, other in trial.pairs)
