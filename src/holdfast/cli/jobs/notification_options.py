"""What to be told of: an option of submit, plan and rerun."""

from __future__ import annotations

from typing import Annotated

import typer

Notify = Annotated[
    str | None,
    typer.Option(metavar="EVENTS", help="Tell me of these, whatever I chose for others: failed,held,succeeded."),
]
