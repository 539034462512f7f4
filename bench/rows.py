"""The results of a measurement, as a table and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULT_MARKS = {True: "✓", False: "✗", None: "–"}


@dataclass(frozen=True, slots=True)
class Bar:
    """The required value of a row: `<`, `≤` or `≥` a limit."""

    sign: str
    limit: float

    def is_met_by(self, value: float) -> bool:
        if self.sign == "<":
            return value < self.limit
        return value <= self.limit if self.sign == "≤" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One result of a measurement."""

    name: str
    value: float | None  # None: could not be measured; the note says why
    unit: str
    bar: Bar | None = None  # None: for information only
    note: str = ""
    failed: bool = False  # the measurement failed; it was not skipped

    @property
    def meets_bar(self) -> bool | None:
        """Whether the bar is met; None without a bar or a value."""
        if self.failed:
            return False
        return None if self.bar is None or self.value is None else self.bar.is_met_by(self.value)

    def to_json(self) -> dict[str, Any]:
        value = None if self.value is None else float(f"{self.value:.6g}")
        bar = None if self.bar is None else str(self.bar)
        return {"name": self.name, "value": value, "unit": self.unit, "bar": bar, "holds": self.meets_bar}


def below(limit: float) -> Bar:
    return Bar("<", limit)


def at_most(limit: float) -> Bar:
    return Bar("≤", limit)


def at_least(limit: float) -> Bar:
    return Bar("≥", limit)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that is not below `percent` percent of the values."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def render_table(rows: Sequence[Row]) -> str:
    cells = [("name", "value", "unit", "bar", "holds", "")]
    for row in rows:
        bar = "" if row.bar is None else str(row.bar)
        cells.append((row.name, _format_value(row.value), row.unit, bar, RESULT_MARKS[row.meets_bar], row.note))
    widths = [max(len(line_cells[column]) for line_cells in cells) for column in range(5)]
    lines = [_format_line(line_cells, widths) for line_cells in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _format_line(cells: tuple[str, ...], widths: list[int]) -> str:
    name, value, unit, bar, holds, note = cells
    left = f"{name:<{widths[0]}}  {value:>{widths[1]}}  {unit:<{widths[2]}}  {bar:<{widths[3]}}"
    return f"{left}  {holds:<5}  {note}".rstrip()


def write_json(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row.to_json() for row in rows], indent=2, ensure_ascii=False) + "\n")


def _format_value(value: float | None) -> str:
    if value is None:
        return "–"
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
