"""Measures settings of joined histograms on synthetic tables (synthetic_inputs.py).

    python benchmarks/joined_tuning/tune.py --epsilon 1 --epsilon 3 --set rounds=0 --set rounds=2
    --out tuning.jsonl

Each --set is one setting to compare (name=value, several with commas; module.NAME=value changes a
constant). Figures: total variation of all two-way marginals and of 60 three-way ones, seconds of
CPU time, and the room that a table has (see `round_count` in joined_histograms/mechanism.py).
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from synthetic_inputs import Codes, Synthetic, all_tables, tables_to_learn_from


def schema_of(table: Synthetic) -> str:
    lines = [
        "[dataset]",
        f'name = "{table.name}"',
        'neighbours = "add-remove-one"',
        f'target = "{table.columns[-1]}"',
    ]
    for name, count, ordered in zip(table.columns, table.levels, table.ordered, strict=True):
        lines += [
            f"[columns.{name}]",
            f'kind = "{"ordinal" if ordered else "categorical"}"',
            'outside = "drop"',
        ]
        lines.append(f"levels = [{', '.join(str(code) for code in range(count))}]")
    return "\n".join(lines) + "\n"


def publish(
    table: Synthetic, epsilon: str, seed: int, settings: dict[str, Any], *, pure: bool
) -> tuple[Codes, dict[str, Any]]:
    """The mechanism and the reader, without files."""
    import dpublish as dp
    from dpublish.models.junction_tree.fit import fit_model
    from dpublish.models.junction_tree.measured import read_measured
    from dpublish.noise.source import SeededNoise
    from dpublish.privacy.budget_split import BudgetSplit
    from dpublish.privacy.cost import Cost

    method = dp.JoinedHistograms(**settings)
    cost = Cost.pure(epsilon) if pure else Cost.approximate(epsilon, "1e-9")
    plan = method.plan(dp.Schema.from_toml(schema_of(table)), cost)
    settings_used = plan.settings
    start = time.process_time()
    content = method.run(
        SeededNoise(seed), [table.codes[:, i] for i in range(len(table.levels))], plan
    )
    measured = read_measured(settings_used.domain, content.facts, content.tables)
    model = fit_model(
        measured.columns, measured.tables, target=measured.target, total=measured.total
    )
    codes = np.stack(model.sample_codes(len(table.codes), np.random.default_rng(seed)), axis=1)
    budget = BudgetSplit(settings_used.noise, settings_used.amount, plan.schema.relation)
    deviation = budget.deviation(settings_used.pair_share / max(1, len(table.levels) - 2))
    room = len(table.codes) / (float(settings_used.cell_deviations) * deviation) / table.levels[-1]
    return codes, {
        "cpu": round(time.process_time() - start, 2),
        "room": round(room),
        "tables": content.facts["rounds"],
    }


def variation(table: Synthetic, codes: Codes, columns: tuple[int, ...]) -> float:
    shape = [table.levels[i] for i in columns]
    counts = [
        np.bincount(np.ravel_multi_index(part[:, columns].T, shape), minlength=int(np.prod(shape)))
        for part in (table.codes, codes)
    ]
    return float(np.abs(counts[0] / len(table.codes) - counts[1] / max(1, len(codes))).sum() / 2)


def measure(table: Synthetic, codes: Codes) -> dict[str, float]:
    columns = range(len(table.levels))
    pairs = [variation(table, codes, pair) for pair in itertools.combinations(columns, 2)]
    every = list(itertools.combinations(columns, 3))
    some = np.random.default_rng(7).choice(len(every), size=min(60, len(every)), replace=False)
    triples = [variation(table, codes, every[i]) for i in some]
    return {
        "tv2": float(np.mean(pairs)),
        "tv2_worst": float(np.max(pairs)),
        "tv3": float(np.mean(triples)),
    }


def learnt(table: Synthetic, codes: Codes) -> dict[str, float]:
    """The area under the curve on held-out rows, of classifiers trained on released ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.preprocessing import OneHotEncoder

    if not len(table.held_out) or len(np.unique(codes[:, -1])) < 2:
        return {"auc": 0.5, "auc_boosting": 0.5}
    encoder = OneHotEncoder(categories=[np.arange(count) for count in table.levels[:-1]])
    encoder.fit(codes[:1, :-1])
    truth = table.held_out[:, -1]
    linear = LogisticRegression(max_iter=100).fit(encoder.transform(codes[:, :-1]), codes[:, -1])
    linear_score = linear.decision_function(encoder.transform(table.held_out[:, :-1]))
    boosting = HistGradientBoostingClassifier(max_iter=40, early_stopping=False)
    boosting.fit(codes[:, :-1], codes[:, -1])
    boosted = boosting.decision_function(table.held_out[:, :-1])
    return {
        "auc": float(roc_auc_score(truth, linear_score)),
        "auc_boosting": float(roc_auc_score(truth, boosted)),
    }


def parsed(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of the method, and constants of its modules."""
    settings: dict[str, Any] = {}
    constants: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        name, value = item.split("=")
        read: Any = int(value) if value.lstrip("-").isdigit() else value
        (constants if "." in name else settings)[name] = read
    return settings, constants


def set_constants(constants: dict[str, Any]) -> dict[str, Any]:
    """Gives constants of modules other values, and says what they were."""
    before = {}
    for name, value in constants.items():
        place, _, constant = name.rpartition(".")
        module = importlib.import_module(f"dpublish.{place}")
        before[name] = getattr(module, constant)
        setattr(module, constant, type(before[name])(value))
    return before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", action="append")
    parser.add_argument("--set", action="append", dest="settings")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--tables", type=int, default=0, help="seed of the synthetic tables")
    parser.add_argument(
        "--approximate",
        action="store_true",
        help="epsilon with delta = 1e-9 instead of pure epsilon",
    )
    parser.add_argument(
        "--learn", action="store_true", help="tables with held-out rows, and what is learnt"
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    for epsilon in given.epsilon or ["1"]:
        for text in given.settings or [""]:
            settings, constants = parsed(text)
            before = set_constants(constants)
            lines = []
            tables = tables_to_learn_from if given.learn else all_tables
            for table in tables(given.tables):
                for seed in range(given.seeds):
                    codes, facts = publish(
                        table, epsilon, seed, settings, pure=not given.approximate
                    )
                    line = {
                        "table": table.name,
                        "epsilon": epsilon,
                        "set": text,
                        "seed": seed,
                        **facts,
                        **measure(table, codes),
                        **learnt(table, codes),
                    }
                    lines.append(line)
                    if given.out:
                        with given.out.open("a") as file:
                            file.write(json.dumps(line) + "\n")
            set_constants(before)
            means = {
                key: round(float(np.mean([line[key] for line in lines])), 4)
                for key in ("tv2", "tv3", "tv2_worst", "auc", "auc_boosting", "cpu")
            }
            print(
                epsilon,
                text,
                means,
                [round(line["tv2"], 4) for line in lines],
                [line["tables"] for line in lines],
                flush=True,
            )


if __name__ == "__main__":
    main()
