"""Graphs, demand, elements and agents: how solvers get their private numbers from rows, and readers
of public structures.

A row is an edge (two columns), a demand point or an element (one column), or an agent (a list of
names, or a row). What a row names is looked up in the public names; a row that names something else
is dropped, as a row of a table outside its domain would be. Nothing is ever said about how many
were. So whatever a public name may be, some row must be able to name it: how a text is cut into
names follows from the public names, and a name that a kind of file cannot write is refused before
the debit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.arrays import Ints
from dpublish.counting.bound import Progress, reported
from dpublish.declare.encode import EXACT_WHOLE, as_text
from dpublish.declare.schema import Schema
from dpublish.declare.spelling import BLANKS, ZERO_FRACTION
from dpublish.errors import InputError, PlanError
from dpublish.methods.solvers.inputs import (
    AgentLists,
    AgentRows,
    Edges,
    GraphEdges,
    Labels,
    Lists,
    PresentItems,
    cut_pattern,
    edges_of,
    list_marks,
    names_of,
)
from dpublish.privacy.cost import exact
from dpublish.sources.files import existing_file, stamp_of, text_lines
from dpublish.sources.objects import rounded_wholes, series_from_objects, spelled_floats
from dpublish.sources.sources import Source, open_source
from dpublish.sources.texts import decoded

Shape = Literal["edges", "items", "lists"]
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf")
_PLAIN = (".txt", ".txt.gz", ".edges", ".edges.gz", ".dat", ".dat.gz")
COMMENT = re.compile(r"(?:^|\s)#")
"""Where a comment starts in a plain file."""
_WIDTH = {"edges": 2, "items": 1, "lists": 1}
_NAMES = {"edges": ("source", "target"), "items": ("item",), "lists": ("items",)}


def compute(
    statistic: GraphEdges | PresentItems | AgentLists | AgentRows,
    source: Source,
    schema: Schema,
    *,
    key: bytes,
    progress: Progress | None = None,
) -> Any:
    """The exact private numbers that a solver asked for."""
    if isinstance(statistic, AgentRows):
        frames = reported(source.batches(list(statistic.columns)), progress)
        return [row for frame in frames for row in _plain_rows(frame)]
    columns = list(source.columns())[: 2 if isinstance(statistic, GraphEdges) else 1]
    frames = reported(source.batches(columns), progress)
    if isinstance(statistic, GraphEdges):
        return _edges(frames, columns, statistic)
    if isinstance(statistic, PresentItems):
        counts = np.zeros(statistic.size, dtype=np.int64)
        for frame in frames:
            part = item_numbers(frame.get_column(columns[0]), statistic.size, statistic.labels)
            counts += np.bincount(part[part >= 0], minlength=statistic.size)
        return np.minimum(counts, 1) if statistic.distinct else counts
    return _lists(frames, columns[0], statistic)


def _edges(frames: Iterable[pl.DataFrame], columns: Sequence[str], statistic: GraphEdges) -> Edges:
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for frame in frames:
        ends = np.column_stack(
            [
                item_numbers(frame.get_column(name), statistic.size, statistic.labels)
                for name in columns
            ]
        )
        pairs.append(ends[(ends >= 0).all(axis=1)])
    return edges_of(np.concatenate(pairs))


def _lists(frames: Iterable[pl.DataFrame], column: str, statistic: AgentLists) -> Lists:
    sizes, items = [np.zeros(1, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for frame in frames:
        series = frame.get_column(column)
        if series.dtype in (pl.String, pl.Binary, pl.Categorical, pl.Enum):
            series = (
                spelled(series)
                .str.replace_all(cut_pattern(list_marks(statistic.labels)), "\t")
                .str.split("\t")
            )
        elif not isinstance(
            series.dtype, pl.List
        ):  # a value that is no text is one name, as in a column of objects
            series = spelled(series).reshape((-1, 1)).arr.to_list()
        rows = pl.DataFrame({"row": np.arange(len(series)), "item": series}).explode("item")
        numbers = item_numbers(rows.get_column("item"), statistic.size, statistic.labels)
        owner = rows.get_column("row").to_numpy()[numbers >= 0]
        # each agent names a resource once, however often it is written
        code = np.unique(owner * statistic.size + numbers[numbers >= 0])
        sizes.append(np.bincount(code // statistic.size, minlength=len(series)).astype(np.int64))
        items.append(code % statistic.size)
    return Lists(np.cumsum(np.concatenate(sizes)), np.concatenate(items))


def spelled(values: pl.Series) -> pl.Series:
    """Text of each cell, by the cell alone.

    One missing or fractional cell turns a column of integers into floats, so a float that is a
    whole number is spelled as one.
    """
    if values.dtype == pl.Binary:  # one cell that is no UTF-8 would end the reading of all
        return decoded(values, pl.String())
    if values.dtype in (pl.Duration, pl.Time):  # no name, as in a column of objects
        return pl.Series([None] * len(values), dtype=pl.String)
    return spelled_floats(values) if values.dtype.is_float() else as_text(values)


def _plain_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows for a function of the curator's: whole numbers, numbers, truths, texts or None, by each
    cell alone.

    Everything is spelled and read again, because one text in a column of numbers makes texts of
    all, and then a function that compares numbers would fail on every agent.
    """
    nested = {name for name, kind in frame.schema.items() if kind.is_nested()}
    columns = [
        _nested_cells(frame.get_column(name))
        if name in nested
        else [_plain_cell(text) for text in spelled(frame.get_column(name))]
        for name in frame.columns
    ]
    return [dict(zip(frame.columns, cells, strict=True)) for cells in zip(*columns, strict=True)]


