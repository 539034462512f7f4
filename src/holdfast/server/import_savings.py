"""Skips parts of libraries that a server does not use, to save memory and start time.

Call these functions before the libraries are imported.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, cast


def skip_pydantic_v1() -> None:
    """Keep FastAPI from loading all of Pydantic 1 for a type check."""
    sys.modules.setdefault("pydantic.v1", cast(Any, None))  # treated as "not installed"


def skip_uvicorn_cli() -> None:
    """Keep uvicorn from loading its command line. `Server` is then only available in `uvicorn.server`."""
    sys.modules.setdefault("uvicorn.main", _EmptyModule("uvicorn.main"))


class _EmptyModule(ModuleType):
    """Returns None for every name that is imported from it."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)
