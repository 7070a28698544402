"""What every release is to an analyst, and the registry of kinds."""

from __future__ import annotations

import abc
import importlib
import importlib.util
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpublish.catalogue import RELEASES
from dpublish.errors import BundleError, QueryError, did_you_mean
from dpublish.estimate import notebook_table
from dpublish.privacy.statement import correction
from dpublish.releases.bundle.bundle import Verification, read_bundle, verify_bundle, write_bundle
from dpublish.releases.bundle.manifest import check_manifest, read_cost
from dpublish.releases.bundle.signatures import Signature

if TYPE_CHECKING:
    import polars as pl

    from dpublish.present.report import Report

CALLS = (
    *("estimate", "mean", "marginal", "sql", "to_frame"),
    *("sample", "fit", "predict", "plot", "report", "page"),
)
"""What an analyst may ask of a release. Every kind has some of them; docs/python-api.md says
which."""

AGGREGATES = (
    *("sum", "share", "ratio", "median", "quantile", "difference"),
    *("bootstrap", "regress", "independence"),
)
"""What goes with a mean."""

_CLASSES: dict[str, type[Release]] = {}


class NotOffered(QueryError, AttributeError):
    """A call that this kind of release does not have. An `AttributeError` too, so that `hasattr`
    says no."""


class Release(abc.ABC):
    """A published result: public, immutable, self-describing. Nothing you do with it can cost any
    privacy.

    >>> from dpublish.releases.histogram.release import HistogramRelease
    >>> HistogramRelease.offers()[:3]
    ('estimate', 'mean', 'marginal')
    """

    kind: ClassVar[str]
    own: ClassVar[tuple[str, ...]] = ()
    """Calls of this kind alone, for readers who look for another one in vain."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" in cls.__dict__:
            _CLASSES[cls.kind] = cls

    def __init__(
        self,
        manifest: Mapping[str, Any],
        tables: Mapping[str, pl.DataFrame],
        *,
        path: Path | None = None,
    ) -> None:
        self.manifest = manifest
        self.tables = dict(tables)
        self.path = path
        self.signatures: tuple[Signature, ...] = ()
        """Who signed the file that this was opened from; every one was checked."""
        self.parse()

    @abc.abstractmethod
    def parse(self) -> None:
        """Read facts and tables into typed attributes, once. Raises `BundleError` unless they are
        those of this kind and fit each other: nothing in a bundle is believed before it is
        read."""

    def sections(self) -> Report:
        """What the report about this release says that is particular to it, as data: what the
        module `report` beside a kind's class makes of it."""
        room = type(self).__module__.rpartition(".")[0]
        if room and importlib.util.find_spec(f"{room}.report") is not None:
            made: Report = importlib.import_module(f"{room}.report").sections(self)
            return made
        from dpublish.present.report import Report, how_it_was_made

        return Report(
            lead=f"This is a release of kind {self.kind}, made by the method "
            f"{self.manifest['method']}.",
            tiles=(),
            sections=[how_it_was_made(self)],
            limits=(),
        )

    @classmethod
    def open(cls, path: str | Path) -> Self:
        release = open_release(path)
        if not isinstance(release, cls):
            raise BundleError(
                f"'{path}' holds a release of kind '{release.kind}', not '{cls.kind}'."
            )
        return release

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a pickle holds: all but what was worked out on the way, which can be
        worked out again."""
        derived = {
            name
            for cls in type(self).__mro__
            for name, value in vars(cls).items()
            if isinstance(value, cached_property)
        }
        return {name: value for name, value in vars(self).items() if name not in derived}

    @classmethod
    def offers(cls) -> tuple[str, ...]:
        """Which of the common calls this kind has."""
        return tuple(name for name in CALLS if hasattr(cls, name))

    if not TYPE_CHECKING:  # a type checker should go on finding misspelt names

        def __getattr__(self, name: str) -> Any:
            if name not in (*CALLS, *AGGREGATES):
                raise AttributeError(
                    f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self
                )
            raise NotOffered(
                f"A release of kind '{self.kind}' does not offer {name}. It offers "
                f"{', '.join((*self.offers(), *self.own))}."
            )

    @property
    def privacy(self) -> str:
        """The guarantee, in words. A statement of an earlier version that misread delta is followed
        by its correction."""
        facts = self.manifest["privacy"]
        said = str(facts["statement"])
        corrected = correction(said, read_cost(facts), str(facts["neighbours"]))
        return f"{said} {corrected}" if corrected else said

    @property
    def max_rows(self) -> float:
        """A number of rows that no count exceeds: the public one under replace-one, otherwise none
        (infinity)."""
        facts = self.manifest["privacy"]
        size, each = facts.get("size"), facts.get("max_rows_per_unit", 1)
        whole = all(
            isinstance(number, int) and not isinstance(number, bool) and 0 < number <= 1 << 52
            for number in (size, each)
        )
        return (
            float(size * each) if whole and facts.get("neighbours") == "replace-one" else math.inf
        )

    @property
    def public_total(self) -> int | None:
        """The number of rows that were counted, where public facts tell it: it is declared, a unit
        is a row, and neither a rule nor what a column declares leaves a row out."""
        facts, axes = self.manifest["privacy"], self.manifest.get("domain", ())
        if self.manifest.get("rules"):  # rows that break one were left out
            return None
        rows = facts.get("unit") == "one row" and facts.get("max_rows_per_unit") == 1
        kept = all(
            axis.get("other") or (axis.get("missing") and axis.get("outside") == "clip")
            for axis in axes
        )
        return int(self.max_rows) if rows and kept and axes and self.max_rows < math.inf else None

    @property
    def file_name(self) -> str:
        """The name of the file that it was opened from, or a usual one."""
        return self.path.name if self.path is not None else "release.dpr"

    @property
    def publishable(self) -> bool:
        """False for a release made with a fixed seed: it is for tests and must not be given out."""
        return bool(self.manifest["publishable"])

    def save(self, path: str | Path, *, overwrite: bool = False) -> str:
        """Write the release; returns the SHA-256 to quote. See `write_bundle`. Signatures of this
        very content go with it."""
        digest = write_bundle(
            path, self.manifest, self.tables, overwrite=overwrite, signatures=self.signatures
        )
        self.path = Path(path)
        return digest

    def verify(self, *, signer: str | Path | Sequence[str | Path] | None = None) -> Verification:
        """Check the file this release was opened from or saved to; before that, the content in
        memory. `signer` as in `verify_bundle`.
        """
        if self.path is not None:
            return verify_bundle(self.path, signer=signer)
        if signer is not None:
            return Verification(
                ok=False,
                problems=("A release that is in no file is not signed. Save it and open it.",),
            )
        try:
            check_manifest(self.manifest, sealed=False)
            type(self)(self.manifest, self.tables)
        except BundleError as error:
            return Verification(ok=False, problems=(str(error),))
        return Verification(ok=True, facts={"kind": self.kind, "method": self.manifest["method"]})

    def summary(self) -> dict[str, str]:
        """A few lines that say what this is."""
        seeded = {"warning": "made with a fixed seed: not publishable"}
        return {
            "data set": str(self.manifest["dataset"]),
            "method": str(self.manifest["method"]),
            "made": str(self.manifest["created"]),
            "guarantee": self.privacy,
            **({} if self.publishable else seeded),
        }

    def report(self, path: str | Path) -> Path:
        """Write one self-contained HTML report about this release."""
        from dpublish.present.report import write_report

        return write_report(self, path)

    def page(self, path: str | Path, *, by: Sequence[str] = ()) -> Path:
        """Write one self-contained HTML page that anyone can open and ask, without a server.

        `by` names three columns or more that are to have a table of their own.
        """
        from dpublish.present.page.page import write_page

        return write_page(self, path, by=by)

    def warnings(self) -> tuple[str, ...]:
        """What should make a reader careful with all that this release says."""
        return ()

    def basis_notes(self, frame: pl.DataFrame) -> tuple[str, ...]:
        """What the intervals of a table of counts rest on, in words."""
        return ()

    def sql_note(self, query: str) -> str | None:
        """What to know of the whole answer of `sql` to a query; None when there is nothing."""
        return None

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(dataset={self.manifest['dataset']!r}, "
            f"method={self.manifest['method']!r})"
        )

    def _repr_html_(self) -> str:
        return notebook_table(self.summary())


def release_class(kind: str) -> type[Release]:
    """The class that reads releases of this kind."""
    if kind not in _CLASSES and kind in RELEASES:
        importlib.import_module(RELEASES[kind])
    if kind not in _CLASSES:
        known = sorted({*RELEASES, *_CLASSES})
        raise BundleError(
            f"Releases of kind '{kind[:80]}' are not known to this version of "
            f"dpublish.{did_you_mean(kind, known)} "
            f"Known kinds: {', '.join(known)}. Upgrade with: pip install --upgrade dpublish."
        )
    return _CLASSES[kind]


def make_release(manifest: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> Release:
    """A release from its parts, checked as if it had been read from a file."""
    check_manifest(manifest, sealed=False)
    return release_class(manifest["kind"])(manifest, tables)


def open_release(path: str | Path) -> Release:
    """Open a release file or folder, checking hashes and content.

    >>> open_release("absent.dpr")
    Traceback (most recent call last):
        ...
    dpublish.errors.InputError: There is no release at 'absent.dpr'.
    """
    bundle = read_bundle(path)
    release = release_class(bundle.manifest["kind"])(
        bundle.manifest, {name: bundle.table(name) for name in bundle.names}, path=Path(path)
    )
    release.signatures = bundle.signatures
    return release
