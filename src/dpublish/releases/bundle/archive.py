"""The container of a bundle: a folder, or one `.dpr` file (a zip without compression; same content,
same bytes).

Reading trusts nothing: names, sizes, links, duplicates and overlaps are checked before a byte of
content is used, and because members are stored uncompressed there is nothing to inflate. Writing
goes to a temporary name beside the target, is flushed to the disk, and then appears under its name
in one step.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from dpublish.errors import BundleError, InputError
from dpublish.owned import temporary, write_through
from dpublish.releases.bundle.manifest import TABLE_NAME
from dpublish.releases.bundle.signatures import SIGNATURES

MANIFEST = "manifest.json"
SUFFIX = ".dpr"
MAX_MEMBERS = 64
MAX_FILE_BYTES = 16 << 30
MAX_TOTAL_BYTES = 32 << 30
_EPOCH = (1980, 1, 1, 0, 0, 0)
_IN_MEMORY = 64 << 20


@dataclass(frozen=True)
class Container:
    """The members of a bundle by name, with their sizes, and how to read one."""

    path: Path
    sizes: Mapping[str, int]
    read: Callable[[str], bytes]


def is_file_bundle(path: Path) -> bool:
    return path.suffix == SUFFIX


def open_container(path: Path) -> Container:
    """Look at the members without reading them."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        # a mistyped name is the caller's; a damaged file is not
        raise InputError(f"There is no release at '{path}'.") from None
    except (OSError, ValueError) as error:
        raise BundleError(f"'{path}' cannot be opened ({type(error).__name__}).") from None
    if stat.S_ISDIR(mode):
        container = _open_folder(path)
    elif stat.S_ISREG(mode):
        container = _open_file(path)
    else:
        raise BundleError(f"'{path}' is neither a file nor a folder.")
    if MANIFEST not in container.sizes:
        raise BundleError(f"'{path}' is not a release: it has no {MANIFEST}.")
    return container


def _check_members(path: Path, sizes: Mapping[str, int]) -> None:
    if len(sizes) > MAX_MEMBERS:
        raise BundleError(f"'{path}' has more than {MAX_MEMBERS} files.")
    for name, size in sizes.items():
        if name not in (MANIFEST, SIGNATURES) and not TABLE_NAME.fullmatch(name):
            raise BundleError(
                f"'{path}' holds a file that does not belong in a release: {name[:80]!r}."
            )
        if size > MAX_FILE_BYTES:
            raise BundleError(f"'{name}' has {size} bytes; at most {MAX_FILE_BYTES} are read.")
    if sum(sizes.values()) > MAX_TOTAL_BYTES:
        raise BundleError(f"'{path}' holds more than {MAX_TOTAL_BYTES} bytes.")


