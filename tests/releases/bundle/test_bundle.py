from __future__ import annotations

import io
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dpublish.errors import BundleError, InputError
from dpublish.releases.base import open_release
from dpublish.releases.bundle import bundle as bundle_module
from dpublish.releases.bundle.bundle import read_bundle, verify_bundle, write_bundle
from releases.simulated import cells_frame, manifest, people

TESTS = Path(__file__).parents[2]


def parts() -> tuple[dict[str, Any], dict[str, pl.DataFrame]]:
    return manifest(people()), {"cells": cells_frame(np.array([0, 5, 9]), np.array([11, 50, 200]))}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "a.dpr", *parts())
    return tmp_path / "a.dpr"


@pytest.mark.parametrize("name", ["a.dpr", "folder"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    given, tables = parts()
    digest = write_bundle(tmp_path / name, given, tables)
    assert len(digest) == 64
    bundle = read_bundle(tmp_path / name)
    assert bundle.table("cells").equals(tables["cells"])
    assert {key: bundle.manifest[key] for key in given} == json.loads(json.dumps(given))
    found = verify_bundle(tmp_path / name)
    assert found.ok
    assert found.facts["sha256" if name == "a.dpr" else "manifest_sha256"] == digest
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_same_content_same_bytes(tmp_path: Path) -> None:
    first = write_bundle(tmp_path / "a.dpr", *parts())
    time.sleep(0.01)
    second = write_bundle(tmp_path / "b.dpr", *parts())
    assert first == second
    assert (tmp_path / "a.dpr").read_bytes() == (tmp_path / "b.dpr").read_bytes()


def test_an_existing_release_is_left_alone(saved: Path, tmp_path: Path) -> None:
    before = saved.read_bytes()
    with pytest.raises(BundleError, match="exists already"):
        write_bundle(saved, *parts())
    assert saved.read_bytes() == before
    write_bundle(saved, *parts(), overwrite=True)
    write_bundle(tmp_path / "folder", *parts())
    with pytest.raises(BundleError, match="exists already"):
        write_bundle(tmp_path / "folder", *parts(), overwrite=True)


def test_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", refuse)
    write_bundle(tmp_path / "a.dpr", *parts())
    assert verify_bundle(tmp_path / "a.dpr").ok
    assert [path.name for path in tmp_path.iterdir()] == ["a.dpr"]


def test_a_bad_manifest_is_not_written(tmp_path: Path) -> None:
    for change in (
        {"schema_digest": "x"},
        {"created": float("nan")},
        {"parameters": {"f": {1, 2}}},
        {"format_version": 2},
    ):
        with pytest.raises(BundleError):
            write_bundle(tmp_path / "a.dpr", {**parts()[0], **change}, parts()[1])
    with pytest.raises(BundleError, match="table name"):
        write_bundle(tmp_path / "a.dpr", parts()[0], {"../x": parts()[1]["cells"]})
    with pytest.raises(BundleError, match="written"):
        write_bundle(tmp_path / "none" / "a.dpr", *parts())
    assert list(tmp_path.iterdir()) == []


def test_missing_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no release"):
        read_bundle(tmp_path / "none.dpr")
    (tmp_path / "text.dpr").write_text("hello")
    with pytest.raises(BundleError, match="not a release file"):
        read_bundle(tmp_path / "text.dpr")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=r"no manifest\.json"):
        read_bundle(tmp_path / "empty")
    with pytest.raises(BundleError):
        read_bundle(tmp_path / ("x" * 5000))
    with pytest.raises(BundleError):
        read_bundle("a\0b")
    os.mkfifo(tmp_path / "pipe.dpr")
    with pytest.raises(BundleError, match="neither"):
        read_bundle(tmp_path / "pipe.dpr")


def test_newer_formats_say_upgrade(tmp_path: Path, saved: Path) -> None:
    rebuild(saved, edit=lambda data: data.update(format_version=2))
    with pytest.raises(BundleError, match="pip install --upgrade"):
        read_bundle(saved)


def rebuild(
    path: Path,
    *,
    edit: Callable[[dict[str, Any]], object] | None = None,
    write: Callable[[zipfile.ZipFile, dict[str, bytes]], None] | None = None,
) -> None:
    """Open a bundle, change its manifest, and zip it again."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(members["manifest.json"])
    if edit is not None:
        edit(data)
        members["manifest.json"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as archive:
        if write is not None:
            write(archive, members)
        else:
            for name, content in members.items():
                archive.writestr(name, content)


def plain(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
    for name, content in members.items():
        archive.writestr(name, content)


def with_extra(name: str) -> Callable[[zipfile.ZipFile, dict[str, bytes]], None]:
    def write(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
        plain(archive, members)
        archive.writestr(name, b"x")

    return write


def compressed(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
    archive.writestr(
        "manifest.json",
        members["manifest.json"] + b" " * 50_000_000,
        compress_type=zipfile.ZIP_DEFLATED,
    )
    archive.writestr("cells.parquet", members["cells.parquet"])


def linked(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
    archive.writestr("manifest.json", members["manifest.json"])
    info = zipfile.ZipInfo("cells.parquet")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive.writestr(info, "/etc/passwd")


def many(archive: zipfile.ZipFile, members: dict[str, bytes]) -> None:
    plain(archive, members)
    for number in range(100):
        archive.writestr(f"t{number}.parquet", b"")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("write", "message"),
    [
        (with_extra("../../evil.parquet"), "does not belong"),
        (with_extra("/etc/passwd"), "does not belong"),
        (with_extra("sub/cells.parquet"), "does not belong"),
        (with_extra("run.sh"), "does not belong"),
        (with_extra("more.parquet"), "not listed"),
        (with_extra("cells.parquet"), "same name"),
        (with_extra("folder/"), "not a plain file"),
        (compressed, "compressed"),
        (linked, "not a plain file"),
        (many, "more than 64"),
    ],
)
def test_hostile_archives(
    saved: Path, write: Callable[[zipfile.ZipFile, dict[str, bytes]], None], message: str
) -> None:
    rebuild(saved, write=write)
    with pytest.raises(BundleError, match=message):
        read_bundle(saved)
    assert not verify_bundle(saved).ok


def test_hostile_folders(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    write_bundle(folder, *parts())
    (tmp_path / "elsewhere").write_bytes((folder / "cells.parquet").read_bytes())
    (folder / "cells.parquet").unlink()
    (folder / "cells.parquet").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BundleError, match="link"):
        read_bundle(folder)
    (folder / "cells.parquet").unlink()
    with pytest.raises(BundleError, match="missing"):
        read_bundle(folder)


def test_altered_tables_are_noticed(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / "r"
    write_bundle(folder, *parts())
    content = bytearray((folder / "cells.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "cells.parquet").write_bytes(content)
    with pytest.raises(BundleError, match="hash"):
        read_bundle(folder).table("cells")
    (folder / "cells.parquet").write_bytes(content + b"x")
    with pytest.raises(BundleError, match="size"):
        read_bundle(folder)
    rebuild(saved, edit=lambda data: data["files"]["cells.parquet"].update(rows=4))
    with pytest.raises(BundleError, match="number of rows"):
        read_bundle(saved).table("cells")
    rebuild(saved, edit=lambda data: data["files"]["cells.parquet"].update(rows=10**15))
    with pytest.raises(BundleError, match="not believable"):
        read_bundle(saved).table("cells")
    with pytest.raises(BundleError, match="no table"):
        read_bundle(saved).table("other")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame({"cell": [1.0], "count": [50]}), "UInt64"),
        (cells_frame(np.array([0]), np.array([50])).with_columns(x=1), "columns"),
        (cells_frame(np.array([5, 3]), np.array([50, 60])), "sorted"),
        (cells_frame(np.array([5, 5]), np.array([50, 60])), "twice"),
        (cells_frame(np.array([10**6]), np.array([50])), "outside the domain"),
        (cells_frame(np.array([5]), np.array([10])), "above the threshold"),
        (cells_frame(np.array([5]), np.array([1 << 60])), "believable"),
        (
            cells_frame(np.array([5]), np.array([50])).with_columns(
                pl.lit(None, pl.Int64).alias("count")
            ),
            "nulls",
        ),
    ],
)
def test_tables_that_do_not_fit(tmp_path: Path, frame: pl.DataFrame, message: str) -> None:
    write_bundle(tmp_path / "a.dpr", parts()[0], {"cells": frame})
    found = verify_bundle(tmp_path / "a.dpr")
    assert not found
    assert message in found.problems[0]
    with pytest.raises(BundleError):
        open_release(tmp_path / "a.dpr")


def test_not_parquet(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="not a Parquet"):
        bundle_module.read_table(b"hello", "x.parquet", 1)
    with pytest.raises(BundleError, match="cannot be read"):
        bundle_module.read_table(b"PAR1" + b"\xff" * 40 + b"PAR1", "x.parquet", 1)


def child(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    script = "import sys\nsys.path.insert(0, sys.argv[1])\n" + textwrap.dedent(code)
    command = [sys.executable, "-c", script, str(TESTS), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


WRITER = """
import numpy as np
from releases.simulated import cells_frame, manifest, people
from dpublish.declare.domain import Axis, Domain
from dpublish.releases.bundle.bundle import write_bundle
domain = Domain((Axis("a", "integer", edges=tuple(range(501))), Axis("b", "integer", edges=tuple(range(401)))))
tables = {"cells": cells_frame(np.arange(200_000), np.random.default_rng(0).integers(11, 10**9, 200_000))}
"""


def test_full_disk_leaves_no_torn_bundle(tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk: writes stop part-way, at every size
    from nothing to nearly all."""
    code = WRITER + textwrap.dedent(
        """
        import resource
        from pathlib import Path
        from dpublish.errors import BundleError
        folder = Path(sys.argv[2])
        facts = manifest(domain)
        write_bundle(folder / "whole.dpr", facts, tables)
        size = (folder / "whole.dpr").stat().st_size
        for number in range(16):
            limit = size * number // 16
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            for name in (f"{number}.dpr", f"{number}"):
                try:
                    write_bundle(folder / name, facts, tables)
                    assert name == f"{number}", name
                except BundleError as error:
                    assert "could not be written" in str(error)
        print("done")
        """
    )
    process = child(code, str(tmp_path))
    output, errors = process.communicate(timeout=120)
    assert b"done" in output, errors.decode()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert not [name for name in left if name.startswith(".")]
    assert all(verify_bundle(tmp_path / name).ok for name in left)


def test_kill_leaves_no_torn_bundle(tmp_path: Path) -> None:
    """A child writes bundles for ever and is killed at a random moment: what has a name
    verifies."""
    code = WRITER + textwrap.dedent(
        """
        import itertools
        from pathlib import Path
        facts = manifest(domain)
        print("ready", flush=True)
        for number in itertools.count():
            write_bundle(Path(sys.argv[2]) / f"{number}.dpr", facts, tables)
            write_bundle(Path(sys.argv[2]) / f"{number}", facts, tables)
        """
    )
    delays = np.random.default_rng(6).uniform(0.02, 0.35, 4)
    for round_number, delay in enumerate(delays):
        folder = tmp_path / str(round_number)
        folder.mkdir()
        process = child(code, str(folder))
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(float(delay))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        named = [path for path in folder.iterdir() if not path.name.startswith(".")]
        for path in (
            (named[:2] + sorted(named, key=lambda p: p.stat().st_mtime)[-2:]) if named else []
        ):
            assert verify_bundle(path).ok, path


def test_limits_are_not_left_behind() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_reading_is_lazy(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> pl.DataFrame:
        raise AssertionError("read too early")

    monkeypatch.setattr(bundle_module, "read_table", refuse)
    assert read_bundle(saved).names == ("cells",)


def test_zip_holds_plain_entries(saved: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(saved.read_bytes())) as archive:
        assert archive.namelist() == ["manifest.json", "cells.parquet"]
        assert all(info.date_time == (1980, 1, 1, 0, 0, 0) for info in archive.infolist())
