"""Every exception that dpublish raises on purpose.

    PublishError
      InputError            a schema, plan or query is wrong        shown in full
        SchemaError
        PlanError
        QueryError
      BudgetError           costs do not depend on rows             shown in full
        BudgetExceeded
        LedgerUnavailable   always refuses, never answers
      BundleError           corrupt, altered or newer bundle        shown in full
      PrivateSideError      anything after rows were read           constant text + incident id

Messages say what was wrong, what was given and what to do, from public facts only. No message or
attribute may carry a value, a count or a row of the private data: that is why `PrivateSideError`
takes no text at all.
"""

from __future__ import annotations

import difflib
import secrets
from collections.abc import Collection, Iterable


class PublishError(Exception):
    """Root of the tree; `exit_code` is what the command line returns for it.

    >>> PublishError.exit_code
    1
    """

    exit_code = 1


class InputError(PublishError):
    """Something the user wrote is wrong. Nothing was spent.

    >>> InputError.exit_code
    2
    """

    exit_code = 2


class SchemaError(InputError):
    """The schema is wrong or incomplete.

    >>> issubclass(SchemaError, InputError)
    True
    """


class PlanError(InputError):
    """The release as asked for cannot be made.

    >>> issubclass(PlanError, InputError)
    True
    """


class QueryError(InputError):
    """A predicate or SQL text does not parse or names something that is not in the release.

    >>> issubclass(QueryError, InputError)
    True
    """


class BudgetError(PublishError):
    """The ledger said no, or could not be asked.

    >>> BudgetError.exit_code
    3
    """

    exit_code = 3


class BudgetExceeded(BudgetError):
    """The debit would exceed the cap. Nothing was spent.

    >>> issubclass(BudgetExceeded, BudgetError)
    True
    """


class LedgerUnavailable(BudgetError):
    """The ledger cannot be read, trusted or written: refuse, never answer.

    >>> LedgerUnavailable.exit_code
    4
    """

    exit_code = 4


class BundleError(PublishError):
    """A release file is corrupt, altered, hostile or from a newer format.

    >>> BundleError.exit_code
    5
    """

    exit_code = 5


class PrivateSideError(PublishError):
    """Something failed after rows were read. The text is constant on purpose.

    The incident id lets a curator match the message with a report they make themselves; the
    original exception is never chained, because its text or traceback could quote a row.

    >>> PrivateSideError.exit_code
    6
    """

    exit_code = 6

    def __init__(self, incident: str | None = None) -> None:
        self.incident = incident or secrets.token_hex(4)
        super().__init__(
            "The release failed after private rows were read, so the reason cannot be shown. "
            f"The budget stays spent and nothing was published. Incident {self.incident}."
        )


def error_named(name: str, message: str) -> PublishError:
    """The error that another process, or a server, has said by name and words."""
    found = {one.__name__: one for one in _tree(PublishError)}.get(name, PublishError)
    made = PrivateSideError() if found is PrivateSideError else found(message)
    made.args = (message,)
    return made


def _tree(root: type[PublishError]) -> list[type[PublishError]]:
    return [root, *(one for below in root.__subclasses__() for one in _tree(below))]


def refuse(error: type[InputError], *checks: tuple[object, str]) -> None:
    """Say what is wrong: the words of the first check that is true. For checks that can all be made
    whatever the others say."""
    for wrong, words in checks:
        if wrong:
            raise error(words)


def refuse_unknown_keys(given: Iterable[str], known: Collection[str], where: str) -> None:
    """Refuse a table that has a key of no meaning, with the nearest known one."""
    for key in given:
        if key not in known:
            raise SchemaError(
                f"{where}: unknown key '{key}'.{did_you_mean(key, known)} Keys: "
                f"{', '.join(sorted(known))}."
            )


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint such as " Did you mean 'age'?", or the empty string when nothing is close."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{close[0]}'?" if close else ""
