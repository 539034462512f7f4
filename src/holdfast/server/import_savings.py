"""Leaves out parts of libraries that a server does not use: they would take memory for good and time at every start.

Call these before the libraries are imported.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, cast


def leave_out_pydantic_v1() -> None:
    """Spare FastAPI loading all of Pydantic 1 to see that no model is one of its models."""
    sys.modules.setdefault("pydantic.v1", cast(Any, None))  # taken as "not installed"


def leave_out_uvicorn_cli() -> None:
    """Spare uvicorn loading its command line. `Server` is then to be found in `uvicorn.server` only."""
    sys.modules.setdefault("uvicorn.main", _EmptyModule("uvicorn.main"))


class _EmptyModule(ModuleType):
    """Gives None for every name that is imported from it."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
