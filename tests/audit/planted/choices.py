"""Selections and sparse vectors that are wrong. Data are the score lists themselves unless said
otherwise."""

from __future__ import annotations

import itertools
from fractions import Fraction

from dpublish.audit import neighbours
from dpublish.methods.solvers.inputs import lists_of
from dpublish.methods.solvers.set_cover.orders import greedy_order, whole_family

from .registry import ONE, bug, by_samples, counts, exactly, replayed, whole

HALF = Fraction(1, 2)
QUARTER, THREE_QUARTERS = Fraction(1, 4), Fraction(3, 4)
ADD = list(neighbours.add_remove((0, 1), max_rows=3))
REPLACE = list(neighbours.replace_one((0, 1), rows=3))
SCORES = [
    (one, other)
    for one, other in itertools.combinations(itertools.product(range(3), repeat=2), 2)
    if max(abs(a - b) for a, b in zip(one, other, strict=True)) == 1
]


def select_then_count(noise, rows, share):
    exact = counts(rows, 2)
    best = noise.choose(exact, sensitivity=ONE, epsilon=HALF, monotone=True)
    return best, int(noise.laplace(exact[best : best + 1], sensitivity=ONE, epsilon=share)[0])


def selection_not_charged(noise, rows):
    return select_then_count(noise, rows, share=ONE)


def selection_charged(noise, rows):
    return select_then_count(noise, rows, share=HALF)


def most_common(noise, rows, monotone):
    return noise.choose(counts(rows, 2), sensitivity=ONE, epsilon=ONE, monotone=monotone)


def true_maximum(noise, rows):
    """Report noisy max without the noise: the winner is chosen by the true counts, only its count
    is noisy."""
    exact = counts(rows, 2)
    best = int(exact.argmax())
    return best, int(noise.laplace(exact[best : best + 1], sensitivity=ONE, epsilon=HALF)[0])


def permute_and_flip(noise, scores):
    return noise.choose(list(scores), sensitivity=ONE, epsilon=ONE)


def exponential(noise, scores):
    return noise.choose(list(scores), sensitivity=ONE, epsilon=ONE, rule="exponential")


# An epsilon-bounded-range choice is (epsilon/2, delta)-DP with delta at most the largest (4 - x)(x
# - 2) / (3x) in base 4, which is (6 - 2 sqrt 8)/3 = 0.11438...; permute-and-flip is epsilon-DP but
#   has no such range.
BOUNDED_RANGE_DELTA = Fraction(1144, 10_000)


def sparse_vector(noise, answers, *, threshold_noise=True):
    """Above-threshold with threshold 0 over `answers` of sensitivity 1, calibrated for one hit as
    Lyu, Su and Li (2017)."""
    shift = 0
    if threshold_noise:
        shift = int(noise.laplace(whole([0]), sensitivity=ONE, epsilon=QUARTER)[0])
    shown = []
    for answer in answers:
        noisy = int(noise.laplace(whole([answer]), sensitivity=ONE, epsilon=THREE_QUARTERS / 2)[0])
        shown.append(noisy >= shift)
        if shown[-1]:
            break
    return tuple(shown)


def without_threshold_noise(noise, answers):
    return sparse_vector(noise, answers, threshold_noise=False)


def queries_without_noise(noise, answers):
    """Only the threshold is noisy, in the belief that one draw hides all comparisons."""
    shift = int(noise.laplace(whole([0]), sensitivity=ONE, epsilon=ONE)[0])
    return tuple(answer >= shift for answer in answers)


def value_with_the_hit(noise, answers):
    """Shows the noisy value that was compared, for free (Lyu, Su and Li 2017, algorithm 3)."""
    shift = int(noise.laplace(whole([0]), sensitivity=ONE, epsilon=QUARTER)[0])
    shown = []
    for answer in answers:
        noisy = int(noise.laplace(whole([answer]), sensitivity=ONE, epsilon=THREE_QUARTERS / 2)[0])
        shown.append(noisy if noisy >= shift else None)
        if shown[-1] is not None:
            break
    return tuple(shown)


