"""Writing and reading release bundles. The format is described in docs/bundle-format.md."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from dpublish.errors import BundleError, InputError
from dpublish.outputs import as_path
from dpublish.quiet import quiet_native_code
from dpublish.releases.bundle.archive import (
    MANIFEST,
    Container,
    archive_digest,
    file_digest,
    open_container,
    write_container,
    write_member,
)
from dpublish.releases.bundle.manifest import TABLE_NAME, check_manifest
from dpublish.releases.bundle.parquet_pages import Unbelievable, stated_rows
from dpublish.releases.bundle.signatures import (
    SIGNATURES,
    Signature,
    covers,
    read_signatures,
    read_signers,
    signer_problems,
    write_signatures,
)
from dpublish.releases.bundle.strict_json import MAX_BYTES, read_json, write_json

MAX_ROWS = 1 << 31
_ROWS_PER_BYTE = 64
_FREE_ROWS = 1 << 20
_MEMORY_PER_BYTE = 1 << 10
_FREE_MEMORY = 1 << 30  # shared by the tables of a release


@dataclass(frozen=True)
class Bundle:
    """A checked manifest, and tables that are read and hash-checked when asked for."""

    path: Path
    manifest: Mapping[str, Any]
    manifest_sha256: str
    signatures: tuple[Signature, ...]
    _container: Container = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Table names, without '.parquet'."""
        return tuple(sorted(name.removesuffix(".parquet") for name in self.manifest["files"]))

    def archive_sha256(self, *, signed: bool = True) -> str:
        """The SHA-256 of the `.dpr` file with this content: of a folder too, and whatever else an
        archive was padded with.

        Without signatures, it is that of the file before it was signed.
        """
        return archive_digest(self._container, signed=signed)

    def members(self) -> dict[str, bytes]:
        """All that it consists of, byte by byte."""
        return {name: self._container.read(name) for name in self._container.sizes}

    @property
    def padded(self) -> bool:
        """Whether a file holds bytes that belong to none of its members."""
        return self.path.is_file() and file_digest(self.path) != self.archive_sha256()

    def table(self, name: str) -> pl.DataFrame:
        """One table; a `BundleError` unless its bytes, rows and hash are those of the manifest."""
        file = f"{name}.parquet"
        entry = self.manifest["files"].get(file)
        if entry is None:
            raise BundleError(
                f"This release has no table '{name}'. Tables: {', '.join(self.names) or 'none'}."
            )
        data = self._container.read(file)
        if len(data) != entry["bytes"]:
            raise BundleError(
                f"'{file}' has another size than the manifest says. The release was altered or "
                f"damaged."
            )
        if hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise BundleError(
                f"'{file}' does not match its hash in the manifest. The release was altered or "
                f"damaged."
            )
        return read_table(data, file, entry["rows"], tables=len(self.names))


def write_bundle(
    path: str | Path,
    manifest: Mapping[str, Any],
    tables: Mapping[str, pl.DataFrame],
    *,
    overwrite: bool = False,
    signatures: Sequence[Signature] = (),
) -> str:
    """Write a release to `path`: one file when it ends in '.dpr', otherwise a new folder.

    The bundle appears whole or not at all. `files` of the manifest is filled in here. Returns the
    SHA-256 of the file, or of the manifest for a folder. An existing release is left alone unless
    `overwrite` is true (files only). Of `signatures`, those are kept that cover what is written.
    """
    members = pack_bundle(manifest, tables)
    kept = [one for one in signatures if covers(one, members[MANIFEST])]
    if kept:
        members[SIGNATURES] = write_signatures(kept)
    return write_container(as_path(path), members, overwrite=overwrite)


def pack_bundle(
    manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]
) -> dict[str, bytes]:
    """The members of a release by name. `files` of the manifest is filled in here."""
    members: dict[str, bytes] = {}
    files: dict[str, dict[str, Any]] = {}
    for name, frame in tables.items():
        file = f"{name}.parquet"
        if not TABLE_NAME.fullmatch(file):
            raise BundleError(
                f"'{name}' is not a permitted table name (lower-case letters, digits and '_')."
            )
        buffer = io.BytesIO()
        frame.write_parquet(buffer, compression="zstd", statistics=False)
        data = buffer.getvalue()
        members[file] = data
        files[file] = {
            "sha256": hashlib.sha256(data).hexdigest(),
            "bytes": len(data),
            "rows": frame.height,
        }
    content = write_json({**manifest, "files": files}, "The manifest")
    # what is written is what a reader will accept: the same check, on the same bytes
    check_manifest(read_json(content, "The manifest"), sealed=True)
    members[MANIFEST] = content
    return members


def copy_bundle(bundle: Bundle, path: str | Path, *, overwrite: bool = False) -> str:
    """The same members, byte by byte, in a file or a folder of another name. Returns what
    `write_bundle` does."""
    return write_container(as_path(path), bundle.members(), overwrite=overwrite)


