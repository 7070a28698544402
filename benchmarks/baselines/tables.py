"""Methods for whole tables beside the obvious alternatives, in the same run.

    python -m benchmarks.baselines.tables [--data DIR] [--runs 10] [--json FILE]

Counts: 200 conjunctions, all cells of pairs, ranges of ages, beside Laplace noise on every cell, on
all pairs and on every age. Weights: shares of a population from a lopsided public sample, beside
the sample as it is and noisy tables of the columns. Prediction: one less the AUC, beside a logistic
regression on the noisy cells of all columns. Discovery: levels not found, beside a plain threshold.
`DIR` holds adult.csv.gz; else the table is generated.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
from benchmarks.baselines.queries import (
    WORDS,
    Row,
    cell_error,
    command,
    computed,
    publish,
    schema_of,
    table,
)
from benchmarks.baselines.standing import figures, named
from benchmarks.defaults.alternatives.lists import told_pairs
from benchmarks.defaults.areas import area, classifier, one_hot, projected
from benchmarks.defaults.tables import generate

import dpublish as dp
from dpublish.privacy.cost import Cost

COVERS = (
    "histogram", "joined-histograms", "generalized-table", "interval-tree", "importance-weights",
    "projected-histogram", "private-classifier", "discovery",
)  # fmt: skip


def conjunctions(frame: pl.DataFrame, count: int) -> list[dict[str, str]]:
    draw = np.random.default_rng(1)
    out = []
    for _ in range(count):
        names = draw.choice(WORDS, draw.integers(1, len(WORDS) + 1), replace=False)
        out.append({name: frame[str(name)][int(draw.integers(frame.height))] for name in names})
    return out


def counts(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    """Conjunctions of the four columns of words, by histogram and by generalized table."""
    asked = conjunctions(frame, 200)
    texts = [" and ".join(f"{n} = '{v}'" for n, v in one.items()) for one in asked]
    masks = [
        np.logical_and.reduce([(frame[n] == v).to_numpy() for n, v in one.items()]) for one in asked
    ]
    truth = np.array([mask.sum() for mask in masks])
    levels = [sorted(frame[name].unique().to_list()) for name in WORDS]
    cells = math.prod(len(one) + 1 for one in levels)  # with one for what is not declared
    share = [
        math.prod(
            len(known) + 1 for name, known in zip(WORDS, levels, strict=True) if name not in q
        )
        for q in asked
    ]
    plain = f"Laplace on all {cells} cells"
    found: dict[str, list[float]] = {}
    told: dict[str, list[str]] = {}
    for seed in range(min(runs, 10)):
        for name, method in (
            ("histogram", dp.Histogram(columns=WORDS)),
            ("generalized-table", dp.GeneralizedTable(columns=WORDS)),
        ):
            release = publish(frame, method, seed)
            told[name] = named(release, {"histogram": "nearer from a histogram"})
            said = np.array([release.estimate(text).value for text in texts])
            found.setdefault(name, []).append(float(np.abs(said - truth).mean()))
        draw = np.random.default_rng(seed)
        off = [abs(draw.laplace(scale=2, size=held).sum()) for held in share]
        found.setdefault(plain, []).append(float(np.mean(off)))
    for name in ("histogram", "generalized-table"):
        own = {"default": found[name], plain: found[plain]}
        if name != "histogram":
            own["histogram"] = found["histogram"]
        task = f"{name}: rows a conjunction is off"
        yield {"task": task, "methods": [name], "named": told[name], **figures(own)}


def pairs(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    count = len(frame.columns)
    number = count * (count - 1) // 2
    releases = [publish(frame, dp.JoinedHistograms(), seed) for seed in range(min(runs, 10))]
    asked = dp.Workload(columns=WORDS)
    listed = f"workload of these {len(WORDS) * (len(WORDS) - 1) // 2}"
    found = {
        "default": [cell_error(frame, release, WORDS) for release in releases],
        listed: [
            cell_error(frame, publish(frame, asked, seed), WORDS) for seed in range(len(releases))
        ],
    }
    task = f"joined-histograms of {count} columns: rows a cell of pairs of {len(WORDS)} is off"
    row = computed(
        task, "joined-histograms", found, {f"Laplace on all {number} pairs": 2.0 * number}
    )
    told = told_pairs(dp.JoinedHistograms().plan(schema_of(frame), Cost.pure(1)), count)
    yield {**row, "named": [listed] if told >= len(WORDS) * (len(WORDS) - 1) // 2 else []}


def ranges(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    ages = frame["age"].to_numpy()
    draw = np.random.default_rng(2)
    ends = np.sort(draw.integers(17, 91, (200, 2)), axis=1)
    errors: dict[str, list[float]] = {}
    for seed in range(min(runs, 10)):
        release = publish(frame, dp.IntervalTree(columns=["age"]), seed)
        noise = draw.laplace(scale=2, size=91)
        for low, high in ends.tolist():
            truth = int(((ages >= low) & (ages <= high)).sum())
            said = release.estimate(f"age >= {low} and age <= {high}").value
            errors.setdefault("default", []).append(abs(said - truth))
            off = abs(float(noise[low : high + 1].sum()))
            errors.setdefault("Laplace on every age", []).append(off)
    task = "interval-tree: rows a range of ages is off"
    yield {"task": task, "methods": ["interval-tree"], **figures(errors, min(runs, 10))}


def weights(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    """A public sample in which people of one kind are five times as many."""
    draw = np.random.default_rng(3)
    many = (frame[WORDS[0]] == frame[WORDS[0]].unique().sort()[0]).to_numpy()
    chance = np.where(many, 5.0, 1.0)
    picked = draw.choice(frame.height, 3000, p=chance / chance.sum())
    public = frame[picked.tolist()].select(*WORDS)
    private = frame.select(*WORDS)
    shares = {n: private[n].value_counts(normalize=True).rows() for n in WORDS}
    wanted = [(n, v, s) for n, rows in shares.items() for v, s in rows]
    errors: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "public.csv"
        public.write_csv(place)
        for seed in range(min(runs, 10)):
            ways = {
                what: dp.ImportanceWeights(public=str(place), columns=list(WORDS), **own)
                for what, own in (("default", {}), ("choose_pairs = 0", {"choose_pairs": 0}))
            }
            releases = {what: publish(frame, method, seed) for what, method in ways.items()}
            for name, value, share in wanted:
                for what, release in releases.items():
                    said = release.share(f"{name} = '{value}'").value
                    errors.setdefault(what, []).append(100 * abs(said - share))
                plain = float((public[name] == value).mean())  # type: ignore[arg-type]
                errors.setdefault("the public rows", []).append(100 * abs(plain - share))
                off = abs(draw.laplace(scale=2 * len(WORDS))) / frame.height
                errors.setdefault("Laplace on the columns", []).append(100 * off)
    task = "importance-weights: points a share of one column is off"
    told = named(releases["default"], {"choose_pairs = 0": "choose_pairs = 0 brings them"})
    row = {"task": task, "methods": ["importance-weights"], "named": told}
    yield {**row, **figures(errors, min(runs, 10))}


def prediction(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    from sklearn.linear_model import LogisticRegression

    levels = (4, 3, 5, 2, 4, 6, 3)
    made = generate("standing", 5, rows=6000, levels=levels, informative=4, strength=1.5)
    ways: dict[str, list[float]] = {}
    for seed in range(min(runs, 10)):
        ways.setdefault("projected-histogram", []).append(1 - projected(made, seed, 1.0))
        ways.setdefault("private-classifier", []).append(1 - classifier(made, seed, 1.0))
        train, test = made.split(seed)
        sizes = [column.levels or 2 for column in made.columns]
        places = np.ravel_multi_index([c.values[train] for c in made.columns], sizes)
        draw = np.random.default_rng(seed)
        counts = np.zeros((math.prod(sizes), 2))
        np.add.at(counts, (places, made.labels[train]), 1)
        noisy = np.maximum(counts + draw.laplace(scale=2, size=counts.shape), 0)
        codes = np.unravel_index(np.arange(math.prod(sizes)), sizes)
        rows = np.hstack([one_hot(c, code) for c, code in zip(made.columns, codes, strict=True)])
        rows, labels = np.vstack([rows, rows]), np.repeat([0, 1], len(rows))
        model = LogisticRegression(max_iter=100)
        model.fit(rows, labels, sample_weight=noisy.T.ravel() + 1e-9)
        tests = np.hstack([one_hot(c, c.values[test]) for c in made.columns])
        score = area(made.labels[test], model.decision_function(tests))
        ways.setdefault("noisy cells of all columns", []).append(1 - score)
    schema = made.schema(len(made.split(0)[0]))
    for name, method in (
        ("projected-histogram", dp.ProjectedHistogram()),
        ("private-classifier", dp.PrivateClassifier()),
    ):
        plan = method.plan(schema, Cost.pure(1))
        own = {("default" if what == name else what): some for what, some in ways.items()}
        task = f"{name}: one less the AUC, {len(levels)} columns"
        row = computed(task, name, own, {"a guess": 0.5})
        yield {**row, "named": named(plan, {"private-classifier": "private-classifier is"})}


def discovery(frame: pl.DataFrame, runs: int) -> Iterator[Row]:
    """Levels that 60 or more of 20,000 rows have, at delta = 1e-9: how many are not found."""
    draw = np.random.default_rng(6)
    shares = 1 / np.arange(1, 401)
    words = draw.choice([f"w{i}" for i in range(400)], 20_000, p=shares / shares.sum())
    rows = pl.DataFrame({"word": words})
    counted = dict(rows["word"].value_counts().iter_rows())
    common = {word for word, count in counted.items() if count >= 60}
    text = (
        '[dataset]\nname = "d"\nneighbours = "add-remove-one"\nnominal_size = 20000\n'
        '[columns.word]\nkind = "categorical"\ndiscover = true\n'
    )
    missed: dict[str, list[float]] = {}
    for seed in range(min(runs, 10)):
        with tempfile.TemporaryDirectory() as folder:
            owner = dp.Curator(
                rows,
                dp.Schema.from_toml(text),
                ledger=Path(folder) / "l",
                budget=dp.Budget(epsilon=1, delta="1e-6"),
                store=Path(folder) / "s",
            )
            release = owner.publish(dp.Discovery(), epsilon=1, delta="1e-9", seed=seed)
            schema = release.to_schema(dp.Schema.from_toml(text))  # type: ignore[attr-defined]
        found = set(schema.column("word").levels or ())
        missed.setdefault("default", []).append(len(common - found))
        mark = 1 + math.log(1 / 2e-9)
        noisy = {word for word, count in counted.items() if count + draw.laplace() > mark}
        missed.setdefault("Laplace and a threshold", []).append(len(common - noisy))
    task = f"discovery: of {len(common)} common levels not found"
    yield {"task": task, "methods": ["discovery"], **figures(missed)}


def main() -> None:
    tasks = (counts, pairs, ranges, weights, prediction, discovery)
    command(
        __doc__,
        lambda given: [lambda runs, task=task: task(table(given.data), runs) for task in tasks],
    )


if __name__ == "__main__":
    main()
