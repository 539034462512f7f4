"""Fixtures of the store's own tests."""

from __future__ import annotations

from tests.postgres import postgres

__all__ = ["postgres"]
