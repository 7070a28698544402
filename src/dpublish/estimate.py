"""What a question to a release is answered with: a number, how far off it may be, and what that
rests on."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

from dpublish.errors import QueryError

Measure = Literal["count", "share", "mean", "sum", "ratio", "quantile", "difference", "statistic"]
Basis = Literal["", "counted", "bounds", "assumed"]


@dataclass(frozen=True)
class Estimate:
    """An estimated number. The truth lies between `low` and `high` in at least `level` of all
    releases.

    `measure` says what is estimated: a count of rows, a share of them, a mean. `basis` says in a
    word what the interval rests on, where a kind of release has several ways; under "assumed" it
    holds only if the assumption in the `note` does. `note` says it in a sentence. `warnings` should
    make a reader careful. `details` are figures of some kinds alone, which can also be read as
    attributes: a quantile of dates or times counts days or seconds, has its `calendar` kind there,
    and what it stands for as `moment`, `low_moment` and `high_moment`.

    >>> print(Estimate(value=1234.4, standard_error=20.0, low=1195.0, high=1274.0, level=0.95))
    1,234 (95% interval 1,195 to 1,274)
    """

    value: float
    standard_error: float
    low: float
    high: float
    level: float
    measure: Measure = "count"
    basis: Basis = ""
    note: str = ""
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)

    if not TYPE_CHECKING:  # a type checker should go on finding misspelt names

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and name != "details" and name in self.details:
                return self.details[name]
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self
            )

    def __str__(self) -> str:
        value, low, high = self.written()
        ends = f"{low} to {high}"
        if self.basis == "assumed":
            return (
                f"{value} ({ends} if private rows are like public ones; no "
                f"{100 * self.level:.4g}% interval)"
            )
        bounds = ", by bounds" if self.basis == "bounds" else ""
        return f"{value} ({100 * self.level:.4g}% interval {ends}{bounds})"

    def written(self) -> tuple[str, str, str]:
        """Value, low and high as people write them."""
        if "calendar" in self.details:
            ends = ("moment", "low_moment", "high_moment")
            value, low, high = (str(self.details[name]) for name in ends)
            return value, low, high
        if self.measure == "count":
            return f"{self.value:,.0f}", f"{self.low:,.0f}", f"{self.high:,.0f}"
        return plain(self.value), plain(self.low), plain(self.high)

    def numbers(self) -> dict[str, float]:
        """The value and its limits, by name."""
        return {
            "value": self.value,
            "standard_error": self.standard_error,
            "low": self.low,
            "high": self.high,
            "level": self.level,
        }

    def words(self) -> dict[str, Any]:
        """What is to be said beside the numbers: basis, note and warnings, where there are any."""
        said = {"basis": self.basis, "note": self.note, "warnings": list(self.warnings)}
        return {name: words for name, words in said.items() if words}

    def _repr_html_(self) -> str:
        value, low, high = (plain(one, 6) for one in (self.value, self.low, self.high))
        if "calendar" in self.details:
            value, low, high = self.written()
        rows = {
            self.measure: value,
            f"{100 * self.level:.4g}% interval": f"{low} to {high}",
            "standard error": plain(self.standard_error),
            "note": "; ".join([self.note, *self.warnings]) if self.note else "",
        }
        return notebook_table({name: text for name, text in rows.items() if text})

    def to_pandas(self) -> Any:
        """One row: measure, value, standard_error, low, high, level, and what is to be said."""
        import pandas as pd

        said = {**self.words(), "warnings": "; ".join(self.warnings)}
        return pd.DataFrame([{"measure": self.measure, **self.numbers(), **said}])

    def to_json(self) -> dict[str, Any]:
        """All that the estimate says, under the names of its attributes."""
        more = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in self.details.items()
        }
        return {**self.numbers(), **more, **self.words()}


def notebook_table(rows: Mapping[str, str]) -> str:
    """Names and texts as a notebook shows them."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(text)}</td></tr>"
        for name, text in rows.items()
    )
    return f"<table>{cells}</table>"


def plain(number: float, digits: int = 4) -> str:
    """A number with so many digits and thousands set apart, and no power of ten: 1.4e+06 is
    1,400,000.

    >>> plain(1_394_210.4), plain(0.01234567), plain(64_903.2)
    ('1,394,000', '0.01235', '64,900')
    """
    text = f"{number:,.{digits}g}"
    if "e" in text and 1 <= abs(number) < 1e15:
        return f"{float(f'{number:.{digits}g}'):,.0f}"
    return text


def check_level(level: float) -> float:
    """How sure an interval is to be."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0.5 <= level <= 0.9999:
        raise QueryError(
            f"level must lie between 0.5 and 0.9999, not {level!r}. The usual choice is 0.95."
        )
    return float(level)


def whole_number(name: str, given: int, least: int, most: int) -> int:
    """A number of things that a caller asks for. The whole numbers of numpy are as good as
    Python's."""
    if isinstance(given, bool) or not isinstance(given, Integral) or not least <= given <= most:
        raise QueryError(f"{name} must be a whole number from {least} to {most}, not {given!r}.")
    return int(given)
