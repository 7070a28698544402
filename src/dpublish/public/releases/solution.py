"""A privately found solution: a cut, sites, an order that covers, or chosen resources, with its guarantee and the lower bound.

Every problem has its verifier here: `cost_of` works out what the solution costs on data that the caller brings along (the
curator's own, or a guess). Releases never carry such a cost: it would be a private number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.errors import BundleError, QueryError, did_you_mean
from dpublish.public.manifest import table, text, whole
from dpublish.public.releases.base import Release

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Ints = NDArray[np.int64]
Valuation = Callable[[Mapping[str, Any], frozenset[int]], float]

# problem -> the main table, its column of numbers, and the fact that says how many there are to choose from
PROBLEMS = {
    "min-cut": ("sides", "vertex", "vertices"),
    "k-median": ("chosen", "site", "sites"),
    "vertex-cover": ("order", "vertex", "vertices"),
    "set-cover": ("order", "set", "sets"),
    "public-projects": ("chosen", "resource", "resources"),
}
_EXTRA = {"set-cover": {"members", "universe", "costs"}}


class SolutionRelease(Release):
    """The solution of one optimisation problem. `chosen`, `order`, `sides` and `assign` show it, as the problem has them."""

    kind: ClassVar[str] = "solution"

    def __init__(self, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame], *, path: Path | None = None) -> None:
        super().__init__(manifest, tables, path=path)
        self.problem: str = manifest["facts"]["problem"]
        main, column, _ = PROBLEMS[self.problem]
        self._main = self.tables[main]
        self._numbers: Ints = self._main[column].to_numpy()
        self._labels: list[str] | None = self._main["label"].to_list() if "label" in self._main.columns else None
        self._assigned: Ints | None = None

    @classmethod
    def check(cls, manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        facts = table(manifest, "facts", "manifest")
        problem = text(facts, "problem", "facts")
        if problem not in PROBLEMS:
            raise BundleError(f"facts: problem '{problem[:80]}' is not known.{did_you_mean(problem[:80], PROBLEMS)}")
        for key in ("bound", "lower_bound"):
            statement = table(facts, key, "facts")
            text(statement, "text", f"facts: {key}")
            for number in ("factor", "additive"):
                if isinstance(statement.get(number), bool) or not isinstance(statement.get(number), int | float):
                    raise BundleError(f"facts: {key}: '{number}' must be a number.")
        main, column, size = PROBLEMS[problem]
        if set(tables) != {main} | _EXTRA.get(problem, set()):
            raise BundleError(f"A release of problem {problem} does not hold these tables: {sorted(tables)}.")
        count = whole(facts, size, "facts", limit=1 << 31, lowest=1)
        numbers = _whole_column(tables[main], column, main, count)
        if "label" in tables[main].columns and tables[main]["label"].dtype != pl.String:
            raise BundleError(f"{main}.parquet: labels must be texts.")
        ordered = len(numbers) if "part" not in tables[main].columns else 0
        if ordered and len(np.unique(numbers)) != len(numbers):
            raise BundleError(f"{main}.parquet names something twice.")
        if problem in ("min-cut", "vertex-cover") and len(numbers) != count:
            raise BundleError(f"{main}.parquet must name every vertex once.")
        if problem in ("k-median", "public-projects") and len(numbers) != whole(facts, "k", "facts"):
            raise BundleError("chosen.parquet does not hold k rows.")
        if problem == "min-cut":
            side = tables[main].get_column("side") if "side" in tables[main].columns else None
            if side is None or side.dtype != pl.Boolean or side.null_count() or side.all() or not side.any():
                raise BundleError("sides.parquet must put every vertex on one of two sides, with neither of them empty.")
        if problem == "set-cover":
            _check_family(facts, tables)

    @property
    def bound(self) -> Mapping[str, Any]:
        """The theorem's guarantee: factor, additive and text."""
        return dict(self.manifest["facts"]["bound"])

    @property
    def lower_bound(self) -> Mapping[str, Any]:
        """What no private method can beat."""
        return dict(self.manifest["facts"]["lower_bound"])

    @property
    def chosen(self) -> list[Any]:
        """The chosen sites or resources, by name where they have names."""
        self._only("chosen", "k-median", "public-projects")
        return self._named(self._numbers)

    @property
    def order(self) -> list[Any]:
        """All vertices or sets, first to last."""
        self._only("order", "vertex-cover", "set-cover")
        return self._named(self._numbers)

    @property
    def sides(self) -> tuple[list[Any], list[Any]]:
        """The two sides of the cut."""
        self._only("sides", "min-cut")
        names, side = self._named(self._numbers), self._main["side"].to_list()
        return [n for n, s in zip(names, side, strict=True) if s], [n for n, s in zip(names, side, strict=True) if not s]

    @property
    def size(self) -> Mapping[str, Any] | None:
        """A noisy number between the size of the smallest vertex cover and twice that, when it was paid for."""
        self._only("size", "vertex-cover")
        found: Mapping[str, Any] | None = self.manifest["facts"].get("size")
        return found

    def assign(self, thing: Any) -> Any:
        """Which vertex serves an edge (u, v), or which set serves an element. Ask about yours; asking costs nothing."""
        if self.problem == "vertex-cover":
            if not isinstance(thing, Sequence) or isinstance(thing, str) or len(thing) != 2:
                raise QueryError("An edge is a pair of vertices, such as assign(('ann', 'bob')).")
            place = {name: position for position, name in enumerate(self.order)}
            u, v = (self._known(end, place) for end in thing)
            if u == v:
                raise QueryError("An edge has two different ends.")
            return u if place[u] < place[v] else v
        self._only("assign", "vertex-cover", "set-cover")
        universe = self.tables["universe"]
        if "label" in universe.columns:
            labels = {name: number for number, name in enumerate(universe["label"].to_list())}
            number = labels[self._known(thing, labels)]
        else:
            number = int(self._known(thing, range(universe.height)))
        found = int(self._assignment()[number])
        if self._labels is None:
            return found
        return dict(zip(self._numbers.tolist(), self._labels, strict=True))[found]

    def cost_of(self, data: Any, *, distances: Any = None, valuation: Valuation | None = None) -> float:
        """The verifier: what this solution costs (or, for public projects, is worth) on data that you bring along.

        Edges as pairs for a cut or a vertex cover, elements for a set cover, and for a k-median demand counts by site together
        with the matrix of distances. Public projects take rows of resources (coverage), counts by place with the matrix of
        distances (facility), or rows with `valuation` = the function that was used. No noise is added: the result is as
        private as that data. On private rows it is for their owner's eyes and not for publishing.
        """
        if self.problem == "min-cut":
            side = dict(zip(self._named(self._numbers), self._main["side"].to_list(), strict=True))
            return float(len({frozenset(edge) for edge in data if side[edge[0]] != side[edge[1]]}))
        if self.problem == "vertex-cover":
            place = {name: position for position, name in enumerate(self.order)}
            return float(len({min(edge, key=place.__getitem__) for edge in data if edge[0] != edge[1]}))
        if self.problem == "set-cover":
            used = {self.assign(element) for element in data}
            names = dict(zip(self._named(self._numbers), self._numbers.tolist(), strict=True))
            costs = self.tables["costs"]["cost"].to_numpy()
            return float(sum(costs[names[name]] for name in used))
        if self.problem == "k-median":
            if distances is None:
                raise QueryError("The cost of a k-median needs distances = ..., a matrix of distances between all places.")
            return float(np.asarray(data) @ np.asarray(distances)[:, self._numbers].min(axis=1))
        return self._value_of(data, distances, valuation)

    def _value_of(self, data: Any, distances: Any, valuation: Valuation | None) -> float:
        worth = str(self.manifest["facts"].get("worth", "coverage"))
        if worth == "coverage":
            wanted = {str(name) for name in self.chosen}
            return float(sum(1 for row in data if wanted & {str(item) for item in row}))
        if worth == "facility":
            if distances is None:
                raise QueryError("The value of the nearest site needs distances = ..., a matrix between all places.")
            matrix = np.asarray(distances, dtype=np.float64)
            nearest = matrix[:, self._numbers].min(axis=1)
            return float((np.asarray(data) * (1 - nearest / (matrix.max() or 1.0))).sum())
        if valuation is None:
            raise QueryError(f"These resources were valued by '{worth}'. Give valuation = that function, and rows of agents.")
        chosen = frozenset(int(number) for number in self._numbers)
        return float(sum(min(1.0, max(0.0, float(valuation(row, chosen)))) for row in data))

    def to_frame(self) -> pl.DataFrame:
        """The solution as a table."""
        return self._main

    def to_json(self) -> dict[str, Any]:
        """The solution as plain data."""
        return {
            "problem": self.problem,
            "dataset": self.manifest["dataset"],
            "solution": self._main.to_dict(as_series=False),
            "bound": self.bound,
            "lower_bound": self.lower_bound,
            "cost": self.manifest["privacy"]["cost"],
        }

    def plot(self, *, top: int = 30, edges: Iterable[Sequence[Any]] | None = None) -> Figure:
        """A map of the sites, the two sides of a cut (with public `edges` if given), or the head of an order."""
        from dpublish.public.releases.solution_plots import plot_solution

        return plot_solution(self, self._main, self._named(self._numbers), top=top, edges=edges)

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML page about this release."""
        from dpublish.public.solution_report import write_report

        return write_report(self, path)

    def summary(self) -> dict[str, str]:
        rows = super().summary()
        rows["problem"] = self.problem
        if self.problem == "min-cut":
            first, second = (len(side) for side in self.sides)
            rows["solution"] = f"{first:,} vertices on one side, {second:,} on the other"
        else:
            names = [str(name) for name in self._named(self._numbers[:6])]
            rows["solution"] = ", ".join(names) + (", ..." if len(self._numbers) > 6 else "")
        rows["bound"] = str(self.bound["text"])
        rows["lower bound"] = str(self.lower_bound["text"])
        return rows

    def _named(self, numbers: Ints) -> list[Any]:
        return list(numbers.tolist()) if self._labels is None else self._labels[: len(numbers)]

    def _known(self, name: Any, known: Any) -> Any:
        for form in (name, str(name)):
            if form in known:
                return form
        shown = [str(k) for k in list(known)[:10_000]]
        raise QueryError(f"'{name}' is not one of the public names.{did_you_mean(str(name), shown)}")

    def _only(self, what: str, *problems: str) -> None:
        if self.problem not in problems:
            raise QueryError(f"A release of problem {self.problem} has no {what}; that is for {' and '.join(problems)}.")

    def _assignment(self) -> Ints:
        """For every element the first set of its part's order that holds it."""
        if self._assigned is None:
            order = self._main
            position = pl.DataFrame({"part": order["part"], "set": order["set"], "position": np.arange(order.height)})
            universe = self.tables["universe"]
            held = self.tables["members"].with_columns(
                part=pl.Series(universe["part"].to_numpy())[self.tables["members"]["element"]]
            )
            first = held.join(position, on=["part", "set"], how="inner").sort("position").unique("element", keep="first")
            assigned = np.full(universe.height, -1, dtype=np.int64)
            assigned[first["element"].to_numpy()] = first["set"].to_numpy()
            self._assigned = assigned
        return self._assigned


