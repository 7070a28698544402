"""What commands print, for people and for machines."""

from __future__ import annotations

import datetime as dt
import io
import json
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpublish.cli import screen
from dpublish.cli.analyst import _count
from dpublish.requests.analyst import Table


def test_plain_values_survive_json() -> None:
    given = {
        "share": Fraction(1, 3),
        "day": dt.date(2020, 1, 31),
        "path": Path("a/b"),
        "none": None,
        "bound": float("inf"),
        "nan": float("nan"),
        "list": (1, True, "x"),
        "number": np.int64(7),
    }
    assert json.loads(json.dumps(screen.plain(given), allow_nan=False)) == {
        "share": "1/3",
        "day": "2020-01-31",
        "path": "a/b",
        "none": None,
        "bound": None,
        "nan": None,
        "list": [1, True, "x"],
        "number": 7,
    }


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_named_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with screen.steps(quiet=False) as progress:
        progress("reading rows")
    assert "reading rows" in terminal.getvalue()
    assert not any(sign in terminal.getvalue() for sign in ("%", "rows/s", " of "))


@pytest.mark.parametrize("quiet", [True, False])
def test_steps_are_silent_elsewhere(quiet: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with screen.steps(quiet=quiet) as progress:
        progress("reading rows")
    seen = capsys.readouterr()
    assert seen.out + seen.err == ""


def test_what_users_wrote_is_not_read_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    screen.grid(["[bold]name"], [["[red]a[/red]"]], title="t")
    screen.say("[link=x]y")
    screen.facts([("[b]", ":smile:")])
    shown = capsys.readouterr().out
    for text in ("[bold]name", "[red]a[/red]", "[link=x]y", "[b]", ":smile:"):
        assert text in shown


def test_long_frames_say_that_they_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    screen.frame_grid(pl.DataFrame({"n": range(5), "x": [1.5, None, 2e6, 0.123456, -3.0]}), most=3)
    shown = capsys.readouterr().out
    assert "... and 2 more rows" in shown
    assert "2,000,000.0" in shown
    assert Table(frame=pl.DataFrame({"n": [1]})).to_json() == {"columns": ["n"], "rows": [[1]]}


def test_what_rounding_leaves_of_nothing_is_nothing() -> None:
    """A model's estimate of an empty range stood there as 3.614e-12 rows."""
    numbers = (3.614e-12, 0.0, -1e-15, 0.25, 12.34, 1234.5, float("inf"))
    shown = ["0", "0", "0", "0.25", "12.3", "1,234", "no bound"]
    assert [_count(one) for one in numbers] == shown
