"""A made-up table with the columns of Adult, so that the documentation can be run without the real
one."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

from dpublish.declare.schema import Schema

ROOT = Path(__file__).parents[2]
ROWS = 3000


def write_adult(path: Path) -> None:
    """Columns that the examples condition on are related to income; the rest is uniform over the
    schema's values."""
    schema = Schema.read(ROOT / "examples" / "adult.toml")
    draw = random.Random(1994)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(schema.columns)
    for _ in range(ROWS):
        rich = draw.random() < 0.25
        row: dict[str, object] = {}
        for name, column in schema.columns.items():
            if column.levels:
                row[name] = draw.choice(column.levels)
            else:
                assert isinstance(column.lower, int)
                assert isinstance(column.upper, int)
                row[name] = draw.randint(column.lower, column.upper)
        row["income"] = ">50K" if rich else "<=50K"
        row["age"] = min(90, max(17, round(draw.gauss(46 if rich else 36, 12))))
        row["hours-per-week"] = draw.choice(
            [40, 40, 40, 45, 50, 65] if rich else [20, 30, 40, 40, 40]
        )
        row["education"] = draw.choice(
            ["Bachelors", "Masters", "HS-grad"] if rich else ["HS-grad", "HS-grad", "Some-college"]
        )
        row["capital-gain"] = 0
        table.writerow(row[name] for name in schema.columns)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.write(text.getvalue())
