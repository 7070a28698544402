"""Readers fit models without compiled loops: the same numbers but for rounding, and no compiler."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpublish
from dpublish.models.junction_tree import kernels, plain
from dpublish.models.junction_tree.fit import fit_model
from every_kind import every_kind
from models.junction_tree.joined_cases import made

PACKAGE = Path(dpublish.__file__).parent


def test_sums_and_factors_are_those_of_the_compiled_loops() -> None:
    rng = np.random.default_rng(0)
    inner = np.array([0, 1, 1, 2], dtype=np.int32)
    for kind, places, steps in (
        (plain.WHOLE, 3, np.zeros(4, dtype=np.int32)),
        (plain.ALIGNED, 6, np.arange(4, dtype=np.int32)),
        (plain.LOOKED_UP, 5, inner),
    ):
        base = np.array([0, 2, 1], dtype=np.int32)
        table, factor = rng.random(2 * 3 * 4), rng.random((2, places))
        found = []
        for loops in (plain, kernels):
            cells, out = table.copy(), np.empty((2, places))
            loops.scale_and_sum(cells, base, steps, kind, factor, base, steps, kind, out)
            loops.scale_cells(cells, base, steps, kind, factor)
            more = np.empty((2, places))
            loops.sum_cells(cells, base, steps, kind, more)
            ratio = np.empty((2, places))
            off = loops.factors(out, more, ratio)
            found.append(np.concatenate([cells, out.ravel(), more.ravel(), ratio.ravel(), [off]]))
        assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_margins_and_departures_are_those_of_the_compiled_loops() -> None:
    rng = np.random.default_rng(1)
    table, wanted = rng.random((2, 3, 4, 2)), rng.random((3, 2))
    first, second = table.copy(), table.copy()
    assert plain.fit_axis(first, wanted) == pytest.approx(kernels.fit_axis(second, wanted))
    assert first == pytest.approx(second)
    away, shares = rng.normal(0, 3, (50, 3)), rng.dirichlet(np.ones(3), 50)
    sizes, splits = rng.random(50) + 0.5, rng.random(50) + 0.5
    for of_whole in (True, False):
        given = (away, shares, sizes, splits, 2.0, 1.5, of_whole)
        assert plain.best_size(*given) == kernels.best_size(*given)
    given = (away, shares, sizes, splits, 2.0, 1.5)
    assert plain.departures(*given) == pytest.approx(kernels.departures(*given))


def test_a_model_is_the_same_but_for_rounding() -> None:
    measured = made(rows=5_000).measured
    given = (measured.columns, measured.tables)
    kept = {"target": measured.target, "total": measured.total}
    curator = fit_model(*given, **kept)
    with plain.reading():
        reader = fit_model(*given, **kept)
    assert not plain.is_reading()
    for columns in ([0, 1], [1, 2], [0, 2]):
        assert reader.joint(columns) == pytest.approx(curator.joint(columns), rel=1e-6, abs=1e-3)


def test_only_readers_say_that_they_read() -> None:
    """The model while a release is made is that of the proof, whatever ran before."""
    named = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r"plain import[^\n]* reading\b", path.read_text(encoding="utf-8"))
    ]
    readers = ["releases/joined_histograms/release.py", "releases/weighted_rows/means.py"]
    assert sorted(named) == readers
    assert not any("plain.reading" in path.read_text("utf-8") for path in PACKAGE.rglob("*.py"))


def test_a_question_to_a_joined_release_loads_no_compiler(tmp_path: Path) -> None:
    every_kind()["joined"].save(tmp_path / "a.dpr")
    code = (
        "import sys, dpublish as dp\n"
        f"release = dp.open_release({str(tmp_path / 'a.dpr')!r})\n"
        "release.estimate(\"a = 'x' and income < 300\")\n"
        "release.mean('income', where=\"a = 'x'\")\n"
        "release.sample(100); release.marginal('a', 'b')\n"
        "print([name for name in ('numba', 'scipy', 'rich', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
