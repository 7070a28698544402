"""Native code cannot print what it read."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator

import pytest

from dpublish.quiet import no_logs, private, quiet_native_code
from dpublish.sources.spark import _quietly


def test_direct_writes_go_nowhere_and_come_back_after(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(2, b"before ")
    with quiet_native_code():
        os.write(2, b"canary ")
        with quiet_native_code():
            os.write(2, b"canary ")
        os.write(2, b"canary ")
    os.write(2, b"after")
    assert capfd.readouterr().err == "before after"


def test_it_ends_with_the_last_thread(capfd: pytest.CaptureFixture[str]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with quiet_native_code():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    with quiet_native_code():
        pass
    os.write(2, b"canary")
    leave.set()
    thread.join()
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


def test_a_failure_restores_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), quiet_native_code():
        raise ValueError
    os.write(2, b"after")
    assert capfd.readouterr().err == "after"


HOST = """
import logging, os, sys, threading
logging.basicConfig(level=logging.DEBUG, format="%(message)s")  # holds sys.stderr of this moment
from dpublish.curator.guard import guarded

begin, go_on = threading.Event(), threading.Event()

class Held:
    def __del__(self):
        raise ValueError("canary")

def private():
    begin.set()
    go_on.wait(10)
    logging.getLogger("library").critical("canary")
    print("canary", file=sys.stderr)
    sys.stderr.buffer.write(b"canary")
    Held()
    os.write(2, b"canary")
    def child():
        logging.getLogger("library").critical("canary")
        raise ValueError("canary")
    thread = threading.Thread(target=child)
    thread.start()
    thread.join()

worker = threading.Thread(target=lambda: guarded(private))
worker.start()
begin.wait(10)
logging.getLogger().handlers[0].setFormatter(logging.Formatter("%(module)s %(message)s"))
logging.info("the server goes on")
print("and so does its screen", file=sys.stderr)
newcomer = threading.Thread(target=lambda: logging.info("and new threads of it"))
newcomer.start()
newcomer.join()
go_on.set()
worker.join()
os.write(2, b"after\\n")
logging.info("all over")
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_server_in_the_same_process_keeps_its_log(unbuffered: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOST],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr.splitlines() == [
        "<string> the server goes on",
        "and so does its screen",
        "<string> and new threads of it",
        "after",
        "<string> all over",
    ]


def test_hooks_that_the_host_puts_over_ours_stay() -> None:
    seen: list[str] = []
    below = threading.excepthook
    try:
        with no_logs():
            ours = threading.excepthook
            threading.excepthook = lambda args: (seen.append("host"), ours(args))[0]  # type: ignore[func-returns-value]
        with no_logs():
            pass
        assert threading.excepthook is not ours
        assert not private()
    finally:
        threading.excepthook = below


def test_nothing_that_a_worker_says_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[str] = []
    handler = logging.StreamHandler(sys.stderr)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("worker")
    logger.addHandler(handler)

    def part(batches: Iterator[int]) -> Iterator[int]:
        for batch in batches:
            logger.error("row %d", batch)
            warnings.warn(f"row {batch}", stacklevel=1)
            os.write(2, b"row")
            print("row", file=sys.stderr)
            yield batch
        raise ValueError("row")

    try:
        said = _quietly(part, iter([1, 2]))
        assert [next(said), next(said)] == [1, 2]
        with pytest.raises(RuntimeError, match=r"A worker of dpublish failed\.") as failed:
            next(said)
    finally:
        logger.removeHandler(handler)
    assert failed.value.__context__ is None
    assert heard == []
    assert capfd.readouterr().err == ""
    os.write(2, b"others")
    assert capfd.readouterr().err == "others"
