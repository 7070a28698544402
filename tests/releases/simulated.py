"""Test releases made with numpy: the same law as the real mechanism, none of its code."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.declare.domain import Axis, Domain
from dpublish.releases.histogram.release import HistogramRelease

DIGEST = "0" * 64


def people() -> Domain:
    """Every kind of column, with and without bins, other and missing."""
    return Domain(
        (
            Axis("age", "integer", edges=(17, 27, 37, 47, 57, 67, 77, 91)),
            Axis("sex", "categorical", levels=("Female", "Male"), other=True, outside="other"),
            Axis("education-num", "integer", edges=tuple(range(1, 6)), missing=True),
            Axis("income", "boolean", levels=("false", "true"), other=False, outside="drop"),
        )
    )


def varied() -> Domain:
    return Domain(
        (
            Axis(
                "size", "ordinal", levels=("small", "medium", "large"), missing=True, outside="drop"
            ),
            Axis("price", "real", edges=(0.0, 1.5, 3.0, 10.0), other=True, outside="other"),
            Axis("day", "date", edges=(737_425, 737_435, 737_445, 737_456)),
            Axis("code", "categorical", levels=("1", "2", "it's"), missing=True, outside="drop"),
        )
    )


def people_counts(domain: Domain, rows: int, seed: int) -> NDArray[np.int64]:
    """Dense counts with some structure: income depends on age and education."""
    generator = np.random.default_rng(seed)
    weights = np.ones(1)
    for axis in domain.axes:
        weights = np.outer(weights, generator.dirichlet(np.full(axis.cardinality, 1.5))).reshape(-1)
    chosen = weights.reshape(domain.shape)
    if domain.names[0] == "age":
        tilt = (
            np.linspace(0.2, 1.8, domain.shape[0])[:, None, None]
            * np.linspace(0.2, 1.8, domain.shape[2])[None, None, :]
        )
        chosen = chosen * np.stack([2.0 - tilt * 0.6, 0.2 + tilt], axis=-1)
    flat = np.maximum(chosen.reshape(-1), 0)
    return generator.multinomial(rows, flat / flat.sum()).astype(np.int64)


def draw_noise(generator: np.random.Generator, scale: float, size: int) -> NDArray[np.int64]:
    chance = -np.expm1(-1.0 / scale)
    return (generator.geometric(chance, size) - generator.geometric(chance, size)).astype(np.int64)


def manifest(domain: Domain, **changes: Any) -> dict[str, Any]:
    facts = {
        "threshold": 10,
        "scale": "2",
        "domain_size": domain.size,
        "total": {"kind": "public", "value": 10_000, "scale": None},
        "max_total": None,
    }
    facts.update(changes.pop("facts", {}))
    return {
        "format": "dpublish-release",
        "format_version": 1,
        "kind": "histogram",
        "method": "histogram",
        "dataset": "people",
        "publishable": True,
        "created": "2024-05-01T12:00:00+00:00",
        "parameters": {"columns": list(domain.names), "target": "income"},
        "privacy": {
            "cost": {"kind": "pure", "epsilon": "1", "delta": "0", "rho": "0"},
            "neighbours": "replace-one",
            "unit": "one row",
            "max_rows_per_unit": 1,
            "sensitivity": "2",
            "statement": "This release is 1-differentially private: replacing any one row changes "
            "the probability of "
            "any outcome by a factor of at most exp(1).",
        },
        "domain": domain.to_json(),
        "schema_digest": DIGEST,
        "facts": facts,
        "plan": {"sentences": ["Every cell gets noise of scale 2."], "warnings": []},
        "receipt": {"entry": "7", "digest": DIGEST},
        "versions": {"dpublish": "0.1.0", "python": "3.11"},
        **changes,
    }


def release_of(
    domain: Domain,
    counts: NDArray[np.int64],
    *,
    threshold: int = 10,
    scale: Fraction | int = 2,
    total: str = "public",
    seed: int = 0,
) -> HistogramRelease:
    """Noise on every cell of a small domain, cells above the threshold kept."""
    generator = np.random.default_rng(seed)
    noisy = counts + draw_noise(generator, float(scale), len(counts))
    kept = np.flatnonzero(noisy > threshold)
    number = int(counts.sum())
    known: dict[str, Any] = {
        "kind": total,
        "value": number if total == "public" else 0,
        "scale": None,
    }
    if total == "noisy":
        known = {
            "kind": "noisy",
            "value": number + int(draw_noise(generator, 4.0, 1)[0]),
            "scale": "4",
        }
    facts = {"threshold": threshold, "scale": str(Fraction(scale)), "total": known}
    return HistogramRelease(
        manifest(domain, facts=facts), {"cells": cells_frame(kept, noisy[kept])}
    )


def cells_frame(cells: NDArray[Any], counts: NDArray[Any]) -> pl.DataFrame:
    return pl.DataFrame({"cell": cells.astype(np.uint64), "count": counts.astype(np.int64)})


def people_release(**options: Any) -> HistogramRelease:
    domain = people()
    return release_of(domain, people_counts(domain, 10_000, 3), **options)


def varied_release(**options: Any) -> HistogramRelease:
    domain = varied()
    return release_of(domain, people_counts(domain, 5_000, 4), **options)
