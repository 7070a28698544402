"""Conjunctions and marginals up to a width, from one noisy parity a person (Cormode, Kulkarni and
Srivastava 2018).

Each person draws one of the T non-empty sets of at most `width` attributes, and reports the parity
of their own attributes in it by randomised response. Every conjunction of at most `width`
attributes, every parity and every marginal table is a signed mean of those parities. T grows like
d^width / width!, and with it the error: that is the price of the local model (Roth 2010, theorem
38), not a weakness of this protocol.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Floats, Words
from dpublish.errors import InputError, PlanError, QueryError, did_you_mean
from dpublish.estimate import Estimate
from dpublish.local.base import Law, Randomizer, Reports, tallied
from dpublish.local.coins import Coin, Coins, checked_whole
from dpublish.local.estimates import estimate_of, normal_quantile, onto_simplex
from dpublish.local.hashing import parity, transform
from dpublish.privacy.cost import Amount

T = TypeVar("T")


def parity_weights(size: int) -> list[int]:
    """The weight (-2)^(i-1) of a conjunction of i attributes, for i = 1..size."""
    if size < 1:
        raise QueryError("A parity needs at least one attribute.")
    return [(-2) ** (i - 1) for i in range(1, size + 1)]


def parity_from_conjunctions(
    names: Sequence[T], conjunction: Callable[[tuple[T, ...]], float]
) -> float:
    """The share of people with an odd number of the named attributes; `conjunction` gives the share
    that has all of a set."""
    weights = parity_weights(len(names))
    return sum(
        weights[size - 1] * conjunction(chosen)
        for size in range(1, len(names) + 1)
        for chosen in itertools.combinations(names, size)
    )


def parity_error(size: int, conjunction_error: float) -> float:
    """The largest error of a parity when each conjunction is off by at most `conjunction_error`."""
    if size < 1:
        raise QueryError("A parity needs at least one attribute.")
    return conjunction_error * float(3**size - 1) / 2


MAX_ATTRIBUTES = 63
MAX_SETS = 1 << 22


class Conjunctions(Randomizer):
    """One noisy parity of one random set of attributes.

    Input: one record of d yes-or-no attributes. Neighbours: any two records of one person.
    Output: which set was asked, and a noisy bit: 2 x set + bit.
    Privacy: epsilon (theorem 6 of coins.proof.md).
    Relies on: uniform words.
    Shows / hides: the set, which has nothing to do with the record, and a noisy parity.
    Accuracy: standard error of the share of a conjunction of s attributes about
        sqrt(T / n) 2^(-s/2) (e^eps + 1) / (e^eps - 1), of a parity sqrt(T / n) / 2 times the same.
    """

    method = "conjunctions"
    error_of = "the share of a conjunction of full width"

    def __init__(
        self, attributes: int | Iterable[str], width: int, epsilon: Amount, *, bits: int = 64
    ) -> None:
        super().__init__(epsilon)
        self.attributes = _attribute_names(attributes)
        self.width = checked_whole("width", width, 1, len(self.attributes))
        sets = sum(math.comb(len(self.attributes), size) for size in range(1, width + 1))
        if sets > MAX_SETS:
            raise PlanError(
                f"{len(self.attributes)} attributes have {sets:,} sets of at most {width}; at "
                f"most {MAX_SETS:,} are supported, "
                "and each would get very few answers. Use a smaller width or fewer attributes."
            )
        self.coin = Coin(2, self.epsilon, bits)
        self.masks = _masks(len(self.attributes), width)

    def protocol(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "attributes": list(self.attributes),
            "width": self.width,
            "epsilon": str(self.epsilon),
            "bits": self.coin.bits,
        }

    def check_values(self, values: Any) -> NDArray[Any]:
        """Records as words with bit i for attribute i, from such words or from a matrix of 0 and
        1."""
        array = np.asarray(values)
        count = len(self.attributes)
        if array.ndim == 2 and array.shape[1] == count and array.dtype.kind in "iub":
            if array.size and not bool(((array == 0) | (array == 1)).all()):
                raise InputError("Attributes must be 0 or 1.")
            packed: Words = (array.astype(np.uint64) << np.arange(count, dtype=np.uint64)).sum(
                axis=1, dtype=np.uint64
            )
            return packed
        if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
            raise InputError(
                f"Records must be rows of {count} values 0 or 1, or whole numbers below 2^{count}."
            )
        if array.size and (int(array.min()) < 0 or int(array.max()) >= 1 << count):
            raise InputError(f"A record is not a whole number below 2^{count}.")
        return array.astype(np.uint64)

    def _reports(self, values: NDArray[Any], coins: Coins) -> Reports:
        asked = coins.integers(self.masks.size, size=len(values), label="set")
        flips = self.coin.draw(coins, len(values))
        bit = parity(values & self.masks[asked.view(np.int64)]) ^ flips
        return (asked << np.uint64(1)) | bit

    def law(self, value: Any) -> Law:
        record = self.check_values([value])[0]
        true = parity(self.masks & record)
        share = Fraction(1, self.masks.size)
        return {
            2 * place + bit: share * (self.coin.truth if bit == true[place] else self.coin.other)
            for place in range(self.masks.size)
            for bit in (0, 1)
        }

    @property
    def alphabet(self) -> int:
        return 2 * self.masks.size

    def expected_error(self, people: int) -> float:
        return self.standard_error(people, self.width)

    def standard_error(self, people: int, size: int) -> float:
        """What to expect for the share of a conjunction of `size` attributes."""
        if not 1 <= size <= self.width:
            raise QueryError(
                f"These reports cover conjunctions of 1 to {self.width} attributes, not {size}."
            )
        gain = float(self.coin.truth - self.coin.other)
        return math.sqrt(((1 << size) - 1) * self.masks.size / people) / ((1 << size) * gain)

    def aggregate(self, reports: Any, *, level: float = 0.95) -> ConjunctionEstimates:
        """Everything of at most `width` attributes, from reports or from their tally; intervals
        hold with `level`."""
        normal_quantile(level)
        tally = tallied(self, reports)
        counts = tally.counts.reshape(-1, 2)
        asked = counts.sum(axis=1)
        gain = float(self.coin.truth - self.coin.other)
        answered = np.maximum(asked, 1)
        signs = (counts[:, 0] - counts[:, 1]) / answered / gain
        # a few reports that all agree do not make a set certain: its spread is that of one report
        # more on either side
        smoothed = (counts[:, 0] - counts[:, 1]) / (asked + 2) / gain
        # a set that nobody was asked: the sign mean lies in [-1, 1], so 0 with variance 1 is a
        # cautious guess
        variances = np.where(asked > 0, (gain**-2 - np.minimum(smoothed**2, 1.0)) / answered, 1.0)
        places = {int(mask): place for place, mask in enumerate(self.masks)}
        return ConjunctionEstimates(
            attributes=self.attributes,
            width=self.width,
            people=tally.people,
            epsilon=self.epsilon,
            signs=signs,
            variances=variances,
            level=level,
            _places=places,
        )


@dataclass(frozen=True)
class ConjunctionEstimates:
    """Shares of people, each with an error bar, for conjunctions, parities and marginals of at most
    `width` attributes.

    `signs[i]` estimates the mean over people of (-1)^parity for the i-th set, and `variances[i]`
    its variance.
    """

    attributes: tuple[str, ...]
    width: int
    people: int
    epsilon: Fraction
    signs: Floats
    variances: Floats
    level: float
    _places: dict[int, int]

    def conjunction(self, names: Sequence[str], *, level: float | None = None) -> Estimate:
        """The share of people who have all the named attributes. A name with "not " before it asks
        for its absence.

        Its interval holds with the level of these estimates, unless another is given.
        """
        wanted = [
            name.removeprefix("not ") if name not in self.attributes else name for name in names
        ]
        signs, variances = self._subsets(wanted)
        order = np.arange(signs.size)
        weights = np.ones(signs.size)
        for place, (name, bare) in enumerate(zip(names, wanted, strict=True)):
            if name == bare:
                weights = np.where((order >> place) & 1, -weights, weights)
        value = float((weights * signs).sum()) / signs.size
        variance = float(variances.sum()) / signs.size**2
        sure = self.level if level is None else level
        return estimate_of(value, variance, sure, measure="share", within=(0.0, 1.0))

    def parity(self, names: Sequence[str], *, level: float | None = None) -> Estimate:
        """The share of people who have an odd number of the named attributes."""
        signs, variances = self._subsets(list(names))
        sure = self.level if level is None else level
        value, variance = (1 - float(signs[-1])) / 2, float(variances[-1]) / 4
        return estimate_of(value, variance, sure, measure="share", within=(0.0, 1.0))

    def marginal(self, names: Sequence[str], *, consistent: bool = True) -> Floats:
        """The share of people in every cell of the named attributes: an array of shape (2, 2, ...).

        `consistent`: the nearest table that is not negative and sums to one, otherwise the unbiased
        one.
        """
        signs, _ = self._subsets(list(names))
        cells: Floats = transform(signs.reshape(1, -1))[0] / signs.size
        if consistent:
            cells = onto_simplex(cells, 1.0)
        # bit 0 of a cell number is the first attribute, and the first axis of the answer
        return cells.reshape((2,) * len(names)).transpose()

    def conjunctions(self, size: int) -> list[tuple[tuple[str, ...], Estimate]]:
        """All conjunctions of exactly `size` attributes."""
        if not 1 <= size <= self.width:
            raise QueryError(
                f"These reports cover conjunctions of 1 to {self.width} attributes, not {size}."
            )
        return [
            (names, self.conjunction(names))
            for names in itertools.combinations(self.attributes, size)
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "people": self.people,
            "epsilon": str(self.epsilon),
            "width": self.width,
            "conjunctions": [
                {"attributes": list(names), **estimate.to_json()}
                for size in range(1, self.width + 1)
                for names, estimate in self.conjunctions(size)
            ],
        }

    def _subsets(self, names: list[str]) -> tuple[Floats, Floats]:
        """Sign means and variances of all subsets of the named attributes; bit i of the place
        stands for the i-th name."""
        if not 1 <= len(names) <= self.width:
            raise QueryError(
                f"These reports cover 1 to {self.width} attributes at a time, not {len(names)}."
            )
        if len(set(names)) != len(names):
            raise QueryError("An attribute is named twice.")
        for name in names:
            if name not in self.attributes:
                raise QueryError(
                    f"'{name}' is not an attribute.{did_you_mean(name, self.attributes)}"
                )
        bits = [1 << self.attributes.index(name) for name in names]
        signs, variances = np.ones(1 << len(bits)), np.zeros(1 << len(bits))
        for chosen in range(1, 1 << len(bits)):
            place = self._places[sum(bit for i, bit in enumerate(bits) if chosen >> i & 1)]
            signs[chosen], variances[chosen] = self.signs[place], self.variances[place]
        return signs, variances


def _attribute_names(attributes: int | Iterable[str]) -> tuple[str, ...]:
    if isinstance(attributes, int) and not isinstance(attributes, bool):
        names = tuple(f"x{place}" for place in range(1, attributes + 1))
    elif isinstance(attributes, str | bool):
        raise PlanError("attributes must be a list of names, or how many there are.")
    else:
        names = tuple(str(name) for name in attributes)
    if not 1 <= len(names) <= MAX_ATTRIBUTES:
        raise PlanError(f"There must be 1 to {MAX_ATTRIBUTES} attributes, not {len(names)}.")
    if len(set(names)) != len(names):
        raise PlanError("attributes names one twice.")
    return names


def _masks(count: int, width: int) -> Words:
    """All non-empty sets of at most `width` of `count` attributes as bit masks, small sets
    first."""
    sets = itertools.chain.from_iterable(
        itertools.combinations(range(count), size) for size in range(1, width + 1)
    )
    return np.array([sum(1 << place for place in chosen) for chosen in sets], dtype=np.uint64)
