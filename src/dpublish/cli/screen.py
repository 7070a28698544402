"""What a command prints: text for people, or with --json exactly one JSON document on stdout."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO

from dpublish.errors import PublishError
from dpublish.requests.base import PASSPHRASE, Caller, Progress, plain

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from dpublish.ledger.base import Actor

# Piped output is read by other programs and by people in log files: wide enough that tables are not
# folded.
PIPE_WIDTH = 160

# What makes a terminal act or reorder instead of showing: C0 (but not line ends and tabs), DEL, C1,
# line separators and bidirectional marks. The author of a release is not trusted, and its names and
# texts are shown.
_ACTING = (
    *range(9),
    *range(11, 32),
    *range(0x7F, 0xA0),
    0x61C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_VISIBLE = {code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" for code in _ACTING}
_VISIBLE_IN_JSON = {code: f"\\u{code:04x}" for code in _ACTING}


def visible(text: str) -> str:
    """Text that a terminal only shows: whatever would steer it is written out, such as \\x1b."""
    return text.translate(_VISIBLE)


def console() -> Console:
    """Standard output, without reading markup or guessing at highlights in what users wrote."""
    from rich.console import Console

    return Console(
        markup=False,
        highlight=False,
        soft_wrap=False,
        width=None if sys.stdout.isatty() else PIPE_WIDTH,
    )


@contextmanager
def output() -> Iterator[None]:
    """Whatever writes to standard output. That it cannot be written, on a full disk for example,
    says nothing of the work."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough
        raise
    except OSError as error:
        with suppress(
            OSError, ValueError
        ):  # Python would try once more when it ends, and change the exit code
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
        raise PublishError(
            f"Standard output cannot be written ({os.strerror(error.errno or 0)}). The work "
            f"itself is done: what was made is "
            "where --out says, and what was paid stays paid."
        ) from None


def write_json(document: Mapping[str, Any]) -> None:
    # such characters occur in strings only, where JSON may write any character by its number
    text = json.dumps(plain(document), indent=2, ensure_ascii=False).translate(_VISIBLE_IN_JSON)
    with output():
        print(text)


def say(text: str, *, style: str | None = None) -> None:
    """A paragraph for people."""
    with output():
        console().print(_text(text, style or ""), soft_wrap=not sys.stdout.isatty())


def note(text: str) -> None:
    """A remark beside the result, on stderr, so that it never ends up in a file made by
    redirection."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(_text(text, "yellow"), soft_wrap=True)


def notes(lines: Iterable[str]) -> None:
    """Warnings within the result."""
    for line in lines:
        say(f"  Note: {line}", style="yellow")


def facts(pairs: Iterable[tuple[str, str]], *, title: str | None = None) -> None:
    """Name and value, one pair a line."""
    table = _table(title, box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    _print(table, pairs)


def grid(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    title: str | None = None,
) -> None:
    """A table; `right` are the columns that hold numbers."""
    from rich import box

    table = _table(title, box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for position, header in enumerate(headers):
        table.add_column(
            _text(header), justify="right" if position in right else "left", overflow="fold"
        )
    _print(table, rows)


def _table(title: str | None, **style: Any) -> Table:
    from rich.table import Table

    shown = None if title is None else _text(title)
    return Table(title=shown, title_justify="left", title_style="bold", **style)


def _print(table: Table, rows: Iterable[Sequence[str]]) -> None:
    for row in rows:
        table.add_row(*map(_text, row))
    with output():
        console().print(table)


def _text(text: str, style: str = "") -> Text:
    """Words as they are: as plain text they would be read as markup."""
    from rich.text import Text

    return Text(visible(text), style=style)


def frame_grid(frame: Any, *, most: int) -> None:
    """A polars frame as a table of at most `most` rows, with a line that says how many are not
    shown."""
    grid(
        frame.columns,
        [[cell_text(value) for value in row] for row in frame.head(most).iter_rows()],
        right=[i for i, dtype in enumerate(frame.dtypes) if dtype.is_numeric()],
    )
    if frame.height > most:
        say(
            f"... and {frame.height - most:,} more rows (--rows {frame.height} shows all)",
            style="dim",
        )


def cell_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


@contextmanager
def steps(*, quiet: bool, terminal: TextIO | None = None) -> Iterator[Progress]:
    """A spinner on stderr with the name of the current step. It counts nothing: totals and rates
    would speak of the rows."""
    stream = terminal or sys.stderr
    if quiet or not stream.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(file=stream).status("starting") as status:
        yield lambda step: status.update(step)


@contextmanager
def muted() -> Iterator[TextIO]:
    """Lead everything that is written to stdout and stderr nowhere, also by native code; yields
    what was stderr.

    A native library that crashes prints a message of its own, past Python, and that message may
    quote a cell.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    kept = [(number, os.dup(number)) for number in (1, 2)]
    terminal = os.fdopen(os.dup(2), "w", encoding="utf-8")
    try:
        for number, _ in kept:
            os.dup2(nowhere, number)
        yield terminal
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)
        terminal.close()


STOPPED: list[str] = []
"""What a run that was stopped said about what is lost and what is not."""


@contextmanager
def _terminable() -> Iterator[None]:
    """A polite request to end (SIGTERM) is told like Ctrl-C."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, leave)
    except ValueError:  # not the main thread: signals are the host's
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Terminal(Caller):
    """The person at this terminal: sees the current step, and can be asked for a passphrase."""

    def __init__(self, *, quiet: bool = False, progress: Progress | None = None) -> None:
        self._quiet = quiet
        self._progress = progress or (lambda step: None)

    @property
    def actor(self) -> Actor:
        from dpublish.ledger.base import Actor

        return Actor.here("command line")

    def progress(self, step: str) -> None:
        self._progress(step)

    @contextmanager
    def private(self) -> Iterator[Progress]:
        with (
            warnings.catch_warnings(),
            muted() as terminal,
            steps(quiet=self._quiet, terminal=terminal) as progress,
        ):
            warnings.simplefilter("ignore")  # a library's warning may quote a cell
            with _terminable():
                try:
                    yield progress
                except (KeyboardInterrupt, SystemExit) as stop:
                    STOPPED[:] = getattr(stop, "__notes__", [])
                    raise

    def passphrase(self, *, fresh: bool) -> str:
        if os.environ.get(PASSPHRASE) or not sys.stdin.isatty():
            return super().passphrase(fresh=fresh)
        import typer

        return str(
            typer.prompt(
                "Passphrase of the signing key",
                hide_input=True,
                confirmation_prompt=fresh,
                err=True,
            )
        )
