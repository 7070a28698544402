"""The exact output law of a small mechanism: `Enumerator` explores every answer of every tap with
its exact probability.

The number e enters differential privacy only as the base of exp(-x). The enumerator puts a rational
base b in its place, chosen so that every power that occurs is rational: all probabilities are then
Fractions, and the claim "ratio at most exp(epsilon)" becomes "ratio at most b^epsilon", which is
decided exactly. The law found is that of the same code run with every tap's epsilon multiplied by
ln b; docs/audits.md has the argument.

A discrete Laplace answer is unbounded. `window` is the public range of answers that are told apart;
`tails` says what becomes of the rest, see `Enumerator`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np

from dpublish.arrays import Ints, Words
from dpublish.errors import InputError, PublishError
from dpublish.noise.base import ChoiceRule, Draw, Noise
from dpublish.noise.tape import TapMisuse, exact_draw

Tails = Literal["clip", "apart"]
Law = dict[Any, Fraction]
T = TypeVar("T")

MAX_CELLS = 16


class EnumerationError(PublishError):
    """The mechanism cannot be enumerated: too many branches, a tap without a rational law, or
    hidden randomness."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An outcome too: a mechanism that raises shows the kind and text of the exception."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Outside:
    """The outcome of all branches in which some answer left the window (tails apart)."""


OUTSIDE = Outside()


class _LeftWindow(BaseException):
    """Ends a branch; a BaseException so that no `except Exception` of a mechanism can swallow
    it."""


class _NeedsDegree(BaseException):
    def __init__(self, degree: int) -> None:
        self.degree = degree


@dataclass(slots=True)
class _Node:
    """One tap on the current path; `mass` is the probability of the path up to and including the
    option taken."""

    name: str
    options: tuple[tuple[Any, Fraction], ...]
    before: Fraction
    index: int = 0
    mass: Fraction = Fraction(0)

    def take(self, index: int) -> None:
        self.index = index
        self.mass = self.before * self.options[index][1]


