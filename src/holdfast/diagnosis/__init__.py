"""Verdicts on failed jobs and findings on slow ones, from evidence only: no store, no engine, no clock."""

from .verdict_texts import iter_translatable_texts

__all__ = ["iter_translatable_texts"]
