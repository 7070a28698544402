"""Where we are ahead, and where not: docs/standing.md from the figures of the baselines.

    python -m benchmarks.baselines.standing DIR

DIR has baselines-*.json, as `make bench` leaves them.

Every row of every file that has a `default` is held against the best of the others in its row; less
is better. Baselines make the figures of their rows here (`figures`), with the number of runs of
each, and ask the plan of the default which of the others it names (`named`).
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.catalogue import methods

PAGE = Path(__file__).parents[2] / "docs" / "standing.md"
EVEN = 0.05
ERROR = "standard error"
"""Of the default over its runs."""
APART = ("default", "best known", ERROR)
"""Numbers of a row that are no alternative."""
OWN = ("pairs = 0", "choose_pairs = 0")
"""Settings of our own that a plan may name: shown, but no alternative to be ahead of."""
HEAD = """# Where we stand

Each method with its default settings at epsilon 1, beside the obvious alternatives, in one harness
on generated tables (`make bench`, which writes this page; the modules of `benchmarks/baselines`
take real ones with `--data DIR`). Less is better; after +- stands the standard error of the mean
over runs, where there were at least two. A difference of up to 5%, or of two standard errors, is
even. "Behind, as the plan says": the plan of the default names, beforehand and from public facts,
what stands in brackets, and that is nearer here. "Cut and Laplace" cuts baskets to the length that
is best on average over the runs, picked with the truth in hand, which nobody could do. Methods that
stand here by the name of a paper (set-partition, basic-itemsets, multiplicative-weights, net) are
kept for what the paper says of them; take the alternative that is named beside them.

The last column says how many runs the default had, and which others had another number; 0 is a
figure that was computed.

| task | default | best alternative | | others | runs |
| --- | --- | --- | --- | --- | --- |
"""
INTERVALS = """## Intervals of frequent-itemsets

How often the intervals at 95% of the (up to) 100 most frequent items and of the 50 most frequent
pairs hold the true number, counted or not, in the same runs; and how wide an item's interval is, in
standard deviations of its noise, less what it states apart as its allowance for lighter weights of
long transactions. "delta" is 1e-6.

