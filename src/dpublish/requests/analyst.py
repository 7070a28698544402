"""What an analyst can ask of a release. Free, for ever: everything here is post-processing.

Nothing in this module reaches private rows, a ledger or noise: a test walks its imports.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from dpublish.errors import InputError, QueryError
from dpublish.outputs import keep_apart
from dpublish.present.export import export_release, format_of, write_table
from dpublish.requests.base import NOBODY, Caller, Format, Request

if TYPE_CHECKING:
    import polars as pl

    from dpublish.estimate import Estimate
    from dpublish.releases.base import Release

# What each request needs of a release, and how it is called in words.
ABILITIES = {
    "estimate": "conditions with error bars ('query')",
    "marginal": "counts by column ('query --by')",
    "sql": "SQL ('sql')",
    "to_frame": "weighted rows ('export')",
    "sample": "synthetic rows ('export --synthetic')",
    "report": "a report ('report')",
    "page": "a page to ask ('page')",
    "predict": "predictions ('predict')",
}


def open_for(path: Path, ability: str) -> Any:
    """The release at `path`, which has a method of that name; otherwise a `QueryError` that lists
    what it does have."""
    from dpublish.releases.base import open_release

    return offering(open_release(path), ability)


def offering(release: Any, ability: str) -> Any:
    """The same of a release that is open already."""
    if not hasattr(release, ability):
        # every kind has a table to export, but models and solutions have no rows
        table = {} if weight_column(release) is not None else {"to_frame": "its table ('export')"}
        offered = [words for name, words in (ABILITIES | table).items() if hasattr(release, name)]
        raise QueryError(
            f"A release of kind '{release.kind}' does not offer {ABILITIES[ability]}. "
            + (
                f"It offers {', '.join(offered)}."
                if offered
                else "Open it in Python: dpublish.open_release(...)."
            )
        )
    return release


def verbs_for(release: Any) -> list[str]:
    """The commands that have something to say about a release of this kind."""
    verbs = {
        "query": ("estimate", "marginal"),
        "sql": ("sql",),
        "predict": ("predict",),
        "export": ("to_frame",),
        "report": ("report",),
        "page": ("page",),
    }
    offered = [
        verb
        for verb, abilities in verbs.items()
        if any(hasattr(release, ability) for ability in abilities)
    ]
    return ["show", *offered, "verify"]


def weight_column(release: Any) -> str | None:
    """The column of a release's table that holds the weights of its rows: the last, with a name
    that no other column has."""
    last = release.to_frame().columns[-1:] if hasattr(release, "to_frame") else []
    return last[0] if last and last[0].rstrip("_") == "weight" else None


_AGGREGATE = re.compile(
    r"(mean|avg|sum|share|median|quantile|ratio|difference)\s*\((.*)\)", re.I | re.S
)
_COMPARED = {
    "ratio": (2, "ratio(sex = 'F', sex = 'M')"),
    "difference": (3, "difference(income, sex = 'M', sex = 'F')"),
}
"""What compares groups: how many parts it takes, and an example."""


def _parts(text: str) -> list[str]:
    """What stands between commas that are in no quotes and no brackets."""
    found, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign == "(") - (sign == ")")
            if sign == "," and depth == 0:
                found.append("")
                continue
        found[-1] += sign
    return [part.strip() for part in found]


@dataclass(frozen=True, kw_only=True)
class OfRelease(Request):
    """Asks one release. `answer` takes it already open, so that a server opens it once."""

    release: Path
    ability: ClassVar[str]

    def __init_subclass__(cls, *, ability: str | None = None, **stated: Any) -> None:
        super().__init_subclass__(**stated)
        if ability is not None:
            cls.ability = ability

    def run(self, caller: Caller = NOBODY) -> Any:
        self.check()
        return self.answer(open_for(self.release, self.needs))

    @property
    def needs(self) -> str:
        return self.ability

    def check(self) -> None:
        """Refuse what cannot be meant, before the release is opened."""

    @abc.abstractmethod
    def answer(self, opened: Any) -> Any:
        """What the open release says."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    release: Release

    def to_json(self) -> Mapping[str, Any]:
        signatures = [one.facts() for one in self.release.signatures]
        manifest = self.release.manifest
        return {**manifest, "signatures": signatures} if signatures else manifest


