from __future__ import annotations

import io
import itertools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dpublish as dp
from dpublish.declare.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.present.figures import OPEN_END, bars_figure
from dpublish.releases.histogram.release import HistogramRelease
from every_kind import every_kind
from releases.simulated import cells_frame, manifest, people_release


def image(release: HistogramRelease, *columns: str, top: int = 25) -> bytes:
    buffer = io.BytesIO()
    release.plot(*columns, top=top).savefig(buffer, format="png", dpi=60)
    return buffer.getvalue()


def test_one_and_two_columns_draw() -> None:
    release = people_release()
    assert image(release, "age").startswith(b"\x89PNG")
    assert image(release, "sex", "education-num").startswith(b"\x89PNG")


def test_bars_and_error_bars_are_the_marginal() -> None:
    release = people_release()
    axes = release.plot("education-num").axes[0]
    widths = [patch.get_bbox().width for patch in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx(release.marginal("education-num")["count"].to_list())
    assert [label.get_text() for label in axes.get_yticklabels()] == list(
        release.domain.axes[2].labels
    )


def test_bins_of_unequal_width_are_drawn_as_densities() -> None:
    release = people_release()
    axes = release.plot("age").axes[0]
    widths = [patch.get_bbox().width for patch in axes.patches]  # type: ignore[attr-defined]
    counts = release.marginal("age")["count"].to_list()
    assert widths[:-1] == pytest.approx(counts[:-1])
    assert widths[-1] == pytest.approx(counts[-1] * 10 / 14)
    assert axes.get_xlabel() == "rows per 10 values of age (95% intervals)"


def test_a_map_says_how_wide_its_limits_are() -> None:
    release = every_kind()["plane"]
    (said,) = [one.get_text() for one in release.plot("income", "height").texts]
    found = re.fullmatch(r"95% limits of each of 12 x 4 .*: ± ([\d,]+) to ± ([\d,]+) rows", said)
    assert found is not None
    edges = np.rint(np.linspace(0, 1001, 13)).tolist()
    halves = []
    for low, high in itertools.pairwise(edges):
        for at in (0.0, 0.5, 1.0, 1.5):
            upper = "" if at == 1.5 else f" and height < {at + 0.5}"
            where = f"income >= {low} and income < {high} and height >= {at}{upper}"
            one = release.estimate(where)
            halves.append((one.high - one.low) / 2)
    assert [int(end) for end in found.groups()] == pytest.approx([min(halves), max(halves)], abs=2)


def test_a_pair_that_was_not_counted_together_is_hatched() -> None:
    release = every_kind()["joined"]
    assert release.counted_together("a", "b")
    assert not release.counted_together("a", "income")
    hatched = release.plot("a", "income")
    assert any(patch.get_hatch() for patch in hatched.axes[0].patches)
    assert "not counted together" in hatched.texts[-1].get_text()
    plain = release.plot("a", "b")
    assert not any(patch.get_hatch() for patch in plain.axes[0].patches)
    assert any("±" in text.get_text() for text in plain.axes[0].texts)


def test_long_lists_and_odd_labels_are_tamed() -> None:
    levels = tuple(f"level ${i}$ {'x' * 80}\n" for i in range(60))
    domain = Domain(
        (Axis("a", "categorical", levels=levels), Axis("b", "categorical", levels=("only",)))
    )
    release = HistogramRelease(
        manifest(domain), {"cells": cells_frame(np.arange(60), np.arange(60) + 20)}
    )
    figure = release.plot("a")
    assert "the 25 largest of 60" in figure.texts[-1].get_text()
    assert all(len(label.get_text()) < 40 for label in figure.axes[0].get_yticklabels())
    assert image(release, "a", "b", top=10)


def test_names_with_dollar_signs_are_no_formulas(tmp_path: Path) -> None:
    name = "price $_{x$"
    columns = "".join(
        f'[columns.{json.dumps(one)}]\nkind = "integer"\nlower = 0\nupper = 50\n'
        for one in (name, "y")
    )
    schema = dp.Schema.from_toml(f'[dataset]\nname = "cost $_{{ $"\nsize = 500\n{columns}')
    frame = pl.DataFrame({one: np.arange(500) % 51 for one in (name, "y")})
    curator = dp.Curator(frame, schema, ledger=tmp_path / "l.db", budget=dp.Budget(epsilon=9))
    for chosen in ([name], [name, "y"]):
        curator.publish(dp.IntervalTree(columns=chosen), epsilon=1, seed=1).plot().savefig(
            io.BytesIO(), dpi=60
        )
    edges = [(name, "b"), ("b", "c")]
    for solve in (dp.optimize.min_cut, dp.optimize.vertex_cover):
        paid: dict[str, Any] = {
            "epsilon": 1,
            "ledger": tmp_path / "o.db",
            "budget": dp.Budget(epsilon=9),
            "seed": 1,
        }
        made: Any = solve(edges, vertices=[name, "b", "c"], **paid)
        made.plot().savefig(io.BytesIO(), dpi=60)


def test_a_limit_that_is_infinite_is_an_arrow_and_a_note() -> None:
    value, low = np.array([40.0, 20.0]), np.array([30.0, 12.0])
    figure, axes, note = bars_figure(
        ["one", "two"], value, low, np.array([55.0, np.inf]), axis="rows"
    )
    assert note == OPEN_END
    (arrow,) = axes.texts
    assert arrow.xy[0] > 55
    assert axes.get_xlim()[1] > arrow.xy[0]
    figure.savefig(io.BytesIO(), dpi=60)
    _, axes, note = bars_figure(["one", "two"], value, low, np.array([55.0, 28.0]), axis="rows")
    assert not note
    assert not axes.texts
    assert axes.get_xlim()[1] > 55


def test_labels_of_columns_side_by_side_do_not_overlap() -> None:
    domain = Domain(
        (
            Axis("a", "categorical", levels=("x", "y")),
            Axis("wide", "categorical", levels=tuple(f"{i}0000..{i}9999" for i in range(1, 6))),
            Axis("narrow", "categorical", levels=("n", "o", "p")),
        )
    )
    release = HistogramRelease(
        manifest(domain), {"cells": cells_frame(np.arange(30), np.arange(30) + 20)}
    )
    for column, turned in (("wide", True), ("narrow", False)):
        figure = release.plot("a", column)
        figure.savefig(io.BytesIO(), dpi=60)
        ticks = figure.axes[0].get_xticklabels()
        assert bool(ticks[0].get_rotation()) == turned
        if not turned:
            boxes = [tick.get_window_extent() for tick in ticks]
            assert all(one.x1 < two.x0 for one, two in itertools.pairwise(boxes))


def test_mistakes() -> None:
    release = people_release()
    for columns in ((), ("age", "sex", "income")):
        with pytest.raises(QueryError, match="one column or two"):
            release.plot(*columns)
    with pytest.raises(QueryError, match="top"):
        release.plot("age", top=0)
    with pytest.raises(QueryError, match="Did you mean"):
        release.plot("agee")


def test_missing_extra_is_named() -> None:
    hidden = "import sys; sys.modules['matplotlib.figure'] = None\n"
    code = hidden + "try:\n import dpublish.present.figures\nexcept Exception as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "dpublish[plots]" in done.stdout