| baskets | items | pairs | width | runs |
| --- | --- | --- | --- | --- |
"""


def standard_error(errors: Sequence[float]) -> float:
    """The standard error of the mean over runs; none of a single one."""
    return float(np.std(errors, ddof=1)) / math.sqrt(len(errors)) if len(errors) > 1 else 0.0


def figures(found: Mapping[str, Sequence[float]], runs: int | None = None) -> dict[str, Any]:
    """Means over all runs, the standard error of the default's, and how many runs there were. Runs
    of several figures each stand one after the other."""
    each = {
        what: np.array(errors).reshape(runs or len(errors), -1).mean(axis=1)
        for what, errors in found.items()
    }
    out: dict[str, Any] = {what: round(float(some.mean()), 3) for what, some in each.items()}
    if "default" in each:
        out[ERROR] = standard_error(each["default"].tolist())
    return {**out, "runs": {what: len(some) for what, some in each.items()}}


def named(planned: Any, words: Mapping[str, str]) -> list[str]:
    """Which alternatives a plan names as nearer: those whose words stand in its warnings or
    sentences. Of a plan, or of the plan that a release was made by."""
    if hasattr(planned, "manifest"):
        plan = planned.manifest["plan"]
        said = " ".join([*plan["warnings"], *plan["sentences"]])
    else:
        said = " ".join([*planned.warnings, *planned.sentences])
    return [what for what, phrase in words.items() if phrase in said]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """All rows with a default, of all files; baskets have one line per way."""
    found: list[dict[str, Any]] = []
    for path in sorted(folder.glob("baselines-*.json")):
        read = json.loads(path.read_text())
        if isinstance(read, list):
            found += [row for row in read if "default" in row]
            continue
        for name, ways in read.items():
            found += _basket_rows(
                name, {way: line for way, line in ways.items() if isinstance(line, dict)}
            )
    return found


def _basket_rows(name: str, lines: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    lines["frequent-itemsets"] = lines.pop("frequent-itemsets, pure")
    lines.pop("frequent-itemsets, delta", None)
    rows = []
    for what in sorted(lines):
        method = "frequent-itemsets" if what == "pairs = 0" else what
        if method not in methods():
            continue
        rest = {way: line for way, line in lines.items() if way != what}
        if what == "pairs = 0":  # the cut counts no pairs either
            rest = {"cut and Laplace": rest["cut and Laplace"]}
        title = f"{method} with pairs = 0" if what == "pairs = 0" else method
        runs = {way: line["runs"] for way, line in rest.items()}
        rows.append(
            {
                "task": f"{title}, baskets ({name}): baskets a count of a top item is off",
                "methods": [method],
                "default": lines[what]["items"],
                ERROR: lines[what][ERROR],
                "named": lines[what]["named"],
                "runs": {"default": lines[what]["runs"], **runs},
                **{way: line["items"] for way, line in rest.items()},
            }
        )
    ours = lines["frequent-itemsets"]
    counting = {way: line for way, line in lines.items() if way not in ("pairs = 0", *methods())}
    rows.append(
        {
            "task": f"frequent-itemsets, baskets ({name}): of the 50 most frequent pairs not found",
            "methods": ["frequent-itemsets"],
            "default": ours["pairs_missed"],
            ERROR: ours["pairs_error"],
            "runs": {"default": ours["runs"]} | {way: one["runs"] for way, one in counting.items()},
            **{way: one["pairs_missed"] for way, one in counting.items()},
        }
    )
    return rows


def interval_lines(folder: Path) -> list[str]:
    """How often intervals of frequent-itemsets hold, one line per table of baskets."""
    lines = []
    for path in sorted(folder.glob("baselines-baskets.json")):
        for name, ways in json.loads(path.read_text()).items():
            for law in ("pure", "delta"):
                one = ways[f"frequent-itemsets, {law}"]
                covered = f"{one['items_covered']:.1%} | {one['pairs_covered']:.1%}"
                lines.append(f"| {name}, {law} | {covered} | {one['width']:.2f} | {one['runs']} |")
    return lines


def missing(rows: list[dict[str, Any]]) -> list[str]:
    """Methods of the catalogue that no row is about."""
    return sorted(set(methods()) - {name for row in rows for name in row.get("methods", ())})


def best_of(others: Mapping[str, float]) -> str:
    return min((name for name in others if name not in OWN), key=lambda name: others[name])


def standing(ours: float, error: float, others: Mapping[str, float], said: Sequence[str]) -> str:
    """Ahead, even or behind the best of the others; `said` are those that the plan names."""
    best = others[best_of(others)]
    if abs(ours - best) <= max(EVEN * max(abs(best), 1e-9), 2 * error):
        return "even"
    if ours < best:
        return "ahead"
    nearer = [what for what in said if others[what] < ours]
    return f"behind, as the plan says ({', '.join(nearer)})" if nearer else "**behind**"


def line_of(row: dict[str, Any]) -> str:
    others = {
        name: _short(value)
        for name, value in row.items()
        if isinstance(value, int | float) and name not in APART
    }
    ours, error = _short(row["default"]), _short(row.get(ERROR, 0), 2)
    word = standing(ours, error, others, row.get("named", ()))
    best = best_of(others)
    first = f"{best} {others.pop(best):,.12g}"
    rest = "; ".join(f"{name} {value:,.12g}" for name, value in sorted(others.items()))
    runs = dict(row["runs"])
    own = runs.pop("default")
    apart = [f"{what} {count}" for what, count in runs.items() if count != own and what in row]
    count = f"{own} ({', '.join(apart)})" if apart else f"{own}"
    spread = f" +- {error:,.12g}" if error else ""
    return f"| {row['task']} | {ours:,.12g}{spread} | {first} | {word} | {rest} | {count} |"


def _short(value: float, digits: int = 4) -> float:
    """As the page shows it, so that what is said follows from what is shown."""
    return float(f"{float(value):.{digits}g}")


def main() -> int:
    rows = rows_of(Path(sys.argv[1]))
    if not rows:
        print("no figures of baselines there", file=sys.stderr)
        return 1
    if absent := missing(rows):
        print(f"no figures of {', '.join(absent)}", file=sys.stderr)
        return 1
    known = sorted({name for row in rows for name in row["methods"]})
    lines = "\n".join(line_of(row) for row in rows)
    held = "\n".join(interval_lines(Path(sys.argv[1])))
    PAGE.write_text(f"{HEAD}{lines}\n\n{INTERVALS}{held}\n\nMethods: {', '.join(known)}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
