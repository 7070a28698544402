"""How many columns to keep (k) and how to divide epsilon between choosing and counting (gamma):
Vinterbo 2012, section 2.3.

`k_from_simulation`, `k_from_public` and `choose_gamma` read public facts only and cost nothing.
`split_kd` chooses k on private rows, by data splitting, and costs what choosing columns costs
(theorem 1 of choose_k.proof.md). `discernibility` (`dp.discernibility`) shows what columns of
public or made-up rows tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpublish.declare.domain import Domain
from dpublish.declare.schema import Schema
from dpublish.errors import PlanError, did_you_mean
from dpublish.methods.projected_histogram.coded_table import CodedTable
from dpublish.methods.projected_histogram.discernibility import (
    DEFAULT_SIGMA,
    mda,
    private_kd,
    undiscerned,
)
from dpublish.methods.projected_histogram.partition import equal_rows
from dpublish.methods.projected_histogram.scores import GRID, PairsPerRow, Purity
from dpublish.noise.base import ChoiceRule, Noise

SIMULATED_ROWS = 20_000
"""Shares of discerned pairs hardly depend on the number of rows; more would only take longer."""

_SEED = 2012
TUNING, LOST_PAIRS, INCLUSION = Fraction(1, 2), Fraction(1, 20), Fraction(1, 2)
"""B and l of the paper's rule for gamma; p, which it leaves open."""
_LOWEST_GAMMA, _HIGHEST_GAMMA, _STEPS = 0.05, 0.95, 1000
_COLUMN_WORTH = Fraction(1, 100)


def simulated_table(rows: int, levels: Sequence[int], labels: int) -> CodedTable:
    """The paper's made-up data: uniform labels, independent standard normal columns, scaled to [0,
    1] and cut into bins.

    Always the same for the same arguments. At most `SIMULATED_ROWS` rows are drawn, but the scaling
    is that of `rows` draws.
    """
    from scipy.special import ndtri

    from dpublish.noise.words import SeededStream

    stream = SeededStream(_SEED)

    def uniforms(count: int) -> NDArray[np.float64]:
        return (np.asarray(stream.words(count) >> np.uint64(11), dtype=np.float64) + 0.5) * 2.0**-53

    drawn = min(rows, SIMULATED_ROWS)
    labels_of = (uniforms(drawn) * labels).astype(np.int64)
    columns = []
    for bins in levels:
        # the largest of n uniforms is U^(1/n): the ends of the range come from all rows, drawn or
        # not
        highest, lowest = ndtri(uniforms(2) ** (1.0 / max(rows, 2))) * (1, -1)
        values = ndtri(uniforms(drawn))
        low, high = min(lowest, values.min()), max(highest, values.max())
        columns.append(
            np.minimum(((values - low) / (high - low) * bins).astype(np.int64), bins - 1)
        )
    return CodedTable(columns, levels, labels_of, labels)


def k_from_simulation(rows: int, levels: Sequence[int], labels: int, sigma: Fraction) -> int:
    """|MDA| of the paper's simulated data with these numbers of levels."""
    return max(1, len(mda(simulated_table(rows, levels, labels), sigma)))


def k_from_public(data: object, domain: Domain, sigma: Fraction) -> int:
    """|MDA| of a public table with the columns of `domain`, of which the last is the target."""
    return max(1, len(mda(public_table(data, domain), sigma)))


def public_table(data: object, domain: Domain) -> CodedTable:
    """A public table as codes. It is read with the rules for private rows, but nothing about it
    needs protection."""
    from dpublish.declare.encode import Encoder
    from dpublish.sources.sources import open_source

    source = open_source(data)
    present = source.columns()
    for name in domain.names:
        if name not in present:
            raise PlanError(
                f"The public data has no column '{name}', which the release may "
                f"choose.{did_you_mean(name, present)} "
                f"Columns of the public data: {', '.join(present)}. Give public data with the "
                f"same columns, or list the "
                "shared ones as candidates."
            )
    batches = [batch.kept() for batch, _ in source.coded(Encoder(domain))]
    if not any(batch[0].size for batch in batches):
        raise PlanError(
            "The public data has no row with declared values in all columns, so it cannot show "
            "what columns tell apart."
        )
    return CodedTable.from_codes(
        [np.concatenate(column) for column in zip(*batches, strict=True)], domain
    )


