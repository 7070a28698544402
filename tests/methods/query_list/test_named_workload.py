"""Plans of multiplicative weights name workload where one of its ways has less noise, and else say
nothing."""

import itertools

import pytest

import dpublish as dp
from dpublish.privacy.cost import Cost


def schema(levels: list[int], rows: int, neighbours: str = "replace-one") -> dp.Schema:
    columns = ""
    for place, count in enumerate(levels):
        known = [f"v{one}" for one in range(count)]
        columns += f'[columns.c{place}]\nkind = "categorical"\nlevels = {known}\noutside = "drop"\n'
    size = "size" if neighbours == "replace-one" else "nominal_size"
    head = f'[dataset]\nname = "t"\nneighbours = "{neighbours}"\n{size} = {rows}\n'
    return dp.Schema.from_toml(head + columns.replace("'", '"'))


def conjunctions(levels: list[int]) -> str:
    texts = []
    for one, other in itertools.combinations(range(len(levels)), 2):
        for a, b in itertools.product(range(levels[one]), range(levels[other])):
            texts += [
                f"c{one} = 'v{a}' and c{other} = 'v{b}'",
                f"c{one} = 'v{a}' or c{other} = 'v{b}'",
            ]
    return "predicates:" + "; ".join(texts)


@pytest.mark.parametrize(
    ("levels", "rounds", "epsilon", "queries", "words"),
    [
        ([2, 3], 5, "1", "marginals:2", "Noise of its own for every query"),
        ([2, 2, 2], 5, "3", conjunctions([2, 2, 2]), "A histogram of all 8 cells has noise of"),
        ([6, 7, 9], 2, "1/10", "marginals:2", None),
        ([6, 7, 9], 10, "1/10", "marginals:2", "Noise of its own for every query"),
    ],
)
def test_a_plan_names_workload_where_one_of_its_ways_is_less_noisy(
    levels: list[int], rounds: int, epsilon: str, queries: str, words: str | None
) -> None:
    method = dp.MultiplicativeWeights(queries=queries, rounds=rounds)
    said = " ".join(method.plan(schema(levels, 1_000), Cost.pure(epsilon)).warnings)
    assert words in said if words else not said
    assert not said or "take workload" in said


@pytest.mark.parametrize(
    ("neighbours", "scale"), [("replace-one", "1.333"), ("add-remove-one", "0.6667")]
)
def test_the_noise_of_a_histogram_is_that_of_half_of_its_cells(neighbours: str, scale: str) -> None:
    """Each cell has noise of scale 2 / epsilon where a row is replaced, and 1 / epsilon where it is
    added or removed; that of 4 of 8 cells is twice as large."""
    method = dp.MultiplicativeWeights(queries=conjunctions([2, 2, 2]), rounds=5)
    plan = method.plan(schema([2, 2, 2], 300, neighbours), Cost.pure("3"))
    assert f"has noise of about {scale} rows in half" in " ".join(plan.warnings)
