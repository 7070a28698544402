"""The command line: `dpublish VERB ...`. Bodies of commands import what they need, so that help
stays fast.

How a failure looks: one line for people or one JSON object for machines, on stderr, and an exit
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
import logging
import secrets
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpublish.cli import analyst, auditor, curator, demo, ledger, local, online, plan, schema, serve
from dpublish.cli.screen import STOPPED, visible
from dpublish.errors import PublishError

UNEXPECTED = 70
INTERRUPTED = 130
USAGE = 2

# Commands that open private data. Their unforeseen failures are never explained, whatever was asked
# for.
READS_ROWS = frozenset({"check", "local", "online", "predict", "release", "schema", "solve"})

# typer carries its own copy of click in some versions and not in others; this is the root of its
# usage errors in both
UsageFailure: type[Exception] = next(
    (base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"),
    typer.BadParameter,
)


class Sections(TyperGroup):
    """Lists commands under the panel each was registered with, in the order of registration.

    Plain text: typer's own panels load a Markdown parser, and help should be there at once.
    """

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panel = getattr(command, "rich_help_panel", None)
                # typer marks an unset panel with a placeholder that is not text
                title = panel if isinstance(panel, str) else "Commands"
                sections.setdefault(title, []).append((name, command.get_short_help_str(200)))
        for title, rows in sections.items():
            with formatter.section(title):
                formatter.write_dl(rows)


app = typer.Typer(
    name="dpublish",
    cls=Sections,
    rich_markup_mode=None,
    help="Publish private data once, with a proved privacy guarantee, and let anyone analyse the "
    "result for ever.",
    epilog="Exit codes: 0 done, 2 wrong request, 3 budget, 4 ledger unavailable, 5 bad release "
    "file, 6 failed after rows were "
    "read, 70 bug. Start with 'dpublish demo'.",
    no_args_is_help=True,
    # typer's own traceback shows local variables, and those may be rows
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

COMMANDS: dict[str, dict[str, Any]] = {
    "Start here": {"demo": demo.demo, "docs": demo.docs},
    "For curators": {
        "methods": plan.methods,
        "check": schema.check_data,
        "plan": plan.plan,
        "compare": plan.compare,
        "rehearse": plan.rehearse,
        "warm": curator.warm,
        "release": curator.release,
        "solve": curator.solve,
        "serve": serve.serve,
        "schema": schema.app,
        "ledger": ledger.app,
        "key": curator.key_app,
        "online": online.app,
        "local": local.app,
    },
    "For analysts": {
        "show": analyst.show,
        "query": analyst.query,
        "sql": analyst.sql,
        "export": analyst.export,
        "predict": analyst.predict,
        "report": analyst.report,
        "page": analyst.page,
    },
    "For auditors": {"verify": auditor.verify, "audit": auditor.audit},
}
"""Commands and groups of commands, by panel of the help."""

CONDITIONS = frozenset({"plan", "compare", "rehearse", "query"})
"""Commands that take conditions, which may begin with a minus."""

for panel, commands in COMMANDS.items():
    for name, run_by in commands.items():
        if isinstance(run_by, typer.Typer):
            app.add_typer(run_by, name=name, rich_help_panel=panel)
        else:
            kind = analyst.Conditions if name in CONDITIONS else None
            app.command(name, cls=kind, rich_help_panel=panel)(run_by)


def _version(wanted: bool) -> None:
    if wanted:
        from dpublish import __version__

        print(f"dpublish {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug",
            help="Show where an unforeseen failure happened, unless the command reads private "
            "rows.",
        ),
    ] = False,
) -> None:
    """Read by `report_failure` from the raw arguments; declared here so that help and parsing know
    them."""


_SAID = logging.NullHandler()  # what the package tells its log, commands say themselves


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. Nothing escapes: an exception's text could quote a
    row."""
    logging.getLogger("dpublish").addHandler(_SAID)
    try:
        code = app(args=list(arguments), prog_name="dpublish", standalone_mode=False)
    except SystemExit as leaving:
        if isinstance(leaving.code, int) and leaving.code > INTERRUPTED and STOPPED:
            return _show("Interrupted", " ".join(STOPPED), leaving.code, arguments)
        return leaving.code if isinstance(leaving.code, int) else 0
    except BaseException as error:
        return report_failure(error, arguments)
    if code == INTERRUPTED:
        return report_failure(KeyboardInterrupt(), arguments)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Show a failure and return the exit code."""
    if isinstance(error, PublishError):
        return _show(type(error).__name__, str(error), error.exit_code, arguments)
    if isinstance(error, UsageFailure):
        return _usage(error, arguments)
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        text = (
            "Interrupted. If the ledger was debited meanwhile, the same request again is refused, "
            "with the key that goes on with it."
        )
        return _show("Interrupted", " ".join(STOPPED) or text, INTERRUPTED, arguments)
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
    path = getattr(getattr(error, "ctx", None), "command_path", "dpublish")
    stop = "" if message.endswith((".", "?", "!")) else "."
    return _show("UsageError", f"{message}{stop} Try '{path} --help'.", USAGE, arguments)


def _show(kind: str, message: str, code: int, arguments: Sequence[str]) -> int:
    if "--json" in arguments:  # the raw ones, because parsing them may be what failed
        print(
            json.dumps({"error": {"type": kind, "message": message, "exit_code": code}}),
            file=sys.stderr,
        )
        return code
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


# One example for every verb, shown under its help. Together they tell a story about the files of
# 'dpublish demo', and a test runs them in this order.

EXAMPLES = {
    "demo": "dpublish demo --out dpublish-demo",
    "docs": "dpublish docs schema",
    "methods": "dpublish methods histogram",
    "schema new": "dpublish schema new --template survey --out survey-schema.toml",
    "schema draft": "dpublish schema draft hospital.csv --out draft.toml",
    "schema from-codebook": "dpublish schema from-codebook codebook.json --out from-codebook.toml",
    "schema discover": "dpublish schema discover hospital.csv --schema start.toml --epsilon 0.5 "
    "--delta 1e-9 --ledger start.ledger --budget 1 --budget-delta 1e-8 --out found.toml",
    "schema check": "dpublish schema check hospital.toml --data hospital.csv",
    "schema show": "dpublish schema show hospital.toml",
    "check": "dpublish check hospital.csv --schema hospital.toml",
    "plan": "dpublish plan --schema hospital.toml --set columns=age,ward --epsilon 0.5,1 "
    '--question "age >= 65"',
    "compare": 'dpublish compare --schema hospital.toml --epsilon 1 --question "age >= 65" '
    "--method histogram --method generalized-table",
    "rehearse": "dpublish rehearse --schema hospital.toml --set columns=age,ward --epsilon 1 "
    "--question \"age >= 65 and ward = 'Cardiology'\"",
    "warm": "dpublish warm histogram",
    "ledger open": "dpublish ledger open hospital.ledger --epsilon 4",
    "release": "dpublish release hospital.csv --schema hospital.toml "
    "--set columns=age,ward,readmitted --epsilon 1 --ledger hospital.ledger --out hospital.dpr",
    "show": "dpublish show hospital.dpr",
    "query": "dpublish query hospital.dpr \"age >= 65 and ward = 'Cardiology'\"",
    "sql": 'dpublish sql hospital.dpr "select ward, count(*) as visits from release group by ward"',
    "export": "dpublish export hospital.dpr --synthetic --out synthetic.csv",
    "report": "dpublish report hospital.dpr --out report.html",
    "page": "dpublish page hospital.dpr --out page.html",
    "predict": "dpublish predict model.dpr visits.csv --out predicted.csv",
    "verify": "dpublish verify hospital.dpr --ledger hospital.ledger",
    "key new": 'dpublish key new office.key --name "Statistics office"',
    "key show": "dpublish key show office.key",
    "key sign": "dpublish key sign hospital.dpr --sign-with office.key",
    "ledger status": "dpublish ledger status hospital.ledger",
    "ledger history": "dpublish ledger history hospital.ledger",
    "ledger key": "dpublish ledger key hospital.ledger first-release",
    "ledger verify": "dpublish ledger verify hospital.ledger",
    "ledger witness": "dpublish ledger witness hospital.ledger elsewhere",
    "ledger merge": "dpublish ledger merge hospital.ledger --name default",
    "ledger recover": "dpublish ledger recover hospital.ledger",
    "ledger backup": "dpublish ledger backup hospital.ledger --out hospital-backup",
    "ledger restore": "dpublish ledger restore hospital-backup elsewhere/hospital.ledger",
    "solve": "dpublish solve min-cut edges.csv --public 6 --epsilon 1 --ledger roads.ledger "
    "--budget 2 --out cut.dpr",
    "online plan": "dpublish online plan --schema hospital.toml --set columns=emergency "
    "--set max_hard=2 --epsilon 2",
    "online open": "dpublish online open hospital.csv desk --schema hospital.toml "
    "--set columns=emergency --set max_hard=2 --epsilon 2 --ledger hospital.ledger",
    "online ask": 'dpublish online ask desk "emergency = true"',
    "online status": "dpublish online status desk",
    "online close": "dpublish online close desk",
    "local plan": "dpublish local plan --survey survey.toml --people 10000",
    "local randomize": "dpublish local randomize answers.csv --survey survey.toml "
    "--out reports.csv",
    "local aggregate": "dpublish local aggregate reports.csv --survey survey.toml",
    "audit": "dpublish audit histogram --tier exact",
    "serve": "dpublish serve --port 8765 --state office",
}


def add_examples(app: Any, prefix: str = "") -> None:
    """Put the example of every verb under its help."""
    for info in app.registered_commands:
        example = EXAMPLES.get(prefix + info.name)
        if example is not None:
            info.epilog = f"Example: {example}"
    for group in app.registered_groups:
        add_examples(group.typer_instance, f"{group.name} ")


add_examples(app)
