"""Exact choices and the sparse vector. Statistical tests: false-alarm rate 1e-6 each, fixed seeds,
so no run-to-run change."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from counted_words import ALPHA, TOP, RiggedStream, p_value
from flint import arb, ctx

import dpublish.noise.gaussian as laplace_module
from dpublish.errors import BudgetExceeded, InputError
from dpublish.noise import select
from dpublish.noise.select import SparseVector, choose_index, sieve, sparse_vector_scales
from dpublish.noise.words import SeededStream, WordStream


def above_threshold(
    stream: WordStream,
    values: Iterable[int],
    *,
    threshold: int,
    epsilon: Fraction,
    sensitivity: Fraction,
    max_hits: int = 1,
    monotone: bool = False,
) -> list[bool]:
    """The answers of one `SparseVector` to the values in order, ending with the `max_hits`-th yes
    if there are so many."""
    vector = SparseVector(
        stream, epsilon=epsilon, sensitivity=sensitivity, max_hits=max_hits, monotone=monotone
    )
    answers: list[bool] = []
    for value in values:
        if vector.hits == max_hits:
            break
        answers.append(vector.above(value, threshold=threshold))
    return answers


RULES = ("permute-and-flip", "exponential")


def exponential_law(scores: Sequence[Fraction], exponent: Fraction) -> list[float]:
    weights = [math.exp(exponent * (q - max(scores))) for q in scores]
    return [w / math.fsum(weights) for w in weights]


def permute_and_flip_law(scores: Sequence[Fraction], exponent: Fraction) -> list[float]:
    """By its definition: over all orders, the first heads. The best candidate's coin is certain, so
    somebody always wins."""
    weights = [math.exp(exponent * (q - max(scores))) for q in scores]
    law = [0.0] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        reach = 1.0
        for i in order:
            law[i] += reach * weights[i]
            reach *= 1 - weights[i]
    return [p / math.factorial(len(scores)) for p in law]


LAWS = {"exponential": exponential_law, "permute-and-flip": permute_and_flip_law}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("scores", "exponent"),
    [
        ([Fraction(0), Fraction(3), Fraction(5, 2), Fraction(3, 2), Fraction(1)], Fraction(1)),
        ([Fraction(10), Fraction(14), Fraction(20)], Fraction(1, 4)),
    ],
)
def test_a_choice_has_its_exact_law(scores: list[Fraction], exponent: Fraction, rule: str) -> None:
    # The same sample must reject the law with the exponent ten per cent larger; at 16,000 draws the
    # power is 0.9999.
    stream = SeededStream(21)
    counts = [0] * len(scores)
    for _ in range(16_000):
        counts[choose_index(stream, scores, exponent=exponent, rule=rule)] += 1
    assert p_value(counts, LAWS[rule](scores, exponent)) > ALPHA
    assert p_value(counts, LAWS[rule](scores, exponent * Fraction(11, 10))) < ALPHA


@pytest.mark.parametrize("rule", RULES)
def test_exponent_zero_is_a_uniform_choice(rule: str) -> None:
    # Catches one of six candidates being 1.5 times as likely as the others (power above 0.999).
    stream, counts = SeededStream(22), [0] * 6
    scores = np.array([5, -(2**63), 2**63 - 1, 0, 0, 17], dtype=np.int64)
    for _ in range(6000):
        counts[choose_index(stream, scores, exponent=Fraction(0), rule=rule)] += 1
    assert p_value(counts, [1 / 6] * 6) > ALPHA
    assert p_value(counts, [p / 6.5 for p in (1.5, 1, 1, 1, 1, 1)]) < ALPHA


@pytest.mark.parametrize("rule", RULES)
def test_a_huge_exponent_leaves_a_uniform_choice_among_the_best(rule: str) -> None:
    stream, counts = SeededStream(23), [0] * 5
    for _ in range(3000):
        counts[
            choose_index(stream, [3, 7, 7, -(10**300), 6], exponent=Fraction(10) ** 400, rule=rule)
        ] += 1
    assert counts[0] == counts[3] == counts[4] == 0
    assert p_value(counts[1:3], [0.5, 0.5]) > ALPHA


@pytest.mark.parametrize("rule", RULES)
def test_every_way_to_write_the_same_weights_makes_the_same_choice(rule: str) -> None:
    big = 10**300
    for seed in range(150):
        plain = choose_index(SeededStream(seed), [0, 2, 1, 2], exponent=Fraction(2, 3), rule=rule)
        ways: list[tuple[object, Fraction]] = [
            (np.array([0, 2, 1, 2]), Fraction(2, 3)),
            (np.array([5, 7, 6, 7], dtype=np.int8), Fraction(2, 3)),
            (np.array([0, 2, 1, 2], dtype=np.uint64) + np.uint64(2**63), Fraction(2, 3)),
            (np.array([-(2**63), -(2**63) + 2, -(2**63) + 1, -(2**63) + 2]), Fraction(2, 3)),
            ([0, 2 * big, big, 2 * big], Fraction(2, 3 * big)),
            (
                [Fraction(0), Fraction(2, big), Fraction(1, big), Fraction(2, big)],
                Fraction(2 * big, 3),
            ),
            ([Fraction(1, 3), Fraction(7, 3), Fraction(4, 3), Fraction(7, 3)], Fraction(2, 3)),
            ([np.int64(-2), np.int64(0), np.int64(-1), 0], Fraction(2, 3)),
        ]
        for scores, exponent in ways:
            assert choose_index(SeededStream(seed), scores, exponent=exponent, rule=rule) == plain


@pytest.mark.parametrize("rule", RULES)
def test_float_bounds_and_ball_arithmetic_agree(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(24)
    cases = [rng.integers(0, 12, size) for size in (1, 2, 9, 40) for _ in range(30)]
    cases += [rng.integers(-(2**63), 2**63 - 1, size) for size in (2, 9) for _ in range(10)]
    exponents = [Fraction(1, 3), Fraction(1, 2**62)]

    def all_choices() -> list[int]:
        return [
            choose_index(SeededStream(seed), scores, exponent=exponent, rule=rule)
            for seed, scores in enumerate(cases)
            for exponent in exponents
        ]

    fast = all_choices()
    monkeypatch.setattr(
        select, "_contenders", lambda uniforms, low, high, rule: list(range(len(low)))
    )
    assert all_choices() == fast


@pytest.mark.parametrize("flip", [False, True])
def test_the_sieve_bounds_contain_the_keys(flip: bool) -> None:
    """One candidate against another with a gap just inside or outside: what the sieve drops has
    certainly lost."""
    rng = np.random.default_rng(25)
    edges = [
        0,
        1,
        2,
        3,
        TOP,
        TOP - 1,
        1 << 63,
        (1 << 63) - 1,
        (1 << 53) + 1,
        (1 << 54) - 1,
        *(1 << k for k in range(0, 64, 7)),
    ]
    words = np.array(
        [*edges, *rng.integers(0, 1 << 63, 400, dtype=np.uint64).tolist()], dtype=np.uint64
    )
    rng.shuffle(words)
    with ctx.workprec(128):
        # a little less than all reals with these bits, or the ends 0 and 1 would have no logarithm
        waits = [-((arb(int(w)) + arb("0.5 +/- 0.4999")) / arb(2) ** 64).log() for w in words]
        keys = [-wait.log() if flip else wait for wait in waits]
    for start in range(0, len(words) - 8, 8):
        gap = rng.random(8) * 3
        part = slice(start, start + 8)
        kept = set(sieve(words[part], gap, gap, flip).tolist())
        with ctx.workprec(128):
            totals = [key - arb(float(g)) for key, g in zip(keys[part], gap, strict=True)]
            for lost in set(range(8)) - kept:
                assert any(totals[lost] < totals[other] for other in kept)


@pytest.mark.parametrize("size", [1, 1023, 1024, 1025, 5000])
def test_all_pieces_are_searched(size: int) -> None:
    for place in {0, size // 2, size - 1}:
        scores = np.zeros(size, dtype=np.int64)
        scores[place] = 10**6
        for rule in RULES:
            assert (
                choose_index(SeededStream(place), scores, exponent=Fraction(1), rule=rule) == place
            )


@pytest.mark.parametrize("first", [0, 1, 12345, 1 << 63, TOP])
@pytest.mark.parametrize("smaller", [0, 1])
def test_equal_words_are_settled_by_later_bits_of_the_same_uniforms(
    first: int, smaller: int
) -> None:
    # The next 64 bits of both tie as well (5 and 5); then come 128 bits of each, low word first,
    # and the high words differ.
    high = (3, 7) if smaller == 0 else (7, 3)
    words = [first, first, 5, 5, 5, high[0], 5, high[1]]
    # Permute-and-flip is won by the smaller uniform, the exponential race by the larger one.
    for rule, winner in (("permute-and-flip", smaller), ("exponential", 1 - smaller)):
        stream = RiggedStream(words)
        assert choose_index(stream, [4, 4], exponent=Fraction(1), rule=rule) == winner
        assert stream.drawn == len(words)


def test_a_near_tie_between_different_scores_is_decided_exactly() -> None:
    # Candidate 0 wins exactly when e U0 < U1. Words this close to the boundary are far inside the
    # error of float64.
    u0 = 1 << 62
    with ctx.workprec(200):
        boundary = int((arb(u0) * arb(1).exp()).floor().unique_fmpz())
    for u1, winner in ((boundary + 8, 0), (boundary - 8, 1)):
        stream = RiggedStream([u0, u1])
        assert choose_index(stream, [0, 1], exponent=Fraction(1), rule="permute-and-flip") == winner
        assert stream.drawn == 2
    # On the boundary itself the known bits do not settle it, and the answer is that of the longer
    # uniforms.
    winners = set()
    for seed in range(40):
        stream = RiggedStream([u0, boundary + 1], seed)
        winner = choose_index(stream, [0, 1], exponent=Fraction(1), rule="permute-and-flip")
        assert stream.drawn == 4
        again = RiggedStream([u0, boundary + 1], seed)
        again.words(2)
        longer0, longer1 = (u0 << 64) + again.bits(64), (boundary + 1 << 64) + again.bits(64)
        with ctx.workprec(300):
            assert (arb(longer0) * arb(1).exp() < arb(longer1)) == (winner == 0)
        winners.add(winner)
    assert winners == {0, 1}


@pytest.mark.parametrize("rule", RULES)
def test_one_dominant_candidate_among_many_costs_one_word_each(rule: str) -> None:
    scores = np.zeros(200_000, dtype=np.int64)
    scores[123_456] = 10**9
    stream = RiggedStream([], seed=26)
    assert choose_index(stream, scores, exponent=Fraction(1), rule=rule) == 123_456
    assert stream.drawn == 200_000


@pytest.mark.parametrize(
    ("scores", "exponent", "rule"),
    [
        ([], Fraction(1), "exponential"),
        ([1.0, 2.0], Fraction(1), "exponential"),
        (np.array([1.0, 2.0]), Fraction(1), "exponential"),
        (np.array([[1, 2]]), Fraction(1), "exponential"),
        ([1, 2], Fraction(-1), "exponential"),
        ([1, 2], Fraction(1), "softmax"),
    ],
)
def test_wrong_arguments_are_refused(scores: object, exponent: Fraction, rule: str) -> None:
    with pytest.raises(InputError):
        choose_index(SeededStream(0), scores, exponent=exponent, rule=rule)


# Sparse vector


def laplace_pmf(scale: Fraction, window: int) -> np.ndarray:
    r = math.exp(-1 / scale)
    return np.array([(1 - r) / (1 + r) * r ** abs(x) for x in range(-window, window + 1)])


def sparse_law(
    values: Sequence[int], *, scales: tuple[Fraction, Fraction], max_hits: int, window: int = 600
) -> dict[str, float]:
    """Probability of each transcript such as "001" (threshold 0), by summing over the threshold
    noise."""
    start = laplace_pmf(scales[0], window)
    tail = np.cumsum(laplace_pmf(scales[1], 3 * window)[::-1])[
        ::-1
    ]  # tail[j] = P(noise >= j - 3 window)
    rho = np.arange(-window, window + 1)
    law: dict[str, float] = {}

    def extend(transcript: str, reach: np.ndarray) -> None:
        if len(transcript) == len(values) or transcript.count("1") == max_hits:
            law[transcript] = float(reach.sum())
            return
        hit = tail[rho - values[len(transcript)] + 3 * window]
        extend(transcript + "1", reach * hit)
        extend(transcript + "0", reach * (1 - hit))

    extend("", start)
    return law


def test_sparse_vector_has_its_exact_law() -> None:
    # The same sample must reject the law of noise ten per cent smaller (power 0.9998 at 8,000
    # transcripts).
    values, epsilon, hits = [-3, 2, -9, 4], Fraction(3), 2
    stream, counts = SeededStream(31), {}
    scales = sparse_vector_scales(epsilon=epsilon, sensitivity=Fraction(1), max_hits=hits)
    law = sparse_law(values, scales=scales, max_hits=hits)
    assert math.isclose(sum(law.values()), 1, abs_tol=1e-12)
    for _ in range(8_000):
        answers = above_threshold(
            stream, values, threshold=0, epsilon=epsilon, sensitivity=Fraction(1), max_hits=hits
        )
        key = "".join("01"[a] for a in answers)
        counts[key] = counts.get(key, 0) + 1
    assert set(counts) <= set(law)
    seen = [counts.get(key, 0) for key in law]
    assert p_value(seen, list(law.values())) > ALPHA
    wrong = sparse_law(
        values, scales=(scales[0] / Fraction(11, 10), scales[1] / Fraction(11, 10)), max_hits=hits
    )
    assert p_value(seen, [wrong[key] for key in law]) < ALPHA


def worst_loss(scales: tuple[Fraction, Fraction], *, max_hits: int, monotone: bool) -> float:
    """The largest log-ratio over neighbouring value lists near the threshold and over all
    transcripts."""
    worst = 0.0
    moves = [(1, 1, 1), (-1, -1, -1)] if monotone else list(itertools.product((-1, 1), repeat=3))
    for values in itertools.product((-8, 0, 8), repeat=3):
        law = sparse_law(values, scales=scales, max_hits=max_hits)
        for move in moves:
            other = sparse_law(
                [v + m for v, m in zip(values, move, strict=True)], scales=scales, max_hits=max_hits
            )
            worst = max(worst, max(abs(math.log(law[key] / other[key])) for key in law))
    return worst


@pytest.mark.parametrize(("max_hits", "monotone"), [(1, False), (2, False), (2, True), (3, True)])
def test_sparse_vector_loses_at_most_epsilon(max_hits: int, monotone: bool) -> None:
    scales = sparse_vector_scales(
        epsilon=Fraction(1), sensitivity=Fraction(1), max_hits=max_hits, monotone=monotone
    )
    assert worst_loss(scales, max_hits=max_hits, monotone=monotone) <= 1


def test_the_loss_check_finds_a_missing_factor() -> None:
    # Noise on the values that ignores the number of hits: a known mistake in published variants.
    scales = sparse_vector_scales(epsilon=Fraction(1), sensitivity=Fraction(1), max_hits=3)
    assert worst_loss((scales[0], scales[1] / 6), max_hits=3, monotone=False) > 1


def test_scales_add_up_to_epsilon() -> None:
    for hits, monotone in itertools.product((1, 2, 7, 1000), (False, True)):
        threshold, value = sparse_vector_scales(
            epsilon=Fraction(1, 3), sensitivity=Fraction(5), max_hits=hits, monotone=monotone
        )
        moves = hits if monotone else 2 * hits
        assert 5 / threshold + moves * 5 / value == Fraction(1, 3)


def test_the_cube_root_is_rounded_up_exactly() -> None:
    for n in [*range(1, 1200), 10**60, 10**60 - 1, 10**60 + 1]:
        root = select._ceil_cube_root(n)
        assert (root - 1) ** 3 < n <= root**3


def test_sparse_vector_refuses_after_its_hits() -> None:
    vector = SparseVector(
        SeededStream(32), epsilon=Fraction(1), sensitivity=Fraction(1), max_hits=2
    )
    assert not vector.above(-(10**6), threshold=0)
    assert vector.above(10**30, threshold=0)
    assert vector.above(np.int64(10**6), threshold=0)
    assert vector.hits == 2
    for value in (10**6, -(10**6)):
        with pytest.raises(BudgetExceeded):
            vector.above(value, threshold=0)


def test_threads_cannot_share_the_last_hit() -> None:
    vector = SparseVector(
        SeededStream(33), epsilon=Fraction(1), sensitivity=Fraction(1), max_hits=20
    )
    answers: list[bool] = []

    def ask() -> None:
        for _ in range(10):
            try:
                answers.append(vector.above(10**6, threshold=0))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 20


def test_above_threshold_stops_at_the_last_hit() -> None:
    answers = above_threshold(
        SeededStream(34),
        [-(10**6), 10**6, 5, 5],
        threshold=0,
        epsilon=Fraction(1),
        sensitivity=Fraction(1),
    )
    assert answers == [False, True]


def test_saturated_noise_is_continued_by_the_memoryless_tail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With saturation brought down to 2, most draws are continued. Rejects a scale wrong by ten per
    # cent (power 0.9995).
    scale, real = Fraction(5, 2), laplace_module.discrete_laplace
    monkeypatch.setattr(laplace_module, "SATURATED", 2)
    monkeypatch.setattr(
        laplace_module,
        "discrete_laplace",
        lambda stream, scale, size: np.clip(real(stream, scale, size), -2, 2),
    )
    stream, counts = SeededStream(35), [0] * 401
    for _ in range(14_000):
        counts[select._laplace(stream, scale) + 200] += 1
    assert p_value(counts, list(laplace_pmf(scale, 200))) > ALPHA
    assert p_value(counts, list(laplace_pmf(scale * Fraction(11, 10), 200))) < ALPHA


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": Fraction(0)},
        {"sensitivity": Fraction(0)},
        {"max_hits": 0},
        {"epsilon": Fraction(-1)},
    ],
)
def test_wrong_sparse_vectors_are_refused(wrong: dict[str, Fraction | int]) -> None:
    with pytest.raises(InputError):
        SparseVector(
            SeededStream(0),
            **{"epsilon": Fraction(1), "sensitivity": Fraction(1), "max_hits": 1, **wrong},
        )


def test_sparse_vector_takes_integers_only() -> None:
    vector = SparseVector(SeededStream(0), epsilon=Fraction(1), sensitivity=Fraction(1))
    with pytest.raises(InputError):
        vector.above(0.5, threshold=0)
