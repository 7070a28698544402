"""`dpublish key new | show | sign`: the key that a curator vouches for releases with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpublish.cli.options import Json, ReleaseFile

if TYPE_CHECKING:
    from dpublish.releases.base import Release
    from dpublish.releases.bundle.signing_key import SigningKey

PASSPHRASE = "DPUBLISH_SIGNING_PASSPHRASE"

app = typer.Typer(
    help="Make a key, and sign releases with it.", no_args_is_help=True, rich_markup_mode=None
)

KeyFile = Annotated[Path, typer.Argument(metavar="KEY", help="The file of a signing key.")]
Signing = Annotated[
    Path,
    typer.Option(
        "--sign-with", metavar="FILE", envvar="DPUBLISH_SIGNING_KEY", help="The signing key."
    ),
]


@app.command("new")
def new(
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
    json: Json = False,
) -> None:
    """Make a key that only you can read. Give KEY.pub to your readers, by a way that they trust."""
    from dpublish.cli import screen
    from dpublish.releases.bundle.signing_key import SigningKey

    key = SigningKey.new(name)
    key.save(path, passphrase=_passphrase(fresh=True) if passphrase else None)
    if not json:
        screen.say(
            f"Made {path} (keep it secret) and {path}.pub (give it away)", style="bold green"
        )
    _show(key, json=json)


@app.command("show")
def show(path: KeyFile, json: Json = False) -> None:
    """Show the public half of a key and its fingerprint."""
    _show(unlocked(path), json=json)


@app.command("sign")
def sign(release: ReleaseFile, sign_with: Signing, json: Json = False) -> None:
    """Sign a release that was published before. Its content, its manifest and its payment stay as
    they are."""
    from dpublish.cli import screen
    from dpublish.releases.bundle.bundle import add_signature

    key = unlocked(sign_with)
    signatures = add_signature(release, key.sign)
    if json:
        screen.write_json({"release": release, "signatures": [one.facts() for one in signatures]})
        return
    screen.say(f"Signed {release}", style="bold green")
    screen.facts([("signed by", one.describe()) for one in signatures])


def unlocked(path: Path) -> SigningKey:
    """The key in a file, with its passphrase from the environment or the terminal."""
    from dpublish.releases.bundle.signing_key import SigningKey

    return SigningKey.read(path, passphrase=lambda: _passphrase(fresh=False))


def _passphrase(*, fresh: bool) -> str:
    from dpublish.errors import InputError

    given = os.environ.get(PASSPHRASE)
    if given:
        return given
    if not sys.stdin.isatty():
        raise InputError(
            f"A passphrase is needed and nobody can be asked for it here. Set {PASSPHRASE}. "
            f"Nothing was spent."
        )
    return str(
        typer.prompt(
            "Passphrase of the signing key", hide_input=True, confirmation_prompt=fresh, err=True
        )
    )


def _show(key: SigningKey, *, json: bool) -> None:
    from dpublish.cli import screen

    facts = {"name": key.name, "fingerprint": key.fingerprint, "public_key": key.public_line()}
    if json:
        screen.write_json(facts)
    else:
        screen.facts([(name.replace("_", " "), value) for name, value in facts.items()])


def not_signed(made: Release, key: SigningKey | None, out: Path) -> list[str]:
    """What to say when a release was to be signed with a key and is not, since it was made
    before."""
    if key is None or any(one.public_key == key.public_key for one in made.signatures):
        return []
    return [
        f"It is not signed with the key of {key.describe()}: it was made before, and one request "
        f"key gives the same bytes. "
        f"'dpublish key sign {out}' adds the signature."
    ]
