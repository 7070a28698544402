"""Taxonomies: the context-free one, and those that a curator writes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from dpublish.declare.taxonomy import MAX_FANOUT, Taxonomy, context_free, written
from dpublish.errors import PlanError


def check(tree: Taxonomy) -> None:
    """Children cover their node side by side; counts and ordinals agree with a walk over the
    tree."""
    for node in range(tree.nodes):
        at, inside = int(tree.start[node]), 1
        for place, child in enumerate(tree.children(node)):
            low, high = (
                (child, child + 1)
                if child >= 0
                else (int(tree.start[~child]), int(tree.stop[~child]))
            )
            assert low == at
            assert (tree.ordinal[tree.depth[node], low:high] == place).all()
            if child < 0:
                assert ~child > node
                assert tree.depth[~child] == tree.depth[node] + 1
                inside += int(tree.internal[~child])
            at = high
        assert at == tree.stop[node]
        assert tree.internal[node] == inside
    assert sorted(tree.order) == list(range(tree.items))
    assert (tree.start[0], tree.stop[0]) == (0, tree.items)


@pytest.mark.parametrize(
    ("items", "fanout"),
    [(1, 2), (2, 2), (4, 2), (5, 2), (17, 10), (101, 10), (1012, 10), (1012, MAX_FANOUT)],
)
def test_context_free_taxonomies_are_trees(items: int, fanout: int) -> None:
    check(context_free(items, fanout))


def test_the_taxonomy_of_the_paper() -> None:
    """Four items, fan-out two: three internal nodes."""
    tree = context_free(4, 2)
    assert tree.nodes == 3
    assert [tree.children(node) for node in range(3)] == [[~1, ~2], [0, 1], [2, 3]]
    assert context_free(1012, 10).nodes == 1 + 2 + 11 + 102


def test_a_million_items() -> None:
    tree = context_free(1_000_000, 10)
    assert tree.nodes == 111_111
    assert tree.items == 1_000_000


@pytest.mark.parametrize("fanout", [1, 0, -3, MAX_FANOUT + 1, 2.5, True])
def test_a_fanout_out_of_range_is_refused(fanout: int) -> None:
    with pytest.raises(PlanError, match="fanout must be a whole number from 2"):
        context_free(10, fanout)


def test_written_taxonomies_follow_their_own_order() -> None:
    names = ["milk", "bread", "butter", "beer"]
    groups = {"dairy": ["butter", "milk"], "other": {"bakery": ["bread"], "drinks": "beer"}}
    tree = written(groups, names)
    check(tree)
    assert [names[place] for place in tree.order] == ["butter", "milk", "bread", "beer"]
    again = written(json.dumps(groups), names)
    assert np.array_equal(again.child, tree.child)


def test_other_hangs_from_the_root_when_it_is_left_out() -> None:
    tree = written([["a"], ["b"]], ["a", "b", "(other)"])
    check(tree)
    assert tree.children(0)[-1] == 2


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ([["a"], ["a", "b"]], "names the item 'a' twice"),
        ([["a"]], "leaves out the item 'b'"),
        ([["a", "b", "c"]], "'c', which is not a declared item"),
        ([["a", "b"], []], "has 0 members"),
        ([[["a", "b"]], 1.5], "holds a float"),
        ("{", "not valid JSON"),
        ("3", "must be nested groups"),
    ],
)
def test_mistakes_in_a_taxonomy_are_named(groups: object, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        written(groups, ["a", "b"])


def test_groups_that_are_too_large_are_refused() -> None:
    names = [str(number) for number in range(MAX_FANOUT + 1)]
    with pytest.raises(PlanError, match="Divide it"):
        written([names], names)
