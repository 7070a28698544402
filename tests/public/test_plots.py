from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest

from dpublish.domain import Axis, Domain
from dpublish.errors import QueryError
from dpublish.public.releases.histogram import HistogramRelease
from public.simulated import cells_frame, manifest, people_release


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
    axes = release.plot("age").axes[0]
    widths = [patch.get_bbox().width for patch in axes.patches]  # type: ignore[attr-defined]
    assert widths == pytest.approx(release.marginal("age")["count"].to_list())
    assert [label.get_text() for label in axes.get_yticklabels()] == list(release.domain.axes[0].labels)


def test_long_lists_and_odd_labels_are_tamed() -> None:
    levels = tuple(f"level ${i}$ {'x' * 80}\n" for i in range(60))
    domain = Domain((Axis("a", "categorical", levels=levels), Axis("b", "categorical", levels=("only",))))
    release = HistogramRelease(manifest(domain), {"cells": cells_frame(np.arange(60), np.arange(60) + 20)})
    figure = release.plot("a")
    assert "the 25 largest of 60" in figure.texts[-1].get_text()
    assert all(len(label.get_text()) < 40 for label in figure.axes[0].get_yticklabels())
    assert image(release, "a", "b", top=10)


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
    code = hidden + "try:\n import dpublish.public.plots\nexcept Exception as e: print(e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "dpublish[plots]" in done.stdout
