"""Recording and replaying the tap: `Recorder` notes every call, `Replayer` hands the same answers out on other data.

Replayed on a neighbouring input, a mechanism must make the same calls in the same order with the same public parameters, and
its private values may have moved by at most the sensitivity it declared. Everything it does between the calls is then a
function of the answers alone, which is what a composition proof assumes and what code so easily breaks.

A tape holds private values in the clear. It is a test artefact, and neither class is `publishable`: what is made with them
is marked so and must not leave the test.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, cast

import numpy as np

from dpublish.errors import PublishError
from dpublish.noise.base import CellArray, ChoiceRule, IntArray, Noise

TapKind = Literal[
    "laplace", "sparse-laplace", "gaussian", "choose", "gamma-norm", "lattice-gaussian", "integers", "key"
]  # fmt: skip


Check = Literal["number", "kind", "label", "shape", "settings", "sensitivity", "distance", "monotone", "tap"]


class TapMisuse(PublishError):
    """A tap was given something it does not take, such as floats. The text names the tap and the type, never a value."""


class ReplayMismatch(PublishError):
    """The replayed run left the recorded one. The text names the step and what differs, never a private value."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a mechanism asked of the tap. `settings` are the public parameters as exact text, `private` the private value."""

    kind: TapKind
    label: str
    shape: tuple[int, ...]
    settings: tuple[tuple[str, str], ...]
    sensitivity: Fraction | None
    private: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Tap:
    """One call with the answer it got."""

    call: Call
    answer: Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference between a recorded and a replayed run. `check` is what differs; `measured` is for audits on test data."""

    check: Check
    step: int
    text: str
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """How far a private value moved between two inputs, in the norm of its tap.

    `epsilon` and `rho` bound the privacy loss that this move can cost: the budget is charged for the move that was measured,
    so disjoint parts of the data compose in parallel without being told to.
    """

    norm: Literal["L1", "L2", "L-infinity"]
    distance: float
    too_far: bool
    two_sided: bool = False
    epsilon: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)


@dataclass(slots=True)
class Tape:
    """The taps of one run, in order."""

    taps: list[Tap] = field(default_factory=list)


class TapeNoise(Noise):
    """Turns every tap call into a `Call` and leaves what happens next to `_take`."""

    @property
    def publishable(self) -> bool:
        return False

    @abc.abstractmethod
    def _take(self, call: Call, ask: Callable[[Noise], Any]) -> Any:
        """The answer to `call`; `ask` puts the same question to another noise source."""

    def laplace(self, values: IntArray, *, sensitivity: Fraction, epsilon: Fraction, label: str = "") -> IntArray:
        exact = exact_integers(values, "laplace")
        call = Call("laplace", label, exact.shape, (("epsilon", str(epsilon)),), sensitivity, (exact,))
        return cast(
            IntArray, self._take(call, lambda n: n.laplace(values, sensitivity=sensitivity, epsilon=epsilon, label=label))
        )

    def sparse_laplace(
        self,
        cells: CellArray,
        counts: IntArray,
        *,
        domain_size: int,
        threshold: int,
        sensitivity: Fraction,
        epsilon: Fraction,
        label: str = "",
    ) -> tuple[CellArray, IntArray]:
        settings = (("domain_size", str(domain_size)), ("threshold", str(threshold)), ("epsilon", str(epsilon)))
        private = (np.array(cells, dtype=np.uint64), exact_integers(counts, "sparse-laplace"))
        # The number of occupied cells is private, so the shape of the call is the domain and nothing else.
        call = Call("sparse-laplace", label, (domain_size,), settings, sensitivity, private)
        return cast(
            tuple[CellArray, IntArray],
            self._take(
                call,
                lambda n: n.sparse_laplace(
                    cells,
                    counts,
                    domain_size=domain_size,
                    threshold=threshold,
                    sensitivity=sensitivity,
                    epsilon=epsilon,
                    label=label,
                ),
            ),
        )

    def gaussian(self, values: IntArray, *, sensitivity: Fraction, rho: Fraction, label: str = "") -> IntArray:
        exact = exact_integers(values, "gaussian")
        call = Call("gaussian", label, exact.shape, (("rho", str(rho)),), sensitivity, (exact,))
        return cast(IntArray, self._take(call, lambda n: n.gaussian(values, sensitivity=sensitivity, rho=rho, label=label)))

    def choose(
        self,
        scores: Sequence[Fraction] | Sequence[int] | IntArray,
        *,
        sensitivity: Fraction,
        epsilon: Fraction,
        monotone: bool = False,
        rule: ChoiceRule = "permute-and-flip",
        label: str = "",
    ) -> int:
        exact = exact_fractions(scores, "choose")
        settings = (("epsilon", str(epsilon)), ("monotone", str(monotone)), ("rule", rule))
        call = Call("choose", label, (len(exact),), settings, sensitivity, (exact,))
        return cast(
            int,
            self._take(
                call,
                lambda n: n.choose(scores, sensitivity=sensitivity, epsilon=epsilon, monotone=monotone, rule=rule, label=label),
            ),
        )

    def gamma_norm(
        self, values: Sequence[Fraction], *, grid: Fraction, sensitivity: Fraction, epsilon: Fraction, label: str = ""
    ) -> list[int]:
        exact = exact_fractions(values, "gamma-norm")
        call = Call("gamma-norm", label, (len(exact),), (("grid", str(grid)), ("epsilon", str(epsilon))), sensitivity, (exact,))
        return cast(
            list[int],
            self._take(call, lambda n: n.gamma_norm(values, grid=grid, sensitivity=sensitivity, epsilon=epsilon, label=label)),
        )

    def lattice_gaussian(
        self, values: Sequence[Fraction], *, grid: Fraction, sensitivity: Fraction, rho: Fraction, label: str = ""
    ) -> IntArray:
        exact = exact_fractions(values, "lattice-gaussian")
        call = Call("lattice-gaussian", label, (len(exact),), (("grid", str(grid)), ("rho", str(rho))), sensitivity, (exact,))
        return cast(
            IntArray,
            self._take(call, lambda n: n.lattice_gaussian(values, grid=grid, sensitivity=sensitivity, rho=rho, label=label)),
        )

    def integers(self, bound: int, *, size: int, label: str = "") -> CellArray:
        call = Call("integers", label, (size,), (("bound", str(bound)),), None)
        return cast(CellArray, self._take(call, lambda n: n.integers(bound, size=size, label=label)))

    def key(self, *, label: str = "") -> bytes:
        return cast(bytes, self._take(Call("key", label, (), (), None), lambda n: n.key(label=label)))


class Recorder(TapeNoise):
    """Passes every call on to `inner` and notes call and answer on `tape`."""

    def __init__(self, inner: Noise) -> None:
        self._inner = inner
        self.tape = Tape()

    def _take(self, call: Call, ask: Callable[[Noise], Any]) -> Any:
        answer = ask(self._inner)
        # A private copy: a mechanism may go on to change the array it was given.
        self.tape.taps.append(Tap(call, _copied(answer)))
        return answer


class Replayer(TapeNoise):
    """Hands out the answers of `tape` and notes every way in which the run differs from the recorded one.

    A call that cannot be given the recorded answer (too many calls, another kind or shape) always raises `ReplayMismatch`.
    Other differences are collected in `mismatches`, or raised at once when `strict`. Call `finish` when the run is over.
    `shifts` holds, per call, how far the private value moved and the privacy loss that this move can cost.
    """

    def __init__(self, tape: Tape, *, strict: bool = False) -> None:
        self._tape = tape
        self._strict = strict
        self._step = 0
        self.mismatches: list[Mismatch] = []
        self.shifts: list[Shift] = []

    def _take(self, call: Call, ask: Callable[[Noise], Any]) -> Any:
        step = self._step
        if step >= len(self._tape.taps):
            self._note("number", f"{_name(step, call)} has no counterpart in the recorded run", final=True)
        tap = self._tape.taps[step]
        self._step += 1
        self._compare(step, tap.call, call)
        return _copied(tap.answer)

    def finish(self) -> list[Mismatch]:
        """Check that the whole tape was used; all differences found."""
        if self._step < len(self._tape.taps) and not self.mismatches:
            self._note("number", f"{_name(self._step, self._tape.taps[self._step].call)} of the recorded run was never asked")
        return self.mismatches

    def misuse(self, text: str) -> None:
        """Note that the replayed run gave a tap something it does not take."""
        self.mismatches.append(Mismatch("tap", self._step, text))

    def _compare(self, step: int, recorded: Call, call: Call) -> None:
        name = _name(step, recorded)
        if recorded.kind != call.kind:
            self._note("kind", f"{name}: recorded as {recorded.kind}, replayed as {call.kind}", step, final=True)
        if recorded.label != call.label:
            self._note("label", f"{name}: the label differs", step)
        if recorded.shape != call.shape:
            self._note("shape", f"{name}: the shape differs", step, final=True)
        for (key, old), (_, new) in zip(recorded.settings, call.settings, strict=True):
            if old != new:
                self._note("settings", f"{name}: {key} differs", step)
        if recorded.sensitivity != call.sensitivity:
            self._note("sensitivity", f"{name}: the declared sensitivity differs", step)
        if recorded.sensitivity is None:
            return
        shift = shift_between(recorded, call.private)
        self.shifts.append(shift)
        if shift.too_far:
            text = f"{name}: the private value moved further than its declared {shift.norm} sensitivity {recorded.sensitivity}"
            self._note("distance", text, step, measured=shift.distance)
        if shift.two_sided:
            self._note("monotone", f"{name}: declared monotone, but some scores rose while others fell", step)

    def _note(
        self, check: Check, text: str, step: int | None = None, *, measured: float | None = None, final: bool = False
    ) -> None:
        self.mismatches.append(Mismatch(check, self._step if step is None else step, text, measured))
        if final or self._strict:
            raise ReplayMismatch(f"The replay left the recorded run: {text}.")


def _name(step: int, call: Call) -> str:
    # Labels are public text by contract, but an audit must not depend on that: a label that differs is never quoted.
    return f"step {step + 1} ({call.kind})"


def _copied(answer: Any) -> Any:
    if isinstance(answer, np.ndarray):
        return answer.copy()
    if isinstance(answer, tuple | list):
        return type(answer)(_copied(part) for part in answer)
    return answer


def exact_integers(values: Any, tap: TapKind) -> IntArray:
    """A private int64 copy of `values`, which must be integers already: a float here is a privacy bug, not a convenience."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TapMisuse(f"The {tap} tap takes integers; it was given {array.dtype.name}.")
    if array.dtype == np.uint64 and array.size and bool((array > np.uint64(np.iinfo(np.int64).max)).any()):
        raise TapMisuse(f"The {tap} tap takes 64-bit signed integers; it was given a value out of their range.")
    return array.astype(np.int64)


