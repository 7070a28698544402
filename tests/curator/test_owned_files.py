"""What the private side keeps is for its owner alone, whatever the umask, and killed runs leave
nothing that stays."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpublish as dp
from dpublish.cli.app import app
from dpublish.ledger import crashpoints, open_ledger
from dpublish.ledger.state import JsonFile
from dpublish.owned import open_owned, owned_folder, replace_owned, sweep, temporary

SCHEMA = """
[dataset]
name = "visits"
neighbours = "add-remove-one"
nominal_size = 8000

[columns.place]
kind = "categorical"
levels = ["a", "b"]
"""


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DPUBLISH_STATE", str(tmp_path / "state" / "deep"))
    (tmp_path / "rows.csv").write_text("place\n" + "a\nb\n" * 4000)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    return tmp_path


def modes(folder: Path) -> dict[str, int]:
    """Permissions of everything below, by path."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode)
        for path in sorted(folder.rglob("*"))
    }


def curator(home: Path) -> dp.Curator:
    return dp.Curator(
        home / "rows.csv",
        home / "visits.toml",
        ledger=home / "kept" / "a.ledger",
        budget=dp.Budget(epsilon=9),
    )


def require_owned(folder: Path) -> None:
    found = modes(folder)
    assert found
    wrong = {
        name: oct(mode)
        for name, mode in found.items()
        if mode != (0o700 if (folder / name).is_dir() else 0o600)
    }
    assert not wrong


def test_ledgers_anchors_stores_and_sessions(home: Path, umask: int) -> None:
    owned_folder(home / "kept")
    owner = curator(home)
    release = owner.publish(dp.Histogram(columns=["place"]), epsilon=1, key="one")
    session = owner.answer_online(dp.OnlineMultiplicativeWeights(max_hard=4), epsilon=1, key="two")
    session.ask("place = 'a'")
    names = set(modes(home / "kept"))
    assert {"a.ledger", "a.ledger-wal", "a.ledger-shm", "a.ledger.d"} <= names
    assert any(name.endswith("private.bin") for name in names)
    require_owned(home / "kept")
    require_owned(home / "state")
    assert release.manifest["publishable"]


def test_drafts(home: Path, umask: int) -> None:
    draft = home / "draft.toml"
    result = CliRunner().invoke(
        app, ["schema", "draft", str(home / "rows.csv"), "--out", str(draft)]
    )
    assert result.exit_code == 0, result.output
    assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    draft.chmod(0o644)
    result = CliRunner().invoke(
        app, ["schema", "draft", str(home / "rows.csv"), "--out", str(draft), "--overwrite"]
    )
    assert result.exit_code == 0, result.output
    assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    assert not list(home.glob(".draft*"))


def test_what_is_published_has_the_permissions_of_the_umask(home: Path) -> None:
    before = os.umask(0o027)
    try:
        owned_folder(home / "kept")
        curator(home).publish(dp.Histogram(columns=["place"]), epsilon=1, out=home / "out.dpr")
        curator(home).publish(dp.Histogram(columns=["place"]), epsilon=2, out=home / "folder")
    finally:
        os.umask(before)
    assert stat.S_IMODE((home / "out.dpr").stat().st_mode) == 0o640
    assert stat.S_IMODE((home / "folder").stat().st_mode) == 0o750
    assert stat.S_IMODE((home / "folder" / "manifest.json").stat().st_mode) == 0o640


CHILD = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import dpublish as dp
from dpublish.ledger import crashpoints
from curator.test_owned_files import curator

def stop(name):
    if name == {point!r}:
        os.kill(os.getpid(), signal.SIGKILL)

with crashpoints.armed(stop):
    owner = curator(Path({home!r}))
    if {point!r}.startswith("online"):
        owner.answer_online(dp.OnlineMultiplicativeWeights(max_hard=4), epsilon=1, key="killed")
    else:
        owner.publish(dp.Histogram(columns=["place"]), epsilon=1, key="killed")
