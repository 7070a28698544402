"""The manifest of a release: what every kind of release says about itself, checked field by field.

What is particular to one kind (its facts, its tables) is checked by that kind's class in
`releases/`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpublish.declare.calendar import CALENDAR, FIRST, LAST, WORDS
from dpublish.declare.columns import KINDS, NUMERIC_KINDS, OUTSIDE, WORDING
from dpublish.declare.domain import MAX_CELLS, Domain
from dpublish.errors import BundleError, PublishError, SchemaError
from dpublish.privacy.cost import Cost

FORMAT = "dpublish-release"
FORMAT_VERSION = 1
MAX_AXES = 4096
MAX_NAME = 1000
WHOLE_TABLE_KINDS = frozenset({"joined-histograms", "workload"})
"""Kinds that never number the cells of their domain, so that it may have more than 2^63 of them."""

TABLE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}\.parquet", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_FRACTION = re.compile(r"[0-9]{1,60}(/[0-9]{1,60})?", re.ASCII)
_TEXTS = ("kind", "method", "dataset", "created")
_OBJECTS = ("parameters", "privacy", "facts", "plan", "receipt", "versions")
_AXIS_KEYS = {"name", "kind", "outside", "edges", "levels", "other", "missing", *WORDING}


def check_format(manifest: Mapping[str, Any]) -> None:
    """Refuse what is not a release, or one from a later version of the format, before anything else
    is looked at."""
    if manifest.get("format") != FORMAT:
        raise BundleError(f"This is not a dpublish release: its manifest has no format '{FORMAT}'.")
    version = manifest.get("format_version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise BundleError("The manifest has no format_version.")
    if version > FORMAT_VERSION:
        raise BundleError(
            f"This release has format version {version}; this dpublish reads up to "
            f"{FORMAT_VERSION}. "
            "Upgrade with: pip install --upgrade dpublish."
        )


def check_manifest(manifest: Mapping[str, Any], *, sealed: bool) -> None:
    """Check every field that all kinds share. `sealed`: `files` must be there, as in a manifest
    read from a bundle."""
    check_format(manifest)
    for key in _TEXTS:
        text(manifest, key, "manifest")
    for key in _OBJECTS:
        table(manifest, key, "manifest")
    flag(manifest, "publishable", "manifest")
    digest(manifest, "schema_digest", "manifest")
    privacy = table(manifest, "privacy", "manifest")
    read_cost(privacy)
    for key in ("neighbours", "unit", "statement"):
        text(privacy, key, "privacy")
    if "domain" in manifest:
        read_domain(
            manifest["domain"], limit=None if manifest["kind"] in WHOLE_TABLE_KINDS else MAX_CELLS
        )
    read_rules(manifest.get("rules", []))
    for key in ("sentences", "warnings"):
        texts(manifest["plan"], key, "plan")
    about = manifest.get("about", {})
    if not isinstance(about, Mapping) or not all(isinstance(one, str) for one in about.values()):
        raise BundleError("about must be an object of texts.")
    if sealed or "files" in manifest:
        check_files(table(manifest, "files", "manifest"))


def read_cost(privacy: Mapping[str, Any]) -> Cost:
    """What the release cost, as the manifest states it."""
    try:
        return Cost.from_json(table(privacy, "cost", "privacy"))
    except (PublishError, ValueError, TypeError, ArithmeticError) as error:
        raise BundleError(f"privacy: 'cost' cannot be read: {str(error)[:200]}") from None


def check_files(files: Mapping[str, Any]) -> None:
    for name, entry in files.items():
        if not TABLE_NAME.fullmatch(name):
            raise BundleError(
                f"files: '{name[:80]}' is not a permitted file name (lower-case letters, digits, "
                f"'_', '.parquet')."
            )
        if not isinstance(entry, Mapping):
            raise BundleError(f"files: '{name}' must be an object with sha256, bytes and rows.")
        digest(entry, "sha256", name)
        whole(entry, "bytes", name)
        whole(entry, "rows", name)


def read_domain(value: Any, *, limit: int | None = MAX_CELLS) -> Domain:
    """The domain in a manifest, every axis checked, and that it has at most `limit` cells (None:
    any number)."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_AXES:
        raise BundleError(f"domain must list 1 to {MAX_AXES} columns.")
    for item in value:
        _check_axis(item)
    try:
        domain = Domain.from_json(value)
    except (SchemaError, KeyError, TypeError, ValueError) as error:
        raise BundleError(f"domain cannot be read ({type(error).__name__}).") from None
    if len(set(domain.names)) != len(domain.names):
        raise BundleError("domain names a column twice.")
    if limit is not None and domain.size > limit:
        raise BundleError("domain has more than 2^63 cells.")
    return domain


def read_rules(value: Any) -> list[Mapping[str, Any]]:
    """The rules in a manifest, each with its texts and the columns that it names."""
    if not isinstance(value, list):
        raise BundleError("rules must be a list.")
    for item in value:
        if not isinstance(item, Mapping):
            raise BundleError("rules: every rule must be an object with if, then and columns.")
        for key in ("if", "then"):
            text(item, key, "rules")
        texts(item, "columns", "rules")
    return value


