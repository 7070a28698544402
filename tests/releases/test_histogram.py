from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpublish.declare.domain import Axis, Domain
from dpublish.errors import BundleError, QueryError
from dpublish.present.report import report_html
from dpublish.releases.base import Release, make_release, open_release
from dpublish.releases.histogram.release import HistogramRelease
from releases.simulated import (
    cells_frame,
    manifest,
    people,
    people_counts,
    people_release,
    varied_release,
)


def test_estimates_hold_the_truth_of_a_known_table() -> None:
    domain = people()
    counts = people_counts(domain, 10_000, 3).reshape(domain.shape)
    release = people_release(seed=5)
    for text, truth in [
        ("income", counts[..., 1].sum()),
        ("age >= 37 and income", counts[2:, ..., 1].sum()),
        (
            "sex = 'Male' or \"education-num\" is null",
            counts[:, 1].sum() + counts[:, :, 4].sum() - counts[:, 1, 4].sum(),
        ),
        ("not (sex = 'Male')", counts[:, [0, 2]].sum()),
    ]:
        got = release.estimate(text, level=0.999)
        assert got.low <= truth <= got.high, text
        assert got.low <= got.value <= got.high
        assert got.standard_error > 0


def test_a_cut_bin_is_bracketed() -> None:
    release = people_release()
    under, cut, over = (release.estimate(f"age < {age}") for age in (27, 32, 37))
    assert under.value < cut.value < over.value
    assert cut.low <= under.low + 1e-9
    assert cut.high >= over.high - 1e-9


def test_marginals_agree_with_estimates() -> None:
    release = people_release(total="noisy")
    table = release.marginal("sex", "income", level=0.9)
    assert table.columns == ["sex", "income", "count", "standard_error", "low", "high"]
    assert table.height == 6
    for row in table.iter_rows(named=True):
        one = release.estimate(f"sex = '{row['sex']}' and income = '{row['income']}'", level=0.9)
        assert (row["count"], row["low"], row["high"]) == pytest.approx(
            (one.value, one.low, one.high)
        )
        assert row["standard_error"] == pytest.approx(one.standard_error)


def test_marginal_mistakes() -> None:
    release = people_release()
    with pytest.raises(QueryError, match="Did you mean 'age'"):
        release.marginal("agee")
    with pytest.raises(QueryError, match="twice"):
        release.marginal("age", "age")
    with pytest.raises(QueryError, match="at least one"):
        release.marginal()
    big = Domain(tuple(Axis(f"x{i}", "integer", edges=tuple(range(2001))) for i in range(2)))
    wide = HistogramRelease(manifest(big), {"cells": cells_frame(np.array([3]), np.array([50]))})
    with pytest.raises(QueryError, match="at most"):
        wide.marginal("x0", "x1")


def test_a_huge_domain_answers() -> None:
    domain = Domain(tuple(Axis(f"x{i}", "categorical", levels=tuple("ab")) for i in range(63)))
    cells = np.array([0, 5, (1 << 63) - 1], dtype=np.uint64)
    data = manifest(domain, facts={"threshold": 90, "scale": "2", "domain_size": 1 << 63})
    release = HistogramRelease(data, {"cells": cells_frame(cells, np.array([1000, 2000, 3000]))})
    got = release.estimate("x0 = 'a'")
    assert 2900 < got.low <= got.value <= got.high <= 10_000
    assert release.estimate("x0 = 'a' and x62 = 'b' and x60 = 'b'").low > 1900
    assert release.marginal("x62").height == 2


def test_an_empty_release_answers() -> None:
    release = HistogramRelease(manifest(people()), {"cells": cells_frame(np.zeros(0), np.zeros(0))})
    got = release.estimate("income")
    assert 0 <= got.low <= got.value <= got.high <= 10_000
    line = release.sql("select count(*) as n from release").row(0, named=True)
    every = release.estimate("true")
    assert (line["n"], line["n_low"], line["n_high"]) == (every.value, every.low, every.high)
    assert release.to_frame().height == 0
    assert release.sample(0).height == 0
    with pytest.raises(QueryError, match="nothing to draw"):
        release.sample(5)


def test_save_open_verify(tmp_path: Path) -> None:
    release = people_release()
    assert release.verify().ok
    digest = release.save(tmp_path / "a.dpr")
    opened = open_release(tmp_path / "a.dpr")
    assert isinstance(opened, HistogramRelease)
    assert opened.estimate("income") == release.estimate("income")
    assert opened.verify().facts["sha256"] == digest
    again = opened.save(tmp_path / "b.dpr")
    assert again == digest
    assert HistogramRelease.open(tmp_path / "a.dpr").rows == 10_000
    (tmp_path / "a.dpr").write_bytes((tmp_path / "a.dpr").read_bytes()[:-30])
    assert not release.verify().ok
    assert opened.verify().ok
    with pytest.raises(BundleError):
        open_release(tmp_path / "a.dpr")


def test_what_a_release_says_about_itself() -> None:
    release = people_release()
    assert "differentially private" in release.privacy
    assert release.kind == "histogram"
    assert "people" in repr(release)
    seeded = make_release(
        {**release.manifest, "publishable": False, "dataset": "<b>x</b>"}, release.tables
    )
    page = seeded._repr_html_()
    assert "not publishable" in page
    assert "<b>" not in page
    assert "&lt;b&gt;" in page


def test_the_target_comes_from_the_manifest() -> None:
    release = people_release()
    assert release.target == "income"
    data = {**release.manifest, "parameters": {}, "target": "sex"}
    assert HistogramRelease(data, release.tables).target == "sex"
    assert HistogramRelease({**data, "target": "nothing"}, release.tables).target is None


def test_other_kinds_can_be_added() -> None:
    class Note(Release):
        kind = "note-for-tests"

        def parse(self) -> None:
            return None

    made = make_release({**manifest(people()), "kind": "note-for-tests"}, {})
    assert isinstance(made, Note)
    assert "This is a release of kind note-for-tests" in report_html(made)


def test_rows_follow_the_total() -> None:
    assert people_release().rows == 10_000
    noisy = people_release(total="noisy")
    assert noisy.rows == noisy.total.value
    unknown = people_release(total="unknown")
    assert unknown.rows == int(unknown.counts.sum())


def test_frames_keep_their_types() -> None:
    frame = varied_release().to_frame(intervals=True)
    assert frame.schema["size"] == pl.String
    assert frame.schema["price"] == pl.Float64
    assert frame.schema["day"] == pl.Date
    assert frame.columns[-1] == "weight"
    assert "price_bin" in frame.columns
    assert people_release().to_frame().schema["education-num"] == pl.Int64
