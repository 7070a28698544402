"""Importance weights audited: exact and replayed, planted mistakes, a solver that fails, and the
law of the noise."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import polars as pl
import pytest

from built_in import exact_on_every_pair
from dpublish import audit
from dpublish.audit.trials import tables
from dpublish.audit.trials.trial import Exact
from dpublish.methods.importance_weights import balanced
from dpublish.methods.importance_weights.mechanism import (
    ImportanceWeights,
)
from dpublish.noise.source import SeededNoise
from dpublish.privacy.cost import Cost

from .test_importance_weights import ONE, schema_of

TINY = '[columns.a]\nkind = "boolean"\noutside = "drop"\n'
SLIDE = '[columns.x]\nkind = "real"\nlower = 0\nupper = 1\n'
RELATIONS = {
    "replace-one": 'neighbours = "replace-one"\nsize = 3\n',
    "add-remove-one": 'neighbours = "add-remove-one"\nnominal_size = 3\n',
}
UNIT = 'unit = "person"\nmax_rows_per_unit = 2\n'
TOSSES = pl.DataFrame({"a": [True, True, False, False, False]})
POINTS = pl.DataFrame({"x": [0.1, 0.2, 0.35, 0.6, 0.9]})


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("per_unit", [1, 2], ids=["one row", "two rows"])
def test_exact_privacy_of_moments_on_all_tiny_tables(relation: str, per_unit: int) -> None:
    """Every neighbouring pair, every outcome: the worst log-ratio is at most epsilon, and close to
    it: noise is not wasted."""
    settings = {"public": "volunteers.csv", "choose_pairs": "0"}
    tried = tables.table_trial(
        "importance-weights",
        relation,
        ("a",),
        settings=settings,
        public=tables.VOLUNTEERS,
        per_unit=per_unit,
        exact=Exact(window=(-2, 4)),
    )
    report = exact_on_every_pair(tried)
    assert 0.6 < report.loss <= 1 + 1e-9


def test_exact_privacy_of_the_choice_of_a_public_set() -> None:
    others = [pl.DataFrame({"a": [True, False, True, True]})]
    method = ImportanceWeights(
        public=TOSSES, alternatives=others, choose_pairs=0, choice_share="1/4"
    )
    tried = audit.subject(method, schema_of(RELATIONS["add-remove-one"], TINY), ONE)
    report = audit.exact(tried, list(tried.pairs(rows=2)), epsilon=1, window=(-1, 3))
    assert report.passed, report.summary()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("extra", ["", UNIT], ids=["one row", "two rows"])
@pytest.mark.parametrize("variant", ["moments", "output"])
def test_replay(relation: str, extra: str, variant: Any) -> None:
    columns = TINY + '[columns.b]\nkind = "boolean"\noutside = "drop"\n'
    public = TOSSES.with_columns(b=pl.Series([True, False, False, True, False]))
    settings: dict[str, Any] = {"choose_pairs": 1} if variant == "moments" else {"pairs": ["a*b"]}
    method = ImportanceWeights(
        public=public, variant=variant, alternatives=[public.reverse().head(4)], **settings
    )
    tried = audit.subject(method, schema_of(RELATIONS[relation] + extra, columns), ONE)
    report = audit.replay(tried, list(tried.pairs(rows=2))[:40], epsilon=1, runs=1)
    assert report.passed, report.summary()
    assert report.loss > Fraction(1, 8)


@pytest.mark.parametrize("variant", ["moments", "gaussian"])
def test_replay_in_rho(variant: Any) -> None:
    method = ImportanceWeights(public=TOSSES, variant=variant, alternatives=[TOSSES.head(4)])
    tried = audit.subject(method, schema_of(RELATIONS["replace-one"], TINY), Cost.zcdp("1/8"))
    report = audit.replay(tried, list(tried.pairs(rows=2))[:20], rho="1/8", runs=1)
    assert report.passed, report.summary()
    assert report.rho_loss > Fraction(1, 100)


def line_subject(relation: str = "add-remove-one", **settings: Any) -> audit.Subject:
    """One number in [0, 1], read with four bins: the smallest problem with more than one possible
    length of a row."""
    method = ImportanceWeights(
        public=POINTS, variant="output", regularization="1/4", resolution=4, **settings
    )
    return audit.subject(method, schema_of(RELATIONS[relation], SLIDE), ONE)


FEW = [((), (3,)), ((3,), (3, 0)), ((0, 0), (0, 0, 3))]


def forty_rows() -> audit.Subject:
    """Strong regularization and a nominal size of 40: one row among many may move little, so large
    moves stand out."""
    method = ImportanceWeights(public=POINTS, variant="output", regularization=1, resolution=4)
    return audit.subject(
        method, schema_of('neighbours = "add-remove-one"\nnominal_size = 40\n', SLIDE), ONE
    )


def with_settings(plan: Any, **changes: Any) -> Any:
    settings = dataclasses.replace(plan.settings, **changes)
    return dataclasses.replace(plan, settings=settings)


def with_calibration(tried: audit.Subject, **changes: Fraction) -> audit.Subject:
    calibration = dataclasses.replace(tried.plan.settings.calibration, **changes)
    return dataclasses.replace(tried, plan=with_settings(tried.plan, calibration=calibration))


class TestPlanted:
    """Each mistake is found by the replay audit for the stated reason; the shipped mechanism passes
    on the same pairs."""

    def checks(self, mechanism: Any, pairs: Any = None) -> set[str]:
        tried = line_subject()
        report = audit.replay(mechanism, pairs or list(tried.pairs(rows=3)), epsilon=1, runs=1)
        return {finding.check for finding in report.findings}

    def test_the_shipped_mechanism_passes(self) -> None:
        assert self.checks(line_subject()) == set()

    def test_regulariser_missing_from_the_sensitivity(self) -> None:
        tried = line_subject()
        calibration = tried.plan.settings.calibration
        wrong = calibration.sensitivity * calibration.ridge
        assert "distance" in self.checks(with_calibration(tried, sensitivity=wrong))

    def test_solver_stopped_early(self) -> None:
        """A loose tolerance that is not in the sensitivity: one neighbour stops at the start, the
        other does not."""
        tried = forty_rows()
        found = [
            self.checks(with_calibration(tried, tolerance=Fraction(part, 100)), FEW)
            for part in range(35, 50)
        ]
        assert any("distance" in checks for checks in found)
        assert self.checks(tried, FEW) == set()

    def test_norm_bound_taken_from_the_data(self) -> None:
        tried = line_subject()

        def broken(noise: Any, rows: Any) -> Any:
            longest = max([0.25 + row / 4 for row in rows], default=1.0)
            content = tried(noise, rows)
            return np.asarray(content.tables["coefficients"]["coefficient"]) / longest

        assert "output" in self.checks(broken)

    def test_true_n_as_normaliser(self) -> None:
        tried = forty_rows()

        def broken(noise: Any, rows: Any) -> Any:
            plan = with_settings(tried.plan, nominal_rows=max(1, len(rows)))
            return tried.mechanism.run(noise, tried.numbers(rows), plan).tables["coefficients"][
                "value"
            ]

        assert "distance" in self.checks(broken, FEW)


class TestNoWayToFail:
    """The solver's doubles fail, or cannot do it: the release is made all the same, so that a
    failure tells nothing."""

    def test_planted_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Doubles stop at a wrong point, on every table: balls settle it, and the replay audit
        finds no difference."""
        from dpublish.methods.erm import solver

        expected = line_subject()(SeededNoise(1), (0, 3)).tables["coefficients"]["value"]
        monkeypatch.setattr(
            solver, "descend", lambda problem, _: np.full(problem.design.dimension, 7.0)
        )
        tried = line_subject()
        assert (
            np.abs(tried(SeededNoise(1), (0, 3)).tables["coefficients"]["value"] - expected).max()
            <= 1
        )
        report = audit.replay(tried, list(tried.pairs(rows=2)), epsilon=1, runs=1)
        assert report.passed, report.summary()

    @pytest.mark.parametrize("variant", ["output", "objective"])
    def test_thousands_of_times_more_rows_than_the_nominal_size(self, variant: Any) -> None:
        schema = schema_of('neighbours = "add-remove-one"\nnominal_size = 1\n', SLIDE)
        method = ImportanceWeights(
            public=POINTS, variant=variant, regularization="1/4", resolution=4
        )
        plan = method.plan(schema, ONE)
        codes = [np.repeat(np.arange(4, dtype=np.uint8), 12_500)]
        content = method.run(SeededNoise(1), codes, plan)
        assert np.isfinite(np.asarray(content.tables["weights"]["weight"])).all()


