"""`dpublish show`: what a release is, and what it promises."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpublish.cli.options import Json, ReleaseFile

if TYPE_CHECKING:
    from collections.abc import Mapping


def show(release: ReleaseFile, json: Json = False) -> None:
    """Show what a release holds, what it cost, what it promises and who signed it. With --json: the
    manifest and signatures."""
    from dpublish.cli import screen
    from dpublish.releases.base import open_release

    opened = open_release(release)
    manifest = opened.manifest
    if json:
        signatures = [one.facts() for one in opened.signatures]
        screen.write_json({**manifest, "signatures": signatures} if signatures else manifest)
        return
    signed = [("signed by", one.describe()) for one in opened.signatures] or [
        ("signed by", "nobody")
    ]
    screen.facts(
        [*_facts(manifest), *signed], title=f"{manifest['method']} of '{manifest['dataset']}'"
    )
    screen.say("")
    screen.say(opened.privacy, style=None if manifest["publishable"] else "bold red")
    if manifest.get("domain"):
        screen.grid(["column", "kind", "codes", "values"], _columns(manifest), right=(2,))
    for sentence in manifest["plan"]["sentences"]:
        screen.say(f"  {sentence}")


def _facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    from dpublish.privacy.cost import Cost

    lines = [
        ("kind", str(manifest["kind"])),
        ("made", str(manifest["created"])),
        ("cost", Cost.from_json(manifest["privacy"]["cost"]).describe()),
        ("protects", f"{manifest['privacy']['unit']} ({manifest['privacy']['neighbours']})"),
        (
            "publishable",
            "yes" if manifest["publishable"] else "NO: made with fixed noise, for tests",
        ),
    ]
    lines += [
        (f"table '{name}'", f"{facts['rows']:,} rows, {facts['bytes']:,} bytes")
        for name, facts in manifest["files"].items()
    ]
    total = manifest["facts"].get("total")
    if isinstance(total, dict) and total.get("value") is not None:
        lines.append(("total", f"{total['value']:,} rows ({total['kind']})"))
    receipt = manifest["receipt"]
    return [*lines, ("paid by", f"ledger {receipt['ledger_id']}, entry {receipt['seq']}")]


def _columns(manifest: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    from dpublish.declare.domain import Domain

    rows: list[tuple[str, str, str, str]] = []
    for axis in Domain.from_json(manifest["domain"]).axes:
        labels = axis.labels
        shown = ", ".join(labels[:4]) + (f", ... {labels[-1]}" if len(labels) > 4 else "")
        rows.append((axis.name, axis.kind, f"{axis.cardinality:,}", shown))
    return rows
