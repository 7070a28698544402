"""Counting in a database: `GROUP BY` instead of moving rows.

A code can be said in SQL where it follows from comparisons with declared edges and look-ups of
declared levels, and the type of the column leaves no doubt what a cell is; the tables that decide
it are those of the encoder. Each distinct row of codes then comes to this machine once, with its
number. Whatever cannot be said so is read row by row as from any other source: texts of numbers,
types of a server's own, bounded rows of a unit (their choice is a keyed hash), baskets.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.arrays import Ints, Words
from dpublish.counting.bound import unpack_codes, word_columns
from dpublish.counting.cells import TableCounter, Threads
from dpublish.counting.engines.local import Local
from dpublish.counting.points import point_codes
from dpublish.declare.calendar import CALENDAR, FIRST, LAST, spelled
from dpublish.declare.domain import Domain
from dpublish.declare.encode import EXACT_WHOLE, CodeArray, CodeRule, Encoder, code_dtype
from dpublish.declare.schema import Schema
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.declare.statistic import (
    CellCounts,
    CodedRows,
    ContingencyTables,
    GridPoints,
    SparseCounts,
    Statistic,
    TableCounts,
    Tabulation,
)
from dpublish.sources.databases import (
    BOOLEAN,
    DATE,
    DECIMAL,
    DOUBLE,
    ROWS,
    SINGLE,
    TEXT,
    TIME,
    WHOLE,
    SqlRows,
    Template,
)
from dpublish.sources.texts import LONGEST_TEXT, UNREADABLE

MAX_LEAVES = 1 << 12
"""Declared levels or bins of one column that are written into a query."""

_INTEGER = re.compile(r"[+-]?[0-9]+")

COUNT = "n_rows"


class Sql(Local):
    """Asks the database for counts of codes, and for rows where it must."""

    source: SqlRows

    @classmethod
    def place(cls, statistic: Statistic, source: Any, schema: Schema) -> str:
        reason = why_read(statistic, source, schema)
        if reason is None:
            return "Rows are counted in the database (GROUP BY); none leaves it."
        return f"Rows are read from the database and counted here: {reason}."

    def cells(self, domain: Domain) -> SparseCounts:
        if why_read(CellCounts(domain), self.source, self.schema) is not None:
            return super().cells(domain)
        every = range(len(domain.axes))
        return _summed([(words[:, 0], n) for words, n in self._words(domain, every, {})])

    def tables(self, asked: ContingencyTables) -> TableCounts:
        domain = asked.domain
        if why_read(asked, self.source, self.schema) is not None:
            return super().tables(asked)
        used, shape = sorted({place for table in asked.tables for place in table}), asked.shape
        with Threads() as threads:
            out = TableCounter(asked, threads).finish()  # all zeros
        narrow = [shape[place] for place in used]
        for words, n in self._words(domain, used, asked.groups):
            codes = dict(zip(used, unpack_codes(words, narrow), strict=True))
            for table, counts in out.tables.items():
                cell = np.zeros(n.size, dtype=np.int64)
                for place in table:
                    cell = cell * shape[place] + codes[place].astype(np.int64)
                np.add.at(counts.reshape(-1), cell, n)
        return out

    def rows(self, domain: Domain) -> list[CodeArray]:
        if why_read(CodedRows(domain), self.source, self.schema) is not None:
            return super().rows(domain)
        found = list(self._words(domain, range(len(domain.axes)), {}))
        width = max(1, len(word_columns(domain.shape)))
        words = np.concatenate([w for w, _ in found] or [np.empty((0, width), dtype=np.uint64)])
        n = np.concatenate([n for _, n in found] or [np.empty(0, dtype=np.int64)])
        order = np.lexsort(words.T[::-1])  # as a cluster hands them over: by what they say
        codes = zip(unpack_codes(words[order], domain.shape), domain.shape, strict=True)
        return [
            cast(CodeArray, np.repeat(column.astype(code_dtype(size)), n[order]))
            for column, size in codes
        ]

    def points(self, asked: GridPoints) -> SparseCounts:
        """Cells that are equal in the database have one position: it is found here, once each."""
        if why_read(asked, self.source, self.schema) is not None:
            return super().points(asked)
        pieces = []
        names = [grid.name for grid in asked.shape.grids]
        places = {f"v{place}": name for place, name in enumerate(names)}
        for cells in self.source.selected(_Query(self.source.dialect).of_cells(names), places):
            n = cells.get_column(COUNT).cast(pl.Int64).to_numpy()
            codes, keep = point_codes(cells.drop(COUNT).rename(places), asked)
            pieces.append((codes, n if keep is None else n[keep]))
        return _summed(pieces)

    def _words(
        self, domain: Domain, used: Sequence[int], groups: Mapping[int, Ints]
    ) -> Iterator[tuple[Words, Ints]]:
        """The distinct rows of codes of some columns, packed into words, and how many rows have
        each; of those rows that no column of the domain drops."""
        query = _Query(self.source.dialect)
        encoder, places = Encoder(domain), {}
        for place, name in enumerate(domain.names):
            rule = encoder.rule(place)
            if place in used or None in rule.codes:
                leaves = _leaves(rule, groups.get(place), wanted=place in used)
                places[place] = query.add(name, self.source.types[name], rule, leaves)
        sizes = [
            int(groups[place].max()) + 1 if place in groups else domain.shape[place]
            for place in used
        ]
        words = [
            [(places[used[column]], sizes[column]) for column in members]
            for members in word_columns(sizes)
        ]
        for found in self.source.selected(query.of_words(words), ()):
            columns = [found.get_column(f"w{i}").to_numpy() for i in range(len(words))]
            packed = np.column_stack(columns).astype(np.int64).view(np.uint64)
            yield packed, found.get_column(COUNT).to_numpy().astype(np.int64)


def why_read(statistic: Statistic, source: SqlRows, schema: Schema) -> str | None:
    """Why rows must be read, from public facts; None where the database can count."""
    if not source.counts:
        return "that was asked for, or is faster since the database runs in this process"
    if schema.unit.column is not None:
        return "which rows of a unit are kept is chosen by a keyed hash"
    if schema.rules:
        return "rows that break a declared rule are left out, each by itself"
    if isinstance(statistic, GridPoints):
        return next(
            (
                f"column '{grid.name}' has a position for every number"
                for grid in statistic.shape.grids
                if source.types.get(grid.name) not in (WHOLE, DATE)
            ),
            None,
        )
    if isinstance(statistic, CodedRows) and statistic.ordered:
        return "rows are added up one by one, and groups have no order"
    if not isinstance(statistic, CellCounts | CodedRows | ContingencyTables | Tabulation):
        return "what is asked for is no count of codes"
    encoder = Encoder(statistic.domain)
    for place, name in enumerate(statistic.domain.names):
        reason = _unsaid(encoder.rule(place), source.types.get(name))
        if reason is not None:
            return f"column '{name}': {reason}"
    return None


def _unsaid(rule: CodeRule, kind: str | None) -> str | None:
    """Why the codes of a column of this type cannot be said; None where they can."""
    axis = rule.axis
    if kind is None:
        return "its type has no counterpart here"
    if kind == BOOLEAN:
        return None
    if max(len(axis.edges), len(rule.words)) > MAX_LEAVES:
        return f"it has more than {MAX_LEAVES:,} levels or bins"
    if axis.kind == "date":
        return None if kind in (DATE, TIME) else "its dates are not stored as dates"
    if axis.kind == "time":
        return "times of day are read here: a server's day has a 24:00 that Python's has not"
    if axis.kind == "timestamp":
        return None if kind == TIME else "its timestamps are not stored as such, without a zone"
    if axis.numeric:
        if kind not in (WHOLE, DOUBLE, SINGLE, DECIMAL):
            return "its numbers are not stored as numbers"
        exact = axis.kind == "real" or max(abs(edge) for edge in axis.edges) <= EXACT_WHOLE
        return None if exact or kind == WHOLE else "its bounds are beyond what doubles hold"
    if kind == TEXT:
        both = any(re.match(ZERO_FRACTION, word) for word in rule.words)
        return "a level ends in .0, which other texts drop" if both else None
    return None if kind in (WHOLE, DOUBLE) else "its levels are not stored as text"


Leaves = Sequence[exp.Expression]
"""The code of each slot as a constant: NULL where the row is dropped."""


def _leaves(rule: CodeRule, groups: Ints | None, *, wanted: bool) -> Leaves:
    """Codes, or their groups; where none are wanted, whether there is one."""
    return [
        exp.Null()
        if code is None
        else exp.Literal.number(0 if not wanted else code if groups is None else int(groups[code]))
        for code in rule.codes
    ]


class _Query:
    """A query over the rows, from the inside out: texts are prepared, then columns are coded, then
    packed and counted. PostgreSQL works an expression out anew wherever it stands unless it is told
    to finish the inner part first."""

    def __init__(self, dialect: str) -> None:
        self._dialect = dialect
        self._fence = " OFFSET 0" if dialect == "postgres" else ""
        self._cells: list[exp.Expression] = []
        self._texts: list[exp.Expression] = []
        self._codes: list[exp.Expression] = []

    def of_cells(self, names: Sequence[str]) -> Template:
        chosen = ", ".join(f"{self._sql(_cell(name))} AS v{i}" for i, name in enumerate(names))
        groups = ", ".join(str(i + 1) for i in range(len(names)))
        return lambda rows: f"SELECT {chosen}, COUNT(*) AS {COUNT} FROM {rows} GROUP BY {groups}"

    def of_words(self, words: Sequence[Sequence[tuple[str, int]]]) -> Template:
        """`words` are columns of codes and their sizes, most significant first."""
        packed = []
        for place, members in enumerate(words):
            word = ""
            for name, size in members:
                code = f"CAST({name} AS BIGINT)"
                word = f"({word}) * {size} + {code}" if word else code
            packed.append(f"{word} AS w{place}")
        # under names of our own: those of the columns may be any
        cells = [f"{self._sql(cell)} AS v{i}" for i, cell in enumerate(self._cells)]
        cells += [f"{self._sql(text)} AS t{i}" for i, text in enumerate(self._texts)]
        codes = [f"{self._sql(code)} AS c{i}" for i, code in enumerate(self._codes)]
        kept = " AND ".join(f"c{i} IS NOT NULL" for i in range(len(codes)))
        groups = ", ".join(str(i + 1) for i in range(len(packed)))
        return lambda rows: (
            f"SELECT {', '.join(packed)}, COUNT(*) AS {COUNT} FROM (SELECT {', '.join(codes)} FROM "
            f"(SELECT {', '.join(cells)} FROM {rows}{self._fence}) AS prepared{self._fence}) AS "
            f"coded WHERE {kept} GROUP BY {groups}"
        )

    def add(self, name: str, kind: str, rule: CodeRule, leaves: Leaves) -> str:
        """What the codes of a column are called."""
        self._cells.append(_cell(name))
        cell: exp.Expression = exp.column(f"v{len(self._cells) - 1}")
        if kind == TEXT:
            body = self._text_codes(_cell(name), cell, rule, leaves)
        else:
            missing, axis = leaves[rule.missing], rule.axis
            body = exp.case().when(exp.Is(this=cell, expression=exp.Null()), missing)
            if kind in (DOUBLE, SINGLE, DECIMAL):
                cell = self._as_double(cell, kind)
                body = body.when(exp.EQ(this=cell, expression=_double(float("nan"))), missing)
            if kind == BOOLEAN:
                true, false = (leaves[_slot_of_truth(rule, truth)] for truth in (True, False))
                body = body.when(cell, true).else_(false)
            elif axis.kind in CALENDAR:
                body = body.else_(self._moment_codes(cell, kind, rule, leaves))
            elif axis.numeric:
                body = body.else_(_number_codes(cell, kind == WHOLE, rule, leaves))
            else:
                keys = (
                    [(exp.Literal.number(key), slot) for key, slot in rule.wholes.items()]
                    if kind == WHOLE
                    else [(_double(key), slot) for key, slot in rule.doubles.items()]
                )
                body = body.else_(_level_codes(cell, keys, rule, leaves))
        self._codes.append(body)
        return f"c{len(self._codes) - 1}"

    def _as_double(self, cell: exp.Expression, kind: str) -> exp.Expression:
        if kind == SINGLE and self._dialect == "postgres":  # as the driver reads it: by its text
            cell = exp.cast(cell, "text")
        return cell if kind == DOUBLE else exp.cast(cell, "double")

    def _text_codes(
        self, stored: exp.Expression, cell: exp.Expression, rule: CodeRule, leaves: Leaves
    ) -> exp.Case:
        """Texts are compared byte by byte, whatever order the database has."""
        postgres = self._dialect == "postgres"
        strip, to_bytes, to_text, length = (
            ("btrim", "convert_to", "convert_from", "octet_length")
            if postgres
            else ("trim", "encode", "decode", "strlen")
        )
        encoding = [exp.Literal.string("UTF8")] if postgres else []
        blanks = _call(to_text, self._bytes(BLANKS.encode()), *encoding)
        most = exp.Literal.number(LONGEST_TEXT)
        # what is too long is not worked on: a pattern over it would end the query
        fits = exp.LTE(this=_call(length, stored), expression=most)
        text: exp.Expression = _call(strip, exp.case().when(fits, stored), blanks)
        if any(_INTEGER.fullmatch(word) for word in rule.words):
            text = self._without_zero_fraction(text)
        self._texts.append(_call(to_bytes, text, *encoding))
        value = exp.column(f"t{len(self._texts) - 1}")
        ordered = sorted((word.encode(), slot) for word, slot in rule.words.items())
        keys = [(self._bytes(word), slot) for word, slot in ordered]
        too_long = exp.GT(this=_call(length, cell), expression=most)
        return (
            exp.case()
            .when(too_long, leaves[rule.words.get(UNREADABLE, rule.above)])
            .when(exp.Is(this=value, expression=exp.Null()), leaves[rule.missing])
            .when(exp.EQ(this=value, expression=self._bytes(b"")), leaves[rule.missing])
            .else_(_level_codes(value, keys, rule, leaves))
        )

    def _without_zero_fraction(self, text: exp.Expression) -> exp.Expression:
        pattern = exp.Literal.string(ZERO_FRACTION.replace(r"\.", "[.]"))
        shorter = (
            _call("coalesce", _call("substring", text, pattern), text)
            if self._dialect == "postgres"
            else _call("regexp_replace", text, pattern, exp.Literal.string(r"\1"))
        )
        mark = _call("strpos", text, exp.Literal.string(".0"))
        may = exp.GT(this=mark, expression=exp.Literal.number(0))
        return exp.case().when(may, shorter).else_(text)

    def _moment_codes(
        self, cell: exp.Expression, kind: str, rule: CodeRule, leaves: Leaves
    ) -> exp.Expression:
        """Days and times are compared with the first moment of a day or a second, moved into the
        years that Python has where reading them does so."""
        of, name = rule.axis.kind, "date" if kind == DATE else "timestamp"
        first, last = (_moment(of, end, name) for end in (FIRST[of], LAST[of]))
        moved = kind == TIME or self._dialect == "postgres"
        if moved:
            cell = _call("greatest", _call("least", cell, last), first)
        edges = [int(edge) for edge in rule.axis.edges]
        if edges[-1] <= LAST[of]:
            keys = [_moment(of, edge, name) for edge in edges]
            return _tree(cell, keys, leaves[: rule.missing])
        # what comes after the last day or second has no name
        keys = [_moment(of, edge, name) for edge in edges[:-1]]
        inside = _tree(cell, keys, leaves[: rule.above])
        beyond = exp.GT(this=cell, expression=last)
        return inside if moved else exp.case().when(beyond, leaves[rule.above]).else_(inside)

    def _bytes(self, content: bytes) -> exp.Expression:
        """Bytes without a mark that some setting of a server reads as something else."""
        digits = exp.Literal.string(content.hex())
        if self._dialect == "postgres":
            return _call("decode", digits, exp.Literal.string("hex"))
        return _call("unhex", digits)

    def _sql(self, expression: exp.Expression) -> str:
        return expression.sql(dialect=self._dialect, comments=False)


def _call(function: str, *arguments: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=function, expressions=list(arguments))


def _cell(name: str) -> exp.Expression:
    return exp.column(name, table=ROWS, quoted=True)


def _slot_of_truth(rule: CodeRule, truth: bool) -> int:
    axis = rule.axis
    if axis.kind in CALENDAR:
        return rule.missing
    if not axis.numeric:
        return rule.words.get("true" if truth else "false", rule.above)
    last = axis.kind == "real" and truth == axis.edges[-1]
    return axis.base if last else bisect_right(axis.edges, int(truth))


def _number_codes(
    cell: exp.Expression, whole: bool, rule: CodeRule, leaves: Leaves
) -> exp.Expression:
    edges = rule.axis.edges
    if rule.axis.kind != "real":
        keys = [exp.Literal.number(int(edge)) if whole else _double(edge) for edge in edges]
        return _tree(cell, keys, leaves[: rule.missing])
    value = exp.cast(cell, "double") if whole else cell
    inside = _tree(value, [_double(edge) for edge in edges[:-1]], leaves[: rule.above])
    # the last bin includes its upper edge
    beyond = exp.GT(this=value, expression=_double(edges[-1]))
    return exp.case().when(beyond, leaves[rule.above]).else_(inside)


def _level_codes(
    value: exp.Expression,
    keys: Sequence[tuple[exp.Expression, int]],
    rule: CodeRule,
    leaves: Leaves,
) -> exp.Expression:
    """The code of the one key that a value equals; keys ascend."""
    if not keys:
        return leaves[rule.above]
    middle = len(keys) // 2
    if middle == 0:
        same = exp.EQ(this=value, expression=keys[0][0])
        return exp.case().when(same, leaves[keys[0][1]]).else_(leaves[rule.above])
    return (
        exp.case()
        .when(
            exp.LT(this=value, expression=keys[middle][0]),
            _level_codes(value, keys[:middle], rule, leaves),
        )
        .else_(_level_codes(value, keys[middle:], rule, leaves))
    )


def _tree(value: exp.Expression, keys: Leaves, leaves: Leaves) -> exp.Expression:
    """Leaf i of a value that is at or above i of the ascending keys, by halving."""
    if all(left == right for left, right in pairwise(leaves)):
        return leaves[0]
    middle = len(keys) // 2
    return (
        exp.case()
        .when(
            exp.LT(this=value, expression=keys[middle]),
            _tree(value, keys[:middle], leaves[: middle + 1]),
        )
        .else_(_tree(value, keys[middle + 1 :], leaves[middle + 1 :]))
    )


def _double(value: float) -> exp.Expression:
    return exp.cast(exp.Literal.string(repr(float(value))), "double")


def _moment(kind: str, number: int, type_name: str) -> exp.Expression:
    return exp.cast(exp.Literal.string(spelled(kind, number)), type_name)


def _summed(pieces: Sequence[tuple[NDArray[np.uint64], Ints]]) -> SparseCounts:
    """Counts of cells from pieces in which a cell may occur more than once."""
    if not pieces:
        return SparseCounts.none()
    cells, counts = zip(*pieces, strict=True)
    return SparseCounts.summed(np.concatenate(cells), np.concatenate(counts))
