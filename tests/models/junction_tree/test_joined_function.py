"""The joined model is a function of the numbers it is fitted to, to the last bit: model.proof.md,
on which privacy rests."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dpublish.models.junction_tree.fit import MeasuredColumn, MeasuredTable, fit_model, grow_model

SHAPE = (40, 9, 5, 24, 3)
LABELS = 3


def fitted() -> str:
    """A digest of all that the mechanism asks of a model: after a forest, after a round that grew
    it, and fitted anew."""
    rng = np.random.default_rng(71)
    widths = (1.0,) * 24
    columns = [
        None
        if i == 4
        else MeasuredColumn(rng.normal(300, 90, (size, LABELS)), 40.0, widths if i == 3 else ())
        for i, size in enumerate(SHAPE)
    ]

    def table(names: tuple[int, ...], groups: int, number: int) -> MeasuredTable:
        sides = tuple(np.sort(rng.integers(0, groups, SHAPE[name])) for name in names)
        sides = tuple(np.unique(side, return_inverse=True)[1].astype(np.int64) for side in sides)
        shape = [int(side.max()) + 1 for side in sides]
        return MeasuredTable(names, sides, rng.normal(60, 40, (*shape, LABELS)), 25.0, number)

    forest = [table((0, 1), 7, 0), table((1, 2), 4, 0)]
    more = [table((0, 3), 9, 1), table((2, 3), 5, 1), table((0, 1, 2), 3, 1)]
    first = fit_model(columns, forest, target=4, total=30_000)
    found = hashlib.sha256()
    for model in (
        first,
        grow_model(first, more),
        fit_model(columns, [*forest, *more], target=4, total=None),
    ):
        spreads = {c: model.spread(c, np.arange(SHAPE[c]) // 2) for c in range(4)}
        for one, other, expected in model.pairs(spreads):
            found.update(f"{one} {other}".encode() + np.ascontiguousarray(expected).tobytes())
        found.update(np.ascontiguousarray(model.joint([0, 2, 4])).tobytes())
    return found.hexdigest()


def test_the_same_numbers_at_other_addresses_after_other_work() -> None:
    expected = fitted()
    rng = np.random.default_rng(5)
    held = []
    for turn in range(6):
        # what a run allocated before may depend on its rows: pieces of many sizes, some given back
        held += [np.ones(int(size), dtype=np.uint8) for size in rng.integers(1, 1 << 18, 40)]
        del held[turn::3]
        rng.random((50, 50)) @ rng.random((50, int(rng.integers(1, 90))))
        assert fitted() == expected


@pytest.mark.parametrize(("seed", "threads"), [("1", "1"), ("2", "2")])
def test_the_same_numbers_in_another_process(seed: str, threads: str) -> None:
    changed = {"PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
    code = "from test_joined_function import fitted; print(fitted())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **changed},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == fitted(), done.stderr


def test_a_change_in_the_last_digit_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpublish.models.junction_tree import fit

    expected, plain = fitted(), fit.onto_simplex
    monkeypatch.setattr(
        fit, "onto_simplex", lambda table, totals: np.nextafter(plain(table, totals), np.inf)
    )
    assert fitted() != expected
