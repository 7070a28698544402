"""The child process of a twin run: freezes entropy, clock and noise of a program, then runs it as
its user would.

Run as a script with one argument, the request file that `dpublish.audit.twin` wrote. The exit code
is the program's own. What the harness wants to know goes into the notes file; nothing is printed
that the program itself did not print.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import logging
import os
import random
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.errors import InputError
from dpublish.noise.base import Draw
from dpublish.noise.tape import Tap, Tape

# Tapes on disk, so that a second process can replay what a first one recorded (twin runs).
#
# The file holds private values in the clear: it opens with a warning, only its owner can read it,
# and an existing file is never overwritten. JSON, not pickle: loading a tape runs no code.

WARNING = (
    "PRIVATE: this tape holds private values in the clear. Do not publish, share or commit it."
)
FORMAT = "dpublish-tape-2"


def save_tape(tape: Tape, path: Path) -> None:
    """Write to a new owner-only file; an existing file is refused."""
    text = json.dumps(
        {"warning": WARNING, "format": FORMAT, "taps": [_packed(tap) for tap in tape.taps]}
    )
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8") as file:
        file.write(text)


def load_tape(path: Path) -> Tape:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InputError(
            f"'{path.name}' is not a tape of format {FORMAT}. Record it again with this version."
        )
    return Tape([_unpacked(entry) for entry in content["taps"]])


def _encode(part: Any) -> Any:
    if isinstance(part, Fraction):
        return {"fraction": str(part)}
    if isinstance(part, np.ndarray):
        return {"array": part.dtype.name, "shape": list(part.shape), "items": part.ravel().tolist()}
    if isinstance(part, bytes):
        return {"bytes": part.hex()}
    if isinstance(part, tuple | list):
        kind = "tuple" if isinstance(part, tuple) else "list"
        return {kind: [_encode(item) for item in part]}
    return part if isinstance(part, str | bool) else int(part)


def _decode(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    if "array" in part:
        return np.array(part["items"], dtype=np.dtype(part["array"])).reshape(part["shape"])
    if "bytes" in part:
        return bytes.fromhex(part["bytes"])
    if "fraction" in part:
        return Fraction(part["fraction"])
    if "list" in part:
        return [_decode(item) for item in part["list"]]
    return tuple(_decode(item) for item in part["tuple"])


def _packed(tap: Tap) -> dict[str, Any]:
    return {
        **{name: _encode(part) for name, part in tap.draw._asdict().items()},
        "answer": _encode(tap.answer),
    }


def _unpacked(entry: dict[str, Any]) -> Tap:
    return Tap(
        Draw(**{name: _decode(entry[name]) for name in Draw._fields}), _decode(entry["answer"])
    )


class FrozenEntropy:
    """Stands for os.urandom: the same bytes in every run, never the same bytes twice in one run.

    The compiler names its cache files at random, and only in the run that compiles first. Its calls
    are passed on, so that they do not shift what the program draws.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._system = os.urandom

    def restart(self) -> None:
        self._calls = 0

    def __call__(self, size: int) -> bytes:
        if _called_from("numba"):
            return self._system(size)
        self._calls += 1
        return hashlib.shake_256(f"twin run {self._calls}".encode()).digest(size)


def _called_from(package: str) -> bool:
    return any(
        str(frame.f_globals.get("__name__", "")).split(".")[0] == package
        for frame, _ in traceback.walk_stack(sys._getframe(2))
    )


def freeze_entropy() -> FrozenEntropy:
    """Ledger ids, keys and incident numbers come from the operating system; they are no noise, but
    they would differ."""
    frozen = FrozenEntropy()
    os.urandom = frozen
    random._urandom = frozen  # type: ignore[attr-defined]  # what `secrets` calls
    return frozen


def find(hook: str) -> tuple[Any, str]:
    """The module and attribute name of "module:name"; the attribute must exist."""
    module_name, _, name = hook.partition(":")
    module = importlib.import_module(module_name)
    getattr(module, name)
    return module, name


NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)


def frozen_time(like: Any) -> Any:
    """Noon of the first of January 2020 in the form of `like`."""
    if isinstance(like, datetime):
        return NOON.astimezone(like.tzinfo) if like.tzinfo else NOON.replace(tzinfo=None)
    if isinstance(like, str):
        return NOON.strftime("%Y-%m-%dT%H:%M:%SZ") if like.endswith("Z") else NOON.isoformat()
    if isinstance(like, int):
        return int(NOON.timestamp()) * (10**9 if like > 10**15 else 1)
    return NOON.timestamp()


def freeze_clock(hook: str) -> None:
    module, name = find(hook)
    constant = frozen_time(getattr(module, name)())
    setattr(module, name, lambda *args, **kwargs: constant)


class FileLog(logging.FileHandler):
    """All log lines, without times."""

    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname} {record.name}: {record.getMessage()}"


def run_program(entry: Callable[[], Any]) -> int:
    """The exit code of the program, as the interpreter would give it."""
    try:
        result = entry()
    except SystemExit as leaving:
        result = leaving.code
    except BaseException as error:
        # A traceback would name the driver; the kind and text of the error are what a user sees of
        # it.
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if result is None or isinstance(result, int):
        return int(result or 0)
    print(result, file=sys.stderr)
    return 1


def main(request_file: str) -> int:
    request = json.loads(Path(request_file).read_text(encoding="utf-8"))
    hooks = request["hooks"]
    entropy = freeze_entropy()
    from dpublish.noise.tape import Recorder, Replayer

    noise: Recorder | Replayer
    module, name = find(hooks["draws"])
    if request["mode"] == "record":
        noise = Recorder(getattr(module, name)(request["seed"]))
    else:
        noise = Replayer(load_tape(Path(request["tape"])))
    for clock in hooks["clocks"]:
        freeze_clock(clock)
    module, name = find(hooks["noise"])
    setattr(module, name, lambda *args, **kwargs: noise)
    module, name = find(hooks["entry"])
    log = logging.getLogger()
    log.addHandler(FileLog(request["log"], mode="w", encoding="utf-8"))
    log.setLevel(logging.INFO)
    sys.argv = ["dpublish", *request["arguments"]]
    # Setting up takes entropy too, and not the same amount when recording as when replaying.
    entropy.restart()
    code = run_program(getattr(module, name))
    sys.stdout.flush()
    notes: dict[str, Any] = {"mismatches": [], "taps": 0}
    if isinstance(noise, Recorder):
        save_tape(noise.tape, Path(request["tape"]))
        notes["taps"] = len(noise.tape.taps)
    else:
        notes["mismatches"] = [{"check": one.check, "text": one.text} for one in noise.finish()]
    Path(request["notes"]).write_text(json.dumps(notes), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
