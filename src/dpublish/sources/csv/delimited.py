"""Rows of CSV and TSV files, plain or gzipped, as frames of text or straight as codes.

Nothing about the rows decides how they are read: every column is text, and no line, however broken,
raises (see `kernels.delimited` for the rules). What ends the header ends records: the header is
public, so no cell has a say in it. Blank lines are left out, unless there is one column: there a
blank line is how a missing cell is written. A line of more than `LONGEST_ROW` bytes is a record of
which nothing can be read. A file is trusted to keep its records apart: a stray quote in one record
may merge it with its neighbours, and a line end that is not inside quotes cuts it in two.
"""

from __future__ import annotations

import codecs
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.compiled import interpreted
from dpublish.declare.encode import EncodedBatch, Encoder
from dpublish.declare.spelling import BLANKS
from dpublish.errors import InputError, SchemaError
from dpublish.sources.csv.kernels.delimited import (
    CARRIAGE_RETURN,
    FIELD_END,
    LINE_FEED,
    QUOTE_LIMIT,
    RECORD_END,
    tidy,
)
from dpublish.sources.csv.text_codes import Bytes, CodedText, TextCoder, parse_tidied
from dpublish.sources.files import open_packed
from dpublish.sources.sources import Source
from dpublish.sources.texts import LONGEST_ROW, UNREADABLE

_CHUNK = 1 << 25
_LONGEST_HEADER = 1 << 20
_STRETCH = 1 << 16
_WORKERS = min(4, os.cpu_count() or 1)
_MARK = b"\xef\xbb\xbf"
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_END, _EMPTY_FIELD = bytes([RECORD_END]), bytes([FIELD_END])

_SHORT = 1 << 12
"""A header of so many bytes is cut by Python itself."""


