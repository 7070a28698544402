"""What can be asked before anything is paid: plans for every door, rehearsals, comparisons."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpublish.catalogue import methods
from dpublish.curator.other_people import require_other_people
from dpublish.errors import PlanError, PublishError, QueryError
from dpublish.methods.registry import method_from_settings, method_named
from dpublish.outputs import require_free
from dpublish.privacy.cost import Cost, positive, show
from dpublish.requests.base import NOBODY, Caller, Request, read_schema

if TYPE_CHECKING:
    from dpublish.curator.rehearse import Answered, Rehearsal
    from dpublish.declare.schema import Schema
    from dpublish.methods.base import Mechanism
    from dpublish.privacy.plan import Plan as Planned


CHOSEN_ELSEWHERE = (
    "It chooses its columns privately; those that it chose on the stand-in rows do not answer all "
    "of the questions."
)
IF_EVEN = "if your rows lie as evenly as the stand-in rows; else its plan names another method"


def costs_of(epsilon: str | None, delta: str | None, rho: str | None) -> list[Cost]:
    """One cost, or several where amounts are separated by commas."""
    from dpublish.curator.gate import as_cost

    if rho is not None:
        return [as_cost(epsilon, delta, one.strip()) for one in rho.split(",")]
    if epsilon is None:
        return [as_cost(None, delta, None)]
    return [as_cost(one.strip(), delta, None) for one in epsilon.split(",")]


def method_for(name: str | None, schema: Schema) -> str:
    """The method that is asked for, or the usual one for such data."""
    return name or ("histogram" if schema.items is None else "frequent-itemsets")


@dataclass(frozen=True, kw_only=True)
class Plans:
    """One plan per cost, and what to expect of questions at each. `epsilon` was solved for."""

    plans: tuple[Planned, ...]
    expected: tuple[Answered, ...] = ()
    epsilon: str | None = None
    figure: Path | None = None

    def to_json(self) -> Mapping[str, Any]:
        from dpublish.curator.rehearse import NOT_ABOUT

        asked = {
            "expected": [vars(one) for one in self.expected] or None,
            "note": NOT_ABOUT if self.expected else None,
            "epsilon": self.epsilon,
            "figure": self.figure,
        }
        plans = [plan.to_json() for plan in self.plans]
        return {
            **(plans[0] if len(plans) == 1 else {"plans": plans}),
            **{name: value for name, value in asked.items() if value is not None},
        }


@dataclass(frozen=True, kw_only=True)
class Priced(Request):
    """What a method would do at some costs, by public facts."""

    schema: Path | None = None
    epsilon: str | None = None
    delta: str | None = None
    rho: str | None = None
    method: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Plan(Priced, verb="plan"):
    """The price of a release, session or solution, from public facts alone. Nothing is read and
    nothing is spent. Questions are tried on stand-in rows."""

    size: int | None = None
    questions: tuple[str, ...] = ()
    error: float | None = None
    level: float = 0.95
    figure: Path | None = None
    public: str | None = None
    form: str = "plain"
    k: int | None = None

    def run(self, caller: Caller = NOBODY) -> Plans:
        if self.method in methods("solve"):
            return self._solve(self.method)
        if self.schema is None:
            raise PlanError(f"A plan of {self.method or 'a release'} needs --schema FILE.")
        schema = read_schema(self.schema, self.size)
        name = method_for(self.method, schema)
        door = "online" if name in methods("online") else "release"
        method = method_from_settings(name, self.settings, door)  # type: ignore[arg-type]
        require_other_people(method)
        if door == "online" and (self.questions or self.error is not None):
            raise PlanError(
                "A session promises one error for all its answers, which its plan states: "
                "--question "
                "and --error go with methods of 'release'."
            )
        if self.error is not None:
            return self._solved_for(method, schema)
        costs = costs_of(self.epsilon, self.delta, self.rho)
        plans = tuple(method.plan(schema, cost) for cost in costs)
        if not self.questions:
            return Plans(plans=plans)
        from dpublish.curator.rehearse import rehearse

        tried = rehearse(
            method,
            schema,
            costs,
            questions=self.questions,
            level=self.level,
            progress=caller.progress,
        )
        return Plans(plans=plans, expected=tried.answers, figure=self._drawn(method, schema, tried))

    def _solve(self, name: str) -> Plans:
        from dpublish.optimize import plan
        from dpublish.requests.solve import mechanism_of

        if self.public is None:
            raise PlanError(f"A plan of {name} needs --public, the public part of the problem.")
        mechanism, _ = mechanism_of(name, self.public, self.form, self.k, self.settings)
        if self.rho is not None or self.epsilon is None:
            raise PlanError("Solvers take --epsilon (and --delta).")
        return Plans(
            plans=tuple(
                plan(mechanism, epsilon=one.strip(), delta=self.delta)
                for one in self.epsilon.split(",")
            )
        )

    def _solved_for(self, method: Mechanism, schema: Schema) -> Plans:
        from dpublish.curator.rehearse import epsilon_for

        if len(self.questions) != 1 or self.error is None:
            raise PlanError("--error goes with one --question, whose margin it is.")
        if self.epsilon is not None or self.rho is not None:
            raise PlanError("--error solves for epsilon: leave --epsilon and --rho out.")
        delta = None if self.delta is None else positive(self.delta, "delta")
        found, tried = epsilon_for(
            method, schema, self.questions[0], self.error, delta=delta, level=self.level
        )
        return Plans(
            plans=(method.plan(schema, tried.plans[0].cost),),
            expected=tried.answers,
            epsilon=show(found),
        )

    def _drawn(self, method: Mechanism, schema: Schema, tried: Rehearsal) -> Path | None:
        """Margin against epsilon, for the first question; around the one epsilon if there is
        one."""
        if self.figure is None:
            return None
        from dpublish.curator.rehearse import margin_figure, rehearse

        costs = [plan.cost for plan in tried.plans]
        if any(cost.rho for cost in costs):
            raise PlanError("--figure draws margins against epsilon: give --epsilon.")
        if len(costs) == 1:
            more = [
                replace(costs[0], epsilon=costs[0].epsilon * times)
                for times in (Fraction(1, 4), Fraction(1, 2), 2, 4)
            ]
            extra = rehearse(method, schema, more, questions=self.questions, level=self.level)
            tried = replace(tried, answers=(*tried.answers, *extra.answers))
        margin_figure(tried, self.figure)
        return self.figure


@dataclass(frozen=True, kw_only=True)
class Rehearse(Priced, verb="rehearse"):
    """A whole release on stand-in rows, at several costs, with questions. Free, and not about the
    data."""

    schema: Path = field()
    questions: tuple[str, ...] = ()
    public: str | None = None
    size: int | None = None
    level: float = 0.95
    out: Path | None = None
    overwrite: bool = False

    def run(self, caller: Caller = NOBODY) -> Rehearsal:
        from dpublish.curator.rehearse import default_questions, rehearse

        require_free(self.out, self.overwrite, self.schema, self.public)
        schema = read_schema(self.schema, self.size)
        method = method_from_settings(method_for(self.method, schema), self.settings)
        require_other_people(method)
        columns = getattr(method, "columns", None) or ()
        usual = default_questions(schema)
        own = [one for one in usual if _about(one, schema) <= {*columns}] if columns else usual
        found = rehearse(
            method,
            schema,
            costs_of(self.epsilon, self.delta, self.rho),
            questions=self.questions or own,
            public=self.public,
            level=self.level,
            progress=caller.progress,
        )
        if self.out is not None:
            found.releases[0].report(self.out)
        return found


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The expected error of each method, per cost; None where it has none, with the reason."""

    questions: tuple[str, ...]
    epsilons: tuple[str, ...]
    errors: Mapping[str, tuple[float | None, ...]]
    reasons: Mapping[str, str]
    warnings: Mapping[str, tuple[str, ...]]
    recommended: str | None
    rehearsals: Mapping[str, Rehearsal]
    target: str | None = None
    """The label to predict, where methods are compared for one: `areas` then, and no errors."""
    areas: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    worlds: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=dict)
    """What `areas` are the means of: where a few columns decide the label, and where all do."""
    alternatives: Mapping[str, str] = field(default_factory=dict)
    """Methods that may be taken as well, with when."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What each method was told, for `--set`; those that are missing have their defaults."""

    def to_json(self) -> Mapping[str, Any]:
        from dpublish.curator.rehearse import NOT_ABOUT

        areas = {
            "target": self.target,
            "areas": {method: list(found) for method, found in self.areas.items()},
            **{
                f"areas_{words}_columns": {
                    method: list(worlds[i]) for method, worlds in self.worlds.items()
                }
                for i, words in enumerate(("few", "all"))
            },
        }
        return {
            "note": NOT_ABOUT,
            "questions": list(self.questions),
            "epsilons": list(self.epsilons),
            **({} if self.target is None else areas),
            "errors": {method: list(errors) for method, errors in self.errors.items()},
            "not_suitable": dict(self.reasons),
            "warnings": {method: list(said) for method, said in self.warnings.items() if said},
            "recommended": self.recommended,
            "alternatives": dict(self.alternatives),
            "settings": {method: dict(some) for method, some in self.settings.items() if some},
            "answers": {
                method: [vars(one) for one in tried.answers]
                for method, tried in self.rehearsals.items()
            },
        }


