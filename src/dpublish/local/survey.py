"""A survey: several questions, each with its own randomizer, and one total for each person. Written
in TOML.

[survey]
name = "commute"
epsilon = 3                         # the total that each person can lose by answering

[questions.transport]
levels = ["bus", "car", "bike"]     # any other answer counts as "(other)"
epsilon = 1
method = "kary"                     # or binary, unary, hashing, hadamard, heavy-hitters

[questions.hours]
method = "mean"                     # an answer that is not a number counts as the middle
lower = 0
upper = 20
epsilon = 1

[questions.habits]
method = "conjunctions"             # a column per attribute; anything but yes counts as no
attributes = ["smokes", "drinks", "runs"]
width = 2
epsilon = 1

Every answer leads to a report: in the local model a missing report would itself be an answer.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpublish.declare.spelling import filled_lines
from dpublish.errors import (
    BudgetExceeded,
    InputError,
    PlanError,
    SchemaError,
    did_you_mean,
    refuse_unknown_keys,
)
from dpublish.local.base import Randomizer
from dpublish.local.coins import Coins
from dpublish.local.conjunctions import Conjunctions
from dpublish.local.hashing import HadamardResponse, LocalHashing
from dpublish.local.hitters import HeavyHitters
from dpublish.local.mean import MeanResponse
from dpublish.local.unary import BinaryResponse, KaryResponse, UnaryEncoding
from dpublish.privacy.cost import positive, show

OTHER = "(other)"
YES = frozenset({"yes", "y", "true", "t", "1"})
_SMALL_TALLY = 1 << 23
METHODS = {
    "binary": {"column"},
    "kary": {"column", "levels", "levels_file"},
    "unary": {"column", "levels", "levels_file"},
    "hashing": {"column", "levels", "levels_file"},
    "hadamard": {"column", "levels", "levels_file"},
    "heavy-hitters": {"column", "levels", "levels_file"},
    "mean": {"column", "lower", "upper"},
    "conjunctions": {"attributes", "width"},
}
_BY_LEVELS: dict[str, Any] = {
    "kary": KaryResponse,
    "unary": UnaryEncoding,
    "hashing": LocalHashing,
    "hadamard": HadamardResponse,
    "heavy-hitters": HeavyHitters,
}


@dataclass(frozen=True)
class Question:
    """One question: its name, the columns of an answer file that it reads, and its randomizer."""

    name: str
    columns: tuple[str, ...]
    randomizer: Randomizer

    def encode(self, answers: Sequence[Sequence[str]]) -> Any:
        """Answers, one text per column, as values of the randomizer. Total: every text has a
        value."""
        randomizer = self.randomizer
        if isinstance(randomizer, Conjunctions):
            return np.array(
                [[_yes(text) for text in row] for row in answers], dtype=np.int64
            ).reshape(-1, len(self.columns))
        texts = [row[0].strip() for row in answers]
        if isinstance(randomizer, MeanResponse):
            return [_number(text) for text in texts]
        if isinstance(randomizer, BinaryResponse):
            return [_yes(text) for text in texts]
        levels = level_list(randomizer)
        codes = {name: code for code, name in enumerate(levels)}
        return [codes.get(text, len(levels) - 1) for text in texts]


@dataclass(frozen=True)
class Survey:
    """Questions that every person answers once. Build it with `Survey.read(path)` or
    `Survey.from_toml(text)`."""

    name: str
    epsilon: Fraction
    questions: Mapping[str, Question]

    @classmethod
    def read(cls, path: str | Path) -> Survey:
        path = Path(path)
        try:
            text = path.read_text(
                encoding="utf-8-sig"
            )  # some editors put a mark before the first letter
        except (OSError, UnicodeDecodeError) as error:
            raise SchemaError(
                f"The survey file '{path}' cannot be read as UTF-8 text ({type(error).__name__})."
            ) from None
        return cls.from_toml(text, folder=path.parent, where=str(path))

    @classmethod
    def from_toml(
        cls, text: str, *, folder: Path | None = None, where: str = "the survey"
    ) -> Survey:
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"{where} is not valid TOML: {error}") from None
        return _read(data, folder or Path())

    @property
    def cost(self) -> Fraction:
        """What one person loses by answering all questions."""
        return sum(
            (question.randomizer.epsilon for question in self.questions.values()), Fraction(0)
        )

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that name the survey; every report carries them."""
        facts = {
            "name": self.name,
            "epsilon": str(self.epsilon),
            "questions": {name: one.randomizer.protocol() for name, one in self.questions.items()},
        }
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that an answer file must have, in order."""
        return tuple(
            dict.fromkeys(
                column for question in self.questions.values() for column in question.columns
            )
        )

    def randomize(
        self, answers: Sequence[Mapping[str, str]], *, coins: Coins | None = None
    ) -> list[list[str]]:
        """One row of reports for each person, in the order of the questions."""
        for column in self.columns:
            if any(column not in answer for answer in answers):
                raise InputError(
                    f"The answers have no column '{column}', which the survey asks for."
                )
        by_question = []
        for question in self.questions.values():
            values = question.encode(
                [[answer[column] for column in question.columns] for answer in answers]
            )
            reports = question.randomizer.randomize(values, coins=coins)
            by_question.append([str(report) for report in question.randomizer.written(reports)])
        return [list(row) for row in zip(*by_question, strict=True)]


def level_list(randomizer: Randomizer) -> tuple[str, ...]:
    """The level names of a randomizer over named levels."""
    if isinstance(randomizer, KaryResponse | UnaryEncoding | LocalHashing | HadamardResponse):
        return randomizer.levels
    if isinstance(randomizer, HeavyHitters) and randomizer.names is not None:
        return randomizer.names
    raise PlanError(f"A question by {randomizer.method} has no named levels.")


def best_method(levels: int, epsilon: Fraction) -> str:
    """The method of least error with short reports: randomised response for few levels, else
    hashing if its tally is small."""
    choices: list[Any] = [KaryResponse(levels, epsilon), HadamardResponse(levels, epsilon)]
    try:
        hashing = LocalHashing(levels, epsilon)
    except PlanError:
        pass
    else:
        choices += [hashing] if hashing.alphabet <= _SMALL_TALLY else []
    return str(min(choices, key=lambda randomizer: randomizer.variance).method)


def _read(data: Mapping[str, Any], folder: Path) -> Survey:
    for table in data:
        if table not in ("survey", "questions"):
            raise SchemaError(
                f"Unknown table [{table}].{did_you_mean(table, ('survey', 'questions'))}"
            )
    head = data.get("survey")
    if not isinstance(head, Mapping):
        raise SchemaError(
            'The survey has no [survey] table. Add one with name = "..." and epsilon = ...'
        )
    refuse_unknown_keys(head, ("name", "epsilon"), "[survey]")
    name = head.get("name")
    if not isinstance(name, str) or not name.strip():
        raise SchemaError('[survey] has no name. Add name = "...".')
    if "epsilon" not in head:
        raise SchemaError(
            "[survey] has no epsilon. Add epsilon = ..., the total that each person can lose."
        )
    total = positive(head["epsilon"], "[survey] epsilon")
    tables = data.get("questions")
    if not isinstance(tables, Mapping) or not tables:
        raise SchemaError("The survey has no question. Add [questions.NAME] tables.")
    survey = Survey(
        name=name.strip(),
        epsilon=total,
        questions={key: _question(key, table, folder) for key, table in tables.items()},
    )
    if survey.cost > total:
        raise BudgetExceeded(
            f"The questions cost {show(survey.cost)} together, above the {show(total)} that the "
            f"survey promises each person."
        )
    return survey


def _question(name: str, table: Any, folder: Path) -> Question:
    where = f"Question '{name}'"
    if not isinstance(table, Mapping):
        raise SchemaError(
            f"{where} must be a table, for example [questions.{name}] with levels = [...]."
        )
    if "," in name or name in ("", "survey"):
        raise SchemaError(f"{where}: a question cannot have this name.")
    if "epsilon" not in table:
        raise SchemaError(
            f"{where} has no epsilon. Add epsilon = ..., its part of the survey's total."
        )
    epsilon = positive(table["epsilon"], f"{where}: epsilon")
    levels = _levels(where, table, folder)
    method = table.get("method")
    if method is None:
        if levels is None:
            raise SchemaError(
                f"{where} has neither a method nor levels. Methods: {', '.join(METHODS)}."
            )
        method = best_method(len(levels), epsilon)
    if method not in METHODS:
        raise SchemaError(
            f"{where}: method '{method}' is not known.{did_you_mean(str(method), METHODS)} "
            f"Methods: {', '.join(METHODS)}."
        )
    refuse_unknown_keys(table, METHODS[method] | {"method", "epsilon"}, f"{where} ({method})")
    column = table.get("column", name)
    if not isinstance(column, str) or not column:
        raise SchemaError(f"{where}: column must be the name of a column.")
    if method == "binary":
        return Question(name, (column,), BinaryResponse(epsilon))
    if method == "mean":
        for key in ("lower", "upper"):
            if key not in table:
                raise SchemaError(
                    f"{where} has no {key} bound. Add {key} = ...; it cannot be taken from the "
                    f"answers."
                )
        return Question(name, (column,), MeanResponse(table["lower"], table["upper"], epsilon))
    if method == "conjunctions":
        attributes = table.get("attributes")
        if not isinstance(attributes, list) or not all(
            isinstance(entry, str) and entry for entry in attributes
        ):
            raise SchemaError(f"{where} needs attributes = [...], a list of column names.")
        return Question(
            name, tuple(attributes), Conjunctions(attributes, table.get("width", 2), epsilon)
        )
    if levels is None:
        raise SchemaError(f'{where} has no levels. Add levels = [...] or levels_file = "...".')
    return Question(name, (column,), _BY_LEVELS[method](levels, epsilon))


def _levels(where: str, table: Mapping[str, Any], folder: Path) -> list[str] | None:
    if "levels" in table and "levels_file" in table:
        raise SchemaError(f"{where}: give levels or levels_file, not both.")
    if "levels_file" in table:
        listed: Any = filled_lines(folder / str(table["levels_file"]), f"{where}: levels_file")
    elif "levels" in table:
        listed = table["levels"]
    else:
        return None
    if (
        not isinstance(listed, list)
        or not listed
        or any(isinstance(x, bool) or not isinstance(x, str | int) for x in listed)
    ):
        raise SchemaError(f"{where}: levels must be a list of names or whole numbers.")
    names = [str(level).strip() for level in listed]
    if len(set(names)) != len(names):
        raise SchemaError(f"{where}: a level is listed twice.")
    return [level for level in names if level != OTHER] + [OTHER]


def _yes(text: str) -> int:
    return int(text.strip().lower() in YES)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