@dataclass(frozen=True)
class Discernibility:
    """What columns of a public table tell apart, in pairs of rows with different labels."""

    pairs: int
    """All pairs of rows with different labels."""
    undiscerned: int
    """Those that agree in every column that was asked about."""
    mda: tuple[str, ...]
    """A smallest greedy set of the columns that tells apart all but sigma of what all of them do,
    in the order of choice."""

    @property
    def discerned(self) -> int:
        """Pairs that some of the columns tells apart: the paper's F, times rows, over two."""
        return self.pairs - self.undiscerned


def discernibility(
    data: object,
    schema: Schema,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    sigma: Fraction | float | str = DEFAULT_SIGMA,
    bins: int | None = None,
) -> Discernibility:
    """Pairs of rows with different labels that `columns` tell apart, and the MDA of Vinterbo (2012,
    equation 10).

    For public or made-up rows only: the numbers are exact and have no noise, nothing is paid, and
    on private rows they would be a leak. `columns` are all but the target when left out; `bins` are
    for numeric columns that declare none.

    >>> import polars as pl
    >>> schema = Schema.from_toml('''
    ... [dataset]
    ... name = "made-up"
    ... [columns]
    ... wet = { kind = "categorical", levels = ["no", "yes"] }
    ... day = { kind = "categorical", levels = ["sat", "sun"] }
    ... ill = { kind = "categorical", levels = ["no", "yes"] }
    ... ''')
    >>> words = ["no", "no", "yes", "yes"]
    >>> rows = pl.DataFrame({"wet": words, "day": ["sat", "sun"] * 2, "ill": words})
    >>> discernibility(rows, schema, target="ill")
    Discernibility(pairs=4, undiscerned=0, mda=('wet',))
    >>> discernibility(rows, schema, target="ill", columns=["day"]).discerned
    2
    """
    share = Fraction(sigma)
    if not 0 <= share < 1:
        raise PlanError(f"sigma must be at least 0 and below 1, not {sigma}.")
    names = [name for name in schema.columns if name != target] if columns is None else [*columns]
    if not names or target in names or len(set(names)) < len(names):
        raise PlanError("columns must be different names, at least one, without the target.")
    table = public_table(data, schema.domain([*names, target], bins=bins))
    return Discernibility(
        undiscerned(table, ()),
        undiscerned(table, range(len(names))),
        tuple(names[place] for place in mda(table, share)),
    )


def choose_gamma(
    *,
    rows: int,
    k: int,
    candidates: int,
    labels: int,
    bins: int,
    factor: Fraction,
    sensitivity: Fraction,
    blur: Fraction,
    tuning: Fraction = TUNING,
    lost_pairs: Fraction = LOST_PAIRS,
    inclusion: Fraction = INCLUSION,
) -> Fraction:
    """The share of epsilon for counting, by section 2.3.2: eps_h / (eps_h + eps_p), in thousandths,
    from 1/20 to 19/20.

    eps_p makes choosing lose at most a share l (`lost_pairs`) of the discernible pairs, with the
    paper's tuning B; eps_h lets a cell of the size expected for a row appear with probability p
    (`inclusion`), which the paper leaves open. `factor` is A
    of the threshold, `sensitivity` that of the cell counts, `blur` how much noisier choices are
    than the paper's (replace-one, one row per unit, pairs discerned), relative to the gain.
    """
    if k >= candidates:
        return Fraction(1)
    pairs = rows * rows * (labels - 1) / (2 * labels)
    for_choosing = float(blur * tuning / lost_pairs) * rows * k * k * math.log(candidates) / pairs
    (column,) = simulated_table(rows, [bins], labels).columns
    shares = np.bincount(column) / column.size
    size = float((shares**2).sum()) ** k * rows / labels
    slack = float(sensitivity) * math.log(min(1 / (2 * inclusion), 2 - 2 * inclusion))
    for_counting = max(0.0, (float(factor) * math.log(rows) - slack) / size)
    gamma = for_counting / (for_counting + for_choosing)
    return Fraction(round(_STEPS * min(max(gamma, _LOWEST_GAMMA), _HIGHEST_GAMMA)), _STEPS)


