"""The predicate language: a SQL WHERE expression over the columns of a release.

    age >= 40 and income = '>50K'          "education-num" between 9 and 12
    workclass in ('Private', 'Gov')        born < '2000-01-31'
    not (sex = 'Male' or age < 30)         workclass is null

`parse_predicate` turns the text into a tree of `And`, `Or` and `Leaf` nodes without `not`: it is
pushed into the leaves, which carry SQL's three truth values (a missing value makes a comparison
unknown, and so does its negation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import sqlglot
from numpy.typing import NDArray
from sqlglot import exp

from dpublish.declare.calendar import CALENDAR
from dpublish.declare.columns import MISSING, OTHER
from dpublish.declare.domain import Domain
from dpublish.errors import QueryError, did_you_mean
from dpublish.query.constants import (
    Interval,
    KindOfTree,
    Tree,
    bare,
    comparison_intervals,
    level_code,
    parser_quiet,
    quoted,
    read_constant,
    read_number,
    shown,
    with_words_of_sql,
)

Truth = bool | None

MAX_TEXT = 100_000
MAX_DEPTH = 150


@dataclass(frozen=True, eq=False)
class Leaf:
    """A test of one column.

    Numeric columns list the half-open `intervals` where it holds, other columns the `codes` (one
    flag a declared level). `other` and `missing` are its truth for those two codes; None is SQL's
    unknown. `negated` swaps true and false.
    """

    axis: int
    intervals: tuple[Interval, ...] = ()
    codes: NDArray[np.bool_] | None = None
    other: Truth = None
    missing: Truth = None
    negated: bool = False


@dataclass(frozen=True, eq=False)
class Plane:
    """A weighted sum of numeric columns that is at least `bound`, or above it where it is
    `strict`. A row without a value in one of them does not meet it, nor its negation."""

    axes: tuple[int, ...]
    weights: tuple[float, ...]
    bound: float
    strict: bool

    def negated(self) -> Plane:
        return replace(
            self,
            weights=tuple(-weight for weight in self.weights),
            bound=-self.bound,
            strict=not self.strict,
        )


@dataclass(frozen=True, eq=False)
class And:
    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class Or:
    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Constant:
    holds: bool


Node = Leaf | Plane | And | Or | Constant


def parse_predicate(text: str | Node, domain: Domain, *, planes: bool = False) -> Node:
    """Read a predicate, unless it is read already; `QueryError` says what is wrong and where. With
    `planes`, comparisons of weighted sums such as "2 * age + weight >= 150" are read as well."""
    if isinstance(text, Node):
        return text
    try:
        return _Reader(domain, planes=planes).read(parse_sql(text), negated=False, depth=0)
    except QueryError as error:
        raise with_words_of_sql(error, str(text), domain.names) from None


def parse_sql(text: str, *, example: str = "age >= 40 and income = '>50K'") -> Tree:
    """sqlglot's tree of a text, or a `QueryError` with a caret under the mistake, or with an
    example where there is none."""
    if not isinstance(text, str):
        raise QueryError(f"A query must be text, not {type(text).__name__}.")
    if not text.strip():
        raise QueryError(f"The query is empty. Write for example: {example}.")
    if len(text) > MAX_TEXT:
        raise QueryError(f"The query has {len(text)} characters; at most {MAX_TEXT} are read.")
    try:
        with parser_quiet():
            trees = sqlglot.parse(text, dialect="postgres")
    except sqlglot.errors.ParseError as error:
        raise QueryError(_syntax_message(text, error)) from None
    except sqlglot.errors.SqlglotError as error:
        raise QueryError(f"The query cannot be read: {str(error).splitlines()[0][:200]}") from None
    except RecursionError:
        raise QueryError("The query is nested too deeply.") from None
    # the parser meets odd text with odd exceptions; none of them is the reader's business
    except Exception as error:
        raise QueryError(f"The query cannot be read ({type(error).__name__}).") from None
    if len(trees) != 1 or trees[0] is None:
        raise QueryError("Give one query, without ';' in it.")
    return trees[0]


def parse_select(text: str, names: Iterable[str]) -> Tree:
    """The same for a whole query over columns of these names."""
    try:
        return parse_sql(text, example="select income, count(*) from release group by income")
    except QueryError as error:
        raise with_words_of_sql(error, str(text), names) from None


def _syntax_message(text: str, error: sqlglot.errors.ParseError) -> str:
    found = error.errors[0] if error.errors else {}
    line, column = found.get("line"), found.get("col")
    what = str(found.get("description") or "it is not a condition").rstrip(".")
    if what.startswith("Required keyword"):
        what = f"something is missing after '{found.get('highlight')}'"
    lines = text.splitlines()
    if not isinstance(line, int) or not isinstance(column, int) or not 1 <= line <= len(lines):
        return f"The query does not parse: {what}."
    shown = lines[line - 1]
    highlight = str(found.get("highlight") or "")
    at = max(0, min(column - max(1, len(highlight)), len(shown)))
    start = max(0, at - 60)
    return (
        f"The query does not parse: {what}.\n  {shown[start : start + 120]}\n  "
        f"{' ' * (at - start)}^"
    )


_FLIPPED: dict[KindOfTree, KindOfTree] = {
    exp.LT: exp.GT,
    exp.GT: exp.LT,
    exp.LTE: exp.GTE,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_SIGNS: dict[KindOfTree, str] = {
    exp.LT: "<",
    exp.GT: ">",
    exp.LTE: "<=",
    exp.GTE: ">=",
    exp.EQ: "=",
    exp.NEQ: "!=",
}
_KNOWN_ARGUMENTS = {
    "this",
    "expression",
    "expressions",
    "low",
    "high",
    "negate",
    "table",
    "query",
    "unnest",
    "field",
}


class _Reader:
    def __init__(self, domain: Domain, *, planes: bool = False) -> None:
        self.domain, self.planes = domain, planes
        self.position = {name: index for index, name in enumerate(domain.names)}

    def read(self, tree: Tree, *, negated: bool, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise QueryError(f"The predicate is nested more than {MAX_DEPTH} levels deep.")
        if isinstance(tree, exp.Paren):
            return self.read(tree.this, negated=negated, depth=depth + 1)
        if isinstance(tree, exp.Not):
            return self.read(tree.this, negated=not negated, depth=depth + 1)
        if isinstance(tree, exp.And | exp.Or):
            parts = tuple(
                self.read(part, negated=negated, depth=depth + 1) for part in _chain(tree)
            )
            return And(parts) if isinstance(tree, exp.And) != negated else Or(parts)
        if isinstance(tree, exp.Boolean):
            return Constant(bool(tree.this) != negated)
        try:
            leaf = self._leaf(tree)
        except QueryError as error:
            plane = self._plane(tree) if self.planes else None
            if plane is None:
                raise error from None
            return plane.negated() if negated else plane
        return replace(leaf, negated=leaf.negated != (negated != bool(tree.args.get("negate"))))

    def _plane(self, tree: Tree) -> Plane | None:
        """A comparison of weighted sums; None where it is none."""
        from dpublish.query.linear_condition import linear_condition

        kinds = {axis.name: axis.kind for axis in self.domain.axes if axis.numeric}
        try:
            found = linear_condition(tree, kinds)
        except QueryError:
            return None
        used = {self.position[name]: weight for name, weight in found.weights.items() if weight}
        if len(used) == 1 and self.domain.axes[next(iter(used))].kind in CALENDAR:
            return None  # a day or a time beside a number: what was said of it stands
        return Plane(tuple(used), tuple(used.values()), found.bound, found.strict)

    def _leaf(self, tree: Tree) -> Leaf:
        strange = [key for key, value in tree.args.items() if value and key not in _KNOWN_ARGUMENTS]
        if strange:
            raise QueryError(
                f"'{shown(tree)}' uses '{strange[0]}', which is not part of the predicate language."
            )
        if isinstance(tree, exp.Column):
            index = self._column(tree)
            if self.domain.axes[index].kind != "boolean":
                raise QueryError(
                    f"'{tree.name}' alone is not a condition. Compare it with something, as in: "
                    f"{tree.name} = ..."
                )
            return self._compare(index, exp.EQ, exp.Boolean(this=True))
        if type(tree) in _FLIPPED:
            return self._comparison(tree)
        if isinstance(tree, exp.Between):
            index = self._column(tree.this)
            lower = self._compare(index, exp.GTE, tree.args["low"])
            return _meet(lower, self._compare(index, exp.LTE, tree.args["high"]))
        if isinstance(tree, exp.In):
            return self._member(tree)
        if isinstance(tree, exp.Is):
            return self._is(tree)
        raise QueryError(
            f"'{shown(tree)}' is not part of the predicate language. "
            "Use = != < <= > >= in, between, is null, and, or, not, with a column on one side and "
            "a constant on the other."
        )

    def _comparison(self, tree: Tree) -> Leaf:
        left, right, kind = bare(tree.this), bare(tree.args["expression"]), type(tree)
        if isinstance(left, exp.Column) and isinstance(right, exp.Column) and self._is_name(right):
            raise QueryError(
                f"'{shown(tree)}' compares two columns. A predicate compares a column with a "
                f"constant."
            )
        if not isinstance(left, exp.Column) or (
            isinstance(right, exp.Column) and not self._is_name(left)
        ):
            left, right, kind = right, left, _FLIPPED[kind]
        if not isinstance(left, exp.Column):
            for node in tree.find_all(exp.Sub):
                # a name such as education-num reads as a subtraction unless it is quoted
                written = shown(node).replace(" ", "")
                if written in self.position:
                    raise QueryError(f'Names with signs in them need double quotes: "{written}".')
            formula = left if left.find(exp.Column) else right
            if formula.find(exp.Column):  # functions, cases and sums over a column
                raise QueryError(
                    f"'{shown(formula)}' computes something from a column. A predicate compares a "
                    "column as it is with a constant; list the values with in (...), or their "
                    "range with between."
                )
            raise QueryError(
                f"'{shown(tree)}' names no column. Write a column on one side and a constant on "
                f"the other."
            )
        return self._compare(self._column(left), kind, right)

    def _is_name(self, tree: Tree) -> bool:
        return isinstance(tree, exp.Column) and tree.name in self.position

    def _column(self, tree: Tree) -> int:
        tree = bare(tree)
        if not isinstance(tree, exp.Column) or isinstance(tree.this, exp.Star):
            raise QueryError(
                f"'{shown(tree)}' is not a column. Columns: {', '.join(self.domain.names[:40])}."
            )
        if tree.args.get("db") or (tree.table and tree.table != "release"):
            raise QueryError(
                f"'{shown(tree)}': there is one table, release. Write the column's name alone."
            )
        name = tree.name
        if name in self.position:
            return self.position[name]
        folded = [known for known in self.domain.names if known.lower() == name.lower()]
        if len(folded) == 1:
            return self.position[folded[0]]
        raise QueryError(
            f"There is no column '{name[:80]}'.{did_you_mean(name, self.domain.names)} Columns: "
            f"{', '.join(self.domain.names[:40])}."
        )

    def _is(self, tree: Tree) -> Leaf:
        index = self._column(tree.this)
        what = tree.args["expression"]
        if isinstance(what, exp.Boolean):
            leaf = self._compare(index, exp.EQ, what)
            # "is true" is never unknown
            return replace(leaf, other=bool(leaf.other), missing=False)
        if not isinstance(what, exp.Null):
            raise QueryError(f"'{shown(tree)}': only 'is null' and 'is not null' are known.")
        axis = self.domain.axes[index]
        codes = None if axis.numeric else np.zeros(axis.base, dtype=np.bool_)
        return Leaf(axis=index, codes=codes, other=False, missing=True)

    def _member(self, tree: Tree) -> Leaf:
        index = self._column(tree.this)
        values = tree.args.get("expressions")
        if not values or any(
            tree.args.get(key) is not None for key in ("query", "unnest", "field")
        ):
            raise QueryError(
                f"'{shown(tree)}': list constants in parentheses, as in: x in ('a', 'b')."
            )
        leaves = [self._compare(index, exp.EQ, value) for value in values]
        codes = [leaf.codes for leaf in leaves if leaf.codes is not None]
        return Leaf(
            axis=index,
            intervals=tuple(i for leaf in leaves for i in leaf.intervals),
            codes=np.any(codes, axis=0) if codes else None,
            other=True if any(leaf.other for leaf in leaves) else leaves[0].other,
            missing=None,
        )

    def _compare(self, index: int, kind: KindOfTree, value: Tree) -> Leaf:
        axis = self.domain.axes[index]
        constant = read_constant(value)
        if constant is None:
            raise QueryError(
                f"A comparison with null is never true. Use: {quoted(axis.name)} is null."
            )
        if constant == MISSING and MISSING not in axis.levels:
            raise QueryError(f"Missing values are asked for with: {quoted(axis.name)} is null.")
        if constant == OTHER and axis.other and OTHER not in axis.levels:
            return self._other(index, kind)
        if axis.numeric:
            return Leaf(
                axis=index,
                intervals=comparison_intervals(
                    kind, read_number(axis, constant), axis.kind == "real"
                ),
            )
        code = level_code(axis, constant)
        codes = np.zeros(axis.base, dtype=np.bool_)
        if kind in (exp.EQ, exp.NEQ):
            codes[code] = True
            return Leaf(axis=index, codes=codes, other=False, negated=kind is exp.NEQ)
        if axis.kind != "ordinal":
            raise QueryError(
                f"Column '{axis.name}' is {axis.kind}, so its levels have no order and "
                f"'{_SIGNS[kind]}' has no meaning. "
                "Use = != or in."
            )
        ends: dict[KindOfTree, slice] = {
            exp.LT: slice(code),
            exp.LTE: slice(code + 1),
            exp.GT: slice(code + 1, None),
            exp.GTE: slice(code, None),
        }
        codes[ends[kind]] = True
        return Leaf(axis=index, codes=codes)

    def _other(self, index: int, kind: KindOfTree) -> Leaf:
        axis = self.domain.axes[index]
        if kind not in (exp.EQ, exp.NEQ):
            raise QueryError(f"'{OTHER}' of column '{axis.name}' has no order. Use = or !=.")
        codes = None if axis.numeric else np.zeros(axis.base, dtype=np.bool_)
        return Leaf(axis=index, codes=codes, other=True, negated=kind is exp.NEQ)


def _chain(tree: Tree) -> list[Tree]:
    """The operands of a run of the same connective, left to right, without recursion (long lists
    are left-deep)."""
    kind, parts, stack = type(tree), [], [tree]
    while stack:
        node = stack.pop()
        if type(node) is kind:
            stack += [node.args["expression"], node.this]
        else:
            parts.append(node)
    return parts


def _meet(first: Leaf, second: Leaf) -> Leaf:
    """Both tests of one column at once (between)."""
    if first.codes is not None and second.codes is not None:
        return replace(first, codes=first.codes & second.codes)
    (low, _), (_, high) = first.intervals[0], second.intervals[0]
    empty = low is not None and high is not None and low >= high
    return replace(first, intervals=() if empty else ((low, high),))


def columns_of(node: Node) -> frozenset[int]:
    """Which axes a predicate looks at."""
    if isinstance(node, Leaf):
        return frozenset({node.axis})
    if isinstance(node, Plane):
        return frozenset(node.axes)
    if isinstance(node, Constant):
        return frozenset()
    return frozenset().union(*(columns_of(part) for part in node.parts))
