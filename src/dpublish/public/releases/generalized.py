"""A generalised table: disjoint regions that cover the domain, with noisy counts; counts and rows from it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.domain import Domain
from dpublish.errors import BundleError, QueryError
from dpublish.public.estimation import Estimate, check_level
from dpublish.public.manifest import fraction, read_domain, table
from dpublish.public.releases.base import Release
from dpublish.public.suppression import laplace_cumulants, spread_quantile

MAX_POINTS = 20_000_000
MAX_ROWS = 50_000_000


class GeneralizedRelease(Release):
    """Noisy counts of regions: in each column a stretch of values, in the order of the column's taxonomy."""

    kind: ClassVar[str] = "generalized-table"

    def __init__(self, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], *, path: Path | None = None) -> None:
        super().__init__(manifest, tables, path=path)
        self.domain: Domain = Domain.from_json(manifest["domain"])
        regions = self.tables["regions"]
        axes = range(len(self.domain.axes))
        self._low: list[NDArray[np.int32]] = [regions[f"low_{place}"].to_numpy() for place in axes]
        self._high: list[NDArray[np.int32]] = [regions[f"high_{place}"].to_numpy() for place in axes]
        self._order: list[NDArray[np.int32]] = [self.tables[f"order_{place}"]["code"].to_numpy() for place in axes]
        self.counts: NDArray[np.int64] = regions["count"].to_numpy()
        facts = manifest["facts"]
        spreads = [laplace_cumulants(fraction({"scale": text}, "scale", "facts")) for text in facts["scales"]]
        depth = regions["depth"].to_numpy()
        self._k2, self._k4 = (np.array([spread[part] for spread in spreads])[depth] for part in (0, 1))

    @classmethod
    def check(cls, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        domain = read_domain(manifest.get("domain"))
        facts = table(manifest, "facts", "manifest")
        scales = facts.get("scales")
        if not isinstance(scales, list) or not scales or len(scales) > 10_000:
            raise BundleError("facts: 'scales' must list the noise scales.")
        for text in scales:
            fraction({"scale": text}, "scale", "facts")
        axes = range(len(domain.axes))
        if set(tables) != {"regions", *(f"order_{place}" for place in axes)}:
            raise BundleError(f"A generalised table holds regions and one order a column; this one holds: {sorted(tables)}.")
        kinds = {f"{end}_{place}": pl.Int32 for place in axes for end in ("low", "high")}
        regions = tables["regions"]
        if dict(regions.schema) != {**kinds, "count": pl.Int64, "depth": pl.Int32} or sum(regions.null_count().row(0)):
            raise BundleError("regions.parquet must have low and high for every column, count and depth, without nulls.")
        depth = regions["depth"].to_numpy()
        if regions.height and not 0 <= depth.min() <= depth.max() < len(scales):
            raise BundleError("regions.parquet names a noise scale that is not there.")
        volume = np.ones(regions.height)
        for place, axis in enumerate(domain.axes):
            order = tables[f"order_{place}"]
            if dict(order.schema) != {"code": pl.Int32} or sorted(order["code"].to_list()) != list(range(axis.cardinality)):
                raise BundleError(f"order_{place}.parquet must list every code of '{axis.name}' once.")
            low, high = regions[f"low_{place}"].to_numpy(), regions[f"high_{place}"].to_numpy()
            if (low < 0).any() or (high <= low).any() or (high > axis.cardinality).any():
                raise BundleError(f"regions.parquet names values of '{axis.name}' that are not there.")
            volume *= high - low
        if abs(float(volume.sum()) - domain.size) > 1e-6 * domain.size:
            raise BundleError("The regions do not cover the domain once.")
        if (np.abs(regions["count"].to_numpy()) > 1 << 52).any():
            raise BundleError("A count is not believable.")

    def estimate(self, predicate: str, *, level: float = 0.95) -> Estimate:
        """How many rows satisfy a predicate. Rows count as even inside a region; `low` and `high` do not assume so."""
        from dpublish.public.predicate import columns_of, parse_predicate
        from dpublish.public.selection import select

        alpha = 1.0 - check_level(level)
        node = parse_predicate(predicate, self.domain)
        named = sorted(set(columns_of(node)))
        sizes = np.ones(self.counts.size, dtype=np.int64)
        for place in named:
            sizes *= self._high[place] - self._low[place]
        if int(sizes.sum()) > MAX_POINTS:
            raise QueryError("The predicate names too many columns with too many values for this release. Ask about fewer.")
        rows = np.repeat(np.arange(sizes.size), sizes)
        rest = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        codes: dict[int, NDArray[np.int64]] = {}
        for place in named:
            width = (self._high[place] - self._low[place])[rows]
            codes[place] = self._order[place][self._low[place][rows] + rest % width].astype(np.int64)
            rest = rest // width
        found = select(node, self.domain).cover(codes.__getitem__, rows.size)
        share = np.bincount(rows, weights=found.share, minlength=sizes.size) / sizes
        inside = np.bincount(rows, weights=found.inside, minlength=sizes.size) == sizes
        touched = np.bincount(rows, weights=found.touched, minlength=sizes.size) > 0
        value = float(share @ self.counts)
        spread = float(share**2 @ self._k2)
        # how a region that is cut divides is not known: spread as if any division were as likely
        cut = float((np.maximum(self.counts[touched & ~inside], 0).astype(np.float64) ** 2).sum()) / 12
        low = max(0.0, float(self.counts[inside].sum()) - self._quantile(inside, alpha / 2))
        high = max(low, float(self.counts[touched].sum()) + self._quantile(touched, alpha / 2))
        error = float(np.sqrt(spread + cut))
        return Estimate(value=min(max(value, low), high), standard_error=error, low=low, high=high, level=level)

    def _quantile(self, rows: NDArray[np.bool_], alpha: float) -> float:
        k2, k4 = np.array([self._k2[rows].sum()]), np.array([self._k4[rows].sum()])
        return float(spread_quantile(alpha, k2, np.zeros(1), k4)[0])

    def to_frame(self) -> pl.DataFrame:
        """One row a region: the values of each column as text, and the noisy count as `weight`."""
        columns: dict[str, list[str] | NDArray[np.int64]] = {}
        for place, axis in enumerate(self.domain.axes):
            columns[axis.name] = [
                self._described(axis.labels, self._order[place][low:high])
                for low, high in zip(self._low[place], self._high[place], strict=True)
            ]
        return pl.DataFrame({**columns, "weight" + "_" * ("weight" in columns): self.counts})

    @staticmethod
    def _described(labels: tuple[str, ...], codes: NDArray[np.int32]) -> str:
        if codes.size == len(labels) > 1:
            return "(any)"
        return " | ".join(labels[int(code)] for code in codes)

    def sample(self, n: int | None = None, *, seed: int | None = None) -> pl.DataFrame:
        """Synthetic rows in proportion to the counts, evenly spread inside each region."""
        from dpublish.public.frames import drawn_values

        weights = np.maximum(self.counts, 0).astype(np.float64)
        size = round(float(weights.sum())) if n is None else n
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_ROWS:
            raise QueryError(f"The number of rows must lie between 0 and {MAX_ROWS:,}, not {n!r}.")
        if size and weights.sum() <= 0:
            raise QueryError("The release holds no region to draw from.")
        rng = np.random.default_rng(seed)
        rows = rng.choice(weights.size, size=size, p=weights / weights.sum()) if size else np.empty(0, dtype=np.int64)
        codes = [
            order[low[rows] + (rng.random(size) * (high[rows] - low[rows])).astype(np.int64)]
            for order, low, high in zip(self._order, self._low, self._high, strict=True)
        ]
        return pl.DataFrame(
            [drawn_values(axis, code.astype(np.int64), rng) for axis, code in zip(self.domain.axes, codes, strict=True)]
        )

    def summary(self) -> dict[str, str]:
        rows = super().summary()
        rows["columns"] = ", ".join(self.domain.names)
        rows["regions"] = f"{self.counts.size:,} of {self.domain.size:,} cells"
        return rows
