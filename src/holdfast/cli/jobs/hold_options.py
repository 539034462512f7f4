"""Hold options of submit, plan and rerun."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ..quantities import parse_duration

PANEL = "Hold on failure"


@dataclass(frozen=True, slots=True)
class HoldOptions:
    hold: Annotated[
        bool | None,
        typer.Option(
            "--hold/--no-hold",
            help="Hold failed tasks for debugging, or not. Overrides job and group.",
            rich_help_panel=PANEL,
            show_default=False,
        ),
    ] = None
    hold_for: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Hold failed tasks for this long: 12h, 3d.", rich_help_panel=PANEL),
    ] = None
    hold_files: Annotated[
        bool, typer.Option("--hold-files", help="Hold only the files; free the resources.", rich_help_panel=PANEL)
    ] = False

    def build_hold_parameter(self) -> str | None:
        """Return the value of the API's `hold` parameter; None: use the setting of job or group."""
        given = [name for name, value in (("--hold-for", self.hold_for), ("--hold-files", self.hold_files)) if value]
        if self.hold is False:
            if given:
                raise typer.BadParameter(f"--no-hold cannot be used with {' and '.join(given)}")
            return "false"
        if self.hold_for is not None and parse_duration(self.hold_for) <= 0:
            raise typer.BadParameter("must be greater than 0; to disable holds, use --no-hold", param_hint="--hold-for")
        if not self.hold and not given:
            return None
        keep = "files" if self.hold_files else "all"
        return f"{keep}:{parse_duration(self.hold_for):g}s" if self.hold_for is not None else keep
