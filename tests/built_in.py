"""The built-in trials as fixtures: tests of a method audit the inputs that users audit it on, and
keep no copy of them."""

from __future__ import annotations

from dataclasses import replace

from dpublish.audit import Report
from dpublish.audit.trials import Declined, Trial, trials_of
from dpublish.audit.trials.trial import Exact


def trial(method: str, case: str) -> Trial:
    return next(one for one in trials_of(method) if one.case == case)


def exact_on_every_pair(tried: Trial) -> Report:
    """The exact tier on all pairs of a trial, instead of as many as an audit from the command line
    takes."""
    assert isinstance(tried.exact, Exact)
    report = replace(tried, exact=replace(tried.exact, pairs=len(tried.pairs))).run("exact")
    assert not isinstance(report, Declined)
    assert report.passed, report.summary()
    return report
