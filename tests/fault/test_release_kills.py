"""kill -9 between debit and answer: every answer is paid, no key has two answers, no bundle is
torn, and a run that drew no noise goes on with its key, also beside one that was only stopped."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpublish as dp

CHILD = Path(__file__).with_name("release_child.py")
# what a retry with the same key must do after a kill there
POINTS = {
    "debit.committed": "answered",
    "gate:debited": "answered",
    "gate:counted": "answered",
    "drawing.locked": "answered",
    "drawing.inserted": "answered",
    "drawing.committed": "lost",
    "gate:drawing": "lost",
    "gate:ran": "lost",
    "gate:written": "same",
    "none": "same",
}
BEFORE = [point for point, then in POINTS.items() if then == "answered"]


class Nursery:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.errors = (folder / "errors").open("w+")
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def _ask(self, *words: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def run(self, name: str, key: str, point: str = "none", number: int = signal.SIGKILL) -> str:
        return self._ask("run", name, key, point, int(number))

    def wake(self, stopped: str) -> str:
        return self._ask("wake", int(stopped.split()[1]))

    def said(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def answer(self, name: str, key: str) -> str:
        path = self.folder / f"{name}-{key}.dpr"
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("releases")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DPUBLISH_STATE", str(folder / "state"))
        made = Nursery(folder)
        yield made
        assert made.process.stdin is not None
        made.process.stdin.close()
        made.process.wait()
        made.errors.close()


@pytest.fixture(autouse=True)
def _state(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPUBLISH_STATE", str(nursery.folder / "state"))


def entries(nursery: Nursery, name: str) -> list[tuple[str, str]]:
    with dp.open_ledger(nursery.folder / f"{name}.ledger") as ledger:
        ledger.verify()
        return [(entry.kind, entry.key) for entry in ledger.history()]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_release_goes_on_or_is_lost_or_the_same(point: str, nursery: Nursery) -> None:
    name = point.replace(":", "-").replace(".", "-")
    first = nursery.run(name, "k", point)
    assert first == ("0" if point == "none" else str(-signal.SIGKILL)), nursery.said()
    store = nursery.folder / f"{name}.ledger.d"
    stored = {hashlib.sha256(path.read_bytes()).hexdigest() for path in store.glob("*.dpr")}
    for path in store.glob("*.dpr"):
        assert dp.verify_bundle(path).ok, "a bundle is absent or verifies; it is never torn"

    again = nursery.run(name, "k")
    if POINTS[point] == "lost":
        assert again == "1"
        assert "new key" in nursery.said()
        assert not nursery.answer(name, "k"), "nothing is answered that was not the bought answer"
    else:
        assert again == "0", nursery.said()
        assert POINTS[point] == "answered" or nursery.answer(name, "k") in stored
    made = entries(nursery, name)
    assert made.count(("debit", "k")) == 1, "one key is paid once"
    assert made.count(("drawing", "k")) == 1, "and draws once"
    assert nursery.run(name, "k2") == "0", nursery.said()
    with dp.open_ledger(nursery.folder / f"{name}.ledger") as ledger:
        assert ledger.status().spent.epsilon == 2


def one_debit_one_answer(nursery: Nursery, name: str, key: str, point: str, number: int) -> None:
    """A run ends, or is only stopped, before it drew; another one answers, and the first one that
    wakes up finds that answer."""
    first = nursery.run(name, key, point, number)
    assert first == "-9" if number == signal.SIGKILL else first.startswith("stopped")
    assert nursery.run(name, key) == "0", nursery.said()
    answer = nursery.answer(name, key)
    assert answer
    if number == signal.SIGSTOP:
        assert nursery.wake(first) == "0", nursery.said()
        assert nursery.answer(name, key) == answer, "one answer in the end"
    made = entries(nursery, name)
    assert made.count(("debit", key)) == made.count(("drawing", key)) == 1
    assert made.count(("seal", key)) == 1


@pytest.mark.parametrize("point", ["gate:debited", "gate:counted"])
def test_a_stopped_run_that_wakes_up_after_another_draws_nothing(
    point: str, nursery: Nursery
) -> None:
    one_debit_one_answer(nursery, "stopped", point, point, signal.SIGSTOP)


def test_three_runs_and_no_more(nursery: Nursery) -> None:
    for _ in range(3):
        assert nursery.run("thrice", "k", "gate:counted") == "-9"
    assert nursery.run("thrice", "k") == "1"
    assert "3 runs of it ended before" in nursery.said()
    assert entries(nursery, "thrice").count(("debit", "k")) == 1


@pytest.mark.nightly
def test_200_kills_and_stops_between_debit_and_drawing(nursery: Nursery) -> None:
    rng = random.Random(4)
    outside = [point for point in BEFORE if not point.startswith("drawing")]
    for number in range(200):
        if rng.random() < 0.5:
            stop, point = signal.SIGKILL, rng.choice(BEFORE)
        else:  # a run that is stopped inside a transaction holds the ledger for all
            stop, point = signal.SIGSTOP, rng.choice(outside[1:])
        one_debit_one_answer(nursery, f"many-{number % 5}", f"k{number}", point, stop)


@pytest.mark.nightly
def test_200_kills_after_the_drawing(nursery: Nursery) -> None:
    rng = random.Random(5)
    after = [
        point for point, then in POINTS.items() if then in ("lost", "same") and point != "none"
    ]
    for number in range(200):
        name, key, point = f"later-{number % 5}", f"k{number}", rng.choice(after)
        assert nursery.run(name, key, point) == "-9"
        again = nursery.run(name, key)
        assert again == ("0" if POINTS[point] == "same" else "1")
        assert bool(nursery.answer(name, key)) == (POINTS[point] == "same")
        assert entries(nursery, name).count(("debit", key)) == 1


@pytest.mark.nightly
def test_kills_at_random_moments(nursery: Nursery) -> None:
    """100 releases killed after a random delay, each in a process of its own; afterwards every
    bundle verifies and has its committed debit."""
    import time

    rng = random.Random(4)
    words = [sys.executable, str(CHILD), str(nursery.folder)]

    def begin(key: str) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            text=True, process_group=0,
        )  # fmt: skip
        assert child.stdin is not None
        child.stdin.write(json.dumps(["run", "moments", key, "none", 9]) + "\n")
        child.stdin.close()
        return child

    # moments are parts of the time that a whole release takes, so that a slow machine is also
    # caught in the middle of one
    start = time.monotonic()
    assert begin("k0").wait() == 0
    whole = time.monotonic() - start
    for i in range(100):
        child = begin(f"k{i % 40}")
        time.sleep(whole * rng.uniform(0.2, 1.2))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    made = entries(nursery, "moments")
    paid = {key for kind, key in made if kind == "debit"}
    for path in nursery.folder.rglob("*.dpr"):
        if not path.name.startswith(".") and "moments" in str(path):
            assert dp.verify_bundle(path).ok
            assert dp.open_release(path).manifest["receipt"]["key"] in paid