def _open_folder(path: Path) -> Container:
    sizes: dict[str, int] = {}
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if not entry.is_file(follow_symlinks=False):
                    raise BundleError(
                        f"'{path}' holds {entry.name[:80]!r}, which is a link, a folder or a "
                        f"device."
                    )
                sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
                if len(sizes) > MAX_MEMBERS:
                    break
    except OSError as error:
        raise BundleError(f"'{path}' cannot be listed ({type(error).__name__}).") from None
    _check_members(path, sizes)

    def read(name: str) -> bytes:
        try:
            # O_NOFOLLOW: the file may have been swapped for a link since it was looked at
            handle = os.open(path / name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
            with os.fdopen(handle, "rb") as file:
                return file.read(sizes[name] + 1)
        except OSError as error:
            raise BundleError(f"'{name}' cannot be read ({type(error).__name__}).") from None

    return Container(path, sizes, read)


def _open_file(path: Path) -> Container:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            length = path.stat().st_size
    except (
        OSError,
        zipfile.BadZipFile,
        NotImplementedError,
        ValueError,
        OverflowError,
        RuntimeError,
        UnicodeError,
    ):
        raise BundleError(f"'{path}' is not a release file, or it is damaged.") from None
    # zipfile meets crafted headers with exceptions of many kinds (struct.error, MemoryError)
    except Exception as error:
        raise BundleError(
            f"'{path}' is not a release file, or it is damaged ({type(error).__name__})."
        ) from None
    names = [member.filename for member in members]
    if len(set(names)) != len(names):
        raise BundleError(f"'{path}' holds two files of the same name.")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.compress_size != member.file_size:
            raise BundleError(
                f"'{path}': {member.filename[:80]!r} is compressed; files in a release are stored "
                f"as they are."
            )
        if member.flag_bits & 0x41:
            raise BundleError(f"'{path}': {member.filename[:80]!r} is encrypted.")
        kind = stat.S_IFMT(member.external_attr >> 16)
        if not member.filename or member.is_dir() or kind not in (0, stat.S_IFREG):
            raise BundleError(f"'{path}': {member.filename[:80]!r} is not a plain file.")
    sizes = {member.filename: member.file_size for member in members}
    _check_members(path, sizes)
    if sum(sizes.values()) > length or len({member.header_offset for member in members}) != len(
        members
    ):
        raise BundleError(f"'{path}' declares more content than it holds.")

    def read(name: str) -> bytes:
        try:
            with zipfile.ZipFile(path) as archive, archive.open(name) as file:
                return file.read(sizes[name] + 1)
        except (
            Exception
        ) as error:  # as above; a damaged member must not look like anything but a damaged member
            raise BundleError(
                f"'{name}' in '{path}' is damaged ({type(error).__name__})."
            ) from None

    return Container(path, sizes, read)


def write_container(
    path: Path, members: Mapping[str, bytes], *, overwrite: bool, owned: bool = False
) -> str:
    """Write all members, or nothing. Returns the SHA-256 of the file, or of the manifest for a
    folder.

    With `owned` only the owner may read it; otherwise it has the permissions that the umask gives.
    """
    if not path.name:
        raise BundleError(
            f"'{path}' names no file. Give a name that ends in {SUFFIX}, or a new folder."
        )
    if path.is_dir() and is_file_bundle(path):
        raise BundleError(f"'{path}' is a folder. Give another name.")
    if os.path.lexists(path) and not (overwrite and path.is_file() and is_file_bundle(path)):
        raise BundleError(
            f"'{path}' exists already and a release is never overwritten by accident. Give "
            f"another name."
        )
    content = [(name, members[name]) for name in in_order(members)]
    try:
        with temporary(path, folder=not is_file_bundle(path), owned=owned) as fresh:
            if is_file_bundle(path):
                digest = _write_file(fresh, content)
                publish_file(fresh, path, overwrite)
            else:
                digest = _write_folder(fresh, content)
                # fails when a non-empty folder of that name has appeared meanwhile
                fresh.rename(path)
        _flush_folder(path.parent)
    except OSError as error:
        raise BundleError(
            f"The release could not be written to '{path}': "
            f"{error.strerror or type(error).__name__}. Nothing was left behind."
        ) from None
    return digest


def write_member(folder: Path, name: str, content: bytes) -> None:
    """Put one member into a folder, in one step, in the place of an older one."""
    try:
        with temporary(folder, owned=False) as fresh:
            with fresh.open("r+b") as file:
                write_through(file, content)
            fresh.replace(folder / name)
        _flush_folder(folder)
    except OSError as error:
        raise BundleError(
            f"'{name}' could not be written to '{folder}': "
            f"{error.strerror or type(error).__name__}."
        ) from None


def _write_file(fresh: Path, members: list[tuple[str, bytes]]) -> str:
    with fresh.open("r+b") as file:
        _write_archive(file, members)
        file.flush()
        os.fsync(file.fileno())
    return file_digest(fresh)


def _write_archive(file: IO[bytes], members: Iterable[tuple[str, bytes]]) -> None:
    """The one archive of these members: no choice is left, so the same content gives the same
    bytes."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name, date_time=_EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            archive.writestr(info, content)


def archive_digest(container: Container, *, signed: bool) -> str:
    """The SHA-256 of the `.dpr` file that these members make, whatever they are kept in; with
    signatures or without."""
    names = [name for name in in_order(container.sizes) if signed or name != SIGNATURES]
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as file:
        _write_archive(file, ((name, container.read(name)) for name in names))
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def in_order(names: Iterable[str]) -> list[str]:
    """The manifest first, the rest by name."""
    return [MANIFEST, *sorted(name for name in names if name != MANIFEST)]


def _write_folder(fresh: Path, members: list[tuple[str, bytes]]) -> str:
    for name, content in members:
        with (fresh / name).open("xb") as file:
            write_through(file, content)
    _flush_folder(fresh)
    return hashlib.sha256(members[0][1]).hexdigest()


def publish_file(fresh: Path, path: Path, overwrite: bool) -> None:
    """Give a finished file its name in one step; a `FileExistsError` when the name is taken and may
    not be replaced."""
    if not overwrite:
        try:
            os.link(fresh, path)  # refuses to replace, unlike rename
            return
        except FileExistsError:
            raise
        except (
            OSError,
            NotImplementedError,
        ):  # a file system without hard links says so in several ways
            pass
        if os.path.lexists(path):
            raise FileExistsError(17, "a file of that name appeared meanwhile")
    fresh.replace(path)


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
