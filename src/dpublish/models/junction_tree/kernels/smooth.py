"""The fits of `plain.smooth_counts`, compiled."""

from __future__ import annotations

from dpublish.compiled import njit
from dpublish.models.junction_tree import plain

smooth_counts = njit(cache=True, nogil=True)(plain.smooth_counts)
