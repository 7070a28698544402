"""Joined histograms of a whole table: counts with intervals, SQL, synthetic rows, models, plots and
a report from one model."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.arrays import Floats, Ints
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import BundleError, QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.bin_shapes import tilted
from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable, fit_model, held_pairs
from dpublish.models.junction_tree.measured import PUBLIC_TABLES, TABLES, Measured, read_measured
from dpublish.models.junction_tree.model import JunctionModel, TableTooLarge
from dpublish.models.junction_tree.plain import reading
from dpublish.models.public_prior import PublicPair, above_independence
from dpublish.query.masks import cover_plane, cover_table
from dpublish.query.predicate import (
    Constant,
    Node,
    Plane,
    columns_of,
    parse_predicate,
    parse_select,
)
from dpublish.query.ruled import RULED_OUT
from dpublish.query.sql_limits import CellsSay, answer_sql
from dpublish.releases.aggregates import places_named
from dpublish.releases.bundle.manifest import read_domain, table
from dpublish.releases.frames import (
    column_values,
    counted_table,
    drawn_values,
    generator_of,
    marginal_frame,
    marginal_shape,
    named_columns,
    rows_to_draw,
    sql_table,
)
from dpublish.releases.joined_histograms.condition import Conditioned
from dpublish.releases.joined_histograms.intervals import Intervals
from dpublish.releases.joined_histograms.sums import TableSums, table_sums
from dpublish.releases.resampled import ResampledRelease, noise_like

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = 200_000
POOL = 200_000
"""Rows drawn from the model where its exact table is too large."""
SHAPED = 6
"""The first version of the model whose readers look inside bins; older releases answer as they
did."""


class JoinedRelease(ResampledRelease):
    """Noisy histograms of every column and of chosen pairs of columns, joined into one model of the
    whole table."""

    kind: ClassVar[str] = "joined-histograms"
    own: ClassVar[tuple[str, ...]] = ("sql_note",)

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        facts = table(manifest, "facts", "manifest")
        wanted = TABLES if facts.get("public") is None else TABLES | PUBLIC_TABLES
        if set(tables) != set(wanted):
            raise BundleError(
                f"A joined release holds the tables {', '.join(sorted(wanted))}; this one: "
                f"{sorted(tables)}."
            )
        for name, columns in wanted.items():
            if dict(tables[name].schema) != dict.fromkeys(columns, pl.Int64):
                raise BundleError(
                    f"{name}.parquet must have the columns {' and '.join(columns)} (Int64)."
                )
            if any(tables[name].null_count().row(0)):
                raise BundleError(f"{name}.parquet holds nulls.")
        self.domain: Domain = read_domain(manifest.get("domain"), limit=None)
        self.measured: Measured = read_measured(self.domain, facts, _arrays(tables))
        if self.measured.version >= SHAPED:
            self.domain = Domain(tuple(map(shaped, self.domain.axes, self.measured.columns)))

    @cached_property
    def model(self) -> JunctionModel:
        """The fitted model: non-negative counts that agree wherever tables overlap."""
        measured = self.measured
        with reading():
            return fit_model(
                measured.columns,
                measured.tables,
                target=measured.target,
                total=measured.total,
                version=measured.version,
                zeros=measured.zeros,
                known=measured.known,
                prior=measured.prior,
            )

    @cached_property
    def intervals(self) -> Intervals:
        return Intervals(self.measured, self.domain, self.model)

    @property
    def rows(self) -> int:
        """The number of rows the release speaks of: public, or estimated from all tables."""
        return round(min(self.model.total, self.max_rows))

    @property
    def target(self) -> str | None:
        """The column that every histogram was crossed with."""
        return None if self.measured.target is None else self.domain.names[self.measured.target]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs of columns that were joined, in the order in which they were chosen."""
        return [(names[0], names[1]) for names in self.joined if len(names) == 2]

    @property
    def joined(self) -> list[tuple[str, ...]]:
        """The columns of every joint table, in the order in which they were chosen."""
        return [
            tuple(self.domain.names[column] for column in one.columns)
            for one in self.measured.tables
        ]

    @cached_property
    def public_pairs(self) -> dict[tuple[str, str], float]:
        """The pairs of columns that go together as in a public table of other people, where they
        were not counted together: how much of that dependence was found to hold, 0 to 1."""
        measured, model = self.measured, self.model
        if measured.prior is None:
            return {}
        held = held_pairs(measured.prior, model, measured.columns)
        return {
            (self.domain.names[one.columns[0]], self.domain.names[one.columns[1]]): share
            for one, share in zip(measured.prior.pairs, held, strict=True)
            if one.taken
            and not any(set(one.columns) <= set(table.columns) for table in measured.tables)
        }

    def _public_note(self, node: Node) -> str:
        """What comes from the public table in the answer to a condition."""
        prior = self.measured.prior
        if prior is None:
            return ""
        within = {self.domain.names[column] for column in columns_of(node)}
        said = [
            f"{first} and {second} (noisy counts say that about {share:.0%} of it holds)"
            for (first, second), share in self.public_pairs.items()
            if {first, second} <= within
        ]
        if not said:
            return ""
        more = f" and {len(said) - 3} more pairs" if len(said) > 3 else ""
        return (
            f"; not counted here, but as in the public table '{prior.name}': how columns go "
            f"together, of {', '.join(said[:3])}{more}"
        )

    def estimate(self, predicate: str | Node, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate such as "age >= 40 and income = '>50K'", or a linear
        condition such as "2 * age + hours >= 150".

        The value is the model's. For a predicate within one column, or one counted table, with or
        without the target, the interval covers the noise. For two columns that were not counted
        together it is the model's answer, give or take the published model error. For any other it
        holds whatever the true dependence is, and is wide where the release cannot tell. The `note`
        of the estimate says which.
        """
        node = parse_predicate(predicate, self.domain, planes=True)
        if self._ruled_out(node):
            return Estimate(0.0, 0.0, 0.0, 0.0, check_level(level), note=RULED_OUT)
        value = min(self._expected(node), self.max_rows)
        found = self.intervals.range_of(node, level)
        if found.low == found.high and not found.error:  # known: the model has it but for rounding
            value = found.low
        least, most = self.intervals.certain(node)
        value = min(max(value, least), most)  # where the model meets public totals but for rounding
        return Estimate(
            value,
            found.error,
            min(found.low, value),
            min(max(found.high, value), self.max_rows),
            level,
            note=found.note + self._public_note(node),
        )

    def cell_counts(self, places: tuple[int, ...]) -> Floats:
        return self._counts(list(places))

    def cell_sums(self, places: tuple[int, ...]) -> TableSums | None:
        return table_sums(self.intervals, places, self.cell_counts(places))

    def replicates(self, runs: int, *, seed: int | None) -> Iterator[Self]:
        generator = generator_of(seed)
        measured, number = self.measured, max(1, self.rows)
        # systematic draws show the model; rows picked from many of them vary as a sample does
        pool = self.model.sample_codes(max(POOL, 2 * number), generator)
        for _ in range(runs):
            picked = generator.integers(0, len(pool[0]), number)
            other = copy.copy(self)
            for name in ("model", "intervals", "_drawn"):
                other.__dict__.pop(name, None)
            other.measured = measured_again(measured, [code[picked] for code in pool], generator)
            yield other

    def marginal(self, *columns: str, level: float = 0.95) -> pl.DataFrame:
        """Counts of every combination of codes of the named columns: labels, count, standard_error,
        low, high."""
        indexes = named_columns(self.domain, columns)
        marginal_shape(
            self.domain, indexes
        )  # refuses a table that is too large, before anything is worked out
        value = np.minimum(self._counts(indexes), self.max_rows)
        low, high, error = self._ranges(indexes, level)
        value = np.where((low == high) & (error == 0), low, value)  # known but for rounding
        low, high = np.minimum(low, value), np.minimum(np.maximum(high, value), self.max_rows)
        possible = self._possible(indexes)
        figures = {"count": value, "standard_error": error, "low": low, "high": high}
        return marginal_frame(
            self.domain,
            indexes,
            {name: np.where(possible, got, 0.0).ravel() for name, got in figures.items()},
        )

    def sql(self, query: str, *, level: float | None = 0.95) -> pl.DataFrame:
        """Answer a SELECT over the table `release`: from the exact table of the columns it names,
        or else from drawn rows (`sql_note` says so). Aggregates are the estimates of the release,
        with limits and notes beside them, unless `level` is None.
        """
        seen = self._shown_evenly(query)
        frame = seen._weighted_frame(self._columns_in(query))
        return answer_sql(CellsSay(seen), query, frame, self.domain.names, seen.domain.axes, level)

    def sql_note(self, query: str) -> str | None:
        """What to know of the answer of `sql` to a query; None when there is nothing."""
        if self._exact(self._columns_in(query)) is not None:
            return None
        return (
            f"From {DRAWN:,} rows drawn from the model, each standing for "
            f"{self.model.total / DRAWN:.3g}: the columns that the query names have too many "
            "combinations for one table. Groups that no drawn row is in are not shown."
        )

    def to_frame(self, n: int | None = None, *, seed: int | None = 0) -> pl.DataFrame:
        """Synthetic rows with the original types; as many as the release speaks of, unless `n` is
        given."""
        return self.sample(n, seed=seed)

    def sample(
        self, n: int | None = None, *, seed: int | None = None, where: str | None = None
    ) -> pl.DataFrame:
        """Synthetic rows from the model; with `where`, only such as satisfy a predicate. A seed is
        harmless here.

        Unless `n` is given, as many as the release says there are. They are made to look at and to
        try programs on: what is computed from them as if they were real rows comes with error bars
        that are far too small. Use `bootstrap`, `regress` and the estimates with limits.
        """
        generator = generator_of(seed)
        if where is not None:
            given = Conditioned(self.model, self.domain, parse_predicate(where, self.domain))
            number = rows_to_draw(round(given.expected(DRAWN, generator)) if n is None else n)
            frame, held = given.sample(number, generator)
            if frame.height < number:
                raise QueryError(
                    f"Rows with {where} are too rare in this release to draw {number} of them: "
                    f"{held} were found."
                )
            return frame
        number = rows_to_draw(self.rows if n is None else n)
        codes = self.model.sample_codes(number, generator)
        return pl.DataFrame(
            [
                drawn_values(axis, code, generator)
                for axis, code in zip(self.domain.axes, codes, strict=True)
            ]
        )

    def fit(
        self,
        estimator: Any,
        *,
        target: str | None = None,
        features: Sequence[str] | None = None,
        n: int | None = None,
        seed: int | None = 0,
    ) -> Any:
        """Train a scikit-learn estimator on synthetic rows. The fitted pipeline takes raw rows."""
        from dpublish.analyse.learn import (  # says how to get scikit-learn where it is absent
            CellEncoder,
            target_and_features,
            trained,
        )

        target, chosen = target_and_features(target or self.target, features, self.domain.names)
        label, *codes = self.codes([target, *chosen], n or max(self.rows, 1000), seed=seed)
        answers = column_values(self.domain.axis(target), label)
        known = answers.is_not_null()
        if not known.any():
            raise QueryError(
                f"The release holds no row with a known '{target}', so there is nothing to train "
                "on."
            )
        encoder = CellEncoder([self.domain.axis(name) for name in chosen])
        matrix = encoder.matrix([code[known.to_numpy()] for code in codes])
        return trained(estimator, encoder, matrix, answers.filter(known).to_numpy())

    def plot(self, *columns: str, level: float = 0.95, top: int = 25) -> Figure:
        """A bar chart with error bars for one column, a heat map for two; without a column, the
        structure."""
        if not columns:
            from dpublish.releases.joined_histograms.report import plot_structure

            return plot_structure(self)
        from dpublish.present.figures import plot_marginal

        return plot_marginal(cast(Any, self), columns, level=level, top=top)

    def summary(self) -> dict[str, str]:
        rows = {
            **super().summary(),
            "columns": ", ".join(self.domain.names),
            "joined": ", ".join(map(" - ".join, self.joined)) or "no pair of columns",
        }
        if self.measured.prior is not None:
            pairs = ", ".join(map(" - ".join, self.public_pairs)) or "no pair"
            rows["from the public table"] = f"{self.measured.prior.name}: {pairs}"
        if self.target is not None:
            rows["target"] = self.target
        return rows

    def codes(self, columns: Sequence[str], rows: int, *, seed: int | None) -> list[Ints]:
        """Codes of synthetic rows along some columns."""
        drawn = self.model.sample_codes(rows, generator_of(seed))
        return [drawn[index] for index in named_columns(self.domain, columns)]

    @cached_property
    def _drawn(self) -> list[Ints]:
        return self.model.sample_codes(DRAWN, np.random.default_rng(0))

    def _expected(self, node: Node) -> float:
        """The model's count of a predicate: exact where the table fits, or where the predicate ties
        no columns together; from drawn rows otherwise."""
        columns = sorted(columns_of(node))
        if isinstance(node, Plane) and self._combinations(columns) > DRAWN:
            drawn = cover_plane(node, self.domain, self._drawn.__getitem__, DRAWN)
            return self.model.total * float(drawn.share.mean())
        try:
            expected = self.model.joint(columns)
        except TableTooLarge:
            return Conditioned(self.model, self.domain, node).expected(
                DRAWN, np.random.default_rng(0)
            )
        return float((cover_table(node, self.domain, columns).share * expected).sum())

    def _combinations(self, columns: Sequence[int]) -> int:
        """How many combinations of levels some columns have."""
        return math.prod(self.domain.shape[column] for column in columns)

    def _possible(self, indexes: Sequence[int]) -> NDArray[np.bool_]:
        """Which combinations of levels of some columns no rule forbids."""
        target = self.measured.target
        out: NDArray[np.bool_] = np.ones((1,) * len(indexes), dtype=np.bool_)
        for one in self.measured.zeros:
            wide = (*one.columns, target)
            if not set(one.columns) <= set(indexes):
                continue
            possible: NDArray[Any] = one.possible
            if target not in indexes:
                possible, wide = np.asarray(possible.any(axis=-1)), one.columns
            order = [place for place in indexes if place in wide]
            shape = [self.domain.shape[place] if place in wide else 1 for place in indexes]
            turned = possible.transpose([wide.index(place) for place in order])
            out = np.logical_and(out, turned.reshape(shape))
        return out

    def _ruled_out(self, node: Node) -> bool:
        """Whether a rule forbids all that a condition selects."""
        columns = sorted(columns_of(node))
        if self._combinations(columns) > DRAWN or not any(
            set(one.columns) <= set(columns) for one in self.measured.zeros
        ):
            return False
        touched = cover_table(node, self.domain, columns).touched
        return bool(touched.any()) and not bool((touched & self._possible(columns)).any())

    def _counts(self, indexes: list[int]) -> Floats:
        try:
            return self.model.joint(indexes)
        except TableTooLarge:
            codes = [self._drawn[index] for index in indexes]
            counted = counted_table(self.domain, indexes, codes, np.ones(DRAWN))
            return counted * (self.model.total / DRAWN)

    def _ranges(self, indexes: list[int], level: float) -> tuple[Floats, Floats, Floats]:
        check_level(level)
        features = [index for index in indexes if index != self.measured.target]
        if len(indexes) == 1:
            return self.intervals.column_ranges(indexes[0], level)
        if len(indexes) == 2 and len(features) == 1:
            found = self.intervals.column_label_ranges(features[0], level)
            return found if indexes[0] == features[0] else (found[0].T, found[1].T, found[2].T)
        return self._frechet(indexes, features, level)

    def _frechet(
        self, indexes: list[int], features: list[int], level: float
    ) -> tuple[Floats, Floats, Floats]:
        """Bounds of every combination from its columns, and from the table that holds them all,
        where there is one."""
        part = 1 - (1 - level) / (len(indexes) + 2)
        shape = [self.domain.axes[index].cardinality for index in indexes]
        top = self.intervals.range_of(Constant(True), part).high
        low, high = np.full(shape, -(len(indexes) - 1) * top), np.full(shape, top)
        for place, index in enumerate(indexes):
            one_low, one_high, _ = self.intervals.column_ranges(index, part)
            spread = [1] * place + [-1] + [1] * (len(indexes) - place - 1)
            low, high = low + one_low.reshape(spread), np.minimum(high, one_high.reshape(spread))
        low = np.maximum(low, 0.0)
        counted = self.intervals.table_ranges(features, part, by_label=len(indexes) > len(features))
        if counted is not None:
            order = [
                features.index(index) if index in features else len(features) for index in indexes
            ]
            low, high = (
                np.maximum(low, counted[0].transpose(order)),
                np.minimum(high, counted[1].transpose(order)),
            )
        elif len(features) == 2 and all(self.intervals.lone_levels(column) for column in features):
            bound = self.intervals.model_error_bound(features[0], features[1], 1 - part)
            assert bound is not None
            expected = self._counts(indexes)
            low, high = np.maximum(low, expected - bound), np.minimum(high, expected + bound)
        high = np.maximum(high, low)
        return low, high, (high - low) / 4

    def _shown_evenly(self, query: str) -> Self:
        """This release for one query: a column that the query shows or groups by has the middles of
        its bins, which people read as the bins; one that it adds up has the means."""
        shown = {
            node.name.lower()
            for node in parse_select(query, self.domain.names).find_all(exp.Column)
            if node.find_ancestor(exp.AggFunc, exp.Where) is None
        }
        other = copy.copy(self)
        other.domain = Domain(
            tuple(
                replace(axis, tilts=()) if axis.name.lower() in shown else axis
                for axis in self.domain.axes
            )
        )
        return other

    def _columns_in(self, query: str) -> list[int] | None:
        """The columns that a query names; None when it asks for all of them, and drawn rows are
        fewer than combinations."""
        tree = parse_select(query, self.domain.names)
        starred = any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))
        if starred and math.prod(self.domain.shape) > DRAWN:
            return None
        return places_named(query, self.domain)

    def _exact(self, indexes: list[int] | None) -> Floats | None:
        """The table of the columns that a query names; None where it would be too large."""
        try:
            return None if indexes is None else self.model.joint(indexes)
        except TableTooLarge:
            return None

    def _weighted_frame(self, indexes: list[int] | None) -> pl.DataFrame:
        """The columns that the query names, or all of them, and a weight."""
        expected = self._exact(indexes)
        if indexes is not None and expected is not None:
            kept = np.flatnonzero(expected.ravel() > 0)
            codes = dict(
                zip(indexes, np.unravel_index(kept, expected.shape) if indexes else (), strict=True)
            )
            weights = expected.ravel()[kept]
        else:
            codes = dict(enumerate(self._drawn))
            weights = np.full(DRAWN, self.model.total / DRAWN)
        whole = {index: code.astype(np.int64) for index, code in codes.items()}
        return sql_table(self.domain.axes, whole, weights)


def _arrays(tables: Mapping[str, pl.DataFrame]) -> dict[str, dict[str, Ints]]:
    return {
        name: {column: frame[column].to_numpy() for column in frame.columns}
        for name, frame in tables.items()
    }


def shaped(axis: Axis, column: MeasuredColumn | None) -> Axis:
    """A column with how its rows lie inside its bins, as far as its own counts tell."""
    if column is None or not axis.numeric or axis.exact_values:
        return axis
    noise = math.sqrt(column.variance * column.counts.shape[1])
    return tilted(axis, np.array(column.widths), column.counts.sum(axis=1)[: axis.base], noise)


def measured_again(
    measured: Measured, codes: Sequence[Ints], generator: np.random.Generator
) -> Measured:
    """Every published table, counted over rows of these codes, with noise of the stated law."""
    target = measured.target
    label = np.zeros(len(codes[0]), dtype=np.int64) if target is None else codes[target]

    def counted(parts: Sequence[Ints], shape: tuple[int, ...], variance: float) -> np.ndarray:
        # a table that was not counted by label has one place for all of them
        cells = np.ravel_multi_index((*parts, np.minimum(label, shape[-1] - 1)), shape)
        counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        return counts + noise_like(generator, measured.noise, variance, shape)

    def grouped(one: MeasuredTable | PublicPair) -> list[Ints]:
        sides = zip(one.columns, one.groups, strict=True)
        return [group_of[codes[column]] for column, group_of in sides]

    def checked(pair: PublicPair) -> PublicPair:
        inside = int(above_independence(pair.counts)[(*grouped(pair), label)].sum())
        noise = noise_like(generator, measured.noise, pair.variance, (1,))
        return replace(pair, check=inside + round(float(noise[0])))

    columns = tuple(
        None
        if one is None
        else replace(one, counts=counted([code], one.counts.shape, one.variance))
        for one, code in zip(measured.columns, codes, strict=True)
    )
    tables = tuple(
        replace(one, counts=counted(grouped(one), one.counts.shape, one.variance))
        for one in measured.tables
    )
    prior = measured.prior
    if prior is not None:
        prior = replace(prior, pairs=tuple(map(checked, prior.pairs)))
    return replace(measured, columns=columns, tables=tables, prior=prior)
