"""A Parquet file of skewed, correlated codes of realistic columns, in UInt8, of any size.

python benchmarks/scale/make_table.py --rows 10000000 --columns 15 --bits 40 --out table.parquet
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

# relative widths of the columns of a census-like table: age, class, education, ..., a flag or two
_WIDTHS = (6.2, 3.2, 4.0, 2.8, 3.9, 2.6, 2.3, 1.0, 6.6, 5.4, 4.0, 3.0, 3.6, 3.3, 2.3)
_CLASSES = 256
_CHUNK = 2_000_000


def cardinalities(columns: int, bits: int) -> list[int]:
    """Cardinalities from 2 to 256 whose product is as near to 2^bits as whole numbers allow."""
    widths = [_WIDTHS[i % len(_WIDTHS)] for i in range(columns)]
    scale = bits / sum(widths)
    out = [min(256, max(2, round(2 ** (width * scale)))) for width in widths]
    # the last column that can take it makes up for rounding
    for i in reversed(range(columns)):
        short = bits - sum(math.log2(c) for c in out)
        out[i] = min(256, max(2, round(out[i] * 2**short)))
    return out


def chunk(rows: int, shape: list[int], generator: np.random.Generator) -> pl.DataFrame:
    """Each row belongs to one of many classes of Zipf-like size; two cells in three are the usual
    ones of its class."""
    kind = _zipf(_CLASSES, 1.1)[generator.integers(0, 1 << 16, rows, dtype=np.uint16)]
    columns = {}
    for i, cardinality in enumerate(shape):
        usual = (np.arange(_CLASSES) * (2 * i + 3) // 7 % cardinality).astype(np.uint8)
        free = _zipf(cardinality, 1.2)[generator.integers(0, 1 << 16, rows, dtype=np.uint16)]
        columns[f"c{i}"] = np.where(
            generator.integers(0, 3, rows, dtype=np.uint8) > 0, usual[kind], free
        )
    return pl.DataFrame(columns)


def _zipf(values: int, exponent: float) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1) ** exponent
    edges = np.cumsum(weights / weights.sum()) * (1 << 16)
    edges[-1] = 1 << 16
    return np.searchsorted(edges, np.arange(1 << 16), side="right").astype(np.uint8)


def write_table(path: Path, *, rows: int, columns: int, bits: int, seed: int = 1) -> list[int]:
    """Write the table in chunks, so that its size is not bounded by memory; the cardinalities."""
    shape = cardinalities(columns, bits)
    generator = np.random.default_rng(seed)
    writer = None
    for start in range(0, rows, _CHUNK):
        table = chunk(min(_CHUNK, rows - start), shape, generator).to_arrow()
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=1_000_000)
    if writer is not None:
        writer.close()
    return shape


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=15)
    parser.add_argument("--bits", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    shape = write_table(
        given.out, rows=given.rows, columns=given.columns, bits=given.bits, seed=given.seed
    )
    print(
        f"{given.out}: {given.rows} rows, cardinalities {shape}, domain "
        f"2^{math.log2(math.prod(shape)):.1f}"
    )


if __name__ == "__main__":
    main()
