"""Where we are ahead, and where not: docs/standing.md from the figures of the baselines.

    python -m benchmarks.baselines.standing DIR

DIR has baselines-*.json, as `make bench` leaves them.

Every row of every file that has a `default` is held against the best of the others in its row; less
is better. A difference of up to 5% is called even.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dpublish.catalogue import methods

PAGE = Path(__file__).parents[2] / "docs" / "standing.md"
EVEN = 0.05
ERROR = "standard error"
"""Of the default over its runs, in rows that have it."""
HEAD = """# Where we stand

Each method with its default settings at epsilon 1, beside the obvious alternatives, in one harness
on generated tables (`make bench`, which writes this page; the modules of `benchmarks/baselines`
take real ones with `--data DIR`). Less is better. A difference of up to 5%, or of two standard
errors of the mean over runs, is even. "Behind, as the plan says": its plan warns beforehand, from
public facts, or names what is nearer. Methods that stand here by the name of a paper
(set-partition, basic-itemsets, multiplicative-weights, net) are kept for what the paper says of
them; take the alternative that is named beside them.

| task | default | best alternative | | others |
| --- | --- | --- | --- | --- |
"""


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows with a default, of all files; baskets have one error per way."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("baselines-*.json")):
        read = json.loads(path.read_text())
        if isinstance(read, list):
            found += [row for row in read if "default" in row]
            continue
        for name, ways in read.items():
            lines = {way: line for way, line in ways.items() if isinstance(line, dict)}
            lines["frequent-itemsets"] = lines.pop("frequent-itemsets, pure")
            lines.pop("frequent-itemsets, delta", None)
            alone = lines.pop("frequent-itemsets, pairs = 0", None)
            errors = {way: line["items"] for way, line in lines.items()}
            if alone is not None:  # the cut counts no pairs either
                task = f"frequent-itemsets with pairs = 0, baskets ({name}): baskets a count of a "
                cut = {"cut and Laplace": errors["cut and Laplace"], ERROR: alone[ERROR]}
                row = {"task": f"{task}top item is off", "methods": ["frequent-itemsets"]}
                found.append({**row, "default": alone["items"], **cut})
            for method in set(errors) & set(methods()):
                task = f"{method}, baskets ({name}): baskets a count of a top item is off"
                rest = {way: one for way, one in errors.items() if way != method}
                said = {name: lines[method].get(name, 0) for name in (ERROR, "warned")}
                row = {"task": task, "methods": [method], "default": errors[method]}
                found.append({**row, **said, **rest})
    return found


def missing(rows: list[dict[str, Any]]) -> list[str]:
    """Methods of the catalogue that no row is about."""
    return sorted(set(methods()) - {name for row in rows for name in row.get("methods", ())})


def line_of(row: dict[str, Any]) -> str:
    figures = {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, int | float) and name not in ("default", "best known", ERROR, "warned")
    }
    best = min(figures, key=lambda name: figures[name])
    ours, theirs = float(row["default"]), figures.pop(best)
    standing = "even"
    if abs(ours - theirs) > max(EVEN * max(abs(theirs), 1e-9), 2 * float(row.get(ERROR, 0))):
        behind = "behind, as the plan says" if row.get("warned") else "**behind**"
        standing = "ahead" if ours < theirs else behind
    others = "; ".join(f"{name} {value:,.4g}" for name, value in sorted(figures.items()))
    return f"| {row['task']} | {ours:,.4g} | {best} {theirs:,.4g} | {standing} | {others} |"


def main() -> int:
    rows = rows_of(Path(sys.argv[1]))
    if not rows:
        print("no figures of baselines there", file=sys.stderr)
        return 1
    if absent := missing(rows):
        print(f"no figures of {', '.join(absent)}", file=sys.stderr)
        return 1
    note = f"\nFigures: {sys.argv[2]}.\n" if len(sys.argv) > 2 else ""
    named = sorted({name for row in rows for name in row["methods"]})
    lines = "\n".join(line_of(row) for row in rows)
    PAGE.write_text(f"{HEAD}{lines}\n{note}\nMethods: {', '.join(named)}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
