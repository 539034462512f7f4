"""Broken and healthy jobs as files, and what is to be said of them.

`broken/FAMILY/NAME.yaml` (or .json) is a job in one of the dialects. `broken/FAMILY/expected.toml` has a table of each:

- `fault`: one word, or a list where more than one is fair;
- `confidence`: the least; LIKELY unless it says more. An unknown cause has none;
- `title`, `says`, `remedy`: patterns that must be found in the title, in all that is told, in the remedies;
- `task`, `followers`, `attempt`, `frame` (FILE:LINE of the user's own code): exactly these;
- `needs`: what must be here for it to run: a program, `root`, `sandbox`, `processes` (a limit on them), `managed` (a
  Python that is left to the system's packages), `groups` (Python with exception groups);
- `action`: what is done to it from outside once it says that it is ready; `hold`: it is judged while it is held;
- `first`: takes long, so it is submitted before others;
- `limits`: is judged the same by whatever memory is limited.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.verdicts import Confidence

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Expected:
    fault: str | list[str]
    confidence: Confidence = Confidence.LIKELY
    title: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    task: str | None = None
    followers: list[str] | None = None
    attempt: int | None = None
    frame: str | None = None
    needs: str = ""
    action: str | None = None
    first: bool = False
    limits: bool = False

    @property
    def faults(self) -> list[str]:
        return [self.fault] if isinstance(self.fault, str) else self.fault


@dataclass(frozen=True)
class Case:
    name: str  # FAMILY/NAME
    path: Path
    expected: Expected | None = None  # None: healthy


def broken() -> Iterator[Case]:
    for table in sorted(HERE.glob("broken/*/expected.toml")):
        family = table.parent
        files = {path.stem: path for path in family.iterdir() if path != table}
        expected = tomllib.loads(table.read_text())
        assert files.keys() == expected.keys(), f"{family.name}: files and expectations differ"
        for name, keys in expected.items():
            keys["confidence"] = Confidence(keys.get("confidence", Confidence.LIKELY))
            yield Case(f"{family.name}/{name}", files[name], Expected(**keys))


def healthy() -> Iterator[Case]:
    for path in sorted(HERE.glob("healthy/*")):
        yield Case(path.stem, path)


BROKEN = tuple(broken())
HEALTHY = tuple(healthy())
