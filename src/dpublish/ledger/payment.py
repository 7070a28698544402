"""Hold a release against the ledger that is said to have paid for it: the receipt, what was paid
for, and the sealed content.

A release comes from anybody. Whoever has a real one can write another manifest around its receipt,
with other hashes, counts and costs; all that vouches for it is here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpublish.errors import PublishError
from dpublish.ledger import chain
from dpublish.ledger.base import Entry, Ledger, OtherBudget, Sealed
from dpublish.privacy.cost import Cost

_WORDS = ("method", "dataset", "neighbours", "unit", "population")


def payment_problems(ledger: Ledger, manifest: Mapping[str, Any]) -> list[str]:
    """Whether the receipt in a manifest is a debit of this ledger, and the debit was for what the
    manifest says."""
    receipt = manifest["receipt"]
    key = receipt.get("key")
    debits = (entry for entry in ledger.history() if entry.kind == "debit")
    entry = next((debit for debit in debits if debit.key == key), None)
    if entry is None or receipt.get("head_hash") != entry.hash:
        return [
            f"The ledger holds no such payment (key '{str(key)[:80]}'): this release was not paid "
            f"from it."
        ]
    return [
        f"The release states {what}, but its payment was for {paid}: the manifest was altered."
        for what, paid in _differences(ledger.ledger_id, entry, manifest)
    ]


def seal_problems(
    sealed: Sealed | None, manifest_sha256: str, archive_sha256: Callable[[], str]
) -> list[str]:
    """Whether this content is the one that the ledger sealed, in whatever container it is.

    Seals of older versions know only the file: there the content must make that very file.
    """
    if sealed is None:
        return ["The ledger paid for this key but recorded no answer for it."]
    if sealed.manifest is None:
        if archive_sha256() == sealed.sha256:
            return []
        return [
            "The ledger recorded another answer for this key: this is not the file that was paid "
            "for, nor its content."
        ]
    if sealed.manifest != manifest_sha256:
        return [
            "The ledger recorded another answer for this key: this is not the content that was "
            "paid for."
        ]
    return []


def _differences(
    ledger_id: str, entry: Entry, manifest: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """What a manifest states beside what was paid, in words, wherever the two differ."""
    receipt, privacy = manifest["receipt"], manifest["privacy"]
    found = [
        (f"{name} = {str(receipt.get(name))[:80]}", f"{name} = {paid}")
        for name, paid in (("ledger_id", ledger_id), ("seq", entry.seq))
        if receipt.get(name) != paid
    ]
    if manifest["created"] != entry.created:
        found.append((f"that it was made at {str(manifest['created'])[:80]}", entry.created))
    for stated, paid in (
        (privacy["cost"], Cost.from_json(entry.detail["cost"])),
        (receipt.get("charged"), entry.charged),
    ):
        cost = _cost(stated)
        if cost != paid:
            found.append(("no cost" if cost is None else cost.describe(), paid.describe()))
    others = [OtherBudget.from_json(one) for one in entry.detail.get("shared_with", ())]
    if privacy.get("other_budgets", []) != [one.public_facts() for one in others]:
        found.append(("other budgets for the same people", "what the ledger names"))
    what = entry.detail["what"]
    stated_words = {
        **{name: manifest[name] for name in ("method", "dataset")},
        **{n: privacy.get(n) for n in ("neighbours", "unit", "population")},
    }
    found += [
        (f"{name} = '{str(stated_words[name])[:80]}'", f"'{what[name]}'")
        for name in _WORDS
        if name in what and stated_words[name] != what[name]
    ]
    if "parameters" in what and chain.plain(manifest["parameters"]) != what["parameters"]:
        found.append(("other settings", "those in the ledger's history"))
    if "seeded" in what and manifest["publishable"] is what["seeded"]:
        found.append(
            (
                f"publishable = {manifest['publishable']}",
                f"a release with {'fixed' if what['seeded'] else 'fresh'} noise",
            )
        )
    # under replace-one the request has the number of units in its digest, also where the schema
    # does not declare it
    if (
        what.get("neighbours") == "add-remove-one"
        and what.get("schema_digest", "") != manifest["schema_digest"]
    ):
        found.append(
            (
                f"schema {str(manifest['schema_digest'])[:12]}",
                f"schema {str(what.get('schema_digest'))[:12]}",
            )
        )
    return found


def _cost(value: Any) -> Cost | None:
    try:
        return Cost.from_json(value)
    except (PublishError, ValueError, TypeError, KeyError, AttributeError, ArithmeticError):
        return None
