"""dpmm's MST, AIM or PrivBayes: word `mst`, `aim` or `privbayes`. Default settings, but no binning:
the rows are coded."""

from __future__ import annotations

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline
from peer import task

PIPELINES = {"mst": MSTPipeline, "aim": AIMPipeline, "privbayes": PrivBayesPipeline}


def main() -> None:
    given = task()
    frame = pd.DataFrame(given.codes, columns=given.columns)
    given.start()
    kind = PIPELINES[given.words[0]]
    pipeline = kind(epsilon=given.epsilon, delta=given.delta, disable_processing=True, n_jobs=1)
    pipeline.fit(
        frame, domain=dict(zip(given.columns, given.levels, strict=True)), random_state=given.seed
    )
    drawn = pipeline.generate(n_records=len(given.codes), random_state=given.seed)
    given.answer(rows=drawn[given.columns].to_numpy().astype(np.int64))


if __name__ == "__main__":
    main()
