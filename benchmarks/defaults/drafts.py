"""How much of a draft has to be changed: drafts of real files beside the schema that a person wrote
from their documentation.

    python benchmarks/defaults/drafts.py --data DIR

DIR holds adult.csv.gz, acs_ma2019.csv.gz, mi_complications.csv.gz, retail.txt.gz, msweb.txt.gz. A
column counts as to be changed where its kind is another one, where it should have been left out or
kept, or where `check` finds something wrong with it. At most one column in five is wanted. Bounds
and levels are not compared: a person replaces their source in any case.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dpublish.curator.check import check_data
from dpublish.curator.draft import draft

_OUT = "left out"
_ADULT = {
    **dict.fromkeys(("age", "capital-gain", "capital-loss", "hours-per-week"), "integer"),
    **dict.fromkeys(("workclass", "marital-status", "occupation", "relationship"), "categorical"),
    **dict.fromkeys(("race", "sex", "native-country", "income"), "categorical"),
    **dict.fromkeys(("education", "education-num"), "ordinal"),
    **dict.fromkeys(("fnlwgt", "split"), _OUT),
}
_ACS = {
    **dict.fromkeys(("AGEP", "PINCP", "POVPIP"), "integer"),
    "DENSITY": "real",
    **dict.fromkeys(("NOC", "NPF", "EDU", "PINCP_DECILE"), "ordinal"),
    **dict.fromkeys(("PWGTP", "WGTP"), _OUT),
}
_MI = {
    **dict.fromkeys(("AGE", "S_AD_KBRIG", "D_AD_KBRIG", "S_AD_ORIT", "D_AD_ORIT"), "integer"),
    **dict.fromkeys(("NA_BLOOD", "ROE"), "integer"),
    **dict.fromkeys(("K_BLOOD", "ALT_BLOOD", "AST_BLOOD", "KFK_BLOOD", "L_BLOOD"), "real"),
    **dict.fromkeys(("INF_ANAM", "STENOK_AN", "FK_STENOK", "IBS_POST", "GB", "DLIT_AG"), "ordinal"),
    **dict.fromkeys(("ant_im", "lat_im", "inf_im", "post_im", "TIME_B_S"), "ordinal"),
    **{f"{drug}_{day}_n": "ordinal" for drug in ("R_AB", "NA_R", "NOT_NA") for day in (1, 2, 3)},
    **dict.fromkeys(("ZSN_A", "LET_IS", "SEX"), "categorical"),
    "ID": _OUT,
}
TRUTH = {
    "adult.csv.gz": (_ADULT, "categorical"),
    "acs_ma2019.csv.gz": (_ACS, "categorical"),
    "mi_complications.csv.gz": (_MI, "boolean"),
    "retail.txt.gz": ({"items": "items"}, "items"),
    "msweb.txt.gz": ({"items": "items"}, "items"),
}
"""What each column is, and what all others are."""


def to_change(path: Path) -> tuple[int, dict[str, str]]:
    """How many columns a file has, and which have to be changed, with the reason."""
    truth, usual = TRUTH[path.name]
    drafted = draft(path, name="d")
    schema = drafted.schema
    found = {name: column.kind for name, column in schema.columns.items()}
    found |= dict.fromkeys(drafted.left_out, _OUT)
    if schema.items is not None:
        found = {"items": "items"}
    wrong = {
        name: f"{kind}, and is {truth.get(name, usual)}"
        for name, kind in found.items()
        if kind != truth.get(name, usual)
    }
    for column in check_data(path, schema).columns:
        if column.part < 1 or column.dropped:
            wrong.setdefault(column.name, f"{column.part:.3g} of its cells are read")
    return len(found), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    for name in TRUTH:
        columns, wrong = to_change(folder / name)
        print(f"{name}: {len(wrong)} of {columns} columns to change")
        for column, why in wrong.items():
            print(f"    {column}: {why}")


if __name__ == "__main__":
    main()
