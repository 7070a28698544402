"""The fast partition against counting by hand, in all its modes."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish.errors import PrivateSideError
from dpublish.methods.projected_histogram import (
    coded_table,
    kernels as kernels,
    partition as module,
)
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.partition import (
    ContrastPartition,
    PairPartition,
    PurityPartition,
    equal_rows,
)


def random_table(seed: int, rows: int, levels: list[int], labels: int) -> CodedTable:
    rng = np.random.default_rng(seed)
    columns = [
        np.minimum(rng.geometric(0.3, rows) - 1, n - 1) if seed % 2 else rng.integers(0, n, rows)
        for n in levels
    ]
    return CodedTable(columns, levels, rng.integers(0, labels, rows), labels)


def cells_of(table: CodedTable, columns: list[int]) -> list[Counter[int]]:
    cells: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
    for row in range(table.rows):
        cells[tuple(int(table.columns[c][row]) for c in columns)][int(table.labels_of[row])] += 1
    return list(cells.values())


def slow_pairs(table: CodedTable, columns: list[int]) -> int:
    return sum(
        (sum(c.values()) ** 2 - sum(n * n for n in c.values())) // 2
        for c in cells_of(table, columns)
    )


def slow_purity(table: CodedTable, columns: list[int], grid: int, charge: int) -> int:
    cells = cells_of(table, columns)
    return sum(
        max(0, grid * sum(n * n for n in c.values()) // sum(c.values()) - grid * charge)
        for c in cells
    )


def slow_contrast(table: CodedTable, chosen: list[int], column: int, grid: int) -> int:
    """From the definition, row by row: half of how far counts are from those of equal shares."""
    classes: dict[tuple[int, ...], list[tuple[int, int]]] = defaultdict(list)
    for row in range(table.rows):
        key = tuple(int(table.columns[c][row]) for c in chosen)
        classes[key].append((int(table.columns[column][row]), int(table.labels_of[row])))
    value = 0
    for rows in classes.values():
        cells, levels = Counter(rows), Counter(level for level, _ in rows)
        labels = Counter(label for _, label in rows)
        apart = sum(
            abs(cells[level, label] - Fraction(levels[level] * labels[label], len(rows)))
            for level in levels
            for label in labels
        )
        value += math.floor(grid * apart / 4)
    return value


@pytest.mark.parametrize(
    ("entries", "class_entries"),
    [(1 << 17, 1 << 22), (40, 1 << 22), (1, 1 << 22), (1, 1)],
    ids=["one table", "sorted later", "sorted at once", "sorted by cell"],
)
@pytest.mark.parametrize("threads", [1 << 20, 1], ids=["one thread", "two threads"])
@pytest.mark.parametrize(
    ("seed", "rows", "levels", "labels"),
    [
        (1, 300, [2, 3, 5, 4, 2], 2),
        (2, 257, [7, 300, 2, 3], 5),
        (3, 40, [2, 70_000, 9], 300),
        (4, 1, [2, 2], 2),
        (5, 0, [3, 2], 2),
    ],
)
def test_scores_are_those_of_counting(
    monkeypatch: pytest.MonkeyPatch,
    entries: int,
    class_entries: int,
    threads: int,
    seed: int,
    rows: int,
    levels: list[int],
    labels: int,
) -> None:
    monkeypatch.setattr(module, "_TABLE_ENTRIES", entries)
    monkeypatch.setattr(module, "_CLASS_ENTRIES", class_entries)
    monkeypatch.setattr(module, "_WORTH_THREADS", threads)
    table = random_table(seed, rows, levels, labels)
    pairs, purity = PairPartition(table), PurityPartition(table, grid=64, charge=2)
    contrast = ContrastPartition(table, grid=64)
    chosen: list[int] = []
    left = list(range(len(levels)))
    while True:
        # a partition remembers what it has computed; one that is made afresh has to agree
        fresh = PairPartition(table)
        for column in chosen:
            fresh.refine(column)
        assert fresh.value() == slow_pairs(table, chosen)
        assert pairs.value() == slow_pairs(table, chosen)
        assert purity.value() == slow_purity(table, chosen, 64, 2)
        assert pairs.after(left) == [slow_pairs(table, [*chosen, a]) for a in left]
        assert purity.after(left) == [slow_purity(table, [*chosen, a], 64, 2) for a in left]
        assert contrast.after(left) == [slow_contrast(table, chosen, a, 64) for a in left]
        if not left:
            break
        chosen.append(left.pop((seed * 7) % len(left)))
        pairs.refine(chosen[-1])
        purity.refine(chosen[-1])
        contrast.refine(chosen[-1])


@pytest.mark.parametrize("seed", range(4))
def test_looking_ahead_changes_no_contrast(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    look_far_ahead(monkeypatch)
    table = random_table(seed, 500, [4, 2, 5, 3, 4, 2], 3)
    partition, rng = ContrastPartition(table, grid=64), np.random.default_rng(seed)
    chosen: list[int] = []
    left = list(range(6))
    while left:
        values = partition.after(left, more=int(rng.integers(1, len(left) + 1)))
        assert values == [slow_contrast(table, chosen, a, 64) for a in left]
        foreseen = partition._ahead.path[partition._passed :] if partition._ahead else left
        chosen.append(foreseen[0] if foreseen else left[0])
        left.remove(chosen[-1])
        partition.refine(chosen[-1])


def look_far_ahead(monkeypatch: pytest.MonkeyPatch, entries: int = 1 << 19) -> None:
    """Small tables would not be worth a forecast."""
    monkeypatch.setattr(module, "_AHEAD_ENTRIES", entries)
    monkeypatch.setattr(module, "_ROWS_AN_ENTRY", 1)
    monkeypatch.setattr(module, "_SCOUT_LEAST", 1)
    monkeypatch.setattr(module, "_SCOUT_SHARE", 2)


@pytest.mark.parametrize("ahead", [1 << 19, 100, 1], ids=["far", "a little", "never"])
@pytest.mark.parametrize("seed", range(4))
def test_looking_ahead_changes_no_score(
    monkeypatch: pytest.MonkeyPatch, ahead: int, seed: int
) -> None:
    """Whatever was guessed and whatever is chosen then: values before and after agree with
    counting."""
    look_far_ahead(monkeypatch, ahead)
    table = random_table(seed, 500, [4, 2, 5, 3, 4, 2], 3)
    passed = 0
    for partition, slow in (
        (PairPartition(table), slow_pairs),
        (
            PurityPartition(table, grid=64, charge=2),
            lambda table, chosen: slow_purity(table, chosen, 64, 2),
        ),
    ):
        rng = np.random.default_rng(seed)
        chosen: list[int] = []
        left = list(range(6))
        while left:
            values = partition.after(left, more=int(rng.integers(1, len(left) + 1)))
            assert values == [slow(table, [*chosen, a]) for a in left]
            assert partition.value() == slow(table, chosen)
            foreseen = partition._ahead.path[partition._passed :] if partition._ahead else ()
            column = (
                foreseen[0]
                if foreseen and rng.integers(0, 4)
                else left[int(rng.integers(0, len(left)))]
            )
            left.remove(column)
            chosen.append(column)
            partition.refine(column)
            passed += partition._ahead is not None
    assert passed > 0 or ahead < 1 << 19
    assert passed == 0 or ahead > 1


@pytest.mark.parametrize("kind", ["pairs", "purity"])
def test_one_pass_over_the_rows_serves_the_steps_that_were_foreseen(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    look_far_ahead(monkeypatch)
    rng = np.random.default_rng(1)
    label = np.sort(rng.integers(0, 2, 6_000))  # the sample has to come from all over the table
    levels = [2, 3, 4, 2, 3]
    columns = [
        np.where(rng.random(6_000) < 0.15 * i, label, rng.integers(0, n, 6_000))
        for i, n in enumerate(levels)
    ]
    table = CodedTable(columns, levels, label, 2)
    partition = (
        PairPartition(table) if kind == "pairs" else PurityPartition(table, grid=64, charge=3)
    )
    passes: list[int] = []
    counting = module.count_tables

    def counted(base: np.ndarray, *rest: Any) -> Any:
        passes.append(base.size)
        return counting(base, *rest)

    monkeypatch.setattr(module, "count_tables", counted)
    left, chosen = list(range(5)), []
    for step in range(3):
        values = partition.after(left, more=2 - step)
        best = int(np.argmin(values)) if kind == "pairs" else int(np.argmax(values))
        chosen.append(left.pop(best))
        if step < 2:
            partition.refine(chosen[-1])
    assert [rows for rows in passes if rows == table.rows] == [table.rows]
    partition.keep_counts(chosen[-1])
    fresh = CodedTable(columns, levels, label, 2)
    assert table._kept is not None
    for order in itertools.permutations(chosen):
        kept, counted_again = table.count_cells(order), fresh.count_cells(order)
        assert (kept.cells == counted_again.cells).all()
        assert (kept.counts == counted_again.counts).all()
    assert (table.count_cells(chosen[:2]).counts == fresh.count_cells(chosen[:2]).counts).all()


def test_classes_numbered_densely_or_not_at_all_leave_no_counts_behind() -> None:
    table, empty = random_table(1, 100, [2, 3, 4], 2), random_table(5, 0, [2, 3, 4], 2)
    dense, none = PairPartition(table), PairPartition(empty)
    dense.refine(2)
    for partition in (dense, none):
        assert len(partition.after([0, 1])) == 2
        partition.keep_counts(1)
    assert table._kept is None
    assert empty._kept is None
    assert empty.count_cells([1, 0]).cells.size == 0


def test_large_counts_do_not_overflow() -> None:
    """Squares beyond 2^31 and grid * squares beyond 2^63: values of one cell, against Python's
    integers."""
    for counts in ((2**31 - 2, 1), (2**30, 2**30 - 1), (3, 2**31 - 9)):
        total, squares = sum(counts), sum(n * n for n in counts)
        assert (
            int(kernels.cell_value(np.int64(total), np.int64(squares), kernels.PAIRS, 1, 0))
            == counts[0] * counts[1]
        )
        exact = max(0, 64 * squares // total - 64 * 5)
        assert (
            int(kernels.cell_value(np.int64(total), np.int64(squares), kernels.PURITY, 64, 5))
            == exact
        )


def test_constants_agree_with_the_kernels() -> None:
    assert (module.PAIRS, module.PURITY) == (kernels.PAIRS, kernels.PURITY)


@pytest.mark.parametrize("direct", [1 << 24, 1])
def test_cells_are_counted_in_mixed_radix(monkeypatch: pytest.MonkeyPatch, direct: int) -> None:
    monkeypatch.setattr(coded_table, "_DIRECT_CELLS", direct)
    table = random_table(6, 500, [3, 4, 5], 2)
    counts = table.count_cells([0, 2])
    expected = Counter(
        (int(a) * 5 + int(b)) * 2 + int(y)
        for a, b, y in zip(table.columns[0], table.columns[2], table.labels_of, strict=True)
    )
    assert dict(zip(counts.cells.tolist(), counts.counts.tolist(), strict=True)) == dict(expected)
    assert counts.cells.dtype == np.uint64
    assert (np.diff(counts.cells.astype(np.int64)) > 0).all()


@pytest.mark.parametrize("entries", [1 << 24, 1])
def test_equal_rows_share_a_number(monkeypatch: pytest.MonkeyPatch, entries: int) -> None:
    monkeypatch.setattr(module, "_SPLIT_ENTRIES", entries)
    table = random_table(8, 120, [2, 3, 2], 2)
    group, classes = equal_rows(table)
    rows = list(
        zip(*(column.tolist() for column in table.columns), table.labels_of.tolist(), strict=True)
    )
    for i, j in itertools.combinations(range(table.rows), 2):
        assert (group[i] == group[j]) == (rows[i] == rows[j])
    assert classes == len(set(rows)) == int(group.max()) + 1


def test_rows_stay_private() -> None:
    table = random_table(1, 10, [2, 2], 2)
    assert repr(table) == "CodedTable(private)"
    assert repr(PairPartition(table)) == "Partition(private)"
    with pytest.raises(PrivateSideError):
        CodedTable([np.zeros(3, dtype=np.int64)], [2], np.zeros(2, dtype=np.int64), 2)
