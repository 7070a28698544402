"""What a report says about a thresholded histogram: how accurate it is, and every column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpublish.models.noisy_counts import noise_sum_quantile
from dpublish.present.report import (
    Code,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    big,
    column_charts,
    listed,
    usage_of_cells,
)

if TYPE_CHECKING:
    from dpublish.releases.histogram.release import HistogramRelease

_ROWS = {
    "public": "rows (public number)",
    "noisy": "rows (noisy count)",
    "unknown": "rows in released cells",
}
LIMITS = (
    "Intervals hold in 95% of releases for a question fixed beforehand. Of many questions asked, "
    "about one in twenty intervals misses; those picked because they look striking miss more "
    "often.",
    "Counts of small groups are mostly noise. A combination that is absent may have had rows, and "
    "one that is present with a small count may have had none.",
    "Numbers were grouped into bins; what happens inside a bin is not in the release. Sampled rows "
    "are drawn evenly there.",
    "Weighted tables and synthetic rows carry no error bars and keep the noise of the counts; in "
    "SQL, what has no limits has a note.",
    "Samples and models ignore the rows in cells that were left out.",
)


def sections(release: HistogramRelease) -> Report:
    return Report(
        lead=(
            "This release holds noisy counts of the combinations of ",
            Strong(listed(release.domain.names)),
            ". It was made from private rows; the rows themselves are not in it.",
        ),
        tiles=[
            (f"{release.rows:,}", _ROWS[release.total.kind]),
            (f"{len(release.domain.axes):,}", "columns"),
            (f"{len(release.cells):,}", f"cells released of {big(release.domain.size)}"),
        ],
        sections=[
            _accuracy(release),
            Section(
                "What it shows",
                [
                    Paragraph(
                        "Estimated numbers of rows with 95% intervals (black lines). The intervals "
                        "cover both the noise and the cells that were left out."
                    ),
                    *column_charts(release.domain, release.marginal),
                ],
            ),
            usage_of_cells(
                release,
                "release.sample(1000)            # synthetic rows",
                f"release.fit(estimator, target={release.domain.names[-1]!r})"
                "            # a scikit-learn model",
            ),
        ],
        limits=LIMITS,
    )


def _accuracy(release: HistogramRelease) -> Section:
    law = release.law
    sizes = np.array([1.0, 10.0, 100.0, 1000.0])
    rows = [
        (
            f"a count that adds up {int(size):,} released cell{'s' if size > 1 else ''}",
            f"± {width:,.0f} rows",
        )
        for size, width in zip(sizes, noise_sum_quantile(0.025, sizes, law.scale), strict=True)
        if size <= release.domain.size
    ]
    whole = release.estimate("true")
    return Section(
        "Expected accuracy",
        [
            Paragraph(
                f"Every cell got random noise of scale {law.scale} (discrete Laplace). Cells whose "
                f"noisy count is not above {law.threshold:,} were left out."
            ),
            Paragraph(
                f"A cell without any row shows up by chance with probability {law.pass_rate:.2g}: "
                f"about {law.pass_rate * release.domain.size:,.0f} such cells are to be expected "
                f"among {big(release.domain.size)}."
            ),
            Paragraph(
                (
                    f"The released counts add up to {release.counts.sum():,}; the release says "
                    f"{whole.value:,.0f} rows in all. Rows in cells that were left out are "
                    "accounted for by the intervals of ",
                    Code("estimate"),
                    " and ",
                    Code("marginal"),
                    ".",
                )
            ),
            Table(("for", "95% of the noise lies within"), rows, right=(1,)),
        ],
    )
