"""Pages of reproduced papers say what their scripts and seeds give."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
VINTERBO = PAPERS / "vinterbo2012"


def test_the_page_of_vinterbo_says_what_its_results_say() -> None:
    from benchmarks.papers.vinterbo2012.page import digest, medians

    results = json.loads((VINTERBO / "results.json").read_text(encoding="utf-8"))
    page = (VINTERBO / "README.md").read_text(encoding="utf-8")
    assert medians(results) in page, "run benchmarks.papers.vinterbo2012.page, and mend README.md"
    # the scripts hold the seeds: what was changed since has to be run again
    assert results["made_by"] == digest(VINTERBO), "run benchmarks.papers.vinterbo2012 again"


def test_one_table_of_vinterbo_is_made_again(tmp_path: Path) -> None:
    """The scripts are the same, but what they call may not be: Iris, one repeat of ten folds."""
    import polars as pl
    from benchmarks.papers.vinterbo2012.experiments import FOLDS, compare
    from benchmarks.papers.vinterbo2012.models import Bench
    from benchmarks.papers.vinterbo2012.tables import load
    from sklearn.datasets import load_iris

    flowers = load_iris()
    names = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    frame = pl.DataFrame(flowers.data, schema=names).with_columns(
        pl.Series("species", flowers.target_names[flowers.target])
    )
    frame.write_csv(tmp_path / "iris.csv")
    (tmp_path / "iris.csv").rename(tmp_path / "iris.csv.gz")  # plain text is read as such
    found = compare(Bench(load("iris", tmp_path)), 1)["auc"]
    stored = json.loads((VINTERBO / "results.json").read_text(encoding="utf-8"))
    for name, areas in stored["figure1"]["iris"]["auc"].items():
        assert found[name] == pytest.approx(areas[:FOLDS], abs=1e-6), name
