"""What public totals are worth to joined histograms, on synthetic tables.

    python benchmarks/joined_tuning/totals.py --seeds 2

`none` declares nothing; `rows` the number of all rows; `one` every level of one column beside it;
`all` every level of every column, as a statistics office may have published them, and of the
target. Same seeds, delta = 1e-9; means over tables and seeds. `tv1` is total variation of single
columns with the target.
"""

from __future__ import annotations

import argparse

import numpy as np
from synthetic_inputs import Codes, Synthetic, mixture, network, survey
from tune import measure, schema_of, variation


def declared(table: Synthetic, which: str) -> str:
    """The totals, counted here because a made-up table has no other source."""
    columns = {"none": 0, "rows": 0, "one": 1, "all": len(table.levels)}[which]
    facts: dict[str, int] = {"": len(table.codes)} if which != "none" else {}
    for place in range(columns):
        found = np.bincount(table.codes[:, place], minlength=table.levels[place])
        facts |= {f"c{place} = '{code}'": int(rows) for code, rows in enumerate(found)}
    return "".join(
        f'[[totals]]\nrows = {rows}\nsource = "made up"\n' + f'where = "{where}"\n' * bool(where)
        for where, rows in facts.items()
    )


def released(table: Synthetic, which: str, epsilon: str, seed: int) -> Codes:
    import dpublish as dp
    from dpublish.models.junction_tree.fit import fit_model
    from dpublish.models.junction_tree.measured import read_measured
    from dpublish.noise.source import SeededNoise
    from dpublish.privacy.cost import Cost

    text = schema_of(table).replace('outside = "drop"', 'outside = "other"')
    method = dp.JoinedHistograms()
    schema = dp.Schema.from_toml(text + declared(table, which))
    plan = method.plan(schema, Cost.approximate(epsilon, "1e-9"))
    codes = [table.codes[:, place] for place in range(len(table.levels))]
    content = method.run(SeededNoise(seed), codes, plan)
    measured = read_measured(plan.settings.domain, content.facts, content.tables)
    model = fit_model(
        measured.columns,
        measured.tables,
        target=measured.target,
        total=measured.total,
        known=measured.known,
    )
    drawn = np.stack(model.sample_codes(len(table.codes), np.random.default_rng(seed)), axis=1)
    return np.minimum(drawn, np.array(table.levels) - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", action="append")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", type=int, default=900, help="seed of the synthetic tables")
    given = parser.parse_args()
    first = given.tables
    tables = [
        network(first, rows=6_000, columns=12, parents=2),
        mixture(first, rows=12_000, columns=14, classes=4),
        survey(first, rows=9_000, columns=13),
    ]
    for epsilon in given.epsilon or ["0.1", "0.3", "1"]:
        for which in ("none", "rows", "one", "all"):
            lines = []
            for table in tables:
                last = len(table.levels) - 1
                for seed in range(given.seeds):
                    codes = released(table, which, epsilon, seed)
                    alone = [variation(table, codes, (place, last)) for place in range(last)]
                    lines.append({"tv1": float(np.mean(alone)), **measure(table, codes)})
            means = {key: round(np.mean([line[key] for line in lines]), 4) for key in lines[0]}
            print(epsilon, which, {key: float(mean) for key, mean in means.items()}, flush=True)


if __name__ == "__main__":
    main()