@dataclass(frozen=True, kw_only=True)
class Compare(Request, verb="compare"):
    """The expected error of each suitable method for the user's questions, or how well a target can
    be learnt from it, without data."""

    schema: Path
    epsilon: str = "1"
    delta: str | None = None
    questions: tuple[str, ...] = ()
    target: str | None = None
    size: int | None = None
    methods: tuple[str, ...] = ()

    def run(self, caller: Caller = NOBODY) -> Compared:
        from dpublish.curator.rehearse import default_questions, payable, rehearse

        schema = read_schema(self.schema, self.size)
        if schema.items is not None:
            raise PlanError(
                "Methods for baskets answer other questions than conditions. Take "
                "frequent-itemsets, unless you want what a paper's own method shows: 'dpublish "
                "plan' with --method frequent-itemsets, set-partition or basic-itemsets."
            )
        for name in self.methods:
            method_named(name)
        if self.target is not None:
            schema = replace(schema, target=schema.column(self.target).name)
            if not self.questions:
                return self._for_target(schema, self.target, caller)
        asked = self.questions or tuple(default_questions(schema))
        if not asked:
            raise PlanError("Give --question, or a target in the schema or with --target.")
        costs = costs_of(self.epsilon, self.delta, None)
        errors: dict[str, tuple[float | None, ...]] = {}
        reasons: dict[str, str] = {}
        tried: dict[str, Rehearsal] = {}
        candidates = _candidates(schema, asked, self.methods)
        for name, settings in candidates.items():
            caller.progress(f"trying {name}")
            try:
                method = method_from_settings(name, settings)
                found = rehearse(
                    method,
                    schema,
                    [payable(method, schema, cost) for cost in costs],
                    questions=asked,
                    runs=5,
                    progress=caller.progress,
                )
            except QueryError as error:
                chooses = name == "projected-histogram"  # whatever columns the questions name
                reasons[name] = CHOSEN_ELSEWHERE if chooses else str(error)
                continue
            except PublishError as error:
                reasons[name] = str(error)
                continue
            tried[name] = found
            errors[name] = tuple(
                _mean([one.error for one in found.answers[i * len(asked) : (i + 1) * len(asked)]])
                for i in range(len(costs))
            )
        said = {
            name: tuple(one for plan in found.plans for one in plan.warnings)
            for name, found in tried.items()
        }
        best, others = recommend_for(errors, said)
        return Compared(
            questions=asked,
            epsilons=tuple(str(cost.epsilon) for cost in costs),
            errors=errors,
            reasons=reasons,
            warnings={name: found.plans[0].warnings for name, found in tried.items()},
            recommended=best,
            alternatives=others,
            rehearsals=tried,
            settings={name: candidates[name] for name in tried},
        )

    def _for_target(self, schema: Schema, target: str, caller: Caller) -> Compared:
        """By the area under the ROC curve of what is learnt from releases of stand-in rows."""
        from dpublish.curator.predicting import expected_areas, recommend

        costs = costs_of(self.epsilon, self.delta, None)
        worlds, reasons, warnings = expected_areas(
            schema, target, costs, methods=self.methods, progress=caller.progress
        )
        best, others = recommend(worlds, warnings)
        return Compared(
            questions=(),
            epsilons=tuple(str(cost.epsilon) for cost in costs),
            errors={},
            reasons=reasons,
            warnings=warnings,
            recommended=best,
            rehearsals={},
            target=target,
            areas={
                name: tuple(_mean(pair) for pair in zip(few, every, strict=True))
                for name, (few, every) in worlds.items()
            },
            worlds={name: (tuple(few), tuple(every)) for name, (few, every) in worlds.items()},
            alternatives=others,
        )


