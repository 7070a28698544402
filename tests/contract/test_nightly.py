"""`make nightly` runs every part, whatever became of the one before, and says what each took."""

from __future__ import annotations

import functools
from pathlib import Path

import nightly
import pytest

BUSY = """
import pathlib, time


def test_busy():
    end = time.process_time() + 2
    while time.process_time() < end:
        pass
    pathlib.Path(__file__).with_name("used").write_text(str(time.process_time()))
"""
FINE = "def test_fine():\n    pass\n"


def part(folder: Path, name: str, text: str) -> nightly.Part:
    (folder / name).mkdir()
    (folder / name / "pytest.ini").write_text("[pytest]\n")
    (folder / name / "test_it.py").write_text(text)
    place = str(folder / name)
    return nightly.Part(
        name, ("-p", "no:cacheprovider", "-c", f"{place}/pytest.ini", f"--rootdir={place}", place)
    )


def test_a_failing_part_fails_the_whole_and_keeps_no_other_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = f"{FINE}\n\ndef test_wrong():\n    assert False\n"
    made = [
        part(tmp_path, "wrong", wrong),
        part(tmp_path, "broken", "import there_is_no_such_thing\n"),
        part(tmp_path, "fine", FINE),
    ]
    monkeypatch.setattr(nightly, "parts", lambda: made)
    monkeypatch.setattr(nightly, "collected", lambda: 4)
    monkeypatch.setattr(
        nightly, "run", functools.partial(nightly.run, reports=tmp_path / "reports", processes=0)
    )
    assert nightly.main([]) == 1
    shown = capfd.readouterr().out
    rows = {
        line.split()[0]: line.split()[1:] for line in shown[shown.rindex("part ") :].splitlines()
    }
    assert [*rows] == ["part", "wrong", "broken", "fine", "together"]
    assert (rows["wrong"][:2], rows["wrong"][-1]) == (["2", "1"], "FAILED")
    assert rows["broken"][-1] == "FAILED"
    assert (rows["fine"][:2], rows["fine"][-1]) == (["1", "0"], "passed")
    assert nightly.main(["fine"]) == 0
    with pytest.raises(SystemExit):
        nightly.main(["finer"])


def test_the_time_of_the_worker_processes_counts(tmp_path: Path) -> None:
    """A worker and the process that minds it start alike, so that the second alone would not reach
    what the first used."""
    done = nightly.run(part(tmp_path, "busy", BUSY), tmp_path / "reports", processes=1)
    assert done.passed
    assert done.cpu > float((tmp_path / "busy" / "used").read_text())


def test_a_part_that_hangs_is_ended(tmp_path: Path) -> None:
    hanging = part(tmp_path, "hanging", "import time\n\n\ndef test_it():\n    time.sleep(600)\n")
    done = nightly.run(hanging, tmp_path / "reports", processes=0, hangs=5)
    assert not done.passed
    assert done.wall < 60


def test_a_test_in_no_part_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(nightly, "parts", lambda: [nightly.Part("one", ())])
    monkeypatch.setattr(nightly, "run", lambda part: nightly.Outcome(part.name, 8, 0, 1.0, 1.0, 0))
    for there, code in ((8, 0), (9, 1)):
        monkeypatch.setattr(nightly, "collected", lambda there=there: there)
        assert nightly.main([]) == code
    assert "8 tests ran, but there are 9" in capfd.readouterr().out


def test_the_places_of_the_parts_exist() -> None:
    for place in (place for places in nightly.NIGHTLY.values() for place in places):
        path, _, name = place.partition("::")
        assert (nightly.ROOT / path).exists(), place
        assert not name or f"def {name}(" in (nightly.ROOT / path).read_text(), place