@dataclass(frozen=True, kw_only=True)
class Show(OfRelease, verb="show", ability="manifest"):
    """What a release holds, what it cost, what it promises and who signed it."""

    def answer(self, opened: Any) -> Shown:
        return Shown(release=opened)


@dataclass(frozen=True, kw_only=True)
class Table:
    """Numbers by row, and what should be read beside them."""

    frame: pl.DataFrame
    level: float | None = None
    note: str | None = None
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        return {
            **({} if self.level is None else {"level": self.level}),
            **({} if self.note is None else {"note": self.note}),
            "columns": list(self.frame.columns),
            "rows": [list(row) for row in self.frame.iter_rows()],
            **({"notes": self.notes} if self.notes else {}),
            **({"warnings": self.warnings} if self.warnings else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Conditions with their estimates, and those that could not be answered with the reason."""

    answers: tuple[tuple[str, Estimate], ...]
    failures: tuple[tuple[str, QueryError], ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        failed = [{"predicate": text, "error": str(error)} for text, error in self.failures]
        return {
            "estimates": [
                {"predicate": text, "measure": one.measure, **one.numbers(), **one.words()}
                for text, one in self.answers
            ],
            **({"failures": failed} if failed else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Query(OfRelease, verb="query"):
    """Rows that meet conditions, or counts by columns, with standard errors and intervals."""

    conditions: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    level: float = 0.95
    where: str | None = None
    """Which rows means, sums, shares and quantiles are taken over."""

    @property
    def needs(self) -> str:
        return "marginal" if self.by else "estimate"

    def check(self) -> None:
        if bool(self.by) == bool(self.conditions):
            raise QueryError(
                'Give a condition such as "age >= 40", or --by COLUMN for counts by a column; one '
                "of the two."
            )
        counted = [text for text in self.conditions if _AGGREGATE.fullmatch(text.strip()) is None]
        if self.where is not None and (self.by or counted):
            raise QueryError(
                "--where goes with mean(...), sum(...), share(...), median(...) and quantile(...). "
                "Add it to a condition with: and."
            )

    def answer(self, opened: Any) -> Table | Answers:
        if self.by:
            frame = opened.marginal(*self.by, level=self.level)
            # what should make a reader careful with weights of public rows holds for every table
            return Table(
                frame=frame,
                level=self.level,
                notes=opened.basis_notes(frame),
                warnings=opened.warnings(),
            )
        answers: list[tuple[str, Estimate]] = []
        failures: list[tuple[str, QueryError]] = []
        for text in (text.strip() for text in self.conditions):
            try:
                answers.append((text, self._one(opened, text)))
            except QueryError as error:
                failures.append((text, error))
        if failures and not answers:
            raise failures[0][1]
        return Answers(answers=tuple(answers), failures=tuple(failures))

    def _one(self, opened: Any, text: str) -> Estimate:
        found = _AGGREGATE.fullmatch(text)
        if found is None:
            return cast("Estimate", opened.estimate(text, level=self.level))
        verb, of = found[1].lower(), found[2].strip()
        if verb in _COMPARED:
            return self._compared(opened, verb, _parts(of), text)
        given: dict[str, Any] = {"where": self.where, "level": self.level}
        if verb == "quantile":
            of, _, share = of.rpartition(",")
            try:
                given["share"] = float(share)
            except ValueError:
                raise QueryError(
                    f"'{text}': write a quantile with its share, as in quantile(age, 0.9)."
                ) from None
        ask = getattr(opened, "mean" if verb == "avg" else verb)
        return cast("Estimate", ask(of.strip(), **given))

    def _compared(self, opened: Any, verb: str, parts: list[str], text: str) -> Estimate:
        number, example = _COMPARED[verb]
        if len(parts) != number or not all(parts):
            raise QueryError(f"'{text}': write it as in {example}.")
        if self.where is not None:
            raise QueryError(f"--where does not go with {verb}(...): add it to both conditions.")
        return cast("Estimate", getattr(opened, verb)(*parts, level=self.level))


@dataclass(frozen=True, kw_only=True)
class Sql(OfRelease, verb="sql", ability="sql"):
    """A SELECT over the weighted rows of a release."""

    select: str
    level: float | None = 0.95
    """How sure limits are; None for numbers alone, with what is to be said of them beneath."""

    def answer(self, opened: Any) -> Table:
        frame = opened.sql(self.select, level=self.level)
        return Table(
            frame=frame,
            level=self.level,
            note=opened.sql_note(self.select),
            notes=_said_beside(frame if self.level is not None else opened.sql(self.select)),
        )


def note_columns(frame: pl.DataFrame) -> dict[str, str]:
    """The columns of an answer of `sql` that say what the numbers before them rest on, and their
    names."""
    named = ((name.removesuffix("_high"), note) for name, note in pairwise(frame.columns))
    return {note: about for about, note in named if note == f"{about}_note"}


def _said_beside(frame: pl.DataFrame) -> tuple[str, ...]:
    lines = dict.fromkeys(
        f"{about}: {text}."
        for note, about in note_columns(frame).items()
        for text in frame[note].unique(maintain_order=True).to_list()
        if text
    )
    return tuple(lines)


_TABLES = ("csv", "parquet")


@dataclass(frozen=True, kw_only=True)
class Exported:
    out: Path
    form: str
    synthetic: bool
    weight: str | None
    beside: tuple[Path, ...] = ()
    missing: tuple[str, ...] = ()
    """Of a record: files that were written with it, and facts that the schema does not state."""

    def to_json(self) -> Mapping[str, Any]:
        written = {"out": self.out, "format": self.form}
        if self.form not in _TABLES:
            return {**written, "beside": list(self.beside), "missing": list(self.missing)}
        return {
            **written,
            "synthetic": self.synthetic,
            "weight": self.weight,
            "bytes": self.out.stat().st_size,
        }


@dataclass(frozen=True, kw_only=True)
class ToFile(OfRelease):
    """Asks for a file, which is not the release itself."""

    out: Path

    def check(self) -> None:
        keep_apart(self.out, self.release)


@dataclass(frozen=True, kw_only=True)
class Export(ToFile, verb="export"):
    """A release as an ordinary table: weighted rows, or synthetic ones."""

    to: Format | None = None
    synthetic: bool = False
    number: int | None = None
    where: str | None = None

    @property
    def needs(self) -> str:
        if self.form not in _TABLES:
            return "report"
        return "sample" if self.synthetic else "to_frame"

    @property
    def form(self) -> str:
        return self.out.suffix.removeprefix(".").lower() if self.to is None else self.to.value

    def check(self) -> None:
        if self.form not in Format.__members__:
            raise InputError(
                f"'{self.out}' does not say which format to write. Add --to csv or --to parquet."
            )
        if self.form not in _TABLES and (self.synthetic or self.number or self.where):
            raise InputError(f"--synthetic, --number and --where do not go with --to {self.form}.")
        if self.number is not None and not self.synthetic:
            raise InputError(
                "--number goes with --synthetic: weighted rows are as many as the release has "
                "cells."
            )
        if self.where is not None and not self.synthetic:
            raise InputError(
                "--where goes with --synthetic. For counts under a condition ask 'dpublish query'."
            )
        super().check()

    def answer(self, opened: Any) -> Exported:
        from dpublish.present.records import write_record

        if self.form not in _TABLES:
            out, beside, missing = write_record(opened, self.out, to=self.form)
            return Exported(
                out=out,
                form=self.form,
                synthetic=False,
                weight=None,
                beside=tuple(beside),
                missing=tuple(missing),
            )
        form = cast(Literal["csv", "parquet"], self.form)
        export_release(
            opened,
            self.out,
            to=form,
            synthetic=self.synthetic,
            n=self.number,
            where=self.where,
        )
        return Exported(
            out=self.out,
            form=form,
            synthetic=self.synthetic,
            weight=None if self.synthetic else weight_column(opened),
        )


@dataclass(frozen=True, kw_only=True)
class Predicted:
    out: Path
    form: str
    target: str
    rows: int
    labelled: int
    accuracy: float | None
    area: float | None

    def to_json(self) -> Mapping[str, Any]:
        return {
            "out": self.out,
            "format": self.form,
            "rows": self.rows,
            "labelled": self.labelled,
            "accuracy": self.accuracy,
            "area": self.area,
        }


@dataclass(frozen=True, kw_only=True)
class Predict(OfRelease, verb="predict", ability="predict"):
    """A published classifier at work on rows of the analyst's own."""

    rows: Path
    out: Path

    def check(self) -> None:
        format_of(self.out)
        keep_apart(self.out, self.rows, self.release)

    def answer(self, opened: Any) -> Predicted:
        from dpublish.analyse.predict import predict_rows
        from dpublish.models.public_rows import read_public

        form = format_of(self.out)
        # cells go from CSV to CSV as they are: an id of 007 must still name its row; Parquet has
        # columns with types
        axes = (*opened.features.axes, opened.target)
        labels = None if form == "csv" else [axis.name for axis in axes if not axis.numeric]
        found = predict_rows(opened, read_public(self.rows, labels, what="rows to predict"))
        write_table(found.frame, self.out, to=form)
        return Predicted(
            out=self.out,
            form=form,
            target=opened.target.name,
            rows=found.frame.height,
            labelled=found.labelled,
            accuracy=found.accuracy,
            area=found.area,
        )


@dataclass(frozen=True, kw_only=True)
class Written:
    """A file that was made."""

    out: Path

    def to_json(self) -> Mapping[str, Any]:
        return {"out": self.out, "bytes": self.out.stat().st_size}


@dataclass(frozen=True, kw_only=True)
class Report(ToFile, verb="report", ability="report"):
    """One self-contained page about a release."""

    def answer(self, opened: Any) -> Written:
        opened.report(self.out)
        return Written(out=self.out)


@dataclass(frozen=True, kw_only=True)
class Page(ToFile, verb="page", ability="page"):
    """The release as one HTML file that anyone can open and ask."""

    by: tuple[str, ...] = ()

    def answer(self, opened: Any) -> Written:
        opened.page(self.out, by=self.by)
        return Written(out=self.out)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was checked about a file. `paid` and `signed` are None where nobody asked, or after
    another problem."""

    release: Path
    problems: tuple[str, ...]
    facts: Mapping[str, Any]
    signed: bool | None
    paid: bool | None = None

    @property
    def ok(self) -> bool:
        return not self.problems

    def to_json(self) -> Mapping[str, Any]:
        return {
            "release": self.release,
            "ok": self.ok,
            "problems": list(self.problems),
            "paid": self.paid,
            "signed": self.signed,
            "facts": self.facts,
        }


@dataclass(frozen=True, kw_only=True)
class Verify(Request, verb="verify"):
    """Hashes, format, domain and signatures of a release."""

    release: Path
    signers: tuple[str, ...] = ()

    def run(self, caller: Caller = NOBODY) -> Verdict:
        from dpublish.releases.bundle.bundle import verify_bundle

        if not self.release.exists():  # a mistyped name says nothing about a release
            raise InputError(f"There is no release at '{self.release}'.")
        result = verify_bundle(self.release, signer=list(self.signers) or None)
        return Verdict(
            release=self.release,
            problems=tuple(str(problem) for problem in result.problems),
            facts=dict(result.facts),
            signed=result.ok if self.signers else None,
        )