def _check_wording(item: Mapping[str, Any], where: str) -> None:
    labels, levels = item.get("labels", {}), item.get("levels", [])
    # levels themselves are checked after this, so anything may stand there still
    known = [one for one in levels if isinstance(one, str)] if isinstance(levels, list) else []
    if not isinstance(labels, Mapping) or not set(labels) <= set(known):
        raise BundleError(f"{where}: labels must name levels.")
    said = [*(item[key] for key in WORDING if key in item and key != "labels"), *labels.values()]
    if not all(isinstance(one, str) for one in said):
        raise BundleError(f"{where}: words for people must be texts.")


def _check_axis(item: Any) -> None:
    if not isinstance(item, Mapping):
        raise BundleError("domain: every column must be an object.")
    name = text(item, "name", "domain")
    where = f"domain, column '{name[:80]}'"
    if len(name) > MAX_NAME:
        raise BundleError(f"{where}: the name is longer than {MAX_NAME} characters.")
    unknown = sorted(set(item) - _AXIS_KEYS)
    if unknown:
        raise BundleError(f"{where}: unknown key '{str(unknown[0])[:80]}'.")
    kind = text(item, "kind", where)
    if kind not in KINDS:
        raise BundleError(f"{where}: kind '{kind[:80]}' is not known.")
    for key in ("other", "missing"):
        flag(item, key, where)
    if text(item, "outside", where) not in OUTSIDE:
        raise BundleError(f"{where}: outside must be one of {', '.join(OUTSIDE)}.")
    _check_wording(item, where)
    if kind in NUMERIC_KINDS:
        if "levels" in item:
            raise BundleError(f"{where}: a column of kind {kind} has edges, not levels.")
        _check_edges(item.get("edges"), kind, where)
        return
    if "edges" in item:
        raise BundleError(f"{where}: a column of kind {kind} has levels, not edges.")
    levels = item.get("levels")
    if (
        not isinstance(levels, list)
        or not levels
        or not all(isinstance(level, str) for level in levels)
    ):
        raise BundleError(f"{where}: levels must be a list of texts.")
    if len(set(levels)) != len(levels):
        raise BundleError(f"{where}: a level is listed twice.")
    if kind == "boolean" and levels != ["false", "true"]:
        raise BundleError(f"{where}: the levels of a boolean column are false and true.")


def _check_edges(edges: Any, kind: str, where: str) -> None:
    if not isinstance(edges, list) or len(edges) < 2:
        raise BundleError(f"{where}: edges must list at least two numbers.")
    for edge in edges:
        if isinstance(edge, bool) or not isinstance(edge, int | float):
            raise BundleError(f"{where}: edges must be numbers.")
        if kind != "real" and not isinstance(edge, int):
            raise BundleError(f"{where}: edges of a column of kind {kind} must be whole numbers.")
        if kind == "integer" and abs(edge) > 1 << 62:
            raise BundleError(f"{where}: an edge lies beyond 2^62.")
        if kind == "real" and abs(edge) > 8e307:
            raise BundleError(f"{where}: an edge is too large.")
        if kind in CALENDAR and not FIRST[kind] <= edge <= LAST[kind] + 1:
            raise BundleError(f"{where}: an edge is not among {WORDS[kind]}.")
    if any(
        not a < b
        for a, b in itertools.pairwise(float(edge) if kind == "real" else edge for edge in edges)
    ):
        raise BundleError(f"{where}: edges must increase strictly.")


def text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value:
        raise BundleError(f"{where}: '{key}' must be a text that is not empty.")
    return value


def table(data: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise BundleError(f"{where}: '{key}' must be an object.")
    return value


def flag(data: Mapping[str, Any], key: str, where: str) -> bool:
    value = data.get(key)
    if not isinstance(value, bool):
        raise BundleError(f"{where}: '{key}' must be true or false.")
    return value


def whole(
    data: Mapping[str, Any], key: str, where: str, *, limit: int = 1 << 63, lowest: int = 0
) -> int:
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not lowest <= value <= limit:
        raise BundleError(f"{where}: '{key}' must be a whole number from {lowest} to {limit}.")
    return value


def texts(data: Mapping[str, Any], key: str, where: str) -> list[str]:
    """A list of texts, which may be left out."""
    value = data.get(key, [])
    if not isinstance(value, list | tuple) or not all(isinstance(line, str) for line in value):
        raise BundleError(f"{where}: '{key}' must be a list of texts.")
    return list(value)


def digest(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise BundleError(f"{where}: '{key}' must be a SHA-256 in 64 hexadecimal digits.")
    return value


def fraction(data: Mapping[str, Any], key: str, where: str) -> Fraction:
    """A positive exact number written as text, such as "2" or "4/3"."""
    value = data.get(key)
    if (
        not isinstance(value, str)
        or not _FRACTION.fullmatch(value)
        or Fraction(value.split("/")[-1]) == 0
    ):
        raise BundleError(
            f'{where}: \'{key}\' must be a fraction written as text, such as "2" or "4/3".'
        )
    number = Fraction(value)
    if not Fraction(1, 10**6) <= number <= 10**12:
        raise BundleError(f"{where}: '{key}' must lie between 1e-6 and 1e12.")
    return number