class Enumerator(Noise):
    """Explores all branches of a mechanism depth first, running it again from the start for each.

    base      what stands for e. By default `root` to the smallest power that makes every tap's law
              rational.
    window    lowest and highest answer of a Laplace tap that is told apart. Public: never centre it
              on the data.
    tails     "clip": answers outside are the edge values, with the exact tail mass. This is the law
              of the mechanism with clamped taps. "apart": such branches are gathered in one
              outcome, OUTSIDE, and all other outcomes are exact lower bounds; right for mechanisms
              that compare noisy values with each other, such as sparse vector.
    keys      the values that `key` takes, uniformly.
    """

    def __init__(
        self,
        *,
        base: Fraction | int | None = None,
        root: int = 2,
        window: tuple[int, int] = (-3, 6),
        tails: Tails = "clip",
        keys: Sequence[bytes] = (bytes(16), bytes(range(16))),
        max_branches: int = 200_000,
    ) -> None:
        if root < 2 or (base is not None and base <= 1):
            raise InputError(
                "The base that stands for e must be above 1 (root: a whole number of at least 2)."
            )
        if window[0] >= window[1]:
            raise InputError(
                f"The window must run from a lower to a higher answer; given {window}."
            )
        self._fixed_base = None if base is None else Fraction(base)
        self._root = root
        self._degree = 1
        self._window = window
        self._tails: Tails = tails
        self._keys = tuple(keys)
        self._max_branches = max_branches
        self._path: list[_Node] = []
        self._depth = 0
        self._mass = Fraction(1)
        self._refused: EnumerationError | None = None

    @property
    def base(self) -> Fraction:
        """The base of the last law. Laws may be compared only if they were made with the same
        base."""
        return (
            self._fixed_base
            if self._fixed_base is not None
            else Fraction(self._root) ** self._degree
        )

    def admit(self, exponent: Fraction) -> None:
        """Make sure that base^exponent is rational, enlarging the base if it is free."""
        if rational_power(self.base, exponent) is None:
            if self._fixed_base is not None:
                raise self._refusal(
                    f"{self._fixed_base}^({exponent}) is not rational. Leave the base free, or "
                    f"take a perfect power such as "
                    f"{self._root}^{exponent.denominator}."
                )
            self._degree = math.lcm(self._degree, exponent.denominator)

    def power(self, exponent: Fraction) -> Fraction:
        value = rational_power(self.base, exponent)
        if value is None:
            self.admit(exponent)
            raise _NeedsDegree(self._degree)
        return value

    def law(self, mechanism: Callable[[Noise, Any], Any], data: Any) -> Law:
        """Every outcome of `mechanism(noise, data)` with its exact probability; outcomes are
        frozen, see `freeze`."""
        while True:
            try:
                return self._explore(mechanism, data)
            except _NeedsDegree:
                # the base has grown; laws of different bases must not be mixed, so start again
                continue

    def _refusal(self, text: str) -> EnumerationError:
        """Remembered, so that a mechanism that handles every exception cannot turn it into an
        outcome."""
        self._refused = EnumerationError(text)
        return self._refused

    def _explore(self, mechanism: Callable[[Noise, Any], Any], data: Any) -> Law:
        law: Law = {}
        self._path, self._refused = [], None
        branches = 0
        while True:
            branches += 1
            if branches > self._max_branches:
                raise self._refusal(
                    f"More than {self._max_branches} branches. Take fewer cells or rows, or a "
                    f"narrower window."
                )
            self._depth, self._mass = 0, Fraction(1)
            outcome: Any
            try:
                outcome = mechanism(self, data)
            except _LeftWindow:
                outcome = OUTSIDE
            except TapMisuse:
                raise
            except Exception as error:
                outcome = Raised(type(error).__name__, str(error))
            if self._refused is not None:
                raise self._refused
            if self._depth != len(self._path):
                raise self._refusal(_HIDDEN)
            outcome = freeze(outcome)
            law[outcome] = law.get(outcome, Fraction(0)) + self._mass
            while self._path and self._path[-1].index + 1 == len(self._path[-1].options):
                self._path.pop()
            if not self._path:
                return law
            self._path[-1].take(self._path[-1].index + 1)

    def _branch(self, name: str, options: tuple[tuple[T, Fraction], ...]) -> T:
        if self._depth == len(self._path):
            self._path.append(_Node(name, options, self._mass))
            self._path[-1].take(0)
        node = self._path[self._depth]
        if node.name != name or (node.options is not options and node.options != options):
            raise self._refusal(_HIDDEN)
        self._depth += 1
        self._mass = node.mass
        answer = options[node.index][0]
        if answer is OUTSIDE:
            raise _LeftWindow
        return answer

    def answer(self, draw: Draw) -> Any:
        if draw.kind in _NO_RATIONAL_LAW:
            raise self._refusal(
                f"The {_NO_RATIONAL_LAW[draw.kind]} tap has no rational law in any base. Audit "
                f"this mechanism by replay and by "
                "sampling."
            )
        draw = exact_draw(draw.listed())
        match draw.kind:
            case "laplace":
                return self._laplace(draw)
            case "sparse-laplace":
                return self._sparse_laplace(draw)
            case "partitions":
                return self._partitions(draw)
            case "choose":
                best = max(draw.private[0])
                exponent = Fraction(draw.epsilon) / (
                    draw.sensitivity if draw.monotone else 2 * draw.sensitivity
                )
                weights = tuple(self.power(exponent * (score - best)) for score in draw.private[0])
                return self._branch(
                    f"choose {draw.rule} {draw.label}", choice_options(weights, draw.rule)
                )
            case "integers":
                if draw.bound > self._max_branches:
                    raise self._refusal(
                        f"A uniform draw from {draw.bound} values is too large to enumerate."
                    )
                options = uniform_options(draw.bound)
                return np.array(
                    [self._branch(f"integers {draw.label}", options) for _ in range(draw.size)],
                    dtype=np.uint64,
                )
        return self._keys[self._branch(f"key {draw.label}", uniform_options(len(self._keys)))]

    def _laplace(self, draw: Draw) -> Ints:
        (values,), (low, high) = draw.private, self._window
        ratio = self.power(-Fraction(draw.epsilon) / draw.sensitivity)
        answers = [
            self._branch(
                f"laplace {draw.label}", laplace_options(ratio, value, low, high, self._tails)
            )
            for value in values.ravel().tolist()
        ]
        return np.array(answers, dtype=np.int64).reshape(values.shape)

    def _sparse_laplace(self, draw: Draw) -> tuple[Words, Ints]:
        if draw.domain_size > MAX_CELLS:
            raise self._refusal(
                f"A domain of {draw.domain_size} cells is too large to enumerate; the limit is "
                f"{MAX_CELLS}."
            )
        held = dict(zip(*(part.tolist() for part in draw.private), strict=True))
        counts = ((cell, held.get(cell, 0)) for cell in range(draw.domain_size))
        cells, values = self._kept(draw, counts)
        return np.array(cells, dtype=np.uint64), values

    def _partitions(self, draw: Draw) -> tuple[tuple[str, ...], Ints]:
        names, values = self._kept(draw, zip(*map(list, draw.private), strict=True))
        return tuple(names), values

    def _kept(self, draw: Draw, counts: Iterable[tuple[T, int]]) -> tuple[list[T], Ints]:
        """What is kept of places with their counts, and the noisy counts."""
        ratio = self.power(-Fraction(draw.epsilon) / draw.sensitivity)
        top = max(self._window[1], draw.threshold + 2)
        kept: dict[T, int] = {}
        for place, count in counts:
            options = kept_options(ratio, int(count), draw.threshold, top, self._tails)
            answer = self._branch(f"{draw.kind} {draw.label}", options)
            if answer is not None:
                kept[place] = answer
        return list(kept), np.array(list(kept.values()), dtype=np.int64)