def _whole_column(frame: pl.DataFrame, column: str, name: str, limit: int) -> Ints:
    if column not in frame.columns or frame[column].dtype != pl.Int64 or frame[column].null_count():
        raise BundleError(f"{name}.parquet must have a column {column} of whole numbers.")
    numbers = frame[column].to_numpy()
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= limit):
        raise BundleError(f"{name}.parquet names a {column} that does not exist.")
    return numbers


def _check_family(facts: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
    sets, elements = whole(facts, "sets", "facts"), whole(facts, "elements", "facts")
    if tables["universe"].height != elements or tables["costs"].height != sets:
        raise BundleError("universe.parquet and costs.parquet must have a row for every element and set.")
    held = _whole_column(tables["members"], "element", "members", elements)
    _whole_column(tables["members"], "set", "members", sets)
    _whole_column(tables["order"], "part", "order", 1 << 31)
    _whole_column(tables["universe"], "part", "universe", 1 << 31)
    if len(np.unique(held)) != elements:
        raise BundleError("members.parquet: an element is in no set.")
    costs = tables["costs"]
    if costs.columns != ["cost"] or costs["cost"].dtype != pl.Float64 or not all(
        math.isfinite(c) and c > 0 for c in costs["cost"].to_list()
    ):  # fmt: skip
        raise BundleError("costs.parquet must hold positive numbers.")
