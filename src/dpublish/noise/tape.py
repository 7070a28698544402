"""Recording and replaying the tap: `Recorder` notes every draw, `Replayer` hands the same answers
out on other data.

Replayed on a neighbouring input, a mechanism must make the same calls in the same order with the
same public parameters, and its private values may have moved by at most the sensitivity it
declared. Everything it does between the calls is then a function of the answers alone, which is
what a composition proof assumes and what code so easily breaks.

A tape holds private values in the clear. It is a test artefact, and neither class is `publishable`:
what is made with them is marked so and must not leave the test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dpublish.arrays import Ints
from dpublish.errors import PublishError
from dpublish.noise.base import Draw, DrawKind, Noise

SETTINGS = ("grid", "domain_size", "threshold", "bound", "epsilon", "rho", "monotone", "rule")
"""The public parameters of a draw, which must be the same in a replayed run."""

Check = Literal[
    "number",
    "kind",
    "label",
    "shape",
    "settings",
    "sensitivity",
    "distance",
    "monotone",
    "tap",
    "support",
]


class TapMisuse(PublishError):
    """A tap was given something it does not take, such as floats. The text names the tap and the
    type, never a value."""


class ReplayMismatch(PublishError):
    """The replayed run left the recorded one. The text names the step and what differs, never a
    private value."""


@dataclass(frozen=True, slots=True)
class Tap:
    """One draw, with an exact copy of its private value, and the answer it got."""

    draw: Draw
    answer: Any


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference between a recorded and a replayed run. `check` is what differs; `measured` is
    for audits on test data."""

    check: Check
    step: int
    text: str
    measured: float | None = None


@dataclass(frozen=True, slots=True)
class Shift:
    """How far a private value moved between two inputs, in the norm of its tap.

    `epsilon` and `rho` bound the privacy loss that this move can cost: the budget is charged for
    the move that was measured, so disjoint parts of the data compose in parallel without being told
    to.
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


class Recorder(Noise):
    """Passes every draw on to `inner` and notes draw and answer on `tape`."""

    def __init__(self, inner: Noise) -> None:
        self._inner = inner
        self.tape = Tape()

    def answer(self, draw: Draw) -> Any:
        draw = draw.listed()
        exact = exact_draw(draw)
        answer = self._inner.answer(draw)
        # A private copy: a mechanism may go on to change the array it was given.
        self.tape.taps.append(Tap(exact, _copied(answer)))
        return answer


class Replayer(Noise):
    """Hands out the answers of `tape` and notes every way in which the run differs from the
    recorded one.

    A call that cannot be given the recorded answer (too many calls, another kind or shape) always
    raises `ReplayMismatch`. Other differences are collected in `mismatches`, or raised at once when
    `strict`. Call `finish` when the run is over. `shifts` holds, per call, how far the private
    value moved and the privacy loss that this move can cost.
    """

    def __init__(self, tape: Tape, *, strict: bool = False) -> None:
        self._tape = tape
        self._strict = strict
        self._step = 0
        self.mismatches: list[Mismatch] = []
        self.shifts: list[Shift] = []

    def answer(self, draw: Draw) -> Any:
        draw, step = exact_draw(draw.listed()), self._step
        if step >= len(self._tape.taps):
            self._note(
                "number", f"{_name(step, draw)} has no counterpart in the recorded run", final=True
            )
        tap = self._tape.taps[step]
        self._step += 1
        self._compare(step, tap.draw, draw, tap.answer)
        return _copied(tap.answer)

    def finish(self) -> list[Mismatch]:
        """Check that the whole tape was used; all differences found."""
        if self._step < len(self._tape.taps) and not self.mismatches:
            self._note(
                "number",
                f"{_name(self._step, self._tape.taps[self._step].draw)} of the recorded run was "
                f"never asked",
            )
        return self.mismatches

    def misuse(self, text: str) -> None:
        """Note that the replayed run gave a tap something it does not take."""
        self.mismatches.append(Mismatch("tap", self._step, text))

    def _compare(self, step: int, recorded: Draw, draw: Draw, answer: Any) -> None:
        name = _name(step, recorded)
        if recorded.kind != draw.kind:
            self._note(
                "kind",
                f"{name}: recorded as {recorded.kind}, replayed as {draw.kind}",
                step,
                final=True,
            )
        if recorded.label != draw.label:
            self._note("label", f"{name}: the label differs", step)
        if _shape(recorded) != _shape(draw):
            self._note("shape", f"{name}: the shape differs", step, final=True)
        for setting in SETTINGS:
            # as text, which tells a float from an equal fraction
            if str(getattr(recorded, setting)) != str(getattr(draw, setting)):
                self._note("settings", f"{name}: {setting} differs", step)
        if recorded.sensitivity != draw.sensitivity:
            self._note("sensitivity", f"{name}: the declared sensitivity differs", step)
        if not recorded.private:
            return
        shift = shift_between(recorded, draw.private)
        self.shifts.append(shift)
        if draw.kind == "partitions" and not set(answer[0]) <= set(draw.private[0]):
            text = f"{name}: a value came out that only one of the two inputs has"
            self._note("support", text, step)
        if shift.too_far:
            text = (
                f"{name}: the private value moved further than its declared {shift.norm} "
                f"sensitivity {recorded.sensitivity}"
            )
            self._note("distance", text, step, measured=shift.distance)
        if shift.two_sided:
            self._note(
                "monotone",
                f"{name}: declared monotone, but some scores rose while others fell",
                step,
            )

    def _note(
        self,
        check: Check,
        text: str,
        step: int | None = None,
        *,
        measured: float | None = None,
        final: bool = False,
    ) -> None:
        self.mismatches.append(
            Mismatch(check, self._step if step is None else step, text, measured)
        )
        if final or self._strict:
            raise ReplayMismatch(f"The replay left the recorded run: {text}.")


def _name(step: int, draw: Draw) -> str:
    # Labels are public text by contract, but an audit must not depend on that: a label that differs
    # is never quoted.
    return f"step {step + 1} ({draw.kind})"


def _shape(draw: Draw) -> tuple[int, ...]:
    """The public size of a draw. The number of occupied cells is private, so that of a sparse one
    is the domain alone."""
    if draw.kind in ("sparse-laplace", "partitions") or not draw.private:
        return (draw.domain_size, draw.size)
    value = draw.private[0]
    return value.shape if isinstance(value, np.ndarray) else (len(value),)


def _copied(answer: Any) -> Any:
    if isinstance(answer, np.ndarray):
        return answer.copy()
    if isinstance(answer, tuple | list):
        return type(answer)(_copied(part) for part in answer)
    return answer


def exact_draw(draw: Draw) -> Draw:
    """The same draw with a copy of its private value: integers, or else fractions."""
    match draw.kind:
        case "laplace" | "gaussian":
            return draw._replace(private=(exact_integers(draw.private[0], draw.kind),))
        case "sparse-laplace":
            cells, counts = draw.private
            return draw._replace(
                private=(np.array(cells, dtype=np.uint64), exact_integers(counts, draw.kind))
            )
        case "partitions":
            values, counts = draw.private
            return draw._replace(private=(tuple(values), exact_integers(counts, draw.kind)))
        case _:
            return draw._replace(
                private=tuple(exact_fractions(part, draw.kind) for part in draw.private)
            )


def exact_integers(values: Any, tap: DrawKind) -> Ints:
    """A private int64 copy of `values`, which must be integers already: a float here is a privacy
    bug, not a convenience."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise TapMisuse(f"The {tap} tap takes integers; it was given {array.dtype.name}.")
    if (
        array.dtype == np.uint64
        and array.size
        and bool((array > np.uint64(np.iinfo(np.int64).max)).any())
    ):
        raise TapMisuse(
            f"The {tap} tap takes 64-bit signed integers; it was given a value out of their range."
        )
    return array.astype(np.int64)


