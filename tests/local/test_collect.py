"""A survey run with files, as people run it: on devices, by the collector, and from the command
line."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpublish.cli.app import run
from dpublish.errors import BudgetExceeded, InputError, QueryError
from dpublish.local import DeviceLedger, Survey
from dpublish.local.collect import Collector, randomize_file, result_json
from dpublish.noise.source import SeededNoise

CANARY = "CANARY7f3a91"
TEXT = """
[survey]
name = "commute"
epsilon = 4

[questions.transport]
levels = ["bus", "car", "bike"]
epsilon = 1

[questions.hours]
method = "mean"
lower = 0
upper = 20
epsilon = 1

[questions.habits]
method = "conjunctions"
attributes = ["smokes", "runs"]
epsilon = 1

[questions.drink]
method = "heavy-hitters"
levels = ["tea", "milk"]
epsilon = 1
"""
PEOPLE = 3000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("survey.toml").write_text(TEXT)
    rng = np.random.default_rng(7)
    with Path("answers.csv").open("w", newline="") as out:
        table = csv.writer(out)
        table.writerow(["id", "transport", "hours", "smokes", "runs", "drink", "note"])
        for person in range(PEOPLE):
            transport = ["bus", "car", "car", CANARY][person % 4]
            row = [
                person,
                transport,
                rng.integers(0, 10),
                "yes" if person % 2 else "no",
                "yes",
                "tea",
                CANARY,
            ]
            table.writerow(row)
    with Path("me.csv").open("w", newline="") as out:
        csv.writer(out).writerows(
            [["transport", "hours", "smokes", "runs", "drink"], ["bus", "5", "yes", "no", "tea"]]
        )
    return tmp_path


@pytest.fixture
def dpublish(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def command(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(list(words))
        shown = capsys.readouterr()
        assert CANARY not in shown.out + shown.err
        return code, shown.out, shown.err

    return command


def test_files_there_and_back(folder: Path) -> None:
    survey = Survey.read("survey.toml")
    randomize_file(survey, Path("answers.csv"), Path("reports.csv"), coins=SeededNoise(1))
    text = Path("reports.csv").read_text()
    assert CANARY not in text
    collector = Collector(survey)
    collector.read(Path("reports.csv"))
    assert collector.people == PEOPLE
    results = collector.results()
    car, mean, both = (
        results["transport"].of("car"),
        results["hours"],
        results["habits"].conjunction(["smokes", "runs"]),
    )
    assert car.low <= PEOPLE / 2 <= car.high
    assert mean.low <= 4.5 <= mean.high
    assert both.low <= 0.5 <= both.high
    assert results["drink"][0].name == "tea"
    json.dumps({name: result_json(result) for name, result in results.items()}, allow_nan=False)


def test_files_of_many_devices_are_put_together(folder: Path) -> None:
    survey = Survey.read("survey.toml")
    for part in ("a", "b"):
        randomize_file(survey, Path("me.csv"), Path(f"{part}.csv"))
    Path("all.csv").write_text(Path("a.csv").read_text() + Path("b.csv").read_text())
    collector = Collector(survey)
    collector.read(Path("all.csv"))
    collector.read(Path("a.csv"))
    assert collector.people == 3


def test_reports_outside_the_protocol_are_named(folder: Path) -> None:
    survey = Survey.read("survey.toml")
    randomize_file(survey, Path("me.csv"), Path("r.csv"))
    good = Path("r.csv").read_text()
    header, row = good.splitlines()
    digest = survey.digest
    for text, message in [
        (f"{header}\n{digest},9,0,0,0\n", "question 'transport'.*outside the protocol"),
        (f"{header}\n{digest},x,0,0,0\n", "not a whole number"),
        (f"{header}\n{digest},0,0,0\n", "another survey"),
        (f"{header}\n{'0' * 16},0,0,0,0\n", "another survey"),
        (f"a,b\n{row}\n", "first line"),
        ("", "first line"),
        (f"{header}\n{digest},\x00,0,0,0\n", "question 'transport'|cannot be read"),
    ]:
        Path("bad.csv").write_text(text)
        collector = Collector(survey)
        with pytest.raises(InputError, match=message):
            collector.read(Path("bad.csv"))
        assert collector.people == 0
        with pytest.raises(QueryError, match="no reports"):
            collector.results()
    Path("bad.csv").write_bytes(header.encode() + b"\n\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        Collector(survey).read(Path("bad.csv"))


@pytest.mark.parametrize(
    "odd", [b"\xff\xfe", b"\xed\xa0\x80", b"x" * 200_000, b'"' + b"x," * 100_000 + b'"', b"\x00"]
)
def test_an_odd_answer_leads_to_a_report(odd: bytes, folder: Path) -> None:
    """No report at all, for one person or for all in the file, would be an answer too."""
    survey = Survey.read("survey.toml")
    header, row = Path("me.csv").read_bytes().splitlines()
    cells = row.split(b",")
    rows = [b",".join([*cells[:place], odd, *cells[place + 1 :]]) for place in range(len(cells))]
    Path("odd.csv").write_bytes(b"\n".join([header, row, *rows, b""]))
    before = csv.field_size_limit()
    randomize_file(survey, Path("odd.csv"), Path("r.csv"))
    assert csv.field_size_limit() == before
    collector = Collector(survey)
    collector.read(Path("r.csv"))
    assert collector.people == 1 + len(rows)


def test_a_wallet_answers_once(folder: Path) -> None:
    survey = Survey.read("survey.toml")
    wallet = DeviceLedger("wallet.json", epsilon=4)
    for out in ("one.csv", "two.csv"):
        randomize_file(survey, Path("me.csv"), Path(out), wallet=wallet)
    assert Path("one.csv").read_text() == Path("two.csv").read_text()
    assert wallet.spent() == 4
    other = Survey.from_toml(TEXT.replace("commute", "second"))
    with pytest.raises(BudgetExceeded):
        randomize_file(other, Path("me.csv"), Path("three.csv"), wallet=wallet)
    assert not Path("three.csv").exists()
    with pytest.raises(InputError, match="one row"):
        randomize_file(survey, Path("answers.csv"), Path("three.csv"), wallet=wallet)
    randomize_file(survey, Path("answers.csv"), Path("all.csv"), wallet=wallet, person="id")
    assert wallet.spent("17") == 4
    Path("twice.csv").write_text(Path("answers.csv").read_text() + "17,bus,1,no,no,tea,x\n")
    with pytest.raises(InputError, match="answered once"):
        randomize_file(survey, Path("twice.csv"), Path("three.csv"), wallet=wallet, person="id")


ONE = '[survey]\nname = "q"\nepsilon = 1\n[questions.smokes]\nmethod = "binary"\nepsilon = 1\n'


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ("smokes\nyes\n\nyes\n", 3),
        ("smokes\n\n", 1),
        ("smokes\r\n\r\n\r\nno", 3),
        ("smokes\r\ryes\r", 2),
        ("smokes\r\r\nyes\r\r\n", 1),
        ("smokes\nyes\rno\r\ryes\nno\n", 2),
        ("smokes\r\n\ryes\r\r\n", 1),
        ('"smokes"\n"ye\rs"\n', 1),
        ("smokes\ryes\nno\ryes\r", 2),
        ("smokes,id\nyes,1\n\n,\nno\n", 3),
        ("smokes,id\nyes,1\rno,2\n", 1),
        ("smokes\n", 0),
    ],
)
def test_every_answer_leads_to_a_report(text: str, people: int, folder: Path) -> None:
    survey = Survey.from_toml(ONE)
    Path("a.csv").write_text(text, newline="")
    randomize_file(survey, Path("a.csv"), Path("r.csv"))
    assert len(Path("r.csv").read_text().splitlines()) == 1 + people
    if people == 1:
        randomize_file(
            survey, Path("a.csv"), Path("r.csv"), wallet=DeviceLedger("one.json", epsilon=1)
        )
        assert len(Path("r.csv").read_text().splitlines()) == 2


def test_a_person_has_one_budget_in_every_spelling(folder: Path) -> None:
    survey, wallet = Survey.from_toml(ONE), DeviceLedger("w.json", epsilon=1)
    reports = set()
    for who in ("ann", "ann ", " ann", "\tann\xa0"):
        Path("a.csv").write_text(f"id,smokes\n{who},yes\n7.0,no\n")
        randomize_file(survey, Path("a.csv"), Path("r.csv"), wallet=wallet, person="id")
        reports.add(Path("r.csv").read_text())
    assert len(reports) == 1
    assert [wallet.spent(who) for who in ("ann", " ann ", "7", "7.00", "70")] == [1, 1, 1, 1, 0]
    Path("a.csv").write_text("id,smokes\nann,yes\nann ,no\n")
    with pytest.raises(InputError, match="answered once"):
        randomize_file(survey, Path("a.csv"), Path("r.csv"), wallet=wallet, person="id")
    Path("a.csv").write_text("id,smokes\n ,yes\n")
    with pytest.raises(InputError, match="by name"):
        randomize_file(survey, Path("a.csv"), Path("r.csv"), wallet=wallet, person="id")


def test_the_command_line(folder: Path, dpublish: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = dpublish(
        "local", "plan", "--survey", "survey.toml", "--people", "3000", "--json"
    )
    assert code == 0
    assert json.loads(out)["cost"] == "4"
    assert (
        "is right in at most 99 of 100 cases on average, instead of 50"
        in json.loads(out)["meaning"]
    )
    code, out, _ = dpublish("local", "plan", "--survey", "survey.toml")
    assert code == 0
    assert "Guessing a person's answers" in out
    code, out, err = dpublish(
        "local", "randomize", "answers.csv", "-s", "survey.toml", "-o", "reports.csv"
    )
    assert (code, err) == (0, "")
    code, out, _ = dpublish(
        "local", "randomize", "answers.csv", "-s", "survey.toml", "-o", "more.csv", "--json"
    )
    assert json.loads(out)["cost"] == "4"
    code, out, _ = dpublish(
        "local", "aggregate", "reports.csv", "more.csv", "-s", "survey.toml", "--out", "all.json"
    )
    assert code == 0
    assert "6,000 people" in out
    assert "smokes and runs" in out
    code, out, _ = dpublish("local", "aggregate", "reports.csv", "-s", "survey.toml", "--json")
    assert json.loads(out)["questions"]["transport"]["levels"][3]["level"] == "(other)"
    assert json.loads(Path("all.json").read_text())["people"] == 6000


def test_the_level_is_that_of_every_question(
    folder: Path, dpublish: Callable[..., tuple[int, str, str]]
) -> None:
    assert (
        dpublish("local", "randomize", "answers.csv", "-s", "survey.toml", "-o", "reports.csv")[0]
        == 0
    )
    widths: dict[str, dict[str, float]] = {}
    for level in ("0.5", "0.99"):
        code, out, _ = dpublish(
            "local", "aggregate", "reports.csv", "-s", "survey.toml", "--level", level, "--json"
        )
        questions = json.loads(out)["questions"]
        assert code == 0
        assert questions["hours"]["level"] == questions["transport"]["confidence"] == float(level)
        assert {row["level"] for row in questions["habits"]["conjunctions"]} == {float(level)}
        rows = {"habits": questions["habits"]["conjunctions"][0], "hours": questions["hours"]}
        widths[level] = {name: row["high"] - row["low"] for name, row in rows.items()}
    assert all(widths["0.5"][name] < widths["0.99"][name] for name in widths["0.5"])


def test_nothing_is_written_over_what_is_read(
    folder: Path, dpublish: Callable[..., tuple[int, str, str]]
) -> None:
    randomize = ("local", "randomize", "answers.csv", "-s", "survey.toml", "-o")
    assert dpublish(*randomize, "reports.csv")[0] == 0
    Path("link.csv").symlink_to("answers.csv")
    aggregate = ("local", "aggregate", "reports.csv", "-s", "survey.toml", "-o")
    before = {path: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    for words in (
        (*randomize, "answers.csv"),
        (*randomize, "./link.csv"),
        (*randomize, "survey.toml"),
        (*randomize, "w.json", "--wallet", "./w.json", "--person", "id"),
        (*aggregate, "reports.csv"),
        (*aggregate, "survey.toml"),
    ):
        code, _, err = dpublish(*words)
        assert code == 2, words
        assert "which would be lost" in err
    with pytest.raises(InputError, match="which would be lost"):
        randomize_file(Survey.read("survey.toml"), Path("answers.csv"), Path("answers.csv"))
    assert {path: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before
    code, _, err = dpublish(
        "local", "aggregate", "reports.csv", "./reports.csv", "-s", "survey.toml"
    )
    assert code == 2
    assert "is given twice" in err


def test_the_command_line_says_what_is_wrong(
    folder: Path, dpublish: Callable[..., tuple[int, str, str]]
) -> None:
    randomize = ("local", "randomize", "answers.csv", "-s", "survey.toml", "-o", "r.csv")
    assert dpublish(*randomize, "--budget", "3")[0] == 2
    assert dpublish(*randomize, "--person", "id")[0] == 2
    assert dpublish(*randomize, "--wallet", "w.json", "--budget", "3", "--person", "id")[0] == 3
    code, _, err = dpublish(*randomize, "--wallet", "w.json", "--person", "nobody")
    assert code == 2
    assert "no column 'nobody', which is to say who each row is (--person)" in err
    assert dpublish("local", "randomize", "none.csv", "-s", "survey.toml", "-o", "r.csv")[0] == 2
    assert dpublish("local", "randomize", "answers.csv", "-s", "none.toml", "-o", "r.csv")[0] == 2
    assert (
        dpublish("local", "randomize", "answers.csv", "-s", "survey.toml", "-o", "none/r.csv")[0]
        == 2
    )
    assert dpublish("local", "aggregate", "answers.csv", "-s", "survey.toml")[0] == 2
    Path("broken.csv").write_bytes(b"transport,hours,smokes,runs,drink\n\xff" + CANARY.encode())
    # a refusal would tell about an answer
    assert (
        dpublish("local", "randomize", "broken.csv", "-s", "survey.toml", "-o", "odd.csv")[0] == 0
    )
    Path("survey.toml").write_text(TEXT.replace("epsilon = 4", "epsilon = 2"))
    assert dpublish(*randomize)[0] == 3
    assert not Path("r.csv").exists()


def test_an_unforeseen_failure_shows_nothing(
    folder: Path, dpublish: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr(Survey, "randomize", fail)
    code, _, err = dpublish(
        "--debug", "local", "randomize", "answers.csv", "-s", "survey.toml", "-o", "r.csv"
    )
    assert code == 6
    assert "Traceback" not in err


def test_a_device_needs_numpy_alone(folder: Path) -> None:
    """With every other package made unimportable, answers are randomised, paid for from a wallet,
    and aggregated."""
    code = (
        "import sys\n"
        "class Bare:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        top = name.split('.')[0]\n"
        "        if top in {'numba', 'polars', 'scipy', 'sqlalchemy', 'flint', 'cryptography', "
        "'typer', 'rich', 'sqlglot',\n"
        "                   'sklearn', 'matplotlib', 'pandas', 'pyarrow'}:\n"
        "            raise ImportError('bare device: ' + name)\n"
        "sys.meta_path.insert(0, Bare())\n"
        "from pathlib import Path\n"
        "import dpublish as dp\n"
        "from dpublish.local.collect import Collector, randomize_file\n"
        "survey = dp.local.Survey.read('survey.toml')\n"
        "wallet = dp.local.DeviceLedger('w.json', epsilon=4)\n"
        "randomize_file(survey, Path('me.csv'), Path('r.csv'), wallet=wallet)\n"
        "collector = Collector(survey)\n"
        "collector.read(Path('r.csv'))\n"
        "assert set(collector.results()) == set(survey.questions)\n"
        "for r in (dp.local.HadamardResponse(9, 1), dp.local.LocalHashing(9, 1), "
        "dp.local.UnaryEncoding(9, 1)):\n"
        "    r.aggregate(r.randomize([1, 2, 3]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_byte_order_mark_is_no_part_of_the_first_name(folder: Path) -> None:
    survey = Survey.read("survey.toml")
    Path("marked.csv").write_bytes(b"\xef\xbb\xbf" + Path("answers.csv").read_bytes())
    randomize_file(survey, Path("marked.csv"), Path("reports.csv"))
    reports = Path("reports.csv").read_bytes()
    Path("reports.csv").write_bytes(b"\xef\xbb\xbf" + reports)
    collector = Collector(survey)
    collector.read(Path("reports.csv"))
    assert collector.people == len(reports.splitlines()) - 1


def test_as_many_common_values_are_shown_as_asked_for(
    folder: Path, dpublish: Callable[..., tuple[int, str, str]]
) -> None:
    names = [f"v{number}" for number in range(30)]
    Path("many.toml").write_text(
        f'[survey]\nname = "many"\nepsilon = 8\n[questions.drink]\nmethod = '
        f'"heavy-hitters"\nlevels = {names}\nepsilon = 8\n'
    )
    Path("many.csv").write_text("drink\n" + "\n".join(names * 2000) + "\n")
    assert (
        dpublish("local", "randomize", "many.csv", "--survey", "many.toml", "--out", "reports.csv")[
            0
        ]
        == 0
    )
    for most in ("7", "30"):
        code, out, _ = dpublish(
            "local", "aggregate", "reports.csv", "--survey", "many.toml", "--rows", most, "--json"
        )
        assert code == 0
        assert len(json.loads(out)["questions"]["drink"]) == int(most)
