"""Signatures of a release: who vouches for it. The format is described in docs/signatures.md.

A signature covers the bytes of the manifest, which holds the hashes of all tables, and the name
that the signer goes by. It is kept beside the manifest, in a member of its own, so that one can be
added without a change to what was published.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpublish.errors import BundleError, InputError
from dpublish.releases.bundle.strict_json import read_json, write_json

SIGNATURES = "signatures.json"
FORMAT = "dpublish-signatures"
FORMAT_VERSION = 1
ALGORITHM = "ed25519"
LINE = "dpublish-ed25519"
"""The first word of a public key written as a line of text."""
MAX_SIGNATURES = 16
MAX_NAME = 200
MAX_BYTES = 1 << 16
_PREFIX = b"dpublish-signature-v1\0"
_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SIGNATURE = re.compile(r"[0-9a-f]{128}", re.ASCII)
_FINGERPRINT = re.compile(r"[0-9a-f]{4}(-[0-9a-f]{4}){7}", re.ASCII)


@dataclass(frozen=True)
class Signer:
    """A key that someone trusts, known by its public key, or by the fingerprint of it alone."""

    fingerprint: str
    name: str = ""


@dataclass(frozen=True)
class Signature:
    """One valid signature of a release. `name` is what the holder of the key calls itself: it is
    signed, not proved."""

    public_key: bytes
    name: str
    value: bytes

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.public_key)

    def describe(self) -> str:
        return f"{self.name} ({self.fingerprint})"

    def to_json(self) -> dict[str, str]:
        return {
            "algorithm": ALGORITHM,
            "name": self.name,
            "public_key": self.public_key.hex(),
            "signature": self.value.hex(),
        }

    def facts(self) -> dict[str, str]:
        """What is shown to people and machines."""
        return {
            "name": self.name,
            "fingerprint": self.fingerprint,
            "public_key": self.public_key.hex(),
        }


def fingerprint_of(public_key: bytes) -> str:
    """The first 128 bits of the SHA-256 of a public key, in groups that can be read out."""
    digits = hashlib.sha256(public_key).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, 32, 4))


def signed_message(manifest: bytes, name: str) -> bytes:
    """What is signed. The prefix keeps a signature from meaning anything else; all but the name has
    a fixed length."""
    return _PREFIX + hashlib.sha256(manifest).digest() + name.encode()


def valid_name(name: object) -> bool:
    return (
        isinstance(name, str)
        and 1 <= len(name) <= MAX_NAME
        and name.isprintable()
        and name == name.strip()
    )


def covers(signature: Signature, manifest: bytes) -> bool:
    """Whether the key signed this very manifest under this name."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(signature.public_key).verify(
            signature.value, signed_message(manifest, signature.name)
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def write_signatures(signatures: Iterable[Signature]) -> bytes:
    """The member that holds them, in the order of their keys."""
    listed = sorted(signatures, key=lambda one: one.public_key)
    if not 1 <= len(listed) <= MAX_SIGNATURES:
        raise BundleError(f"A release has 1 to {MAX_SIGNATURES} signatures, not {len(listed)}.")
    return write_json(
        {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "signatures": [one.to_json() for one in listed],
        },
        SIGNATURES,
    )


def read_signatures(content: bytes, manifest: bytes) -> tuple[Signature, ...]:
    """The signatures in a member; a `BundleError` unless all of them are valid for this manifest,
    and nothing else is there."""
    if len(content) > MAX_BYTES:
        raise BundleError(f"{SIGNATURES} has more than {MAX_BYTES} bytes.")
    value = read_json(content, SIGNATURES)
    version = value.get("format_version")
    if value.get("format") == FORMAT and type(version) is int and version > FORMAT_VERSION:
        raise BundleError(
            f"The signatures have format version {version}; this dpublish reads up to "
            f"{FORMAT_VERSION}. "
            "Upgrade with: pip install --upgrade dpublish."
        )
    listed = value.get("signatures")
    if not isinstance(listed, list) or not 1 <= len(listed) <= MAX_SIGNATURES:
        raise BundleError(f"{SIGNATURES} must list 1 to {MAX_SIGNATURES} signatures.")
    signatures = tuple(_read_one(item) for item in listed)
    if (
        len({one.public_key for one in signatures}) != len(signatures)
        or write_signatures(signatures) != content
    ):
        raise BundleError(
            f"{SIGNATURES} is not written as signatures are. The release was altered or damaged."
        )
    for one in signatures:
        if not covers(one, manifest):
            raise BundleError(
                f"The signature of '{one.name}' ({one.fingerprint}) is not one of this manifest. "
                f"The release was altered, or "
                "its signature belongs to another release."
            )
    return signatures


