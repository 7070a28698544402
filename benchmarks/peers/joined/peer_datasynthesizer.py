"""DataSynthesizer (correlated attributes, k = 1), in an environment of its own: IN.npz OUT.npz EPSILON DELTA SEED.

It reads the levels of a column off the rows, which is not private; the comparison lets it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator


def main():
    source, target, epsilon, _, seed = sys.argv[1:6]
    held = np.load(source)
    codes = held["train"]
    names = [f"c{i}" for i in range(codes.shape[1])]
    with tempfile.TemporaryDirectory() as folder:
        table, described, out = (str(Path(folder) / name) for name in ("rows.csv", "described.json", "out.csv"))
        pd.DataFrame(codes, columns=names).to_csv(table, index=False)
        start = time.perf_counter()
        describer = DataDescriber(category_threshold=10_000)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=table,
            epsilon=float(epsilon),
            k=1,
            attribute_to_is_categorical=dict.fromkeys(names, True),
            attribute_to_is_candidate_key=dict.fromkeys(names, False),
            seed=int(seed),
        )
        describer.save_dataset_description_to_file(described)
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(len(codes), described, seed=int(seed))
        generator.save_synthetic_data(out)
        rows = pd.read_csv(out)[names].fillna(0).to_numpy().astype(np.int64)
    np.savez(target, rows=rows, seconds=time.perf_counter() - start)


if __name__ == "__main__":
    main()
