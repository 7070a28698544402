"""Constants in predicates: what a literal means for the column it is compared with."""

from __future__ import annotations

import functools
import logging
import math
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import sqlglot
from sqlglot import exp

from dpublish.declare.calendar import CALENDAR, EXAMPLES, WORDS, number_of, read_bound
from dpublish.declare.domain import Axis
from dpublish.errors import QueryError, did_you_mean

Number = int | float
Interval = tuple[Number | None, Number | None]
Tree = Any
"""A node of sqlglot's tree; the base class has changed its name between versions."""
KindOfTree = Any


def bare(tree: Tree) -> Tree:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    return tree


def shown(tree: Tree) -> str:
    if tree is None:
        return ""
    try:
        text = str(tree.sql(dialect="postgres"))
    except Exception:  # showing a fragment must never be what fails
        return type(tree).__name__.lower()
    return text if len(text) <= 80 else text[:77] + "..."


def quoted(name: str) -> str:
    """A column's name as conditions and SQL take it: bare where that reads as a name."""
    if name.isidentifier() and not is_sql_word(name):
        return name
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """A text as conditions and SQL take it."""
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def parser_quiet() -> Iterator[None]:
    """Of what it does not know, such as EXPLAIN, the parser logs a warning of its own, which quotes
    the query."""
    log, thread = logging.getLogger("sqlglot"), threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    log.addFilter(of_others)
    try:
        yield
    finally:
        log.removeFilter(of_others)


@functools.lru_cache(maxsize=4096)
def is_sql_word(name: str) -> bool:
    """Whether the parser takes a bare name for something else, such as alter, case, end or set."""
    asked = f"select {name}, 1 from release where {name} >= 1 and {name} = 1 group by {name}"
    for text, times in ((asked, 4), (f"{name} >= 1", 1)):
        try:
            with parser_quiet():
                tree = sqlglot.parse_one(text, dialect="postgres")
        except sqlglot.errors.SqlglotError:
            return True
        columns = list(tree.find_all(exp.Column))
        if len(columns) != times or any(column.name != name for column in columns):
            return True
    return False


def with_words_of_sql(error: QueryError, text: str, names: Iterable[str]) -> QueryError:
    """The error; where the text names a column bare that is a word of SQL, with what to do."""
    bare_words = {word.lower() for word in re.findall(r"\"[^\"]*\"|'[^']*'|\w+", text)}
    found = [
        name
        for name in names
        if name.lower() in bare_words and name.isidentifier() and is_sql_word(name)
    ]
    if not found:
        return error
    said = str(error)
    return QueryError(
        said
        + ("\n" if "\n" in said else " ")
        + f"'{found[0]}' is a word of SQL: as the name of a column it needs double quotes, "
        f"{quoted(found[0])}."
    )


def read_constant(tree: Tree) -> Any:
    tree = bare(tree)
    if isinstance(tree, exp.Null):
        return None
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    if isinstance(tree, exp.Literal):
        return str(tree.this) if tree.is_string else _numeral(str(tree.this))
    if isinstance(tree, exp.Neg):
        inner = read_constant(tree.this)
        if isinstance(inner, int | float) and not isinstance(inner, bool):
            return -inner
    if (
        isinstance(tree, exp.Cast)
        and isinstance(bare(tree.this), exp.Literal)
        and tree.to.is_type("date", "time", "timestamp", "datetime")
    ):
        return str(bare(tree.this).this)
    if isinstance(tree, exp.Column) and not tree.table:
        raise QueryError(
            f"'{tree.name}' is not a constant. Write text in single quotes: '{tree.name}'."
        )
    raise QueryError(
        f"'{shown(tree)}' is not a constant. Compare with a number, or with text or a date in "
        f"single quotes."
    )


def _numeral(text: str) -> Number:
    if len(text) > 60:
        raise QueryError("A number in the query has more than 60 digits.")
    try:
        return int(text)
    except ValueError:
        pass
    try:
        value = float(text)
    except ValueError:
        raise QueryError(f"'{text}' is not a number.") from None
    if not math.isfinite(value):
        raise QueryError(f"The number {text} is too large.")
    return value


def read_number(axis: Axis, constant: Any) -> Number:
    if axis.kind in CALENDAR:
        moment = read_bound(axis.kind, constant) if isinstance(constant, str) else None
        if moment is None:
            raise QueryError(
                f"Column '{axis.name}' holds {WORDS[axis.kind]}; write one as "
                f"'{EXAMPLES[axis.kind]}', not {constant!r}."
            )
        return number_of(moment)
    if isinstance(constant, str):
        try:
            constant = _numeral(constant.strip())
        except QueryError:
            raise QueryError(
                f"Column '{axis.name}' holds numbers; '{constant[:60]}' is not one."
            ) from None
    if isinstance(constant, bool):
        raise QueryError(
            f"Column '{axis.name}' holds numbers; compare it with a number, not with "
            f"{str(constant).lower()}."
        )
    return cast(Number, constant)


def comparison_intervals(kind: KindOfTree, value: Number, real: bool) -> tuple[Interval, ...]:
    """The half-open intervals on which a comparison with `value` holds."""
    if real:
        if abs(value) > 1e308:
            raise QueryError("A number in the query is too large for a real column.")
        start: Number = float(value)
        stop: Number = math.nextafter(start, math.inf)
    else:
        # of whole numbers, those at or after the constant, and those after it
        start, stop = math.ceil(value), math.floor(value) + 1
    cases: dict[KindOfTree, Sequence[Interval]] = {
        exp.LT: [(None, start)],
        exp.LTE: [(None, stop)],
        exp.GT: [(stop, None)],
        exp.GTE: [(start, None)],
        exp.EQ: [(start, stop)] if start < stop else [],
        exp.NEQ: [(None, start), (stop, None)],
    }
    return tuple(cases[kind])


def level_code(axis: Axis, constant: Any) -> int:
    codes = {level: code for code, level in enumerate(axis.levels)}
    if isinstance(constant, bool):
        texts = [str(constant).lower()]
    elif isinstance(constant, str):
        texts = [constant, constant.strip()] + (
            [constant.strip().lower()] if axis.kind == "boolean" else []
        )
    else:
        texts = [str(constant)] + ([str(int(constant))] if float(constant).is_integer() else [])
    for level, label in axis.wording.labels.items():
        codes.setdefault(label, codes[level])
    for text in texts:
        if text in codes:
            return codes[text]
    folded = [level for level in axis.levels if level.lower() == texts[0].lower()]
    hint = f" Did you mean '{folded[0]}'?" if folded else did_you_mean(texts[0], axis.levels)
    some = ", ".join(axis.levels[:12]) + (", ..." if len(axis.levels) > 12 else "")
    raise QueryError(f"Column '{axis.name}' has no level '{texts[0][:60]}'.{hint} Levels: {some}.")
