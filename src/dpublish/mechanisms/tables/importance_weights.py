"""Importance weights: public rows, weighted so that they stand for the private ones.

In: coded private rows, and public rows that are read before anything is spent. Out: one weight a public row, the coefficients
that make it, and the noisy numbers they came from. Whoever has the public rows can then estimate any function of a row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.cost import Cost, exact, positive
from dpublish.domain import MAX_CELLS, Axis, Domain
from dpublish.errors import PlanError
from dpublish.mechanisms.base import CodedRows, Content, Mechanism
from dpublish.mechanisms.tables.histogram import total_is_public
from dpublish.mechanisms.weighting.balanced import BalancedCalibration, balanced_coefficients, heaviest_weight
from dpublish.mechanisms.weighting.moments import Fit, candidate_pairs, choose_set, measure, pair_cells
from dpublish.mechanisms.weighting.planning import (
    REGULARIZATIONS,
    Forecast,
    Money,
    calibrate,
    default_rounds,
    error_table,
    forecast,
    gram_of,
    make_purse,
    recommended,
    setting_for,
)
from dpublish.mechanisms.weighting.public_sets import Loaded, load_sets
from dpublish.mechanisms.weighting.records import calibration_facts, purse_facts, read_calibration, read_pairs, read_purse
from dpublish.mechanisms.weighting.wording import balanced_sentences, moment_sentences
from dpublish.noise.base import Noise
from dpublish.plan import Plan
from dpublish.public.linear_features import FloatArray
from dpublish.public.public_rows import PublicSet
from dpublish.public.weight_features import Numbers, WeightFeatures
from dpublish.schema import Schema

Amount = Fraction | float | int | str
Variant = Literal["moments", "output", "gaussian", "objective"]
MAX_DIMENSION = 1 << 16
"""Features under "moments": a pass over the rows for each table, and no matrix."""
MAX_LOGISTIC_DIMENSION = 4096
"""Features of the logistic variants, which work with a matrix of all pairs of them."""


@dataclass(frozen=True, kw_only=True)
class ImportanceWeights(Mechanism):
    """Weights on public rows (Ji and Elkan 2013), by noisy moments or by noisy logistic regression.

    Input: coded rows, and public rows. Neighbours: replace-one or add-remove-one, of a unit with at most c rows.
    Output: noisy counts or noisy coefficients, and weights that are a function of them and of the public rows.
    Privacy: epsilon-DP, rho-zCDP or (epsilon, delta)-DP (theorems 1 to 5 of importance_weights.proof.md).
    Relies on: exact noise; rows per unit bounded by c; the public rows being public, chosen without looking at private ones.
    Shows / hides: shares of levels and of measured pairs, or d coefficients; nothing else about any row.
    Accuracy: a share of a level has error about 2 c tables / (epsilon n) under "moments"; `plan` states it for every variant.

    Parameters
    ----------
    public : path of a table or of a release (.dpr), a frame, a `SqlSource`, a release, or "uniform" for rows drawn evenly.
    alternatives : further public sets; which one is used is then chosen privately, for `choice_share` of the cost.
    columns : columns to weight by; all that schema and public rows have in common when left out.
    variant : "moments" matches noisy counts; "output", "gaussian", "objective" are logistic regression with noise in the
        coefficients (gamma-norm, Gaussian) or in the objective.
    pairs : pairs of columns to use as well, written "a*b"; "*b" means b with every other column.
    choose_pairs : how many more pairs to choose privately ("moments"); from public facts when left out.
    bins : number of bins for numeric columns that declare none ("moments").
    regularization : lambda in the units of features in [0, 1] (logistic variants), or the expected 1 / (size of coefficients)^2
        ("moments"); chosen from public or released numbers when left out.
    choice_share : share of the cost for each kind of private choice.
    release_share : share of epsilon that covers rounding and solver error under "objective".
    max_weight : weights are cut at this multiple of the mean.
    publish : "rows" puts the public rows into the release, "hash" only their SHA-256 and where they came from.
    public_size : how many rows to draw for "uniform".
    resolution : number of bins that a numeric column is read with (logistic variants).
    """

    method: ClassVar[str] = "importance-weights"
    kind: ClassVar[str] = "weighted-rows"

    public: object = None
    alternatives: Sequence[object] = ()
    columns: Sequence[str] | None = None
    variant: Variant = "moments"
    pairs: Sequence[str] = ()
    choose_pairs: int | None = None
    bins: int = 10
    regularization: Amount | None = None
    choice_share: Amount = Fraction(1, 10)
    release_share: Amount = Fraction(1, 50)
    max_weight: Amount | None = None
    publish: Literal["rows", "hash"] = "rows"
    public_size: int = 10_000
    resolution: int = 256

    def plan(self, schema: Schema, cost: Cost) -> Plan:
        self._check(schema, cost)
        loaded = self._load(schema)
        features = self._features(loaded.axes)
        money = Money.of(cost)
        facts, sentences, warnings = (
            self._plan_moments(schema, cost, loaded, features, money)
            if self.variant == "moments"
            else self._plan_balanced(schema, cost, loaded, features, money)
        )
        return Plan(
            method=self.method,
            kind=self.kind,
            schema=schema,
            cost=cost,
            parameters=self._parameters(loaded, features),
            domain=Domain(loaded.axes),
            facts={"variant": self.variant, "dimension": features.dimension, **facts},
            sentences=tuple(sentences),
            warnings=(*loaded.warnings, *warnings),
        )

    def needs(self, plan: Plan) -> CodedRows:
        assert plan.domain is not None
        return CodedRows(plan.domain)

    def run(self, noise: Noise, numbers: Sequence[NDArray[Any]], plan: Plan) -> Content:
        loaded = self._load(plan.schema)
        assert plan.domain is not None
        assert plan.domain.axes == loaded.axes
        features = self._features(loaded.axes)
        facts = plan.facts
        purse = read_purse(facts["purse"])
        chosen = loaded.sets[choose_set(noise, features, numbers, loaded.sets, purse, facts["nominal_rows"] or 1)]
        if self.variant == "moments":
            precision = None if self.regularization is None else float(exact(self.regularization, "regularization"))
            features, fit = measure(
                noise, features, numbers, chosen, purse,
                rounds=facts["rounds"], total=facts["public_total"], precision=precision, largest_pair=facts["largest_pair"],
            )  # fmt: skip
            return self._moments_content(plan, features, chosen, fit)
        calibration = read_calibration(facts["calibration"])
        multiples = balanced_coefficients(
            noise, features, numbers, chosen.codes, chosen.base, normaliser=facts["nominal_rows"], calibration=calibration
        )
        return self._balanced_content(plan, features, chosen, calibration, multiples)

    def _check(self, schema: Schema, cost: Cost) -> None:
        if schema.items is not None:
            raise PlanError("Importance weights need [columns]; this schema declares set-valued data ([items]).")
        if self.public is None:
            raise PlanError('Importance weights need public rows: give public = "FILE" (or "uniform").')
        if self.variant not in ("moments", "output", "gaussian", "objective"):
            raise PlanError(f"variant = '{self.variant}' is not known. Use moments, output, gaussian or objective.")
        if not (cost.epsilon > 0 or cost.rho > 0):
            raise PlanError("Importance weights cost an epsilon or a rho above 0.")
        if self.variant in ("output", "objective") and cost.kind != "pure":
            raise PlanError(f"variant = '{self.variant}' costs a pure epsilon: leave delta and rho out, or use gaussian.")
        if self.variant == "gaussian" and cost.kind == "pure":
            raise PlanError("variant = 'gaussian' costs rho, or epsilon with delta: give rho = ... or delta = ...")
        if self.publish not in ("rows", "hash"):
            raise PlanError(f"publish = '{self.publish}' is not known. Use rows or hash.")
        for name, value, least, most in (
            ("bins", self.bins, 1, 1 << 16),
            ("resolution", self.resolution, 2, 1 << 16),
            ("public_size", self.public_size, 1, 10**8),
            ("choose_pairs", self.choose_pairs or 0, 0, 1000),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise PlanError(f"{name} must be a whole number from {least} to {most}, not {value!r}.")
        if self.choose_pairs and self.variant != "moments":
            raise PlanError("choose_pairs belongs to variant = 'moments'. Name pairs = ... instead.")
        for name, share in (("choice_share", self.choice_share), ("release_share", self.release_share)):
            if not 0 < exact(share, name) < Fraction(1, 2):
                raise PlanError(f"{name} must lie between 0 and 1/2, not {share}.")
        if self.regularization is not None and not 2.0**-32 < float(positive(self.regularization, "regularization")) < 2.0**60:
            raise PlanError(f"regularization must be of moderate size, not {self.regularization}.")
        if self.max_weight is not None and positive(self.max_weight, "max_weight") < 1:
            raise PlanError(f"max_weight must be at least 1 (weights have mean 1), not {self.max_weight}.")

    @property
    def _numbers(self) -> Numbers:
        return "bins" if self.variant == "moments" else "scaled"

    @cached_property
    def _cache(self) -> dict[str, Loaded]:
        """Public rows by schema, so that what was planned with is what is run with."""
        return {}

    def _load(self, schema: Schema) -> Loaded:
        if schema.digest not in self._cache:
            self._cache[schema.digest] = load_sets(
                (self.public, *self.alternatives),
                schema,
                self.columns,
                numbers=self._numbers,
                bins=self.bins,
                resolution=self.resolution,
                public_size=self.public_size,
            )
        return self._cache[schema.digest]

    def _features(self, axes: tuple[Axis, ...]) -> WeightFeatures:
        features = WeightFeatures(axes, read_pairs(self.pairs, [axis.name for axis in axes]), self._numbers)
        most = MAX_DIMENSION if self.variant == "moments" else MAX_LOGISTIC_DIMENSION
        if features.dimension > most:
            raise PlanError(
                f"The columns and pairs have {features.dimension} features; variant = '{self.variant}' takes at most {most}. "
                "Leave out columns with many levels, or pairs, or use fewer bins."
            )
        return features

    def _plan_moments(
        self, schema: Schema, cost: Cost, loaded: Loaded, features: WeightFeatures, money: Money
    ) -> tuple[dict[str, Any], list[str], list[str]]:
        rows = nominal_rows(schema)
        largest = largest_pair(rows, money)
        fitting = len(candidate_pairs(features, largest))
        wanted = default_rounds(money, rows, len(loaded.axes)) if self.choose_pairs is None else self.choose_pairs
        rounds = min(wanted, fitting)
        most = features.dimension + sum(sorted(pair_cells(features, largest))[-rounds:] if rounds else [])
        if most > MAX_DIMENSION:
            raise PlanError(
                f"The columns, pairs and {rounds} more pairs may have {most} features; at most {MAX_DIMENSION} are supported. "
                "Use a smaller choose_pairs, fewer bins, or leave out columns with many levels."
            )
        if len(loaded.sets) > 1 and rows is None:
            raise PlanError(f"Schema '{schema.name}' declares no nominal_size, and a choice of public sets compares with it.")
        purse = make_purse(
            money, schema, [group.codes for group in features.groups],
            sets=len(loaded.sets), rounds=rounds, choice_share=exact(self.choice_share, "choice_share"),
        )  # fmt: skip
        public = total_is_public(schema, Domain(loaded.axes))
        deviations = [math.sqrt(purse.variance(amount)) for amount in purse.tables]
        facts: dict[str, Any] = {
            "sensitivity": str(purse.l1 if purse.law == "laplace" else purse.l2),
            "law": purse.law,
            "purse": purse_facts(purse),
            "rounds": rounds,
            "largest_pair": largest,
            "nominal_rows": rows,
            "public_total": schema.size if public else None,
            "count_deviations": deviations,
            "share_errors": None if rows is None else [value / rows for value in deviations],
        }
        sentences = moment_sentences(schema, cost, loaded, features, purse, facts)
        return facts, sentences, []

    def _plan_balanced(
        self, schema: Schema, cost: Cost, loaded: Loaded, features: WeightFeatures, money: Money
    ) -> tuple[dict[str, Any], list[str], list[str]]:
        rows = nominal_rows(schema)
        if rows is None:
            key = "size" if schema.neighbours == "replace-one" else "nominal_size"
            raise PlanError(
                f"Schema '{schema.name}' declares no {key}, and the mean loss is divided by it. Add {key} = ... to [dataset]."
            )
        purse = make_purse(
            money, schema, [1], sets=len(loaded.sets), rounds=0, choice_share=exact(self.choice_share, "choice_share")
        )
        money = Money(money.law, purse.tables[0])
        # theorems 2 to 4 need rows no longer than 1; this holds for every schema, and is checked all the same
        if features.longest_square() > 1:
            raise PlanError("The features cannot be scaled to length 1. Leave columns out.")
        moved = schema.unit.max_rows * (2 if schema.neighbours == "replace-one" else 1)
        forecasts = forecast(
            features, gram_of(features, loaded.sets[0]),
            moved=moved, rows=rows, money=money, regularizations=REGULARIZATIONS,
        )  # fmt: skip
        advice = recommended(forecasts)
        strength = advice if self.regularization is None else float(exact(self.regularization, "regularization"))
        # the solver sees vectors divided by R, so its ridge is lambda / R^2; a double, so that proof and solver agree on it
        ridge = Fraction(strength / features.divisor**2)
        heaviest = max(heaviest_weight(one.base, rows) for one in loaded.sets)
        widest = max(loaded.sets, key=lambda one: one.rows)
        setting = setting_for(features, schema, rows, widest, heaviest, ridge)
        calibration = calibrate(self.variant, setting, money, exact(self.release_share, "release_share"))
        length = calibration.noise_length(features.dimension, rows) / features.divisor
        facts: dict[str, Any] = {
            "sensitivity": str(calibration.sensitivity),
            "purse": purse_facts(purse),
            "nominal_rows": rows,
            "norm_bound": features.divisor,
            "regularization": strength,
            "recommended_regularization": advice,
            "calibration": calibration_facts(calibration),
            "expected_noise_length": length,
            "expected": error_table(forecasts, strength, money),
        }
        near: Forecast = min(forecasts, key=lambda one: abs(math.log(one.regularization / strength)))
        sentences, warnings = balanced_sentences(schema, cost, loaded, features, money, facts, near, self.variant)
        return facts, sentences, warnings

    def _parameters(self, loaded: Loaded, features: WeightFeatures) -> dict[str, Any]:
        names = [axis.name for axis in loaded.axes]
        return {
            "public": [{"name": one.name, "rows": one.rows, "sha256": one.digest} for one in loaded.sets],
            "columns": names,
            "variant": self.variant,
            "pairs": [f"{names[a]}*{names[b]}" for a, b in features.pairs],
            "choose_pairs": self.choose_pairs,
            "bins": self.bins,
            "regularization": None if self.regularization is None else str(exact(self.regularization, "regularization")),
            "choice_share": str(exact(self.choice_share, "choice_share")),
            "release_share": str(exact(self.release_share, "release_share")),
            "max_weight": None if self.max_weight is None else str(exact(self.max_weight, "max_weight")),
            "publish": self.publish,
            "resolution": self.resolution,
        }

    def _moments_content(self, plan: Plan, features: WeightFeatures, chosen: PublicSet, fit: Fit) -> Content:
        assert fit.raked is not None
        values = np.concatenate([table.counts for table in fit.tables])
        return self._content(
            plan, features, chosen, values,
            coefficients=np.concatenate(fit.raked.coefficients),
            ridge=np.concatenate(fit.raked.ridges),
            gradient=np.sqrt(np.concatenate(fit.raked.variances)),
            masses=fit.raked.masses,
            facts={"rows": fit.rows, "grid": "1", "coefficient_deviation": 0.0, "sweeps": fit.raked.sweeps},
        )  # fmt: skip

    def _balanced_content(
        self,
        plan: Plan,
        features: WeightFeatures,
        chosen: PublicSet,
        calibration: BalancedCalibration,
        multiples: NDArray[np.int64],
    ) -> Content:
        rows, divisor, size = plan.facts["nominal_rows"], features.divisor, features.dimension
        coefficients = multiples.astype(np.float64) * float(calibration.grid) / divisor
        scores = features.scores(chosen.codes, coefficients)
        masses = chosen.base * np.exp(scores - scores.max())
        return self._content(
            plan, features, chosen, multiples,
            coefficients=coefficients,
            ridge=np.full(size, float(calibration.ridge) * divisor**2),
            gradient=np.full(size, calibration.gradient_deviation(size, rows) * divisor),
            masses=masses / masses.sum(),
            facts={
                "rows": float(rows),
                "grid": str(calibration.grid),
                "coefficient_deviation": calibration.coefficient_deviation(size) / divisor,
            },
        )  # fmt: skip

    def _content(
        self,
        plan: Plan,
        features: WeightFeatures,
        chosen: PublicSet,
        values: NDArray[np.int64],
        *,
        coefficients: FloatArray,
        ridge: FloatArray,
        gradient: FloatArray,
        masses: FloatArray,
        facts: dict[str, Any],
    ) -> Content:
        """The release. Everything here is a function of noisy numbers and public rows."""
        if self.max_weight is not None:
            masses = truncated(masses, float(exact(self.max_weight, "max_weight")))
        groups = np.concatenate([np.full(group.width, place) for place, group in enumerate(features.groups)])
        tables: dict[str, dict[str, NDArray[Any]]] = {
            "weights": {"weight": masses * chosen.rows, "base": chosen.base * chosen.rows},
            "coefficients": {
                "group": groups.astype(np.uint32),
                "value": values.astype(np.int64),
                "coefficient": coefficients,
                "ridge": ridge,
                "deviation": gradient,
            },
        }
        if self.publish == "rows":
            tables["rows"] = chosen.columns()
        return Content(
            facts={
                "variant": self.variant,
                "encoding": [axis.to_json() for axis in features.axes],
                "pairs": [list(pair) for pair in features.pairs],
                "numbers": features.numbers,
                "public": {"name": chosen.name, "rows": chosen.rows, "sha256": chosen.digest},
                "public_total": plan.facts.get("public_total"),
                **facts,
            },
            tables=tables,
            domain=fitting_domain(features.axes),
        )


def truncated(masses: FloatArray, limit: float) -> FloatArray:
    """Weights cut at `limit` times their mean, then scaled to add up to 1 again."""
    cut = np.minimum(masses, limit * masses.sum() / len(masses))
    shares: FloatArray = cut / cut.sum()
    return shares


def fitting_domain(axes: tuple[Axis, ...]) -> Domain:
    """As many of the first columns as a manifest's domain may have cells for; the release's facts list all."""
    size, kept = 1, []
    for axis in axes:
        size *= axis.cardinality
        if size > MAX_CELLS:
            break
        kept.append(axis)
    return Domain(tuple(kept))


def nominal_rows(schema: Schema) -> int | None:
    """The public number that stands for the number of private rows."""
    size = schema.size_or_nominal
    return None if size is None else size * schema.unit.max_rows


def largest_pair(rows: int | None, money: Money) -> int:
    """How many cells a pair may have to be worth measuring: at least about ten rows a cell for each unit of noise."""
    epsilon = float(money.amount) if money.law == "laplace" else math.sqrt(2.0 * float(money.amount))
    return max(4, min(2048, int((rows or 1000) * min(1.0, epsilon) / 10)))
