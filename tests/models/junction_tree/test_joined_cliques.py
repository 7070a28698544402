"""Junction trees: whatever is joined, cliques stay a junction tree that holds every joined pair."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpublish.models.junction_tree.cliques import CliqueTree
from dpublish.models.junction_tree.model_error import block_mask, count_boxes, level_blocks


def check(tree: CliqueTree, pairs: list[tuple[int, int]], columns: int) -> None:
    """A forest, in which the cliques of every column are connected, and every pair has a home."""
    order = tree.walk()
    assert sorted(one for one, _ in order) == list(range(len(tree.cliques)))
    separators = sum(len(adjacent) for adjacent in tree.adjacent) // 2
    roots = sum(before is None for _, before in order)
    assert separators == len(tree.cliques) - roots
    for column in range(columns):
        holds = [i for i, clique in enumerate(tree.cliques) if column in clique]
        inside = sum(len(tree.adjacent[i] & set(holds)) for i in holds) // 2
        assert inside == len(holds) - 1
    for pair in pairs:
        assert tree.clique_of(pair) is not None
    for one, adjacent in enumerate(tree.adjacent):
        assert not any(tree.cliques[one] <= tree.cliques[other] for other in adjacent)


@pytest.mark.parametrize("seed", range(30))
def test_joining_keeps_a_junction_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = int(rng.integers(2, 10))
    states = {column: int(rng.integers(1, 6)) for column in range(columns)}
    every = list(itertools.combinations(range(columns), 2))
    pairs = [every[i] for i in rng.permutation(len(every))[: int(rng.integers(1, len(every) + 1))]]
    tree = CliqueTree.apart(range(columns))
    for i, pair in enumerate(pairs):
        reach = tree.reach([pair[0]], states)[pair[0]].get(pair[1])
        assert (reach is None) == (tree.path(*pair) is None)
        grown = tree.join(*pair, states)
        if reach is not None:
            assert grown.cells(states) <= tree.cells(states) + reach[0]
        tree = grown
        check(tree, pairs[: i + 1], columns)
    assert CliqueTree.of(range(columns), pairs, states) == tree


def test_a_circle_is_cut_into_triangles() -> None:
    ring = [(i, (i + 1) % 6) for i in range(6)]
    tree = CliqueTree.of(range(6), ring, dict.fromkeys(range(6), 2))
    assert max(len(clique) for clique in tree.cliques) == 3


def test_boxes_are_counted() -> None:
    mask = np.zeros((5, 6, 2), dtype=bool)
    assert count_boxes(mask) == 0
    mask[1:3, 2:4] = True
    assert count_boxes(mask) == 1
    mask[1:3, 5] = True
    assert count_boxes(mask) == 2
    mask[4, 0, 1] = True
    assert (
        count_boxes(mask) == 5
    )  # labels apart: two boxes each, and the one that only one label has


def test_blocks_cover_levels_in_order() -> None:
    assert level_blocks(5, 64).tolist() == [0, 1, 2, 3, 4]
    blocks = level_blocks(100, 8)
    assert (np.diff(blocks) >= 0).all()
    assert len(np.unique(blocks)) == 8
    mask = np.zeros((100, 3, 1), dtype=bool)
    mask[:20] = True  # one block of 13 levels and part of the next
    whole, touched = (
        block_mask(mask, (blocks, np.arange(3)), wholly=wholly)[:, 0, 0] for wholly in (True, False)
    )
    assert (whole.sum(), touched.sum()) == (1, 2)
