"""Reads a file of another program in a process of its own, with a limit of memory.

Libraries for such files are native code, hold a whole sheet at once, and trust what a file says of
its own sizes; a few bytes of it may stand for terabytes of cells. So they run in a child: what it
does there to memory, to standard error or to itself reaches no release. The child is told what to
read on its standard input, answers with one line about the columns, and then with the rows as an
Arrow stream. Only what a file says before its rows (names, types, sheets) is ever put into words.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import IO, Any

from dpublish.errors import InputError

MEMORY = 4 << 30
"""Bytes that a child may take beyond what it starts with."""

SECONDS = 3600
"""Seconds of processor time after which a child is ended."""

_START = "from dpublish.sources.foreign.child import main; main()"
_READERS = {"workbook": "workbooks", "statistical": "statistical"}


@dataclass(frozen=True)
class Answer:
    """What a reader says of a file: its columns, and the rows in record batches."""

    head: dict[str, Any]
    rows: Callable[[], Iterator[Any]] | None = None
    """None where only the head is asked for, or is all there is."""


def head_of(asked: dict[str, Any]) -> dict[str, Any]:
    """What a file says before its rows, or in plain words why it cannot be read."""
    with _running(asked | {"rows": False}) as (head, _):
        if "error" in head:
            raise InputError(str(head["error"]))
        return head


def batches_of(asked: dict[str, Any]) -> Iterator[Any]:
    """The rows as record batches. What goes wrong says nothing about them."""
    import pyarrow as pa

    with _running(asked | {"rows": True}) as (head, stream):
        if "error" in head:
            raise OSError("the file cannot be read")
        with pa.ipc.open_stream(stream) as reader:
            yield from reader


@contextmanager
def _running(asked: dict[str, Any]) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    child = subprocess.Popen(
        [sys.executable, "-c", _START],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(json.dumps(asked | {"memory": MEMORY}).encode() + b"\n")
        child.stdin.close()
        line = child.stdout.readline()
        whole = line.endswith(b"\n")
        yield (json.loads(line) if whole else {"error": _lost(asked["path"])}), child.stdout
    finally:
        child.stdout.close()
        if child.poll() is None:
            child.kill()
        child.wait()


def _lost(path: str) -> str:
    return (
        f"The file '{path}' cannot be read: it is damaged, or needs more than {MEMORY >> 30} GiB "
        "of memory. Save it as .csv or .parquet."
    )


def main() -> None:
    """The child."""
    asked = json.loads(sys.stdin.buffer.readline())
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints gets between the rows
    module = import_module(f"dpublish.sources.foreign.{_READERS[asked['reader']]}")
    _limit(asked["memory"])
    try:
        answer: Answer = module.read(asked)
    except InputError as error:
        answer = Answer({"error": str(error)})
    except ImportError:
        raise
    except Exception:
        answer = Answer({"error": _lost(asked["path"])})
    out.write(json.dumps(answer.head).encode() + b"\n")
    if answer.rows is not None:
        _write(answer.rows(), out)
    out.flush()


def _write(batches: Iterator[Any], out: IO[bytes]) -> None:
    import pyarrow as pa

    first = next(batches, pa.record_batch({"": pa.array([], pa.string())}))
    with pa.ipc.new_stream(out, first.schema) as stream:
        for batch in chain([first], batches):
            stream.write_batch(batch)


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    try:
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:  # not on this system: about what Python and its libraries start with
        taken = 2 << 30
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory, taken + memory))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # it would hold rows