# Clipped tails are exact for comparisons with a constant threshold; with a noisy one the window
# must be wide (docs/audits.md).
vectors = exactly([((1, 1, 1), (0, 0, 0)), ((0, 1, 0), (1, 0, 1))], window=(-3, 4))

LONG = [((1,) * 100 + (0,) * 100, (0,) * 100 + (1,) * 100)]


def long_sparse_vector(noise, answers, stop):
    """The same with 200 answers at once: only the prefix up to the first hit may be shown."""
    shift = int(noise.laplace(whole([0]), sensitivity=ONE, epsilon=QUARTER)[0])
    hits = (
        noise.laplace(whole(answers), sensitivity=ONE, epsilon=THREE_QUARTERS / 2) >= shift
    ).tolist()
    return tuple(hits[: hits.index(True) + 1] if stop and True in hits else hits)


def excess_of_early_hits(shown):
    return sum(shown[:100]) - sum(shown[100:])


def cover(noise, present, step):
    """The greedy order of three sets of which one holds most elements: how its step is charged is
    what is planted."""
    part = whole_family(lists_of([[0, 1, 2], [3], [4]]), [ONE] * 3, 5)
    return tuple(greedy_order(noise, part, whole(present), step).tolist())


COVERED = [
    ((1, 1, 0, 0, 0), (1, 1, 1, 0, 0)),
    ((0, 0, 0, 1, 0), (1, 0, 0, 1, 0)),
    ((0, 0, 0, 0, 0), (0, 0, 0, 0, 1)),
]

CHOICES = (
    bug(
        "set cover that charges only the choice that covers",
        "exact",
        "privacy",
        broken=lambda noise, present: cover(noise, present, ONE),
        correct=lambda noise, present: cover(noise, present, HALF),
        run=exactly(COVERED),
    ),
    bug(
        "selection not charged",
        "exact",
        "privacy",
        broken=selection_not_charged,
        correct=selection_charged,
        run=exactly(ADD),
    ),
    bug(
        "selection not charged, seen by adding up",
        "replay",
        "claim",
        broken=selection_not_charged,
        correct=selection_charged,
        run=replayed(ADD, epsilon=ONE),
    ),
    bug(
        "monotone claimed under replace-one",
        "replay",
        "monotone",
        broken=lambda noise, rows: most_common(noise, rows, monotone=True),
        correct=lambda noise, rows: most_common(noise, rows, monotone=False),
        run=replayed(REPLACE, epsilon=ONE),
    ),
    bug(
        "monotone noise for scores that are not",
        "exact",
        "privacy",
        broken=lambda noise, rows: most_common(noise, rows, monotone=True),
        correct=lambda noise, rows: most_common(noise, rows, monotone=False),
        run=exactly(REPLACE),
    ),
    bug(
        "winner chosen by true counts",
        "replay",
        "output",
        broken=true_maximum,
        correct=selection_charged,
        run=replayed(ADD),
    ),
    bug(
        "permute-and-flip charged as bounded range",
        "exact",
        "privacy",
        broken=permute_and_flip,
        correct=exponential,
        run=exactly(SCORES, HALF, delta=BOUNDED_RANGE_DELTA, base=4),
    ),
    bug(
        "sparse vector without threshold noise",
        "exact",
        "privacy",
        broken=without_threshold_noise,
        correct=sparse_vector,
        run=vectors,
    ),
    bug(
        "sparse vector reused after its hits",
        "sampled",
        "privacy",
        broken=lambda noise, answers: long_sparse_vector(noise, answers, stop=False),
        correct=lambda noise, answers: long_sparse_vector(noise, answers, stop=True),
        run=by_samples(LONG, samples=600, statistics=[excess_of_early_hits]),
    ),
    bug(
        "sparse vector with noiseless queries",
        "exact",
        "privacy",
        broken=queries_without_noise,
        correct=sparse_vector,
        run=vectors,
    ),
    bug(
        "sparse vector that shows its noisy value",
        "exact",
        "privacy",
        broken=value_with_the_hit,
        correct=sparse_vector,
        run=vectors,
    ),
)
