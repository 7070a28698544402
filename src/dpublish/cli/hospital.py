"""The made-up hospital of the demo: visits of invented patients, from a fixed seed, and a schema
written by hand."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

PATIENTS = 10_300
HELD_OUT_PATIENTS = 2_600
SEED, HELD_OUT_SEED = 2023, 2024

WARDS = (
    "General",
    "Cardiology",
    "Surgery",
    "Orthopaedics",
    "Oncology",
    "Neurology",
    "Maternity",
    "Paediatrics",
)

SCHEMA = """\
# Written by hand from what anyone may know: the year, the wards on the hospital's web page, what the form allows.
# Nothing below was read off the rows.

[dataset]
name = "hospital-2023"
neighbours = "add-remove-one"       # whether somebody is in the data at all is protected
unit = "patient"                    # all visits of one patient together
max_rows_per_unit = 3               # the register keeps at most three visits a year
nominal_size = 10000                # a public guess at the number of patients
target = "readmitted"

[columns.admitted]
kind = "date"
edges = [2023-01-01, 2023-02-01, 2023-03-01, 2023-04-01, 2023-05-01, 2023-06-01, 2023-07-01,
         2023-08-01, 2023-09-01, 2023-10-01, 2023-11-01, 2023-12-01, 2023-12-31]

[columns.age]
kind = "integer"
edges = [0, 18, 35, 50, 65, 80, 110]

[columns.sex]
kind = "categorical"
levels = ["female", "male"]

[columns.ward]
kind = "categorical"
levels = ["General", "Cardiology", "Surgery", "Orthopaedics", "Oncology", "Neurology", "Maternity", "Paediatrics"]
outside = "other"                   # a ward nobody declared becomes '(other)'

[columns.emergency]
kind = "boolean"
outside = "drop"

[columns.systolic]
kind = "real"
lower = 80
upper = 220
bins = 7
missing = true                      # not measured is a value of its own

[columns.stay_days]
kind = "integer"
edges = [0, 1, 3, 7, 14, 30, 90]

[columns.readmitted]
kind = "boolean"
outside = "drop"
"""


def write_hospital(folder: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Write the private table and its schema; return the table, and rows of other patients held out
    for tests."""
    rows = make_visits(PATIENTS, SEED)
    rows.write_csv(folder / "hospital.csv")
    (folder / "hospital.toml").write_text(SCHEMA, encoding="utf-8")
    return rows, make_visits(HELD_OUT_PATIENTS, HELD_OUT_SEED)


def make_visits(patients: int, seed: int) -> pl.DataFrame:
    """About two visits a patient. Risk of readmission grows with age, long stays, emergencies and
    some wards."""
    import numpy as np
    import polars as pl

    from dpublish.noise.words import SeededStream

    stream = SeededStream(seed)

    def uniform(n: int) -> NDArray[np.float64]:
        return np.asarray((stream.words(n) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def bell(n: int) -> NDArray[np.float64]:
        """Close to a standard normal: the sum of twelve uniforms, moved to mean 0."""
        return np.asarray(uniform(12 * n).reshape(12, n).sum(axis=0) - 6.0)

    visits = 1 + (uniform(patients) < 0.62).astype(np.int64) + (uniform(patients) < 0.33)
    owner = np.repeat(np.arange(patients), visits)
    n = owner.size
    person_age = np.where(
        uniform(patients) < 0.55, 68 + 11 * bell(patients), 34 + 17 * bell(patients)
    )
    person_age = np.clip(person_age, 0, 104).astype(np.int64)
    age, female = person_age[owner], (uniform(patients) < 0.53)[owner]
    ward = _wards(age, female, uniform(n))
    emergency = uniform(n) < np.where(np.isin(ward, (1, 5)), 0.62, 0.34)
    stay = np.floor(
        -np.log1p(-uniform(n)) * (1.6 + age / 22 + 2.5 * emergency + 2.0 * (ward == 4))
    ).astype(np.int64)
    systolic = np.round(112 + 0.33 * age + 9 * (ward == 1) + 13 * bell(n), 1)
    risk = (
        -4.1
        + 0.028 * age
        + 0.85 * emergency
        + 0.07 * np.minimum(stay, 20)
        + 0.8 * np.isin(ward, (1, 4))
        - 0.5 * (ward == 6)
    )
    readmitted = uniform(n) < 1 / (1 + np.exp(-risk))
    day = np.floor(365 * uniform(n)).astype(np.int64)
    return pl.DataFrame(
        {
            "patient": [f"P{number:06d}" for number in owner],
            "admitted": [dt.date(2023, 1, 1) + dt.timedelta(days=int(number)) for number in day],
            # a few slips of the pen, as every register has them
            "age": np.where(uniform(n) < 0.002, 999, age),
            "sex": np.where(female, "female", "male"),
            "ward": np.where(uniform(n) < 0.004, "?", np.array(WARDS)[ward]),
            "emergency": np.where(emergency, "yes", "no"),
            "systolic": np.where(uniform(n) < 0.12, np.nan, systolic),
            "stay_days": np.minimum(stay, 90),
            "readmitted": np.where(readmitted, "yes", "no"),
        }
    ).with_columns(pl.col("systolic").fill_nan(None))


def _wards(
    age: NDArray[np.int64], female: NDArray[np.bool_], draw: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Children go to Paediatrics, some women of child-bearing age to Maternity, the others by a
    fixed mix."""
    import numpy as np

    adult = np.searchsorted(np.array([0.30, 0.52, 0.70, 0.83, 0.92]), draw, side="right")
    mother = female & (age >= 18) & (age < 45) & (draw < 0.35)
    return np.where(age < 18, 7, np.where(mother, 6, adult)).astype(np.int64)
