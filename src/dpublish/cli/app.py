"""The command line: `dpublish VERB ...`. One module a verb; their bodies import what they need, so
that help stays fast."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from dpublish.cli import (
    audit,
    demo,
    export,
    key,
    ledger,
    local,
    methods,
    online,
    plan,
    predict,
    query,
    release,
    report,
    schema,
    show,
    solve,
    sql,
    verify,
)
from dpublish.cli.conditions import Conditions
from dpublish.cli.failure import INTERRUPTED, report_failure
from dpublish.cli.sections import Sections

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

CURATOR, ANALYST, AUDITOR = "For curators", "For analysts", "For auditors"

app.command("demo", rich_help_panel="Start here")(demo.demo)
app.command("methods", rich_help_panel=CURATOR)(methods.methods)
app.command("plan", rich_help_panel=CURATOR)(plan.plan)
app.command("release", rich_help_panel=CURATOR)(release.release)
app.command("solve", rich_help_panel=CURATOR)(solve.solve)
app.command("show", rich_help_panel=ANALYST)(show.show)
app.command("query", cls=Conditions, rich_help_panel=ANALYST)(query.query)
app.command("sql", rich_help_panel=ANALYST)(sql.sql)
app.command("export", rich_help_panel=ANALYST)(export.export)
app.command("predict", rich_help_panel=ANALYST)(predict.predict)
app.command("report", rich_help_panel=ANALYST)(report.report)
app.add_typer(schema.app, name="schema", rich_help_panel=CURATOR)
app.add_typer(ledger.app, name="ledger", rich_help_panel=CURATOR)
app.add_typer(key.app, name="key", rich_help_panel=CURATOR)
app.add_typer(online.app, name="online", rich_help_panel=CURATOR)
app.add_typer(local.app, name="local", rich_help_panel=CURATOR)
app.command("verify", rich_help_panel=AUDITOR)(verify.verify)
app.command("audit", rich_help_panel=AUDITOR)(audit.audit)


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
        return leaving.code if isinstance(leaving.code, int) else 0
    except BaseException as error:
        return report_failure(error, arguments)
    if code == INTERRUPTED:
        return report_failure(KeyboardInterrupt(), arguments)
    return code if isinstance(code, int) else 0


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))
