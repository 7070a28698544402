"""Nothing is lost, or paid twice, by accident."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.curator import gate

SCHEMA = (
    '[dataset]\nname = "clinic"\nneighbours = "add-remove-one"\n{more}\n'
    '[columns.ward]\nkind = "categorical"\nlevels = ["north", "south"]\n'
)
ROWS = pl.DataFrame({"ward": ["north", "south", "south"] * 30})


def curator(folder: Path, more: str = "", data: object = ROWS) -> dp.Curator:
    schema = dp.Schema.from_toml(SCHEMA.format(more=more))
    return dp.Curator(data, schema, ledger=folder / "c.ledger", budget=dp.Budget(epsilon=9))


def spent(owner: dp.Curator) -> Fraction:
    return owner.ledger.status().spent.epsilon


def test_the_same_request_is_not_paid_twice_by_accident(tmp_path: Path) -> None:
    owner = curator(tmp_path)
    first = owner.publish(dp.Histogram(), epsilon=1)
    key = first.manifest["receipt"]["key"]
    with pytest.raises(dp.BudgetError, match=f"--key '{key}'"):
        owner.publish(dp.Histogram(), epsilon="1/1", key="another")
    with pytest.raises(dp.BudgetError, match="period"):
        curator(tmp_path, data=ROWS.head(20)).publish(dp.Histogram(), epsilon=1)
    assert owner.publish(dp.Histogram(), epsilon=1, key=key).manifest == first.manifest
    assert spent(owner) == 1
    owner.publish(dp.Histogram(), epsilon=2)
    owner.publish(dp.Histogram(columns=["ward"]), epsilon=1, seed=1)
    owner.publish(dp.Histogram(columns=["ward"]), epsilon=1, seed=1, key="fixed")
    assert spent(owner) == 5
    owner.publish(dp.Histogram(), epsilon=1, again=True)
    curator(tmp_path, 'period = "2025"').publish(dp.Histogram(), epsilon=1)
    assert spent(owner) == 7


def test_a_session_is_not_paid_twice_by_accident(tmp_path: Path) -> None:
    owner = curator(tmp_path, "nominal_size = 100000")
    method = dp.MedianMechanism(max_hard=2, accuracy="0.49")
    owner.answer_online(method, epsilon=1, key="desk")
    with pytest.raises(dp.BudgetError, match="--key 'desk'"):
        owner.answer_online(method, epsilon=1)
    owner.answer_online(method, epsilon=1, again=True)
    assert spent(owner) == 2


def test_a_failure_after_rows_were_read_closes_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = curator(tmp_path)
    with monkeypatch.context() as broken:
        broken.setattr("dpublish.counting.compute.compute", lambda *a, **k: 1 / 0)
        with pytest.raises(dp.PrivateSideError):
            owner.publish(dp.Histogram(), epsilon=1, key="k")
    with pytest.raises(dp.BudgetError, match="failed"):
        owner.publish(dp.Histogram(), epsilon=1, key="k")
    owner.publish(dp.Histogram(), epsilon=1)  # there is no answer that another key could return
    assert spent(owner) == 2


def test_what_chooses_rows_is_drawn_once_and_kept_with_the_debit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, keys = curator(tmp_path), []
    from dpublish.counting import compute

    real = compute.compute

    def noting(*args: Any, key: bytes, **options: Any) -> Any:
        keys.append(key)
        if len(keys) == 1:
            raise KeyboardInterrupt
        return real(*args, key=key, **options)

    monkeypatch.setattr(compute, "compute", noting)
    with pytest.raises(KeyboardInterrupt) as stopped:
        owner.publish(dp.Histogram(), epsilon=1, key="k")
    assert "Nothing is lost" in stopped.value.__notes__[0]
    release = owner.publish(dp.Histogram(), epsilon=1, key="k")
    assert keys[0] == keys[1]
    assert spent(owner) == 1
    kinds = [entry.kind for entry in owner.ledger.history()]
    assert kinds == ["open", "population", "debit", "attempt", "drawing", "seal"]
    assert keys[0].hex() not in str(release.manifest), "it is the curator's own"


def test_a_stop_after_the_drawing_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = curator(tmp_path)

    def stop(point: str) -> None:
        if point == "gate:drawing":
            raise KeyboardInterrupt

    monkeypatch.setattr(gate, "reach", stop)
    with pytest.raises(KeyboardInterrupt) as stopped:
        owner.publish(dp.Histogram(), epsilon=1, key="k")
    assert "Noise was drawn" in stopped.value.__notes__[0]
    monkeypatch.undo()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_on_the_command_line_say_what_is_lost(number: int, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("ward\nnorth\n" * 3)
    (tmp_path / "schema.toml").write_text(SCHEMA.format(more=""))
    program = (
        "import os, sys\n"
        "from dpublish.cli.app import run\n"
        "from dpublish.curator import gate\n"
        "def reach(point):\n"
        f"    if point == 'gate:counted': os.kill(os.getpid(), {int(number)})\n"
        "gate.reach = reach\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    words = ["release", "rows.csv", "-s", "schema.toml", "-l", "l", "--budget", "1", "-e", "1"]
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--key", "k", "-o", "r.dpr"],
        cwd=tmp_path,
        env={**os.environ, "DPUBLISH_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + number, done.stderr
    assert "epsilon = 1" in done.stderr
    assert "Nothing is lost" in done.stderr
    assert "--key k" in done.stderr


def test_a_request_that_cannot_be_paid_is_refused_before_anything_else(tmp_path: Path) -> None:
    owner = curator(tmp_path)
    steps: list[str] = []
    with pytest.raises(dp.BudgetExceeded):
        owner.publish(dp.Histogram(), epsilon=10, progress=steps.append)
    assert steps == ["planning"]
    assert [entry.kind for entry in owner.ledger.history()] == ["open"]
