"""Choices that requests and commands share, by name. Loads nothing, so that help stays fast."""

from __future__ import annotations

from enum import StrEnum

PASSPHRASE = "DPUBLISH_SIGNING_PASSPHRASE"
"""Where the passphrase of a signing key may stand."""


class Format(StrEnum):
    csv = "csv"
    parquet = "parquet"
    croissant = "croissant"
    dcat = "dcat"
    frictionless = "frictionless"
    registry = "registry"
    label = "label"
    dpo = "dpo"


class TierName(StrEnum):
    exact = "exact"
    replay = "replay"
    sampled = "sampled"
    twin = "twin"
    distributional = "distributional"


class Relation(StrEnum):
    replace_one = "replace-one"
    add_remove_one = "add-remove-one"
