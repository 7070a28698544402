"""`verify --ledger` against whoever has a real release and writes another one around its receipt,
in a file or a folder."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dpublish.ledger import open_ledger
from dpublish.ledger.sql import SqlLedger

from .conftest import RELEASE, Command

Change = Callable[[dict[str, Any]], None]


def forge(release: Path, out: Path, change: Change, counts: int = 0) -> None:
    """Another release with the receipt of a real one: counts raised, the manifest changed, all
    hashes written anew."""
    with zipfile.ZipFile(release) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members["manifest.json"])
    for name, entry in manifest["files"].items():
        table = io.BytesIO()
        frame = pl.read_parquet(members[name])
        frame.with_columns(pl.col("count") + counts).write_parquet(
            table, compression="zstd", statistics=False
        )
        members[name] = table.getvalue()
        entry |= {"sha256": hashlib.sha256(members[name]).hexdigest(), "bytes": len(members[name])}
    change(manifest)
    members["manifest.json"] = (
        json.dumps(manifest, sort_keys=True, ensure_ascii=False, indent=1) + "\n"
    ).encode()
    if out.suffix == ".dpr":
        with zipfile.ZipFile(out, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
        return
    out.mkdir()
    for name, content in members.items():
        (out / name).write_bytes(content)


def nothing(manifest: dict[str, Any]) -> None:
    """The manifest as it was, but for hashes."""


def cheaper(manifest: dict[str, Any]) -> None:
    manifest["privacy"]["cost"]["epsilon"] = "1/100"
    manifest["privacy"]["statement"] = "This release satisfies epsilon = 0.01."


LIES: dict[str, tuple[Change, str]] = {
    "cost": (cheaper, "epsilon = 0.01"),
    "relation": (lambda m: m["privacy"].update(neighbours="add-remove-one"), "add-remove-one"),
    "unit": (
        lambda m: m["privacy"].update(unit="all rows that share one value of 'family'"),
        "family",
    ),
    "method": (lambda m: m.update(method="projected-histogram"), "projected-histogram"),
    "data set": (lambda m: m.update(dataset="another shop"), "another shop"),
    "settings": (lambda m: m["parameters"].update(bins=3), "other settings"),
    "noise": (lambda m: m.update(publishable=False), "publishable"),
    "time": (lambda m: m.update(created="2001-01-01T00:00:00Z"), "2001"),
    "charge": (lambda m: m["receipt"]["charged"].update(epsilon="1/100"), "epsilon = 0.01"),
    "no charge": (lambda m: m["receipt"].update(charged="free"), "no cost"),
    "place": (lambda m: m["receipt"].update(seq=7), "seq = 7"),
    "ledger": (lambda m: m["receipt"].update(ledger_id="ff" * 16), "ledger_id"),
    "no key": (lambda m: m["receipt"].pop("key"), "not paid"),
    "a key of another kind": (lambda m: m["receipt"].update(key=["first"]), "not paid"),
    "another key": (lambda m: m["receipt"].update(key="second"), "not paid"),
}


@pytest.fixture
def old(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger of an older version, whose seals know the file only."""
    seal = SqlLedger.seal

    def older(
        self: SqlLedger,
        key: str,
        *,
        sha256: str,
        size: int,
        location: str,
        manifest: str | None = None,
    ) -> None:
        seal(self, key, sha256=sha256, size=size, location=location)

    monkeypatch.setattr(SqlLedger, "seal", older)