def _read_one(item: Any) -> Signature:
    if not isinstance(item, dict) or item.get("algorithm") != ALGORITHM:
        raise BundleError(
            f"{SIGNATURES}: every signature must be an object with algorithm '{ALGORITHM}'."
        )
    key, name, value = (item.get(field) for field in ("public_key", "name", "signature"))
    if (
        not isinstance(key, str)
        or not _KEY.fullmatch(key)
        or not isinstance(value, str)
        or not _SIGNATURE.fullmatch(value)
    ):
        raise BundleError(
            f"{SIGNATURES}: a public key has 64 and a signature 128 hexadecimal digits."
        )
    if not valid_name(name):
        raise BundleError(
            f"{SIGNATURES}: the name of a signer is 1 to {MAX_NAME} printable characters."
        )
    return Signature(bytes.fromhex(key), str(name), bytes.fromhex(value))


def public_line(public_key: bytes, name: str) -> str:
    """A public key as one line of text, to be given to readers."""
    return f"{LINE} {public_key.hex()} {name}"


def read_signers(given: str | Path | Sequence[str | Path]) -> tuple[Signer, ...]:
    """Trusted keys: files of public keys, or public keys, or fingerprints, as text. Any one of them
    will do."""
    many = [given] if isinstance(given, str | Path) else given
    found = tuple(signer for one in many for signer in _signers_of(one))
    if not found:
        raise InputError(
            "No signer is named. Give a file of public keys, a public key or a fingerprint."
        )
    return found


def _signers_of(given: str | Path) -> list[Signer]:
    text = str(given).strip()
    named = _signer_of(text) if isinstance(given, str) else None
    if named is not None:
        return [named]
    try:
        content = Path(given).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"'{text[:80]}' is neither a file of public keys, nor a public key ('{LINE} ...' or "
            f"64 hexadecimal digits), nor a "
            "fingerprint."
        ) from None
    except (OSError, ValueError) as error:
        raise InputError(
            f"The file of public keys '{text[:80]}' cannot be read ({type(error).__name__})."
        ) from None
    lines = (line.strip() for line in content.splitlines() if not line.startswith("#"))
    found = [_signer_of(line) for line in lines if line]
    if None in found:
        raise InputError(
            f"'{text[:80]}' is not a file of public keys: a line of it is none. Public keys "
            f"are '{LINE} ...'."
        )
    return [signer for signer in found if signer is not None]


def _signer_of(text: str) -> Signer | None:
    if _FINGERPRINT.fullmatch(text):
        return Signer(text)
    words = text.split(maxsplit=2)
    if words[:1] == [LINE] and len(words) >= 2 and _KEY.fullmatch(words[1]):
        return Signer(fingerprint_of(bytes.fromhex(words[1])), words[2] if len(words) == 3 else "")
    return Signer(fingerprint_of(bytes.fromhex(text))) if _KEY.fullmatch(text) else None


def signer_problems(signatures: Sequence[Signature], trusted: Sequence[Signer]) -> list[str]:
    """Nothing when one of the trusted keys signed; otherwise who did."""
    if any(one.fingerprint == signer.fingerprint for one in signatures for signer in trusted):
        return []
    if not signatures:
        return ["The release is not signed."]
    return [
        f"The release is signed by another key than the one that was asked for: "
        f"{'; '.join(s.describe() for s in signatures)}."
    ]
