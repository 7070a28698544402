"""`dpublish solve` for every problem, and what it says when the request is wrong."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

import dpublish as dp
from cli.conftest import CANARY, Command
from dpublish.ledger.state import is_remembered

PAY = ("--ledger", "a.ledger", "--budget", "20", "--budget-delta", "0.01", "--epsilon", "1")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.csv").write_text(f"source,target\na,b\nb,c\n{CANARY},a\nc,d\n")
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\ne\n")
    (tmp_path / "sites.csv").write_text("name,lat,lon\nP,48.85,2.35\nB,52.52,13.4\nL,51.5,-0.12\n")
    (tmp_path / "demand.txt").write_text(f"P\nP\n{CANARY}\nB\n")
    (tmp_path / "sets.txt").write_text("s1 x y\ns2 y z\ns3 z\n")
    (tmp_path / "elements.txt").write_text(f"x\nz\n{CANARY}\n")
    (tmp_path / "agents.txt").write_text(f"a b\nb c {CANARY}\nb\n")
    (tmp_path / "two.pmed").write_text("3 3 1\n1 2 4\n2 3 5\n1 2 3\n")
    (tmp_path / "tiny.scp").write_text("2 3\n1 2 3\n2\n1 2\n1\n3\n")
    (tmp_path / "apart.pmed").write_text("4 2 1\n1 2 4\n3 4 5\n")
    (tmp_path / "short.pmed").write_text("3 3\n")
    (tmp_path / "minus.pmed").write_text("2 1 1\n1 2 -4\n")
    (tmp_path / "lonely.scp").write_text("2 2\n1 1\n2\n1 2\n0\n")
    (tmp_path / "wrong.scp").write_text("1 2\n1 1\n1\n7\n")
    (tmp_path / "hashed.csv").write_text("name,lat,lon\nP #1,48.85,2.35\nB,52.52,13.4\n")
    (tmp_path / "twice.txt").write_text("s1 x y\ns1 y z\n")
    (tmp_path / "minus.txt").write_text("1\n2\n-1\n1\n1\n")
    (tmp_path / "minus3.txt").write_text("1\n-2\n1\n")
    return tmp_path


CASES = {
    "min-cut": ("edges.csv", "names.txt"),
    "vertex-cover": ("edges.csv", "names.txt", "--set", "size_share=1/2"),
    "k-median": ("demand.txt", "sites.csv", "--form", "haversine", "--k", "2"),
    "set-cover": ("elements.txt", "sets.txt", "--delta", "1e-6"),
    "public-projects": ("agents.txt", "names.txt", "--k", "2"),
}


@pytest.mark.parametrize("problem", CASES)
def test_every_problem(folder: Path, dpublish: Command, problem: str) -> None:
    data, public, *more = CASES[problem]
    words = (
        "solve",
        problem,
        data,
        "--public",
        public,
        *more,
        *PAY,
        "--out",
        "x.dpr",
        "--key",
        "one",
    )
    shown = dpublish(*words)
    assert shown.code == 0, shown.err
    release = dp.open_release("x.dpr")
    assert isinstance(release, dp.optimize.SolutionRelease)
    assert release.problem == problem
    assert release.verify().ok
    assert release.publishable
    assert dpublish("verify", "x.dpr").code == 0
    assert is_remembered(data)
    assert not is_remembered(public)
    first = (folder / "x.dpr").read_bytes()
    again = dpublish(*words, "--json")
    assert again.document["problem"] == problem
    assert (folder / "x.dpr").read_bytes() == first
    assert release.plot() is not None
    assert dpublish("report", "x.dpr", "--out", "x.html").code == 0
    page = (folder / "x.html").read_text()
    assert "How good it is" in page
    assert CANARY not in page
    assert dpublish("export", "x.dpr", "--out", "x.csv").code == 0
    assert (folder / "x.csv").read_text().count("\n") == release.to_frame().height + 1


def test_projects_by_distance_and_contracted_cuts(folder: Path, dpublish: Command) -> None:
    words = (
        "solve",
        "public-projects",
        "demand.txt",
        "-p",
        "sites.csv",
        "--form",
        "haversine",
        "-k",
        "1",
    )
    shown = dpublish(*words, "--set", "worth=facility", "--set", "cap=500", *PAY, "-o", "f.dpr")
    assert shown.code == 0, shown.err
    shown = dpublish(
        "solve",
        "min-cut",
        "edges.csv",
        "-p",
        "30",
        "--set",
        "cuts=karger-stein",
        "--delta",
        "1e-6",
        *PAY,
        "-o",
        "c.dpr",
    )
    assert shown.code == 0, shown.err


def test_or_library_files(folder: Path, dpublish: Command) -> None:
    """Places, elements and sets go by the numbers of the file, which start at 1."""
    (folder / "places.txt").write_text("3\n" * 300 + "0\n")
    pay = (
        "--epsilon",
        "400",
        "--budget",
        "999",
        "--ledger",
        "large.ledger",
    )  # hardly any noise: the answer is certain
    shown = dpublish(
        "solve",
        "k-median",
        "places.txt",
        "-p",
        "two.pmed",
        "--form",
        "pmed",
        "-k",
        "1",
        *pay,
        "-o",
        "m.dpr",
    )
    assert shown.code == 0, shown.err
    sites = dp.open_release("m.dpr")
    assert isinstance(sites, dp.optimize.SolutionRelease)
    assert sites.chosen == ["3"]
    shown = dpublish(
        "solve",
        "set-cover",
        "places.txt",
        "-p",
        "tiny.scp",
        "--form",
        "scp",
        "--delta",
        "1e-6",
        *PAY,
        "-o",
        "s.dpr",
    )
    assert shown.code == 0, shown.err
    release = dp.open_release("s.dpr")
    assert isinstance(release, dp.optimize.SolutionRelease)
    assert release.assign("2") == "3"
    assert release.assign("1") in ("1", "2")


def test_json_holds_the_whole_solution(folder: Path, dpublish: Command) -> None:
    shown = dpublish(
        "solve", "vertex-cover", "edges.csv", "-p", "2500", "--json", *PAY, "-o", "v.dpr"
    )
    assert sorted(json.loads(shown.out)["solution"]["vertex"]) == list(range(2500))


def test_places_at_one_point(folder: Path) -> None:
    """A length of 0 is a length, not a missing road."""
    (folder / "zero.pmed").write_text("3 3 1\n1 2 0\n2 3 5\n1 3 9\n")
    assert dp.optimize.read_pmed("zero.pmed")[0].tolist() == [[0, 0, 5], [0, 0, 5], [5, 5, 0]]


def test_costs_of_or_library_files(folder: Path, dpublish: Command) -> None:
    (folder / "odd.scp").write_text("2 3\n1.5 2 1\n2 1 2\n2 2 3\n")
    assert dp.optimize.read_scp("odd.scp")[1] == [Fraction(3, 2), 2, 1]
    (folder / "same.txt").write_text("3\n3\n3\n")
    words = (
        "solve",
        "set-cover",
        "elements.txt",
        "-p",
        "odd.scp",
        "--form",
        "scp",
        "--delta",
        "1e-6",
        *PAY,
    )
    shown = dpublish(*words, "--set", "rule=greedy", "-o", "s.dpr")
    assert "sets of equal cost" in shown.err
    shown = dpublish(*words, "--set", "rule=greedy", "--set", "costs=same.txt", "-o", "s.dpr")
    assert shown.code == 0, shown.err
    release = dp.open_release("s.dpr")
    assert release.tables["costs"]["cost"].to_list() == [3, 3, 3]
    for text, why in (
        ("2 3\nnan 2 1\n2 1 2\n2 2 3\n", "finite number"),
        ("2 3\n1 2 1\n2 1 2.5\n2 2 3\n", "only costs may have fractions"),
    ):
        (folder / "bad.scp").write_text(text)
        with pytest.raises(dp.PlanError, match=why):
            dp.optimize.read_scp("bad.scp")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("k-median", "demand.txt", "-p", "sites.csv", "--form", "haversine"), "needs --k"),
        (
            ("k-median", "demand.txt", "-p", "sites.csv", "--form", "haversine", "-k", "9"),
            "number of sites, 3",
        ),
        (("k-median", "demand.txt", "-p", "sites.csv", "-k", "1"), "--form plain"),
        (("vertex-cover", "edges.csv", "-p", "nowhere.txt"), "no file"),
        (
            ("k-median", "demand.txt", "-p", "nosites.csv", "--form", "haversine", "-k", "1"),
            "no file 'nosites.csv'",
        ),
        (
            ("k-median", "demand.txt", "-p", "hashed.csv", "--form", "haversine", "-k", "1"),
            "'P #1'",
        ),
        (
            ("set-cover", "elements.txt", "-p", "twice.txt", "--delta", "1e-6"),
            "names the set; 's1' names two",
        ),
        (
            ("vertex-cover", "edges.csv", "-p", "names.txt", "--set", "wieghts=x"),
            "Did you mean 'weights'",
        ),
        (("min-cut", "nothing.csv", "-p", "names.txt"), "no file"),
        (
            ("min-cut", "edges.csv", "-p", "names.txt", "--set", "cuts=contract"),
            "Use listed, karger-stein",
        ),
        (
            ("min-cut", "edges.csv", "-p", "names.txt", "--set", "rule=fast"),
            "rule = 'fast' is not known",
        ),
        (
            ("min-cut", "edges.csv", "-p", "40", "--set", "rule=near-minimum"),
            "delta between 0 and 1",
        ),
        (
            ("k-median", "demand.txt", "-p", "apart.pmed", "--form", "pmed", "-k", "1"),
            "disconnected",
        ),
        (
            ("k-median", "demand.txt", "-p", "short.pmed", "--form", "pmed", "-k", "1"),
            "ends too early",
        ),
        (
            ("k-median", "demand.txt", "-p", "minus.pmed", "--form", "pmed", "-k", "1"),
            "length of at least 0",
        ),
        (
            (
                "k-median",
                "demand.txt",
                "-p",
                "sites.csv",
                "--form",
                "haversine",
                "-k",
                "1",
                "--set",
                "cap=-3",
            ),
            "positive distance",
        ),
        (
            (
                "k-median",
                "demand.txt",
                "-p",
                "sites.csv",
                "--form",
                "haversine",
                "-k",
                "1",
                "--set",
                "cap=far",
            ),
            "positive distance",
        ),
        (
            (
                "k-median",
                "demand.txt",
                "-p",
                "sites.csv",
                "--form",
                "haversine",
                "-k",
                "1",
                "--set",
                "steps=many",
            ),
            "whole number",
        ),
        (
            ("k-median", "demand.txt", "-p", "names.txt", "--form", "haversine", "-k", "1"),
            "not a CSV of sites",
        ),
        (("vertex-cover", "edges.csv", "-p", "names.txt", "--set", "weights=minus.txt"), "above 0"),
        (("vertex-cover", "edges.csv", "-p", "names.txt", "--set", "weights=sets.txt"), "weight"),
        (("vertex-cover", "edges.csv", "-p", "1"), "at least 2"),
        (
            ("set-cover", "elements.txt", "-p", "lonely.scp", "--form", "scp", "--delta", "1e-6"),
            "is in no set",
        ),
        (
            ("set-cover", "elements.txt", "-p", "wrong.scp", "--form", "scp", "--delta", "1e-6"),
            "sets from 1 to 2",
        ),
        (
            (
                "set-cover",
                "elements.txt",
                "-p",
                "sets.txt",
                "--set",
                "costs=minus3.txt",
                "--delta",
                "1e-6",
            ),
            "above 0",
        ),
        (
            (
                "set-cover",
                "elements.txt",
                "-p",
                "sets.txt",
                "--set",
                "rule=exact",
                "--delta",
                "1e-6",
            ),
            "delta",
        ),
        (("public-projects", "agents.txt", "-p", "names.txt", "-k", "9"), "number of resources, 5"),
        (
            ("public-projects", "agents.txt", "-p", "names.txt", "-k", "1", "--set", "worth=joy"),
            "not known",
        ),
        (
            ("public-projects", "agents.txt", "-p", "names.txt", "-k", "1", "--set", "cap=3"),
            "worth=facility",
        ),
    ],
)
def test_wrong_requests_cost_nothing(
    folder: Path, dpublish: Command, words: tuple[str, ...], text: str
) -> None:
    shown = dpublish("solve", *words, *PAY, "-o", "x.dpr")
    assert shown.code == 2
    assert text in shown.err
    with dp.open_ledger(
        "a.ledger", budget=dp.Budget(epsilon=20, delta="0.01"), create=True
    ) as ledger:
        assert ledger.status().spent.epsilon == 0


def test_names_with_blanks_decide(folder: Path, dpublish: Command) -> None:
    """Hardly any noise, so a row that was lost on the way would show in the decision."""
    (folder / "towns.csv").write_text("name,x,y\nNew York City,0,0\nNew, 9,9\nChicago ,5,5\n")
    (folder / "people.txt").write_text("New York City\n" * 300)
    (folder / "guests.csv").write_text("town\n" + "Chicago\n" * 300)
    (folder / "goods.txt").write_text("whole milk\nwhole\nmilk\ntea\n")
    (folder / "wishes.txt").write_text("whole milk, rice\n" * 300 + "tea\n" * 300)
    pay = ("--epsilon", "400", "--budget", "9000", "--ledger", "large.ledger")
    for problem, data, public, chosen in (
        ("k-median", "people.txt", "towns.csv", "New York City"),
        ("k-median", "guests.csv", "towns.csv", "Chicago"),
        ("public-projects", "wishes.txt", "goods.txt", "whole milk, tea"),
    ):
        form = ("--form", "euclidean", "-k", "1") if problem == "k-median" else ("-k", "2")
        shown = dpublish(
            "solve",
            problem,
            data,
            "-p",
            public,
            *form,
            *pay,
            "-o",
            "n.dpr",
            "--overwrite",
            "--again",
        )
        assert shown.code == 0, shown.err
        release = dp.open_release("n.dpr")
        assert isinstance(release, dp.optimize.SolutionRelease)
        assert ", ".join(sorted(release.chosen, reverse=True)) == chosen
        assert ("rows cut at" in shown.out) == (problem == "public-projects")
    assert release.cost_of(["whole milk; rice", "whole, milk"]) == 1


def test_facility_location_is_explained(folder: Path, dpublish: Command) -> None:
    shown = dpublish(
        "solve", "facility-location", "demand.txt", "--public", "sites.csv", *PAY, "--out", "x.dpr"
    )
    assert shown.code == 2
    assert "corollary 48" in shown.err
    assert "k-median" in shown.err
    for name, text in (
        ("facility_location", "corollary 48"),
        ("max_cut", "has no attribute 'max_cut'"),
    ):
        with pytest.raises(AttributeError, match=text):
            getattr(dp.optimize, name)
    assert (
        "Did you mean 'k-median'"
        in dpublish("solve", "kmedian", "d", "--public", "s", *PAY, "--out", "x.dpr").err
    )
