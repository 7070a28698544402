"""Public tables that a method is given must be of other people than the private rows.

Methods publish what they like of a public table: weighted public rows are in the release as they
are. So the file of the private rows, and every file that a release was paid for, is refused as one,
before anything is read of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dpublish.errors import InputError
from dpublish.ledger.state import is_remembered
from dpublish.models.public_rows import UNIFORM
from dpublish.outputs import same_file

PUBLIC_SETTINGS: Final = ("public", "alternatives", "public_data")
"""Settings of methods that name public tables."""


def require_other_people(mechanism: object, data: object = None) -> None:
    """Refuse private rows as a public table: those that are to be released, and files that a ledger
    on this machine has paid for. Names are looked at, nothing is opened. Releases are public."""
    for name in PUBLIC_SETTINGS:
        given = getattr(mechanism, name, None)
        for table in given if isinstance(given, list | tuple) else [given]:
            if not isinstance(table, str | Path):
                if table is not None and table is data:
                    raise InputError(
                        f"{name} is the table that is to be released. A public table holds other "
                        "people, and whoever is in it is not protected. Nothing was spent."
                    )
            elif table == UNIFORM or str(table).endswith(".dpr"):
                continue
            elif isinstance(data, str | Path) and same_file(table, data):
                raise InputError(
                    f"{name} = '{table}' is the file that is to be released. A public table holds "
                    "other people, and whoever is in it is not protected. Nothing was spent."
                )
            elif is_remembered(table):
                raise InputError(
                    f"{name} = '{table}' is private: a ledger on this machine has paid for "
                    "releases of it. A public table holds other people, and whoever is in it is "
                    "not protected."
                )
