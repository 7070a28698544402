"""What a public table of other people does for joined histograms, on generated pairs of tables.

    python -m benchmarks.defaults.public_table [--seeds 2] [--epsilon 0.1 ...] [--pure]
    python -m benchmarks.defaults.public_table --data DIR     ACS: the nation as public table for
                                                              Massachusetts

Four made-up laws, 10,000 private rows, 20,000 public ones, delta 1e-9. The public table is of the
*same* law; *shifted*: other kinds of people (rows picked by a score of four columns); *unrelated*:
every column by itself; *misleading*: levels of every column shuffled, so that all it says is wrong.
"unchecked" believes all of it, whatever columns and checks say.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).parents[1] / "joined_tuning"))

from synthetic_inputs import Codes, Synthetic, census, mixture, network, survey
from tune import schema_of, variation

ROWS, PUBLIC, HELD_OUT = 10_000, 20_000, 6_000
KINDS = ("none", "same", "shifted", "unrelated", "misleading")
ACS = "AGEP SEX MSP HISP RAC1P NOC NPF HOUSING_TYPE INDP_CAT EDU DVET DREM DPHY DEYE DEAR OWN_RENT"


def generated(seed: int) -> Iterator[tuple[Synthetic, dict[str, Codes]]]:
    """Private rows, and public ones of every kind."""
    total = ROWS + PUBLIC + HELD_OUT
    for table in (
        network(seed, rows=total, columns=12, parents=2),
        census(seed + 1, rows=total, columns=14),
        survey(seed + 2, rows=total, columns=12),
        mixture(seed + 3, rows=total, columns=14, classes=5),
    ):
        rng = np.random.default_rng(seed)
        rows, held_out, public = np.split(table.codes, [ROWS, ROWS + HELD_OUT])
        some = rng.choice(len(table.levels), 4, replace=False)
        score = np.exp(sum(rng.normal(size=table.levels[c])[public[:, c]] for c in some))
        picked = rng.choice(len(public), len(public), p=score / score.sum())
        columns = range(len(table.levels))
        shuffled = [rng.permutation(table.levels[c])[public[:, c]] for c in columns]
        apart = [rng.permutation(public[:, c]) for c in columns]
        yield (
            replace(table, codes=rows, held_out=held_out),
            {
                "same": public,
                "shifted": public[picked],
                "unrelated": np.stack(apart, axis=1),
                "misleading": np.stack(shuffled, axis=1),
            },
        )


def states(folder: Path) -> tuple[Synthetic, dict[str, Codes]]:
    """Massachusetts, and the nation: the columns of ACS that need no bins, levels as both files
    have them; the target is whether the home is rented."""
    raw = [
        pl.read_csv(folder / f"{name}.csv.gz", infer_schema_length=0)
        .filter(pl.col("OWN_RENT").is_in(["1", "2"]))
        .select(ACS.split())
        .with_columns(pl.col("AGEP").cast(pl.Int64) // 5)
        .with_columns(pl.all().cast(pl.String))
        for name in ("acs_ma2019", "acs_national2019")
    ]
    known = [sorted({*raw[0][name], *raw[1][name]}) for name in ACS.split()]
    codes = [
        np.stack(
            [
                one[name].replace_strict(levels, list(range(len(levels)))).to_numpy()
                for name, levels in zip(ACS.split(), known, strict=True)
            ],
            axis=1,
        )
        for one in raw
    ]
    private = np.random.default_rng(0).permutation(codes[0])
    cut = len(private) * 3 // 4
    table = Synthetic(
        "Massachusetts",
        tuple(map(len, known)),
        (False,) * len(known),
        private[:cut],
        private[cut:],
    )
    return table, {"nation": codes[1]}


def publish(
    table: Synthetic, public: Codes | None, epsilon: str, seed: int, *, pure: bool
) -> tuple[Codes, Any]:
    """The mechanism and the reader, without files: rows of the model, and what was measured."""
    import dpublish as dp
    from dpublish.models.junction_tree.fit import fit_model
    from dpublish.models.junction_tree.measured import read_measured
    from dpublish.noise.source import SeededNoise
    from dpublish.privacy.cost import Cost

    frame = (
        None if public is None else pl.DataFrame(dict(zip(table.columns, public.T, strict=True)))
    )
    cost = Cost.pure(epsilon) if pure else Cost.approximate(epsilon, "1e-9")
    method = dp.JoinedHistograms(public=frame)
    plan = method.plan(dp.Schema.from_toml(schema_of(table)), cost)
    output = method.run(SeededNoise(seed), list(table.codes.T), plan)
    measured = read_measured(plan.settings.domain, output.facts, output.tables)
    model = fit_model(
        measured.columns,
        measured.tables,
        target=measured.target,
        total=measured.total,
        prior=measured.prior,
    )
    drawn = model.sample_codes(len(table.codes), np.random.default_rng(seed))
    return np.stack(drawn, axis=1), measured


def figures(table: Synthetic, codes: Codes) -> dict[str, float]:
    """Total variation of pairs, mean and worst, and the area under the curve of logistic regression
    on held-out rows."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OneHotEncoder

    pairs = [
        variation(table, codes, pair)
        for pair in itertools.combinations(range(len(table.levels)), 2)
    ]
    area = 0.5
    if len(np.unique(codes[:, -1])) > 1:
        encoder = OneHotEncoder(categories=[np.arange(count) for count in table.levels[:-1]])
        learnt = LogisticRegression(max_iter=60).fit(
            encoder.fit_transform(codes[:, :-1]), codes[:, -1]
        )
        scores = learnt.decision_function(encoder.transform(table.held_out[:, :-1]))
        area = float(roc_auc_score(table.held_out[:, -1], scores))
    return {"tv2": float(np.mean(pairs)), "worst": float(np.max(pairs)), "auc": area}


def report(
    cases: list[tuple[Synthetic, Mapping[str, Codes]]], kind: str, epsilon: str, given: Any
) -> None:
    from dpublish.models import public_prior

    unchecked = kind.startswith("unchecked ")
    rows = []
    with patch.object(
        public_prior,
        "pooled",
        (lambda found, _: np.ones(len(found))) if unchecked else public_prior.pooled,
    ):
        for table, public in cases:
            for seed in range(given.seeds):
                known = public.get(kind.removeprefix("unchecked "))
                codes, measured = publish(table, known, epsilon, seed, pure=given.pure)
                taken = 0 if measured.prior is None else len(measured.prior.pairs)
                rows.append({**figures(table, codes), "checked": float(taken)})
    means = {key: np.mean([row[key] for row in rows]) for key in rows[0]}
    print(
        f"| {epsilon} | {kind} | " + " | ".join(f"{one:.3f}" for one in means.values()) + " |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tables", type=int, default=900, help="seed of the generated tables")
    parser.add_argument("--epsilon", action="append")
    parser.add_argument("--kind", action="append", help="'unchecked same' and so on, too")
    parser.add_argument("--pure", action="store_true", help="no delta")
    parser.add_argument("--data", type=Path, help="the folder with the files of ACS")
    given = parser.parse_args()
    cases = [states(given.data)] if given.data else list(generated(given.tables))
    print("| epsilon | public table | TV-2 | worst pair | AUC | pairs checked |")
    for epsilon in given.epsilon or ("0.1", "0.3", "1"):
        for kind in given.kind or (("none", "nation") if given.data else KINDS):
            report(cases, kind, epsilon, given)


if __name__ == "__main__":
    main()
