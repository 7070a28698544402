"""Dimensions against their definitions, bounds against the inequalities they come from, and the
known counter-example."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpublish import audit
from dpublish.errors import PlanError
from dpublish.workloads import theory

CUBE = np.array(list(itertools.product((0, 1), repeat=3)))


def brute_vc(table: np.ndarray) -> int:
    best = 0
    for size in range(1, table.shape[1] + 1):
        for subset in itertools.combinations(range(table.shape[1]), size):
            if len(np.unique(table[:, subset], axis=0)) == 2**size:
                best = size
    return best


def test_known_dimensions() -> None:
    points = np.arange(6)
    intervals = np.array(
        [(points >= a) & (points <= b) for a in range(6) for b in range(a, 6)]
        + [np.zeros(6, dtype=bool)]
    )
    assert theory.vc_dimension(intervals) == 2
    thresholds = np.array([points >= t for t in range(7)])
    assert theory.vc_dimension(thresholds) == 1
    assert theory.vc_dimension(CUBE) == 3
    assert theory.vc_dimension(np.ones((1, 4))) == 0


@pytest.mark.parametrize("seed", range(8))
def test_vc_agrees_with_the_definition_and_with_fat_shattering(seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 2, (12, 5))
    assert theory.vc_dimension(table) == brute_vc(table)
    assert theory.fat_shattering_dimension(table, 0.5) == brute_vc(table)
    assert theory.vc_dimension(table) <= theory.log2_bound(12)


def test_fat_shattering_shrinks_with_the_scale() -> None:
    soft = 0.5 + 0.3 * (CUBE - 0.5)  # values 0.35 and 0.65
    assert theory.fat_shattering_dimension(soft, 0.15) == 3
    assert theory.fat_shattering_dimension(soft, 0.2) == 0
    with pytest.raises(PlanError):
        theory.fat_shattering_dimension(soft, 0.6)


def test_interval_bound_satisfies_its_union_bound() -> None:
    accuracy, failure, privacy, bits = 0.1, 0.05, 1.0, 20
    n = theory.interval_sample_size(accuracy, failure, privacy, bits)

    def failing(rows: int) -> float:
        return 4 * bits / accuracy * math.exp(-privacy * accuracy**3 * rows / (32 * bits))

    assert failing(n) <= failure < failing(n - 2)
    assert theory.interval_error(n, privacy, bits, failure) == pytest.approx(accuracy, rel=1e-3)
    assert theory.interval_error(10, privacy, bits) == 1.0


def test_sample_sizes_grow_as_the_theorems_say() -> None:
    base = theory.release_sample_size(0.1, 0.05, 1, universe_bits=10, queries=1000)
    assert theory.release_sample_size(0.05, 0.05, 1, universe_bits=10, queries=1000) > 7 * base
    assert theory.release_sample_size(
        0.1, 0.05, 0.5, universe_bits=10, queries=1000
    ) == pytest.approx(2 * base, rel=1e-3)
    few, many = (theory.median_sample_size(0.1, 1, queries=k, universe=1024) for k in (100, 10_000))
    assert many < 10 * few  # a power of log k, not of k
    assert theory.laplace_error(1000, 1, queries=10_000) > 90 * theory.laplace_error(
        1000, 1, queries=100
    )
    assert theory.linear_sample_size(0.1, 0.05, 1, universe=1024, queries=1000) > 0
    sizes = theory.halfspace_parameters(0.1, 0.05, 0.2, bits=10, columns=5)
    assert sizes["k"] > 1000, "the theorem's k is astronomical, which is why k is a setting"
    assert theory.halfspace_log10_sample_size(0.1, 0.05, 0.2, 1, bits=10, columns=5) > 1000


def test_lower_bounds() -> None:
    assert theory.parity_lower_bound(800) == pytest.approx(1 / 80)


def test_distributional_privacy_has_its_counter_example() -> None:
    """The mirrored-mod query is epsilon-DP for neighbours, and two samples of one population differ
    by far more."""
    modulus = 5

    def mechanism(noise: Any, ones: int) -> int:
        folded = np.array([theory.mirrored_mod(ones, modulus)])
        return int(noise.laplace(folded, sensitivity=Fraction(1), epsilon=Fraction(1, 2))[0])

    near = [(ones, ones + 1) for ones in range(12)]
    assert audit.exact(mechanism, near, epsilon=Fraction(1, 2), window=(-2, 7)).passed
    rng = np.random.default_rng(1)
    samples = rng.binomial(100, 0.5, 40).tolist()  # whole data sets, redrawn from one population
    far = [(samples[0], other) for other in samples[1:]]
    assert not audit.exact(mechanism, far, epsilon=Fraction(1, 2), window=(-2, 7)).passed
    assert theory.distributional_gap(samples, modulus=modulus, privacy=0.5) == pytest.approx(2.0)


def test_mirrored_mod_has_slope_one() -> None:
    values = [theory.mirrored_mod(x, 4) for x in range(20)]
    assert max(abs(a - b) for a, b in itertools.pairwise(values)) == 1
    assert values[:8] == [0, 1, 2, 3, 3, 2, 1, 0]


@pytest.mark.parametrize("bad", [0, 1, -0.5])
def test_bad_shares(bad: float) -> None:
    with pytest.raises(PlanError):
        theory.interval_sample_size(bad, 0.05, 1, 10)


def test_a_shattered_set_is_found_and_is_no_larger_than_the_dimension() -> None:
    rng = np.random.default_rng(4)
    for shape in ((6, 4), (40, 9), (200, 12)):
        table = rng.random(shape) < 0.5
        found = theory.shattered_points(table)
        assert 1 <= found <= theory.vc_dimension(table)
    every = [[code >> bit & 1 for bit in range(4)] for code in range(16)]
    assert theory.shattered_points(every) == theory.vc_dimension(every) == 4
    assert theory.shattered_points([[1, 1, 1]]) == 0
    with pytest.raises(PlanError, match="More than 3 sets"):
        theory.vc_dimension(every, limit=3)
    with pytest.raises(PlanError, match="More than 3 sets"):
        theory.fat_shattering_dimension(every, 0.5, limit=3)


def test_what_a_class_shatters() -> None:
    every = np.array([[code >> bit & 1 for bit in range(4)] for code in range(16)], dtype=float)
    assert theory.class_dimension(every) == (4, 0.5, "shatters 4 points")
    soft = 0.2 + 0.6 * every[:, :2]
    assert theory.class_dimension(soft) == (2, 0.25, "shatters 2 points with a gap of 1/4")
    for relation in ("replace-one", "add-remove-one"):
        assert (
            theory.class_sentences([[0.5, 0.5]], rows=100, epsilon=1.0, neighbours=relation) == []
        )
        (sentence,) = theory.class_sentences(every, rows=100, epsilon=1.0, neighbours=relation)
        assert "in expectation, or below" in sentence
        assert "shatters 4 points" in sentence


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_what_online_plans_say(relation: str) -> None:
    noise, least = theory.online_sentences(
        rows=1000, epsilon=1.0, queries=1000, cells=64, neighbours=relation, rows_per_unit=2
    )
    assert f"{2 * 1000 * math.log(1000 / 0.05):,.4g} rows" in noise
    assert "the 512 sets of 9 cells" in least
    one = theory.online_sentences(
        rows=1000, epsilon=1.0, queries=1, cells=64, neighbours=relation, rows_per_unit=1
    )
    assert len(one) == 1


def test_a_class_moves_by_what_its_queries_share() -> None:
    """Cells of one marginal do not overlap: one row is in one cell of each."""
    pairs = np.array([[a, b] for a in range(3) for b in range(4)])
    marginals = [pairs[:, 0] == a for a in range(3)] + [pairs[:, 1] == b for b in range(4)]
    marginals += [(pairs == (a, b)).all(axis=1) for a in range(3) for b in range(4)]
    table = np.array(marginals, dtype=np.uint8)
    assert theory.class_sensitivity(table, neighbours="add-remove-one") == 3
    assert theory.class_sensitivity(table, neighbours="replace-one") == 6
    assert theory.class_sensitivity(table, neighbours="replace-one", rows_per_unit=5) == 30
    rng = np.random.default_rng(2)
    for _ in range(20):
        soft = rng.random((6, 5))
        far = max(float(np.abs(soft[:, a] - soft[:, b]).sum()) for a in range(5) for b in range(5))
        assert theory.class_sensitivity(soft, neighbours="replace-one") == pytest.approx(far)
        assert theory.class_sensitivity(soft, neighbours="add-remove-one") == pytest.approx(
            soft.sum(axis=0).max()
        )


def test_a_large_class_moves_by_no_more_than_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    tables = [rng.integers(0, 2, (30, 8)) for _ in range(10)] + [
        rng.random((30, 8)) / 3 + 0.3 for _ in range(10)
    ]
    exact = [theory.class_sensitivity(table, neighbours="replace-one") for table in tables]
    monkeypatch.setattr(theory, "MAX_COMPARED", 0)
    bounds = [theory.class_sensitivity(table, neighbours="replace-one") for table in tables]
    assert all(found <= bound + 1e-9 for found, bound in zip(exact, bounds, strict=True))
    assert all(bound <= 30 for bound in bounds)


def test_unions_of_intervals_are_answered_at_once() -> None:
    """A plain tree over 16 positions, all 2,516 unions of at most two intervals, 200 trees of noise
    with a fixed seed: none errs by more than theorem 7 allows at 5%, and a fifth of it is not
    enough. The rows that are needed grow at most linearly with the number of intervals."""
    bits, failure, places = 4, 0.05, range(17)
    unions = set()
    for count in (1, 2):
        for ends in itertools.combinations(places, 2 * count):
            unions.add(
                frozenset(
                    x for a, b in zip(ends[::2], ends[1::2], strict=True) for x in range(a, b)
                )
            )
    assert len(unions) == math.comb(17, 2) + math.comb(17, 4)
    nodes = [
        frozenset(range(first, first + (16 >> depth)))
        for depth in range(1, bits + 1)
        for first in range(0, 16, 16 >> depth)
    ]
    used = np.zeros((len(unions), len(nodes)))
    for row, union in enumerate(unions):
        left = set(union)
        for column, node in enumerate(nodes):  # the largest nodes come first
            if node <= left:
                left -= node
                used[row, column] = 1
        assert not left
    assert used.sum(axis=1).max() <= 2 * theory.box_nodes((bits,))
    noise = np.random.default_rng(7).laplace(scale=bits, size=(len(nodes), 200))
    worst = np.abs(used @ noise).max(axis=0)
    allowed = 0.01 * theory.union_sample_size(0.01, failure, 1.0, bits=bits, intervals=2)
    assert np.mean(worst > allowed) <= failure
    assert np.mean(worst > allowed / 5) > failure
    sizes = [theory.union_sample_size(0.05, 0.05, 1, bits=20, intervals=t) for t in (1, 2, 4, 8)]
    assert all(one < two < 2 * one for one, two in itertools.pairwise(sizes))
    with pytest.raises(PlanError):
        theory.union_sample_size(0.05, 0.05, 1, bits=0, intervals=1)


def test_theorem_60_for_a_number_of_sets() -> None:
    """Nothing for few sets; then of order log2 m / (8 privacy), and never more than the k elements
    of a set, of which there are at most ln m / privacy."""
    assert theory.set_cover_lower_bound(20, 1.0) == 1
    found = [theory.set_cover_lower_bound(10**power, 0.5) for power in (6, 9, 12)]
    assert found == sorted(found)
    assert found[-1] > math.log2(10**12) / (8 * 0.5)
    assert found[-1] < 12 * math.log(10) / 0.5
    with pytest.raises(PlanError):
        theory.set_cover_lower_bound(1, 1.0)


def test_nets_meet_their_inequalities_and_hardly_more() -> None:
    def left(points: int, reach: float) -> float:
        return points * max(0.0, reach - math.sqrt(math.log(4) / (2 * points))) ** 2 / 2

    for accuracy, d in ((0.1, 1), (0.1, 7), (0.4, 3)):
        steps = math.floor(16 / accuracy)

        def log_functions(m: int, d: int = d, steps: int = steps) -> float:
            pairs = d * math.log2(2 * math.e * m * (steps - 1) / d)
            return math.log(8) + (math.floor(pairs) + 1) * math.log(2 * m * steps**2)

        points = theory.fat_net_size(accuracy, d)
        assert log_functions(points) < left(points, 0.75 * accuracy)
        assert log_functions(points - 1) >= left(points - 1, 0.75 * accuracy)
        points = theory.net_size(2 * accuracy, vc=d)
        for m, enough in ((points, True), (points - 1, False)):
            patterns = math.log(4) + d * math.log(2 * math.e * m / d)
            assert (patterns < left(m, accuracy)) == enough
    sizes = [theory.fat_net_size(0.1, dimension) for dimension in range(5)]
    assert sizes == sorted(set(sizes))


def test_patterns_shatter_as_many_sets_as_there_are_and_levels_enough_pairs() -> None:
    """Steps 3 and 4 of the derivation of nets, on random classes."""
    draw = np.random.default_rng(3)
    for _ in range(30):
        table = np.unique(draw.integers(0, 2, (draw.integers(1, 20), 5)), axis=0)
        shattered = sum(
            len(np.unique(table[:, list(chosen)], axis=0)) == 2**size
            for size in range(6)
            for chosen in itertools.combinations(range(5), size)
        )
        assert shattered >= len(table)
    points, top = 6, 2
    apart = np.array(list(itertools.product((0, 2), repeat=points)))
    needed = 2 * points * top**2
    for _ in range(20):  # levels from 0 to 2: the one level is 1
        held = draw.permutation(apart)[:needed]
        pairs = sum(
            len(np.unique(held[:, list(chosen)], axis=0)) == 2**size
            for size in range(1, 4)
            for chosen in itertools.combinations(range(points), size)
        )
        assert pairs >= 2


def test_two_samples_that_agree_give_a_net() -> None:
    """Step 1, with every sample of four of three points listed: whenever two samples seldom differ
    by more than b - h on a class, some sample is within b of the data; for some of these
    classes no sample is within b / 40, so that there is something to show."""
    draw, size, reach = np.random.default_rng(4), 4, 0.6
    h = math.sqrt(math.log(4) / (2 * size))
    samples = np.array(list(itertools.product(range(3), repeat=size)))
    shares = np.stack([(samples == point).mean(axis=1) for point in range(3)], axis=1)
    used = sharp = 0
    for _ in range(40):
        table = draw.random((4, 3)) * draw.random()
        law = draw.dirichlet(np.ones(3))
        chance = law[samples].prod(axis=1)
        means = shares @ table.T
        apart = np.abs(means[:, None] - means[None]).max(axis=2) > reach - h
        nearest = np.abs(means - law @ table.T).max(axis=1).min()
        if chance @ apart @ chance < 0.5:
            used += 1
            assert nearest <= reach
        sharp += nearest > reach / 40
    assert used >= 10
    assert sharp >= 5


def test_theorem_31_takes_the_smaller_of_its_two_forms() -> None:
    fat = theory.linear_sample_size(0.1, 0.05, 1, universe=1024, dimension=1)
    listed = theory.linear_sample_size(0.1, 0.05, 1, universe=1024, queries=1000)
    both = theory.linear_sample_size(0.1, 0.05, 1, universe=1024, queries=1000, dimension=1)
    assert listed == both < fat
    endless = 1 << 10_000_000
    assert (
        theory.linear_sample_size(0.1, 0.05, 1, universe=1024, queries=endless, dimension=1) == fat
    )
    with pytest.raises(PlanError):
        theory.linear_sample_size(0.1, 0.05, 1, universe=1024)


def hidden_parity_laws(channel: np.ndarray, attributes: int) -> np.ndarray:
    """The law of a report for every hidden set; `channel` has a row per record (x, y)."""
    records = np.array(list(itertools.product((0, 1), repeat=attributes)))
    laws = []
    for size in range(attributes + 1):
        for chosen in itertools.combinations(range(attributes), size):
            last = records[:, list(chosen)].sum(axis=1) % 2
            laws.append(channel[2 * np.arange(len(records)) + last].mean(axis=0))
    return np.array(laws)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_no_local_randomizer_names_a_hidden_parity_more_often_than_is_stated(
    epsilon: float,
) -> None:
    """Randomizers at the corners of what epsilon allows, for one and two people, and parities of
    the set that is asked for; the best guess follows from the laws."""
    draw = np.random.default_rng(7)
    best = 0.0
    for attributes in (2, 3):
        sets = 2**attributes
        asked = np.array(list(itertools.product((0, 1), repeat=attributes + 1)))
        for trial in range(60):
            corners = draw.integers(2, size=(2 ** (attributes + 1), 3))
            if trial == 0:  # the parity of all, through randomised response
                corners = np.stack([asked.sum(axis=1) % 2, 1 - asked.sum(axis=1) % 2], axis=1)
            channel = np.exp(epsilon * corners)
            channel = channel / channel.sum(axis=1, keepdims=True)
            loss = np.log((channel.max(axis=0) / channel.min(axis=0)).max())
            laws = hidden_parity_laws(channel, attributes)
            two = np.einsum("vi,vj->vij", laws, laws).reshape(sets, -1)
            for people, each in ((1, laws), (2, two)):
                named = float(each.max(axis=0).sum()) / sets
                assert named <= theory.hidden_parity_chance(people, loss, sets=sets) + 1e-12
                best = max(best, named * sets)
    assert best > 1.05  # reports do say something


def test_hidden_parities_need_people_in_proportion_to_the_sets() -> None:
    assert theory.hidden_parity_chance(0, 1.0, sets=50) == 1 / 50
    assert theory.hidden_parity_chance(10**9, 1.0, sets=50) == 1.0
    few, many = (theory.hidden_parity_chance(n, 1.0, sets=n) for n in (10**4, 10**6))
    assert few == pytest.approx(many, abs=1e-3)
    with pytest.raises(PlanError):
        theory.hidden_parity_chance(1, 1.0, sets=0)