def add_signature(path: str | Path, sign: Callable[[bytes], Signature]) -> tuple[Signature, ...]:
    """Sign a release where it stands: all that is checked when one is opened is checked first.
    Returns all its signatures."""
    from dpublish.releases.base import open_release

    path = as_path(path)
    bundle = read_bundle(path)
    open_release(path)
    fresh = sign(bundle._container.read(MANIFEST))
    others = (one for one in bundle.signatures if one.public_key != fresh.public_key)
    content = write_signatures((*others, fresh))
    if path.is_dir():
        write_member(path, SIGNATURES, content)
    else:
        owned = not path.stat().st_mode & 0o077
        members = {**bundle.members(), SIGNATURES: content}
        write_container(path, members, overwrite=True, owned=owned)
    return read_bundle(path).signatures


def read_bundle(path: str | Path) -> Bundle:
    """Open a release and check its manifest. Tables are checked when they are read."""
    path = as_path(path)
    container = open_container(path)
    if container.sizes[MANIFEST] > MAX_BYTES:
        raise BundleError(
            f"{MANIFEST} has {container.sizes[MANIFEST]} bytes; at most {MAX_BYTES} are read."
        )
    content = container.read(MANIFEST)
    manifest = read_json(content, MANIFEST)
    check_manifest(manifest, sealed=True)
    listed, held = set(manifest["files"]), set(container.sizes) - {MANIFEST, SIGNATURES}
    if listed != held:
        odd = sorted(listed ^ held)[0]
        raise BundleError(
            f"'{odd}' is "
            f"{'missing from the release' if odd in listed else 'not listed in the manifest'}."
        )
    for name, entry in manifest["files"].items():
        if entry["bytes"] != container.sizes[name]:
            raise BundleError(
                f"'{name}' has another size than the manifest says. The release was altered or "
                f"damaged."
            )
    signatures = (
        read_signatures(container.read(SIGNATURES), content)
        if SIGNATURES in container.sizes
        else ()
    )
    return Bundle(path, manifest, hashlib.sha256(content).hexdigest(), signatures, container)


def read_table(data: bytes, file: str, rows: int, *, tables: int = 1) -> pl.DataFrame:
    """Parquet bytes as a frame, one of so many `tables`. The declared number of rows is checked
    against the footer, and what the pages would take in memory against the size of the file, before
    anything is decoded."""
    if rows > MAX_ROWS or rows > _ROWS_PER_BYTE * len(data) + _FREE_ROWS:
        raise BundleError(
            f"'{file}' claims {rows} rows in {len(data)} bytes, which is not believable."
        )
    if data[:4] != b"PAR1" or data[-4:] != b"PAR1":
        raise BundleError(f"'{file}' is not a Parquet file.")
    try:
        found = stated_rows(data, _MEMORY_PER_BYTE * len(data) + _FREE_MEMORY // tables)
    except Unbelievable:
        raise BundleError(
            f"'{file}' cannot be read as Parquet: its sizes do not fit together, or ask for too "
            f"much memory."
        ) from None
    try:
        with (
            quiet_native_code()
        ):  # a panic of the reader prints a backtrace that tells an analyst nothing
            frame = pl.read_parquet(io.BytesIO(data)) if found == rows else None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the reader is not an Exception
        raise BundleError(f"'{file}' cannot be read as Parquet ({type(error).__name__}).") from None
    if frame is None or frame.height != rows:
        raise BundleError(f"'{file}' has another number of rows than the manifest says.")
    return frame


# Check a release file from end to end: container, manifest, hashes, tables, and that the tables
# fit the manifest.


@dataclass(frozen=True)
class Verification:
    """`ok` when nothing was found wrong; `problems` in words; `facts` about the release for people
    to compare."""

    ok: bool
    problems: tuple[str, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.ok


def verify_bundle(
    path: str | Path, *, signer: str | Path | Sequence[str | Path] | None = None
) -> Verification:
    """Never raises for a bad bundle: what is wrong is in `problems`.

    `signer` names the keys that one of must have signed: a file of public keys, a public key, a
    fingerprint, or several.

    >>> verify_bundle("absent.dpr").problems
    ("There is no release at 'absent.dpr'.",)
    """
    from dpublish.releases.base import release_class

    trusted = None if signer is None else read_signers(signer)
    path = as_path(path)
    facts: dict[str, Any] = {"path": str(path)}
    problems: list[str] = []
    try:
        bundle = read_bundle(path)
        manifest = bundle.manifest
        if path.is_file():
            facts["sha256"] = file_digest(path)
        facts |= {
            key: manifest[key]
            for key in ("kind", "method", "dataset", "publishable", "created", "schema_digest")
        }
        facts |= {
            "manifest_sha256": bundle.manifest_sha256,
            "format_version": manifest["format_version"],
            "signatures": [one.facts() for one in bundle.signatures],
            "files": {name: dict(entry) for name, entry in manifest["files"].items()},
        }
        kind = release_class(manifest["kind"])
        tables = {}
        for name in bundle.names:
            try:
                tables[name] = bundle.table(name)
            except BundleError as error:
                problems.append(str(error))
        if not problems:
            kind(manifest, tables)
        if bundle.signatures and bundle.padded:
            problems.append(
                "The file holds more than what was signed: bytes that belong to none of its parts."
            )
        if trusted is not None:
            problems += signer_problems(bundle.signatures, trusted)
    except (BundleError, InputError) as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"'{path}' cannot be read ({type(error).__name__}).")
    return Verification(ok=not problems, problems=tuple(problems), facts=facts)
