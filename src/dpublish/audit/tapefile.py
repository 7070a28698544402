"""Tapes on disk, so that a second process can replay what a first one recorded (twin runs).

The file holds private values in the clear: it opens with a warning, only its owner can read it, and
an existing file is never overwritten. JSON, not pickle: loading a tape runs no code.
"""

from __future__ import annotations

import json
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.errors import InputError
from dpublish.noise.base import Draw
from dpublish.noise.tape import Tap, Tape

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
    if isinstance(part, tuple):
        return {"tuple": [_encode(item) for item in part]}
    if isinstance(part, list):
        return {"list": [_encode(item) for item in part]}
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