def chi_square(counts: np.ndarray, chances: np.ndarray) -> float:
    """The statistic less its degrees of freedom, in standard deviations."""
    total = counts.sum()
    expected = np.append(chances, 1.0 - chances.sum()) * total
    seen = np.append(counts[:-1], counts[-1])
    value = float(((seen - expected) ** 2 / expected).sum())
    return (value - len(expected) + 1) / math.sqrt(2 * (len(expected) - 1))


def noise_of(tried: audit.Subject, rows: tuple[int, ...], samples: int) -> np.ndarray:
    """Draws of the noise in the coefficients, in units of its scale."""
    calibration = tried.plan.facts["calibration"]
    grid, scale = (float(Fraction(calibration[name])) for name in ("grid", "sensitivity"))
    source = SeededNoise(7)
    values = (
        np.array([tried(source, rows).tables["coefficients"]["value"] for _ in range(samples)])
        * grid
    )
    exact = dataclasses.replace(tried, plan=with_calibration(tried, grid=Fraction(1, 1 << 60)).plan)
    quiet = balanced.balanced_coefficients

    def centre(noise: Any, *arguments: Any, **options: Any) -> Any:
        seen: list[float] = []

        class Still:
            def gamma_norm(self, found: Any, **_: Any) -> Any:
                seen.extend(float(value) for value in found)
                return []

        quiet(Still(), *arguments, **options)  # type: ignore[arg-type]
        return seen

    features = tried.mechanism.features_of(tried.domain.axes)  # type: ignore[attr-defined]
    loaded = tried.mechanism.loaded(tried.plan.schema)  # type: ignore[attr-defined]
    middle = centre(
        None, features, tried.numbers(rows), loaded.sets[0].codes, loaded.sets[0].base,
        normaliser=tried.plan.facts["nominal_rows"],
        calibration=exact.plan.settings.calibration,
    )  # fmt: skip
    return (values - np.array(middle)) / scale


