"""Help in words: what kind of value an option takes, in place of Python's types. With another Typer it does nothing."""

from __future__ import annotations

from typing import Any

_WORDS = {
    "<str>": "TEXT",
    "<list[str]>": "TEXT",
    "<int>": "NUMBER",
    "<int range>": "NUMBER",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
    "<bool>": None,  # a flag takes no value
}


def explain_in_words(command: Any) -> Any:
    """The same command, and all below it."""
    all_params = command.get_params
    command.get_params = lambda ctx: [_in_words(param) for param in all_params(ctx)]  # --help comes to be only there
    for below in getattr(command, "commands", {}).values():
        explain_in_words(below)
    return command


def _in_words(param: Any) -> Any:
    shown_before = getattr(param, "display_type_rich", None)
    if shown_before is not None and not getattr(param, "in_words", False):
        param.in_words = True
        param.display_type_rich = lambda ctx: _word(param, shown_before(ctx=ctx))
    return param


def _word(param: Any, shown: str | None) -> str | None:
    if shown is None or not shown.startswith("<"):
        return shown
    if "|" in shown:
        return shown.strip("<>")  # the words to choose from
    if param.param_type_name == "argument":
        return None  # its name stands beside it
    return _WORDS.get(shown, shown.strip("<>").upper())
