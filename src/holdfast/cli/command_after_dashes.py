"""Commands that keep the arguments after `--` as a command to run."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand

COMMAND_KEY = "holdfast.command"


class DoubleDashCommand(TyperCommand):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[COMMAND_KEY] = args[at + 1 :]
            args = args[:at]
        before = list(args)  # parsing consumes them
        try:
            return list(super().parse_args(ctx, args))
        except typer.TyperException as error:
            message = self.explain_missing_dashes(ctx, before, error.format_message())
            if message is None:
                raise
            raise typer.BadParameter(message, ctx=ctx) from None

    def explain_missing_dashes(self, ctx: Any, args: list[str], message: str) -> str | None:
        """Return a better error message if the user forgot `--`; None: keep `message`."""
        raise NotImplementedError


def get_command_after_dashes(ctx: typer.Context) -> list[str]:
    found: list[str] = ctx.meta.get(COMMAND_KEY, [])
    return found