def split_kd(
    noise: Noise,
    table: CodedTable,
    options: Sequence[int],
    *,
    epsilon: Fraction,
    score: PairsPerRow | Purity,
    sigma: Fraction,
    rows: int,
    rule: ChoiceRule = "permute-and-flip",
) -> tuple[int, ...]:
    """Choose k among `options`, and k columns, by data splitting (section 2.3.1); epsilon-DP in
    all.

    One part of the rows for each option chooses its columns, a last part chooses among the sets
    found. `rows` is the public (or nominal) number of rows, used for the worth of a column only.
    """
    parts = split_rows(table, len(options) + 1, noise.key(label="parts"))
    sets = [
        private_kd(noise, part, k, epsilon=epsilon, score=score, rule=rule, label=f"column of {k},")
        for part, k in zip(parts, options, strict=False)
    ]
    judge = parts[-1]
    if isinstance(score, PairsPerRow):
        worth = (
            _COLUMN_WORTH
            * Fraction(rows, len(parts))
            * Fraction(score.labels - 1, 2 * score.labels)
        )
        utilities = pair_utilities(judge, sets, sigma=sigma, worth=worth)
    else:
        utilities = [purity_utility(judge, chosen, score) for chosen in sets]
    return sets[
        noise.choose(
            utilities,
            sensitivity=score.sensitivity,
            epsilon=epsilon,
            rule=rule,
            label="number of columns",
        )
    ]


def pair_utilities(
    table: CodedTable, sets: Sequence[Sequence[int]], *, sigma: Fraction, worth: Fraction
) -> list[Fraction]:
    """How much each set discerns, up to 1 - sigma of what all columns do, less the (public) worth
    of its columns.

    In pairs a row and centred, as `PairsPerRow` is, so that the sensitivity is the same.
    """
    everything = undiscerned(table, ())
    enough = (1 - sigma) * (everything - undiscerned(table, range(len(table.columns))))
    discerned = [min(Fraction(everything - undiscerned(table, chosen)), enough) for chosen in sets]
    return [
        (pairs - Fraction(everything, 2)) / max(1, table.rows) - worth * len(chosen)
        for chosen, pairs in zip(sets, discerned, strict=True)
    ]


def purity_utility(table: CodedTable, chosen: Sequence[int], score: Purity) -> Fraction:
    """The purity of the partition by a set; its cells are already charged for."""
    partition = score.start(table)
    for column in chosen:
        partition.refine(column)
    return Fraction(partition.value(), GRID)


def deal_rows(table: CodedTable, parts: int, key: bytes) -> NDArray[np.uint32]:
    """The part (0 to parts - 1) of each row. Stable for every key; the key only keeps the parts
    balanced."""
    from dpublish.methods.projected_histogram.kernels import deal_copies, mix_codes

    first, second = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    hashes = np.full(table.rows, first, dtype=np.uint64)
    for position, codes in enumerate((*table.columns, table.labels_of)):
        mix_codes(
            hashes, codes, np.uint64((second + 0x9E3779B97F4A7C15 * position) & 0xFFFFFFFFFFFFFFFF)
        )
    group, classes = equal_rows(table)
    out = np.empty(table.rows, dtype=np.uint32)
    deal_copies(group, classes, hashes, parts, out)
    return out


def split_rows(table: CodedTable, parts: int, key: bytes) -> list[CodedTable]:
    """The table in `parts` disjoint parts."""
    dealt = deal_rows(table, parts, key)
    return [table.take(dealt == part) for part in range(parts)]
