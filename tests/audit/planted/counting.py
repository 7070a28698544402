"""Histograms and counts that are wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import polars as pl

from dpublish.audit import neighbours
from dpublish.counting.ruled import without_broken
from dpublish.declare.encode import encode_frame
from dpublish.declare.relation import Relation
from dpublish.declare.schema import Schema
from dpublish.methods.adaptive_bins import choose_bins
from dpublish.privacy.budget_split import BudgetSplit
from dpublish.sources.sources import open_source

from .registry import ONE, bug, counts, exactly, replayed, whole

HALF = Fraction(1, 2)
ADD = list(neighbours.add_remove((0, 1), max_rows=3))
REPLACE = list(neighbours.replace_one((0, 1), rows=3))
TEXTS = list(neighbours.add_remove(("x", "y"), max_rows=3))
TEXT_UNITS = list(neighbours.add_remove_unit(("x", "y"), units=1, max_rows_per_unit=3))
UNITS = list(neighbours.add_remove_unit((0, 1), units=2, max_rows_per_unit=2))

ITEMS = (0, 1, 2, 3)
BASKETS = list(neighbours.add_remove(ITEMS, max_rows=3))


def histogram(noise, rows):
    return noise.laplace(counts(rows, 2), sensitivity=ONE, epsilon=ONE)


def histogram_replace(noise, rows):
    return noise.laplace(counts(rows, 2), sensitivity=2 * ONE, epsilon=ONE)


def agreeing_histogram(noise, rows, total):
    """Noisy counts that are made to add up to a total: a public one, or that of the rows."""
    noisy = noise.laplace(counts(rows, 2), sensitivity=ONE, epsilon=ONE)
    return noisy.tolist(), (noisy + (total - noisy.sum()) // 2).tolist()


def all_cells_but_one(noise, rows):
    exact = counts(rows, 2)
    return np.concatenate([noise.laplace(exact[:1], sensitivity=ONE, epsilon=ONE), exact[1:]])


def only_occupied_cells(noise, rows):
    exact = counts(rows, 2)
    occupied = np.nonzero(exact)[0]
    return dict(
        zip(
            occupied.tolist(),
            noise.laplace(exact[occupied], sensitivity=ONE, epsilon=ONE).tolist(),
            strict=True,
        )
    )


def sparse(noise, rows, threshold=1):
    exact = counts(rows, 2)
    cells = np.nonzero(exact)[0]
    kept = noise.sparse_laplace(
        cells.astype(np.uint64),
        exact[cells],
        domain_size=2,
        threshold=threshold,
        sensitivity=ONE,
        epsilon=ONE,
    )
    return {int(cell): int(count) for cell, count in zip(*kept, strict=True)}


def sparse_without_empty_cells(noise, rows):
    """The key leak of sparse histograms: empty cells can never appear, so a cell that does was
    occupied."""
    exact = counts(rows, 2)
    noisy = [
        noise.laplace(exact[c : c + 1], sensitivity=ONE, epsilon=ONE)[0] if exact[c] else None
        for c in range(2)
    ]
    return {cell: int(count) for cell, count in enumerate(noisy) if count is not None and count > 1}


def found_texts(noise, rows, threshold=3):
    """What paid discovery does with texts. In base 2 a text that one person alone has passes with
    probability (1/2)^3 / (3/2) = 1/12."""
    exact = Counter(rows)
    texts = sorted(exact)
    values = whole([exact[text] for text in texts])
    return noise.partitions(texts, values, threshold=threshold, sensitivity=ONE, epsilon=ONE)


def texts_without_a_delta(noise, rows):
    return found_texts(noise, rows, threshold=1)


def texts_by_units(noise, rows):
    return found_texts(noise, [text for _, text in sorted(set(rows))[:1]])


def texts_by_rows(noise, rows):
    """Each row of a person counts, though the noise is for one text a person."""
    return found_texts(noise, [text for _, text in rows])


def threshold_from_true_n(noise, rows):
    return sparse(noise, rows, threshold=len(rows))


def domain_from_data(noise, rows):
    levels = sorted(set(rows))
    exact = whole([sum(row == level for row in rows) for level in levels])
    return levels, noise.laplace(exact, sensitivity=ONE, epsilon=ONE).tolist()


def every_row_counts(noise, rows):
    return noise.laplace(counts([row for _, row in rows], 2), sensitivity=ONE, epsilon=ONE)


def two_rows_a_unit(noise, rows):
    return noise.laplace(counts([row for _, row in rows], 2), sensitivity=2 * ONE, epsilon=ONE)


def bounded_without_the_bound(noise, rows):
    """One row a unit is kept, but the kept rows are not the ones counted."""
    kept = list(dict(rows).values())
    assert len(kept) <= len(rows)
    return every_row_counts(noise, rows)


def first_row_of_a_unit(noise, rows):
    return noise.laplace(counts(dict(reversed(rows)).values(), 2), sensitivity=ONE, epsilon=ONE)


def budget_not_split(noise, rows):
    return [
        int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0]) for _ in range(2)
    ]


def budget_split(noise, rows):
    return [
        int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=HALF)[0]) for _ in range(2)
    ]


def asked_twice(noise, rows):
    """A cache that forgets: the second request for the same answer gets fresh noise and pays
    nothing."""
    return tuple(
        int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0])
        for _ in ("first", "again")
    )


def asked_twice_cached(noise, rows):
    answer = int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0])
    return answer, answer


def scale_rounded_down(noise, rows):
    """epsilon = 2/3 asks for scale 3/2; an integer scale of 1 is epsilon = 1."""
    return noise.laplace(
        whole([len(rows)]), sensitivity=ONE, epsilon=Fraction(1, int(Fraction(3, 2)))
    )


def scale_kept(noise, rows):
    return noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=Fraction(2, 3))


def draws_per_row(noise, rows):
    """One draw a row, in the belief that small noises add up to the right one."""
    return sum(int(noise.laplace(whole([1]), sensitivity=ONE, epsilon=ONE)[0]) for _ in rows)


def local_sensitivity(noise, rows):
    most = max(Counter(rows).values(), default=1)
    return noise.laplace(whole([most]), sensitivity=Fraction(max(1, most)), epsilon=ONE)


def global_sensitivity(noise, rows):
    return noise.laplace(
        whole([max(Counter(rows).values(), default=0)]), sensitivity=ONE, epsilon=ONE
    )


def uniform_noise(noise, rows):
    """Bounded noise: the edges of the range give the count away."""
    return len(rows) + int(noise.integers(5, size=1)[0]) - 2


def laplace_count(noise, rows):
    return int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0])


def response(noise, rows, truth):
    coin = int(noise.integers(5, size=1)[0])
    bit = rows[0]
    return bit if coin < truth else 1 - bit


def grouped(noise, rows, items):
    groups = [items[start : start + 2] for start in range(0, len(items), 2)]
    exact = whole([sum(row in group for row in rows) for group in groups])
    return noise.laplace(exact, sensitivity=ONE, epsilon=ONE).tolist()


def taxonomy_of_observed_items(noise, rows):
    return grouped(noise, rows, sorted(set(rows)))


def taxonomy_of_declared_items(noise, rows):
    return grouped(noise, rows, ITEMS)


def expanded(noise, rows, children):
    """Top-down partitioning: a noisy count of the root decides, from the answer alone, whether its
    parts are counted."""
    root = int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=HALF)[0])
    if root < 1:
        return root, []
    exact = whole([sum(row == child for row in rows) for child in children])
    return root, noise.laplace(exact, sensitivity=ONE, epsilon=HALF).tolist()


def only_occupied_parts_expanded(noise, rows):
    return expanded(noise, rows, sorted(set(rows)))


def all_parts_expanded(noise, rows):
    return expanded(noise, rows, ITEMS)


def missing_in_the_rest(noise, rows):
    """Boxes 0 and 1 and, as the number of rows is public, all that is in neither: a row that loses
    its value moves two of the three."""
    boxes = [sum(row == value for row in rows) for value in (0, 1)]
    listed = whole([*boxes, len(rows) - sum(boxes)])
    return tuple(noise.laplace(listed, sensitivity=Fraction(2), epsilon=ONE))


def missing_and_rest(noise, rows):
    """The same with an entry more for missing rows, and the noise of before."""
    boxes = [sum(row == value for row in rows) for value in (0, 1)]
    absent = sum(row is None for row in rows)
    listed = whole([*boxes, len(rows) - sum(boxes), absent])
    return tuple(noise.laplace(listed, sensitivity=Fraction(2), epsilon=ONE))


def residual(noise, rows, moved):
    """Two cells, each times two less their sum."""
    exact = counts(rows, 2)
    return noise.laplace(2 * exact - exact.sum(), sensitivity=moved, epsilon=ONE).tolist()


def residual_as_a_count(noise, rows):
    """A residual in whole numbers was multiplied by the number of its siblings; its noise was
    not."""
    return residual(noise, rows, ONE)


def residual_of_one_row(noise, rows):
    return residual(noise, rows, 2 * ONE)


def residual_of_two_rows(noise, rows):
    """The row that leaves and the row that comes both move it."""
    return residual(noise, rows, 4 * ONE)


def answers(noise, rows, moved):
    """Two queries that overlap: the row 1 is in both."""
    exact = whole([len(rows), sum(rows)])
    return noise.laplace(exact, sensitivity=moved, epsilon=ONE).tolist()


def answers_as_a_partition(noise, rows):
    return answers(noise, rows, ONE)


def answers_that_overlap(noise, rows):
    return answers(noise, rows, 2 * ONE)


def bins_by_noise(noise, rows, *, exact=False):
    """Where the bins of a column of three values end."""
    counted = np.bincount(whole(list(rows)), minlength=3).astype(np.int64)
    budget = BudgetSplit("laplace", ONE, Relation("add-remove-one", 1))
    ends = choose_bins(noise, budget, counted, share=ONE, rows=None, bins=2, label="bins")
    if exact:
        ends = np.append(ends, np.searchsorted(np.cumsum(counted), counted.sum() / 2))
    return ends


def bins_by_median(noise, rows):
    """A bin ends at the median of the rows."""
    return bins_by_noise(noise, rows, exact=True)


PEOPLE = ("child, no", "child, yes", "adult, yes")
FAMILIES = list(neighbours.add_remove(PEOPLE, max_rows=3))
RULED = Schema.from_toml(
    """
