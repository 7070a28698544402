"""What README.md says, from results.json."""

from __future__ import annotations

from typing import Any

NAMES = ("bms", "retail", "kosarak")
BUDGETS = {
    "worst case budgets": "the paper's budgets",
    "default": "default",
    **{f"max_items = {most}": f"`max_items = {most}`" for most in (2, 3, 4)},
}
RECORDS = ("worst case budgets", "default", "max_items = 3")


def parts(results: dict[str, Any]) -> list[str]:
    """The lines of the last table, and the figures of sentences."""
    found = results["results.json"]
    sparse = [found["sparse"][name] for name in NAMES]
    three, five, six, seven, eight = (found[f"figure{place}"] for place in (3, 5, 6, 7, 8))
    msnbc, stm = (three[name] for name in ("msnbc", "stm-like"))
    ours, loud, signed = (
        msnbc[kind]["1.0"] for kind in ("DiffPart", "Basic as data", "Basic signed")
    )
    plain = msnbc["as published"]["1.0"]
    other = stm["DiffPart"]["1.0"]
    tops = {name: eight[name]["1.0"] for name in ("msnbc", "stm-like", "bms", "retail")}
    published = [eight[name]["as published, B = 1"] for name in ("msnbc", "stm-like")]
    fans, more = (five[name]["1.0"] for name in ("msnbc", "stm-like"))
    usual = [fans[key] for key in ("4", "6", "8", "10", "12")]
    sizes = [[one["1.0"] for one in seven[name].values()] for name in ("msnbc", "stm-like")]
    universe = [one["1.0"] for one in six["stm-like"].values()]
    loudest = max(msnbc["Basic as data"]["0.5"].values())
    return [
        *_sparse(sparse),
        f"by a factor of {min(loud[key] // ours[key] for key in ours):.0f} or more at B = 1",
        f"{1 - tops['msnbc']['100']:.0%} (MSNBC), {1 - tops['stm-like']['100']:.0%} (STM-like); as "
        f"published {1 - published[0]['100']:.0%} and {1 - published[1]['100']:.0%}",
        f"at B = 1 the error is {ours['20']:.0%} for queries of up to 20% of the longest record "
        f"and falls to {ours['100']:.0%} for the longest",
        f"As published it is {plain['20']:.0%} and {plain['100']:.0%}.",
        f"STM-like: {other['20']:.0%} down to {other['100']:.0%}.",
        f"its errors are {min(loud.values()):.0%} to {max(loud.values()):.0%} at B = 1 (up to "
        f"{loudest:.0%} at B = 0.5)",
        f"add up without bias: {signed['20']:.0%} and {signed['100']:.0%} at B = 1, and a "
        f"similarity of {eight['msnbc']['Basic signed, B = 1']['100']:.2f} in figure 8 against "
        f"{tops['msnbc']['100']:.2f}",
        f"lie between {min(usual):.0%} and {max(usual):.0%} for fan-outs from 4 to 12 and at "
        f"{fans['16']:.0%} for 16",
        f"they rise from {more['4']:.0%} at 4 to {more['16']:.0%} at 16",
        f"(MSNBC at B = 1: {sizes[0][0]:.0%} with a fifth of the records, {sizes[0][-1]:.0%} with "
        f"all; STM-like: {sizes[1][0]:.0%} and {sizes[1][-1]:.0%})",
        f"(STM-like at B = 1: {universe[0]:.0%} for 200 items, {universe[-1]:.0%} for 1,012)",
        f"the similarity is {tops['msnbc']['20']:.2f} for K = 20 and {tops['msnbc']['100']:.2f} "
        "for K = 100",
        f"{tops['stm-like']['20']:.2f} and {tops['stm-like']['100']:.2f} at B = 1, "
        f"{eight['stm-like']['0.5']['100']:.2f} for K = 100 at B = 0.5",
        f"BMS: {_pair(tops['bms'])}. Retail: {_pair(tops['retail'])}.",
    ]


def _pair(top: dict[str, float]) -> str:
    return f"{top['20']:.2f} and {top['100']:.2f}"


def _sparse(sets: list[dict[str, Any]]) -> list[str]:
    def line(name: str, cells: list[str]) -> str:
        return f"| {name} | {' | '.join(cells)} |"

    sizes = [f"{one['records']:,}, {one['items']:,}, {one['mean_size']:.1f}" for one in sets]
    return [
        line("records, items, items a record", sizes),
        line(
            "records with 15 copies or more",
            [_share(one["share_in_sets_of_15_or_more"]) for one in sets],
        ),
        *(
            line(_label(key), [_released(one[key]) for one in sets])
            for key in RECORDS
        ),
        *(
            line(
                BUDGETS[key],
                [f"{_two(one[key]['top_20'])}, {_two(one[key]['top_100'])}" for one in sets],
            )
            for key in BUDGETS
        ),
    ]  # fmt: skip


def _label(key: str) -> str:
    more = {"worst case budgets": " (`typical_items = None`)", "default": " (`typical_items = 16`)"}
    return BUDGETS[key] + more.get(key, "")


def _share(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"


def _released(one: dict[str, float]) -> str:
    return _share(one["share_of_records"]) if one["itemsets"] else "0, empty"


def _two(value: float) -> str:
    return f"{value:.2f}" if value else "0"


def again() -> dict[str, float]:
    """Points of figures 6 and 8 on a small generated set: the page takes 400,000 records."""
    from benchmarks.papers.chen2011.data import stm_like
    from benchmarks.papers.chen2011.experiments import queries, relative_error, similarity

    from dpublish.releases.itemsets.mining import top_itemsets

    data = stm_like(10_000, items=60)
    asked = {"20": queries(data, 20, 100, 3)}
    found = {"error": relative_error(data, asked, 2, 1.0)["20"]}
    return found | similarity(data, top_itemsets(data.sets, 100), 1, 1.0)
