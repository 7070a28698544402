"""A curator's key: made, kept for its owner's eyes only, unlocked, and used to sign releases.

It is read and unlocked before anything is paid for, so that a forgotten passphrase costs nothing.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpublish.errors import BundleError, InputError
from dpublish.outputs import as_path
from dpublish.owned import open_owned, write_through
from dpublish.releases.bundle.signatures import (
    MAX_NAME,
    Signature,
    fingerprint_of,
    public_line,
    signed_message,
    valid_name,
)
from dpublish.releases.bundle.strict_json import read_json, write_json

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = "dpublish-signing-key"
FORMAT_VERSION = 1
PLAIN, LOCKED = "none", "scrypt-chacha20poly1305"
_SCRYPT = {"n": 1 << 17, "r": 8, "p": 1}
"""128 MiB and some tenths of a second for every guess at a passphrase."""
_MAX_COST = {"n": 1 << 20, "r": 16, "p": 4}
_AAD = b"dpublish-signing-key-v1\0"

Passphrase = str | Callable[[], str] | None


@dataclass(frozen=True, eq=False)
class SigningKey:
    """An Ed25519 key and the name that its signatures carry. `read` one from its file, or make a
    `new` one.

    >>> SigningKey.from_seed(bytes(32), "office").describe()
    'office (139e-3940-e64b-5491-7220-88d9-a0d7-4162)'
    """

    name: str
    _key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def new(cls, name: str) -> SigningKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(_checked_name(name), Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: bytes, name: str) -> SigningKey:
        """The key of these 32 bytes, as in RFC 8032."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(_checked_name(name), Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def read(cls, path: str | Path, *, passphrase: Passphrase = None) -> SigningKey:
        """The key in a file. `passphrase`, or a function that asks for it, is used only if the file
        is protected by one."""
        path = as_path(path)
        value = _read_file(path)
        broken = InputError(f"'{path}' is not a signing key of this version, or it is damaged.")
        try:
            key = cls.from_seed(_unlocked(path, value, passphrase), value["name"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise broken from None
        if key.public_key.hex() != value.get("public_key"):
            raise broken
        return key

    def save(self, path: str | Path, *, passphrase: str | None = None) -> Path:
        """Write the key for its owner's eyes only, and its public half beside it under `.pub`.
        Never overwrites."""
        path = as_path(path)
        public = path.with_name(path.name + ".pub")
        value: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "name": self.name,
            "public_key": self.public_key.hex(),
            **_protected(self, passphrase),
        }
        taken = "'{}' exists already, and a key is never overwritten. Give another name."
        if public.exists():
            raise InputError(taken.format(public))
        for place, content in (
            (path, write_json(value, "The key")),
            (public, (self.public_line() + "\n").encode()),
        ):
            try:
                if place is public:
                    file = public.open("xb")
                else:
                    file = os.fdopen(open_owned(path, os.O_WRONLY | os.O_EXCL), "wb")
                with file:
                    write_through(file, content)
            except FileExistsError:
                raise InputError(taken.format(place)) from None
            except OSError as error:
                raise InputError(
                    f"'{place}' cannot be written ({os.strerror(error.errno or 0)})."
                ) from None
        return path

    @property
    def public_key(self) -> bytes:
        return self._key.public_key().public_bytes_raw()

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.public_key)

    def public_line(self) -> str:
        """What readers are given: one line of text."""
        return public_line(self.public_key, self.name)

    def describe(self) -> str:
        return f"{self.name} ({self.fingerprint})"

    def sign(self, manifest: bytes) -> Signature:
        """Vouch for a release by the bytes of its manifest."""
        return Signature(
            self.public_key, self.name, self._key.sign(signed_message(manifest, self.name))
        )

    def __reduce__(self) -> Any:
        raise TypeError("A signing key is not copied into pickles. Read it from its file.")


def _checked_name(name: str) -> str:
    if not valid_name(name):
        raise InputError(
            f"The name of a signer is 1 to {MAX_NAME} printable characters, without blanks at its "
            f"ends."
        )
    return name


def _read_file(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(1 << 16)
    except FileNotFoundError:
        raise InputError(
            f"There is no signing key at '{path}'. 'dpublish key new' makes one."
        ) from None
    except OSError as error:
        raise InputError(
            f"The signing key '{path}' cannot be read ({os.strerror(error.errno or 0)})."
        ) from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise InputError(
            f"Others may read the signing key '{path}'. Make it yours alone (chmod 600), or make "
            f"a new one."
        )
    try:
        value = read_json(content, "The key")
    except BundleError:
        value = {}
    if value.get("format") != FORMAT:
        raise InputError(f"'{path}' is not a signing key. 'dpublish key new' makes one.")
    if value.get("format_version") != FORMAT_VERSION:
        raise InputError(
            f"'{path}' was made by a newer dpublish. Upgrade with: pip install --upgrade dpublish."
        )
    return value


def _unlocked(path: Path, value: Mapping[str, Any], passphrase: Passphrase) -> bytes:
    """The seed. A wrong type or a missing field is a `KeyError`, `TypeError` or `ValueError`."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    if value["protection"] == PLAIN:
        return bytes.fromhex(value["seed"])
    if value["protection"] != LOCKED:
        raise ValueError
    costs = {name: value[name] for name in _SCRYPT}
    if any(
        type(cost) is not int or not 1 <= cost <= _MAX_COST[name] for name, cost in costs.items()
    ):
        raise ValueError
    words = passphrase() if callable(passphrase) else passphrase
    if not words:
        raise InputError(
            f"The signing key '{path}' is protected by a passphrase, and none was given."
        )
    try:
        return ChaCha20Poly1305(_derived(words, bytes.fromhex(value["salt"]), costs)).decrypt(
            bytes.fromhex(value["nonce"]),
            bytes.fromhex(value["sealed"]),
            _bound(bytes.fromhex(value["public_key"]), value["name"]),
        )
    except InvalidTag:
        raise InputError(f"The passphrase does not open the signing key '{path}'.") from None


def _protected(key: SigningKey, passphrase: str | None) -> dict[str, Any]:
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    seed = key._key.private_bytes_raw()
    if passphrase is None:
        return {"protection": PLAIN, "seed": seed.hex()}
    if not passphrase:
        raise InputError("The passphrase is empty. Leave it out to keep the key without one.")
    salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
    sealed = ChaCha20Poly1305(_derived(passphrase, salt, _SCRYPT)).encrypt(
        nonce, seed, _bound(key.public_key, key.name)
    )
    return {
        "protection": LOCKED,
        **_SCRYPT,
        "salt": salt.hex(),
        "nonce": nonce.hex(),
        "sealed": sealed.hex(),
    }


def _derived(passphrase: str, salt: bytes, costs: Mapping[str, int]) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=costs["n"], r=costs["r"], p=costs["p"]).derive(
        passphrase.encode()
    )


def _bound(public_key: bytes, name: str) -> bytes:
    """What the protection vouches for besides the seed."""
    return _AAD + public_key + name.encode()
