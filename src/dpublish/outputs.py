"""Where results are written, never over what they were made from, and paths as people give them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path

from dpublish.errors import InputError, QueryError


def as_path(given: object) -> Path:
    """The path that was given. Bytes and open files are none: what is in them has no name to check
    or to write beside."""
    name = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(name, str):
        raise InputError(
            f"Give the path of a file or folder as text or as a Path, not {type(given).__name__}."
        )
    return Path(name)


def require_free(out: str | Path | None, overwrite: bool, *given: str | Path | None) -> None:
    """Refuse to write over a file that is there, unless that is asked for, or over one in use."""
    if out is None:
        return
    if not overwrite and Path(out).exists():
        # it may be a schema that a person has gone through, or a file of rows
        raise InputError(
            f"'{out}' exists already. Give another name, or ask for it with --overwrite."
        )
    keep_apart(out, *given)


@contextlib.contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Say in words why a result cannot be written to a path."""
    try:
        yield
    except OSError as error:
        raise QueryError(
            f"'{path}' cannot be written: {error.strerror or type(error).__name__}."
        ) from None


def write_html(path: str | Path, made: Callable[[], str], refusal: str) -> Path:
    """Write a page to a path whose name is that of one: its refusal has {stem} and {name}."""
    path = as_path(path)
    if path.suffix.lower() not in ("", ".html", ".htm"):
        raise QueryError(refusal.format(stem=path.stem, name=path.name))
    with written_to(path):
        path.write_text(made(), encoding="utf-8")
    return path


def keep_apart(out: str | Path, *given: str | Path | None) -> None:
    """Refuse to write to `out` if that is one of the files in use, under whatever name. Looks at
    names, opens nothing."""
    for name in given:
        if name is not None and same_file(out, name):
            raise InputError(
                f"'{out}', where the result is to go, is the same file as '{name}', which would "
                f"be lost. Give another name."
            )


def keep_outside(out: str | Path, data: str | Path) -> None:
    """Refuse to write to `out` if a table in several files, a folder or a pattern, has it among
    them or would have it: a file of rows would be lost, or the result be read as rows."""
    place, table = os.path.realpath(out), os.path.realpath(data)
    if Path(data).is_dir():
        within = Path(place).is_relative_to(table)
    else:
        within = not Path(data).exists() and (
            fnmatchcase(place, table) or any(same_file(out, one) for one in glob_files(data))
        )
    if within:
        raise InputError(
            f"'{out}', where the result is to go, is among the files of '{data}', which are rows. "
            "Give a name elsewhere."
        )


def glob_files(pattern: str | Path) -> list[Path]:
    """The files that a pattern names now."""
    found = glob(str(pattern), recursive=True)  # noqa: PTH207 - it takes absolute patterns too
    return [path for path in map(Path, found) if path.is_file()]


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two names mean one file, through links too; a file that is not there yet has its name
    only."""
    try:
        return os.path.realpath(one) == os.path.realpath(other) or Path(one).samefile(other)
    except (OSError, ValueError):  # one of them is not there
        return False