def exact_fractions(values: Any, tap: DrawKind) -> tuple[Fraction, ...]:
    """`values` as Fractions; they must be integers or Fractions already."""
    exact = []
    for value in values:
        if not isinstance(value, Fraction | int | np.integer):
            raise TapMisuse(
                f"The {tap} tap takes integers or Fractions; it was given {type(value).__name__}."
            )
        exact.append(value if isinstance(value, Fraction) else Fraction(int(value)))
    return tuple(exact)


def shift_between(draw: Draw, private: tuple[Any, ...]) -> Shift:
    """The move from the private value of `draw` to `private`, against the sensitivity that `draw`
    declares."""
    if not draw.private:
        raise TapMisuse(
            f"The {draw.kind} tap takes no private value, so there is no distance to measure."
        )
    if draw.kind == "choose":
        return _score_shift(draw, private[0])
    if draw.kind in ("laplace", "sparse-laplace", "partitions"):
        if draw.kind == "laplace":
            moves = _moves(draw.private[0], private[0])
        else:
            old, new = (
                dict(zip(list(part[0]), part[1].tolist(), strict=True))
                for part in (draw.private, private)
            )
            moves = [new.get(cell, 0) - old.get(cell, 0) for cell in old.keys() | new.keys()]
        total = Fraction(sum(abs(move) for move in moves))
        return Shift(
            "L1",
            float(total),
            total > draw.sensitivity,
            epsilon=draw.epsilon * total / draw.sensitivity,
        )
    squared = sum((move * move for move in _moves(draw.private[0], private[0])), Fraction(0))
    share = squared / (draw.sensitivity * draw.sensitivity)
    root = math.sqrt(squared)
    if draw.kind == "gamma-norm":
        return Shift("L2", root, share > 1, epsilon=draw.epsilon * _root_above(share))
    return Shift("L2", root, share > 1, rho=draw.rho * share)


def _score_shift(draw: Draw, new: Sequence[Fraction]) -> Shift:
    moves = [after - before for before, after in zip(draw.private[0], new, strict=True)] or [
        Fraction(0)
    ]
    largest = max(abs(move) for move in moves)
    # Both rules depend on differences of scores only, so a common shift is free and the loss is
    # exponent * (max - min) move.
    exponent = Fraction(draw.epsilon) / (
        draw.sensitivity if draw.monotone else 2 * draw.sensitivity
    )
    return Shift(
        "L-infinity",
        float(largest),
        largest > draw.sensitivity,
        two_sided=draw.monotone and min(moves) < 0 < max(moves),
        epsilon=exponent * (max(moves) - min(moves)),
    )


def _moves(old: Any, new: Any) -> list[Any]:
    """Differences as Python numbers: int64 subtraction could wrap and hide exactly the move that
    matters."""
    if isinstance(old, np.ndarray):
        moved = np.nonzero((old != new).ravel())[0]
        old, new = old.ravel()[moved].tolist(), new.ravel()[moved].tolist()
    return [after - before for before, after in zip(old, new, strict=True)]


def _root_above(share: Fraction) -> Fraction:
    """The square root, exact when rational, otherwise rounded up by less than 2^-60 and never
    across 1."""
    top, bottom = math.isqrt(share.numerator), math.isqrt(share.denominator)
    if top * top == share.numerator and bottom * bottom == share.denominator:
        return Fraction(top, bottom)
    above = Fraction(math.isqrt((share.numerator << 120) // share.denominator) + 1, 1 << 60)
    return min(above, Fraction(1)) if share < 1 else above
