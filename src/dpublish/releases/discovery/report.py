"""What a report says about a discovery."""

from __future__ import annotations

from dpublish.present.report import (
    Block,
    Paragraph,
    Report,
    Section,
    Strong,
    Table,
    how_it_was_made,
    listed,
)
from dpublish.releases.discovery.release import DiscoveryRelease, described

SHOWN = 200
LIMITS = (
    "Levels that few have were not found, and values beyond the bounds are there too.",
    "Counts carry noise, and only those above a threshold are shown: they are no estimates.",
)


def sections(release: DiscoveryRelease) -> Report:
    names = tuple(one.name for one in release.found)
    found = sum(one.anything for one in release.found)
    return Report(
        lead=(
            "This release says what a schema has to say of ",
            Strong(listed(names)),
            ". It was found out from private rows, with noise, for a part of a budget.",
        ),
        tiles=[
            (f"{found:,}", "columns about which something was found"),
            (f"{sum(len(one.levels) for one in release.found):,}", "levels"),
        ],
        sections=[how_it_was_made(release), _columns(release)],
        limits=LIMITS,
    )


def _columns(release: DiscoveryRelease) -> Section:
    rows = [(one.name, one.kind, described(one)) for one in release.found]
    blocks: list[Block] = [Table(head=("column", "kind", "found"), rows=rows)]
    for one in release.found:
        if one.levels:
            shown = list(zip(one.levels, one.counts, strict=True))[:SHOWN]
            left = len(one.levels) - len(shown)
            blocks += [
                Paragraph(f"Levels of {one.name}" + (f"; {left:,} more" if left else "") + ":"),
                Table(
                    head=("level", "noisy count"), rows=[(level, f"{n:,}") for level, n in shown]
                ),
            ]
    return Section("What was found", blocks)