class DelimitedFile(Source):
    """A text file whose first record names the columns."""

    names_are_metadata = False
    texts_only = True

    def __init__(
        self, path: Path, *, separator: str, packed: str = "", encoding: str | None = None
    ) -> None:
        self._path, self._separator = path, ord(separator)
        self._packed, self._encoding = packed, encoding
        self._repeated: set[str] = set()
        self._line_end, self._names = self._read_header()

    def repeats(self, name: str) -> bool:
        return name in self._repeated

    def batches(self, columns: Sequence[str], *, chunk: int = _CHUNK) -> Iterator[pl.DataFrame]:
        """Frames of text with `columns`, in file order of the rows; about `chunk` bytes of the file
        each."""
        wanted = np.array([name in columns for name in self._names])
        in_file_order = [name for name in self._names if name in columns]
        for text, records in self._tidied(wanted, chunk):
            if records:
                # a single column could make empty lines, so it is given an empty neighbour
                single = len(in_file_order) == 1
                whole = text.replace(_END, _EMPTY_FIELD + _END) if single else text
                found = parse_tidied(whole, len(in_file_order) + single)
                yield pl.DataFrame(dict(zip(in_file_order, found, strict=False))).select(columns)

    def coded(
        self,
        encoder: Encoder,
        unit: str | None = None,
        *,
        chunk: int = _CHUNK,
        workers: int = _WORKERS,
    ) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
        """The same rows as codes, and the column `unit` of them as text; on several threads where
        there is much to do.

        A chunk is cut at line ends, and every part is read as if a record started there. That may
        be wrong inside quotes, so a part counts only if the one before it ended exactly where it
        starts; otherwise its rows are read again, from the right place. Codes therefore never
        depend on where a chunk was cut.
        """
        coders: list[TextCoder] = []
        with self._open() as file, ThreadPoolExecutor(workers) as pool:
            feed = _Feed(file, chunk, self._separator, self._line_end)
            while feed.more():
                while True:
                    parts = _stretches(feed.data, workers, self._line_end)
                    while len(coders) < len(parts):
                        coders.append(
                            TextCoder(encoder, self._names, self._separator, self._line_end, unit)
                        )
                    ends = [False] * (len(parts) - 1) + [feed.at_end]
                    jobs = zip(coders, parts, ends, strict=False)
                    running = [pool.submit(coder.code, part, end) for coder, part, end in jobs]
                    feed.read_ahead()
                    results = [future.result() for future in running]
                    used = 0
                    for number, (part, result) in enumerate(
                        zip(parts, results, strict=True), start=1
                    ):
                        yield from _rows(result)
                        used += result.consumed
                        if result.consumed < part.size and number < len(
                            parts
                        ):  # the cut fell into a record
                            result = coders[0].code(feed.data[used:], feed.at_end)
                            yield from _rows(result)
                            used += result.consumed
                            break
                    feed.data = feed.data[used:]
                    if not feed.skip_long_record():
                        break
                    lost = bytes([self._separator]).join([UNREADABLE.encode()] * len(self._names))
                    yield from _rows(coders[0].code(np.frombuffer(lost, dtype=np.uint8), True))

    def count_rows(self) -> int:
        nothing = np.zeros(len(self._names), dtype=np.bool_)
        return sum(records for _, records in self._tidied(nothing, _CHUNK))

    def require(self, names: Iterable[str], *, schema_name: str) -> None:
        wanted = list(names)
        if not set(wanted) <= set(self._names) and (hint := self._hint(wanted)):
            raise SchemaError(
                f"The data does not have the columns that schema '{schema_name}' declares.{hint}"
            )
        super().require(wanted, schema_name=schema_name)

    def _hint(self, names: Sequence[str]) -> str:
        """What may be wrong where the first line does not name these columns, from the byte order
        mark, and from nothing else of that line than whether it names them all."""
        with self._open(raw=True) as file:
            data = file.read(_LONGEST_HEADER)
        for mark, encoding in _MARKS:
            if data.startswith(mark) and self._encoding is None:
                return (
                    f" The file starts with the mark of {encoding}: add [source] with "
                    f'encoding = "{encoding}".'
                )
        line = data.split(b"\n", 1)[0].decode(self._encoding or "utf-8", "replace")
        for other in ";\t|,":
            found = {name.strip(BLANKS + '"\ufeff') for name in line.split(other)}
            if other != chr(self._separator) and found.issuperset(names):
                return f" Its columns are separated by {other!r}: say so in [source], delimiter."
        return ""

    def _open(self, *, raw: bool = False) -> IO[bytes]:
        file = open_packed(self._path, self._packed)
        plain = raw or self._encoding in (None, "utf-8")
        return file if plain else cast(IO[bytes], _Transcoded(file, str(self._encoding)))

    def _read_header(self) -> tuple[int, tuple[str, ...]]:
        """What ends records, and column names, blanks around them removed; a name that comes twice
        gets a number."""
        found = self._header()
        if isinstance(
            found, str
        ):  # raised where no variable holds text of the file: its first line may be a row
            raise InputError(f"The file '{self._path}' {found}")
        return found

    def _header(self) -> tuple[int, tuple[str, ...]] | str:
        try:
            with self._open() as file:
                data = file.read(_LONGEST_HEADER + 1)
        except (OSError, EOFError, zlib.error):
            kinds = {"": "a text file", ".gz": "a gzipped text file"}
            what = kinds.get(self._packed, f"a {self._packed} text file")
            return f"cannot be read. Is it really {what}?"
        except UnicodeError:
            return (
                f"does not start with the byte order mark of {self._encoding}. Say in [source] "
                f'which it is: encoding = "{self._encoding}-le" or "{self._encoding}-be".'
            )
        at_end = len(data) <= _LONGEST_HEADER
        data = data.removeprefix(_MARK)
        line_end = _line_end(data, self._separator)
        head = np.frombuffer(data, dtype=np.uint8)
        used, whole = _header_size(head, at_end, self._separator, line_end)
        if not at_end and not whole:
            return (
                f"has a first line of more than {_LONGEST_HEADER:,} bytes. Its first line "
                f"must name the columns."
            )
        head = head[:used]
        fields = 1 + int((head == self._separator).sum())
        out = np.empty(head.size + fields + 1, dtype=np.uint8)
        # every field the record could have is wanted; those it has not come out empty, at the end
        wanted = np.ones(fields, dtype=np.bool_)
        cut = interpreted(tidy) if head.size <= _SHORT else tidy
        _, written, records = cut(head, True, self._separator, line_end, True, wanted, 1, out)
        if records == 0:
            return "is empty. Its first line must name the columns."
        line = out[: written - 1].tobytes().rstrip(bytes([FIELD_END])).decode("utf-8", "replace")
        names: dict[str, None] = {}
        copies: dict[str, int] = {}
        for name in line.split(chr(FIELD_END)):
            plain = unique = name.strip(BLANKS)
            while unique in names:
                copies[plain] = copies.get(plain, 1) + 1
                unique = f"{plain} ({copies[plain]})"
            names[unique] = None
        self._repeated.update(copies)
        return line_end, tuple(names)

    def _tidied(self, wanted: NDArray[np.bool_], chunk: int) -> Iterator[tuple[bytes, int]]:
        skip_blank = len(self._names) > 1
        with self._open() as file:
            feed = _Feed(file, chunk, self._separator, self._line_end)
            while feed.more():
                while True:
                    data = feed.data
                    while data.size:
                        most = max(1, 2 * data.size // (wanted.size + 1))
                        out = np.empty(data.size + most * (wanted.size + 1), dtype=np.uint8)
                        used, written, records = tidy(
                            data,
                            feed.at_end,
                            self._separator,
                            self._line_end,
                            skip_blank,
                            wanted,
                            most,
                            out,
                        )
                        if used == 0:
                            break
                        yield out[:written].tobytes(), records
                        data = data[used:]
                    feed.data = data
                    if not feed.skip_long_record():
                        break
                    yield _EMPTY_FIELD.join([UNREADABLE.encode()] * int(wanted.sum())) + _END, 1


class _Feed:
    """The bytes of a file after its header: a chunk at a time, behind what is left of the chunk
    before."""

    def __init__(self, file: IO[bytes], chunk: int, separator: int, line_end: int) -> None:
        self._file, self._chunk, self._separator, self._line_end = file, chunk, separator, line_end
        self._ahead: bytes | None = None
        self._mark, self._in_header = _MARK, True
        self.data: Bytes = np.empty(0, dtype=np.uint8)
        self.at_end = False

    def more(self) -> bool:
        """Put the next chunk behind `data`, from which the user has cut what is done with; false
        after the last one."""
        while not self.at_end:
            raw = self.read_ahead()
            self.at_end = len(raw) == 0
            read = np.frombuffer(raw.removeprefix(self._mark), dtype=np.uint8)
            self._ahead, self._mark = None, b""
            self.data = np.concatenate((self.data, read)) if self.data.size else read
            if self._in_header:  # one record, wherever it ends
                used, found = _header_size(self.data, self.at_end, self._separator, self._line_end)
                self._in_header = not found
                self.data = self.data[used:]
            if not self._in_header:
                return True
        return False

    def skip_long_record(self) -> bool:
        """Leave out the record that `data` starts with if it has no end within the limit; whether
        that was so."""
        if (
            self.data.size <= LONGEST_ROW + QUOTE_LIMIT + 2
        ):  # inside quotes, an end may be told by what follows
            return False
        rest = self.data[LONGEST_ROW:].tobytes()
        while (end := rest.find(self._line_end)) < 0 and not self.at_end:
            rest = self.read_ahead()
            self._ahead, self.at_end = None, len(rest) == 0
        self.data = np.frombuffer(rest, dtype=np.uint8)[end + 1 if end >= 0 else len(rest) :]
        return True

    def read_ahead(self) -> bytes:
        """Read the next chunk already, while others work on `data`."""
        if self._ahead is None:
            self._ahead = self._file.read(self._chunk)
        return self._ahead


def _header_size(data: Bytes, at_end: bool, separator: int, line_end: int) -> tuple[int, bool]:
    """How many bytes the header takes up, with blank lines before it, and whether all of it is
    there."""
    nothing = np.zeros(0, dtype=np.bool_)
    # compiling takes seconds: not for a header that ends soon
    cut = interpreted(tidy) if (data[:_SHORT] == line_end).any() else tidy
    used, _, records = cut(
        data, at_end, separator, line_end, True, nothing, 1, np.empty(2, dtype=np.uint8)
    )
    return used, records > 0


def _line_end(head: bytes, separator: int) -> int:
    """What ends the header outside quotes: a carriage return, unless only more of them stand
    between it and a line feed."""
    data = np.frombuffer(head.lstrip(b"\r\n"), dtype=np.uint8)
    if not (data == CARRIAGE_RETURN).any():
        return LINE_FEED
    mac, _ = _header_size(data, True, separator, CARRIAGE_RETURN)
    usual, _ = _header_size(data, True, separator, LINE_FEED)
    return (
        CARRIAGE_RETURN
        if mac < usual and data[mac:usual].tobytes().lstrip(b"\r") != b"\n"
        else LINE_FEED
    )


def _stretches(data: Bytes, most: int, line_end: int) -> list[Bytes]:
    """The data cut into up to `most` parts of similar size, each but the last ending with a line
    end."""
    parts: list[Bytes] = []
    start = 0
    for i in range(1, min(most, data.size // _STRETCH)):
        middle = max(start, data.size * i // most)
        found = data[middle : middle + _STRETCH].tobytes().find(line_end)
        if found >= 0:
            parts.append(data[start : middle + found + 1])
            start = middle + found + 1
    return [*parts, data[start:]]


def _rows(found: CodedText) -> Iterator[tuple[EncodedBatch, pl.Series | None]]:
    if found.batch.codes[0].size:
        yield found.batch, found.units


class _Transcoded:
    """The text of a file in another encoding, as UTF-8; what cannot be decoded is U+FFFD."""

    def __init__(self, file: IO[bytes], encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def __enter__(self) -> _Transcoded:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int) -> bytes:
        while data := self._file.read(size):
            if text := self._decoder.decode(data):
                return text.encode("utf-8", "replace")
        return self._decoder.decode(b"", True).encode("utf-8", "replace")