[dataset]
name = "families"
[columns.age]
kind = "categorical"
levels = ["child", "adult"]
[columns.married]
kind = "categorical"
levels = ["no", "yes"]
[[rules]]
if = "age = 'child'"
then = "married = 'no'"
"""
)


def kept_by_rule(noise, rows, *, together=False):
    """Rows that break a declared rule are left out, each by itself."""
    domain = replace(RULED.domain(["age", "married"]), rules=RULED.rules)
    cells = [row.split(", ") for row in rows]
    frame = pl.DataFrame(
        {"age": [a for a, _ in cells], "married": [b for _, b in cells]},
        schema={"age": pl.String, "married": pl.String},
    )
    batch = encode_frame(frame, domain)
    kept = batch.kept()[0].size
    if together and batch.keep is not None:
        kept = 0
    return noise.laplace(whole([kept]), sensitivity=ONE, epsilon=ONE)


def counted_by_rule(noise, rows, *, together=False):
    """The same for a statistic that reads no column of the rule: rows are left out beforehand."""
    cells = [row.split(", ") for row in rows]
    frame = pl.DataFrame(
        {
            "age": [a for a, _ in cells],
            "married": [b for _, b in cells],
            "sick": ["no"] * len(rows),
        },
        schema=dict.fromkeys(("age", "married", "sick"), pl.String),
    )
    source = without_broken(open_source(frame, RULED), RULED)
    kept = sum(batch.height for batch in source.batches(["sick"]))
    if together and kept < len(rows):
        kept = 0
    return noise.laplace(whole([kept]), sensitivity=ONE, epsilon=ONE)


def left_out_together(noise, rows):
    """One row that breaks the rule takes all others with it, before anything is counted."""
    return counted_by_rule(noise, rows, together=True)


def dropped_together(noise, rows):
    """One row that breaks the rule takes all others with it."""
    return kept_by_rule(noise, rows, together=True)


COUNTING = (
    bug(
        "residual scaled to whole numbers, its noise not",
        "exact",
        "privacy",
        broken=residual_as_a_count,
        correct=residual_of_one_row,
        run=exactly(ADD),
    ),
    bug(
        "residual of an exchanged row with the noise of a single one",
        "exact",
        "privacy",
        broken=residual_of_one_row,
        correct=residual_of_two_rows,
        run=exactly(REPLACE),
    ),
    bug(
        "a list of queries with the noise of a partition",
        "exact",
        "privacy",
        broken=answers_as_a_partition,
        correct=answers_that_overlap,
        run=exactly(ADD),
    ),
    bug(
        "a bin ends at the median of the rows",
        "exact",
        "privacy",
        broken=bins_by_median,
        correct=bins_by_noise,
        run=exactly(list(neighbours.add_remove((0, 1, 2), max_rows=2)), window=(0, 1)),
    ),
    bug(
        "a row that breaks a rule spoils the others",
        "exact",
        "privacy",
        broken=dropped_together,
        correct=kept_by_rule,
        run=exactly(FAMILIES),
    ),
    bug(
        "a row that breaks a rule spoils others, before columns are read",
        "exact",
        "privacy",
        broken=left_out_together,
        correct=counted_by_rule,
        run=exactly(FAMILIES),
    ),
    bug(
        "taxonomy built from observed items",
        "replay",
        "shape",
        broken=taxonomy_of_observed_items,
        correct=taxonomy_of_declared_items,
        run=replayed(BASKETS, epsilon=ONE),
    ),
    bug(
        "empty sub-partitions never sampled",
        "replay",
        "shape",
        broken=only_occupied_parts_expanded,
        correct=all_parts_expanded,
        run=replayed(BASKETS, epsilon=ONE),
    ),
    bug(
        "noise on all cells but one",
        "exact",
        "privacy",
        broken=all_cells_but_one,
        correct=histogram,
        run=exactly(ADD),
    ),
    bug(
        "only non-zero cells released",
        "replay",
        "shape",
        broken=only_occupied_cells,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "sparse histogram whose empty cells never appear",
        "exact",
        "privacy",
        broken=sparse_without_empty_cells,
        correct=sparse,
        run=exactly(ADD),
    ),
    bug(
        "scale 1/eps where 2/eps is due",
        "exact",
        "privacy",
        broken=histogram,
        correct=histogram_replace,
        run=exactly(REPLACE),
    ),
    bug(
        "threshold from the true n",
        "replay",
        "settings",
        broken=threshold_from_true_n,
        correct=sparse,
        run=replayed(ADD),
    ),
    bug(
        "domain from the data",
        "replay",
        "shape",
        broken=domain_from_data,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "several rows a person, sensitivity 1",
        "replay",
        "distance",
        broken=every_row_counts,
        correct=two_rows_a_unit,
        run=replayed(UNITS, epsilon=ONE),
    ),
    bug(
        "rows bounded, then the unbounded rows counted",
        "exact",
        "privacy",
        broken=bounded_without_the_bound,
        correct=first_row_of_a_unit,
        run=exactly(UNITS),
    ),
    bug(
        "budget not split over two answers",
        "replay",
        "claim",
        broken=budget_not_split,
        correct=budget_split,
        run=replayed(ADD, epsilon=1),
    ),
    bug(
        "cached answer drawn again",
        "exact",
        "privacy",
        broken=asked_twice,
        correct=asked_twice_cached,
        run=exactly(ADD),
    ),
    bug(
        "noise scale rounded down to a whole number",
        "exact",
        "privacy",
        broken=scale_rounded_down,
        correct=scale_kept,
        run=exactly(ADD, Fraction(2, 3)),
    ),
    bug(
        "number of draws depends on rows",
        "replay",
        "number",
        broken=draws_per_row,
        correct=laplace_count,
        run=replayed(ADD),
    ),
    bug(
        "sensitivity measured on the data",
        "replay",
        "sensitivity",
        broken=local_sensitivity,
        correct=global_sensitivity,
        run=replayed(ADD),
    ),
    bug(
        "bounded uniform noise",
        "exact",
        "privacy",
        broken=uniform_noise,
        correct=laplace_count,
        run=exactly(ADD),
    ),
    bug(
        "missing rows counted beside all that is in no box",
        "exact",
        "privacy",
        broken=missing_and_rest,
        correct=missing_in_the_rest,
        run=exactly([((0,), (None,)), ((1,), (None,))], window=(-1, 2), root=3),
    ),
    bug(
        "randomised response with the wrong coin",
        "exact",
        "privacy",
        broken=lambda noise, rows: response(noise, rows, truth=4),
        correct=lambda noise, rows: response(noise, rows, truth=3),
        run=exactly([((0,), (1,))], HALF, base=4),
    ),
    bug(
        "texts that few have come out as if nothing were paid for that",
        "exact",
        "privacy",
        broken=texts_without_a_delta,
        correct=found_texts,
        run=exactly(TEXTS, delta=Fraction(1, 12), root=2),
    ),
    bug(
        "a text that only one input has is published",
        "replay",
        "support",
        broken=texts_without_a_delta,
        correct=lambda noise, rows: found_texts(noise, rows, threshold=60),
        run=replayed(TEXTS, runs=20),
    ),
    bug(
        "texts are counted by row and noise is for one text a person",
        "replay",
        "distance",
        broken=texts_by_rows,
        correct=texts_by_units,
        run=replayed(TEXT_UNITS),
    ),
    bug(
        "a public total that is counted from the rows",
        "exact",
        "privacy,support",
        broken=lambda noise, rows: agreeing_histogram(noise, rows, total=len(rows)),
        correct=lambda noise, rows: agreeing_histogram(noise, rows, total=3),
        run=exactly(ADD),
    ),
)
