"""A failure must not tell what the reply was: a full disk is found before noise is drawn, later
failures count as hard."""

from __future__ import annotations

import errno
import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.curator.sessions import files as online_files
from dpublish.ledger import crashpoints
from dpublish.methods.online.state import Reply

CELLS = 1024
SCHEMA = (
    f'[dataset]\nname = "t"\n[columns.a]\nkind = "integer"\nlower = 0\nupper = '
    f"{CELLS - 1}\nbins = {CELLS}\nmissing = true\n"
)
ROWS = pl.DataFrame({"a": [0] * 190_000 + list(range(1, 11)) * 1000})
HARD = np.eye(1, CELLS + 1)[0]
"""All the weight on the cell where nearly all rows are, which an even histogram misses by far."""
EASY = np.full(CELLS + 1, 0.5)
"""Half of all rows, whatever the histogram is."""


@pytest.fixture
def curator(tmp_path: Path) -> dp.Curator:
    return dp.Curator(
        ROWS, dp.Schema.from_toml(SCHEMA), ledger=tmp_path / "l.ledger", budget=dp.Budget(epsilon=3)
    )


@pytest.fixture
def desk(curator: dp.Curator) -> dp.OnlineSession:
    return curator.answer_online(dp.OnlineMultiplicativeWeights(max_hard=3), epsilon=1, key="desk")


@contextmanager
def room_left(desk: dp.OnlineSession, room: int) -> Iterator[None]:
    """The transcript can grow by this many bytes only."""
    handler, limit = (
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        resource.getrlimit(resource.RLIMIT_FSIZE),
    )
    resource.setrlimit(
        resource.RLIMIT_FSIZE, ((desk.folder / "transcript.jsonl").stat().st_size + room, limit[1])
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)


