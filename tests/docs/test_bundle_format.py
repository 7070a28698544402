"""docs/bundle-format.md describes every kind of release: each table, each column, each fact."""

from __future__ import annotations

import re

import pytest

from docs.stand_in import ROOT
from dpublish.catalogue import RELEASES
from dpublish.releases.base import Release
from dpublish.releases.itemsets.release import TABLES
from dpublish.releases.solution.release import PROBLEMS
from fuzz.test_kinds import originals  # noqa: F401

PAGE = (ROOT / "docs" / "bundle-format.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## Kind `([\w-]+)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))


def unnamed(kind: str, words: set[str]) -> list[str]:
    """Which of some tables, columns and facts a section does not name. Numbered ones are written
    with an i."""
    # code as a whole, or a key of the JSON example; programs do not count
    prose = re.sub(r"^```python\n.*?^```", "", SECTIONS[kind], flags=re.MULTILINE | re.DOTALL)
    named = set(re.findall(r"`([^`\n]+)`", prose)) | set(re.findall(r'"(\w+)":', prose))
    return sorted(word for word in words if re.sub(r"_\d+$", "_i", word) not in named)


def test_every_kind_has_a_section() -> None:
    assert set(SECTIONS) == set(RELEASES)


@pytest.mark.parametrize("kind", sorted(RELEASES))
def test_every_table_column_and_fact_is_named(originals: dict[str, Release], kind: str) -> None:  # noqa: F811
    release = originals[kind]
    # the columns of public rows are those of the public table, whatever it is
    tables = [
        table for name, table in release.tables.items() if (kind, name) != ("weighted-rows", "rows")
    ]
    words = {
        *release.tables,
        *release.manifest["facts"],
        *(column for table in tables for column in table.columns),
    }
    assert unnamed(kind, words) == []


@pytest.mark.parametrize("kind", sorted(RELEASES))
def test_types_are_those_of_the_tables(originals: dict[str, Release], kind: str) -> None:  # noqa: F811
    """A column that has a line of its own has its type there."""
    lines = re.findall(r"^\|.*\| `(\w+)` \| (\w+) \|", SECTIONS[kind], re.MULTILINE)
    found = {
        (column.name, str(column.dtype))
        for table in originals[kind].tables.values()
        for column in table
    }
    shown = {name: {kind for other, kind in lines if other == name} for name, _ in lines}
    for name, dtype in found:
        assert dtype in shown.get(name, {dtype}), name


def test_tables_that_the_fixtures_do_not_have() -> None:
    words = {word for table, column, size in PROBLEMS.values() for word in (table, column, size)}
    words |= {"members", "universe", "costs", "element", "part", "cost", "label"}
    assert unnamed("solution", words) == []
    assert (
        unnamed(
            "itemsets", {*TABLES, *(column for columns in TABLES.values() for column in columns)}
        )
        == []
    )
    assert unnamed("histogram", {"cells", "no such column"}) == ["no such column"]
