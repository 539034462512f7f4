"""What a measurement answers, and how it is shown."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARKS = {True: "✓", False: "✗", None: "–"}


@dataclass(frozen=True, slots=True)
class Bar:
    """A bound that the value must keep: `<`, `≤` or `≥` of a limit."""

    sign: str
    limit: float

    def holds(self, value: float) -> bool:
        if self.sign == "<":
            return value < self.limit
        return value <= self.limit if self.sign == "≤" else value >= self.limit

    def __str__(self) -> str:
        return f"{self.sign} {self.limit:g}"


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    value: float | None  # None: could not be measured; the note says why
    unit: str
    bar: Bar | None = None  # None: for information only
    note: str = ""
    failed: bool = False  # the measurement broke, as opposed to having been skipped

    @property
    def holds(self) -> bool | None:
        if self.failed:
            return False
        return None if self.bar is None or self.value is None else self.bar.holds(self.value)

    def as_json(self) -> dict[str, Any]:
        value = None if self.value is None else float(f"{self.value:.6g}")
        bar = None if self.bar is None else str(self.bar)
        return {"name": self.name, "value": value, "unit": self.unit, "bar": bar, "holds": self.holds}


def below(limit: float) -> Bar:
    return Bar("<", limit)


def at_most(limit: float) -> Bar:
    return Bar("≤", limit)


def at_least(limit: float) -> Bar:
    return Bar("≥", limit)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not below `share` percent of them."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share / 100 * len(ordered)) - 1)]


def render_table(rows: Sequence[Row]) -> str:
    cells = [("name", "value", "unit", "bar", "holds", "")]
    for row in rows:
        bar = "" if row.bar is None else str(row.bar)
        cells.append((row.name, _shown(row.value), row.unit, bar, MARKS[row.holds], row.note))
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = [_line(each, widths) for each in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    name, value, unit, bar, holds, note = cells
    left = f"{name:<{widths[0]}}  {value:>{widths[1]}}  {unit:<{widths[2]}}  {bar:<{widths[3]}}"
    return f"{left}  {holds:<5}  {note}".rstrip()


def write_json(rows: Sequence[Row], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([row.as_json() for row in rows], indent=2, ensure_ascii=False) + "\n")


def _shown(value: float | None) -> str:
    if value is None:
        return "–"
    if value == int(value) or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"