def exact_fractions(values: Any, tap: TapKind) -> tuple[Fraction, ...]:
    """`values` as Fractions; they must be integers or Fractions already."""
    exact = []
    for value in values:
        if not isinstance(value, Fraction | int | np.integer):
            raise TapMisuse(f"The {tap} tap takes integers or Fractions; it was given {type(value).__name__}.")
        exact.append(value if isinstance(value, Fraction) else Fraction(int(value)))
    return tuple(exact)


def shift_between(call: Call, private: tuple[Any, ...]) -> Shift:
    """The move from the private value of `call` to `private`, against the sensitivity that `call` declares."""
    if call.sensitivity is None:
        raise TapMisuse(f"The {call.kind} tap takes no private value, so there is no distance to measure.")
    settings, sensitivity = dict(call.settings), call.sensitivity
    if call.kind == "choose":
        return _score_shift(settings, sensitivity, call.private[0], private[0])
    if call.kind in ("laplace", "sparse-laplace"):
        if call.kind == "laplace":
            moves = _moves(call.private[0], private[0])
        else:
            old, new = (dict(zip(part[0].tolist(), part[1].tolist(), strict=True)) for part in (call.private, private))
            moves = [new.get(cell, 0) - old.get(cell, 0) for cell in old.keys() | new.keys()]
        total = Fraction(sum(abs(move) for move in moves))
        loss = Fraction(settings["epsilon"]) * total / sensitivity
        return Shift("L1", float(total), total > sensitivity, epsilon=loss)
    squared = sum((move * move for move in _moves(call.private[0], private[0])), Fraction(0))
    share = squared / (sensitivity * sensitivity)
    root = math.sqrt(squared)
    if call.kind == "gamma-norm":
        return Shift("L2", root, share > 1, epsilon=Fraction(settings["epsilon"]) * _root_above(share))
    return Shift("L2", root, share > 1, rho=Fraction(settings["rho"]) * share)


