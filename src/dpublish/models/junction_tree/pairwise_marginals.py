"""Tables of pairs of columns, however far apart in the junction tree: one column carried along it
to all the others.

What the sweeps of different columns share is kept by the model: the chances of a clique's columns
given those of the one before. Tables have the label first, so that every step is a product of
matrices, one per label.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpublish.models.junction_tree.consistency import Floats

if TYPE_CHECKING:
    from dpublish.models.junction_tree.model import JunctionModel


def pair_tables(
    model: JunctionModel, first: int, spreads: Mapping[int, Floats]
) -> dict[int, Floats]:
    """See `JunctionModel.around`. Spreads are states x groups x labels."""
    beliefs = model.beliefs
    out: dict[int, Floats] = {}
    fold = spreads[first].transpose(2, 1, 0)
    groups, states = fold.shape[1:]
    if groups > states:  # the column is carried by its states, and put into groups at the end
        alone = {
            **spreads,
            first: np.broadcast_to(np.eye(states)[:, :, None], (states, states, fold.shape[0])),
        }
        return {
            second: np.moveaxis(fold @ np.moveaxis(table, 2, 0), 0, 2)
            for second, table in pair_tables(model, first, alone).items()
        }
    wanted = set(spreads) - {first}
    todo: list[tuple[int, int | None, Floats | None]] = [(model.clique_of([first]), None, None)]
    for one, before, front in todo:
        axes = beliefs.axes[one]
        children = [
            other
            for other in beliefs.tree.adjacent[one]
            if other != before and wanted & model.beyond(other, one)
        ]
        if front is None:  # a clique that holds the column itself
            for second in axes:
                if second in wanted and second not in out:
                    out[second] = _spread(
                        fold @ beliefs.over(one, [first, second]), spreads[second]
                    )
            for child in children:
                if first in beliefs.axes[child]:
                    todo.append((child, one, None))
                    continue
                shared = beliefs.over(
                    one, [first, *(column for column in axes if column in beliefs.axes[child])]
                )
                todo.append((child, one, fold @ shared.reshape(*shared.shape[:2], -1)))
            continue
        assert before is not None
        for second in beliefs.sides(one, before)[1]:
            if second in wanted:
                conditional = model.conditional(one, before, (second,))
                out[second] = _spread(
                    front @ conditional.reshape(len(conditional), front.shape[2], -1),
                    spreads[second],
                )
        for child in children:
            todo.append((child, one, _carry(model, front, one, before, child)))
    shares = np.where(model.labels > 0, 1.0 / np.where(model.labels > 0, model.labels, 1.0), 0.0)
    mine = np.einsum("agt,at->gt", spreads[first], model.joint_states([first]))
    for second in wanted - set(out):
        other = np.einsum("agt,at->gt", spreads[second], model.joint_states([second]))
        out[second] = mine[:, None, :] * other[None] * shares
    return out


def _spread(table: Floats, spread: Floats) -> Floats:
    """From (label, group, state) to (group, group, label)."""
    spreaded: Floats = (table @ spread.transpose(2, 0, 1)).transpose(1, 2, 0)
    return spreaded


def _carry(model: JunctionModel, front: Floats, one: int, before: int, child: int) -> Floats:
    """From counts of (label, group, separator) to counts of (label, group, separator with the
    child).

    Products of matrices, one for every label and combination of the columns that stay: far faster
    than a sum over products.
    """
    step = model.step(one, before, child)
    labels, groups = front.shape[:2]
    left = (
        front.reshape(labels, groups, *step.separator)
        .transpose(step.turn)
        .reshape(labels, step.held, groups, -1)
    )
    carried = (
        left @ step.conditional if step.conditional is not None else left.sum(axis=3, keepdims=True)
    )
    shaped = carried.reshape(labels, *step.stay, groups, *step.fresh).transpose(step.back)
    return np.ascontiguousarray(shaped).reshape(labels, groups, -1)


@dataclass(frozen=True)
class Step:
    """From the separator of a clique with the one before it to its separator with a child: what
    does not depend on the column carried.

    Columns of the separator stay in the next one or go, and others are fresh. `conditional` are
    labels x stay x gone x fresh.
    """

    separator: list[int]
    turn: list[int]
    held: int
    conditional: Floats | None
    stay: list[int]
    fresh: list[int]
    back: list[int]


def step_to(model: JunctionModel, one: int, before: int, child: int) -> Step:
    beliefs = model.beliefs
    separator, new = beliefs.sides(one, before)
    onward = [column for column in beliefs.axes[one] if column in beliefs.axes[child]]
    stay = [column for column in separator if column in onward]
    gone = [column for column in separator if column not in onward]
    fresh = [column for column in new if column in onward]
    sizes = [[beliefs.states[column] for column in some] for some in (separator, stay, gone, fresh)]
    held, lost, found = (math.prod(some) for some in sizes[1:])
    place = {column: i for i, column in enumerate([*separator, *fresh])}
    conditional = None
    if fresh:
        right = beliefs.conditional(one, before, fresh).transpose(
            [0, *(place[c] + 1 for c in (*stay, *gone, *fresh))]
        )
        conditional = np.ascontiguousarray(right).reshape(-1, held, lost, found)
    axis = {column: i + 1 for i, column in enumerate(stay)} | {
        c: len(stay) + 2 + i for i, c in enumerate(fresh)
    }
    turn = [0, *(place[c] + 2 for c in stay), 1, *(place[c] + 2 for c in gone)]
    return Step(
        sizes[0],
        turn,
        held,
        conditional,
        sizes[1],
        sizes[3],
        [0, len(stay) + 1, *(axis[c] for c in onward)],
    )
