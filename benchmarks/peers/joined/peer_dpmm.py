"""dpmm's MST, AIM or PrivBayes: word `mst`, `aim` or `privbayes`. Default settings, but no binning:
the rows are coded. With the word `raw` it is given the numbers and their bounds, and spends a tenth
of epsilon on bins of its own (PrivTree, its default)."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
from dpmm.pipelines import AIMPipeline, MSTPipeline, PrivBayesPipeline
from peer import task

PIPELINES = {"mst": MSTPipeline, "aim": AIMPipeline, "privbayes": PrivBayesPipeline}


def main() -> None:
    given = task()
    kind, raw = PIPELINES[given.words[0]], "raw" in given.words
    frame = pd.DataFrame(given.codes, columns=given.columns)
    domain: dict[str, object] = dict(zip(given.columns, given.levels, strict=True))
    if raw:
        held = np.load(sys.argv[1])
        frame = pd.DataFrame(held["values"], columns=given.columns)
        for name, bounds, whole, count in zip(
            given.columns, held["bounds"], held["whole"], given.levels, strict=True
        ):
            if np.isnan(bounds).any():
                frame[name] = frame[name].astype(int).astype("category")
                domain[name] = {"categories": list(range(count))}
            else:
                frame[name] = frame[name].astype(int if whole else float)
                domain[name] = {"lower": bounds[0], "upper": bounds[1]}
    given.start()
    shares = {"epsilon": given.epsilon}
    if raw:
        shares = {"epsilon": 0.9 * given.epsilon, "proc_epsilon": 0.1 * given.epsilon}
    pipeline = kind(**shares, delta=given.delta, disable_processing=not raw, n_jobs=1)
    pipeline.fit(frame, domain=domain, random_state=given.seed)
    drawn = pipeline.generate(n_records=len(given.codes), random_state=given.seed)[given.columns]
    if raw:
        given.answer(values=drawn.astype(float).to_numpy())
    else:
        given.answer(rows=drawn.to_numpy().astype(np.int64))


if __name__ == "__main__":
    main()
