"""The `usage` command: monthly reports."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from .. import output
from ..options import JsonOption, open_client


def usage(
    month: Annotated[
        str | None,
        typer.Argument(metavar="MONTH", help="Month, such as 2026-11. Default: list the months with reports."),
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="Print one row for each try of each task.")] = False,
    json: JsonOption = False,
) -> None:
    """Print the usage report of a month as CSV. Admins only."""
    if month is None:
        _print_months(json)
        return
    found = re.fullmatch(r"(\d{4})[-/](\d{1,2})", month)
    if found is None:
        raise typer.BadParameter(f"{month!r} is not a month such as 2026-11", param_hint="MONTH")
    year, number = int(found[1]), int(found[2])
    with open_client() as client:
        if json:
            text = (
                b"".join(client.stream_usage_details(year, number)).decode()
                if details
                else client.get_usage_csv(year, number)
            )
            output.emit_json({"items": _parse_csv(text)})
        elif details:
            for piece in client.stream_usage_details(year, number):
                output.emit_bytes(piece)
        else:
            output.emit_bytes(client.get_usage_csv(year, number).encode())


def _print_months(json: bool) -> None:
    with open_client() as client:
        months = client.list_usage_months()
    if json:
        output.emit_json({"items": months})
        return
    for each in months:
        output.emit_line(f"{each.year}-{each.month:02}")
    if not months:
        output.print_note("No usage reports.")
    else:
        output.print_hint(f"holdfast usage {months[0].year}-{months[0].month:02}")


def _parse_csv(text: str) -> list[dict[str, str]]:
    import csv
    import io

    return list(csv.DictReader(io.StringIO(text)))
