"""Made-up data files and the calls that read them: the private side reads a file once, the
mechanism runs as often as asked.

The inputs of a trial are the bytes of a private file, so that the same pair serves the tiers that
call a mechanism and the twin run, which runs the command line. What is read from a file is kept: an
audit runs a mechanism thousands of times on it.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from dpublish.audit import neighbours
from dpublish.audit.subject import tabulator_of
from dpublish.audit.trials.trial import Trial, Twin
from dpublish.declare.schema import Schema
from dpublish.declare.statistic import CodedRows, ColumnValues, Tabulation
from dpublish.methods.base import Mechanism
from dpublish.noise.base import Noise
from dpublish.privacy.cost import Cost
from dpublish.privacy.plan import Plan

Read = Callable[[Path], Any]

RELATIONS = ("replace-one", "add-remove-one")
SIZE = {"replace-one": "size", "add-remove-one": "nominal_size"}
LEDGER = ("--ledger", "tiny.ledger")


def schema_text(relation: str, columns: str, *, size: int, extra: str = "") -> str:
    """A schema of made-up public facts."""
    return (
        f'[dataset]\nname = "tiny"\nneighbours = "{relation}"\n{SIZE[relation]} = {size}\n'
        f"{extra}\n{columns}"
    )


def under_both(make: Callable[..., Trial], *given: Any, **options: Any) -> Iterator[Trial]:
    """A trial under each of the two relations."""
    return (make(relation, *given, **options) for relation in RELATIONS)


def csv(header: str, rows: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in (header, *rows)).encode()


UNIT = "who"


def unit_lines(per_unit: int) -> str:
    """What a schema says of units: nothing where each is a row."""
    return f'unit = "{UNIT}"\nmax_rows_per_unit = {per_unit}\n' if per_unit > 1 else ""


def people_pairs(
    relation: str, header: str, universe: Sequence[str], *, rows: int, per_unit: int
) -> list[tuple[bytes, bytes]]:
    """All neighbouring files of up to `rows` rows taken from `universe`; with `per_unit` > 1, of up
    to `rows` people, some of whom have one row more than a person may count with."""
    if per_unit == 1:
        by_row = neighbours.row_pairs(relation, universe, rows=rows)
        return [(csv(header, one), csv(header, other)) for one, other in by_row]
    by_unit = neighbours.unit_pairs(relation, universe, units=rows, max_rows_per_unit=per_unit + 1)
    files = [
        [csv(f"{UNIT},{header}", (f"{unit},{row}" for unit, row in side)) for side in pair]
        for pair in by_unit
    ]
    return [(one, other) for one, other in files if one != other]


def with_all_units(pairs: Sequence[tuple[bytes, bytes]], units: int) -> tuple[bytes, bytes]:
    """The first pair in which everyone has a row: under replace-one the gate holds the number of
    people to the schema's."""

    def people(content: bytes) -> int:
        return len({line.split(b",")[0] for line in content.splitlines()[1:]})

    return next(pair for pair in pairs if people(pair[0]) == people(pair[1]) == units)


class FileCall:
    """(noise, content of a private file) -> what the mechanism publishes."""

    def __init__(self, mechanism: Mechanism, plan: Plan, file: str, read: Read) -> None:
        self.name = plan.method
        self.mechanism, self._plan = mechanism, plan
        self._file, self._read = file, read
        self._known: dict[bytes, Any] = {}

    def __call__(self, noise: Noise, content: bytes) -> Any:
        # a copy each time: a mechanism that changes what it is given must not change the next run
        return self.mechanism.run(noise, copy.deepcopy(self.numbers(content)), self._plan)

    def numbers(self, content: bytes) -> Any:
        """The exact private numbers of a file."""
        if content not in self._known:
            with tempfile.TemporaryDirectory(prefix="trial-") as folder:
                path = Path(folder, self._file)
                path.write_bytes(content)
                self._known[content] = self._read(path)
        return self._known[content]


def release_call(
    method: str,
    settings: Mapping[str, str],
    schema: str,
    cost: Cost,
    *,
    file: str = "rows.csv",
    public: Mapping[str, bytes] | None = None,
) -> FileCall:
    """A release method, set up from the texts that the command line would get."""
    from dpublish.counting.compute import compute
    from dpublish.methods.registry import method_from_settings
    from dpublish.sources.sources import open_source

    facts = Schema.from_toml(schema)
    with tempfile.TemporaryDirectory(prefix="trial-") as folder:
        given = public or {}
        for name, content in given.items():
            Path(folder, name).write_bytes(content)
        placed = {
            key: str(Path(folder, value)) if value in given else value
            for key, value in settings.items()
        }
        mechanism = method_from_settings(method, placed)
        plan = mechanism.plan(facts, cost)
        statistic = mechanism.statistic(plan)

    def read(path: Path) -> Any:
        source = open_source(str(path))
        if isinstance(statistic, Tabulation):  # the file is gone when the mechanism runs
            rows = CodedRows(statistic.domain)
            return tabulator_of(compute(rows, source, facts, key=bytes(16)), statistic.domain)
        if isinstance(statistic, ColumnValues):
            none = pl.DataFrame(schema=dict.fromkeys(source.columns(), pl.String))
            source = open_source(pl.concat([none, *source.batches(source.columns())]))
        return compute(statistic, source, facts, key=bytes(16))

    return FileCall(mechanism, plan, file, read)


def release_twin(
    method: str,
    settings: Mapping[str, str],
    schema: str,
    cost: Cost,
    *,
    file: str = "rows.csv",
    public: Mapping[str, bytes] | None = None,
    inputs: tuple[bytes, bytes] | None = None,
) -> Twin:
    """The commands of a release, from opening a ledger to reading the bundle."""
    words = ["release", file, "--schema", "tiny.toml", "--method", method, *set_words(settings)]
    return Twin(
        commands=paid_commands(words, cost),
        name=file,
        public={"tiny.toml": schema.encode(), **(public or {})},
        inputs=inputs,
    )


def paid_commands(words: Sequence[str], cost: Cost) -> list[list[str]]:
    """A command that publishes something for all of a budget, between those that open a ledger and
    read what was made."""
    given = {"--epsilon": cost.epsilon, "--delta": cost.delta, "--rho": cost.rho}
    amounts = [word for name, amount in given.items() if amount for word in (name, str(amount))]
    paid = [*words, *amounts, *LEDGER, "--key", "twin", "--out", "tiny.dpr"]
    return [["ledger", "open", "tiny.ledger", *amounts], paid, ["show", "tiny.dpr"]]


def set_words(settings: Mapping[str, str]) -> list[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
