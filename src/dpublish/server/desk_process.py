"""The process of one query desk: keeps the session open, and answers one question after another.

    python -m dpublish.server.desk_process FOLDER

Questions come as lines of JSON on standard input, and each gets one line on standard output. The
exact counts of a session are in this process alone; the service never holds them. It ends when its
input does, so it does not outlive the service; what it answered is on disk before it is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any, Final

from dpublish.errors import PublishError, error_named
from dpublish.requests.base import plain
from dpublish.requests.online import Ask, CloseSession, SessionState, opened_session
from dpublish.server.worker import failure_of

PATIENCE: Final = 120.0
"""Seconds after which a desk that does not answer is started anew."""


class DeskProcess:
    """A desk as the service sees it: one question at a time, in the order of arrival."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turn = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None

    def stop(self) -> None:
        with self._turn:
            self._end()

    def asked(self, do: str, **given: str) -> dict[str, Any]:
        """What the session says to "status", "close", or "ask" with a `query` and a `key`: then
        the `answer`, and whether it is `fresh`, which a key that was answered before is not."""
        line = json.dumps({"do": do, **given}).encode() + b"\n"
        with self._turn:
            for attempt in (1, 2):  # keys make asking again safe, whatever became of the first time
                child = self._running()
                assert child.stdin is not None
                assert child.stdout is not None
                late = threading.Timer(PATIENCE, child.kill)
                late.start()
                try:
                    child.stdin.write(line)
                    child.stdin.flush()
                    said = child.stdout.readline()
                except OSError:
                    said = b""
                finally:
                    late.cancel()
                if said.endswith(b"\n"):
                    break
                self._end()
                if attempt == 2:
                    raise PublishError(
                        "The desk does not answer. Ask again with the same key: what was answered "
                        "is kept."
                    )
        answer: dict[str, Any] = json.loads(said)
        if "error" in answer:
            raise error_named(answer["error"]["type"], answer["error"]["message"])
        return answer

    def _running(self) -> subprocess.Popen[bytes]:
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-m", "dpublish.server.desk_process", str(self._folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return self._child

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):  # what was not flushed goes nowhere
                    stream.close()


def serve(folder: Path, lines: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until there is nothing more to answer."""
    session = None
    for line in lines:
        try:
            asked = json.loads(line)
            session = session or opened_session(folder)
            if asked["do"] == "ask":
                before = session.status().asked
                question = Ask(session=folder, query=asked["query"], key=asked["key"])
                said: dict[str, Any] = {
                    "answer": question.answer(session).to_json(),
                    "fresh": session.status().asked > before,
                }
            else:
                kind = CloseSession if asked["do"] == "close" else SessionState
                said = dict(kind(session=folder).answer(session).to_json())
                said.pop("session")  # a path of this server
        except BaseException as error:  # what was not foreseen gets constant words
            said = {"error": failure_of(error)}
        answers.write(json.dumps(plain(said)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    # whatever else writes to standard output must not be taken for an answer
    own = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    serve(Path(sys.argv[1]), sys.stdin.buffer, own)
