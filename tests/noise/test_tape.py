"""The recorder notes what was asked and passes answers through; the replayer finds every way of
leaving the tape."""

from __future__ import annotations

import stat
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from dpublish.audit.twin_child import WARNING, load_tape, save_tape
from dpublish.errors import InputError
from dpublish.noise.base import Noise
from dpublish.noise.source import SeededNoise
from dpublish.noise.tape import Recorder, Replayer, ReplayMismatch, TapMisuse

ONE = Fraction(1)
CELLS = np.array([1, 4], dtype=np.uint64)


def whole(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def every_tap(noise: Noise, shift: int = 0) -> list[object]:
    """One call of each kind, with private values moved by `shift` in one place."""
    return [
        noise.laplace(whole(3, 5 + shift), sensitivity=ONE, epsilon=ONE, label="counts"),
        noise.sparse_laplace(
            CELLS, whole(2, 3 + shift), domain_size=9, threshold=1, sensitivity=ONE, epsilon=ONE
        ),
        noise.gaussian(whole(7 + shift), sensitivity=ONE, rho=Fraction(1, 8)),
        noise.choose([Fraction(1, 2), Fraction(shift)], sensitivity=ONE, epsilon=ONE),
        noise.gamma_norm([Fraction(shift), ONE], grid=Fraction(1, 4), sensitivity=ONE, epsilon=ONE),
        noise.lattice_gaussian(
            [Fraction(shift)], grid=Fraction(1, 4), sensitivity=ONE, rho=Fraction(1, 8)
        ),
        noise.integers(10, size=3),
        noise.key(),
    ]


def flat(answer: object) -> object:
    return np.concatenate(answer) if isinstance(answer, tuple) else answer


def same(one: list[object], other: list[object]) -> bool:
    return all(np.array_equal(flat(a), flat(b)) for a, b in zip(one, other, strict=True))


def test_recorder_changes_no_answer_and_replayer_repeats_them() -> None:
    recorder = Recorder(SeededNoise(3))
    answers = every_tap(recorder)
    assert same(answers, every_tap(SeededNoise(3)))
    replayer = Replayer(recorder.tape)
    assert same(answers, every_tap(replayer, shift=1))
    assert replayer.finish() == []
    assert [shift.epsilon for shift in replayer.shifts] == [1, 1, 0, Fraction(1, 2), 1, 0]
    assert [shift.rho for shift in replayer.shifts] == [0, 0, Fraction(1, 8), 0, 0, Fraction(1, 8)]


def test_neither_is_publishable() -> None:
    recorder = Recorder(SeededNoise(3))
    assert not recorder.publishable
    assert not Replayer(recorder.tape).publishable


def test_every_distance_beyond_the_declared_one_is_noted() -> None:
    recorder = Recorder(SeededNoise(3))
    every_tap(recorder)
    replayer = Replayer(recorder.tape)
    every_tap(replayer, shift=2)
    assert [(m.check, m.step, m.measured) for m in replayer.finish()] == [
        ("distance", step, 2.0) for step in range(6)
    ]
    with pytest.raises(ReplayMismatch, match="declared L1 sensitivity 1"):
        every_tap(Replayer(recorder.tape, strict=True), shift=2)


def test_tape_survives_the_disk_and_is_marked_and_owner_only(tmp_path: Path) -> None:
    recorder = Recorder(SeededNoise(3))
    answers = every_tap(recorder)
    path = tmp_path / "run.tape"
    save_tape(recorder.tape, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert WARNING in path.read_text()[:200]
    replayer = Replayer(load_tape(path))
    assert same(answers, every_tap(replayer, shift=1))
    assert replayer.finish() == []
    with pytest.raises(FileExistsError):
        save_tape(recorder.tape, path)
    path.write_text("{}")
    with pytest.raises(InputError, match="not a tape"):
        load_tape(path)


def test_arrays_changed_after_the_call_do_not_change_the_tape() -> None:
    recorder = Recorder(SeededNoise(3))
    values = whole(1, 2)
    answer = recorder.laplace(values, sensitivity=ONE, epsilon=ONE)
    kept = answer.copy()
    values += 100
    answer += 100
    replayer = Replayer(recorder.tape)
    assert np.array_equal(replayer.laplace(whole(1, 2), sensitivity=ONE, epsilon=ONE), kept)
    assert replayer.finish() == []


def recorded_count() -> Recorder:
    recorder = Recorder(SeededNoise(3))
    recorder.laplace(whole(1), sensitivity=ONE, epsilon=ONE, label="count")
    return recorder


def test_public_parameters_must_be_the_same() -> None:
    for check, arguments in {
        "settings": {"sensitivity": ONE, "epsilon": 2 * ONE, "label": "count"},
        "sensitivity": {"sensitivity": 2 * ONE, "epsilon": ONE, "label": "count"},
        "label": {"sensitivity": ONE, "epsilon": ONE, "label": "count of 1"},
    }.items():
        replayer = Replayer(recorded_count().tape)
        replayer.laplace(whole(1), **arguments)  # type: ignore[arg-type]
        assert [mismatch.check for mismatch in replayer.finish()] == [check]


def test_a_call_that_cannot_be_answered_ends_the_run() -> None:
    tape = recorded_count().tape
    with pytest.raises(ReplayMismatch, match="recorded as laplace, replayed as key"):
        Replayer(tape).key()
    with pytest.raises(ReplayMismatch, match="shape"):
        Replayer(tape).laplace(whole(1, 1), sensitivity=ONE, epsilon=ONE, label="count")
    replayer = Replayer(tape)
    replayer.laplace(whole(1), sensitivity=ONE, epsilon=ONE, label="count")
    with pytest.raises(ReplayMismatch, match="no counterpart"):
        replayer.key()
    unfinished = Replayer(tape)
    assert [mismatch.check for mismatch in unfinished.finish()] == ["number"]


def test_texts_carry_no_private_value() -> None:
    recorder = Recorder(SeededNoise(3))
    recorder.laplace(whole(987_654), sensitivity=ONE, epsilon=ONE, label="n=987654")
    replayer = Replayer(recorder.tape)
    replayer.laplace(whole(123_456), sensitivity=ONE, epsilon=ONE, label="n=123456")
    text = " ".join(mismatch.text for mismatch in replayer.finish())
    assert "987" not in text
    assert "123" not in text


def test_monotone_choices_must_move_one_way() -> None:
    recorder = Recorder(SeededNoise(3))
    recorder.choose([1, 1, 1], sensitivity=ONE, epsilon=ONE, monotone=True)
    for scores, checks, loss in (
        ([2, 1, 2], [], 1),
        ([0, 0, 0], [], 0),
        ([2, 0, 1], ["monotone"], 2),
    ):
        replayer = Replayer(recorder.tape)
        replayer.choose(scores, sensitivity=ONE, epsilon=ONE, monotone=True)
        assert [mismatch.check for mismatch in replayer.finish()] == checks
        assert replayer.shifts[0].epsilon == loss


def test_differences_do_not_wrap() -> None:
    recorder = Recorder(SeededNoise(3))
    recorder.laplace(whole(-(2**62)), sensitivity=ONE, epsilon=ONE)
    replayer = Replayer(recorder.tape)
    replayer.laplace(whole(2**62 + 2**61), sensitivity=ONE, epsilon=ONE)
    assert replayer.finish()[0].measured == float(2**63 + 2**61)


def test_distance_of_sparse_vectors_is_over_the_union_of_cells() -> None:
    recorder = Recorder(SeededNoise(3))
    ask = {"domain_size": 9, "threshold": 1, "sensitivity": 2 * ONE, "epsilon": ONE}
    recorder.sparse_laplace(CELLS, whole(1, 3), **ask)  # type: ignore[arg-type]
    replayer = Replayer(recorder.tape)
    replayer.sparse_laplace(np.array([4, 7], dtype=np.uint64), whole(3, 1), **ask)  # type: ignore[arg-type]
    assert replayer.finish() == []
    assert replayer.shifts[0].distance == 2.0


def test_root_of_a_share_is_rounded_up_but_never_across_one() -> None:
    recorder = Recorder(SeededNoise(3))
    recorder.gamma_norm(
        [Fraction(0), Fraction(0)], grid=ONE, sensitivity=Fraction(3, 2), epsilon=ONE
    )
    replayer = Replayer(recorder.tape)
    replayer.gamma_norm([ONE, ONE], grid=ONE, sensitivity=Fraction(3, 2), epsilon=ONE)
    loss = replayer.shifts[0].epsilon
    assert 2 / Fraction(9, 4) < loss * loss < 2 / Fraction(9, 4) + Fraction(1, 2**58)
    assert loss < 1


def test_floats_are_refused_by_type_alone() -> None:
    recorder = Recorder(SeededNoise(3))
    with pytest.raises(TapMisuse, match=r"takes integers; it was given float64\.$"):
        recorder.laplace(np.array([1.5]), sensitivity=ONE, epsilon=ONE)  # type: ignore[arg-type]
    with pytest.raises(TapMisuse, match=r"given float\.$"):
        recorder.choose([0.5], sensitivity=ONE, epsilon=ONE)  # type: ignore[list-item]
    with pytest.raises(TapMisuse, match="out of their range"):
        recorder.gaussian(np.array([2**63], dtype=np.uint64), sensitivity=ONE, rho=ONE)  # type: ignore[arg-type]
    assert recorder.tape.taps == []
