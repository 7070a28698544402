"""The published model error of a model: how far any box of two columns may be from what the model
says.

A box is a run of levels of one column, a run of levels of another, and one label or all labels. One
noisy number bounds the error of all boxes of all pairs of columns at once, except for the chance
that its noise is large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.errors import BundleError
from dpublish.models.noisy_counts import normal_quantile
from dpublish.releases.bundle.manifest import whole

UNIT = 256
"""The model error is counted in parts of a row, so that the model's cells can be rounded without
harm."""
MODEL_VERSION = 7
"""Raised whenever the fit changes: a model error speaks of the model of its own time."""
KNOWN_VERSIONS = (5, 6, 7)
"""Fits that can still be made: a release that states one of them is read with it. 5: the splits of
unordered levels among labels are not shrunk. 6: curves along
ordered levels are never fitted twice, and are looked for in finer steps."""
_LARGEST_VALUE = 1 << 62


@dataclass(frozen=True)
class ModelError:
    """The noisy model error in units, its noise, and the number of blocks that boxes are made
    of."""

    value: int
    noise: str
    scale: float
    blocks: int
    version: int = MODEL_VERSION

    def bound(self, alpha: float, cells: int) -> float:
        """Rows by which a box may be off, but for alpha. `cells` are those of the pair's table:
        each was rounded."""
        if self.noise == "laplace":
            above = self.scale * max(0.0, -math.log(2 * alpha)) + 1
        else:
            above = math.sqrt(self.scale) * normal_quantile(alpha) + 1
        return max(0.0, (self.value + above + cells / 2) / UNIT)


def read_model_error(facts: Mapping[str, Any], noise: str) -> ModelError | None:
    """Read and check; None when nothing was published, or for a model that this version does not
    fit."""
    found = facts.get("misfit")
    if found is None:
        return None
    if not isinstance(found, Mapping):
        raise BundleError("facts: 'misfit' must be an object.")
    value, scale = found.get("value"), found.get("scale")
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > _LARGEST_VALUE:
        raise BundleError("facts: the value of 'misfit' must be a whole number.")
    try:
        size = float(Fraction(scale)) if isinstance(scale, str) and len(scale) <= 400 else -1.0
    except (ValueError, ZeroDivisionError, OverflowError):
        size = -1.0
    if not 1e-9 <= size <= 1e40:
        raise BundleError("facts: the scale of 'misfit' must be a believable fraction.")
    blocks = whole(found, "blocks", "misfit", limit=255, lowest=1)
    version = found.get("model")
    if version not in KNOWN_VERSIONS or found.get("unit") != UNIT:
        return None
    return ModelError(value, noise, size, blocks, version)


def level_blocks(levels: int, limit: int) -> Ints:
    """Runs of levels in their declared order, as even as can be; every level alone where there are
    at most `limit`."""
    codes = np.arange(levels, dtype=np.int64)
    return codes if levels <= limit else codes * limit // levels


def block_mask(
    mask: NDArray[np.bool_], blocks: tuple[Ints, Ints], *, wholly: bool
) -> NDArray[np.bool_]:
    """A mask over levels x levels x labels as one over blocks: those wholly inside, or those
    touched at all."""
    for axis, block_of in enumerate(blocks):
        if int(block_of.max()) + 1 < len(block_of):
            starts = np.flatnonzero(np.diff(block_of, prepend=-1))
            mask = (np.logical_and if wholly else np.logical_or).reduceat(mask, starts, axis=axis)
    return mask


def count_boxes(mask: NDArray[np.bool_]) -> int:
    """Into how many boxes a mask over blocks x blocks x labels can be cut, at most."""
    if mask.shape[2] > 1 and (mask == mask[:, :, :1]).all():
        mask = mask[:, :, :1]
    total = 0
    for label in range(mask.shape[2]):
        layer = mask[:, :, label]
        new = np.ones(len(layer), dtype=np.bool_)
        new[1:] = (layer[1:] != layer[:-1]).any(axis=1)
        starts = layer & ~np.pad(layer, ((0, 0), (1, 0)))[:, :-1]
        total += int(starts[new].sum())
    return total
