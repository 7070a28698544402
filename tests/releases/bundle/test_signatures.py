"""The format of signatures, held to committed vectors, and everything that must not pass for
one."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpublish.errors import BundleError, InputError
from dpublish.releases.bundle.signatures import (
    MAX_SIGNATURES,
    read_signatures,
    read_signers,
    write_signatures,
)
from dpublish.releases.bundle.signing_key import SigningKey

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "vectors" / "signatures.json").read_text(encoding="utf-8")
)
MANIFEST = VECTORS["manifest"].encode()
MEMBER = VECTORS["signatures.json"].encode()


def altered(**changes: Any) -> bytes:
    """The member of the vectors with other values in its first signature."""
    value = json.loads(MEMBER)
    value["signatures"][0] |= changes
    return rewritten(value)


def rewritten(value: Any) -> bytes:
    return (json.dumps(value, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()


class TestVectors:
    @pytest.mark.parametrize("signer", VECTORS["signers"], ids=lambda one: one["name"])
    def test_signing(self, signer: dict[str, str]) -> None:
        key = SigningKey.from_seed(bytes.fromhex(signer["seed"]), signer["name"])
        assert key.public_key.hex() == signer["public_key"]
        assert key.fingerprint == signer["fingerprint"]
        assert key.public_line() == signer["public_line"]
        assert key.sign(MANIFEST).value.hex() == signer["signature"]

    @pytest.mark.parametrize("signer", VECTORS["signers"], ids=lambda one: one["name"])
    def test_by_hand(self, signer: dict[str, str]) -> None:
        """The documented message, built without dpublish, signed and verified by the library
        alone."""
        digest = hashlib.sha256(MANIFEST)
        assert digest.hexdigest() == VECTORS["manifest_sha256"]
        message = b"dpublish-signature-v1\0" + digest.digest() + signer["name"].encode()
        assert message.hex() == signer["message"]
        assert (
            Ed25519PrivateKey.from_private_bytes(bytes.fromhex(signer["seed"])).sign(message).hex()
            == signer["signature"]
        )
        public = bytes.fromhex(signer["public_key"])
        Ed25519PublicKey.from_public_bytes(public).verify(
            bytes.fromhex(signer["signature"]), message
        )
        digits = hashlib.sha256(public).hexdigest()
        assert signer["fingerprint"].replace("-", "") == digits[:32]

    def test_the_member(self) -> None:
        signatures = read_signatures(MEMBER, MANIFEST)
        assert {one.name for one in signatures} == {"City clinic", "Städtische Klinik"}
        assert write_signatures(reversed(signatures)) == MEMBER

    @pytest.mark.parametrize("kind", ["plain_key", "protected_key"])
    def test_key_files(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "key"
        path.write_text(json.dumps(VECTORS[kind]))
        path.chmod(0o600)
        key = SigningKey.read(path, passphrase=VECTORS["passphrase"])
        assert key.public_line() == VECTORS["signers"][0]["public_line"]
        assert key.sign(MANIFEST).value.hex() == VECTORS["signers"][0]["signature"]


class TestWhatIsNoSignature:
    def test_every_changed_bit_of_the_manifest(self) -> None:
        for place in range(len(MANIFEST)):
            for bit in range(8):
                other = bytearray(MANIFEST)
                other[place] ^= 1 << bit
                with pytest.raises(BundleError, match="not one of this manifest"):
                    read_signatures(MEMBER, bytes(other))

    def test_every_changed_byte_of_the_member(self) -> None:
        for place in range(len(MEMBER)):
            other = bytearray(MEMBER)
            other[place] ^= 1
            with pytest.raises(BundleError):
                read_signatures(bytes(other), MANIFEST)

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"[]",
            b"{}",
            MEMBER + b" ",
            MEMBER.replace(b"\n", b"\r\n"),
            b" " * (1 << 17),
            altered(name="City hospital"),
            altered(name=""),
            altered(name="two\nlines"),
            altered(name="x" * 201),
            altered(name=7),
            altered(algorithm="none"),
            altered(signature="00" * 64),
            altered(signature=""),
            altered(public_key="00" * 32),
            altered(public_key=VECTORS["signers"][1]["public_key"].upper()),
            altered(further="field"),
            rewritten({**json.loads(MEMBER), "signatures": []}),
            rewritten({**json.loads(MEMBER), "signatures": {}}),
            rewritten({**json.loads(MEMBER), "signatures": json.loads(MEMBER)["signatures"] * 2}),
            rewritten(
                {
                    **json.loads(MEMBER),
                    "signatures": json.loads(MEMBER)["signatures"][:1] * (MAX_SIGNATURES + 1),
                }
            ),
            rewritten({**json.loads(MEMBER), "signatures": json.loads(MEMBER)["signatures"][::-1]}),
            rewritten({**json.loads(MEMBER), "format": "another"}),
            rewritten({**json.loads(MEMBER), "format_version": True}),
        ],
    )
    def test_other_members(self, content: bytes) -> None:
        with pytest.raises(BundleError):
            read_signatures(content, MANIFEST)

    def test_a_signature_of_the_manifest_alone(self) -> None:
        """What the same key signed for another purpose is worth nothing here."""
        seed = bytes.fromhex(VECTORS["signers"][1]["seed"])
        plain = Ed25519PrivateKey.from_private_bytes(seed).sign(MANIFEST)
        with pytest.raises(BundleError, match="not one of this manifest"):
            read_signatures(altered(signature=plain.hex()), MANIFEST)

    def test_a_later_format_is_told_apart(self) -> None:
        with pytest.raises(BundleError, match="Upgrade"):
            read_signatures(rewritten({**json.loads(MEMBER), "format_version": 2}), MANIFEST)


class TestKeyFiles:
    def test_only_the_owner_reads_it(self, tmp_path: Path) -> None:
        import os

        before = os.umask(0)
        try:
            key = SigningKey.new("me")
            key.save(tmp_path / "key")
        finally:
            os.umask(before)
        assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "key.pub").read_text() == key.public_line() + "\n"
        assert SigningKey.read(tmp_path / "key").public_key == key.public_key

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
    def test_one_that_others_may_read_is_refused(self, tmp_path: Path, mode: int) -> None:
        SigningKey.new("me").save(tmp_path / "key")
        (tmp_path / "key").chmod(mode)
        with pytest.raises(InputError, match="chmod 600"):
            SigningKey.read(tmp_path / "key")

    def test_it_is_never_overwritten(self, tmp_path: Path) -> None:
        SigningKey.new("me").save(tmp_path / "key")
        before = (tmp_path / "key").read_bytes()
        with pytest.raises(InputError, match="never overwritten"):
            SigningKey.new("me").save(tmp_path / "key")
        assert (tmp_path / "key").read_bytes() == before

    def test_a_passphrase(self, tmp_path: Path) -> None:
        key = SigningKey.new("me")
        key.save(tmp_path / "key", passphrase="correct horse")
        seed = key._key.private_bytes_raw()
        assert seed.hex().encode() not in (tmp_path / "key").read_bytes()
        assert (
            SigningKey.read(tmp_path / "key", passphrase=lambda: "correct horse").public_key
            == key.public_key
        )
        for wrong in ("wrong horse", "", None):
            with pytest.raises(InputError, match="passphrase"):
                SigningKey.read(tmp_path / "key", passphrase=wrong)

    @pytest.mark.parametrize("kind", ["plain_key", "protected_key"])
    def test_altered_files(self, tmp_path: Path, kind: str) -> None:
        path = tmp_path / "key"
        values: dict[str, Any] = {
            "name": "City hospital",
            "public_key": "00" * 32,
            "seed": "x",
            "sealed": "x",
            "n": 1 << 40,
        }
        for field, value in values.items():
            if field not in VECTORS[kind] or (kind == "plain_key" and field == "name"):
                continue
            path.write_text(json.dumps({**VECTORS[kind], field: value}))
            path.chmod(0o600)
            with pytest.raises(InputError):
                SigningKey.read(path, passphrase=VECTORS["passphrase"])
        for field in VECTORS[kind]:
            path.write_text(
                json.dumps({name: one for name, one in VECTORS[kind].items() if name != field})
            )
            with pytest.raises(InputError):
                SigningKey.read(path, passphrase=VECTORS["passphrase"])

    @pytest.mark.parametrize("content", [b"", b"\xff", b"{}", b"[1]", b"ssh-ed25519 AAAA me"])
    def test_other_files(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "key").write_bytes(content)
        (tmp_path / "key").chmod(0o600)
        with pytest.raises(InputError, match="not a signing key"):
            SigningKey.read(tmp_path / "key")
        with pytest.raises(InputError, match="no signing key"):
            SigningKey.read(tmp_path / "none")

    def test_the_secret_does_not_get_out(self) -> None:
        key = SigningKey.from_seed(bytes.fromhex(VECTORS["signers"][0]["seed"]), "me")
        assert "9d61" not in repr(key)
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(TypeError):
                copied(key)

    @pytest.mark.parametrize("name", ["", " me", "two\nlines", "x" * 201, "\x1b[31mred"])
    def test_wrong_names(self, name: str) -> None:
        with pytest.raises(InputError, match="name of a signer"):
            SigningKey.new(name)


class TestSigners:
    def test_all_ways_to_name_one(self, tmp_path: Path) -> None:
        one, two = VECTORS["signers"]
        file = tmp_path / "keys"
        file.write_text(
            f"# of this year\n{one['public_line']}\n\n{two['fingerprint']}\n", encoding="utf-8"
        )
        prints = [one["fingerprint"], two["fingerprint"]]
        assert [signer.fingerprint for signer in read_signers(file)] == prints
        assert [signer.fingerprint for signer in read_signers([str(file)])] == prints
        for text in (one["public_line"], one["public_key"], one["fingerprint"]):
            assert [signer.fingerprint for signer in read_signers(text)] == prints[:1]

    @pytest.mark.parametrize("given", ["nobody", "", [], "21fe", "dpublish-ed25519 21fe"])
    def test_none_is_named(self, given: Any) -> None:
        with pytest.raises(InputError):
            read_signers(given)

    def test_other_files(self, tmp_path: Path) -> None:
        (tmp_path / "keys").write_text("ssh-ed25519 AAAA me\n")
        (tmp_path / "empty").write_text("# none yet\n")
        for name in ("keys", "empty"):
            with pytest.raises(InputError):
                read_signers(tmp_path / name)