_HIDDEN = (
    "The same answers led to different calls: the mechanism keeps state between runs, changes its "
    "input or draws randomness "
    "outside the tap. Give the audit a function that starts afresh each time."
)
_NO_RATIONAL_LAW = {
    "gaussian": "discrete Gaussian",
    "gamma-norm": "gamma-norm",
    "lattice-gaussian": "lattice Gaussian",
}
"""Kinds of draw that cannot be enumerated, and what they are called."""


@lru_cache(maxsize=4096)
def rational_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    """base^exponent if it is rational, else None."""
    top, bottom = (
        _exact_root(part, exponent.denominator) for part in (base.numerator, base.denominator)
    )
    if top is None or bottom is None:
        return None
    return Fraction(top, bottom) ** exponent.numerator


def _exact_root(number: int, degree: int) -> int | None:
    if degree == 1:
        return number
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= number:
            low = middle
        else:
            high = middle - 1
    return low if low**degree == number else None


def tail_mass(ratio: Fraction, start: int) -> Fraction:
    """P(X >= start) for discrete Laplace X with P(X = k) proportional to ratio^|k|."""
    return ratio**start / (1 + ratio) if start >= 1 else 1 - ratio ** (1 - start) / (1 + ratio)


def point_mass(ratio: Fraction, at: int) -> Fraction:
    """P(X = at)."""
    return (1 - ratio) / (1 + ratio) * ratio ** abs(at)


@lru_cache(maxsize=4096)
def laplace_options(
    ratio: Fraction, value: int, low: int, high: int, tails: Tails
) -> tuple[tuple[Any, Fraction], ...]:
    """Answers of a Laplace tap and their probabilities; they sum to one exactly."""
    below, above = tail_mass(ratio, value - low + 1), tail_mass(ratio, high - value + 1)
    inside = [point_mass(ratio, answer - value) for answer in range(low, high + 1)]
    answers: list[Any] = list(range(low, high + 1))
    if tails == "apart":
        return ((OUTSIDE, below + above), *zip(answers, inside, strict=True))
    inside[0] += below
    inside[-1] += above
    return tuple(zip(answers, inside, strict=True))


@lru_cache(maxsize=4096)
def kept_options(
    ratio: Fraction, value: int, threshold: int, top: int, tails: Tails
) -> tuple[tuple[Any, Fraction], ...]:
    """What becomes of one cell of a sparse histogram: suppressed (None), a kept count, or the
    tail."""
    suppressed = 1 - tail_mass(ratio, threshold + 1 - value)
    kept: list[tuple[Any, Fraction]] = [
        (a, point_mass(ratio, a - value)) for a in range(threshold + 1, top + 1)
    ]
    above = tail_mass(ratio, top - value + 1)
    if tails == "apart":
        return ((None, suppressed), (OUTSIDE, above), *kept)
    kept[-1] = (top, kept[-1][1] + above)
    return ((None, suppressed), *kept)


