"""Public rows with weights that make them stand for private ones: means with error bars, SQL,
models and samples from them."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.declare.domain import Domain
from dpublish.declare.encode import encode_frame
from dpublish.errors import BundleError, QueryError
from dpublish.estimate import Basis, Estimate, Measure, check_level
from dpublish.models.noisy_counts import normal_quantile
from dpublish.models.public_rows import encode_public, frame_digest, read_public, with_truth
from dpublish.privacy.plan import some_of
from dpublish.query.predicate import parse_predicate, parse_sql
from dpublish.query.ruled import RULED_OUT, Ruled
from dpublish.releases.base import Release
from dpublish.releases.bundle.manifest import digest, table, text, whole
from dpublish.releases.frames import free_name, generator_of, rows_to_draw
from dpublish.releases.weighted_rows.aggregates import (
    FEW_ROWS,
    NOTES,
    UNSEEN,
    careful,
    note_of,
    quantile_of,
    ratio_of,
    sum_of,
)
from dpublish.releases.weighted_rows.checks import (
    check_numbers,
    check_rows,
    read_counts,
    read_features,
)
from dpublish.releases.weighted_rows.intervals import (
    CountedLimits,
    Question,
    held,
    means_the_same,
    read_question,
)
from dpublish.releases.weighted_rows.means import Noise, Propagation, effective_rows, with_shrinkage

if TYPE_CHECKING:
    from matplotlib.figure import Figure


VARIANTS = ("moments", "output", "gaussian", "objective")
WEIGHTS_SCHEMA = {"weight": pl.Float64, "base": pl.Float64}
COEFFICIENTS_SCHEMA = {
    "group": pl.UInt32,
    "value": pl.Int64,
    "coefficient": pl.Float64,
    "ridge": pl.Float64,
    "deviation": pl.Float64,
}
_POOR_SHARE = 0.02


class WeightedRowsRelease(Release):
    """One weight a public row. Weights have mean 1; `rows` are the public rows, all their columns
    included.

    A release made with publish = "hash" holds no rows: `attach` them, and the hash is checked.
    """

    kind: ClassVar[str] = "weighted-rows"
    own: ClassVar[tuple[str, ...]] = ("means", "measure_of", "attach", "truncate")

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        facts = table(manifest, "facts", "manifest")
        self.variant = text(facts, "variant", "facts")
        if self.variant not in VARIANTS:
            raise BundleError(f"facts: 'variant' must be one of {', '.join(VARIANTS)}.")
        self.features = features = read_features(facts)
        public = table(facts, "public", "facts")
        rows = whole(public, "rows", "facts, public", lowest=1)
        text(public, "name", "facts, public")
        digest(public, "sha256", "facts, public")
        for key in ("rows", "coefficient_deviation"):
            value = facts.get(key)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not math.isfinite(value)
                or value < 0
            ):
                raise BundleError(f"facts: '{key}' must be a number of at least 0.")
        if set(tables) not in ({"weights", "coefficients"}, {"weights", "coefficients", "rows"}):
            raise BundleError(
                f"A release of weighted rows holds weights, coefficients and perhaps rows, not: "
                f"{sorted(tables)}."
            )
        check_numbers(tables["weights"], "weights.parquet", WEIGHTS_SCHEMA, rows)
        check_numbers(
            tables["coefficients"], "coefficients.parquet", COEFFICIENTS_SCHEMA, features.dimension
        )
        for name in WEIGHTS_SCHEMA:
            values = tables["weights"][name].to_numpy()
            if np.any(values < 0.0) or not 0.999 < float(values.mean()) < 1.001:
                raise BundleError(
                    f"weights.parquet: '{name}' must not be negative and must have mean 1."
                )
        if any(
            (tables["coefficients"][name].to_numpy() < 0.0).any() for name in ("ridge", "deviation")
        ):
            raise BundleError("coefficients.parquet: 'ridge' and 'deviation' must not be negative.")
        self.sample_weight: Floats = tables["weights"]["weight"].to_numpy()
        """One weight a row, with mean 1: what scikit-learn calls sample_weight."""
        self.coefficients: Floats = tables["coefficients"]["coefficient"].to_numpy()
        self._base: Floats = tables["weights"]["base"].to_numpy()
        self._rows: pl.DataFrame | None = None
        if "rows" in tables:
            check_rows(tables["rows"], features.axes, rows)
            self._rows = with_truth(tables["rows"].fill_nan(None), features.axes)

    @property
    def rows(self) -> pl.DataFrame:
        """The public rows, in the order of `sample_weight`."""
        if self._rows is None:
            public = self.manifest["facts"]["public"]
            raise QueryError(
                f"This release holds weights but no rows. Get the public rows "
                f"('{public['name']}', SHA-256 "
                f"{public['sha256'][:12]}...) and use release.attach(rows)."
            )
        return self._rows

    def attach(self, source: Any) -> Self:
        """The same release with its public rows, given as a path or a frame; their hash must be the
        one in the release."""
        axes = self.features.axes
        public = read_public(source, [axis.name for axis in axes if not axis.numeric])
        frame = encode_public("public rows", public, axes).frame
        if frame_digest(frame) != self.manifest["facts"]["public"]["sha256"]:
            raise QueryError(
                "These are not the public rows that the weights belong to: their SHA-256 is "
                "another."
            )
        other = copy.copy(self)
        other._rows = with_truth(frame, axes)
        return other

    def truncate(self, limit: float) -> Self:
        """The same release with weights cut at `limit` times their mean: less variance, more bias.
        Costs no privacy."""
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 1.0:
            raise QueryError(f"limit must be at least 1 (weights have mean 1), not {limit!r}.")
        other = copy.copy(self)
        cut = np.minimum(self.sample_weight, limit)
        other.sample_weight = cut / cut.mean()
        return other

    @property
    def effective_rows(self) -> float:
        """How many equally weighted rows the weighted rows are worth."""
        return effective_rows(self.sample_weight)

    @property
    def private_rows(self) -> float:
        """The number of private rows, as far as the release knows it: public, nominal, or estimated
        from noisy counts."""
        return float(self.manifest["facts"]["rows"])

    def estimate(
        self, expression: str, *, where: str | None = None, level: float = 0.95
    ) -> Estimate:
        """The mean of an expression over the private rows, such as "age" or "hours * 52"; for a
        condition, the share of rows.

        `where` limits it to rows that satisfy a condition. Any column of the public rows may be
        used. The `basis` of the estimate says what its interval rests on: what was counted, bounds
        from that, or an assumption about the rest.
        """
        values, present, measure = self._values(expression)
        chosen = None if where is None else self._condition(where)
        if measure == "share" and self._ruled_out(expression, where):
            level = check_level(level)
            return Estimate(0.0, 0.0, 0.0, 0.0, level, measure, "counted", note=RULED_OUT)
        question = self._question(expression, where, values, present, chosen)
        if chosen is not None:
            present = present & chosen
        if question is None and measure == "share" and not self._met(values, present):
            raise QueryError(
                "No public row with a positive weight meets this condition, so the weights say "
                "nothing about it: private rows may or may not. Ask for what was counted, or "
                "publish a histogram or joined-histograms over these columns."
            )
        return self._mean(values, present, level, question, share=measure == "share")

    def _ruled_out(self, condition: str, where: str | None) -> bool:
        """Whether a rule of the schema says that no row meets a condition of those that meet
        another."""
        domain = Domain(tuple(self.features.axes))
        ruled = Ruled.read(self.manifest.get("rules", []), domain)
        if not ruled.broken:
            return False
        try:
            both = condition if where is None else f"({condition}) and ({where})"
            given = where is not None and ruled.forbid(parse_predicate(where, domain))
            return not given and ruled.forbid(parse_predicate(both, domain))
        except QueryError:  # of other columns, or more than a condition
            return False

    def _met(self, values: Floats, present: NDArray[np.bool_]) -> bool:
        """Whether any public row that has a weight meets a condition."""
        return bool((self.sample_weight[present & (values > 0.0)] > 0.0).any())

    def mean(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """The mean of a column or an expression over the private rows that meet `where`."""
        found = self.estimate(of, where=where, level=level)
        if found.measure == "share":
            raise QueryError(f"'{of}' is a condition. Its share is release.share({of!r}).")
        return found

    def share(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """Of the private rows that meet `where`, the share that meets a condition."""
        found = self.estimate(of, where=where, level=level)
        if found.measure != "share":
            raise QueryError(f"'{of}' is not a condition. Its mean is release.mean({of!r}).")
        return found

    def sum(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """The sum of a column or an expression over the private rows that meet `where`."""
        return sum_of(self, of, where, level)

    def ratio(self, of: str, to: str, *, level: float = 0.95) -> Estimate:
        """How many private rows meet one condition for each that meets another."""
        return ratio_of(self, of, to, level)

    def median(self, of: str, *, where: str | None = None, level: float = 0.95) -> Estimate:
        """The value that half of the private rows are not above."""
        return quantile_of(self, of, 0.5, where, level)

    def quantile(
        self, of: str, share: float = 0.5, *, where: str | None = None, level: float = 0.95
    ) -> Estimate:
        """The value of a column of numbers that this share of the private rows that meet `where` is
        not above."""
        return quantile_of(self, of, share, where, level)

    def difference(self, of: str, first: str, second: str, *, level: float = 0.95) -> Estimate:
        """The mean (of a condition: the share) among the rows that meet `first`, less that among
        the rows that meet `second`. Both limits hold at once."""
        inner = 1 - (1 - check_level(level)) / 2
        one, other = (self.estimate(of, where=where, level=inner) for where in (first, second))
        low, high = one.low - other.high, one.high - other.low
        worst = max(one, other, key=lambda found: list(NOTES).index(found.basis))
        return replace(
            one,
            value=one.value - other.value,
            standard_error=math.hypot(one.standard_error, other.standard_error),
            low=low,
            high=high,
            level=float(level),
            measure="difference",
            basis=worst.basis,
            note=worst.note,
            warnings=tuple(dict.fromkeys((*one.warnings, *other.warnings))),
            details={},
        )

    def measure_of(self, expression: str) -> Measure:
        """What `estimate` gives for an expression: the share of rows that meet a condition, or the
        mean of a number."""
        return "share" if self._evaluated(expression)[0].dtype == pl.Boolean else "mean"

    def means(self, expression: str, *, by: str, level: float = 0.95) -> pl.DataFrame:
        """The mean of an expression in each group: group, mean, standard_error, low, high, basis,
        effective_rows."""
        from dpublish.releases.weighted_rows.tables import grouped_means

        return grouped_means(self, expression, by, level)

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """How many private rows have each combination of values: labels, count, standard_error,
        low, high, basis."""
        from dpublish.releases.weighted_rows.tables import count_table

        return count_table(self, columns, level)

    def sql(self, query: str, *, level: float | None = 0.95) -> pl.DataFrame:
        """Answer a SELECT over the table `release`; count(*) adds up to the number of private rows.
        Aggregates have limits and notes beside them, unless `level` is None."""
        from dpublish.query.sql_limits import answer_sql
        from dpublish.releases.weighted_rows.tables import RowsSay

        frame = self._weighing(self.private_rows / len(self.sample_weight))
        columns = tuple(self.rows.columns)
        return answer_sql(RowsSay(self), query, frame, columns, self.features.axes, level)

    def to_frame(self) -> pl.DataFrame:
        """The public rows and their `weight` (mean 1), the last column."""
        return self._weighing(1.0)

    def _weighing(self, mean: float) -> pl.DataFrame:
        name = free_name("weight", tuple(self.rows.columns))
        return self.rows.with_columns(pl.Series(name, self.sample_weight * mean))

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Rows without weights, drawn with replacement in proportion to the weights. Means over
        them vary more, and error bars computed from them as if they were private rows are far too
        small."""
        number = rows_to_draw(round(self.private_rows) if n is None else n)
        ends = np.cumsum(self.sample_weight)
        chosen = np.searchsorted(ends, generator_of(seed).random(number) * ends[-1], side="right")
        return self.rows.select(pl.all().gather(np.minimum(chosen, len(ends) - 1)))

    def fit(
        self, estimator: Any, *, target: str | None = None, features: Sequence[str] | None = None
    ) -> Any:
        """Train a scikit-learn estimator on the weighted rows. The fitted pipeline takes raw
        rows."""
        from dpublish.analyse.learn import CellEncoder, target_and_features, trained

        axes = {axis.name: axis for axis in self.features.axes}
        target, chosen = target_and_features(
            target or self.manifest.get("target"), features, list(axes)
        )
        for name in chosen:
            if name not in axes:
                raise QueryError(
                    f"'{name}' is not a column that the weights were fitted on. Columns: "
                    f"{', '.join(axes)}."
                )
        answers = self._column(target)
        known = answers.is_not_null()
        encoder = CellEncoder([axes[name] for name in chosen])
        return trained(
            estimator,
            encoder,
            encoder.transform(self.rows.select(chosen).filter(known)),
            answers.filter(known).to_numpy(),
            self.sample_weight[known.to_numpy()],
        )

    def plot(self, column: str, *, level: float = 0.95, top: int = 25) -> Figure:
        """Shares of a column's values among the public rows as they are, and weighted, with error
        bars."""
        from dpublish.releases.weighted_rows.report import plot_shares

        return plot_shares(self, column, level=level, top=top)

    def warnings(self) -> tuple[str, ...]:
        """What should make a reader careful with these weights."""
        found = [str(line) for line in self.manifest["plan"].get("warnings", [])]
        effective, rows = self.effective_rows, len(self.sample_weight)
        if effective < FEW_ROWS or effective < _POOR_SHARE * rows:
            found.append(
                f"The weights have collapsed: {rows:,} rows are worth {effective:,.0f}. A few "
                f"rows decide every estimate. "
                "Use release.truncate(...), or publish again with more regularization or a closer "
                "public set."
            )
        return tuple(found)

    def basis_notes(self, frame: pl.DataFrame) -> tuple[str, ...]:
        """What the intervals of a table of `marginal` or `means` rest on, in words."""
        found = set(frame.get_column("basis").to_list()) if "basis" in frame.columns else set()
        return tuple(
            f"{basis}: {note_of(basis, self.variant)}" for basis in NOTES if basis in found
        )

    def sql_note(self, query: str) -> str | None:
        """Which levels were counted and have no line of the answer, since no public row has
        them."""
        from dpublish.releases.weighted_rows.tables import levels_without_a_line

        absent = levels_without_a_line(self, query)
        if not absent:
            return None
        return (
            f"No public row meets {some_of(absent)}, so that the answer has no line for it. What "
            f"was counted of it: select count(*) from release where {absent[0]}."
        )

    @cached_property
    def unseen(self) -> dict[str, list[Any]]:
        """By column, the levels that were counted and that no public row has."""
        found = {}
        for axis in self.features.axes if self.limits is not None else ():
            if axis.numeric:
                continue
            column = self.rows.get_column(axis.name)
            here = {str(one).lower() if isinstance(one, bool) else one for one in column.unique()}
            absent: list[Any] = [one for one in axis.levels if one not in here]
            if column.dtype == pl.Boolean:
                absent = [one == "true" for one in absent]
            if absent:
                found[axis.name] = absent
        return found

    def summary(self) -> dict[str, str]:
        public = self.manifest["facts"]["public"]
        return {
            **super().summary(),
            "public rows": f"{public['rows']:,} from {public['name']}",
            "weighted by": ", ".join(axis.name for axis in self.features.axes),
            "effective rows": f"{self.effective_rows:,.0f}",
        }

    @cached_property
    def _codes(self) -> list[NDArray[Any]]:
        return [
            np.asarray(codes) for codes in encode_frame(self.rows, Domain(self.features.axes)).codes
        ]

    @cached_property
    def _errors(self) -> Propagation:
        ridge, deviation = (
            self.tables["coefficients"][name].to_numpy() for name in ("ridge", "deviation")
        )
        base = self._base / self._base.sum()
        if self.variant == "moments":
            deviation = with_shrinkage(deviation, ridge, self.features.sums(self._codes, base))
        noise = Noise(
            balanced=self.variant != "moments",
            ridge=ridge,
            gradient=deviation,
            coefficient=float(self.manifest["facts"]["coefficient_deviation"]),
            rows=max(1.0, self.private_rows),
        )
        return Propagation(
            self.features, self._codes, self._between, base, self.coefficients, noise
        )

    @cached_property
    def _between(self) -> Floats:
        """The masses at which errors are worked out.

        Where noise left a value next to no weight, the fitted weights alone would call that
        certain; so under "moments" they are half those of the public rows as they are.
        """
        masses: Floats = self.sample_weight / self.sample_weight.sum()
        if self.variant != "moments":
            return masses
        return np.asarray(0.5 * (masses + self._base / self._base.sum()))

    @cached_property
    def limits(self) -> CountedLimits | None:
        """Limits from the tables that were counted; None where none were."""
        measured = read_counts(
            self.manifest, self.features, self.tables["coefficients"]["value"].to_numpy()
        )
        if measured is None:
            return None
        return CountedLimits(measured, self.features.axes, self.private_rows)

    def _question(
        self,
        expression: str,
        where: str | None,
        values: Floats,
        present: NDArray[np.bool_],
        chosen: NDArray[np.bool_] | None,
    ) -> Question | None:
        """The same question to the counted tables, where they know all that it names."""
        if self.limits is None:
            return None
        found = read_question(expression, where, self.features.axes, self.rows.columns)
        if found is None:
            return None
        given = np.where(present, values, math.nan)
        same = means_the_same(found, self.features.axes, self._codes, given, chosen)
        return found if same else None

    def _mean(
        self,
        values: Floats,
        present: NDArray[np.bool_],
        level: float,
        question: Question | None = None,
        *,
        share: bool = False,
    ) -> Estimate:
        half = normal_quantile((1 - check_level(level)) / 2)
        masses = np.where(present, self.sample_weight, 0.0)
        total = float(masses.sum())
        if total <= 0.0:
            raise QueryError(
                "No public row with a positive weight satisfies the condition, so nothing can be "
                "said about it."
            )
        masses /= total
        mean = float(masses @ values)
        # the slope of a ratio: rows outside the condition have no mass, and the mean inside is
        # taken out
        near = np.where(present, self._between, 0.0)
        near /= near.sum()
        apart = values - float(near @ values)
        slope = self.features.sums(self._codes, near * apart)
        noise, rows, shrinkage = self._errors.errors(slope)
        error = math.hypot(noise, rows)
        low, high = mean - half * error, mean + half * error
        if share or np.isin(values[present], (0.0, 1.0)).all():
            low, high = max(0.0, low), min(1.0, high)
        model = (low, high)
        explained = (
            self._errors.explained(slope, float(near @ apart**2)) if present.all() else math.nan
        )
        limits = (
            None
            if question is None or self.limits is None
            else self.limits.limits(question, float(level))
        )
        silent = share and limits is not None and not self._met(values, present)
        by_weights = math.nan if silent else mean
        if limits is not None:
            mean, low, high = held(mean, limits, silent=silent)
            error = limits.error
            if not math.isclose(mean, by_weights):  # the end of bounds, which weights are beyond
                error = math.hypot(error, mean - (limits.low + limits.high) / 2)
        if silent:
            model, explained = (math.nan, math.nan), math.nan
        basis: Basis = "assumed" if limits is None else limits.basis
        found = Estimate(
            value=mean,
            standard_error=error,
            low=low,
            high=high,
            level=float(level),
            measure="share" if share else "mean",
            basis=basis,
            note=note_of(basis, self.variant, None if silent else model)
            + (UNSEEN if silent else ""),
            details={
                "noise_error": noise,
                "sampling_error": rows,
                "shrinkage": shrinkage,
                "explained": explained,
                "effective_rows": effective_rows(masses),
                "model_low": model[0],
                "model_high": model[1],
            },
        )
        return replace(found, warnings=careful(found, by_weights, limits))

    def _values(self, expression: str) -> tuple[Floats, NDArray[np.bool_], Measure]:
        series = self._evaluated(expression)[0]
        if series.dtype == pl.Boolean:
            everyone = np.ones(len(series), dtype=np.bool_)
            return series.fill_null(False).cast(pl.Float64).to_numpy(), everyone, "share"
        if not series.dtype.is_numeric():
            raise QueryError(
                f"'{expression}' is neither a number nor a condition. Write for example: age, or "
                f"income = '>50K'."
            )
        values = series.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        present = np.isfinite(values)
        return np.where(present, values, 0.0), present, "mean"

    def _condition(self, expression: str) -> NDArray[np.bool_]:
        series = self._evaluated(expression)[0]
        if series.dtype != pl.Boolean:
            raise QueryError(f"'{expression}' is not a condition. Write for example: age >= 40.")
        return series.fill_null(False).to_numpy()

    def _evaluated(self, *expressions: str) -> list[pl.Series]:
        """The value of each expression in every public row."""
        from dpublish.query.sql import run_sql

        taken = tuple(self.rows.columns)
        for expression in expressions:
            parse_sql(expression)
        names = [free_name(f"value{place}", taken) for place in range(len(expressions))]
        asked = ", ".join(
            f'({expression}) as "{name}"'
            for expression, name in zip(expressions, names, strict=True)
        )
        result = run_sql(f"select {asked} from release", self.to_frame(), taken, self.features.axes)
        if (
            not set(names) <= set(result.columns)
            or result.height != self.rows.height
            or result.width != len(names) + 1
        ):
            raise QueryError(f"'{expressions[0]}' is not an expression with one value per row.")
        return [result.get_column(name) for name in names]

    def _column(self, name: str) -> pl.Series:
        if name not in self.rows.columns:
            raise QueryError(
                f"There is no column '{name}'. Columns: {', '.join(self.rows.columns[:40])}."
            )
        return self.rows.get_column(name)
