"""Faster start: commands do not load libraries that they do not use.

Typer loads pydantic to convert option values, which takes longer than most commands. Strings, and values that already
have the right type, need no conversion. Does nothing with an incompatible Typer.
"""

from __future__ import annotations

import sys
from typing import Any, cast

from .command_params import patch_params


def skip_httpx_cli() -> None:
    """Keep httpx from importing its own command line, which is slow."""
    sys.modules.setdefault("httpx._main", cast(Any, None))  # means "not installed"


def skip_conversions(command: Any) -> Any:
    """Skip needless conversions of a command and its subcommands."""
    return patch_params(command, _patch_param)


def _patch_param(param: Any) -> Any:
    if getattr(param, "_runtime_param", param) is None and hasattr(param, "type_descriptor"):
        param._runtime_param = _LazyConverter()
    return param


class _LazyConverter:
    """Replacement for Typer's converter of one parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if _has_type(value, param.type_descriptor.annotation):
            return value
        from typer._coercion import build_runtime_param

        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)


def _has_type(value: Any, annotation: Any) -> bool:
    if annotation == list[str]:
        return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    # A number is a default value; from the command line it would be a string.
    return annotation in (str, int, float, bool) and type(value) is annotation