"""


def killed_at(home: Path, point: str) -> None:
    code = CHILD.format(tests=str(Path(__file__).parents[1]), home=str(home), point=point)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def left(home: Path) -> list[Path]:
    return [path for path in home.rglob(".*") if path.suffix in (".tmp", ".partial")]


@pytest.mark.parametrize("remover", ["another run", "ledger verify"])
@pytest.mark.parametrize("point", ["online:prepared", "anchor.written"])
def test_what_a_killed_run_left_is_removed(home: Path, point: str, remover: str) -> None:
    owned_folder(home / "kept")
    curator(home).ledger.close()
    killed_at(home, point)
    assert left(home), "the killed run was to leave something"
    if remover == "another run":
        curator(home).publish(dp.Histogram(columns=["place"]), epsilon=1, key="another")
    else:
        result = CliRunner().invoke(app, ["ledger", "verify", str(home / "kept" / "a.ledger")])
        assert result.exit_code == 0, result.output
    assert not left(home)


def test_a_copy_beside_the_target_is_removed_and_others_are_not(home: Path) -> None:
    owned_folder(home / "kept")
    stale = home / ".out.dpr.0123456789abcdef.partial"
    foreign = home / ".film.0123456789abcdef.partial"
    for path in (stale, foreign):
        path.write_bytes(b"half")
    curator(home).publish(dp.Histogram(columns=["place"]), epsilon=1, out=home / "out.dpr")
    assert not stale.exists()
    assert foreign.exists(), "a folder of the curator's own holds files of other programs"


@pytest.mark.parametrize("kind", ["release", "session"])
def test_a_store_in_a_folder_of_ones_own(home: Path, kind: str) -> None:
    """Only what a store's own names stand for is removed from it."""
    owned_folder(home / "kept")
    foreign = [
        home / name
        for name in (
            ".x.deadbeef.tmp",
            ".film.0123456789abcdef.partial",
            f".{'a' * 32}.deadbeef.partial",
        )
    ]
    ours = [
        home / f".{'a' * 32}.dpr.0123456789abcdef.partial",
        home / f".online-{'b' * 32}.0123456789abcdef.partial",
    ]
    for path in (*foreign, *ours):
        path.write_bytes(b"half")
    owner = dp.Curator(
        home / "rows.csv",
        home / "visits.toml",
        ledger=home / "kept" / "a.ledger",
        budget=dp.Budget(epsilon=9),
        store=home,
    )
    if kind == "release":
        owner.publish(dp.Histogram(columns=["place"]), epsilon=1)
    else:
        owner.answer_online(dp.OnlineMultiplicativeWeights(max_hard=4), epsilon=1)
    assert [path for path in foreign if not path.exists()] == []
    assert [path for path in ours if path.exists()] == []


def test_a_writer_that_lives_is_left_alone(tmp_path: Path) -> None:
    for folder in (False, True):
        with temporary(tmp_path / "a.dpr", folder=folder) as fresh:
            assert sweep(tmp_path, "a.dpr") == []
            assert fresh.exists()
        assert not fresh.exists()


def test_a_temporary_name_swept_too_early_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweeper may come between making and locking."""
    import fcntl

    real, calls = fcntl.flock, []

    def swept_once(descriptor: int, how: int) -> None:
        if not calls:
            calls.append(how)
            assert len(sweep(tmp_path, "a.dpr")) == 1
        real(descriptor, how)

    monkeypatch.setattr("dpublish.owned.fcntl.flock", swept_once)
    with temporary(tmp_path / "a.dpr") as fresh:
        fresh.write_bytes(b"whole")
        fresh.replace(tmp_path / "a.dpr")
    assert (tmp_path / "a.dpr").read_bytes() == b"whole"


@pytest.mark.parametrize("step", ["chmod", "open"])
def test_a_temporary_folder_swept_before_it_is_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    real, calls = getattr(os, step), []

    def swept_once(path: Path, *rest: int, **named: object) -> object:
        if str(path).endswith(".partial") and not calls:
            calls.append(path)
            path.rmdir()
        return real(path, *rest, **named)

    monkeypatch.setattr(os, step, swept_once)
    with temporary(tmp_path / "session", folder=True) as fresh:
        assert fresh.is_dir()
        assert len(calls) == 1
        assert fresh not in calls
    with pytest.raises(FileNotFoundError), temporary(tmp_path / "missing" / "session", folder=True):
        pass


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Whoever can put a link into a folder must not choose which file is written over, or made ours
    alone."""
    victim = tmp_path / "victim"
    victim.write_text("kept")
    victim.chmod(0o644)
    (tmp_path / "a.lock").symlink_to(victim)
    with pytest.raises(OSError):
        os.close(open_owned(tmp_path / "a.lock", os.O_RDWR))
    (tmp_path / ".mark.tmp").symlink_to(victim)
    JsonFile(tmp_path / "mark.json").update(lambda current: {"spent": 1})
    assert JsonFile(tmp_path / "mark.json").read() == {"spent": 1}
    assert not (tmp_path / "mark.json").is_symlink()
    assert (victim.read_text(), stat.S_IMODE(victim.stat().st_mode)) == ("kept", 0o644)


def test_many_writers_and_sweepers(tmp_path: Path) -> None:
    """No writer ever loses its file, and nothing is left at the end."""
    children = []
    for number in range(6):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                end = time.monotonic() + 1
                while time.monotonic() < end:
                    if number % 3 == 0:
                        sweep(tmp_path, re.compile(r"\d\.toml"))
                    else:
                        replace_owned(tmp_path / f"{number}.toml", b"whole")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "1.toml",
        "2.toml",
        "4.toml",
        "5.toml",
    ]


def test_a_ledger_that_others_can_read_is_told(home: Path) -> None:
    open_ledger(home / "a.ledger", budget=dp.Budget(epsilon=1), create=True).close()
    (home / "a.ledger").chmod(0o644)
    result = CliRunner().invoke(app, ["ledger", "verify", str(home / "a.ledger")])
    assert result.exit_code == 0
    assert "chmod 600" in result.stderr
    assert crashpoints._hook is None
