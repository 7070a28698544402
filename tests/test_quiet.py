"""Native code cannot print what it read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from dpublish.quiet import no_logs, private, quiet_native_code


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