def _nested_cells(column: pl.Series) -> list[Any]:
    """Lists and structures as Python holds them; a cell that it cannot hold, such as a time beyond
    its years, is None."""
    try:
        return column.to_list()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of native code is not an Exception
        rows = range(len(column))
    return (
        [None]
        if len(rows) == 1
        else [cell for row in rows for cell in _nested_cells(column[row : row + 1])]
    )


def _plain_cell(text: str | None) -> Any:
    text = None if text is None else text.strip(BLANKS)
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < EXACT_WHOLE else number


def item_numbers(values: pl.Series, size: int, labels: Labels) -> Ints:
    """The public number of each value, or -1."""
    if values.dtype.is_nested():
        return np.full(
            len(values), -1, dtype=np.int64
        )  # by the type alone: polars would read structures until one is null
    if labels is not None:
        known = pl.DataFrame({"label": list(labels), "number": np.arange(size)})
        text = spelled(values).str.strip_chars()
        if any(" " in label for label in labels):
            text = text.str.replace_all(r"\s+", " ")
        cells = text.alias("label").to_frame()
        found = cells.join(known, on="label", how="left", maintain_order="left")
        return found.get_column("number").fill_null(-1).to_numpy().astype(np.int64)
    if values.dtype == pl.Binary or values.dtype.is_temporal():
        values = spelled(values)  # a time is no number, though polars would count it from 1970
    if values.dtype == pl.Boolean:
        values = values.cast(
            pl.String
        )  # as in a column of objects, where true is a text too and no number
    if values.dtype == pl.String:
        values = values.str.strip_chars().str.replace(ZERO_FRACTION, "${1}")
    numbers = values.cast(pl.Int64, strict=False)
    if values.dtype.is_float():
        numbers = pl.select(pl.when(values == numbers).then(numbers)).to_series()
    whole: NDArray[np.int64] = numbers.fill_null(-1).to_numpy().astype(np.int64)
    return np.where((whole >= 0) & (whole < size), whole, -1)