@contextmanager
def full_after_the_draw(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file system that finds out only when room already taken is written over."""
    real, drawn = online_files._write_all, False

    def full(descriptor: int, content: bytes) -> None:
        if drawn:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor, content)

    def hook(reached: str) -> None:
        nonlocal drawn
        drawn = drawn or reached == "online:drawn"

    with monkeypatch.context() as patched, crashpoints.armed(hook):
        patched.setattr(online_files, "_write_all", full)
        yield


def test_a_full_disk_is_found_before_noise_is_drawn(
    desk: dp.OnlineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str] = []
    with crashpoints.armed(drawn.append), room_left(desk, 1500):
        for query in (HARD, EASY, HARD):
            with pytest.raises(dp.LedgerUnavailable, match="Nothing was asked"):
                desk.ask(query, key="q")
        assert desk.status().asked == 0
        assert "online:drawn" not in drawn
        assert desk.ask("a < 512").number == 1, "room enough for all that this one can lead to"
    answer = desk.ask(HARD, key="q")
    assert (answer.number, answer.label) == (2, "hard")


@pytest.mark.parametrize("query", [HARD, EASY], ids=["hard", "easy"])
def test_a_failure_after_the_draw_counts_as_hard(
    curator: dp.Curator, desk: dp.OnlineSession, query: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lost in range(3):
        with (
            full_after_the_draw(monkeypatch),
            pytest.raises(dp.LedgerUnavailable, match="no answer is given"),
        ):
            desk.ask(query, key="q")
        assert dp.OnlineSession(desk.folder).status().hard_left == 2 - lost, (
            "in another process too"
        )
    with pytest.raises(dp.BudgetExceeded, match="All 3 hard answers"):
        desk.ask(query, key="q")
    assert desk.transcript() == []
    again = curator.answer_online(dp.OnlineMultiplicativeWeights(max_hard=3), epsilon=1, key="desk")
    assert again.status().state == "used up"


def test_a_lost_query_may_be_asked_again(
    desk: dp.OnlineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_after_the_draw(monkeypatch), pytest.raises(dp.LedgerUnavailable):
        desk.ask(HARD, key="q")
    answer = desk.ask(HARD, key="q")
    assert (answer.number, answer.hard_left) == (2, 1)
    assert dp.OnlineSession(desk.folder).ask(HARD, key="q").to_bytes() == answer.to_bytes()
    assert desk.status().asked == 2


def test_no_line_is_longer_than_the_room_taken_for_it(desk: dp.OnlineSession) -> None:
    path, taken = desk.folder / "transcript.jsonl", []

    def hook(reached: str) -> None:
        if reached == "online:begun":
            taken.append(path.stat().st_size)

    with crashpoints.armed(hook):
        queries: list[Any] = [EASY, "a < 512", np.where(HARD > 0, 1.0, 0.9999), "a = 0", HARD]
        for query in queries:
            if desk.status().hard_left:
                desk.ask(query, key="\u00e9" * 199 + str(len(taken)))
                assert path.stat().st_size < taken[-1]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert any(len(line.get("weights", ())) == CELLS + 1 for line in lines), (
        "the longest kind of line was among them"
    )
    assert any(line["label"] == "easy" for line in lines)


def test_a_torn_line_that_kept_its_end(desk: dp.OnlineSession) -> None:
    """After a power cut later blocks of a line may be on disk and earlier ones not. It was never
    shown."""
    desk.ask("a < 512", key="a")
    with (desk.folder / "transcript.jsonl").open("ab") as file:
        file.write(b'{"begun":2}' + b" " * 300 + b'"value":3.5}\n' + b" " * 50)
    assert dp.OnlineSession(desk.folder).status().asked == 2
    assert desk.ask("a < 512", key="b").number == 3


def test_what_public_answers_decide_costs_nothing(
    desk: dp.OnlineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halt(*given: Any) -> Any:
        raise dp.BudgetExceeded("No hypothesis agrees.")

    with monkeypatch.context() as patched:
        patched.setattr(type(desk._state), "answer", halt)
        with pytest.raises(dp.BudgetExceeded, match="No hypothesis"):
            desk.ask(EASY)
    assert dp.OnlineSession(desk.folder).status().asked == 0


@pytest.mark.parametrize("field", ["key", "query"])
def test_what_cannot_be_written_is_refused_before_noise_is_drawn(
    desk: dp.OnlineSession, field: str
) -> None:
    key, query = (
        ("\ud800", "a < 512") if field == "key" else ("k", "a < 512 and '\ud800' = '\ud800'")
    )
    with pytest.raises(dp.InputError):
        desk.ask(query, key=key)
    assert desk.status().asked == 0


def private_values(folder: Path) -> tuple[bytes, int]:
    first, _, raw = (folder / "private.bin").read_bytes().partition(b"\n")
    return raw, int(json.loads(first)["threshold"])


def assert_no_private_locals(trace: TracebackType | None, *secrets: Any) -> None:
    """What a traceback with local variables would print."""
    frames = 0
    while trace is not None:
        if (
            "dpublish" in trace.tb_frame.f_code.co_filename
            and "tests" not in trace.tb_frame.f_code.co_filename
        ):
            frames += 1
            for name, value in trace.tb_frame.f_locals.items():
                for item in value if isinstance(value, tuple) else (value,):
                    place = f"{trace.tb_frame.f_code.co_name}: {name}"
                    seen = item.tobytes() if isinstance(item, np.ndarray) else item
                    assert not isinstance(item, Reply), place
                    assert not (
                        isinstance(seen, bytes) and len(seen) >= 64 and seen in secrets[0]
                    ), place
                    assert not (isinstance(seen, bytes) and secrets[0] in seen), place
                    assert not (isinstance(seen, int) and seen in secrets[1:]), place
        trace = trace.tb_next
    assert frames


def test_no_frame_of_a_failed_query_holds_private_numbers(
    desk: dp.OnlineSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = private_values(desk.folder)

    def fail(*given: Any) -> Any:
        raise ValueError

    with monkeypatch.context() as patched:
        patched.setattr(type(desk._state), "answer", fail)
        with pytest.raises(dp.PrivateSideError) as caught:
            desk.ask(HARD)
    assert_no_private_locals(caught.value.__traceback__, *secrets)

    def stop(*given: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(desk._state), "answer", stop)
        with pytest.raises(KeyboardInterrupt) as stopped:
            desk.ask(HARD)
    assert_no_private_locals(stopped.value.__traceback__, *secrets)
    with full_after_the_draw(monkeypatch), pytest.raises(dp.LedgerUnavailable) as refused:
        desk.ask("a = 0")
    assert refused.value.__context__ is None
    assert_no_private_locals(refused.value.__traceback__, *secrets)
    (desk.folder / "private.bin").write_bytes((desk.folder / "private.bin").read_bytes() + b"x")
    with pytest.raises(dp.LedgerUnavailable, match="not the one") as altered:
        dp.OnlineSession(desk.folder)
    assert_no_private_locals(altered.value.__traceback__, *secrets)


def test_no_frame_of_a_failed_opening_holds_private_numbers(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = ROWS["a"].value_counts().sort("a")["count"].to_numpy().astype("<i8").tobytes()

    def full(path: Path, content: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(online_files, "_write", full)
        with pytest.raises(dp.PublishError, match="make room and open it again") as caught:
            curator.answer_online(dp.OnlineMultiplicativeWeights(max_hard=3), epsilon=1, key="desk")
    assert caught.value.__context__ is None
    assert_no_private_locals(caught.value.__traceback__, counts)
    assert (
        curator.answer_online(dp.OnlineMultiplicativeWeights(max_hard=3), epsilon=1, key="desk")
        .ask(EASY)
        .number
        == 1
    )


def test_a_set_up_that_fails_after_its_draw_is_not_drawn_again(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The header holds noisy counts: a disk that is full for long ones alone would let their draw
    be repeated, unpaid, until short ones came."""
    drawn: list[Any] = []
    begin = dp.OnlineMultiplicativeWeights.begin

    def counted(*given: Any) -> Any:
        drawn.append(begin(*given))
        return drawn[-1]

    write = online_files._write

    def full(path: Path, content: bytes) -> None:
        if path.name == "session.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, content)

    monkeypatch.setattr(dp.OnlineMultiplicativeWeights, "begin", counted)
    asked = dp.OnlineMultiplicativeWeights(max_hard=3)
    with monkeypatch.context() as patched:
        patched.setattr(online_files, "_write", full)
        with pytest.raises(dp.PublishError, match="closes the key"):
            curator.answer_online(asked, epsilon=1, key="desk")
    for _ in range(2):
        with pytest.raises(dp.BudgetError, match="use a new key"):
            curator.answer_online(asked, epsilon=1, key="desk")
    assert len(drawn) == 1
    paid_again = curator.answer_online(asked, epsilon=1, key="another", again=True)
    assert paid_again.ask(EASY).number == 1
