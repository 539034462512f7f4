"""Whether a task that fails is kept: options of submit, plan and rerun."""

from __future__ import annotations

from typing import Annotated

import typer

from ..quantities import parse_duration

PANEL = "When a task fails"
Hold = Annotated[
    bool | None,
    typer.Option(
        "--hold/--no-hold",
        help="Keep it for debugging, whatever job and group say; or not.",
        rich_help_panel=PANEL,
        show_default=False,
    ),
]
HoldFor = Annotated[
    str | None, typer.Option(metavar="TIME", help="Keep it for so long: 12h, 3d.", rich_help_panel=PANEL)
]
HoldFiles = Annotated[
    bool, typer.Option("--hold-files", help="Keep its files only; its resources are freed.", rich_help_panel=PANEL)
]


def hold_word(hold: bool | None, hold_for: str | None, hold_files: bool) -> str | None:
    """What the server is asked for; None: what job and group say."""
    given = [name for name, value in (("--hold-for", hold_for), ("--hold-files", hold_files)) if value]
    if hold is False:
        if given:
            raise typer.BadParameter(f"choose --no-hold or {' and '.join(given)}")
        return "false"
    if hold_for is not None and parse_duration(hold_for) <= 0:
        raise typer.BadParameter("give some time, or --no-hold", param_hint="--hold-for")
    if not hold and not given:
        return None
    keep = "files" if hold_files else "all"
    return f"{keep}:{parse_duration(hold_for):g}s" if hold_for is not None else keep
