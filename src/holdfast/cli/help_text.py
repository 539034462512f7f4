"""Value names in --help (TEXT, NUMBER) instead of Python types. Does nothing with an incompatible Typer."""

from __future__ import annotations

from typing import Any

from .command_params import patch_params

_VALUE_NAMES = {
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<int>": "NUMBER",
    "<int range>": "NUMBER",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
    "<bool>": None,  # flags have no value
}


def replace_type_names(command: Any) -> Any:
    """Replace the type names of a command and its subcommands."""
    return patch_params(command, _patch_param)


def _patch_param(param: Any) -> Any:
    shown_before = getattr(param, "display_type_rich", None)
    if shown_before is not None and not getattr(param, "in_words", False):
        param.in_words = True
        param.display_type_rich = lambda ctx: _choose_value_name(param, shown_before(ctx=ctx))
    return param


def _choose_value_name(param: Any, shown: str | None) -> str | None:
    if shown is None or not shown.startswith("<"):
        return shown
    if "|" in shown:
        return shown.strip("<>")  # the choices
    if param.param_type_name == "argument":
        return None  # its name is shown already
    return _VALUE_NAMES.get(shown, shown.strip("<>").upper())