@pytest.mark.parametrize("name", ["forged", "forged.dpr"])
@pytest.mark.parametrize("change", [nothing, cheaper])
def test_other_counts_with_a_real_receipt(
    released: Path, dpublish: Command, name: str, change: Change
) -> None:
    forge(released / "shop.dpr", released / name, change, counts=1000)
    assert dpublish("verify", name).code == 0, "as far as its own hashes go it is whole"
    shown = dpublish("verify", name, "--ledger", "shop.ledger", "--json")
    assert shown.code == 5
    assert shown.document["paid"] is False


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_about_the_payment_is_named(released: Path, dpublish: Command, lie: str) -> None:
    change, word = LIES[lie]
    forge(released / "shop.dpr", released / "forged", change)
    shown = dpublish("verify", "forged", "--ledger", "shop.ledger", "--json")
    assert shown.code == 5
    assert any(word in problem for problem in shown.document["problems"]), shown.document[
        "problems"
    ]


def test_the_seal_holds_the_manifest(released: Path, dpublish: Command) -> None:
    with zipfile.ZipFile("shop.dpr") as archive:
        digest = hashlib.sha256(archive.read("manifest.json")).hexdigest()
    with open_ledger("shop.ledger") as ledger:
        sealed = ledger.answer("first")
    assert sealed is not None
    assert (
        sealed.manifest
        == digest
        == dpublish("verify", "shop.dpr", "--json").document["facts"]["manifest_sha256"]
    )


def test_the_same_content_in_both_containers(released: Path, dpublish: Command) -> None:
    assert dpublish(*RELEASE, "--epsilon", "1", "--key", "first", "--out", "folder").code == 0
    for name in ("shop.dpr", "folder"):
        shown = dpublish("verify", name, "--ledger", "shop.ledger")
        assert shown.code == 0
        assert "whole and unaltered. The ledger holds its payment." in shown.out


def test_a_folder_has_the_very_bytes_of_the_file(released: Path, dpublish: Command) -> None:
    """Not tables written once more, which another version of a library would write in another
    way."""
    assert dpublish(*RELEASE, "--epsilon", "1", "--key", "first", "--out", "folder").code == 0
    with zipfile.ZipFile("shop.dpr") as archive:
        assert {path.name: path.read_bytes() for path in Path("folder").iterdir()} == {
            name: archive.read(name) for name in archive.namelist()
        }


@pytest.mark.parametrize("where", ["before", "after"])
def test_bytes_that_belong_to_no_part(released: Path, dpublish: Command, where: str) -> None:
    content = Path("shop.dpr").read_bytes()
    Path("more.dpr").write_bytes(
        b"more" + content if where == "before" else content[:-2] + b"\x04\x00more"
    )
    assert dpublish("verify", "more.dpr", "--ledger", "shop.ledger").code == 5


@pytest.mark.usefixtures("old")
class TestSealsOfOlderVersions:
    def test_file_and_folder_verify(self, released: Path, dpublish: Command) -> None:
        with open_ledger("shop.ledger") as ledger:
            sealed = ledger.answer("first")
        assert sealed is not None
        assert sealed.manifest is None
        assert dpublish(*RELEASE, "--epsilon", "1", "--key", "first", "--out", "folder").code == 0
        for name in ("shop.dpr", "folder"):
            assert dpublish("verify", name, "--ledger", "shop.ledger").code == 0

    @pytest.mark.parametrize("name", ["forged", "forged.dpr"])
    def test_other_counts_do_not(self, released: Path, dpublish: Command, name: str) -> None:
        forge(released / "shop.dpr", released / name, nothing, counts=1000)
        shown = dpublish("verify", name, "--ledger", "shop.ledger", "--json")
        assert shown.code == 5
        assert "another answer" in shown.document["problems"][0]


def test_a_sealed_answer_is_sealed_again_only_with_its_manifest(released: Path) -> None:
    from dpublish.errors import BudgetError

    with open_ledger("shop.ledger") as ledger:
        sealed = ledger.answer("first")
        assert sealed is not None
        same = {"sha256": sealed.sha256, "size": sealed.size, "location": "x"}
        ledger.seal("first", **same, manifest=sealed.manifest)
        ledger.seal("first", **same)
        with pytest.raises(BudgetError, match="another answer"):
            ledger.seal("first", **same, manifest="0" * 64)
