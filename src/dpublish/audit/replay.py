"""Tier B: record a run on D, replay its answers on a neighbour D', and see whether anything but the
private values moved."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dpublish.audit.report import NOTHING_RAN, Finding, Report, name_of
from dpublish.errors import InputError
from dpublish.noise.base import Noise
from dpublish.noise.enumerator import freeze
from dpublish.noise.tape import Recorder, Replayer, ReplayMismatch, Shift, Tape, TapMisuse
from dpublish.privacy.cost import Amount, positive

Draws = Callable[[int], Noise]


@dataclass(frozen=True, kw_only=True)
class ReplayReport(Report):
    """`loss` (epsilon) and `rho_loss` are the largest sums of the losses of all taps over one
    pair."""

    tier: ClassVar[str] = "replay"

    runs: int
    taps: int
    epsilon: Fraction | None
    rho: Fraction | None
    loss: Fraction
    rho_loss: Fraction

    def scope(self) -> str:
        claim = "no sum claimed"
        if self.epsilon is not None:
            claim = f"claimed epsilon {self.epsilon}"
        elif self.rho is not None:
            claim = f"claimed rho {self.rho}"
        return (
            f"{self.runs} recorded run(s) on each of {self.pairs} pair(s), replayed both "
            f"ways, {self.taps} taps; taps add up to epsilon {float(self.loss):.6g}, rho "
            f"{float(self.rho_loss):.6g} ({claim})."
        )


def seeded(seed: int) -> Noise:
    """The default draws of an audit."""
    from dpublish.noise.source import SeededNoise

    return SeededNoise(seed)


def replay(
    mechanism: MechanismCall,
    pairs: Iterable[tuple[Any, Any]],
    *,
    epsilon: Amount | None = None,
    rho: Amount | None = None,
    runs: int = 2,
    draws: Draws = seeded,
    first_seed: int = 1,
) -> ReplayReport:
    """Record and replay `mechanism` on every pair, both ways.

    Parameters
    ----------
    epsilon, rho : number, optional
        The claim, when the proof is plain composition: the losses of all taps are then added up and
        compared with it. Leave both out for mechanisms that are cheaper than the sum of their draws
        (sparse vector).
    runs : int
        Recorded runs a pair and direction; each takes another seed, so other branches of the
        mechanism are seen.
    draws : callable
        `draws(seed) -> Noise`, what the recorded runs draw from.
    """
    if epsilon is not None and rho is not None:
        raise InputError("Claim either epsilon or rho, not both.")
    audit = _Audit(
        mechanism,
        None if epsilon is None else positive(epsilon),
        None if rho is None else positive(rho, "rho"),
        draws,
    )
    count = 0
    for count, (one, other) in enumerate(pairs, start=1):
        for run in range(runs):
            seed = first_seed + run
            audit.pair(count - 1, one, other, seed)
            audit.pair(count - 1, other, one, seed)
    if not count:
        raise InputError("There is no pair of inputs to compare. Give at least one.")
    if not audit.worked and not audit.findings:
        audit.findings.append(NOTHING_RAN)
    return ReplayReport(
        mechanism=name_of(mechanism),
        pairs=count,
        findings=tuple(audit.findings),
        runs=runs,
        taps=audit.taps,
        epsilon=audit.epsilon,
        rho=audit.rho,
        loss=audit.loss,
        rho_loss=audit.rho_loss,
    )


class _Audit:
    def __init__(
        self, mechanism: MechanismCall, epsilon: Fraction | None, rho: Fraction | None, draws: Draws
    ) -> None:
        self.mechanism, self.epsilon, self.rho, self.draws = mechanism, epsilon, rho, draws
        self.findings: list[Finding] = []
        self.taps = 0
        self.worked = False
        self.loss = Fraction(0)
        self.rho_loss = Fraction(0)

    def pair(self, position: int, one: Any, other: Any, seed: int) -> None:
        recorder = Recorder(self.draws(seed))
        try:
            recorded = observe(self.mechanism, recorder, one)
        except TapMisuse as misuse:
            self.find(position, "tap", str(misuse))
            return
        self.taps += len(recorder.tape.taps)
        self.worked |= recorded.error is None
        # On the same input first: a difference here means hidden state or randomness outside the
        # tap.
        again, replayer = self._replayed(recorder.tape, one)
        if again is None or replayer.mismatches or recorded.differences(again):
            self.find(
                position,
                "hidden",
                "the same answers on the same input gave another result: state, or draws outside "
                "the tap",
            )
            return
        seen, replayer = self._replayed(recorder.tape, other)
        for mismatch in replayer.mismatches:
            measured = "" if mismatch.measured is None else f" (measured {mismatch.measured:g})"
            self.find(position, mismatch.check, mismatch.text + measured)
        if seen is not None:
            for part in recorded.differences(seen):
                self.find(
                    position,
                    part,
                    f"the {part} differs although every answer of the tap was the same",
                )
            self._add_up(position, replayer.shifts)

    def _replayed(self, tape: Tape, data: Any) -> tuple[Observation | None, Replayer]:
        replayer = Replayer(tape)
        try:
            seen = observe(self.mechanism, replayer, data)
        except ReplayMismatch:
            return None, replayer  # already noted
        except TapMisuse as misuse:
            replayer.misuse(str(misuse))
            return None, replayer
        replayer.finish()
        return seen, replayer

    def _add_up(self, position: int, shifts: list[Shift]) -> None:
        loss = sum((shift.epsilon for shift in shifts), Fraction(0))
        rho_loss = sum((shift.rho for shift in shifts), Fraction(0))
        self.loss, self.rho_loss = max(self.loss, loss), max(self.rho_loss, rho_loss)
        if self.epsilon is not None:
            if rho_loss:
                self.find(
                    position, "claim", "Gaussian taps give no pure epsilon; claim rho instead"
                )
            if loss > self.epsilon:
                self.find(
                    position,
                    "claim",
                    f"the taps add up to epsilon {float(loss):.6g}, above the claim {self.epsilon}",
                )
        if self.rho is not None:
            total = rho_loss + sum(
                (shift.epsilon * shift.epsilon / 2 for shift in shifts), Fraction(0)
            )
            if total > self.rho:
                self.find(
                    position,
                    "claim",
                    f"the taps add up to rho {float(total):.6g}, above the claim {self.rho}",
                )

    def find(self, position: int, check: str, text: str) -> None:
        finding = Finding(check=check, pair=position, text=text)
        if finding not in self.findings:
            self.findings.append(finding)


# One run of a mechanism, with everything that a reader could see of it: output, error, log lines,
# printed text, warnings.

MechanismCall = Callable[[Noise, Any], Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """`output` is frozen, so that equal means indistinguishable, array widths and key order
    included."""

    output: Any
    error: tuple[str, str] | None
    log: tuple[str, ...]
    printed: str
    warned: tuple[str, ...]

    def differences(self, other: Observation) -> list[str]:
        """Names of the parts that differ."""
        return [name for name in self.__slots__ if getattr(self, name) != getattr(other, name)]


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(level=0)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.split(".")[0] == "numba":
            return  # the compiler tells of types when a kernel is first used, never of values
        self.lines.append(f"{record.levelname} {record.name}: {record.getMessage()}")


def observe(mechanism: MechanismCall, noise: Noise, data: Any) -> Observation:
    """Run `mechanism` on a copy of `data`. Exceptions are part of the observation, except those
    that end an audit."""
    handler, logger, printed = _Lines(), logging.getLogger(), io.StringIO()
    output: Any = None
    error = None
    with (
        warnings.catch_warnings(record=True, action="always") as caught,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
        contextlib.ExitStack() as stack,
    ):
        stack.callback(logger.setLevel, logger.level)
        stack.callback(logger.removeHandler, handler)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            output = mechanism(noise, copy.deepcopy(data))
        except (ReplayMismatch, TapMisuse):
            raise
        except Exception as raised:
            error = (type(raised).__name__, str(raised))
    texts = tuple(f"{item.category.__name__}: {item.message}" for item in caught)
    return Observation(freeze(output), error, tuple(handler.lines), printed.getvalue(), texts)
