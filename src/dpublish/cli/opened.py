"""Open a release for one purpose, and say so plainly when its kind does not serve it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

# What each command needs of a release, and how it is called in words.
ABILITIES = {
    "estimate": "conditions with error bars ('query')",
    "marginal": "counts by column ('query --by')",
    "sql": "SQL ('sql')",
    "to_frame": "weighted rows ('export')",
    "sample": "synthetic rows ('export --synthetic')",
    "report": "a page ('report')",
    "predict": "predictions ('predict')",
}


def open_for(path: Path, ability: str) -> Any:
    """The release at `path`, which has a method of that name; otherwise a `QueryError` that lists
    what it does have."""
    from dpublish.errors import QueryError
    from dpublish.releases.base import open_release

    release = open_release(path)
    if not hasattr(release, ability):
        # every kind has a table to export, but models and solutions have no rows
        words = (
            ABILITIES
            if weight_column(release) is not None
            else ABILITIES | {"to_frame": "its table ('export')"}
        )
        offered = [words[name] for name in ABILITIES if hasattr(release, name)]
        raise QueryError(
            f"A release of kind '{release.kind}' does not offer {ABILITIES[ability]}. "
            + (
                f"It offers {', '.join(offered)}."
                if offered
                else "Open it in Python: dpublish.open_release(...)."
            )
        )
    return release


def verbs_for(release: Any) -> list[str]:
    """The commands that have something to say about a release of this kind."""
    verbs = {
        "query": ("estimate", "marginal"),
        "sql": ("sql",),
        "predict": ("predict",),
        "export": ("to_frame",),
    }
    asked = [
        verb
        for verb, abilities in verbs.items()
        if any(hasattr(release, ability) for ability in abilities)
    ]
    return ["show", *asked, *(["report"] if hasattr(release, "report") else []), "verify"]


def weight_column(release: Any) -> str | None:
    """The column of a release's table that holds the weights of its rows: the last, with a name
    that no other column has."""
    last = release.to_frame().columns[-1:] if hasattr(release, "to_frame") else []
    return last[0] if last and last[0].rstrip("_") == "weight" else None
