"""The demo runs from end to end, and runs again in the same folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.conftest import Command
from dpublish.cli.hospital import HELD_OUT_SEED, SCHEMA, SEED, make_visits

ROOT = Path(__file__).parents[2]


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpublish: Command) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tour").mkdir()
    (tmp_path / "tour" / "mine.txt").write_text("keep me")
    shown = dpublish("demo", "--out", "tour")
    assert shown.code == 0, shown.out + shown.err
    assert "truth (demo only)" in shown.out
    assert "refused with exit code 3" in shown.out
    for name in (
        "hospital.dpr",
        "months.dpr",
        "report.html",
        "wards.png",
        "age-ward.png",
        "synthetic.csv",
    ):
        assert (tmp_path / "tour" / name).stat().st_size > 1000, name
    assert (tmp_path / "tour" / "mine.txt").read_text() == "keep me"
    document = dpublish("demo", "--out", "tour", "--json").document
    assert document["refused"] is True
    # the demo draws real noise: with four intervals of 95%, none inside has probability 7e-6 (and
    # more of them agree in part)
    assert document["covered"] >= 1
    # far better than chance and close to the model that saw the rows; 0.05 is five times the loss
    # seen at this epsilon
    assert document["auc"]["release"] > document["auc"]["private_rows"] - 0.05 > 0.6


def test_an_interrupted_command_ends_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dpublish: Command
) -> None:
    def interrupt(*args: object, **kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpublish.requests.ledger.open_ledger", interrupt)
    shown = dpublish("demo", "--out", "tour")
    assert shown.code == 130
    assert "Interrupted" in shown.err
    assert "report this" not in shown.err


def test_the_table_is_fixed_and_realistic() -> None:
    rows = make_visits(500, SEED)
    assert rows.equals(make_visits(500, SEED))
    assert not rows.equals(make_visits(500, HELD_OUT_SEED))
    assert rows["systolic"].null_count() > 20
    assert rows["patient"].n_unique() == 500
    assert rows.group_by("patient").len()["len"].max() == 3


def test_the_example_schema_is_the_one_of_the_demo() -> None:
    assert (ROOT / "examples" / "hospital.toml").read_text(encoding="utf-8") == SCHEMA
