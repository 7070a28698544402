"""`dpublish check`: what a release would not read is found before anything is spent."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from dpublish.cli.app import run
from dpublish.curator.check import DataCheck, check_data
from dpublish.declare.schema import Schema

SCHEMA = """
[dataset]
name = "stays"
neighbours = "add-remove-one"
unit = "patient"
max_rows_per_unit = 3
[columns.age]
kind = "integer"
lower = 0
upper = 120
[columns.weight]
kind = "real"
lower = 0
upper = 300
missing = true
[columns.admitted]
kind = "date"
lower = 2023-01-01
upper = 2023-12-31
[columns.ward]
kind = "categorical"
levels = ["Zürich", "Genève", "Bern"]
outside = "drop"
"""

HEADER = "patient,age,weight,admitted,ward"
CITIES = ("Zürich", "Genève", "Bern")


def rows(count: int = 60) -> list[list[str]]:
    return [
        [
            f"p{i // 2}",
            str(20 + i),
            "" if i % 10 == 0 else f"{50 + i / 4:.2f}",
            f"2023-0{1 + i % 9}-1{i % 9}",
            CITIES[i % 3],
        ]
        for i in range(count)
    ]


def text_of(table: list[list[str]], header: str = HEADER, mark: str = ",") -> str:
    return "\n".join([header.replace(",", mark), *(mark.join(row) for row in table)]) + "\n"


def checked(
    path: Path, text: str, *, encoding: str = "utf-8", schema: str = SCHEMA, name: str = "a.csv"
) -> DataCheck:
    (path / name).write_bytes(text.encode(encoding))
    return check_data(path / name, Schema.from_toml(schema))


def test_a_file_that_fits_its_schema_has_no_problem(tmp_path: Path) -> None:
    found = checked(tmp_path, text_of(rows()))
    assert found.problems == ()
    assert (found.rows, found.dropped_rows) == (60, 0)
    weight = found.columns[1]
    assert (weight.read, weight.blank, weight.unreadable) == (54, 6, 0)
    assert found.unit is not None
    assert (found.unit.units, found.unit.largest, found.unit.unused_rows) == (30, 2, 0)


def swapped(table: list[list[str]]) -> list[list[str]]:
    return [[a, d, c, b, e] for a, b, c, d, e in table]


def alone(table: list[list[str]]) -> list[list[str]]:
    return [[f"p{place}", *row[1:]] for place, row in enumerate(table)]


def heavy(table: list[list[str]]) -> list[list[str]]:
    return [[a, b, str(121 + i), d, e] for i, (a, b, _, d, e) in enumerate(table)]


def with_cells(place: int, change: Callable[[str], str]) -> list[list[str]]:
    return [[change(c) if i == place else c for i, c in enumerate(row)] for row in rows()]


def german(day: str) -> str:
    return ".".join(reversed(day.split("-")))


@pytest.mark.parametrize(
    ("text", "encoding", "words"),
    [
        (text_of(with_cells(2, lambda c: f'"{c.replace(".", ",")}"')), "utf-8", "decimal comma"),
        (text_of(with_cells(3, german)), "utf-8", "dd.mm.yyyy"),
        (text_of(rows()), "latin-1", "LATIN-1"),
        (text_of(rows()), "utf-16", "UTF-16"),
        (text_of(rows(), mark=";"), "utf-8", "separated by semicolons"),
        (text_of(with_cells(1, lambda c: "?" if int(c) % 3 else c)), "utf-8", "mark for missing"),
        (text_of(with_cells(0, lambda c: "ward 1")), "utf-8", "Is 'patient' the unit?"),
        (text_of(with_cells(0, lambda c: "")), "utf-8", "name no unit"),
        (text_of(alone(rows())), "utf-8", "Every row has a unit of its own"),
        (text_of(swapped(rows())), "utf-8", "0% of the filled cells"),
        (text_of(rows(), "patient,age,ward,admitted,weight"), "utf-8", "'ward' (categorical): 0%"),
        (text_of(rows(), "age,patient,weight,admitted,ward"), "utf-8", "'age' (integer): 0%"),
        (text_of(heavy(rows()), "patient,weight,age,admitted,ward"), "utf-8", "'age' (integer): 0"),
        (text_of(rows()[1:], header=",".join(rows()[0])), "utf-8", "never by their order"),
        (text_of(rows(), header="patient,age,weight,admitted,city"), "utf-8", "no column 'ward'"),
        (text_of(with_cells(1, lambda c: str(int(c) * 12))), "utf-8", "are read as declared"),
        (text_of([]), "utf-8", "no rows"),
    ],
    ids=[
        "decimal comma", "dd.mm.yyyy", "latin-1", "utf-16", "semicolons", "missing mark",
        "wrong unit", "no unit", "unit per row", "column order", "swapped names",
        "swapped with the unit", "swapped numbers", "no header", "column name", "months for years",
        "empty",
    ],
)  # fmt: skip
def test_what_would_not_be_read_is_found(
    tmp_path: Path, text: str, encoding: str, words: str
) -> None:
    found = checked(tmp_path, text, encoding=encoding)
    assert not found.ok
    assert any(words in problem for problem in found.problems), found.problems


def test_what_is_declared_about_the_file_is_read_so(tmp_path: Path) -> None:
    table = [[a, b, c.replace(".", ","), german(d), e] for a, b, c, d, e in rows()]
    table[3][1] = "?"
    source = '[source]\ndelimiter = ";"\nencoding = "latin-1"\ndecimal = ","\n'
    source += 'dates = ["%d.%m.%Y"]\nmissing = ["?"]\n'
    text = text_of(table, mark=";")
    found = checked(tmp_path, text, encoding="latin-1", schema=SCHEMA + source)
    assert found.problems == ()
    assert (found.columns[0].blank, found.columns[0].unreadable) == (1, 0)
    wrong = checked(tmp_path, text_of(rows()), schema=SCHEMA + source)
    assert any("cut at semicolons" in problem for problem in wrong.problems)
    other = [[a, b, c, d.replace("-", "/"), e] for a, b, c, d, e in rows()]
    dates = checked(tmp_path, text_of(other), schema=SCHEMA + '[source]\ndates = ["%d.%m.%Y"]\n')
    assert any("'2023/01/10'" in problem for problem in dates.problems)


def test_numbers_beyond_bounds_are_not_taken_for_misspelt_ones(tmp_path: Path) -> None:
    source = '[source]\ndecimal = ","\ndelimiter = ";"\n'
    table = [[a, b, "600,5", d, e] for a, b, _, d, e in rows()]
    found = checked(tmp_path, text_of(table, mark=";"), schema=SCHEMA + source)
    said = next(one for one in found.problems if "'weight'" in one)
    assert said.endswith("Others, for example: '600,5'. 60 lie beyond its bounds, 0 to 300.")


def test_letters_that_are_written_alike_are_no_problem(tmp_path: Path) -> None:
    table = [[*row[:4], "Bern"] for row in rows()]
    found = checked(tmp_path, text_of(table), schema=SCHEMA + '[source]\nencoding = "latin-1"\n')
    assert found.problems == ()
    found = checked(tmp_path, text_of(rows()), schema=SCHEMA + '[source]\nencoding = "latin-1"\n')
    assert found.problems[0] == "The file is UTF-8, and would be read as LATIN-1."


def test_columns_in_another_order_are_found_by_name(tmp_path: Path) -> None:
    header = ",".join(reversed(HEADER.split(",")))
    assert checked(tmp_path, text_of([row[::-1] for row in rows()], header=header)).problems == ()


def test_a_few_rows_beyond_their_unit_are_told_of(tmp_path: Path) -> None:
    table = rows()
    table[0][0], table[1][0] = "", "p9"
    table[2][0] = "p9"
    found = checked(tmp_path, text_of(table))
    assert found.ok
    assert found.notes == (
        "1 of 60 rows name no unit in column 'patient', and are left out.",
        "1 of 29 units have more than 3 rows: 1 of 60 rows would not be used.",
    )


def test_rows_of_one_person_are_noticed_when_rows_are_the_unit(tmp_path: Path) -> None:
    schema = SCHEMA.replace('unit = "patient"\nmax_rows_per_unit = 3\n', "")
    found = checked(tmp_path, text_of(rows()), schema=schema)
    assert 'Is unit = "patient" meant?' in found.problems[0]


def test_what_becomes_of_cells_is_what_a_release_does(tmp_path: Path) -> None:
    table = with_cells(1, lambda c: "999" if c == "21" else "x" if c == "22" else c)
    table[5][4] = "Paris"
    found = checked(tmp_path, text_of(table))
    age, ward = found.columns[0], found.columns[3]
    assert (age.clipped, age.unreadable, age.dropped) == (1, 1, 1)
    assert (ward.outside, ward.dropped, ward.examples) == (1, 1, ("Paris",))
    assert found.dropped_rows == 2


def test_baskets_are_checked_against_their_universe(tmp_path: Path) -> None:
    schema = '[dataset]\nname = "b"\n[items]\nuniverse = ["1", "2", "3"]\n'
    good = checked(tmp_path, "1 2\n3\n2\n", schema=schema, name="a.txt")
    bad = checked(tmp_path, "1;2\n3;1\n2\n", schema=schema, name="a.txt")
    assert good.ok
    assert not bad.ok


def test_the_command_is_loud_and_its_file_is_for_its_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(SCHEMA, encoding="utf-8")
    Path("a.csv").write_text(text_of(with_cells(3, german)), encoding="utf-8")
    words = ["check", "a.csv", "--schema", "a.toml", "--out", "check.json"]
    assert run(words) == 2
    shown = capsys.readouterr()
    assert "PROBLEM: Column 'admitted' (date): 0%" in shown.out
    assert "as private as they are" in shown.err
    assert stat.S_IMODE(Path("check.json").stat().st_mode) == 0o600


@pytest.mark.parametrize("data", ["data", "data/*.csv", "dat?/*.csv", "data/**/*.csv", "link"])
@pytest.mark.parametrize("out", ["data/a.csv", "data/new.csv", "link/a.csv"])
@pytest.mark.parametrize("verb", [["check", "--schema", "a.toml"], ["schema", "draft"]])
def test_no_file_of_rows_is_replaced_by_what_was_read_off_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], out: str, data: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(SCHEMA, encoding="utf-8")
    Path("data").mkdir()
    Path("link").symlink_to("data")
    rows = text_of(with_cells(3, german))
    Path("data/a.csv").write_text(rows, encoding="utf-8")
    if data == "data/**/*.csv" and out == "data/new.csv":
        Path("data/new.csv").touch()
    for more in ([], ["--overwrite"]):
        assert run([*verb, data, "--out", out, *more]) == 2
        assert Path("data/a.csv").read_text(encoding="utf-8") == rows
        assert not Path("data/new.csv").exists() or not Path("data/new.csv").stat().st_size


def test_a_report_replaces_no_other_file_unless_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.toml").write_text(SCHEMA, encoding="utf-8")
    Path("a.csv").write_text(text_of(with_cells(3, german)), encoding="utf-8")
    Path("b.csv").write_text("other rows")
    words = ["check", "a.csv", "--schema", "a.toml", "--out", "b.csv"]
    run(words)
    assert "--overwrite" in capsys.readouterr().err
    assert Path("b.csv").read_text() == "other rows"
    run([*words, "--overwrite"])
    assert Path("b.csv").read_text() != "other rows"
