"""Tier C: a lower confidence bound on epsilon from samples alone, for mechanisms too large to
enumerate.

The mechanism is run many times on every input. For each pair, events that tell its inputs apart are
chosen on the first half of the runs and tested on the second, so choosing them costs no confidence.
For each event the Clopper-Pearson bounds p >= low and p' <= high give epsilon >= ln((low - delta) /
high); Bonferroni over events, bounds and pairs keeps the chance of failing any private mechanism
below `false_alarm`. Pairs that share an input share its runs: Bonferroni asks for no independence
between pairs, and within one the two halves are independent all the same.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from dpublish.audit.replay import Draws, MechanismCall, seeded
from dpublish.audit.report import NOTHING_RAN, Finding, Report, name_of
from dpublish.errors import InputError
from dpublish.noise.enumerator import EnumerationError, Raised, freeze
from dpublish.noise.tape import TapMisuse
from dpublish.privacy.cost import Amount, exact as exact_amount, positive

POWER = 0.9


@dataclass(frozen=True)
class Event:
    """A set of values of one feature; `swapped` when it is likelier on the second input of the
    pair."""

    feature: str
    values: frozenset[Hashable]
    swapped: bool

    def hits(self, samples: Sequence[Features]) -> int:
        return sum(sample.get(self.feature) in self.values for sample in samples)


@dataclass(frozen=True, kw_only=True)
class SampledReport(Report):
    """`lower_bound` is the largest epsilon that is certain, at the stated false-alarm rate, over
    all events tested."""

    tier: ClassVar[str] = "sampled"

    epsilon: float
    delta: float
    lower_bound: float
    samples: int
    events: int
    false_alarm: float
    detectable: float

    def scope(self) -> str:
        return (
            f"{self.samples} runs on each side of {self.pairs} pair(s), {self.events} events "
            f"tested: epsilon is at least "
            f"{self.lower_bound:.4g} against a claim of {self.epsilon:.4g}. False-alarm rate at "
            f"most {self.false_alarm:g}; an "
            f"event that shows a true epsilon of {self.detectable:.4g} as randomised response "
            f"would is found with "
            f"power {POWER}."
        )


def sampled(
    mechanism: MechanismCall,
    pairs: Iterable[tuple[Any, Any]],
    *,
    epsilon: Amount,
    delta: Amount = 0,
    samples: int = 4000,
    max_events: int = 25,
    false_alarm: float = 1e-6,
    statistics: Sequence[Callable[[Any], Hashable]] = (),
    draws: Draws = seeded,
    first_seed: int = 1,
) -> SampledReport:
    """Run `mechanism` `samples` times on each input of each pair and bound epsilon from below.

    Parameters
    ----------
    samples : int
        Runs on each input; half choose events, half test them.
    statistics : sequence of callables
        Further features of an output to look at, besides those of `dpublish.audit.sampled`.
    draws : callable
        `draws(seed) -> Noise`; one source serves all runs on one input, and an input of several
        pairs is run once.
    """
    claim, slack = positive(epsilon), exact_amount(delta, "delta")
    inputs = list(pairs)
    if not inputs or samples < 20 or max_events < 1:
        raise InputError("A sampled audit needs at least one pair, 20 samples and one event.")
    half = samples // 2
    # Two bounds an event, for every event that may be tested in any pair.
    alpha = false_alarm / (2 * max_events * len(inputs))
    findings: list[Finding] = []
    best, tested, worked = 0.0, 0, False
    runs = _Runs(
        inputs, lambda data, seed: _samples(mechanism, data, samples, statistics, draws, seed)
    )
    for position, pair in enumerate(inputs):
        try:
            first, second = (
                runs.on(data, first_seed + 2 * position + side) for side, data in enumerate(pair)
            )
        except TapMisuse as misuse:
            findings.append(Finding(check="tap", pair=position, text=str(misuse)))
            continue
        worked |= any(sample["kind"] != Raised.__name__ for sample in (*first, *second))
        events = choose_events(first[:half], second[:half], alpha, float(slack), max_events)
        tested += len(events)
        for event in events:
            hits, misses = event.hits(first[half:]), event.hits(second[half:])
            if event.swapped:
                hits, misses = misses, hits
            bound = epsilon_bound(hits, misses, samples - half, alpha, float(slack))
            best = max(best, bound)
            if bound > claim:
                text = (
                    f"epsilon is at least {bound:.4g}, above the claim {float(claim):.4g} "
                    f"(event on {event.feature})"
                )
                findings.append(Finding(check="privacy", pair=position, text=text))
    if not worked and not findings:
        findings.append(NOTHING_RAN)
    return SampledReport(
        mechanism=name_of(mechanism),
        pairs=len(inputs),
        findings=tuple(findings),
        epsilon=float(claim),
        delta=float(slack),
        lower_bound=best,
        samples=samples,
        events=tested,
        false_alarm=false_alarm,
        detectable=detectable(float(claim), float(slack), samples - half, alpha),
    )


def choose_events(
    first: Sequence[Features], second: Sequence[Features], alpha: float, delta: float, limit: int
) -> list[Event]:
    """The `limit` events whose bound looks best on these samples: for each feature, values in order
    of likelihood ratio."""
    ranked: list[tuple[float, Event]] = []
    for feature in sorted({name for sample in (*first, *second) for name in sample}):
        one, other = (Counter(sample.get(feature) for sample in side) for side in (first, second))
        ranked += [
            (bound, Event(feature, values, swapped))
            for swapped, likely, rare in ((False, one, other), (True, other, one))
            for bound, values in _best_prefixes(likely, rare, len(first), alpha, delta)
        ]
    ranked.sort(key=lambda entry: -entry[0])
    return [event for _, event in ranked[:limit]]


def _best_prefixes(
    likely: Counter[Hashable], rare: Counter[Hashable], runs: int, alpha: float, delta: float
) -> list[tuple[float, frozenset[Hashable]]]:
    """Up to three sets {values with a likelihood ratio of at least t}: the sets that are optimal
    for telling two laws apart."""
    # a value seen once says nothing about the other half; numbers that hardly ever repeat would
    # crowd out what does
    again = [value for value in likely if likely[value] + rare[value] > 1]
    order = sorted(again, key=lambda v: ((rare[v] + 0.5) / (likely[v] + 0.5), -likely[v], repr(v)))
    found: list[tuple[float, int]] = []
    hits = misses = 0
    # Cutting at every value would be slow for features with thousands of values; forty cuts are as
    # good.
    step = max(1, len(order) // 40)
    for size, value in enumerate(order, start=1):
        hits, misses = hits + likely[value], misses + rare[value]
        if size % step == 0 or size <= 5:
            found.append((epsilon_bound(hits, misses, runs, alpha, delta), size))
    found.sort(key=lambda entry: (-entry[0], entry[1]))
    return [(bound, frozenset(order[:size])) for bound, size in found[:3]]


def clopper_pearson(hits: int, runs: int, alpha: float) -> tuple[float, float]:
    """One-sided bounds on a probability, each wrong with probability at most `alpha`."""
    from scipy.special import betaincinv

    low = 0.0 if hits == 0 else float(betaincinv(hits, runs - hits + 1, alpha))
    high = 1.0 if hits == runs else float(betaincinv(hits + 1, runs - hits, 1 - alpha))
    return low, high


def epsilon_bound(hits: int, misses: int, runs: int, alpha: float, delta: float) -> float:
    """Lower confidence bound on epsilon from one event: hits on one input, misses on the other; at
    least 0."""
    low = clopper_pearson(hits, runs, alpha)[0] - delta
    high = clopper_pearson(misses, runs, alpha)[1]
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def detectable(epsilon: float, delta: float, runs: int, alpha: float) -> float:
    """The smallest epsilon that an event of probabilities e^x / (1 + e^x) and 1 / (1 + e^x) would
    show with power 0.9."""
    from scipy.stats import binom

    def found(x: float) -> bool:
        rare = 1 / (1 + math.exp(x))
        # Each count is on the right side of its 5 % quantile with probability at least 0.95, so
        # both are with 0.9.
        miss = (1 - POWER) / 2
        hits = int(binom.ppf(miss, runs, 1 - rare))
        misses = int(binom.ppf(1 - miss, runs, rare))
        return epsilon_bound(hits, misses, runs, alpha, delta) > epsilon

    low, high = epsilon, epsilon + 1
    while not found(high):
        high += 1
        if high > epsilon + 60:
            return math.inf  # too few runs to show anything
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if found(middle) else (middle, high)
    return high


class _Runs:
    """Runs on each input, kept for as long as a later pair has the same input."""

    def __init__(
        self, pairs: Sequence[tuple[Any, Any]], draw: Callable[[Any, int], list[Features]]
    ) -> None:
        self._draw = draw
        self._uses = Counter(_key(data) for pair in pairs for data in pair)
        self._kept: dict[Hashable, list[Features]] = {}

    def on(self, data: Any, seed: int) -> list[Features]:
        key = _key(data)
        found = self._kept.pop(key, None) or self._draw(data, seed)
        self._uses[key] -= 1
        if self._uses[key]:
            self._kept[key] = found
        return found


def _key(data: Any) -> Hashable:
    """Equal only for inputs that are the same to every reader, types included; the object itself
    where it cannot be told."""
    try:
        key: Hashable = freeze(data)
    except EnumerationError:
        key = id(data)
    return key


def _samples(
    mechanism: MechanismCall,
    data: Any,
    samples: int,
    statistics: Sequence[Callable[[Any], Hashable]],
    draws: Draws,
    seed: int,
) -> list[Features]:
    noise = draws(seed)
    found = []
    for _ in range(samples):
        try:
            output: Any = mechanism(noise, data)
        except TapMisuse:
            raise
        except Exception as error:
            output = Raised(type(error).__name__, str(error))
        failed = isinstance(output, Raised)
        further = {
            f"statistic {number}": None if failed else statistic(output)
            for number, statistic in enumerate(statistics, start=1)
        }
        found.append(features_of(output) | further)
    return found


# What a sampled audit looks at in an output: numbers and symbols whose distributions are compared.
#
# An output as a whole is one feature, but outputs with many parts rarely repeat, so every part is
# looked at too, with the shape, the number of parts, their sum, and, for floats, the position of
# the lowest set bit: floating-point noise leaves holes in the set of possible answers, and that
# bit tells on which side of a hole an answer lies (Mironov 2012).

Features = dict[str, Hashable]
MAX_PARTS = 32
PLAIN = (bool, int, float, str, bytes, Fraction)


def features_of(output: Any) -> Features:
    """Named features of one output. A feature that is missing from an output counts as the value
    None."""
    found: Features = {"whole": freeze(output), "kind": type(output).__name__}
    if isinstance(output, Raised):
        return found
    parts = dict(_parts_of("", output))
    numbers = [
        value
        for value in parts.values()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    found["parts"] = len(parts)
    if any(isinstance(value, float) for value in numbers):
        found["sum"] = _finite(math.fsum(numbers))
    elif numbers:
        found["sum"] = sum(numbers)
        # A row that moves from one cell to another leaves the sum alone and shows twice in a
        # difference.
        for (i, one), (j, other) in itertools.combinations(enumerate(numbers[:4]), 2):
            found[f"number {i} less number {j}"] = one - other
    for name, value in list(parts.items())[:MAX_PARTS]:
        found[f"part {name}"] = freeze(value) if not isinstance(value, float) else _finite(value)
        if isinstance(value, float):
            found[f"lowest bit of {name}"] = lowest_bit(value)
    return found


def lowest_bit(value: float) -> int | str:
    """The exponent of the lowest set bit of a float; a word for zero and what is not finite."""
    if value == 0 or not math.isfinite(value):
        return repr(value)
    numerator, denominator = value.as_integer_ratio()
    return (numerator & -numerator).bit_length() - denominator.bit_length()


def _finite(value: float) -> float | str:
    # nan is not equal to itself, which would make every occurrence a value of its own.
    return value if math.isfinite(value) else repr(value)


def _parts_of(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, PLAIN):
        yield name or "value", value
    elif isinstance(value, Mapping | list | tuple):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, item in items:
            yield from _parts_of(f"{name}[{key!r}]", item)
    elif hasattr(value, "__dict__"):
        yield from _parts_of(name, vars(value))
