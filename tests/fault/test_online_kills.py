"""kill -9 anywhere in an online session: paid once, nothing shown twice differently, nothing shown
that is not on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from online_child import REFUSED

import dpublish as dp

CHILD = Path(__file__).with_name("online_child.py")
DRAWN = ("drawing.committed", "online:ran", "online:prepared", "online:known")
"""Between the mark that noise is drawn and the folder: what was drawn is lost."""
OPENING = (
    "online:debited",
    "online:counted",
    "online:ready",
    "online:sealed",
    "online:confirmed",
    "debit.committed",
    "seal.committed",
)
LOSING = ("online:begun", "online:drawn", "online:torn")
"""Between the note that a query is begun and the end of its line: the query counts as a hard
one."""
ASKING = (
    *LOSING,
    "online:uncut",
    "online:written",
    "online:marked",
    "anchor.written",
    "anchor.renamed",
)
CASES = [(point, 0) for point in OPENING] + [(point, 2) for point in ASKING]


class Nursery:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(CHILD), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name: str, point: str = "none", passes: int = 0) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([name, point, passes]) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    import os

    folder = tmp_path_factory.mktemp("online")
    before = os.environ.get("DPUBLISH_STATE")
    os.environ["DPUBLISH_STATE"] = str(folder / "state")
    made = Nursery(folder)
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    made.process.wait()
    os.environ.pop("DPUBLISH_STATE") if before is None else os.environ.__setitem__(
        "DPUBLISH_STATE", before
    )


def answers(folder: Path, name: str) -> dict[str, set[str]]:
    """Every text that was ever shown, by query."""
    seen: dict[str, set[str]] = {}
    path = folder / f"{name}.shown"
    for line in path.read_text().splitlines() if path.exists() else ():
        seen.setdefault(json.loads(line).get("query", "halted"), set()).add(line)
    return seen


def check(nursery: Nursery, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = nursery.folder
    monkeypatch.setenv("DPUBLISH_STATE", str(folder / "state"))
    for query, texts in answers(folder, name).items():
        assert len(texts) == 1, f"two answers to {query}"
    with dp.open_ledger(folder / f"{name}.ledger") as ledger:
        ledger.verify()
        assert ledger.status().spent.epsilon == 1, "one session is paid once"
    desk = dp.OnlineSession(folder / name)
    on_disk = {answer.query: answer.to_bytes().decode() for answer in desk.transcript()}
    for query, texts in answers(folder, name).items():
        assert query == "halted" or texts == {on_disk[query]}, (
            "an answer was shown that is not in the transcript"
        )
    assert desk.status().hard <= 4


def draws(nursery: Nursery, name: str) -> int:
    path = nursery.folder / f"{name}.drawn"
    return len(path.read_text().splitlines()) if path.exists() else 0


def lost(nursery: Nursery, name: str) -> int:
    lines = (nursery.folder / name / "transcript.jsonl").read_text().splitlines()
    return sum("lost" in json.loads(line) for line in lines)


@pytest.mark.parametrize(("point", "passes"), CASES)
def test_a_killed_session_resumes(
    nursery: Nursery, point: str, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{point}-{passes}".replace(":", "-").replace(".", "-")
    assert nursery.run(name, point, passes) == -9
    assert nursery.run(name) == 0, "it opens again with the same key and goes on"
    check(nursery, name, monkeypatch)
    assert lost(nursery, name) == (point in LOSING)
    assert draws(nursery, name) == 1, "one payment, one draw"


@pytest.mark.parametrize("point", DRAWN)
def test_a_set_up_killed_once_it_draws_is_never_drawn_again(
    nursery: Nursery, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was drawn lay in the memory of a process that died, or on disk: with a second draw for
    the same payment there would be two, and how often a set-up dies may depend on them."""
    name = f"drawn-{point}".replace(":", "-").replace(".", "-")
    assert nursery.run(name, point) == -9
    for _ in range(3):
        assert nursery.run(name) == REFUSED
    assert draws(nursery, name) == (point != "drawing.committed")
    assert not (nursery.folder / name).exists()
    monkeypatch.setenv("DPUBLISH_STATE", str(nursery.folder / "state"))
    with dp.open_ledger(nursery.folder / f"{name}.ledger") as ledger:
        ledger.verify()
        assert ledger.status().spent.epsilon == 1


def test_a_set_up_that_keeps_dying_is_tried_three_times(nursery: Nursery) -> None:
    """How a run dies may tell of the rows."""
    for _ in range(3):
        assert nursery.run("dying", "online:counted") == -9
    assert nursery.run("dying") == REFUSED
    assert draws(nursery, "dying") == 0


def test_killed_again_while_the_loss_is_written(
    nursery: Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    for point, passes in (
        ("online:drawn", 1),
        ("online:torn", 0),
        ("online:torn", 0),
        ("online:uncut", 0),
    ):
        assert nursery.run("again", point, passes) == -9
    assert nursery.run("again") == 0
    check(nursery, "again", monkeypatch)
    assert lost(nursery, "again") == 1


@pytest.mark.nightly
def test_many_kills(nursery: Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point, after 0 to 4 passes (anchors 0 to 9), four kills in a row on the same session.
    Anchors are also written while a session is set up: one that is killed there once its noise is
    drawn is refused for ever after, paid once, drawn once at most, and nothing of it shown."""
    refused, resumed = set(), set()
    for point in ASKING:
        anchor = point.startswith("anchor.")
        for passes in range(10 if anchor else 5):
            name = f"many-{passes}-{point}".replace(":", "-").replace(".", "-")
            for _ in range(4):
                nursery.run(name, point, passes)
            ended = nursery.run(name)
            if anchor and ended == REFUSED:
                refused.add((point, passes))
                assert draws(nursery, name) <= 1
                assert not (nursery.folder / f"{name}.shown").exists()
                with dp.open_ledger(nursery.folder / f"{name}.ledger") as ledger:
                    ledger.verify()
                    assert ledger.status().spent.epsilon == 1
            else:
                assert ended == 0, name
                check(nursery, name, monkeypatch)
                resumed.add((point, passes))
    for point in ("anchor.written", "anchor.renamed"):
        assert any(one == point for one, _ in refused), "killed while it is set up"
        assert any(one == point for one, _ in resumed), "killed while it is asked"
