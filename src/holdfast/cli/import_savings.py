"""Sparing commands the wait for libraries they do not use.

Typer loads pydantic to convert any option's value, which takes longer than most commands do. Words, and values that are
what they should be already, need no conversion. With a Typer that works otherwise this does nothing.
"""

from __future__ import annotations

import sys
from typing import Any, cast


def leave_out_httpx_cli() -> None:
    """httpx, once loaded, loads a command line of its own, which brings in more than all the rest of it."""
    sys.modules.setdefault("httpx._main", cast(Any, None))  # taken as "not installed"


def spare_conversions(command: Any) -> Any:
    """The same command, and all below it, converting only what needs it."""
    all_params = command.get_params
    command.get_params = lambda ctx: [_spared(param) for param in all_params(ctx)]  # --help comes to be only there
    for below in getattr(command, "commands", {}).values():
        spare_conversions(below)
    return command


def _spared(param: Any) -> Any:
    if getattr(param, "_runtime_param", param) is None and hasattr(param, "type_descriptor"):
        param._runtime_param = _WhenNeeded()
    return param


class _WhenNeeded:
    """Stands in for Typer's converter of one parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if _is_right(value, param.type_descriptor.annotation):
            return value
        from typer._coercion import build_runtime_param

        return build_runtime_param(param.type_descriptor).coerce(value, param=param, ctx=ctx)


def _is_right(value: Any, annotation: Any) -> bool:
    if annotation == list[str]:
        return isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    # A number that is one already is a default of ours; from the command line it would come as a word.
    return annotation in (str, int, float, bool) and type(value) is annotation
