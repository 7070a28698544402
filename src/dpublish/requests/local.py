"""What can be asked of a survey in which nobody's answer leaves their device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpublish.errors import InputError, PrivateSideError, PublishError
from dpublish.local.collect import Collector, randomize_file, result_json
from dpublish.local.device_ledger import DeviceLedger
from dpublish.local.survey import Survey
from dpublish.outputs import keep_apart, same_file
from dpublish.privacy.cost import positive
from dpublish.privacy.statement import guess_of_answers
from dpublish.requests.base import NOBODY, Caller, Request


@dataclass(frozen=True, kw_only=True)
class SurveyPlan:
    """What a survey costs each person, and per question how exact it would be."""

    survey: Survey
    people: int

    @property
    def meaning(self) -> str:
        return guess_of_answers(self.survey.cost)

    @property
    def rows(self) -> Sequence[tuple[str, Any, float]]:
        """Name, randomiser and standard error of each question."""
        return [
            (name, asked.randomizer, asked.randomizer.expected_error(self.people))
            for name, asked in self.survey.questions.items()
        ]

    def to_json(self) -> Mapping[str, Any]:
        survey = self.survey
        return {
            "survey": survey.name,
            "digest": survey.digest,
            "cost": survey.cost,
            "cap": survey.epsilon,
            "people": self.people,
            "meaning": self.meaning,
            "questions": [
                {
                    "question": name,
                    "method": one.method,
                    "epsilon": one.epsilon,
                    "standard_error": error,
                    "of": one.error_of,
                }
                for name, one, error in self.rows
            ],
        }


@dataclass(frozen=True, kw_only=True)
class PlanSurvey(Request, verb="local plan"):
    """What a survey costs and how exact it would be. Needs no answers."""

    survey: Path
    people: int = 10_000

    def run(self, caller: Caller = NOBODY) -> SurveyPlan:
        return SurveyPlan(survey=Survey.read(self.survey), people=self.people)


@dataclass(frozen=True, kw_only=True)
class Randomized:
    out: Path
    survey: Survey

    def to_json(self) -> Mapping[str, Any]:
        return {
            "out": self.out,
            "survey": self.survey.name,
            "digest": self.survey.digest,
            "cost": self.survey.cost,
        }


@dataclass(frozen=True, kw_only=True)
class Randomize(Request, verb="local randomize"):
    """Turn answers into reports that may be given to anyone. Runs where the answers are."""

    answers: Path
    survey: Path
    out: Path
    wallet: Path | None = None
    budget: str | None = None
    person: str | None = None

    def run(self, caller: Caller = NOBODY) -> Randomized:
        keep_apart(self.out, self.answers, self.survey, self.wallet)
        survey = Survey.read(self.survey)
        if self.budget is not None and self.wallet is None:
            raise InputError("--budget is the total of a wallet: give --wallet FILE too.")
        epsilon = survey.epsilon if self.budget is None else positive(self.budget, "--budget")
        held = None if self.wallet is None else DeviceLedger(self.wallet, epsilon=epsilon)
        try:
            randomize_file(survey, self.answers, self.out, wallet=held, person=self.person)
        except (PublishError, KeyboardInterrupt):
            raise
        except Exception:
            # the text of an unforeseen failure could quote an answer
            raise PrivateSideError() from None
        return Randomized(out=self.out, survey=survey)


@dataclass(frozen=True, kw_only=True)
class SurveyResults:
    """Estimates of what everybody answered."""

    survey: Survey
    people: int
    level: float
    results: Mapping[str, Any]

    def to_json(self) -> Mapping[str, Any]:
        return {
            "survey": self.survey.name,
            "digest": self.survey.digest,
            "people": self.people,
            "cost": str(self.survey.cost),
            "level": self.level,
            "questions": {name: result_json(result) for name, result in self.results.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Aggregate(Request, verb="local aggregate"):
    """Estimate, with error bars, what everybody answered. Free: it only reads reports."""

    reports: tuple[Path, ...]
    survey: Path
    level: float = 0.95
    most: int = 20
    out: Path | None = None

    def run(self, caller: Caller = NOBODY) -> SurveyResults:
        if self.out is not None:
            keep_apart(self.out, self.survey, *self.reports)
        for place, path in enumerate(self.reports):
            if any(same_file(path, earlier) for earlier in self.reports[:place]):
                raise InputError(
                    f"'{path}' is given twice, so its people would be counted twice. Name every "
                    "file once."
                )
        survey = Survey.read(self.survey)
        collector = Collector(survey)
        for path in self.reports:
            collector.read(path)
        found = SurveyResults(
            survey=survey,
            people=collector.people,
            level=self.level,
            results=collector.results(level=self.level, most=self.most),
        )
        if self.out is not None:
            try:
                text = json.dumps(found.to_json(), indent=2, ensure_ascii=False)
                self.out.write_text(f"{text}\n", encoding="utf-8")
            except OSError as error:
                raise InputError(
                    f"'{self.out}' cannot be written ({type(error).__name__})."
                ) from None
        return found