def test_law_of_the_noise_in_one_dimension() -> None:
    """d = 1: density exp(-|z|)/2. 1,200 draws, 12 cells; 5 deviations: false alarm below 1e-4.
    Twice the scale is found."""
    draws = noise_of(line_subject(), (0, 2, 3), 1200)[:, 0]
    edges = np.array([-3.0, -2.0, -1.2, -0.7, -0.3, 0.0, 0.3, 0.7, 1.2, 2.0, 3.0])
    law = np.where(edges < 0, np.exp(-np.abs(edges)) / 2, 1 - np.exp(-np.abs(edges)) / 2)
    chances = np.diff(np.append(0.0, law))
    cells = np.searchsorted(edges, draws)
    counts = np.bincount(cells, minlength=len(edges) + 1).astype(float)
    assert chi_square(counts, chances) < 5.0
    assert (
        chi_square(
            np.bincount(np.searchsorted(edges, 2.0 * draws), minlength=12).astype(float), chances
        )
        > 5.0
    )


def test_law_of_the_noise_in_two_dimensions() -> None:
    """d = 2: density exp(-|z|) / (2 pi), integrated numerically over 16 squares and the rest. False
    alarm below 1e-4."""
    method = ImportanceWeights(public=TOSSES, variant="output", regularization="1/4")
    tried = audit.subject(method, schema_of(RELATIONS["replace-one"], TINY), ONE)
    draws = noise_of(tried, (0, 1, 1), 1200)
    edges = np.linspace(-3.0, 3.0, 5)
    fine = np.linspace(-3.0, 3.0, 1201)
    middle = (fine[1:] + fine[:-1]) / 2
    density = (
        np.exp(-np.hypot(middle[:, None], middle[None, :]))
        / (2 * math.pi)
        * (fine[1] - fine[0]) ** 2
    )
    chances = density.reshape(4, 300, 4, 300).sum(axis=(1, 3)).ravel()
    inside = (np.abs(draws) < 3.0).all(axis=1)
    places = np.clip(np.searchsorted(edges, draws) - 1, 0, 3)
    counts = np.bincount(
        np.where(inside, 4 * places[:, 0] + places[:, 1], 16), minlength=17
    ).astype(float)
    assert chi_square(counts, chances) < 5.0


def test_sampled_bound_is_below_the_claim() -> None:
    """False-alarm rate 1e-6. With 600 runs a true epsilon of about 3 would be found."""
    tried = line_subject("replace-one")

    def sign(noise: Any, rows: Any) -> bool:
        return bool(np.asarray(tried(noise, rows).tables["coefficients"]["value"])[0] > 0)

    report = audit.sampled(sign, [((0, 0, 0), (3, 0, 0))], epsilon=1, samples=600)
    assert report.passed, report.summary()
