"""Changes to the parameters of commands that Typer has built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def patch_params(command: Any, patch: Callable[[Any], Any]) -> Any:
    """Patch each parameter of a command and of its subcommands; return the command."""
    all_params = command.get_params
    command.get_params = lambda ctx: [patch(param) for param in all_params(ctx)]  # --help is added only there
    for below in getattr(command, "commands", {}).values():
        patch_params(below, patch)
    return command