def recommend_for(
    errors: Mapping[str, Sequence[float | None]], warnings: Mapping[str, Sequence[str]]
) -> tuple[str | None, dict[str, str]]:
    """The method with the least errors among those whose own plan names none of the others.
    Stand-in rows lie evenly, so that a method which spreads rows evenly looks better than it is."""

    def total(name: str) -> float:
        return sum(one or 0.0 for one in errors[name])

    def names_another(name: str) -> bool:
        return any(
            re.search(rf"(?<![\w-]){other}(?![\w-])", said)
            for other in errors
            if other != name
            for said in warnings.get(name, ())
        )

    named = [name for name in errors if names_another(name)]
    best = min([name for name in errors if name not in named] or errors, key=total, default=None)
    if best is None:
        return None, {}
    return best, {name: IF_EVEN for name in named if total(name) < total(best)}


def _candidates(
    schema: Schema, questions: Sequence[str], wanted: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Methods that count conditions, with the columns that the questions name."""
    named = set().union(*(_about(one, schema) for one in questions))
    columns = ",".join(name for name in schema.columns if name in named)
    found = {
        "histogram": {"columns": columns},
        "joined-histograms": {},
        "generalized-table": {"columns": columns},
        **({"projected-histogram": {}} if schema.target else {}),
        **({"interval-tree": {"columns": columns}} if len(named) == 1 else {}),
    }
    return {name: found.get(name, {}) for name in wanted} if wanted else found


def _about(question: str, schema: Schema) -> set[str]:
    """The columns that a question names."""
    from dpublish.query.predicate import columns_of, parse_predicate

    domain = schema.domain(list(schema.columns), bins=2)
    return {domain.names[place] for place in columns_of(parse_predicate(question, domain))}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
