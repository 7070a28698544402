"""DataSynthesizer, correlated attributes, k = 1, pure epsilon.

It learns the levels of a column from the rows, which is not private; the comparison lets it. Its
noise assumes a fixed number of rows.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
from peer import task


def main() -> None:
    given = task()
    with tempfile.TemporaryDirectory() as folder:
        table, described, out = (
            str(Path(folder) / name) for name in ("rows.csv", "described.json", "out.csv")
        )
        pd.DataFrame(given.codes, columns=given.columns).to_csv(table, index=False)
        given.start()
        describer = DataDescriber(category_threshold=10_000)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=table,
            epsilon=given.epsilon,
            k=1,
            attribute_to_is_categorical=dict.fromkeys(given.columns, True),
            attribute_to_is_candidate_key=dict.fromkeys(given.columns, False),
            seed=given.seed,
        )
        describer.save_dataset_description_to_file(described)
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(
            len(given.codes), described, seed=given.seed
        )
        generator.save_synthetic_data(out)
        rows = pd.read_csv(out)[given.columns].fillna(0).to_numpy().astype(np.int64)
    given.answer(rows=rows)


if __name__ == "__main__":
    main()
