"""Both kinds of ledger for the contract tests."""

from __future__ import annotations

from ledgers import folder, postgres, url

__all__ = ["folder", "postgres", "url"]
