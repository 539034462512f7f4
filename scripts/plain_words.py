"""Reject words that the language guide bans: in names of constants, in messages, and in text of the source.

CONTRIBUTING.md lists them with what to write in their place.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ("src", "tests", "bench", "scripts")
# Texts that people read: the source with its messages, templates and rules, and the docs.
TEXTS = ("src/holdfast/**/*.py", "src/holdfast/**/*.html", "src/holdfast/**/*.toml", "docs/**/*.md", "*.md")
CONSTANT = re.compile(
    r"^\s*(_?(?:MOST|LONGEST|FEWEST|LEAST|LARGEST|BIGGEST|DEEPEST|SHORTEST|SMALLEST)_\w+|\w*PATIENCE)\b.* = "
)
BANNED = re.compile(
    r"\b(whoever|somebody|someone|just now|of yours|set aside|sets aside|lies in|this place|the place"
    r"|by a clock|what runs the jobs|lets nobody|is told of|let in)\b",
    re.IGNORECASE,
)


def find_constants() -> Iterator[str]:
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _find_lines(path, CONSTANT)


def find_banned_words() -> Iterator[str]:
    for pattern in TEXTS:
        for path in sorted(ROOT.glob(pattern)):
            if "migrations" not in path.parts:  # what was applied stays as it is
                yield from _find_lines(path, BANNED)


def _find_lines(path: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := pattern.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: {match[1]}"


def main() -> int:
    found = [*find_constants(), *find_banned_words()]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