@lru_cache(maxsize=4096)
def choice_options(
    weights: tuple[Fraction, ...], rule: ChoiceRule
) -> tuple[tuple[int, Fraction], ...]:
    """The exact law of a choice; the largest weight is one."""
    if rule == "exponential":
        total = sum(weights, Fraction(0))
        return tuple((index, weight / total) for index, weight in enumerate(weights))
    count = len(weights)
    law = []
    for index, weight in enumerate(weights):
        # Visited after a random set of others, all of which failed their flip: sum over the size of
        # that set, with the elementary symmetric polynomials of the failure probabilities.
        failed = [Fraction(1)] + [Fraction(0)] * (count - 1)
        for other, rival in enumerate(weights):
            if other != index and rival != 1:
                for size in range(count - 1, 0, -1):
                    failed[size] += failed[size - 1] * (1 - rival)
        orders = (
            Fraction(math.factorial(k) * math.factorial(count - 1 - k), math.factorial(count))
            for k in range(count)
        )
        law.append(
            (
                index,
                weight
                * sum((f * order for f, order in zip(failed, orders, strict=True)), Fraction(0)),
            )
        )
    return tuple(law)


@lru_cache(maxsize=64)
def uniform_options(bound: int) -> tuple[tuple[int, Fraction], ...]:
    return tuple((value, Fraction(1, bound)) for value in range(bound))


# Written out once: a union of types in a call is made anew by every call, and audits freeze
# millions of values.
AS_THEY_ARE = (str, bytes, Fraction, Raised, Outside)
NUMBERS = (int, float, complex)


def freeze(value: Any) -> Any:
    """A hashable stand-in that is equal exactly when a reader would see the same thing: types,
    widths and order included."""
    if isinstance(value, AS_THEY_ARE):
        return value
    if value is None or isinstance(value, NUMBERS):
        # 1, 1.0 and True are equal in Python but not to a reader; repr tells -0.0 from 0.0 and
        # makes nan equal to itself.
        return (type(value).__name__, repr(value))
    if isinstance(value, np.ndarray):
        content = (
            tuple(map(freeze, value.ravel().tolist())) if value.dtype.hasobject else value.tobytes()
        )
        return ("array", value.dtype.str, value.shape, content)
    if isinstance(value, np.generic):
        return ("scalar", value.dtype.str, value.tobytes())
    if isinstance(value, Mapping):
        return ("dict", tuple((freeze(key), freeze(item)) for key, item in value.items()))
    if isinstance(value, list | tuple):
        return (type(value).__name__, tuple(freeze(item) for item in value))
    if isinstance(value, set | frozenset):
        return ("set", frozenset(freeze(item) for item in value))
    state = getattr(value, "__dict__", None)
    if state is None and hasattr(type(value), "__slots__"):
        state = {
            name: getattr(value, name) for name in type(value).__slots__ if hasattr(value, name)
        }
    if state is None:
        raise EnumerationError(
            f"An output of type {type(value).__name__} cannot be compared. Return plain data or "
            f"arrays."
        )
    return (type(value).__qualname__, freeze(state))


def readable(frozen: Any) -> str:
    """A frozen outcome as text for people."""
    match frozen:
        case ("array", str() as dtype, tuple() as shape, bytes() as content):
            return str(np.frombuffer(content, dtype=np.dtype(dtype)).reshape(shape).tolist())
        case ("scalar", str() as dtype, bytes() as content):
            return str(np.frombuffer(content, dtype=np.dtype(dtype))[0])
        case ("dict", tuple() as items):
            return (
                "{" + ", ".join(f"{readable(key)}: {readable(value)}" for key, value in items) + "}"
            )
        case ("list" | "tuple", tuple() as items):
            return "[" + ", ".join(readable(item) for item in items) + "]"
        case (str(), str() as text):
            return text
    return repr(frozen)
