"""Where sealed releases are kept and where they go; what is refused of that before a debit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from dpublish.errors import InputError, PublishError
from dpublish.ledger.base import Ledger
from dpublish.owned import owned_folder, sweep
from dpublish.releases.bundle.archive import SUFFIX, file_digest

STORED: Final = re.compile(r"[0-9a-f]{32}\.dpr|online-[0-9a-f]{32}")
"""What things in a store are called. A store may be a folder of the curator's own, which holds
other files too."""


def prepare_folders(store: Path, out: str | Path | None, *, shared: str | None = None) -> None:
    """Find out before the debit whether the release could be written, and remove what killed runs
    left there.

    `shared` is the one name that is ours in a folder which is no store; in a store, ours are those
    of `STORED`.
    """
    target = None if out is None else Path(out).absolute()
    for folder in (store, *([] if target is None else [target.parent])):
        try:
            if folder is store:
                owned_folder(folder)
            else:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"Cannot write to '{folder}' ({os.strerror(error.errno or 0)}). Nothing was spent."
            ) from None
        if not os.access(folder, os.W_OK):
            raise InputError(f"Cannot write to '{folder}' (permission denied). Nothing was spent.")
    sweep(store, STORED if shared is None else shared)
    if target is not None:
        sweep(target.parent, target.name)


def require_own(ledger: Ledger, key: str, place: Path) -> None:
    """Refuse, before the debit, a place that is taken by the answer of a debit which this ledger
    does not know.

    Ledgers may share a store, and a recovered ledger has forgotten keys. What is there is never
    written over, so a debit would buy nothing.
    """
    if place.exists() and not any(
        entry.kind == "debit" and entry.key == key for entry in ledger.history()
    ):
        raise InputError(
            f"'{place}' holds the answer to key '{key}' of another ledger, or of this one before "
            f"it was recovered. Use another "
            "key, or another store. Nothing was spent."
        )


def require_ending(out: str | Path | None) -> None:
    """A release is one .dpr file or a folder; a folder that is called like a file of another kind
    is nobody's wish."""
    ending = Path(out).suffix if out is not None else ""
    if ending not in ("", SUFFIX):
        raise InputError(
            f"'{out}' ends in '{ending}'. A release is one file NAME{SUFFIX}, or a folder whose "
            f"name has no such ending. "
            "Nothing was spent."
        )


def same_release(out: Path, target: Path) -> bool:
    """Whether `out` holds the stored release: the same bytes, or, in a folder or signed since, the
    same manifest."""
    from dpublish.releases.bundle.bundle import read_bundle

    try:
        if out.is_file() and target.is_file() and file_digest(out) == file_digest(target):
            return True
        found = read_bundle(out)
        return (out.is_dir() or bool(found.signatures)) and found.manifest_sha256 == read_bundle(
            target
        ).manifest_sha256
    except (OSError, PublishError):
        return False


def sweep_store(store: Path) -> list[Path]:
    """Remove what killed runs left in a store and in those of named ledgers inside it."""
    named = sorted(path for path in store.glob("[0-9a-f]" * 16) if path.is_dir())
    return [path for folder in (store, *named) for path in sweep(folder, STORED)]


def default_store(ledger: str | Path | Ledger) -> Path:
    """Beside a SQLite ledger, `<ledger>.d`; otherwise `dpublish-releases` in the current folder."""
    text = str(ledger) if not isinstance(ledger, Ledger) else ""
    if text.startswith("sqlite:///") or (text and "://" not in text):
        # as the ledger reads its own path
        return Path(text.removeprefix("sqlite:///") + ".d").expanduser()
    return Path("dpublish-releases")
