"""Refuses constants that are not named as CONTRIBUTING says: limits MAX_ and MIN_, waits _TIMEOUT, pauses _INTERVAL."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLD = re.compile(
    r"^\s*(_?(?:MOST|LONGEST|FEWEST|LEAST|LARGEST|BIGGEST|DEEPEST|SHORTEST|SMALLEST)_\w+|\w*PATIENCE)\b.* = "
)


def main() -> int:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[1]}"
        for folder in ("src", "tests", "bench", "scripts")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := OLD.match(line))
    ]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
