"""Audits: four ways of trying to refute a privacy claim. They work on any `mechanism(noise, data)
-> output`.

    exact     every outcome of a small mechanism on all neighbouring inputs, in rational arithmetic
    replay    the same answers on a neighbour must lead to the same calls and the same output
    sampled   a lower confidence bound on epsilon from many runs
    twin      the whole command line on two neighbouring files, noise and clock frozen

`distributional` is about another definition (Roth 2010, section 3.7): samples of one population
instead of neighbours.

Each returns a report with `passed`, `summary()` and `to_json()`. A mechanism survives an audit; no
audit verifies one.
Audit on made-up rows: reports and tapes quote what they were given.
"""

from dpublish.audit import neighbours
from dpublish.audit.distributional import DistributionalReport, distributional
from dpublish.audit.exact import ExactReport, exact
from dpublish.audit.replay import ReplayReport, replay
from dpublish.audit.report import Finding, Report
from dpublish.audit.sampled import SampledReport, sampled
from dpublish.audit.subject import Subject, subject
from dpublish.audit.twin import TwinReport, twin

__all__ = [
    "exact",
    "replay",
    "sampled",
    "twin",
    "distributional",
    "neighbours",
    "subject",
    "Subject",
    "Finding",
    "Report",
    "ExactReport",
    "ReplayReport",
    "SampledReport",
    "TwinReport",
    "DistributionalReport",
]
