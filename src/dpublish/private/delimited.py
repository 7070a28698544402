"""Rows of CSV and TSV files, plain or gzipped, as frames of text.

Nothing about the rows decides how they are read: every column is text, and no line, however broken, raises (see
`kernels.delimited` for the rules). A file is trusted to keep its records apart: a stray quote in one record may merge it with
its neighbours.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpublish.encode import BLANKS
from dpublish.errors import InputError
from dpublish.private.kernels.delimited import FIELD_END, RECORD_END, tidy

_CHUNK = 1 << 25
_HEADER_CHUNK = 1 << 20
_MARK = b"\xef\xbb\xbf"


class DelimitedFile:
    """A text file whose first record names the columns."""

    def __init__(self, path: Path, *, separator: str, zipped: bool) -> None:
        self._path, self._separator, self._zipped = path, ord(separator), zipped
        self.names = self._read_names()

    def batches(self, columns: Sequence[str], *, chunk: int = _CHUNK) -> Iterator[pl.DataFrame]:
        """Frames of text with `columns`, in file order of the rows; about `chunk` bytes of the file each."""
        wanted = np.array([name in columns for name in self.names])
        in_file_order = [name for name in self.names if name in columns]
        for text, records in self._tidied(wanted, chunk):
            if records:
                yield _parse(text, in_file_order).select(columns)

    def count_records(self) -> int:
        nothing = np.zeros(len(self.names), dtype=np.bool_)
        return sum(records for _, records in self._tidied(nothing, _CHUNK))

    def _open(self) -> IO[bytes]:
        return cast(IO[bytes], gzip.open(self._path, "rb")) if self._zipped else self._path.open("rb")

    def _read_names(self) -> tuple[str, ...]:
        """Column names, blanks around them removed; a name that comes twice gets a number."""
        try:
            with self._open() as file:
                data = file.read(_HEADER_CHUNK).removeprefix(_MARK)
        except (OSError, EOFError):
            raise InputError(f"The file '{self._path}' cannot be read. Is it really {_described(self._zipped)}?") from None
        fields = max(1, data.count(self._separator) + 1)
        head = np.frombuffer(data, dtype=np.uint8)
        out = np.empty(head.size + fields + 1, dtype=np.uint8)
        # every field the record could have is wanted; those it has not come out empty, at the end
        _, written, records = tidy(head, True, self._separator, np.ones(fields, dtype=np.bool_), 1, out)
        if records == 0:
            raise InputError(f"The file '{self._path}' is empty. Its first line must name the columns.")
        line = out[: written - 1].tobytes().rstrip(bytes([FIELD_END])).decode("utf-8", "replace")
        names: list[str] = []
        for name in line.split(chr(FIELD_END)):
            plain = unique = name.strip(BLANKS)
            copies = 1
            while unique in names:
                copies += 1
                unique = f"{plain} ({copies})"
            names.append(unique)
        return tuple(names)

    def _tidied(self, wanted: NDArray[np.bool_], chunk: int) -> Iterator[tuple[bytes, int]]:
        with self._open() as file:
            held, at_end, header, first = b"", False, True, True
            while not at_end or held:
                read = b"" if at_end else file.read(chunk)
                at_end = len(read) == 0
                held += read.removeprefix(_MARK) if first else read
                first = False
                data = np.frombuffer(held, dtype=np.uint8)
                if header:  # one record, wherever it ends
                    used, _, records = tidy(data, at_end, self._separator, wanted[:0], 1, np.empty(2, dtype=np.uint8))
                    header = records == 0
                    data = data[used:]
                while data.size and not header:
                    most = max(1, 2 * data.size // (wanted.size + 1))
                    out = np.empty(data.size + most * (wanted.size + 1), dtype=np.uint8)
                    used, written, records = tidy(data, at_end, self._separator, wanted, most, out)
                    if used == 0:
                        break
                    yield out[:written].tobytes(), records
                    data = data[used:]
                held = data.tobytes()
                if at_end:
                    return


def _parse(text: bytes, names: Sequence[str]) -> pl.DataFrame:
    # a single column could make empty lines, which a reader may skip: a second field keeps them apart
    single = len(names) == 1
    if single:
        text = text.replace(bytes([RECORD_END]), bytes([FIELD_END, RECORD_END]))
    return pl.read_csv(
        text,
        has_header=False,
        new_columns=[f"c{i}" for i in range(len(names) + single)],
        separator=chr(FIELD_END),
        eol_char=chr(RECORD_END),
        quote_char=None,
        infer_schema=False,
        encoding="utf8-lossy",
    ).select(pl.col(f"c{i}").alias(name) for i, name in enumerate(names))


def _described(zipped: bool) -> str:
    return "a gzipped text file" if zipped else "a text file"
