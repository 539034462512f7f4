"""Notification option of submit, plan and rerun."""

from __future__ import annotations

from typing import Annotated

import typer

NotifyOption = Annotated[
    str | None,
    typer.Option(metavar="EVENTS", help="Notify on these events instead of your default ones: failed,held,succeeded."),
]
