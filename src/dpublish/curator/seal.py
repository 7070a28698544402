"""What a release says of itself, and what it is signed with."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from dpublish.errors import InputError, PublishError
from dpublish.ledger.base import Receipt, Sealed
from dpublish.methods.base import Output
from dpublish.outputs import as_path
from dpublish.privacy.plan import Plan
from dpublish.privacy.statement import privacy_statement
from dpublish.releases.bundle.signatures import read_signatures, write_signatures
from dpublish.releases.bundle.signing_key import SigningKey


def build_manifest(
    plan: Plan, receipt: Receipt, content: Output, *, publishable: bool
) -> dict[str, Any]:
    from dpublish.releases.bundle.manifest import FORMAT, FORMAT_VERSION

    schema = plan.schema
    domain = content.domain or plan.domain
    others = [other.public_facts() for other in receipt.other_budgets]
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": plan.kind,
        "method": plan.method,
        "dataset": schema.name,
        "publishable": publishable,
        # the moment of the debit: a later clock reading would tell how long the private part took
        "created": receipt.created,
        "parameters": dict(plan.parameters),
        "privacy": {
            "cost": plan.cost.to_json(),
            "neighbours": schema.neighbours,
            "unit": schema.unit.describe(),
            "max_rows_per_unit": schema.unit.max_rows,
            # public under replace-one, where the schema's digest need not hold it
            "size": schema.size,
            "sensitivity": plan.facts.get("sensitivity"),
            "statement": privacy_statement(
                plan,
                publishable=publishable,
                other_budgets=[other.describe() for other in receipt.other_budgets],
            ),
            **({"population": schema.population} if schema.population is not None else {}),
            **({"other_budgets": others} if others else {}),
        },
        **({"domain": domain.to_json()} if domain is not None else {}),
        # what they forbid was left out before anything was counted
        **({"rules": [one.to_manifest() for one in schema.rules]} if schema.rules else {}),
        "target": content.facts.get("target", schema.target),
        "schema_digest": schema.digest,
        **({"about": dict(schema.about)} if schema.about else {}),
        "facts": dict(content.facts),
        "plan": {
            "facts": dict(plan.facts),
            "sentences": list(plan.sentences),
            "warnings": list(plan.warnings),
        },
        "receipt": {
            "ledger_id": receipt.ledger_id,
            "seq": receipt.seq,
            "key": receipt.key,
            "head_hash": receipt.head_hash,
            "charged": receipt.charged.to_json(),
            **receipt.account(),
        },
        "versions": dict(software_versions()),
    }


@cache
def software_versions() -> Mapping[str, str]:
    from importlib.metadata import version

    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("dpublish", "numpy", "numba", "polars")},
    }


def usable_key(given: SigningKey | str | os.PathLike[str]) -> SigningKey:
    """The key that was given, or that is in the file that was named, after it has signed something
    that reads back."""
    if not isinstance(given, SigningKey | str | os.PathLike):
        raise InputError(
            f"signing_key is a SigningKey or the path of one, not {type(given).__name__}. Read "
            f"one with SigningKey.read(path)."
        )
    key = given if isinstance(given, SigningKey) else SigningKey.read(as_path(given))
    trial = b"{}"
    try:
        works = bool(read_signatures(write_signatures([key.sign(trial)]), trial))
    except (
        Exception
    ):  # a key put together by hand fails in ways of its own; no row has been read yet
        works = False
    if not works:
        raise InputError(
            "This signing key makes no valid signature. Read one with SigningKey.read(path), or "
            "make a new one."
        )
    return key


def signed_since(target: Path, sealed: Sealed) -> bool:
    """Whether a stored release is what the ledger sealed but for signatures: every part, and not a
    byte besides."""
    from dpublish.ledger.payment import seal_problems
    from dpublish.releases.bundle.bundle import read_bundle, verify_bundle

    try:
        bundle = read_bundle(target)
        if not bundle.signatures or bundle.padded or not verify_bundle(target).ok:
            return False
        return not seal_problems(
            sealed, bundle.manifest_sha256, lambda: bundle.archive_sha256(signed=False)
        )
    except (OSError, PublishError):
        return False
