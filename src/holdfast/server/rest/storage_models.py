"""What /storage answers and takes."""

from __future__ import annotations

from pydantic import Field

from .models import Taken

MOST_IMAGES = 1000
LONGEST_AGE = 36500 * 86400  # seconds


class PruneBody(Taken):
    kinds: list[str] = Field(min_length=1, max_length=10, description="logs, artifacts, held, images, metrics.")
    images: list[str] = Field([], max_length=MOST_IMAGES, description="Names; empty: images that no job uses.")
    older_than: float = Field(0, ge=0, le=LONGEST_AGE, description="Seconds since the job ended.")
    dry_run: bool = Field(True, description="Only say what would be removed.")
