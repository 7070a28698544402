"""How a failure looks: one line for people or one JSON object for machines, on stderr, and an exit
code.

    0   done                                        4   the ledger cannot be read, trusted or
        written
    1   a release or output could not be written    5   the release file is corrupt, altered or
        newer
    2   the request, schema or query is wrong       6   failed after private rows were read
    3   the budget does not allow it                70  a bug in dpublish      130  interrupted

A failure that dpublish did not foresee is shown without its text: that text could quote a row.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence

import typer

from dpublish.errors import PublishError

UNEXPECTED = 70
INTERRUPTED = 130
USAGE = 2

# Commands that open private data. Their unforeseen failures are never explained, whatever was asked
# for.
READS_ROWS = frozenset({"local", "online", "release", "schema", "solve"})

# typer carries its own copy of click in some versions and not in others; this is the root of its
# usage errors in both
UsageFailure: type[Exception] = next(
    (base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"),
    typer.BadParameter,
)


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether the caller is a machine. Read off the raw arguments, because parsing them may be what
    failed."""
    return "--json" in arguments


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Show a failure and return the exit code."""
    if isinstance(error, PublishError):
        return _show(type(error).__name__, str(error), error.exit_code, arguments)
    if isinstance(error, UsageFailure):
        return _usage(error, arguments)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        text = (
            "Interrupted. If the ledger was already debited, the budget stays spent and "
            "nothing was published."
        )
        return _show("Interrupted", text, INTERRUPTED, arguments)
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if "--debug" in arguments and verb not in READS_ROWS and isinstance(error, Exception):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    hint = (
        "Details are never shown for a command that reads private rows."
        if verb in READS_ROWS
        else "'dpublish --debug ...' shows where."
    )
    text = f"dpublish failed in a way it did not foresee (incident {secrets.token_hex(4)}). {hint}"
    return _show("UnexpectedError", text, UNEXPECTED, arguments)


def _usage(error: Exception, arguments: Sequence[str]) -> int:
    message = str(getattr(error, "format_message", lambda: str(error))())
    if (
        type(error).__name__ == "NoArgsIsHelpError"
    ):  # a group without its verb: the message is the help page
        print(message, file=sys.stderr)
        return USAGE
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "dpublish"
    stop = "" if message.endswith((".", "?", "!")) else "."
    return _show("UsageError", f"{message}{stop} Try '{path} --help'.", USAGE, arguments)


def _show(kind: str, message: str, code: int, arguments: Sequence[str]) -> int:
    if wants_json(arguments):
        print(
            json.dumps({"error": {"type": kind, "message": message, "exit_code": code}}),
            file=sys.stderr,
        )
        return code
    from dpublish.cli.screen import visible

    message = visible(message)  # it may quote a release, whose author is not trusted
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True, highlight=False).print(
            Text.assemble(("Error: ", "bold red"), message), soft_wrap=True
        )
    else:
        print(f"Error: {message}", file=sys.stderr)
    return code
