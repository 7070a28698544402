"""What can be asked of the solvers: a public structure and private rows in, a publishable solution
out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dpublish.counting.graphs import (
    Shape,
    open_structure,
    read_lists,
    read_names,
    read_pmed,
    read_scp,
    read_sets,
)
from dpublish.errors import InputError, PlanError, PrivateSideError, PublishError
from dpublish.ledger.state import remember
from dpublish.methods.base import Mechanism
from dpublish.methods.registry import fields_from_settings, method_named
from dpublish.methods.solvers.inputs import Labels, list_marks, lists_of
from dpublish.methods.solvers.k_median.metric import Metric
from dpublish.optimize import publish, row_names
from dpublish.outputs import keep_apart
from dpublish.requests.base import NOBODY, Caller
from dpublish.requests.curator import (
    PaidFile,
    Released,
    not_signed,
    numbers_of,
    store_of,
    unlocked,
)
from dpublish.sources.files import existing_file


@dataclass(frozen=True, kw_only=True)
class Solved(Released):
    """A solution that was published. `cutting` says where rows were cut into names, where that is
    unusual."""

    release: Any
    cutting: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> Mapping[str, Any]:
        return {
            "out": self.out,
            **self.release.to_json(),
            "signatures": self.signatures,
            "remaining": self.left.remaining.to_json(),
            "news": [*self.account, *self.unsigned],
        }


@dataclass(frozen=True, kw_only=True)
class Solve(PaidFile, verb="solve"):
    """Solve a problem whose structure is public and whose rows are private, and publish the
    solution."""

    problem: str
    data: str
    public: str
    epsilon: str
    k: int | None = None
    form: str = "plain"
    settings: Mapping[str, str] = field(default_factory=dict)
    title: str | None = None
    population: str | None = None
    sign_with: Path | None = None

    def run(self, caller: Caller = NOBODY) -> Solved:
        keep_apart(self.out, self.data, self.public, self.ledger.removeprefix("sqlite:///"))
        mechanism, shape = mechanism_of(self.problem, self.public, self.form, self.k, self.settings)
        names = row_names(mechanism)
        allowance = self.allowance()
        signing_key = None if self.sign_with is None else unlocked(self.sign_with, caller)
        remember(self.data)
        failure: PublishError | None = None
        with caller.private() as progress:
            try:
                with self.opened(allowance, caller) as account:
                    made = publish(
                        mechanism,
                        open_structure(self.data, shape, names),
                        self.title or self.problem,
                        population=self.population,
                        ledger=account,
                        out=self.out,
                        key=self.key,
                        store=store_of(self.ledger, account.name),
                        overwrite=self.overwrite,
                        again=self.again,
                        signing_key=signing_key,
                        progress=progress,
                        **numbers_of(epsilon=self.epsilon, delta=self.delta),
                    )
                    left = account.status()
            except PublishError:
                raise
            except Exception:  # what it says could quote a row
                failure = PrivateSideError()
        if failure is not None:
            raise failure
        return Solved(
            out=self.out,
            release=made,
            left=left,
            account=tuple(account.news),
            unsigned=tuple(not_signed(made, signing_key, self.out)),
            cutting=tuple(_cutting(names, shape)),
        )


def _cutting(names: Labels, shape: Shape) -> list[tuple[str, str]]:
    """Where texts were cut into names, when the public names made it unusual."""
    words = {" ": "blanks", ",": "commas", ";": "semicolons"}
    kept = [word for mark, word in words.items() if mark not in list_marks(names)]
    if shape == "items" or not kept:
        return []
    cut = ["tabs", *(word for word in words.values() if word not in kept)]
    return [
        ("rows cut at", f"{', '.join(cut)}; not at {' or '.join(kept)}, which public names hold")
    ]


def mechanism_of(
    problem: str, public: str, form: str, k: int | None, settings: Mapping[str, str]
) -> tuple[Mechanism, Shape]:
    """A solver from texts: its public part from a file, its other fields from `settings`, read by
    their types as those of every method; and what a row of its data is."""
    solver = method_named(problem, "solve")
    fields = {field.name for field in dataclasses.fields(solver)}
    options = dict(settings)
    for name in ("weights", "costs"):
        if name in fields and name in options:
            # public weights or costs, one a line
            options[name] = ",".join(" ".join(words) for words in read_lists(options[name]))
    cap = options.pop("cap", None) if "metric" in fields else None
    values = fields_from_settings(
        problem,
        options,
        "solve",
        leave_out=PUBLIC_FIELDS,
        beside=("cap",) if "metric" in fields else (),
    )
    if "k" in fields:
        if k is None:
            raise PlanError(f"{problem} needs --k, how many to choose.")
        values["k"] = k
    facility = values.get("worth") == "facility"
    if cap is not None and "worth" in fields and not facility:
        raise PlanError("cap goes with worth=facility, where distances count.")
    if "sets" in fields:
        return solver(**{**_family(public, form), **values}), "items"
    if "positions" in fields:
        return solver(**_sites(public, form, cap), **values), "items"
    if facility:
        sites = _sites(public, form, cap)
        return solver(resources=sites["labels"], metric=sites["metric"], **values), "items"
    names: Any = int(public) if public.isdecimal() else read_names(public)
    if "resources" in fields:
        return solver(resources=names, **values), "lists"
    return solver(vertices=names, **values), "edges"


PUBLIC_FIELDS = frozenset(
    {"k", "metric", "labels", "positions", "vertices", "sets", "elements", "set_names",
     "resources", "columns", "examples"}
)  # fmt: skip
"""What the public part gives, or what only Python can."""


def _from_one(count: int) -> list[str]:
    """Names as OR-Library files number things."""
    return [str(number) for number in range(1, count + 1)]


def _sites(public: str, form: str, cap: str | None) -> dict[str, Any]:
    try:
        most = float(cap) if cap is not None else None
    except ValueError:
        raise PlanError(f"cap must be a positive distance, not '{cap}'.") from None
    if form == "pmed":
        metric = Metric.matrix(read_pmed(public)[0], cap=most)
        return {"metric": metric, "labels": _from_one(metric.size)}
    if form not in ("haversine", "euclidean"):
        raise PlanError(
            f"--form {form}: sites are read as haversine (latitude, longitude), euclidean (x, y) "
            "or pmed."
        )
    existing_file(public)
    try:
        table = pl.read_csv(public, infer_schema_length=0)
        first, second = (
            table.to_series(i).str.strip_chars().cast(pl.Float64).to_numpy() for i in (1, 2)
        )
    except (OSError, IndexError, pl.exceptions.PolarsError):
        raise InputError(
            f"'{public}' is not a CSV of sites with the columns name and two coordinates."
        ) from None
    if form == "haversine":
        metric = Metric.haversine(first, second, cap=most)
        positions = np.column_stack([second, first])
    else:
        metric = Metric.euclidean(np.column_stack([first, second]), cap=most)
        positions = np.column_stack([first, second])
    return {
        "metric": metric,
        "labels": table.to_series(0).fill_null("").to_list(),
        "positions": positions,
    }


def _family(public: str, form: str) -> dict[str, Any]:
    if form == "scp":
        sets, costs, count = read_scp(public)
        return {
            "sets": sets,
            "costs": costs,
            "elements": _from_one(count),
            "set_names": _from_one(len(sets)),
        }
    family = read_sets(public)
    universe = sorted({element for row in family.values() for element in row})
    number = {element: index for index, element in enumerate(universe)}
    return {
        "sets": lists_of([[number[element] for element in row] for row in family.values()]),
        "elements": universe,
        "set_names": list(family),
    }
