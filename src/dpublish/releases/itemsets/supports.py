"""A release of measured supports: noisy counts of items, pairs and larger sets, in which long
transactions weigh less.

An itemset that was measured is answered by its count: noise on both sides, and above it an
allowance for what weighting took away, which is stated apart. One that was only ranked has an upper
limit from its rank, one that was never looked at has that of its parts. Of the chance that an
interval may miss, three quarters go to the noise of a measured count, an eighth to the allowance,
and an eighth to the case that the itemset was not measured: whether it was is decided by noise too.

Any other question about items is answered by all measured supports of its items together: the
limits are those of a linear program, and the value is the most even table that agrees with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Floats
from dpublish.errors import BundleError, QueryError
from dpublish.estimate import Estimate, check_level
from dpublish.models.integer_limits import integer_rows, within_limits
from dpublish.models.noisy_counts import (
    NoiseLaw,
    Touched,
    allowance,
    deviation,
    normal_quantile,
    ordered_fit,
    tail_quantile,
)
from dpublish.releases.bundle.manifest import fraction, table, whole
from dpublish.releases.frames import generator_of, rows_to_draw
from dpublish.releases.histogram.intervals import Total
from dpublish.releases.itemsets.mining import (
    Every,
    Item,
    Itemset,
    Node,
    Truths,
    atoms_of,
    check_sizes,
    truth_of,
)
from dpublish.releases.itemsets.release import ItemsetRelease, check_columns, check_range

if TYPE_CHECKING:
    from dpublish.present.report import Report

TABLES: dict[str, dict[str, type[pl.DataType]]] = {
    "items": {"name": pl.String},
    "supports": {"size": pl.Int32, "count": pl.Int64, "round": pl.Int32},
    "members": {"item": pl.Int32},
}
MAX_ROUNDS = 16
MAX_SIZE = 8
MAX_ATOMS = 10
NOISE_PART, ALLOWANCE_PART, UNSEEN_PART = 0.75, 0.125, 0.125
SWEEPS = 200


@dataclass(frozen=True)
class Round:
    """The law of the counts of one round; `unit` is what one transaction weighs."""

    law: NoiseLaw
    unit: int
    rank: bool
    cap: int
    scale: Fraction
    touched: Touched

    @cached_property
    def factor(self) -> float:
        """What makes up for the weight that was taken off, on average."""
        return self.touched.factor(self.cap)

    @cached_property
    def deviation(self) -> float:
        return deviation(self.law, self.scale)

    def quantile(self, alpha: float) -> float:
        """What the noise of a count exceeds with probability at most alpha, in transactions."""
        return tail_quantile(self.law, self.scale, alpha, np.ones(1))

    def allowance(self, alpha: float) -> float:
        """The most that weighting took off a count; rounding weights down takes a grid step."""
        taken = allowance(self.touched, self.cap, alpha)
        above = sum(
            max(0, count)
            for edge, count in zip(self.touched.edges, self.touched.counts, strict=True)
            if edge > self.cap
        )
        return taken + (above / self.unit if taken else 0.0)


class SupportRelease(ItemsetRelease):
    """Noisy supports of frequent items, pairs and larger sets."""

    complete = False

    def parse(self) -> None:
        facts = table(self.manifest, "facts", "manifest")
        number = whole(facts, "items", "facts", lowest=1)
        check_columns(self.tables, TABLES, number)
        if set(self.tables) != set(TABLES):
            raise BundleError(f"A release of supports holds the tables {', '.join(TABLES)}.")
        self.rounds = _read_rounds(facts)
        self.items = self.tables["items"]["name"].to_list()
        self._position = {name: place for place, name in enumerate(self.items)}
        self.total, self._total_scale = _read_total(facts)
        self.sizes = self._column("supports", "size")
        self.counts = self._column("supports", "count")
        numbers, members = self._column("supports", "round"), self._column("members", "item")
        check_range("round", numbers, 0, len(self.rounds))
        check_range("size", self.sizes, 1, MAX_SIZE + 1)
        if int(self.sizes.sum()) != members.size:
            raise BundleError("members.parquet does not fit the sizes in supports.parquet.")
        check_range("item", members, 0, number)
        if not within_limits(self.counts):
            raise BundleError("A count is not within the limits of the format.")
        self._measured: dict[Itemset, int] = {}
        """The row of every itemset that was measured."""
        self._ranked: dict[Itemset, int] = {}
        held = iter(members.tolist())
        for row, (size, one) in enumerate(zip(self.sizes.tolist(), numbers.tolist(), strict=True)):
            itemset = tuple(islice(held, size))
            if any(a >= b for a, b in pairwise(itemset)):
                raise BundleError("The members of an itemset must ascend.")
            (self._ranked if self.rounds[one].rank else self._measured)[itemset] = row
        self._round_of = [self.rounds[one] for one in numbers.tolist()]

    @cached_property
    def _values(self) -> dict[Itemset, float]:
        """Supports of the measured itemsets, made up for their weights and consistent: none is
        negative, none exceeds that of its parts or the number of transactions."""
        sets = sorted(self._measured, key=lambda itemset: (len(itemset), itemset))
        place = {itemset: number for number, itemset in enumerate(sets)}
        rounds = [self._round_of[self._measured[itemset]] for itemset in sets]
        raw = np.array(
            [
                self.counts[self._measured[itemset]] / one.unit * one.factor
                for itemset, one in zip(sets, rounds, strict=True)
            ]
        )
        spread = np.array([(one.deviation * one.factor) ** 2 for one in rounds])
        below = [
            (number, place[part])
            for itemset, number in place.items()
            for part in combinations(itemset, len(itemset) - 1)
            if part in place
        ]
        fitted = np.minimum(ordered_fit(raw, np.maximum(spread, 1e-12), below), self.transactions)
        return dict(zip(sets, fitted.tolist(), strict=True))

    def support(self, items: Iterable[str], *, level: float = 0.95) -> Estimate:
        """How many transactions hold all of the items, with an error bar.

        `low` and `high` hold for the transactions themselves. The note says how much of `high`
        allows for long transactions, which count with a smaller weight.
        """
        return super().support(items, level=level)

    def _answer(self, question: Node, level: float) -> Estimate:
        alpha = 1.0 - check_level(level)
        members = _conjunction(question)
        if members is not None and len(members) <= MAX_ATOMS:
            return self._of_itemset(members, alpha)
        return self._of_question(question, alpha)

    def _of_itemset(self, members: Itemset, alpha: float) -> Estimate:
        low, high, taken, error = self._limits(members, alpha)
        value, note = self._values.get(members, 0.0), ""
        if members not in self._measured:
            note = "not among the itemsets that were counted: reads 0"
            if all((item,) in self._measured for item in members) and len(members) > 1:
                value = float(self._even_table(members)[-1])
                note = "not counted: its items are taken to be as even as what was counted allows"
        elif taken >= 1 and np.isfinite(high):
            note = (
                f"high allows {taken:,.0f} for long transactions, which count with a smaller "
                f"weight; without that it is {high - taken:,.0f}"
            )
        return _estimate(
            value, error, low, high, 1.0 - alpha, note=note, details={"allowance": taken}
        )

    def _limits(self, members: Itemset, alpha: float) -> tuple[float, float, float, float]:
        """Low, high, how much of high is the allowance, and the standard error."""
        ceiling = self._most(UNSEEN_PART * alpha / 2)
        row = self._measured.get(members)
        if row is not None:
            law = self._round_of[row]
            count = self.counts[row] / law.unit
            reach = law.quantile(NOISE_PART * alpha / 2)
            taken = law.allowance(ALLOWANCE_PART * alpha)
            high = min(max(0.0, count + reach) + taken, ceiling)
            return max(0.0, count - reach), high, taken, law.deviation * law.factor
        part = UNSEEN_PART * alpha / 2
        row = self._ranked.get(members)
        if row is not None:
            law = self._round_of[row]
            top = self.counts[row] / law.unit + law.quantile(part / 2)
            high = min(ceiling, max(0.0, top) + law.allowance(part / 2))
        elif len(members) > 1:
            parts = combinations(members, len(members) - 1)
            high = min(self._limits(piece, part / len(members))[1] for piece in parts)
        else:
            high = ceiling
        return 0.0, high, 0.0, high / np.sqrt(12.0) if np.isfinite(high) else high

    def _most(self, alpha: float) -> float:
        """A number of transactions that no count exceeds, but for a chance of alpha."""
        reach = tail_quantile(self.rounds[0].law, self._total_scale, alpha, np.ones(1))
        return min(max(0.0, self.total.value + reach), self.max_rows)

    def _of_question(self, question: Node, alpha: float) -> Estimate:
        """Any question about up to `MAX_ATOMS` items, from all supports within them."""
        atoms = atoms_of(question)
        if len(atoms) > MAX_ATOMS:
            raise QueryError(
                f"This release answers questions about up to {MAX_ATOMS} items; this one speaks of "
                f"{len(atoms)}."
            )
        hits = truth_of(question, _states(atoms).__getitem__, 1 << len(atoms)) == 1
        if not hits.any():
            return _estimate(0.0, 0.0, 0.0, 0.0, 1.0 - alpha)
        if not atoms:  # every transaction
            low, high = self._total_limits(alpha)
            error = (high - low) / (2 * normal_quantile(alpha / 2))
            return _estimate(float(self.transactions), error, low, high, 1.0 - alpha)
        known = self._known(atoms)
        share = alpha / (len(known) + 1)
        bounds = [self._limits(part, share)[:2] for part in known]
        low, high = _program(_inside(known, atoms), bounds, hits, self._total_limits(share))
        return _estimate(
            float(self._even_table(atoms)[hits].sum()),
            (high - low) / np.sqrt(12.0) if np.isfinite(high) else high,
            low,
            high,
            1.0 - alpha,
            note="between the limits that the measured supports of its items leave",
        )

    def _total_limits(self, alpha: float) -> tuple[float, float]:
        reach = tail_quantile(self.rounds[0].law, self._total_scale, alpha / 2, np.ones(1))
        return max(0.0, self.total.value - reach), self._most(alpha / 2)

    def _known(self, atoms: Itemset) -> list[Itemset]:
        """The single items, and what was counted or ranked among them."""
        return [
            part
            for size in range(1, len(atoms) + 1)
            for part in combinations(atoms, size)
            if size == 1 or part in self._measured or part in self._ranked
        ]

    def _even_table(self, atoms: Itemset) -> Floats:
        """The most even table over the items' combinations that has the measured supports; by the
        bits of a combination."""
        known = [part for part in self._known(atoms) if len(part) == 1 or part in self._values]
        inside = _inside(known, atoms)
        size = max(1.0, float(self.transactions))
        cells = np.full(inside.shape[1], size / inside.shape[1])
        targets = {number: self._values.get(part, 0.0) for number, part in enumerate(known)}
        for _ in range(SWEEPS):
            moved = 0.0
            for number, target in targets.items():
                held = inside[number] > 0
                now = float(cells[held].sum())
                moved = max(moved, abs(now - target))
                cells[held] *= target / max(now, 1e-12)
                cells[~held] *= max(size - target, 0.0) / max(size - now, 1e-12)
            if moved < 0.5:
                break
        return cells

    def item_counts(self, *, top: int = 50, level: float = 0.95) -> pl.DataFrame:
        """The most frequent items: item, count, standard_error, low, high and, of high, the
        allowance for long transactions."""
        frame = super().item_counts(top=top, level=level)
        allowances = [
            float(self.support([name], level=level).details.get("allowance", 0.0))
            for name in frame["item"].to_list()
        ]
        return frame.with_columns(pl.Series("allowance", allowances, dtype=pl.Float64))

    def _single(self) -> Floats:
        return np.array([self._values.get((item,), 0.0) for item in range(len(self.items))])

    def _most_frequent(
        self, k: int, consistent: bool, *, min_size: int = 1, max_size: int | None = None
    ) -> list[tuple[Itemset, float]]:
        check_sizes(k, min_size, max_size)
        values = self._values if consistent else self._published()
        fits = [
            (members, value)
            for members, value in values.items()
            if len(members) >= min_size
            and (max_size is None or len(members) <= max_size)
            and value > 0
        ]
        return sorted(fits, key=lambda one: (-one[1], one[0]))[:k]

    def _published(self) -> dict[Itemset, float]:
        return {
            members: float(self.counts[row]) / self._round_of[row].unit
            for members, row in self._measured.items()
        }

    def _whole(self, consistent: bool) -> float:
        return float(self.transactions)

    def to_frame(self, *, consistent: bool = False) -> pl.DataFrame:
        """One row per measured itemset: its items and, as `weight`, its support, as published or
        made consistent. A transaction counts in every itemset that it holds."""
        values = self._values if consistent else self._published()
        return pl.DataFrame(
            {
                "items": [self._names(members) for members in values],
                "weight": list(values.values()),
            },
            schema={"items": pl.List(pl.String), "weight": pl.Float64},
        )

    def sample(
        self, n: int | None = None, *, seed: int | None = None, consistent: bool = True
    ) -> pl.DataFrame:
        """Synthetic transactions: every measured item as often as the release says, and along a
        forest of measured pairs as often together. They may be empty: other items are not
        known."""
        size = rows_to_draw(self.transactions if n is None else n)
        rng = generator_of(seed)
        whole = max(1.0, float(self.transactions))
        held: dict[int, NDArray[np.bool_]] = {}
        for item, parent in self._forest():
            chance = np.full(size, min(1.0, self._values[(item,)] / whole))
            if parent is not None:
                both = self._values[(min(item, parent), max(item, parent))]
                above = self._values[(parent,)]
                given = min(1.0, both / above) if above > 0 else 0.0
                rest = whole - above
                other = (self._values[(item,)] - both) / rest if rest > 0 else 0.0
                chance = np.where(held[parent], given, min(1.0, max(0.0, other)))
            held[item] = rng.random(size) < chance
        order = sorted(held)
        rows = [
            [self.items[item] for item, has in zip(order, row, strict=True) if has]
            for row in (np.stack([held[item] for item in order], axis=1) if order else [])
        ]
        return pl.DataFrame({"items": rows}, schema={"items": pl.List(pl.String)})

    def _forest(self) -> list[tuple[int, int | None]]:
        """Items with the item they hang on, parents first: a spanning forest of the pairs that tell
        most about each other (Chow and Liu)."""
        whole = max(1.0, float(self.transactions))
        tells = []
        for members in self._values:
            if len(members) == 2 and all((item,) in self._values for item in members):
                a, b = (self._values[(item,)] / whole for item in members)
                tells.append((-_information(a, b, self._values[members] / whole), members))
        near: dict[int, list[int]] = {}
        root = {item: item for (item,) in (m for m in self._values if len(m) == 1)}

        def top(item: int) -> int:
            while root[item] != item:
                item = root[item]
            return item

        for _, (one, other) in sorted(tells):
            if top(one) != top(other):
                root[top(one)] = top(other)
                near.setdefault(one, []).append(other)
                near.setdefault(other, []).append(one)
        out: list[tuple[int, int | None]] = []
        seen: set[int] = set()
        for start in root:
            todo: list[tuple[int, int | None]] = [] if start in seen else [(start, None)]
            while todo:
                item, parent = todo.pop()
                if item not in seen:
                    seen.add(item)
                    out.append((item, parent))
                    todo += [(other, item) for other in near.get(item, []) if other not in seen]
        return out

    @property
    def transactions(self) -> int:
        """The noisy number of transactions."""
        return max(0, self.total.value)

    def summary(self) -> dict[str, str]:
        sizes = [len(members) for members in self._measured]
        return {
            **super(ItemsetRelease, self).summary(),
            "items": f"{len(self.items):,}",
            "supports": f"{sizes.count(1):,} items, {sizes.count(2):,} pairs and "
            f"{sum(size > 2 for size in sizes):,} larger sets",
            "transactions": f"{self.transactions:,} (noisy count)",
        }

    def sections(self) -> Report:
        from dpublish.releases.itemsets.report import support_sections

        return support_sections(self)


def _states(atoms: Itemset) -> dict[int, Truths]:
    """Which items each combination holds."""
    masks = np.arange(1 << len(atoms))
    return {
        item: np.where((masks >> bit) & 1 == 1, np.int8(1), np.int8(-1))
        for bit, item in enumerate(atoms)
    }


def _inside(known: list[Itemset], atoms: Itemset) -> Floats:
    """For each itemset, the combinations that hold it."""
    states = _states(atoms)
    return np.array(
        [np.all([states[item] == 1 for item in part], axis=0) for part in known], dtype=np.float64
    )


def _conjunction(question: Node) -> Itemset | None:
    """The items of a question that asks for all of them, ascending; None for any other."""
    if isinstance(question, Item):
        return (question.position,)
    if not isinstance(question, Every) or not question.parts:
        return None
    out: set[int] = set()
    for part in question.parts:
        inner = _conjunction(part)
        if inner is None:
            return None
        out.update(inner)
    return tuple(sorted(out))


def _program(
    inside: Floats,
    bounds: list[tuple[float, float]],
    hits: NDArray[np.bool_],
    total: tuple[float, float],
) -> tuple[float, float]:
    """The least and the most that the cells marked by `hits` can hold, given limits on sums."""
    from scipy.optimize import linprog

    rows = np.vstack([inside, np.ones((1, hits.size))])
    low = np.array([*(end for end, _ in bounds), total[0]])
    high = np.array([*(end for _, end in bounds), total[1]])
    finite = np.isfinite(high)
    limits = np.vstack([rows[finite], -rows]), np.concatenate([high[finite], -low])
    ends = []
    for sign in (1.0, -1.0):
        found = linprog(sign * hits.astype(float), A_ub=limits[0], b_ub=limits[1], method="highs")
        ends.append(sign * float(found.fun) if found.status == 0 else None)
    # limits that contradict each other say nothing: what is left is the number of transactions
    return max(0.0, ends[0] or 0.0), total[1] if ends[1] is None else ends[1]


def _information(a: float, b: float, both: float) -> float:
    """How much two items tell about each other."""
    table = np.array([[1 - a - b + both, b - both], [a - both, both]]).clip(1e-12)
    table /= table.sum()
    free = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True)
    return float((table * np.log(table / free)).sum())


def _estimate(
    value: float,
    error: float,
    low: float,
    high: float,
    level: float,
    *,
    note: str = "",
    details: Mapping[str, Any] | None = None,
) -> Estimate:
    low, high = (max(0.0, float(end)) for end in integer_rows(low, high))
    if low > high:  # both ends are valid on their own; when noise makes them cross, between them
        low = high = (low + high) / 2
    return Estimate(
        value=min(max(value, low), high),
        standard_error=float(error),
        low=low,
        high=high,
        level=level,
        note=note,
        details=details or {},
    )


def _read_total(facts: Mapping[str, Any]) -> tuple[Total, Fraction]:
    total = table(facts, "total", "facts")
    value = total.get("value")
    if total.get("kind") != "noisy" or isinstance(value, bool) or not isinstance(value, int):
        raise BundleError("facts: 'total' must be a noisy number.")
    if abs(value) > 1 << 62:
        raise BundleError("facts: 'total' has no believable value.")
    return Total(kind="noisy", value=value), fraction(total, "scale", "total")


def _read_rounds(facts: Mapping[str, Any]) -> list[Round]:
    law, unit = facts.get("law"), whole(facts, "grid", "facts", lowest=1)
    rounds = facts.get("rounds")
    if law not in ("laplace", "gaussian"):
        raise BundleError("facts: 'law' must be laplace or gaussian.")
    if not isinstance(rounds, list) or not 1 <= len(rounds) <= MAX_ROUNDS:
        raise BundleError("facts: 'rounds' must be a list of the rounds of counting.")
    out = []
    for one in rounds:
        if not isinstance(one, Mapping) or not isinstance(one.get("rank"), bool):
            raise BundleError("facts: a round must say whether it ranks.")
        edges, counts = (_whole_list(one, name) for name in ("edges", "touched"))
        rising = all(a < b for a, b in pairwise((0, *edges)))
        if len(edges) != len(counts) or not edges or not rising:
            raise BundleError("facts: a round's 'edges' must rise, and fit 'touched'.")
        out.append(
            Round(
                law=law,
                unit=unit,
                rank=one["rank"],
                touched=Touched(law, edges, counts, fraction(one, "touched_scale", "round")),
                cap=whole(one, "cap", "round", lowest=1),
                scale=fraction(one, "scale", "round"),
            )
        )
    return out


def _whole_list(one: Mapping[str, Any], name: str) -> tuple[int, ...]:
    values = one.get(name)
    if not isinstance(values, list) or not all(
        isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 1 << 62
        for value in values
    ):
        raise BundleError(f"facts: a round's '{name}' must be whole numbers.")
    return tuple(values)
