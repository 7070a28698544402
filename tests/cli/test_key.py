"""Keys and signatures as a curator and an analyst see them."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import dpublish as dp
from dpublish.ledger import open_ledger

from .conftest import RELEASE, Command


@pytest.fixture
def signed(shop: Path, dpublish: Command) -> Path:
    """The working folder with two keys, and a release that is signed with the first, as a file and
    as a folder."""
    for name in ("clinic", "other"):
        assert dpublish("key", "new", f"{name}.key", "--name", f"The {name}").code == 0
    paid = (
        *RELEASE,
        "--epsilon",
        "1",
        "--budget",
        "2",
        "--key",
        "first",
        "--sign-with",
        "clinic.key",
    )
    assert dpublish(*paid, "--out", "shop.dpr").code == 0
    assert dpublish(*paid, "--out", "folder").code == 0
    return shop


def spent(ledger: str = "shop.ledger") -> str:
    with open_ledger(ledger) as account:
        return account.status().spent.describe()


@pytest.mark.parametrize("name", ["shop.dpr", "folder"])
def test_who_signed(signed: Path, dpublish: Command, name: str) -> None:
    fingerprint = dpublish("key", "show", "clinic.key", "--json").document["fingerprint"]
    shown = dpublish("verify", name, "--signer", "clinic.key.pub", "--ledger", "shop.ledger")
    assert shown.code == 0
    assert (
        "whole and unaltered. The key that you named signed it. The ledger holds its payment."
        in " ".join(shown.out.split())
    )
    for words in (("show", name), ("verify", name)):
        assert f"The clinic ({fingerprint})" in " ".join(dpublish(*words).out.split())
    assert dpublish("show", name, "--json").document["signatures"][0]["name"] == "The clinic"
    document = dpublish("verify", name, "--signer", fingerprint, "--json").document
    assert (document["ok"], document["signed"], document["paid"]) == (True, True, None)
    assert document["facts"]["signatures"][0]["fingerprint"] == fingerprint
    assert dpublish("verify", name, "--json").document["signed"] is None
    page = f"{name}.html"
    assert dpublish("report", name, "--out", page).code == 0
    assert fingerprint in Path(page).read_text()


@pytest.mark.parametrize("name", ["shop.dpr", "folder"])
def test_another_key(signed: Path, dpublish: Command, name: str) -> None:
    shown = dpublish("verify", name, "--signer", "other.key.pub", "--json")
    assert shown.code == 5
    assert shown.document["signed"] is False
    assert "The clinic" in shown.document["problems"][0]
    asked = dpublish(
        "verify", name, "--signer", "other.key.pub", "--ledger", "shop.ledger", "--json"
    ).document
    assert (asked["ok"], asked["signed"], asked["paid"]) == (False, False, None), (
        "the ledger was not asked"
    )
    assert (
        dpublish("verify", name, "--signer", "other.key.pub", "--signer", "clinic.key.pub").code
        == 0
    )
    assert dpublish("verify", name, "--signer", "nobody").code == 2


def test_a_release_that_is_not_signed(signed: Path, dpublish: Command) -> None:
    assert (
        dpublish(*RELEASE, "--epsilon", "1", "--again", "--key", "second", "--out", "bare.dpr").code
        == 0
    )
    shown = dpublish("verify", "bare.dpr", "--signer", "clinic.key.pub", "--json")
    assert shown.code == 5
    assert shown.document["problems"] == ["The release is not signed."]
    assert "nobody" in dpublish("show", "bare.dpr").out


def test_every_changed_byte_of_a_file(signed: Path, dpublish: Command) -> None:
    """Also those of the archive that no member holds: time stamps, attributes, lengths."""
    content = Path("shop.dpr").read_bytes()
    for place in range(0, len(content), 7):
        Path("bad.dpr").write_bytes(
            content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        )
        assert not dp.verify_bundle("bad.dpr", signer="clinic.key.pub"), place
    for more in (b"more" + content, content + b"more"):
        Path("bad.dpr").write_bytes(more)
        assert not dp.verify_bundle("bad.dpr", signer="clinic.key.pub")


def test_a_swapped_manifest(signed: Path, dpublish: Command) -> None:
    """The signature of one release beside the content of another, and a manifest that was written
    anew."""
    assert (
        dpublish(*RELEASE, "--epsilon", "1", "--again", "--key", "second", "--out", "second").code
        == 0
    )
    shutil.copy("folder/signatures.json", "second/signatures.json")
    shown = dpublish("verify", "second", "--signer", "clinic.key.pub", "--json")
    assert shown.code == 5
    assert "not one of this manifest" in shown.document["problems"][0]
    with pytest.raises(dp.BundleError, match="not one of this manifest"):
        dp.open_release("second")
    manifest = json.loads(Path("folder/manifest.json").read_text())
    manifest["privacy"]["cost"]["epsilon"] = "1/100"
    Path("folder/manifest.json").write_text(
        json.dumps(manifest, sort_keys=True, ensure_ascii=False, indent=1) + "\n"
    )
    assert dpublish("verify", "folder").code == 5
    assert dpublish("show", "folder").code == 5


def test_a_changed_table(signed: Path, dpublish: Command) -> None:
    table = Path("folder/cells.parquet")
    content = bytearray(table.read_bytes())
    content[len(content) // 2] ^= 1
    table.write_bytes(bytes(content))
    assert dpublish("verify", "folder", "--signer", "clinic.key.pub").code == 5


@pytest.mark.parametrize("name", ["shop.dpr", "folder"])
def test_a_second_signature(signed: Path, dpublish: Command, name: str) -> None:
    """As when a key is replaced: the old signature stays, and the ledger still knows the
    content."""
    before = dpublish("verify", name, "--json").document["facts"]["manifest_sha256"]
    for _ in range(2):  # a second time changes nothing
        assert dpublish("key", "sign", name, "--sign-with", "other.key").code == 0
        document = dpublish(
            "verify", name, "--signer", "other.key.pub", "--ledger", "shop.ledger", "--json"
        ).document
        assert document["ok"] is True
        assert {one["name"] for one in document["facts"]["signatures"]} == {
            "The clinic",
            "The other",
        }
        assert document["facts"]["manifest_sha256"] == before
    assert dpublish("verify", name, "--signer", "clinic.key.pub").code == 0
    again = (*RELEASE, "--epsilon", "1", "--key", "first", "--out", name)
    assert dpublish(*again).code == 0, "it is still the release of its key"
    assert len(dp.open_release(name).signatures) == 2


def test_signing_afterwards(released: Path, dpublish: Command) -> None:
    dpublish("key", "new", "clinic.key", "--name", "The clinic")
    plain = Path("shop.dpr").read_bytes()
    again = (
        *RELEASE,
        "--epsilon",
        "1",
        "--key",
        "first",
        "--sign-with",
        "clinic.key",
        "--out",
        "again.dpr",
    )
    shown = dpublish(*again)
    assert shown.code == 0
    assert Path("again.dpr").read_bytes() == plain, "the same key gives the same bytes"
    assert "key sign" in shown.out + shown.err
    assert "key sign" in dpublish(*again, "--json").document["news"][-1]
    assert dpublish("key", "sign", "shop.dpr", "--sign-with", "clinic.key").code == 0
    assert (
        dpublish("verify", "shop.dpr", "--signer", "clinic.key.pub", "--ledger", "shop.ledger").code
        == 0
    )
    with zipfile.ZipFile("shop.dpr") as archive:
        assert archive.namelist()[-1] == "signatures.json"


def test_a_signature_of_another_key_is_not_the_one_asked_for(
    signed: Path, dpublish: Command
) -> None:
    again = (
        *RELEASE,
        "--epsilon",
        "1",
        "--key",
        "first",
        "--out",
        "again.dpr",
        "--json",
        "--sign-with",
    )
    assert dpublish(*again, "clinic.key").document["news"] == []
    (said,) = dpublish(*again, "other.key").document["news"]
    assert "not signed with the key of The other" in said


def test_solutions_say_it_too(shop: Path, dpublish: Command) -> None:
    dpublish("key", "new", "clinic.key", "--name", "The clinic")
    Path("edges.csv").write_text("a,b\n1,2\n2,3\n")
    words = (
        "solve",
        "vertex-cover",
        "edges.csv",
        "--public",
        "4",
        "--ledger",
        "solve.ledger",
        "--epsilon",
        "1",
        "--key",
        "k",
    )
    assert dpublish(*words, "--budget", "2", "--out", "s.dpr").code == 0
    shown = dpublish(*words, "--out", "again.dpr", "--sign-with", "clinic.key")
    assert shown.code == 0
    assert "key sign" in shown.out + shown.err
    assert (
        "key sign"
        in dpublish(*words, "--out", "third.dpr", "--sign-with", "clinic.key", "--json").document[
            "news"
        ][-1]
    )


def test_a_damaged_release_is_not_signed(signed: Path, dpublish: Command) -> None:
    content = bytearray(Path("folder/cells.parquet").read_bytes())
    content[8] ^= 1
    Path("folder/cells.parquet").write_bytes(bytes(content))
    before = Path("folder/signatures.json").read_bytes()
    assert dpublish("key", "sign", "folder", "--sign-with", "other.key").code == 5
    assert Path("folder/signatures.json").read_bytes() == before


def open_to_others(path: Path) -> None:
    path.chmod(0o644)


def another_file(path: Path) -> None:
    path.write_text("no key")
    path.chmod(0o600)


@pytest.mark.parametrize("harm", [Path.unlink, open_to_others, another_file])
def test_a_key_that_cannot_be_used_costs_nothing(
    signed: Path, dpublish: Command, harm: Callable[[Path], None]
) -> None:
    before = spent()
    harm(Path("clinic.key"))
    shown = dpublish(*RELEASE, "--epsilon", "1", "--sign-with", "clinic.key", "--out", "x.dpr")
    assert shown.code == 2
    assert spent() == before
    with pytest.raises(dp.InputError):
        dp.Curator("shop.csv", "shop.toml", ledger="shop.ledger", signing_key="clinic.key")


def test_a_passphrase(signed: Path, dpublish: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    before = spent()
    monkeypatch.setenv("DPUBLISH_SIGNING_PASSPHRASE", "correct horse")
    assert dpublish("key", "new", "locked.key", "--name", "Locked", "--passphrase").code == 0
    monkeypatch.setenv("DPUBLISH_SIGNING_KEY", "locked.key")
    for wrong in ("wrong horse", ""):
        monkeypatch.setenv("DPUBLISH_SIGNING_PASSPHRASE", wrong)
        shown = dpublish(*RELEASE, "--epsilon", "1", "--out", "locked.dpr")
        assert shown.code == 2
        assert "passphrase" in shown.err
    assert spent() == before
    monkeypatch.setenv("DPUBLISH_SIGNING_PASSPHRASE", "correct horse")
    assert dpublish(*RELEASE, "--again", "--epsilon", "1", "--out", "locked.dpr").code == 0
    assert dpublish("verify", "locked.dpr", "--signer", "locked.key.pub").code == 0
    assert dpublish("key", "new", "locked.key", "--name", "Again").code == 2


def test_a_solution_is_signed(signed: Path, dpublish: Command) -> None:
    Path("edges.txt").write_text("0 1\n1 2\n2 3\n")
    paid = (
        "--ledger",
        "s.ledger",
        "--budget",
        "9",
        "--epsilon",
        "1",
        "--out",
        "cover.dpr",
        "--sign-with",
        "clinic.key",
    )
    assert dpublish("solve", "vertex-cover", "edges.txt", "--public", "4", *paid).code == 0
    assert (
        dpublish("verify", "cover.dpr", "--signer", "clinic.key.pub", "--ledger", "s.ledger").code
        == 0
    )


def test_in_python(signed: Path) -> None:
    key = dp.SigningKey.read("clinic.key")
    curator = dp.Curator("shop.csv", "shop.toml", ledger="shop.ledger", signing_key=key)
    release = curator.publish(dp.Histogram(columns=["age"]), epsilon="1/2", out="python.dpr")
    assert [one.name for one in release.signatures] == ["The clinic"]
    assert release.verify(signer=key.fingerprint)
    assert not release.verify(signer="other.key.pub")
    release.save("copied")
    assert dp.verify_bundle("copied", signer="clinic.key.pub")
    changed = dp.open_release("python.dpr")
    changed.tables["cells"] = changed.tables["cells"].head(1)
    changed.save("changed.dpr")
    assert dp.open_release("changed.dpr").signatures == (), "another content has no signature"
    first = dp.open_release("python.dpr")
    again = curator.publish(
        dp.Histogram(columns=["age"]),
        epsilon="1/2",
        key=first.manifest["receipt"]["key"],
        out="again.dpr",
    )
    assert Path("again.dpr").read_bytes() == Path("python.dpr").read_bytes()
    assert again.signatures == first.signatures
