"""Check a release file from end to end: container, manifest, hashes, tables, and that the tables
fit the manifest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpublish.errors import BundleError, InputError
from dpublish.outputs import as_path
from dpublish.releases.bundle.archive import file_digest
from dpublish.releases.bundle.bundle import read_bundle
from dpublish.releases.bundle.signatures import read_signers, signer_problems


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
        }
        facts["signatures"] = [one.facts() for one in bundle.signatures]
        facts["files"] = {name: dict(entry) for name, entry in manifest["files"].items()}
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
