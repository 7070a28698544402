"""Every option: documented as it is, read exactly, and refused where it is not known."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from dpublish.errors import InputError
from dpublish.server.config import Config, Place, options

DOCS = Path(__file__).parents[2] / "docs" / "serve.md"


def test_the_page_lists_every_option_with_its_default_and_its_meaning() -> None:
    text = DOCS.read_text(encoding="utf-8")
    rows = [
        f"| `{name}` | {f'`{default}`' if default else ''} | {meaning} |"
        for name, (default, meaning) in options().items()
    ]
    table = text[text.index("| Option | Default") :].split("\n\n")[0].splitlines()
    assert table[2:] == rows


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    text = DOCS.read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    path = tmp_path / "office.toml"
    path.write_text(text)
    config = Config.read(path, state=tmp_path / "state")
    assert config.secure
    assert config.places["warehouse"].tables == ("visits", "stays")
    assert config.oidc.client_secret_file == tmp_path / "oidc-secret"


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "office.toml"
    path.write_text('port = 1000\nstate = "here"\ntitle = "x"\n')
    config = Config.read(path, port=2000, host=None)
    assert (config.port, config.host, config.state) == (2000, "127.0.0.1", tmp_path / "here")
    assert Config.read(None, state=tmp_path).all_places == {"data": Place(folder=tmp_path / "data")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "Did you mean 'port'"),
        ("port = 'x'", "port must be a whole number"),
        ("port = 70000", "not between 0 and 65535"),
        ("two_person = 1", "two_person must be true or false"),
        ("host = '0.0.0.0'", "never travel in the clear"),
        ("url = 'http://data.example.org'", "must be https"),
        ("url = 'ftp://x'", "does not begin with"),
        ("[places.x]\n", "needs a folder or a database"),
        ("[places.x]\ndatabase = 'sqlite:///x'", "must name the tables"),
        ("[places.'a/b']\nfolder = 'x'", "letters, digits"),
        ("places = 3", "must be tables"),
        ("[limits]\njob = 3", "Did you mean 'jobs'"),
        ("[oidc]\nissuer = 'https://x'", "needs client_id"),
        ("[oidc]\nissuer = 'http://x.example'\nclient_id='a'", "must begin with https"),
        ("uploads = true", "must be a table"),
        ("proxies = 'x'", "a list of texts"),
        ("a = ", "is not TOML"),
    ],
)
def test_what_is_wrong_is_refused_with_a_reason(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "office.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        Config.read(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Config.read(tmp_path / "none.toml")


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Config.read().port = 1  # type: ignore[misc]
