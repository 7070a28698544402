"""Tier D: the whole command line on two neighbouring inputs, with noise, clock and entropy frozen.

The commands run in child processes, in a folder of the same name, first on one input with the noise
recorded, then on the other with the recorded answers replayed. All that an outsider could then see
must be the same bytes: what was printed, exit codes, log lines, names and contents of the files
written.
"""

from __future__ import annotations

import fnmatch
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from dpublish.audit.report import Finding, Report
from dpublish.errors import InputError

DRIVER = Path(__file__).with_name("twin_child.py")
KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "TMPDIR", "NUMBA_CACHE_DIR")
LEDGER_FILES = ("*.ledger", "*.ledger-wal", "*.ledger-shm")


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """Where the child freezes a program, as "module:name". A hook that does not exist is an error,
    so a rename is noticed.

    `noise` is replaced by a function that returns the recorder or replayer, whatever it is called
    with; each of `clocks` by one that always returns the same moment, in the form the original has;
    `draws(seed)` feeds the recorder.
    """

    entry: str = "dpublish.cli.app:main"
    noise: str = "dpublish.curator.gate:make_noise"
    clocks: tuple[str, ...] = ("dpublish.ledger.chain:now",)
    draws: str = "dpublish.noise.source:SeededNoise"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What one command showed."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    log: str


@dataclass(frozen=True, kw_only=True)
class TwinReport(Report):
    """`files` are the names of the files that the commands wrote on the first input."""

    tier: ClassVar[str] = "twin"

    commands: tuple[str, ...]
    files: tuple[str, ...]
    ignored: tuple[str, ...]
    exit_codes: tuple[int, ...]
    taps: int

    def scope(self) -> str:
        return (
            f"{len(self.commands)} command(s) on two neighbouring inputs with frozen noise "
            f"({self.taps} taps), clock and "
            f"entropy: printed text, exit codes {list(self.exit_codes)}, log lines, "
            f"{len(self.files)} file name(s) and "
            "their bytes compared."
        )


def twin(
    commands: Sequence[Sequence[str]],
    first: Mapping[str, bytes],
    second: Mapping[str, bytes],
    *,
    public: Mapping[str, bytes] | None = None,
    hooks: Hooks | None = None,
    ignore: Sequence[str] = LEDGER_FILES,
    seed: int = 1,
    timeout: float = 120.0,
) -> TwinReport:
    """Run `commands` on both inputs and compare.

    Parameters
    ----------
    commands : sequence of argument lists
        Each is run as one process, in order, in a folder that holds the input files.
    first, second : mapping of file name to content
        The two neighbouring private inputs; the same names in both.
    public : mapping of file name to content
        Files that are the same in both runs, such as a schema.
    ignore : sequence of patterns
        Files whose bytes are not compared (their names are): SQLite writes salts of its own into a
        ledger file.
    """
    if set(first) != set(second) or not commands:
        raise InputError(
            "A twin run needs at least one command, and two inputs with the same file names."
        )
    hooks = hooks or Hooks()
    shared = dict(public or {})
    with tempfile.TemporaryDirectory(prefix="twin-") as name:
        root = Path(name)
        root.chmod(0o700)
        shown, written, notes = _run(
            root, "record", commands, {**shared, **first}, hooks, seed, timeout
        )
        shown_again, written_again, notes_again = _run(
            root, "replay", commands, {**shared, **second}, hooks, seed, timeout
        )
    lines = tuple(" ".join(command) for command in commands)
    findings = _compare_shown(lines, shown, shown_again)
    findings += _compare_files(written, written_again, ignore)
    findings += [_finding(note["check"], note["text"]) for note in notes_again["mismatches"]]
    if not notes["taps"]:
        findings.append(_finding("taps", "no tap was called, so nothing was released"))
    return TwinReport(
        mechanism=lines[-1],
        pairs=1,
        findings=tuple(findings),
        commands=lines,
        files=tuple(sorted(written)),
        ignored=tuple(ignore),
        exit_codes=tuple(item.exit_code for item in shown),
        taps=int(notes["taps"]),
    )


