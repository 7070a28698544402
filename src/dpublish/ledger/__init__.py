"""The ledger: a budget that cannot be overspent, survives crashes and notices when an old copy is
put back."""

from __future__ import annotations

from pathlib import Path

from dpublish.errors import InputError
from dpublish.ledger.base import Actor, Entry, Ledger, Protects, Receipt, Sealed, Status
from dpublish.privacy.cost import Budget

__all__ = [
    "Actor",
    "Entry",
    "Ledger",
    "Protects",
    "Receipt",
    "Sealed",
    "Status",
    "merge_ledgers",
    "open_ledger",
    "recover_ledger",
    "remove_witness",
]


def open_ledger(
    url: str | Path,
    *,
    budget: Budget | None = None,
    name: str = "default",
    create: bool = False,
    patience: float = 30.0,
    verify: bool = True,
    witness: str | Path | None = None,
    head: str | None = None,
    second_budget: bool = False,
    actor: Actor | None = None,
) -> Ledger:
    """Open the ledger `name` at `url`, or make it.

    Parameters
    ----------
    url
        `sqlite:///adult.ledger`, a path, or `postgresql+psycopg://user@host/database`.
    budget
        The budget for life. Needed to make a ledger; when given for an existing one it must be the
        same.
    name
        Which budget of the database. Case and surrounding blanks do not count.
    create
        Make the ledger when there is none; `news` of the ledger and a line in the log of
        `dpublish.ledger` say so. Without it a mistyped path is an error and not a second budget.
    patience
        Seconds to wait for locks and lost connections before giving up.
    verify
        Recompute the whole hash chain first. Without it only the head, the balance and the anchor
        are checked.
    witness
        A folder, or the address of a database, that keeps a further anchor from now on. The ledger
        remembers it.
    head
        A head line (`Status.head_line`). The ledger must contain its entry; then it also stands in
        for an anchor that is lost.
    second_budget
        Let this ledger pay for people that another ledger pays for. Without it the first debit for
        such people is refused. Recorded in the ledger for life.
    actor
        Who is named in the entries that are made; by default whoever this process runs for.

    Examples
    --------
    >>> import tempfile
    >>> from dpublish import Budget
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     url = f"sqlite:///{folder}/visits.ledger"
    ...     ledger = open_ledger(url, budget=Budget(epsilon=3), create=True)
    >>> ledger.name
    'default'
    """
    from dpublish.ledger.opening import open_database_ledger

    if budget is not None and not isinstance(budget, Budget):
        raise InputError(
            f"budget must be a Budget, for example dp.Budget(epsilon=1), not "
            f"{type(budget).__name__}."
        )
    return open_database_ledger(
        url,
        budget=budget,
        name=name,
        create=create,
        patience=patience,
        verify=verify,
        witness=witness,
        head=head,
        second_budget=second_budget,
        actor=actor,
    )


def recover_ledger(
    url: str | Path,
    *,
    name: str = "default",
    patience: float = 30.0,
    actor: Actor | None = None,
) -> Status:
    """Go on with another copy when the newest one is lost.

    Everything this machine's anchor has seen since the copy parted from it is written off, so no
    budget comes back; also when the copy was used elsewhere meanwhile. Where the parting is not
    known exactly, more is written off, never less. Keys of lost debits are forgotten: asking again
    with one of them pays again. A ledger that has all its anchor has seen is left as it is.
    """
    from dpublish.ledger.opening import recover

    return recover(url, name=name, patience=patience, actor=actor)


def remove_witness(
    url: str | Path,
    place: str | Path,
    *,
    name: str = "default",
    patience: float = 30.0,
    head: str | None = None,
    actor: Actor | None = None,
) -> Status:
    """Go on without a witness that is no longer wanted, or is lost. All that can be heard must
    agree with the ledger.

    Where the anchor of this machine is lost too, a `head` line that the ledger contains stands in
    for it.
    """
    from dpublish.ledger.opening import remove_witness as remove

    return remove(url, place, name=name, patience=patience, head=head, actor=actor)


def merge_ledgers(
    url: str | Path,
    *,
    name: str = "default",
    patience: float = 30.0,
    actor: Actor | None = None,
) -> Status:
    """Make one budget of several whose names differ in case and blanks only, from before such names
    were one.

    The one with the smallest cap is kept and charged with what the others spent; the others are
    used up. Keys of the others are forgotten: asking again with one of them pays again.
    """
    from dpublish.ledger.opening import merge

    return merge(url, name=name, patience=patience, actor=actor)
