"""What an auditor can ask: attempts to refute the privacy claim of a method, on made-up rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpublish.errors import InputError
from dpublish.requests.base import NOBODY, Caller, Relation, Request, TierName

if TYPE_CHECKING:
    from dpublish.audit import Report
    from dpublish.audit.covers import Cover
    from dpublish.audit.trials import Declined, Tier, Trial

SAMPLED_PAIRS = 2
"""The first and a middle pair are enough for a first look; `make nightly` takes ten."""


@dataclass(frozen=True, kw_only=True)
class Audited:
    """What was tried on a method, and what came of it. Survived is not verified."""

    method: str
    reports: Sequence[tuple[Trial, Report | Declined]]

    @property
    def survived(self) -> bool:
        from dpublish.audit.trials import Declined

        return all(isinstance(report, Declined) or report.passed for _, report in self.reports)

    def to_json(self) -> Mapping[str, Any]:
        return {
            "method": self.method,
            "survived": self.survived,
            "reports": [
                {
                    "neighbours": trial.neighbours,
                    "case": trial.case,
                    "claim": trial.claim.to_json(),
                    **report.to_json(),
                }
                for trial, report in self.reports
            ],
        }


@dataclass(frozen=True, kw_only=True)
class Audit(Request, verb="audit"):
    """Try to refute a method's privacy claim on tiny made-up inputs; all tiers when none is
    named."""

    method: str
    tiers: tuple[TierName, ...] = ()
    neighbours: Relation | None = None
    samples: int = 2000

    def run(self, caller: Caller = NOBODY) -> Audited:
        reports: list[tuple[Trial, Report | Declined]] = []
        for trial in self._trials():
            for tier in [one.value for one in self.tiers] or _tiers_of(trial):
                caller.progress(f"{tier} audit, {trial.case}")
                reports.append((trial, trial.run(tier, samples=self.samples, pairs=SAMPLED_PAIRS)))
        return Audited(method=self.method, reports=reports)

    def _trials(self) -> list[Trial]:
        from dpublish.audit.trials import trials_of

        found = trials_of(self.method)
        chosen = [trial for trial in found if self.neighbours in (None, trial.neighbours)]
        if not chosen:
            known = " and ".join(sorted({trial.neighbours for trial in found}))
            raise InputError(
                f"'{self.method}' is not audited under {self.neighbours}; its neighbours are: "
                f"{known}."
            )
        return chosen


def _tiers_of(trial: Trial) -> Sequence[Tier]:
    """All that every method is held to, and the one about samples where something is claimed about
    them."""
    from dpublish.audit.trials import TIERS

    return [*TIERS] if isinstance(trial.distributional, str) else [*TIERS, "distributional"]


# What can be asked of the proofs: which code each covers, and whether it is what was read.


@dataclass(frozen=True, kw_only=True)
class ProofList:
    """By proof, each function that it covers: the hash that the proof names, that of the installed
    code, and whether they are one."""

    covers: Mapping[str, Sequence[Mapping[str, Any]]]

    def to_json(self) -> Mapping[str, Any]:
        proofs = [
            {"proof": proof, "ok": all(one["ok"] for one in code), "covers": code}
            for proof, code in self.covers.items()
        ]
        return {"ok": all(one["ok"] for one in proofs), "proofs": proofs}


@dataclass(frozen=True, kw_only=True)
class Proofs(Request, verb="proofs"):
    """Every proof, the code that it covers, and whether that code is as it was when the proof was
    read last."""

    def run(self, caller: Caller = NOBODY) -> ProofList:
        from dpublish.audit.covers import SOURCE, covers, proof_files

        return ProofList(
            covers={
                proof.relative_to(SOURCE / "dpublish").as_posix(): list(map(_held, covers(proof)))
                for proof in proof_files()
            }
        )


def _held(one: Cover) -> dict[str, Any]:
    try:
        actual: str | None = one.actual
    except LookupError:
        actual = None
    return {
        "name": one.name,
        "sha256": one.recorded,
        "installed": actual,
        "ok": one.recorded == actual,
    }
