"""Importance weights: public rows, weighted so that they stand for the private ones.

In: coded private rows, and public rows that are read before anything is spent. Out: one weight a
public row, the coefficients that make it, and the noisy numbers they came from. Whoever has the
public rows can then estimate any function of a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import MAX_CELLS, Axis, Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError
from dpublish.methods.base import CodedRows, Mechanism, Output
from dpublish.methods.field_types import Interval
from dpublish.methods.importance_weights.balanced import (
    BalancedCalibration,
    balanced_coefficients,
)
from dpublish.methods.importance_weights.moments import Amounts, Fit, Pair, choose_set, measure
from dpublish.methods.importance_weights.public_sets import Loaded, load_sets
from dpublish.models.linear_features import NormBound, Numbers, WeightFeatures
from dpublish.models.public_rows import PublicSet
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost, exact
from dpublish.privacy.plan import Plan, Settings, hidden

Amount = Fraction | float | int | str
Variant = Literal["moments", "output", "gaussian", "objective"]
SHARE = Interval(above=0, below=Fraction(1, 2))


def noisy_weights(
    method: ImportanceWeights,
    noise: Noise,
    features: WeightFeatures,
    numbers: Sequence[NDArray[Any]],
    loaded: Loaded,
    settings: AnyWeights,
) -> Output:
    """The mechanism: choose a public set, measure (counts, or coefficients), weigh its rows."""
    place = choose_set(
        noise, features, numbers, loaded.sets, settings.amounts, settings.nominal_rows or 1
    )
    chosen = loaded.sets[place]
    if isinstance(settings, MomentSettings):
        given = method.regularization
        features, fit = measure(
            noise,
            features,
            numbers,
            chosen,
            settings.amounts,
            rounds=settings.rounds,
            total=settings.public_total,
            precision=None if given is None else float(exact(given, "regularization")),
            largest_pair=settings.largest_pair,
        )
        return method.moments_content(settings, features, chosen, fit)
    multiples = balanced_coefficients(
        noise,
        features,
        numbers,
        chosen.codes,
        chosen.base,
        normaliser=settings.nominal_rows,
        calibration=settings.calibration,
    )
    return method.balanced_content(settings, features, chosen, multiples)


@dataclass(frozen=True, kw_only=True)
class MomentSettings(Settings):
    """Noisy tables of counts: what each of them spends, and how many pairs are chosen."""

    domain: Domain
    amounts: Amounts = hidden()
    variant: Variant
    dimension: int
    rounds: int
    largest_pair: int
    nominal_rows: int | None
    public_total: int | None

    def facts(self) -> dict[str, Any]:
        budget, shown = self.amounts.budget, super().facts()
        return {
            **{name: shown.pop(name) for name in ("variant", "dimension")},
            "sensitivity": str(budget.sensitivity),
            "law": budget.law,
            "purse": amounts_facts(self.amounts),
            **shown,
        }


@dataclass(frozen=True, kw_only=True)
class BalancedSettings(Settings):
    """Noisy logistic regression: what is minimised, and with what noise."""

    domain: Domain
    amounts: Amounts = hidden()
    calibration: BalancedCalibration = hidden()
    variant: Variant
    dimension: int
    nominal_rows: int
    norm_bound: float
    regularization: float
    recommended_regularization: float

    @property
    def public_total(self) -> None:
        """The mean loss knows no public total."""
        return

    def facts(self) -> dict[str, Any]:
        shown = super().facts()
        return {
            **{name: shown.pop(name) for name in ("variant", "dimension")},
            "sensitivity": str(self.calibration.sensitivity),
            "purse": amounts_facts(self.amounts),
            **shown,
            "calibration": calibration_facts(self.calibration),
        }


AnyWeights = MomentSettings | BalancedSettings


@dataclass(frozen=True, kw_only=True)
class ImportanceWeights(Mechanism):
    """Weights on public rows (Ji and Elkan 2013), by noisy moments or by noisy logistic regression.

    Input: coded rows, and public rows. Neighbours: replace-one or add-remove-one, of a unit with at
    most c rows.
    Output: noisy counts or noisy coefficients, and weights that are a function of them and of the
    public rows.
    Privacy: epsilon-DP, rho-zCDP or (epsilon, delta)-DP (theorems 1 to 5 of
    importance_weights.proof.md).
    Relies on: exact noise; rows per unit bounded by c; the public rows being public, chosen without
    looking at private ones.
    Shows / hides: shares of levels and of measured pairs, or d coefficients; nothing else about any
    row.
    Accuracy: a share of a level has error about 2 c tables / (epsilon n) under "moments"; `plan`
    states it for every variant.

    Parameters
    ----------
    public : path of a table or of a release (.dpr), a frame, a `SqlSource`, a release, or "uniform"
        for rows drawn evenly.
    alternatives : further public sets; which one is used is then chosen privately, for
        `choice_share` of the cost.
    columns : columns to weight by; all that schema and public rows have in common when left out.
    variant : "moments" matches noisy counts; "output", "gaussian", "objective" are logistic
        regression with noise in the coefficients (gamma-norm, Gaussian) or in the objective.
    pairs : pairs of columns to use as well, written "a*b"; "*b" means b with every other column.
    choose_pairs : how many more pairs to choose privately ("moments"); from public facts when left
        out.
    bins : number of bins for numeric columns that declare none ("moments").
    regularization : lambda in the units of features in [0, 1] (logistic variants), or the expected
        1 / (size of coefficients)^2 ("moments"); chosen from public or released numbers when left
        out.
    choice_share : share of the cost for each kind of private choice.
    release_share : share of epsilon that covers rounding and solver error under "objective".
    max_weight : weights are cut at this multiple of the mean.
    publish : "rows" puts the public rows into the release, "hash" only their SHA-256 and their
        title.
    titles : what the release calls the public sets, first `public`, then the alternatives; "public
        1" and so on when left out. Where they were read from is never published.
    public_size : how many rows to draw for "uniform".
    resolution : number of bins that a numeric column is read with (logistic variants).
    norm_bound : what bounds the length of a row (logistic variants): the root of the number of
        "columns" and pairs, or of the "dimension", that is, of all features, as in the paper.

    Examples
    --------
    >>> ImportanceWeights(public="public.csv", publish="hash").variant
    'moments'
    """

    public: object = None
    alternatives: Sequence[object] = ()
    columns: Sequence[str] | None = None
    variant: Variant = "moments"
    pairs: Sequence[str] = ()
    choose_pairs: Annotated[int | None, Interval(0, 1000)] = None
    bins: Annotated[int, Interval(1, 1 << 16)] = 10
    regularization: Amount | None = None
    choice_share: Annotated[Amount, SHARE] = Fraction(1, 10)
    release_share: Annotated[Amount, SHARE] = Fraction(1, 50)
    max_weight: Amount | None = None
    publish: Literal["rows", "hash"] = "rows"
    titles: Sequence[str] = ()
    public_size: Annotated[int, Interval(1, 10**8)] = 10_000
    resolution: Annotated[int, Interval(2, 1 << 16)] = 256
    norm_bound: NormBound = "columns"

    def plan(self, schema: Schema, cost: Cost) -> Plan[AnyWeights]:
        from dpublish.methods.importance_weights.plan import plan_weights

        return plan_weights(self, schema, cost)

    def statistic(self, plan: Plan[AnyWeights]) -> CodedRows:
        return CodedRows(plan.settings.domain, ordered=self.variant != "moments")

    def run(self, noise: Noise, numbers: Sequence[NDArray[Any]], plan: Plan[AnyWeights]) -> Output:
        loaded = self.loaded(plan.schema)
        assert plan.settings.domain.axes == loaded.axes
        return noisy_weights(
            self, noise, self.features_of(loaded.axes), numbers, loaded, plan.settings
        )

    @property
    def _numbers(self) -> Numbers:
        return "bins" if self.variant == "moments" else "scaled"

    @cached_property
    def _cache(self) -> dict[str, Loaded]:
        """Public rows by schema, so that what was planned with is what is run with."""
        return {}

    def loaded(self, schema: Schema) -> Loaded:
        if schema.digest not in self._cache:
            self._cache[schema.digest] = load_sets(
                (self.public, *self.alternatives),
                schema,
                self.columns,
                numbers=self._numbers,
                bins=self.bins,
                resolution=self.resolution,
                public_size=self.public_size,
                titles=self.titles,
            )
        return self._cache[schema.digest]

    def features_of(self, axes: tuple[Axis, ...]) -> WeightFeatures:
        pairs = read_pairs(self.pairs, [axis.name for axis in axes])
        return WeightFeatures(axes, pairs, self._numbers, self.norm_bound)

    def moments_content(
        self, settings: MomentSettings, features: WeightFeatures, chosen: PublicSet, fit: Fit
    ) -> Output:
        """What the noisy counts say."""
        assert fit.raked is not None
        return self._content(
            settings,
            features,
            chosen,
            np.concatenate([table.counts for table in fit.tables]),
            coefficients=np.concatenate(fit.raked.coefficients),
            ridge=np.concatenate(fit.raked.ridges),
            gradient=np.sqrt(np.concatenate(fit.raked.variances)),
            masses=fit.raked.masses,
            facts={
                "rows": fit.rows,
                "grid": "1",
                "coefficient_deviation": 0.0,
                "sweeps": fit.raked.sweeps,
            },
        )

    def balanced_content(
        self,
        settings: BalancedSettings,
        features: WeightFeatures,
        chosen: PublicSet,
        multiples: NDArray[np.int64],
    ) -> Output:
        """What the noisy coefficients say."""
        rows, calibration = settings.nominal_rows, settings.calibration
        divisor, size = features.divisor, features.dimension
        coefficients = multiples.astype(np.float64) * float(calibration.grid) / divisor
        scores = features.scores(chosen.codes, coefficients)
        masses = chosen.base * np.exp(scores - scores.max())
        return self._content(
            settings, features, chosen, multiples,
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
        settings: AnyWeights,
        features: WeightFeatures,
        chosen: PublicSet,
        values: NDArray[np.int64],
        *,
        coefficients: Floats,
        ridge: Floats,
        gradient: Floats,
        masses: Floats,
        facts: dict[str, Any],
    ) -> Output:
        """The release. Everything here is a function of noisy numbers and public rows."""
        if self.max_weight is not None:
            masses = truncated(masses, float(exact(self.max_weight, "max_weight")))
        groups = np.concatenate(
            [np.full(group.width, place) for place, group in enumerate(features.groups)]
        )
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
        return Output(
            facts={
                "variant": self.variant,
                "encoding": [axis.to_json() for axis in features.axes],
                "pairs": [list(pair) for pair in features.pairs],
                "numbers": features.numbers,
                "public": {"name": chosen.name, "rows": chosen.rows, "sha256": chosen.digest},
                "public_total": settings.public_total,
                **facts,
            },
            tables=tables,
            domain=fitting_domain(features.axes),
        )


def truncated(masses: Floats, limit: float) -> Floats:
    """Weights cut at `limit` times their mean, then scaled to add up to 1 again."""
    cut = np.minimum(masses, limit * masses.sum() / len(masses))
    return np.asarray(cut / cut.sum())


def fitting_domain(axes: tuple[Axis, ...]) -> Domain:
    """As many of the first columns as a manifest's domain may have cells for; the release's facts
    list all."""
    size, kept = 1, []
    for axis in axes:
        size *= axis.cardinality
        if size > MAX_CELLS:
            break
        kept.append(axis)
    return Domain(tuple(kept))


def read_pairs(pairs: Sequence[str], names: Sequence[str]) -> tuple[Pair, ...]:
    """Places of the named pairs; "*b" stands for b with every other column."""
    found: dict[Pair, None] = {}
    for text in pairs:
        left, star, right = (part.strip() for part in str(text).partition("*"))
        if not star or not right:
            raise PlanError(
                f'pairs: \'{text}\' is not a pair. Write "a*b", or "*b" for b with every other '
                f"column."
            )
        for name in (left, right):
            if name and name not in names:
                raise PlanError(
                    f"pairs: there is no column '{name}' in common. Columns: {', '.join(names)}."
                )
        if left == right:
            raise PlanError(f"pairs: '{text}' names one column twice.")
        for name in [left] if left else [name for name in names if name != right]:
            first, second = sorted(list(names).index(one) for one in (name, right))
            found.setdefault((first, second))
    return tuple(found)


def amounts_facts(amounts: Amounts) -> dict[str, Any]:
    """Amounts as JSON; they stay exact."""
    names = ("set_choice", "pair_choice", "pair_table")
    extra = amounts.budget.extra_variance
    return {
        **({"extra_variance": str(extra)} if extra else {}),
        "law": amounts.budget.law,
        "tables": [str(amount) for amount in amounts.tables],
        **{name: str(getattr(amounts, name)) for name in names},
        "unit_rows": amounts.budget.relation.max_rows,
        "replaced": amounts.budget.relation.replaces,
    }


def calibration_facts(calibration: BalancedCalibration) -> dict[str, Any]:
    names = ("ridge", "tolerance", "sensitivity", "amount", "grid")
    tilt = calibration.tilt
    return {
        **{name: str(getattr(calibration, name)) for name in names},
        "gaussian": calibration.gaussian,
        "tilt": None if tilt is None else {key: str(value) for key, value in asdict(tilt).items()},
    }