def _run(
    root: Path,
    mode: Literal["record", "replay"],
    commands: Sequence[Sequence[str]],
    files: Mapping[str, bytes],
    hooks: Hooks,
    seed: int,
    timeout: float,
) -> tuple[list[Shown], dict[str, bytes], dict[str, Any]]:
    # Both runs use a folder of the same name: an absolute path in some text must not look like a
    # leak.
    work, state = root / "work", root / "state"
    work.mkdir()
    state.mkdir()
    for name, content in files.items():
        target = (work / name).resolve()
        if not target.is_relative_to(work.resolve()):
            raise InputError(f"Input file '{name}' would lie outside the working folder.")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    shown = []
    notes: dict[str, Any] = {"mismatches": [], "taps": 0}
    for position, command in enumerate(commands):
        noted, log = root / f"{mode}-{position}.notes", root / f"{mode}-{position}.log"
        request = {
            "mode": mode,
            "arguments": list(command),
            "seed": seed + position,
            "tape": str(root / f"{position}.tape"),
            "notes": str(noted),
            "log": str(log),
            "hooks": asdict(hooks),
        }
        request_file = root / f"{mode}-{position}.request"
        request_file.write_text(json.dumps(request), encoding="utf-8")
        result = _child(request_file, work, state, command, timeout)
        if not noted.exists():
            raise InputError(
                f"The {mode} run of '{' '.join(command)}' could not be set up: "
                f"{result.stderr.decode(errors='replace')[-500:]}"
            )
        note = json.loads(noted.read_text(encoding="utf-8"))
        notes["mismatches"] += note["mismatches"]
        notes["taps"] += note["taps"]
        shown.append(
            Shown(
                exit_code=result.returncode,
                stdout=result.stdout,
                stderr=result.stderr,
                log=log.read_text(encoding="utf-8"),
            )
        )
    written = {
        str(path.relative_to(work)): path.read_bytes()
        for path in sorted(work.rglob("*"))
        if path.is_file() and str(path.relative_to(work)) not in files
    }
    work.rename(root / f"{mode}-work")
    state.rename(root / f"{mode}-state")
    return shown, written, notes


def _child(
    request_file: Path, work: Path, state: Path, command: Sequence[str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            # -P: the folder of the driver must not become an import path.
            [sys.executable, "-P", str(DRIVER), str(request_file)],
            cwd=work,
            env={
                **{name: value for name, value in os.environ.items() if name in KEPT_VARIABLES},
                "HOME": str(state),
                "DPUBLISH_STATE": str(state),
                "PYTHONHASHSEED": "0",
                "PYTHONDONTWRITEBYTECODE": "1",
                "COLUMNS": "100",
                "NO_COLOR": "1",
                "TERM": "dumb",
                "TZ": "UTC",
                "LC_ALL": "C.UTF-8",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"'{' '.join(command)}' took longer than {timeout:g} seconds. Give a longer timeout."
        ) from None


def _compare_shown(
    lines: Sequence[str], first: Sequence[Shown], second: Sequence[Shown]
) -> list[Finding]:
    return [
        _finding(part, f"'{line}' differs in its {part.replace('_', ' ')}")
        for line, one, other in zip(lines, first, second, strict=True)
        for part in ("exit_code", "stdout", "stderr", "log")
        if getattr(one, part) != getattr(other, part)
    ]


def _compare_files(
    first: Mapping[str, bytes], second: Mapping[str, bytes], ignore: Sequence[str]
) -> list[Finding]:
    names = _finding("file names", "the two runs wrote files of different names")
    return [names] * (list(first) != list(second)) + [
        _finding("file bytes", f"'{name}' differs")
        for name in sorted(first.keys() & second.keys())
        if first[name] != second[name]
        and not any(fnmatch.fnmatch(name, pattern) for pattern in ignore)
    ]


def _finding(check: str, text: str) -> Finding:
    return Finding(check=check, pair=0, text=text)
