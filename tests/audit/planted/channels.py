"""Leaks beside the answer: error texts, log lines, order, width, counts of steps, hidden
randomness."""

from __future__ import annotations

import logging
import random
import warnings

import numpy as np

from dpublish.audit import neighbours

from .counting import histogram
from .registry import ONE, bug, counts, replayed, whole

ADD = list(neighbours.add_remove((0, 1), max_rows=3))
ODD = [((0, 1), (0, 1, 7)), ((7,), (7, 0))]


def lenient(noise, rows):
    """A value outside the domain is dropped, by a declared rule, without a word."""
    return histogram(noise, [row for row in rows if row in (0, 1)])


def error_quotes_a_cell(noise, rows):
    for row in rows:
        if row not in (0, 1):
            raise ValueError(f"value {row} is not in the declared domain")
    return histogram(noise, rows)


def row_count_logged(noise, rows):
    logging.getLogger("release").info("loaded %d rows", len(rows))
    return histogram(noise, rows)


def step_logged(noise, rows):
    logging.getLogger("release").info("loaded the rows")
    return histogram(noise, rows)


def row_count_printed(noise, rows):
    print("rows:", len(rows))
    return histogram(noise, rows)


def dropped_rows_warned(noise, rows):
    dropped = sum(row not in (0, 1) for row in rows)
    if dropped:
        warnings.warn(f"{dropped} rows were outside the domain", stacklevel=1)
    return lenient(noise, rows)


def sorted_by_true_count(noise, rows):
    exact = counts(rows, 2)
    noisy = noise.laplace(exact, sensitivity=ONE, epsilon=ONE)
    return [(int(cell), int(noisy[cell])) for cell in np.argsort(-exact, kind="stable")]


def sorted_by_noisy_count(noise, rows):
    noisy = noise.laplace(counts(rows, 2), sensitivity=ONE, epsilon=ONE)
    return [(int(cell), int(noisy[cell])) for cell in np.argsort(-noisy, kind="stable")]


def width_from_data(noise, rows):
    exact = counts(rows, 2)
    narrow = np.int8 if exact.max(initial=0) < 2 else np.int64
    return np.clip(noise.laplace(exact, sensitivity=ONE, epsilon=ONE), -128, 127).astype(narrow)


def iterations_from_rows(noise, rows):
    """A solver that runs until the private residual is small, and reports how long that took."""
    noisy = int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0])
    residual, steps = float(len(rows)), 0
    while residual > 0.5:
        residual, steps = residual / 2, steps + 1
    return {"answer": noisy, "iterations": steps}


def iterations_from_answer(noise, rows):
    noisy = int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0])
    residual, steps = float(noisy), 0
    while residual > 0.5:
        residual, steps = residual / 2, steps + 1
    return {"answer": noisy, "iterations": steps}


def exactly_n_rows(noise, rows):
    noisy = np.maximum(noise.laplace(counts(rows, 2), sensitivity=ONE, epsilon=ONE), 1)
    return [0 if k * int(noisy.sum()) < int(noisy[0]) * len(rows) else 1 for k in range(len(rows))]


def noisy_number_of_rows(noise, rows):
    noisy = np.maximum(noise.laplace(counts(rows, 2), sensitivity=ONE, epsilon=ONE), 0)
    return [0] * int(noisy[0]) + [1] * int(noisy[1])


def label_quotes_data(noise, rows):
    return noise.laplace(
        counts(rows, 2), sensitivity=ONE, epsilon=ONE, label=f"counts of {len(rows)} rows"
    )


def noise_outside_the_tap(noise, rows):
    return len(rows) + random.randint(-3, 3)


def noise_seeded_by_data(noise, rows):
    draw = random.Random(repr(rows))
    return len(rows) + draw.randint(-3, 3)


class Remembering:
    """State that outlives a run: the second answer depends on the rows of the first."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, noise, rows):
        self.seen += 1
        return int(noise.laplace(whole([len(rows)]), sensitivity=ONE, epsilon=ONE)[0]), self.seen


def extra_draw_for_large_data(noise, rows):
    answer = histogram(noise, rows)
    if len(rows) >= 3:
        noise.integers(2, size=1)
    return answer


def kind_of_noise_from_data(noise, rows):
    exact = counts(rows, 2)
    if len(rows) < 2:
        return noise.gaussian(exact, sensitivity=ONE, rho=ONE)
    return noise.laplace(exact, sensitivity=ONE, epsilon=ONE)


CHANNELS = (
    bug(
        "error text quotes a cell",
        "replay",
        "error,number",
        broken=error_quotes_a_cell,
        correct=lenient,
        run=replayed(ODD),
    ),
    bug(
        "row count in a log line",
        "replay",
        "log",
        broken=row_count_logged,
        correct=step_logged,
        run=replayed(ADD),
    ),
    bug(
        "row count printed",
        "replay",
        "printed",
        broken=row_count_printed,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "number of dropped rows warned about",
        "replay",
        "warned",
        broken=dropped_rows_warned,
        correct=lenient,
        run=replayed(ODD),
    ),
    bug(
        "output sorted by true count",
        "replay",
        "output",
        broken=sorted_by_true_count,
        correct=sorted_by_noisy_count,
        run=replayed(ADD),
    ),
    bug(
        "array width from the data",
        "replay",
        "output",
        broken=width_from_data,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "solver iterations depend on rows",
        "replay",
        "output",
        broken=iterations_from_rows,
        correct=iterations_from_answer,
        run=replayed(ADD),
    ),
    bug(
        "exactly n synthetic rows",
        "replay",
        "output",
        broken=exactly_n_rows,
        correct=noisy_number_of_rows,
        run=replayed(ADD),
    ),
    bug(
        "label quotes the data",
        "replay",
        "label",
        broken=label_quotes_data,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "noise drawn outside the tap",
        "replay",
        "hidden",
        broken=noise_outside_the_tap,
        correct=histogram,
        run=replayed(ADD, runs=6),
    ),
    bug(
        "noise seeded by the data",
        "replay",
        "output",
        broken=noise_seeded_by_data,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "state kept between runs",
        "replay",
        "hidden",
        broken=Remembering(),
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "one more draw for large data",
        "replay",
        "number",
        broken=extra_draw_for_large_data,
        correct=histogram,
        run=replayed(ADD),
    ),
    bug(
        "kind of noise chosen by the data",
        "replay",
        "kind",
        broken=kind_of_noise_from_data,
        correct=histogram,
        run=replayed(ADD),
    ),
)