def _score_shift(settings: dict[str, str], sensitivity: Fraction, old: Sequence[Fraction], new: Sequence[Fraction]) -> Shift:
    moves = [after - before for before, after in zip(old, new, strict=True)] or [Fraction(0)]
    largest = max(abs(move) for move in moves)
    monotone = settings["monotone"] == "True"
    # Both rules depend on differences of scores only, so a common shift is free and the loss is exponent * (max - min) move.
    exponent = Fraction(settings["epsilon"]) / (sensitivity if monotone else 2 * sensitivity)
    two_sided = monotone and min(moves) < 0 < max(moves)
    loss = exponent * (max(moves) - min(moves))
    return Shift("L-infinity", float(largest), largest > sensitivity, two_sided, epsilon=loss)


def _moves(old: Any, new: Any) -> list[Any]:
    """Differences as Python numbers: int64 subtraction could wrap and hide exactly the move that matters."""
    if isinstance(old, np.ndarray):
        moved = np.nonzero((old != new).ravel())[0]
        old, new = old.ravel()[moved].tolist(), new.ravel()[moved].tolist()
    return [after - before for before, after in zip(old, new, strict=True)]


def _root_above(share: Fraction) -> Fraction:
    """The square root, exact when rational, otherwise rounded up by less than 2^-60 and never across 1."""
    top, bottom = math.isqrt(share.numerator), math.isqrt(share.denominator)
    if top * top == share.numerator and bottom * bottom == share.denominator:
        return Fraction(top, bottom)
    above = Fraction(math.isqrt((share.numerator << 120) // share.denominator) + 1, 1 << 60)
    return min(above, Fraction(1)) if share < 1 else above
