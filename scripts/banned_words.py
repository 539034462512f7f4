"""Rejects banned words in names of constants, in messages, and in other text of the source and the docs.

CONTRIBUTING.md has the rules for names and messages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE_FOLDERS = ("src", "tests", "bench", "scripts")
# Text for users and developers: the source with its messages, templates and rules, and the docs.
TEXT_GLOBS = ("src/holdfast/**/*.py", "src/holdfast/**/*.html", "src/holdfast/**/*.toml", "docs/**/*.md", "*.md")
CONSTANT_PATTERN = re.compile(
    r"^\s*(_?(?:MOST|LONGEST|FEWEST|LEAST|LARGEST|BIGGEST|DEEPEST|SHORTEST|SMALLEST)_\w+|\w*PATIENCE)\b.* = "
)
WORD_PATTERN = re.compile(
    r"\b(whoever|somebody|someone|just now|of yours|set aside|sets aside|lies in|this place|the place"
    r"|by a clock|what runs the jobs|lets nobody|is told of|let in)\b",
    re.IGNORECASE,
)


def iter_banned_constants() -> Iterator[str]:
    for folder in SOURCE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield from _iter_matches(path, CONSTANT_PATTERN)


def iter_banned_words() -> Iterator[str]:
    for pattern in TEXT_GLOBS:
        for path in sorted(ROOT.glob(pattern)):
            if "migrations" not in path.parts:  # migrations do not change once they are applied
                yield from _iter_matches(path, WORD_PATTERN)


def _iter_matches(path: Path, pattern: re.Pattern[str]) -> Iterator[str]:
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := pattern.search(line):
            yield f"{path.relative_to(ROOT)}:{number}: {match[1]}"


def main() -> int:
    matches = [*iter_banned_constants(), *iter_banned_words()]
    print("\n".join(matches))
    return 1 if matches else 0


if __name__ == "__main__":
    sys.exit(main())
