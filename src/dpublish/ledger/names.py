"""Names of budgets as people mean them: 'Default', 'default ' and 'DEFAULT' are one."""

from __future__ import annotations

import unicodedata

from dpublish.errors import LedgerUnavailable, PlanError

_LONGEST = 200


def folded(name: str) -> str:
    """What two spellings of one name share: no case, no blanks around it, one form of each
    character (NFKC)."""
    plain = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", plain).split())


def checked_name(name: str) -> str:
    """The name as given, if it is one."""
    if (
        not isinstance(name, str)
        or len(name) > _LONGEST
        or not name.isprintable()
        or not 1 <= len(folded(name)) <= _LONGEST
    ):
        raise PlanError(
            f"A ledger's name is 1 to {_LONGEST} printable characters, not all blank; "
            f"{name!r:.60} was given."
        )
    return name


def spelled_alike(name: str, spellings: list[str], where: str) -> LedgerUnavailable:
    """Names that were different before names were folded."""
    shown = ", ".join(repr(spelling) for spelling in sorted(spellings))
    return LedgerUnavailable(
        f"The ledger at {where} holds several budgets whose names are one and the same now, when "
        f"case and blanks are left "
        f"aside: {shown}. '{name}' could be any of them, and nothing is paid from any of them. "
        f"'dpublish ledger status LEDGER "
        "--name' with the exact spelling shows one; 'dpublish ledger merge LEDGER --name NAME' "
        "makes one of them, with the sum "
        "of what was spent and the smallest cap."
    )
