"""`dpublish release | solve | key`: what a curator makes and vouches for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli import screen
from dpublish.cli.options import (
    Again,
    Data,
    Database,
    Delta,
    Epsilon,
    Ledger,
    LedgerName,
    Method,
    NewBudget,
    NewBudgetDelta,
    Overwrite,
    ReleaseFile,
    Rho,
    SchemaFile,
    SecondBudget,
    Setting,
    SignWith,
    Spark,
    asks,
)
from dpublish.errors import did_you_mean
from dpublish.requests.base import PASSPHRASE

if TYPE_CHECKING:
    from dpublish.requests.curator import KeyFacts, Released, Signed, Warmed
    from dpublish.requests.solve import Solved


@asks("curator.Release")
def release(
    made: Released,
    data: Data,
    schema: SchemaFile,
    ledger: Ledger,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="RELEASE", help="Where to write: NAME.dpr, or a folder NAME."
        ),
    ],
    epsilon: Epsilon = None,
    method: Method = None,
    settings: Setting = None,
    delta: Delta = None,
    rho: Rho = None,
    database: Database = None,
    spark: Spark = None,
    budget: NewBudget = None,
    budget_delta: NewBudgetDelta = None,
    second_budget: SecondBudget = False,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Name of this request. The same key again gives the same bytes and is paid once.",
        ),
    ] = None,
    name: LedgerName = "default",
    store: Annotated[
        Path | None,
        typer.Option(
            "--store",
            metavar="FOLDER",
            help="Where sealed releases are kept for --key; by default beside an SQLite ledger, "
            "else in ./dpublish-releases.",
        ),
    ] = None,
    sign_with: SignWith = None,
    overwrite: Overwrite = False,
    again: Again = False,
) -> None:
    """Publish: check the request, debit the ledger, read the rows, add noise, write the release.

    Everything that can be wrong with the request is found before the budget is touched. After the
    debit nothing about the
    rows leaves except through the release itself, so a failure there has a constant text and exit
    code 6.
    """
    from dpublish.privacy.cost import Cost
    from dpublish.requests.analyst import verbs_for

    manifest = made.release.manifest
    _released(
        made,
        [
            ("data set", str(manifest["dataset"])),
            ("method", str(manifest["method"])),
            ("cost", Cost.from_json(manifest["privacy"]["cost"]).describe()),
            ("protects", f"{manifest['privacy']['unit']} ({manifest['privacy']['neighbours']})"),
            ("key", str(manifest["receipt"]["key"])),
            *(("signed by", one.describe()) for one in made.release.signatures),
            ("budget left", made.left.remaining.describe()),
            ("next", f"dpublish {', '.join(verbs_for(made.release))}"),
        ],
    )
    if not manifest["publishable"]:
        screen.note(
            "This release was made with fixed noise, for tests. It protects nobody: do not "
            "publish it."
        )


def _released(made: Released, lines: list[tuple[str, str]]) -> None:
    for line in made.account:
        screen.say(line, style="bold")
    screen.say(f"Released {made.out}", style="bold green")
    screen.facts(lines)
    screen.notes(made.release.manifest["plan"].get("warnings", ()))
    for line in made.unsigned:
        screen.note(line)


def read_problem(text: str) -> str:
    """A problem by its name; one that cannot be had is told why, and what to use instead."""
    from dpublish.catalogue import methods

    known = list(methods("solve"))
    if text in known:
        return text
    if text.replace("_", "-") == "facility-location":
        from dpublish.optimize import NO_FACILITY_LOCATION

        raise typer.BadParameter(NO_FACILITY_LOCATION)
    raise typer.BadParameter(
        f"'{text[:80]}' is no problem.{did_you_mean(text, known)} Problems: {', '.join(known)}."
    )


@asks("solve.Solve")
def solve(
    made: Solved,
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM",
            help="min-cut, k-median, vertex-cover, set-cover or public-projects.",
            parser=read_problem,
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="Private rows: edges (two columns), places, elements, or lists of resources. In "
            "a text file a line is a row: "
            "one whole name, or names separated by blanks, commas or semicolons that no public "
            "name holds.",
        ),
    ],
    public: Annotated[
        str,
        typer.Option(
            "--public",
            "-p",
            metavar="FILE",
            help="The public part: a number or a file of names (vertices, resources), a CSV of "
            "sites (name,x,y or "
            "name,latitude,longitude) or an OR-Library pmed file, a file of sets (a line NAME "
            "ELEMENT ELEMENT ... each; the "
            "first word is the name of the set) or an OR-Library scp file.",
        ),
    ],
    ledger: Ledger,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="RELEASE", help="Where to write: NAME.dpr, or a folder NAME."
        ),
    ],
    epsilon: Annotated[
        str,
        typer.Option(
            "--epsilon", "-e", metavar="NUMBER", help="Cost, as 0.5 or 1/2. Read exactly."
        ),
    ],
    delta: Delta = None,
    k: Annotated[
        int | None,
        typer.Option("--k", "-k", metavar="K", help="How many sites or resources to choose."),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--form",
            metavar="FORM",
            help="What the public file is: plain, haversine, euclidean, pmed or scp.",
        ),
    ] = "plain",
    settings: Setting = None,
    budget: NewBudget = None,
    budget_delta: NewBudgetDelta = None,
    second_budget: SecondBudget = False,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The same key again gives the same bytes."),
    ] = None,
    name: LedgerName = "default",
    population: Annotated[
        str | None,
        typer.Option("--population", metavar="TEXT", help="Whose rows these are."),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Name of the data in the release.")
    ] = None,
    sign_with: SignWith = None,
    overwrite: Overwrite = False,
    again: Again = False,
) -> None:
    """Solve an optimisation problem whose structure is public and whose rows are private, and
    publish the solution.

    The release states the guarantee and what no private method could beat. 'dpublish verify' checks
    the file.
    """
    _released(
        made,
        [
            *made.release.summary().items(),
            *made.cutting,
            *(("signed by", one.describe()) for one in made.release.signatures),
            ("budget left", made.left.remaining.describe()),
        ],
    )


key_app = typer.Typer(
    help="Make a key, and sign releases with it.", no_args_is_help=True, rich_markup_mode=None
)

KeyFile = Annotated[Path, typer.Argument(metavar="KEY", help="The file of a signing key.")]
Signing = Annotated[
    Path,
    typer.Option(
        "--sign-with", metavar="FILE", envvar="DPUBLISH_SIGNING_KEY", help="The signing key."
    ),
]


@key_app.command("new")
@asks("curator.NewKey")
def new_key(
    made: KeyFacts,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="KEY", help="File to make. Its public half goes beside it, as KEY.pub."
        ),
    ],
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="TEXT", help="Who signs: what signatures say about their maker."
        ),
    ],
    passphrase: Annotated[
        bool,
        typer.Option(
            "--passphrase",
            help=f"Protect it by a passphrase, asked for or taken from {PASSPHRASE}.",
        ),
    ] = False,
) -> None:
    """Make a key that only you can read. Give KEY.pub to your readers, by a way that they trust."""
    screen.say(f"Made {path} (keep it secret) and {path}.pub (give it away)", style="bold green")
    _show_key(made)


@key_app.command("show")
@asks("curator.ShowKey")
def show_key(found: KeyFacts, path: KeyFile) -> None:
    """Show the public half of a key and its fingerprint."""
    _show_key(found)


@key_app.command("sign")
@asks("curator.Sign")
def sign(signed: Signed, release: ReleaseFile, sign_with: Signing) -> None:
    """Sign a release that was published before. Its content, its manifest and its payment stay as
    they are."""
    screen.say(f"Signed {release}", style="bold green")
    screen.facts([("signed by", one.describe()) for one in signed.signatures])


def _show_key(key: KeyFacts) -> None:
    screen.facts([(name.replace("_", " "), value) for name, value in key.to_json().items()])


@asks("curator.Warm")
def warm(
    done: Warmed,
    methods: Annotated[
        list[str] | None, typer.Argument(metavar="METHOD", help="Methods to compile; all if none.")
    ] = None,
) -> None:
    """Compile now what releases run, for images and servers. Reads no data and spends nothing.

    A release compiles what is missing by itself, before it pays: this only saves it the time.
    """
    screen.facts(list(done.methods.items()))
