"""smartnoise-synth's MST or AIM, default settings: word `mst` or `aim`.

The transformer is fitted on rows made from the public domain, so that nothing is learnt about the
levels for free. MST takes the number of rows from the data as it is.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from peer import Task, task
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.transform import LabelTransformer, TableTransformer


def transformer(given: Task) -> TableTransformer:
    """Fitted on as many rows as the widest column has levels: every level of every column is in
    them."""
    public = [tuple(row % count for count in given.levels) for row in range(max(given.levels))]
    made = TableTransformer([LabelTransformer(nullable=False) for _ in given.levels])
    made.fit(public)
    return made


def main() -> None:
    given = task()
    np.random.seed(given.seed)  # noqa: NPY002 - what the library draws from
    frame = pd.DataFrame(given.codes, columns=given.columns)
    given.start()
    kind = MSTSynthesizer if "mst" in given.words else AIMSynthesizer
    synthesizer = kind(epsilon=given.epsilon, delta=given.delta)
    synthesizer.fit(frame, transformer=transformer(given))
    drawn = synthesizer.sample(len(given.codes))
    given.answer(rows=np.asarray(drawn).astype(np.int64))


if __name__ == "__main__":
    main()
