"""A privately found solution: a cut, sites, an order that covers, or chosen resources, with its
guarantee and the lower bound.

Every problem has its verifier here: `cost_of` works out what the solution costs on data that the
caller brings along (the curator's own, or a guess). That is a private number; what a release
carries of it is noisy and was paid for (`cost_estimate`), beside that of the public solution, which
needs no data.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import polars as pl

from dpublish.arrays import Floats, Ints
from dpublish.errors import BundleError, QueryError, did_you_mean
from dpublish.estimate import Estimate
from dpublish.releases.base import Release
from dpublish.releases.bundle.manifest import table, text, whole
from dpublish.releases.solution.costs import (
    Valuation,
    best_limits,
    coverage_value,
    cut_cost,
    facility_value,
    function_value,
    known_form,
    median_cost,
    set_cost,
    vertex_cost,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# problem -> the main table, its column of numbers, and the fact that says how many there are to
# choose from
PROBLEMS = {
    "min-cut": ("sides", "vertex", "vertices"),
    "k-median": ("chosen", "site", "sites"),
    "vertex-cover": ("order", "vertex", "vertices"),
    "set-cover": ("order", "set", "sets"),
    "public-projects": ("chosen", "resource", "resources"),
}
_EXTRA = {"set-cover": {"members", "universe", "costs"}}
# the public solution, and the noisy demand; only some rules have them
_BESIDE = {
    "k-median": {"public", "demand"},
    "set-cover": {"public"},
    "public-projects": {"public"},
}


class SolutionRelease(Release):
    """The solution of one optimisation problem. `chosen`, `order`, `sides` and `assign` show it, as
    the problem has them."""

    kind: ClassVar[str] = "solution"
    own: ClassVar[tuple[str, ...]] = (
        "chosen",
        "order",
        "sides",
        "assign",
        "public",
        "cost_estimate",
        "public_cost_estimate",
        "best_limits",
        "cost_of",
        "to_json",
    )

    def parse(self) -> None:
        manifest, tables = self.manifest, self.tables
        facts = table(manifest, "facts", "manifest")
        problem = text(facts, "problem", "facts")
        if problem not in PROBLEMS:
            raise BundleError(
                f"facts: problem '{problem[:80]}' is not "
                f"known.{did_you_mean(problem[:80], PROBLEMS)}"
            )
        for key in ("bound", "lower_bound"):
            statement = table(facts, key, "facts")
            text(statement, "text", f"facts: {key}")
            for number in ("factor", "additive"):
                if isinstance(statement.get(number), bool) or not isinstance(
                    statement.get(number), int | float
                ):
                    raise BundleError(f"facts: {key}: '{number}' must be a number.")
        main, column, size = PROBLEMS[problem]
        weighted = problem == "vertex-cover" and _weighted(facts)
        extra = {"weights"} if weighted else _EXTRA.get(problem, set())
        if set(tables) - _BESIDE.get(problem, set()) != {main} | extra:
            raise BundleError(
                f"A release of problem {problem} does not hold these tables: {sorted(tables)}."
            )
        count = whole(facts, size, "facts", limit=1 << 31, lowest=1)
        numbers = _labelled_column(tables[main], column, main, count)
        if "part" not in tables[main].columns and len(np.unique(numbers)) != len(numbers):
            raise BundleError(f"{main}.parquet names something twice.")
        if problem in ("min-cut", "vertex-cover") and len(numbers) != count:
            raise BundleError(f"{main}.parquet must name every vertex once.")
        if problem in ("k-median", "public-projects") and len(numbers) != whole(
            facts, "k", "facts", lowest=1
        ):
            raise BundleError("chosen.parquet does not hold k rows.")
        if problem == "min-cut":
            side = tables[main].get_column("side") if "side" in tables[main].columns else None
            if (
                side is None
                or side.dtype != pl.Boolean
                or side.null_count()
                or side.all()
                or not side.any()
            ):
                raise BundleError(
                    "sides.parquet must put every vertex on one of two sides, with neither of "
                    "them empty."
                )
        if problem == "set-cover":
            _check_family(facts, tables)
        _check_optional(facts, tables[main])
        if "public" in tables:
            public = _labelled_column(tables["public"], column, "public", count)
            if not len(public) or len(np.unique(public)) != len(public):
                raise BundleError("public.parquet names nothing, or something twice.")
        if "demand" in tables:
            _check_demand(facts, tables["demand"], count)
        if weighted:
            if tables["weights"].height != count:
                raise BundleError("weights.parquet must have a row for every vertex.")
            _check_amounts(tables["weights"], "weights", "weight")
        if problem in ("k-median", "public-projects"):
            _check_distances(facts)
        self.problem = problem
        self._main = tables[main]
        self._numbers: Ints = numbers
        self._labels: list[str] | None = (
            self._main["label"].to_list() if "label" in self._main.columns else None
        )

    @property
    def public(self) -> list[Any]:
        """The solution that needs no data: sites for even demand, the first resources, a cover of
        all elements, vertices from light to heavy (else as they are listed), or of a cut the one
        vertex that is parted, the first."""
        if self.problem == "min-cut":
            return self._named(self._numbers)[:1]
        if self.problem == "vertex-cover":
            names = dict(zip(self._numbers.tolist(), self._named(self._numbers), strict=True))
            weights = self.weights if self.weights is not None else np.ones(len(names))
            return [names[number] for number in np.argsort(weights, kind="stable").tolist()]
        if "public" not in self.tables:
            raise QueryError("This release holds no public solution: its rule makes none.")
        frame = self.tables["public"]
        return frame["label" if "label" in frame.columns else PROBLEMS[self.problem][1]].to_list()

    @property
    def cost_estimate(self) -> Estimate | None:
        """What the solution costs on the private rows, with noise, when that was paid for."""
        return self._estimate("cost_estimate")

    @property
    def public_cost_estimate(self) -> Estimate | None:
        """What the public solution costs on the private rows, with noise."""
        return self._estimate("public_cost_estimate")

    def _estimate(self, name: str) -> Estimate | None:
        facts = self.manifest["facts"]
        if facts.get(name) is None:
            return None
        # distances, weights and values between 0 and 1 are no whole numbers
        fractional = {"unit", "weighted"} & facts.keys() or self.problem == "set-cover"
        own = facts.get("worth", "coverage") != "coverage"
        return Estimate(**facts[name], measure="mean" if fractional or own else "count")

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
        return [n for n, s in zip(names, side, strict=True) if s], [
            n for n, s in zip(names, side, strict=True) if not s
        ]

    @property
    def weights(self) -> Floats | None:
        """The public weights of the vertices by number, when they are not all equal to 1."""
        self._only("weights", "vertex-cover")
        return self.tables["weights"]["weight"].to_numpy() if "weights" in self.tables else None

    @property
    def size(self) -> Mapping[str, Any] | None:
        """A noisy number, when it was paid for: of the edges of the smallest cut, between the
        smallest vertex cover (the lightest, where vertices have weights) and twice that, or what
        a cheapest set cover in parts costs."""
        self._only("size", "vertex-cover", "min-cut", "set-cover")
        found: Mapping[str, Any] | None = self.manifest["facts"].get("size")
        return found

    @property
    def best_limits(self) -> tuple[float, float] | None:
        """Between which numbers the cost of the cheapest solution on the private rows lies, with
        probability 95%, when a size was paid for."""
        size = self.size
        return None if size is None else best_limits(self.problem, size)

    def assign(self, thing: Any) -> Any:
        """Which vertex serves an edge (u, v), or which set serves an element. Ask about yours;
        asking costs nothing."""
        if self.problem == "vertex-cover":
            if not isinstance(thing, Sequence) or isinstance(thing, str) or len(thing) != 2:
                raise QueryError("An edge is a pair of vertices, such as assign(('ann', 'bob')).")
            place = {name: position for position, name in enumerate(self.order)}
            u, v = (self._known(end, place) for end in thing)
            if u == v:
                raise QueryError("An edge has two different ends.")
            return u if place[u] < place[v] else v
        self._only("assign", "vertex-cover", "set-cover")
        elements = self._elements()
        found = int(self._assigned[elements[self._known(thing, elements)]])
        if self._labels is None:
            return found
        return dict(zip(self._numbers.tolist(), self._labels, strict=True))[found]

    def cost_of(
        self, data: Any, *, distances: Any = None, valuation: Valuation | None = None
    ) -> float:
        """The verifier: what this solution costs (or, for public projects, is worth) on data that
        you bring along.

        Edges as pairs for a cut or a vertex cover, elements for a set cover, and for a k-median
        demand counts by site together with the matrix of distances. Public projects take rows of
        resources (coverage), counts by place with the matrix of distances (facility), or rows with
        `valuation` = the function that was used. Weights, costs, caps and units are those of the
        release, so that the number is the one that `bound` speaks of. No noise is added: the result
        is as private as that data. On private rows it is for their owner's eyes and not for
        publishing.
        """
        facts = self.manifest["facts"]
        names = self._named(self._numbers)
        if self.problem == "min-cut":
            return cut_cost(data, dict(zip(names, self._main["side"].to_list(), strict=True)))
        if self.problem == "vertex-cover":
            weights = self.weights
            if weights is None and self.manifest["parameters"].get("weighted") is True:
                raise QueryError(
                    "This cover was weighted, but its release is of a time when weights were not "
                    "stored in it."
                )
            place = {name: position for position, name in enumerate(names)}
            return vertex_cost(data, place, None if weights is None else weights[self._numbers])
        if self.problem == "set-cover":
            return set_cost(
                data, self._elements(), self._assigned, self.tables["costs"]["cost"].to_numpy()
            )
        if self.problem == "k-median":
            return median_cost(data, distances, self._numbers, facts)
        worth = str(facts.get("worth", "coverage"))
        if worth == "coverage":
            return coverage_value(data, names, str(facts.get("list_marks", " ,;")))
        if worth == "facility":
            return facility_value(data, distances, self._numbers, facts)
        if valuation is None:
            raise QueryError(
                f"These resources were valued by '{worth}'. Give valuation = that function, and "
                f"rows of agents."
            )
        return function_value(data, valuation, frozenset(self._numbers.tolist()))

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
            **{
                name: estimate.numbers()
                for name in ("cost_estimate", "public_cost_estimate")
                if (estimate := self._estimate(name)) is not None
            },
        }

    def plot(self, *, top: int = 30, edges: Iterable[Sequence[Any]] | None = None) -> Figure:
        """A map of the sites, the two sides of a cut (with public `edges` if given), or the head of
        an order."""
        from dpublish.releases.solution.report import plot_solution

        return plot_solution(self, self._main, self._named(self._numbers), top=top, edges=edges)

    def summary(self) -> dict[str, str]:
        rows = {**super().summary(), "problem": self.problem}
        if self.problem == "min-cut":
            first, second = (len(side) for side in self.sides)
            rows["solution"] = f"{first:,} vertices on one side, {second:,} on the other"
        else:
            names = map(str, self._named(self._numbers[:6]))
            rows["solution"] = ", ".join(names) + (", ..." if len(self._numbers) > 6 else "")
        if self.cost_estimate is not None:
            what = "worth" if self.problem == "public-projects" else "cost"
            rows[f"{what} on the rows"] = str(self.cost_estimate)
            rows["public solution"] = str(self.public_cost_estimate)
        rows["bound"] = str(self.bound["text"])
        if "says_nothing" in self.bound:
            rows["bound"] += f" It says nothing {self.bound['says_nothing']}."
        rows["lower bound"] = str(self.lower_bound["text"])
        return rows

    def _named(self, numbers: Ints) -> list[Any]:
        return list(numbers.tolist()) if self._labels is None else self._labels[: len(numbers)]

    def _known(self, name: Any, known: Any) -> Any:
        form = known_form(name, known)
        if form is None:
            shown = [str(k) for k in list(known)[:10_000]]
            raise QueryError(
                f"'{name}' is not one of the public names.{did_you_mean(str(name), shown)}"
            )
        return form

    def _only(self, what: str, *problems: str) -> None:
        if self.problem not in problems:
            raise QueryError(
                f"A release of problem {self.problem} has no {what}; that is for "
                f"{' and '.join(problems)}."
            )

    def _elements(self) -> dict[Any, int]:
        """The number of each element of a set cover, by its name if it has one."""
        universe = self.tables["universe"]
        names: Iterable[Any] = (
            universe["label"].to_list() if "label" in universe.columns else range(universe.height)
        )
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _assigned(self) -> Ints:
        return first_sets(self.tables)


def first_sets(tables: Mapping[str, pl.DataFrame]) -> Ints:
    """For every element of a set cover the first set of its part's order that holds it; -1 if none
    does."""
    order, universe = tables["order"], tables["universe"]
    position = pl.DataFrame(
        {"part": order["part"], "set": order["set"], "position": np.arange(order.height)}
    )
    held = tables["members"].with_columns(
        part=pl.Series(universe["part"].to_numpy())[tables["members"]["element"]]
    )
    first = (
        held.join(position, on=["part", "set"], how="inner")
        .sort("position")
        .unique("element", keep="first")
    )
    assigned = np.full(universe.height, -1, dtype=np.int64)
    assigned[first["element"].to_numpy()] = first["set"].to_numpy()
    return assigned


def _labelled_column(frame: pl.DataFrame, column: str, name: str, limit: int) -> Ints:
    """The numbers of what a table names, which may have labels beside them."""
    numbers = _whole_column(frame, column, name, limit)
    if "label" in frame.columns and frame["label"].dtype != pl.String:
        raise BundleError(f"{name}.parquet: labels must be texts.")
    return numbers


def _whole_column(frame: pl.DataFrame, column: str, name: str, limit: int | None) -> Ints:
    if column not in frame.columns or frame[column].dtype != pl.Int64 or frame[column].null_count():
        raise BundleError(f"{name}.parquet must have a column {column} of whole numbers.")
    numbers = frame[column].to_numpy()
    if limit is not None and len(numbers) and (numbers.min() < 0 or numbers.max() >= limit):
        raise BundleError(f"{name}.parquet names a {column} that does not exist.")
    return numbers


def _check_family(facts: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
    sets, elements = whole(facts, "sets", "facts"), whole(facts, "elements", "facts")
    if tables["universe"].height != elements or tables["costs"].height != sets:
        raise BundleError(
            "universe.parquet and costs.parquet must have a row for every element and set."
        )
    held = _whole_column(tables["members"], "element", "members", elements)
    _whole_column(tables["members"], "set", "members", sets)
    for name in ("order", "universe"):
        _whole_column(tables[name], "part", name, 1 << 31)
    if len(np.unique(held)) != elements or (first_sets(tables) < 0).any():
        raise BundleError("members.parquet: an element is in no set that may serve it.")
    _check_amounts(tables["costs"], "costs", "cost")


def _check_amounts(frame: pl.DataFrame, name: str, column: str) -> None:
    if (
        frame.columns != [column]
        or frame[column].dtype != pl.Float64
        or frame[column].null_count()
        or not all(math.isfinite(amount) and amount > 0 for amount in frame[column].to_list())
    ):
        raise BundleError(f"{name}.parquet must hold positive numbers.")


def _check_demand(facts: Mapping[str, Any], frame: pl.DataFrame, count: int) -> None:
    """Noisy demand by place: the group it was counted in, the middle of that, the noisy count."""
    if frame.height != count:
        raise BundleError("demand.parquet must have a row for every place.")
    for column, limit in (("group", count), ("middle", count), ("noisy", None)):
        _whole_column(frame, column, "demand", limit)
    text(facts, "demand_scale", "facts")


def _check_estimate(facts: Mapping[str, Any], name: str) -> None:
    found = table(facts, name, "facts")
    wanted = {"value", "standard_error", "low", "high", "level"}
    if found.keys() != wanted or not all(
        isinstance(one, int | float) and not isinstance(one, bool) and math.isfinite(one)
        for one in found.values()
    ):
        raise BundleError(f"facts: {name}: must hold the numbers {', '.join(sorted(wanted))}.")


def _check_optional(facts: Mapping[str, Any], main: pl.DataFrame) -> None:
    """What only some problems and settings have: a noisy size, truthfulness, what resources are
    worth, a map."""
    if facts.get("size") is not None:
        size = table(facts, "size", "facts")
        kinds = (int, float) if size.get("weighted") is True else (int,)
        if isinstance(size.get("value"), bool) or not isinstance(size.get("value"), kinds):
            raise BundleError("facts: size: 'value' must be a whole number.")
        for name in ("factor", "above", "below", "most"):
            if name in size and not _positive(size[name]):
                raise BundleError(f"facts: size: '{name}' must be a positive number.")
        try:
            scale = Fraction(text(size, "scale", "facts: size"))
        except (ValueError, ZeroDivisionError):
            scale = Fraction(0)
        if not 0 < scale < 10**300:
            raise BundleError("facts: size: 'scale' must be a positive number.")
    if {"cost_estimate", "public_cost_estimate"} & facts.keys():
        for name in ("cost_estimate", "public_cost_estimate"):
            _check_estimate(facts, name)
    void = table(facts, "bound", "facts").get("says_nothing", "")
    if not isinstance(void, str):
        raise BundleError("facts: bound: 'says_nothing' must be a text.")
    if "truthfulness" in facts and not _positive(facts["truthfulness"]):
        raise BundleError("facts: 'truthfulness' must be a positive number.")
    if "worth" in facts:
        text(facts, "worth", "facts")
    marks = facts.get("list_marks", " ")
    if not isinstance(marks, str) or not marks or not set(marks) <= set("\t\r\n ,;"):
        raise BundleError(
            "facts: 'list_marks' must hold tabs, line ends, blanks, commas and semicolons only."
        )
    if {"x", "y"} & set(main.columns):
        found = [main[axis] for axis in ("x", "y") if axis in main.columns]
        if len(found) < 2 or any(
            at.dtype != pl.Float64 or at.null_count() or not at.is_finite().all() for at in found
        ):
            raise BundleError("chosen.parquet: a map needs finite numbers x and y.")


def _positive(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    )


def _weighted(facts: Mapping[str, Any]) -> bool:
    """Whether vertices have weights. Releases from before weights were stored do not say so."""
    found = facts.get("weighted", False)
    if not isinstance(found, bool):
        raise BundleError("facts: weighted must be true or false.")
    return found


def _check_distances(facts: Mapping[str, Any]) -> None:
    """The unit of distances and the largest that counts, in problems that have distances."""
    if facts.get("problem") == "k-median" or {"unit", "diameter"} & facts.keys():
        for key in ("unit", "diameter"):
            if not _positive(facts.get(key)):
                raise BundleError(f"facts: '{key}' must be a positive number.")
