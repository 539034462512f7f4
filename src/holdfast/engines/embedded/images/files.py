"""Small files that are written completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_file_safely(path: Path, text: str) -> None:
    """Replace the file in one step. It is on disk when this returns."""
    draft = path.with_suffix(".draft")
    with open(draft, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
