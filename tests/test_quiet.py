"""Native code cannot print what it read."""

from __future__ import annotations

import os
import threading

import pytest

from dpublish.quiet import quiet_native_code


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
