"""What went wrong, found from what a job left behind. Evidence in, verdicts out: no store, no engine, no clock."""

from .phrases import texts

__all__ = ["texts"]
