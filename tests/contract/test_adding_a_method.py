"""Adding a method is a folder and a line in the catalogue: a toy method in a copy of the package is
found at every door."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "dpublish"
LAST = '    _release("histogram", "Histogram", "histogram", "tables"),\n'
LINE = LAST + '    _release("toy-counts", "ToyCounts", "histogram", "toy"),\n'

MECHANISM = '''
"""A toy: the histogram with another name."""

from dataclasses import dataclass

from dpublish.methods.histogram.mechanism import Histogram


@dataclass(frozen=True, kw_only=True)
class ToyCounts(Histogram):
    """Counts cells, as a histogram does.

    Input: rows.
    Output: cells.
    Privacy: that of the histogram.
    Relies on: the histogram.
    Shows / hides: as the histogram.
    Accuracy: as the histogram.

    Parameters
    ----------
    columns : the columns.
    bins : cells per numeric column.
    bin_share : the share for finding bins.
    threshold_factor : Lei's A.
    threshold : the threshold itself.
    count_share : the share for the total.
    max_support : the most false cells.
    """

    method = "toy-counts"
'''

TRIAL = '''
"""A toy needs an audit too."""

from dpublish.audit.trials.tables import histogram as toy_counts

__all__ = ["toy_counts"]
'''

SCHEMA = """
[dataset]
name = "toys"
neighbours = "add-remove-one"
nominal_size = 100

[columns.colour]
kind = "categorical"
levels = ["red", "blue"]
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command line of a copy of the package that has one folder and one line more."""
    home = tmp_path_factory.mktemp("toy")
    copy = home / "dpublish"
    shutil.copytree(
        PACKAGE, copy
    )  # with dates and compiled kernels, so that nothing is compiled again
    (copy / "methods" / "toy_counts").mkdir()
    (copy / "methods" / "toy_counts" / "__init__.py").touch()
    (copy / "methods" / "toy_counts" / "mechanism.py").write_text(MECHANISM)
    (copy / "audit" / "trials" / "toy.py").write_text(TRIAL)
    catalogue = (copy / "catalogue.py").read_text(encoding="utf-8")
    assert LAST in catalogue
    (copy / "catalogue.py").write_text(catalogue.replace(LAST, LINE), encoding="utf-8")
    return [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(home)!r}); from dpublish.cli.app import main; main()",
    ]


def run(program: list[str], folder: Path, *arguments: str) -> str:
    settings = {**os.environ, "DPUBLISH_STATE": str(folder / "state")}
    done = subprocess.run(
        [*program, *arguments],
        cwd=folder,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stdout


def test_a_folder_and_a_line_are_enough(program: list[str], tmp_path: Path) -> None:
    (tmp_path / "toys.toml").write_text(SCHEMA)
    (tmp_path / "toys.csv").write_text("colour\n" + "red\n" * 60 + "blue\n" * 40)
    assert "toy-counts" in run(program, tmp_path, "methods")
    assert "as the histogram" in run(program, tmp_path, "methods", "toy-counts")
    plan = json.loads(
        run(
            program,
            tmp_path,
            "plan",
            "--schema",
            "toys.toml",
            "--method",
            "toy-counts",
            "--epsilon",
            "1",
            "--set",
            "columns=colour",
            "--json",
        )
    )
    assert plan["method"] == "toy-counts"
    run(program, tmp_path, "ledger", "open", "toys.ledger", "--epsilon", "1")
    run(
        program,
        tmp_path,
        "release",
        "toys.csv",
        "--schema",
        "toys.toml",
        "--method",
        "toy-counts",
        "--epsilon",
        "1",
        "--set",
        "columns=colour",
        "--ledger",
        "toys.ledger",
        "--out",
        "toys.dpr",
    )
    shown = json.loads(run(program, tmp_path, "show", "toys.dpr", "--json"))
    assert shown["method"] == "toy-counts"
    answers = json.loads(run(program, tmp_path, "query", "toys.dpr", "colour = 'red'", "--json"))
    assert answers
