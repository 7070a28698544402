"""The gate: the only function that turns private rows into something publishable.

    plan (public facts) -> debit the ledger, durably -> read rows -> count -> mechanism(noise) ->
    seal -> return

The order is the promise. Everything that can be wrong about a request is found before the debit;
after the debit nothing about the rows leaves except through the mechanism, so a failure there is a
`PrivateSideError` with constant text.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from dpublish.catalogue import methods
from dpublish.curator.guard import guarded
from dpublish.curator.other_people import require_other_people
from dpublish.curator.seal import build_manifest, signed_since, usable_key
from dpublish.curator.store import (
    default_store,
    prepare_folders,
    require_ending,
    require_own,
    same_release,
)
from dpublish.declare.schema import Schema
from dpublish.errors import (
    BudgetError,
    BundleError,
    InputError,
    LedgerUnavailable,
    PlanError,
    PrivateSideError,
    PublishError,
    SchemaError,
)
from dpublish.ledger.base import Ledger, Receipt
from dpublish.ledger.crashpoints import reach
from dpublish.methods.base import Mechanism, Output
from dpublish.methods.field_types import Checked
from dpublish.noise.base import Noise
from dpublish.owned import temporary
from dpublish.privacy.cost import Budget, Cost, exact, positive
from dpublish.privacy.plan import Plan
from dpublish.releases.bundle.archive import (
    MANIFEST,
    file_digest,
    is_file_bundle,
    publish_file,
    write_container,
)
from dpublish.releases.bundle.signatures import SIGNATURES, write_signatures
from dpublish.releases.bundle.signing_key import SigningKey

if TYPE_CHECKING:
    from dpublish.curator.sessions.session import OnlineSession
    from dpublish.methods.online.base import OnlineMechanism
    from dpublish.releases.base import Release
    from dpublish.sources.sources import Source

Number = Fraction | float | int | str
Progress = Callable[[str], None]


def make_noise(seed: int | None) -> Noise:
    """The noise of a release: the system's randomness, or (tests and simulations only) a seeded
    stream."""
    from dpublish.noise.source import SeededNoise, SystemNoise

    return SystemNoise() if seed is None else SeededNoise(seed)


class Curator:
    """Owns the data and the budget; makes releases.

    Parameters
    ----------
    data : path, data frame, Arrow table or `SqlSource`; not read before a release is paid for.
    schema : a `Schema` or the path of one.
    ledger : URL or path of the ledger that is debited, or an open `Ledger`.
    budget : makes the ledger with this cap when there is none (`news` says so); an existing one
        must agree with it.
    second_budget : lets the ledger pay for people that another ledger pays for; recorded for life.
    store : folder that keeps every sealed release, so that the same key gives the same bytes again.
    signing_key : a `SigningKey`, or the path of one without a passphrase. What is made is signed
        with it; what a key bought before is handed out as it is, signed or not: see
        `release.signatures`.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> from dpublish import Histogram
    >>> schema = Schema.from_toml('''
    ... [dataset]
    ... name = "visits"
    ... unit = "row"
    ... size = 1000
    ... [columns.ill]
    ... kind = "boolean"
    ... ''')
    >>> rows = pl.DataFrame({"ill": [True, False] * 500})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = f"sqlite:///{folder}/visits.ledger"
    ...     curator = Curator(rows, schema, ledger=ledger, budget=Budget(epsilon=3))
    ...     curator.plan(Histogram(), epsilon=1).sentences[0]
    'Counts over ill: 3 cells.'
    """

    def __init__(
        self,
        data: object,
        schema: Schema | str | Path,
        *,
        ledger: str | Path | Ledger,
        budget: Budget | None = None,
        second_budget: bool = False,
        store: str | Path | None = None,
        signing_key: SigningKey | str | os.PathLike[str] | None = None,
    ) -> None:
        self._data = data
        # read, unlocked and tried here, so that nothing is paid for what cannot be signed
        self._signing_key = None if signing_key is None else usable_key(signing_key)
        self.schema = schema if isinstance(schema, Schema) else Schema.read(schema)
        if isinstance(ledger, Ledger):
            self.ledger = ledger
            if second_budget:
                ledger.allow_second_budget()
        else:
            from dpublish.ledger import open_ledger

            self.ledger = open_ledger(
                ledger, budget=budget, create=budget is not None, second_budget=second_budget
            )
        self.news = self.ledger.news
        self._store = Path(store) if store is not None else default_store(ledger)

    def plan(
        self,
        mechanism: Mechanism | OnlineMechanism,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
    ) -> Plan:
        """What a release would cost and show. Reads no row (under replace-one, it may count units:
        their number is public)."""
        from dpublish.counting.compute import place_of

        if not isinstance(mechanism, Checked):
            _require_release(mechanism)
        require_other_people(mechanism, self._data)
        source = self._open_source()
        plan = mechanism.plan(self._sized_schema(source), as_cost(epsilon, delta, rho))
        place = place_of(mechanism.statistic(plan), source, plan.schema)
        return replace(
            plan,
            sentences=(*plan.sentences, *([] if place is None else [place])),
            warnings=(*plan.warnings, *source.shown()),
        )

    def publish(
        self,
        mechanism: Mechanism,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        rho: Number | None = None,
        key: str | None = None,
        out: str | Path | None = None,
        overwrite: bool = False,
        again: bool = False,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> Release:
        """Make one release and return it.

        `key` makes the call idempotent: the same key with the same request returns the same bytes
        and is paid once. What stands at `out` is left alone, and nothing is spent, unless it is the
        release of this very key or `overwrite` is true. A run that ended before it drew noise goes
        on with its key, unpaid. The same request under another key is refused, with the key that
        has its answer, unless it is to be paid `again`. `seed` is for tests and simulations: such a
        release is marked as not publishable, and may be made as often as you like.
        """
        _require_release(mechanism)
        require_other_people(mechanism, self._data)
        say = progress or (lambda step: None)
        cost = as_cost(epsilon, delta, rho)
        self.schema.require_final()
        say("planning")
        source = self._open_source()
        with source.pinned():  # the rows that are counted are those that were there now
            return self._publish(
                source,
                mechanism,
                cost,
                key,
                out,
                overwrite=overwrite,
                again=again,
                seed=seed,
                say=say,
            )

    def _publish(
        self,
        source: Source,
        mechanism: Mechanism,
        cost: Cost,
        key: str | None,
        out: str | Path | None,
        *,
        overwrite: bool,
        again: bool,
        seed: int | None,
        say: Progress,
    ) -> Release:
        from dpublish.curator.expressible import require_expressible, require_readable
        from dpublish.curator.warm import warm

        schema = self._sized_schema(source)
        plan = mechanism.plan(schema, cost)
        statistic = mechanism.statistic(plan)
        named = plan.domain.names if plan.domain else getattr(statistic, "columns", ())
        source.require([*unit_columns(schema), *named], schema_name=schema.name)
        require_expressible(statistic, source, schema)
        require_readable(statistic, source, schema, plan.domain)
        require_ending(out)
        key = key if key is not None else secrets.token_hex(16)
        target = self._store / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.dpr"
        prepare_folders(self._store, out)
        require_own(self.ledger, key, target)
        self._require_free(out, key, target, overwrite)

        what, again = request_of(plan, seed), again or seed is not None
        self.ledger.require_payable(key, plan.cost, what, again=again)
        noise = make_noise(seed)  # loads what compiles: a refusal came without
        if seed is None and self.ledger.answer(key) is None:
            warm(mechanism, plan, source, say=say)  # a run that dies of it has cost nothing
        rows_key = noise.key(label="rows of a unit")

        say("debiting the ledger")
        receipt = self.ledger.debit(key, plan.cost, what, rows_key=rows_key, again=again)
        if not receipt.fresh and self._recovered(receipt, target):
            return self._deliver(target, out, overwrite)
        if not receipt.fresh:
            self.ledger.run_again(key)
        with telling(receipt) as run:
            reach("gate:debited")
            say("reading rows")
            content = run_private(mechanism, plan, source, noise, self.ledger, receipt, run, say)
            reach("gate:ran")
            if content is not None:
                say("sealing")
                self._seal(plan, receipt, content, noise, target)
        if content is None and not self._recovered(receipt, target):
            raise BudgetError(
                f"Another run of key '{key}' draws the noise of its answer at this moment, or was "
                "stopped while it did. Ask again with the same key."
            )
        return self._deliver(target, out, overwrite)

    def answer_online(
        self,
        mechanism: OnlineMechanism,
        *,
        epsilon: Number | None = None,
        key: str | None = None,
        folder: str | Path | None = None,
        again: bool = False,
        seed: int | None = None,
        progress: Progress | None = None,
    ) -> OnlineSession:
        """Open a session that answers queries one at a time; the whole of it is paid for now.

        With a `key` that was used before, the same session is found again and goes on where it
        stopped. It lives in `folder`, by default in the store beside the ledger.
        """
        from dpublish.curator.sessions.session import open_session

        return open_session(
            self,
            mechanism,
            epsilon=epsilon,
            key=key,
            folder=folder,
            again=again,
            seed=seed,
            progress=progress,
        )

    def _open_source(self) -> Source:
        from dpublish.sources.sources import open_source

        return open_source(self._data, self.schema)

    def _sized_schema(self, source: Source) -> Schema:
        """Under replace-one the number of units is public: take it from the data, or hold the
        declared one against it."""
        schema = self.schema
        if schema.neighbours != "replace-one":
            return schema
        source.require(unit_columns(schema), schema_name=schema.name)
        try:
            size: int | None = guarded(lambda: source.count_units(schema.unit.column))
        except PrivateSideError:
            size = None  # said below, outside the handler
        if size is None:
            # before the debit, so rows may not speak here either: a driver's words quote the cell
            # that it stumbled over
            raise InputError(
                "The units could not be counted: the data is damaged, or the query or frame "
                "behind it fails. Nothing was spent."
            )
        if size == 0:
            raise InputError(
                "The data has no rows. Under replace-one the number of rows is public, so this "
                "can be said."
            )
        if schema.size is not None and schema.size != size:
            raise SchemaError(
                f"Schema '{schema.name}' declares size = {schema.size}, but the data has {size} "
                f"units. "
                "Under replace-one this number is public: correct it, or leave size out."
            )
        return schema.with_size(size)

    def _seal(
        self, plan: Plan, receipt: Receipt, content: Output, noise: Noise, target: Path
    ) -> None:
        from dpublish.releases.bundle.bundle import pack_bundle
        from dpublish.releases.frames import frame_of

        tables = {name: frame_of(columns) for name, columns in content.tables.items()}
        manifest = build_manifest(plan, receipt, content, publishable=noise.publishable)
        try:
            members = pack_bundle(manifest, tables)
            if self._signing_key is not None:
                members[SIGNATURES] = write_signatures([self._signing_key.sign(members[MANIFEST])])
            digest = write_container(target, members, overwrite=False, owned=True)
        except BundleError as error:
            raise PublishError(f"{error} The budget is spent; nothing was published.") from None
        reach("gate:written")
        self._record(receipt, target, digest, hashlib.sha256(members[MANIFEST]).hexdigest())

    def _record(self, receipt: Receipt, target: Path, digest: str, manifest: str) -> None:
        self.ledger.seal(
            receipt.key,
            sha256=digest,
            size=target.stat().st_size,
            location=target.name,
            manifest=manifest,
        )

    def _recovered(self, receipt: Receipt, target: Path) -> bool:
        """Whether the answer that the key bought before is here. One that is sealed and not here is
        lost: it is never made again."""
        from dpublish.ledger.payment import payment_problems
        from dpublish.releases.bundle.bundle import read_bundle

        sealed = self.ledger.answer(receipt.key)
        if target.exists():
            digest = file_digest(target)
            if sealed is not None and (sealed.sha256 == digest or signed_since(target, sealed)):
                return True
            if sealed is None:
                bundle = read_bundle(target)
                if not payment_problems(self.ledger, bundle.manifest):
                    # written before a crash but not yet recorded: it is the one answer that this
                    # debit bought
                    self._record(receipt, target, digest, bundle.manifest_sha256)
                    return True
        if sealed is None:
            return False
        raise BudgetError(
            f"Key '{receipt.key}' was paid for on {receipt.created}, but its answer is not in "
            f"'{target.parent}': it was lost. It is not made again, because that would be a second "
            "answer for one payment. Put the file back, or use a new key to pay for a new release."
        )

    def _require_free(
        self, out: str | Path | None, key: str, target: Path, overwrite: bool
    ) -> None:
        """Refuse, before the debit, to write over anything but the release of this very key: it may
        have been paid for."""
        if out is None or not os.path.lexists(out):
            return
        out = Path(out)
        replaceable = is_file_bundle(out) and not out.is_dir()
        if replaceable and overwrite:
            return
        if self.ledger.answer(key) is not None and same_release(out, target):
            return
        hint = "Give another name, or ask for it with --overwrite (in Python: overwrite=True)."
        raise InputError(
            f"'{out}' exists already and is not the release of this key. "
            f"{hint if replaceable else 'Give another name.'} "
            "Nothing was spent."
        )

    def _deliver(self, target: Path, out: str | Path | None, overwrite: bool) -> Release:
        from dpublish.releases.base import open_release
        from dpublish.releases.bundle.bundle import copy_bundle, read_bundle

        if out is None:
            return open_release(target)
        out = Path(out)
        if not same_release(out, target):
            if is_file_bundle(out):
                try:
                    with temporary(out, owned=False) as partial:
                        shutil.copyfile(target, partial)
                        publish_file(partial, out, overwrite)
                except FileExistsError:
                    raise PublishError(
                        f"A file named '{out}' appeared meanwhile and was left alone. The paid "
                        f"release is in '{target}'."
                    ) from None
                except OSError as error:
                    raise PublishError(
                        f"'{out}' could not be written ({os.strerror(error.errno or 0)}). The "
                        f"paid release is in '{target}'."
                    ) from None
            else:
                copy_bundle(read_bundle(target), out)
        return open_release(out)


class Run:
    """How far a paid run got."""

    drew = False


@contextmanager
def telling(receipt: Receipt) -> Iterator[Run]:
    """Who stops a run with Ctrl-C or a signal hears what is lost and what is not."""
    run = Run()
    try:
        yield run
    except (KeyboardInterrupt, SystemExit) as stop:
        paid = f"Stopped. {receipt.charged.describe()} is paid, and stays paid. "
        if run.drew:
            stop.add_note(
                f"{paid}Noise was drawn: unless '--key {receipt.key}' finds the answer, it is lost."
            )
        else:
            stop.add_note(
                f"{paid}Nothing is lost: the same request with "
                f"'--key {receipt.key}' goes on, unpaid."
            )
        raise


def run_private(
    mechanism: Mechanism,
    plan: Plan,
    source: Source,
    noise: Noise,
    ledger: Ledger,
    receipt: Receipt,
    run: Run,
    say: Progress,
) -> Output | None:
    """Read, bound, count, say in the ledger that noise is drawn, and draw; None where another run
    of this key has said so. Whatever else goes wrong in here comes out as one constant text, and
    closes the key."""
    from dpublish.counting.compute import compute

    def action() -> Output | None:
        assert receipt.rows_key is not None
        numbers = compute(
            mechanism.statistic(plan), source, plan.schema, key=receipt.rows_key, progress=None
        )
        require_unchanged(source)
        reach("gate:counted")
        # said first: a run that is interrupted while the entry is written may have written it
        run.drew = True
        if not ledger.drawing(receipt.key):
            run.drew = False
            return None
        reach("gate:drawing")
        say("adding noise")
        content = mechanism.run(noise, numbers, plan)
        require_unchanged(source)
        return content

    try:
        return guarded(action, foreseen=(LedgerUnavailable,))
    except PrivateSideError:
        with suppress(LedgerUnavailable):
            ledger.failed(receipt.key)
        raise


def require_unchanged(source: Source) -> None:
    """End, inside the guard, a run whose passes did not read the same rows."""
    if source.changed():
        raise OSError("the rows were changed while they were counted")


def request_of(plan: Plan, seed: int | None) -> Mapping[str, object]:
    """What the ledger remembers of a request. Public facts only; the same key must come with the
    same request."""
    return {
        "method": plan.method,
        "dataset": plan.schema.name,
        "schema_digest": plan.schema.sized_digest,
        "neighbours": plan.schema.neighbours,
        "unit": plan.schema.unit.describe(),
        "unit_column": plan.schema.unit.column,
        "parameters": dict(plan.parameters),
        "seeded": seed is not None,
        **({"population": plan.schema.population} if plan.schema.population is not None else {}),
    }


def _require_release(mechanism: object) -> None:
    """Refuse, before anything is paid, what does not make a release."""
    if isinstance(mechanism, Mechanism):
        return
    if getattr(mechanism, "method", None) in methods("online"):
        raise PlanError(
            f"{type(mechanism).__name__} answers one question at a time: open a session with "
            "curator.answer_online(...). Nothing was spent."
        )
    raise PlanError(
        f"A release is made by a method, such as dpublish.Histogram(), not by "
        f"{type(mechanism).__name__}. Nothing was spent."
    )


def as_cost(epsilon: Number | None, delta: Number | None, rho: Number | None) -> Cost:
    """The cost a caller asked for, exactly. Refuses what is not a positive finite number, naming
    it."""
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise PlanError(
                "Give epsilon (and delta), or rho, not both: rho stands for one epsilon at every "
                "delta."
            )
        return Cost.zcdp(positive(rho, "rho"))
    if epsilon is None:
        raise PlanError(
            "Give epsilon = ..., the privacy cost of the release (on the command line: --epsilon)."
        )
    if delta is None or exact(delta, "delta") == 0:
        return Cost.pure(positive(epsilon, "epsilon"))
    share = positive(delta, "delta")
    if share >= 1:
        raise PlanError(f"delta must be below 1, not {delta}.")
    return Cost.approximate(positive(epsilon, "epsilon"), share)


def unit_columns(schema: Schema) -> list[str]:
    return [schema.unit.column] if schema.unit.column is not None else []