class PlainFile(Source):
    """A text file with an edge `u v`, a name, or a list of names a line. `#` first or after a blank
    starts a comment.

    Blanks, commas and semicolons separate, except those that one of the public `names` holds; in a
    file of single names nothing does.
    """

    texts_only = True

    def __init__(self, path: Path, shape: Shape, names: Labels = None) -> None:
        self._path, self._shape, self._names = existing_file(path), shape, _NAMES[shape]
        self._between = re.compile(cut_pattern(list_marks(names)))
        self.stamps = ((path, stamp_of(path)),)

    def batches(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        lines = list(_lines(self._path))
        if self._shape != "edges":
            yield pl.DataFrame({self._names[0]: pl.Series(lines, dtype=pl.String)})
            return
        pairs = [ends for ends in (self._between.split(line) for line in lines) if len(ends) >= 2]
        yield pl.DataFrame(
            {"source": [u for u, *_ in pairs], "target": [v for _, v, *_ in pairs]},
            schema=_TEXT_EDGES,
        )

    def count_rows(self) -> int:
        return sum(1 for _ in _lines(self._path))


def _lines(path: Path) -> Iterator[str]:
    """The lines that hold something, without comments and blanks around them."""
    for line in text_lines(path):
        text = COMMENT.split(line, maxsplit=1)[0].strip()
        if text:
            yield text


def _words(path: Path) -> Iterator[list[str]]:
    return (line.split() for line in _lines(path))


def open_structure(data: object, shape: Shape, names: Labels = None) -> Source:
    """A source of edges, items or lists: what `open_source` takes, a plain text file, a networkx
    graph, pairs or lists.

    The public `names` say where a line of a plain file is cut.
    """
    if isinstance(data, str | Path):
        path = Path(data)
        if path.name.lower().endswith(_PLAIN):
            return PlainFile(path, shape, names)
        return _wide_enough(open_source(data), shape)
    if hasattr(data, "edges") and hasattr(data, "nodes"):
        pairs = [(u, v) for u, v, *_ in data.edges()]
        ends = {"source": names_of(u for u, _ in pairs), "target": names_of(v for _, v in pairs)}
        return open_source(pl.DataFrame(ends, schema=_TEXT_EDGES))
    if isinstance(data, np.ndarray | list | tuple | set | frozenset):
        return open_source(_frame(data, shape, names))
    source = _wide_enough(open_source(data), shape)
    if shape == "lists" and type(data).__module__.partition(".")[0] == "pandas":
        column = cast(Any, data).iloc[:, 0]
        if (
            column.dtype.kind == "O"
        ):  # pandas has no type for lists, and as one cell a list could not be read
            return open_source(_frame(rounded_wholes(column.tolist()), shape, names))
    return source


_TEXT_EDGES = {"source": pl.String, "target": pl.String}


def _frame(data: Any, shape: Shape, names: Labels) -> pl.DataFrame:
    if shape == "edges":
        if isinstance(data, np.ndarray) and data.dtype.kind in "iu":
            if data.ndim != 2 or data.shape[1] != 2:
                raise InputError("An array of edges has two columns, one row per edge.")
            return pl.DataFrame({"source": data[:, 0], "target": data[:, 1]})
        pairs = [pair for pair in (_pair(item) for item in data) if pair is not None]
        ends = [[pair[place] for pair in pairs] for place in range(2)]
        return pl.DataFrame(
            [series_from_objects(_spelled_pairs(cells)) for cells in ends], schema=_TEXT_EDGES
        )
    if shape == "lists":
        between = re.compile(cut_pattern(list_marks(names)))
        rows = [_listed(row, between) for row in data]
        return pl.DataFrame({"items": pl.Series(rows, dtype=pl.List(pl.String))})
    if isinstance(data, np.ndarray) and data.dtype.kind in "iu":
        return pl.DataFrame({"item": data.ravel()})
    cells = list(data.ravel() if isinstance(data, np.ndarray) else data)
    return pl.DataFrame({"item": series_from_objects(_spelled_pairs(cells))})


def _listed(row: Any, between: re.Pattern[str]) -> list[str | None]:
    """The names on somebody's list; a text is cut as one in a file would be."""
    if isinstance(row, str):
        row = between.split(row)
    return series_from_objects(list(row) if isinstance(row, Iterable) else [row]).to_list()


def _pair(item: Any) -> tuple[Any, Any] | None:
    """The two ends of an edge; an entry that is no pair is dropped like any row that cannot be
    read."""
    if isinstance(item, str) or not isinstance(item, Iterable):
        return None
    ends = tuple(item)
    return (ends[0], ends[1]) if len(ends) >= 2 else None


def _spelled_pairs(cells: Sequence[Any]) -> list[Any]:
    """Names that are tuples, such as the vertices of a grid, as the public names spell them; they
    would be no plain value."""
    return [_tuple_text(cell) if isinstance(cell, tuple) else cell for cell in cells]


def _tuple_text(cell: tuple[Any, ...]) -> str | None:
    try:
        return " ".join(str(cell).split())
    except Exception:  # whatever it holds, one cell must not end the reading
        return None


def _wide_enough(source: Source, shape: Shape) -> Source:
    if len(source.columns()) < _WIDTH[shape]:
        raise InputError(
            f"The data must have {_WIDTH[shape]} column(s): {', '.join(_NAMES[shape])}."
        )
    return source


def read_names(path: str | Path) -> list[str]:
    """Public names, one a line. A line that starts with # is a comment; elsewhere it could be meant
    as part of the name."""
    names = [" ".join(line.split()) for line in text_lines(existing_file(path))]
    names = [name for name in names if name and not name.startswith("#")]
    unclear = next((name for name in names if COMMENT.search(name)), None)
    if unclear is not None:
        raise InputError(
            f"'{path}': is '#' part of the name in '{unclear}', or does a comment start there? "
            f"Put comments on lines of their "
            "own, and write names without a # after a blank."
        )
    return names


def read_lists(path: str | Path) -> list[list[str]]:
    """A public family of sets: one set per line, its elements separated by blanks."""
    return list(_words(existing_file(path)))


def read_sets(path: str | Path) -> dict[str, list[str]]:
    """A public family of named sets, one a line: `NAME ELEMENT ELEMENT ...`, or `NAME: ELEMENT
    ELEMENT ...` on all lines.

    With colons, names may hold blanks; so may elements, if commas or semicolons separate them.
    """
    lines = [" ".join(words) for words in _words(existing_file(path))]
    colons = [": " in f"{line} " for line in lines]
    if any(colons) and not all(colons):
        raise InputError(
            f"'{path}': some lines have a colon after the name of the set, but "
            f"'{lines[colons.index(False)][:80]}' has none. "
            "Write NAME: ELEMENT ELEMENT ... on all lines, or NAME ELEMENT ELEMENT ... on all."
        )
    listed = next((line for line in lines if "," in line or ";" in line), None)
    if listed is not None and not any(colons):
        raise InputError(
            f"'{path}': blanks separate elements, but '{listed[:80]}' holds a comma or semicolon. "
            f"Leave it out, or write "
            "NAME: ELEMENT, ELEMENT, ... on all lines."
        )
    sets: dict[str, list[str]] = {}
    for line in lines:
        name, _, rest = f"{line} ".partition(": " if any(colons) else " ")
        if name in sets:
            first = "what precedes the colon" if any(colons) else "the first word"
            raise InputError(
                f"'{path}': {first} of a line names the set; '{name}' names two. Rename one, or "
                f"join them."
            )
        elements = re.split("[,;]", rest) if listed is not None else rest.split()
        sets[name] = [element.strip() for element in elements if element.strip()]
    return sets


def read_pmed(path: str | Path) -> tuple[NDArray[np.float64], int]:
    """An OR-Library p-median file: all distances (by shortest paths) and p. A repeated edge counts
    as last written.

    The file numbers its places from 1 and the matrix has them from 0; `labels` of k-median may name
    them as the file does.
    """
    from scipy.sparse.csgraph import csgraph_from_dense, shortest_path

    numbers = _numbers(path)
    size, count, p = (int(number) for number in numbers[:3]) if len(numbers) >= 3 else (0, 0, 0)
    if size < 1 or count < 0 or len(numbers) < 3 + 3 * count:
        raise PlanError(f"'{path}' is not an OR-Library p-median file: it ends too early.")
    graph = np.full((size, size), np.inf)  # 0 is a length: two places may lie at one point
    for u, v, length in np.array(numbers[3 : 3 + 3 * count]).reshape(-1, 3):
        if not (1 <= u <= size and 1 <= v <= size) or length < 0:
            raise PlanError(
                f"'{path}': edge {u:g} {v:g} {length:g} needs vertices 1 to {size} and a length "
                f"of at least 0."
            )
        graph[int(u) - 1, int(v) - 1] = graph[int(v) - 1, int(u) - 1] = length
    return np.asarray(
        shortest_path(csgraph_from_dense(graph, null_value=np.inf), directed=False)
    ), p


def read_scp(path: str | Path) -> tuple[Lists, list[Fraction], int]:
    """An OR-Library set cover file: the sets as lists of element numbers, their costs, and the
    number of elements.

    Sets and elements are numbered from 0 here, and from 1 in the file.
    """
    given = _numbers(path)
    numbers = [int(number) for number in given]
    rows, columns = numbers[:2] if len(numbers) >= 2 else (0, 0)
    if rows < 1 or columns < 1 or len(numbers) < 2 + columns:
        raise PlanError(f"'{path}' is not an OR-Library set cover file: it ends too early.")
    costs = [exact(number, "cost") for number in given[2 : 2 + columns]]
    at = 2 + columns
    if numbers[:2] + numbers[at:] != given[:2] + given[at:]:
        raise PlanError(
            f"'{path}' is not an OR-Library set cover file: only costs may have fractions."
        )
    owners, elements = [], []
    for row in range(rows):
        if at >= len(numbers):
            raise PlanError(f"'{path}' is not an OR-Library set cover file: it ends too early.")
        held = numbers[at + 1 : at + 1 + numbers[at]]
        if len(held) != numbers[at] or any(not 1 <= column <= columns for column in held):
            raise PlanError(
                f"'{path}': row {row + 1} does not list {numbers[at]} sets from 1 to {columns}."
            )
        at += 1 + numbers[at]
        owners += [column - 1 for column in held]
        elements += [row] * len(held)
    starts = np.zeros(columns + 1, dtype=np.int64)
    np.cumsum(np.bincount(owners, minlength=columns), out=starts[1:])
    by_owner = np.array(elements, dtype=np.int64)[np.argsort(owners, kind="stable")]
    return Lists(starts, by_owner), costs, rows


def _numbers(path: str | Path) -> list[float]:
    try:
        numbers = [float(word) for words in _words(existing_file(path)) for word in words]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise PlanError(f"'{path}' holds something that is not a finite number.")
    return numbers
