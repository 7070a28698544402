"""Everything that runs on private data has a built-in audit: a method added without one fails
here."""

from __future__ import annotations

import pytest

from dpublish.audit.trials import TIERS, TRIALS, trials_of
from dpublish.catalogue import RELEASES, load, methods
from dpublish.local.survey import METHODS as SURVEY_METHODS
from dpublish.releases.base import release_class


def test_every_method_has_a_trial() -> None:
    assert list(TRIALS) == list(methods())
    assert set(SURVEY_METHODS) == set(methods("local"))


@pytest.mark.parametrize("name", methods())
def test_a_record_says_what_the_class_says(name: str) -> None:
    record = methods()[name]
    found = load(record.mechanism)
    assert found.method == name
    assert getattr(found, "kind", None) == record.kind or record.door == "local"
    assert callable(load(record.trial))


@pytest.mark.parametrize("kind", RELEASES)
def test_every_kind_has_a_class_that_reads_it(kind: str) -> None:
    assert release_class(kind).kind == kind


@pytest.mark.parametrize("name", TRIALS)
def test_trials_are_complete(name: str) -> None:
    """Both relations where a method has both, unique names, a sampled tier always, and reasons
    where a tier is left out."""
    made = trials_of(name)
    assert len({trial.name for trial in made}) == len(made)
    assert all(trial.method == name for trial in made)
    if name in methods("release"):
        assert {trial.neighbours for trial in made} == {"replace-one", "add-remove-one"}
    for trial in made:
        settings = {tier: getattr(trial, tier) for tier in TIERS}
        assert not isinstance(settings["sampled"], str)
        assert sum(isinstance(setting, str) for setting in settings.values()) <= 3
        assert all(len(setting) > 20 for setting in settings.values() if isinstance(setting, str))
        assert len(trial.pairs) >= 1
        assert all(one != other for one, other in trial.pairs)
