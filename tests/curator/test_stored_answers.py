"""Answers that were paid for and stored: adopted, never made again, known when they were signed."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dpublish as dp
from dpublish.curator import gate
from dpublish.releases.bundle.archive import write_container
from dpublish.releases.bundle.bundle import add_signature
from dpublish.releases.bundle.signatures import Signature

from .conftest import SCHEMA, spent


def test_an_answer_written_but_not_recorded_is_adopted(
    curator: dp.Curator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def crash(name: str) -> None:
        if name == "gate:written":
            raise KeyboardInterrupt

    monkeypatch.setattr(gate, "reach", crash)
    with pytest.raises(KeyboardInterrupt):
        curator.publish(dp.Histogram(), epsilon=1, key="k")
    (stored,) = (tmp_path / "c.ledger.d").glob("*.dpr")
    bytes_before = stored.read_bytes()
    monkeypatch.undo()
    curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / "r.dpr")
    assert (tmp_path / "r.dpr").read_bytes() == bytes_before
    assert spent(curator) == 1


def test_a_lost_or_altered_answer_is_never_made_again(curator: dp.Curator, tmp_path: Path) -> None:
    curator.publish(dp.Histogram(), epsilon=1, key="k")
    (stored,) = (tmp_path / "c.ledger.d").glob("*.dpr")
    stored.write_bytes(stored.read_bytes() + b"x")
    with pytest.raises(dp.BudgetError, match="not in"):
        curator.publish(dp.Histogram(), epsilon=1, key="k")
    stored.unlink()
    with pytest.raises(dp.BudgetError, match="not in"):
        curator.publish(dp.Histogram(), epsilon=1, key="k")


def test_a_stored_answer_that_was_signed_is_not_lost(curator: dp.Curator, tmp_path: Path) -> None:
    """Signatures are added to what was paid for; anything else that changed is not it."""
    curator.publish(dp.Histogram(), epsilon=1, key="k")
    (stored,) = (tmp_path / "c.ledger.d").glob("*.dpr")
    plain = stored.read_bytes()
    for number, name in enumerate(("one", "two"), start=1):
        add_signature(stored, dp.SigningKey.new(name).sign)
        again = curator.publish(dp.Histogram(), epsilon=1, key="k", out=tmp_path / f"{name}.dpr")
        assert len(again.signatures) == number
    assert spent(curator) == 1
    signed = stored.read_bytes()
    curator.publish(dp.Histogram(), epsilon=1, key="other", again=True)
    (other,) = set((tmp_path / "c.ledger.d").glob("*.dpr")) - {stored}
    add_signature(other, dp.SigningKey.new("one").sign)
    for altered in (signed + b"x", signed[:-1], other.read_bytes(), b""):
        stored.write_bytes(altered)
        with pytest.raises(dp.BudgetError, match="not in"):
            curator.publish(dp.Histogram(), epsilon=1, key="k")
    stored.write_bytes(plain)
    assert not curator.publish(dp.Histogram(), epsilon=1, key="k").signatures


def test_a_table_altered_in_a_signed_answer_is_not_what_was_paid_for(
    curator: dp.Curator, tmp_path: Path
) -> None:
    """The manifest alone is not the release: every table is held against it."""
    curator.publish(dp.Histogram(), epsilon=1, key="k")
    (stored,) = (tmp_path / "c.ledger.d").glob("*.dpr")
    add_signature(stored, dp.SigningKey.new("one").sign)
    with zipfile.ZipFile(stored) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (table,) = (name for name in members if name.endswith(".parquet"))
    members[table] = members[table][:-9] + bytes([members[table][-9] ^ 1]) + members[table][-8:]
    stored.unlink()
    write_container(stored, members, overwrite=False)
    with pytest.raises(dp.BudgetError, match="not in"):
        curator.publish(dp.Histogram(), epsilon=1, key="k")


class Halfway(dp.SigningKey):
    """A key whose signatures are of something else."""

    def sign(self, manifest: bytes) -> Signature:
        return super().sign(manifest + b" ")


@pytest.mark.parametrize(
    "key",
    [
        b"clinic.key",
        bytearray(32),
        7,
        dp.SigningKey,
        Path,
        dp.SigningKey("me", None),
        Halfway.new("me"),
    ],  # type: ignore[arg-type]
    ids=["bytes", "bytearray", "number", "class", "Path", "empty", "other"],
)
def test_what_cannot_sign_is_refused_before_anything_is_made(
    frame: pl.DataFrame, tmp_path: Path, key: Any
) -> None:
    with pytest.raises(dp.InputError, match=r"signing.key"):
        dp.Curator(
            frame,
            dp.Schema.from_toml(SCHEMA),
            ledger=tmp_path / "c.ledger",
            budget=dp.Budget(epsilon=3),
            signing_key=key,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_key_is_named_by_any_path(frame: pl.DataFrame, tmp_path: Path) -> None:
    dp.SigningKey.new("me").save(tmp_path / "a.key")
    (entry,) = (one for one in os.scandir(tmp_path) if one.name == "a.key")
    budget = dp.Budget(epsilon=3)
    owner = dp.Curator(
        frame,
        dp.Schema.from_toml(SCHEMA),
        ledger=tmp_path / "c.ledger",
        budget=budget,
        signing_key=entry,
    )
    assert [one.name for one in owner.publish(dp.Histogram(), epsilon=1).signatures] == ["me"]
