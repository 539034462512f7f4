"""The `group mlflow` commands."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import output
from ..options import JsonOption, YesOption, open_client
from ..prompts import confirm_or_exit

mlflow_app = typer.Typer(help="Manage the MLflow tracking server of a group.", no_args_is_help=True)

GroupNameArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]


@mlflow_app.command("show")
def show_mlflow(group: GroupNameArgument, json: JsonOption = False) -> None:
    """Show the MLflow tracking server of a group. Only admins of the group see the values of variables."""
    with open_client() as client:
        found = client.get_mlflow(group)
    if json:
        output.emit_json(found)
        return
    if found is None:
        name = output.escape(group)
        output.print_note(f"No tracking server for {name}. Set one: holdfast group mlflow set {name} ADDRESS")
        return
    output.emit_line(f"tracking server  {output.escape(found.tracking_uri)}")
    if found.ui_url:
        output.emit_line(f"web UI           {output.escape(found.ui_url)}")
    for name, value in sorted({**found.tracking_envs, **found.artifact_envs}.items()):
        output.emit_line(f"variable         {output.escape(name)}={output.escape(value)}")


@mlflow_app.command("set")
def set_mlflow(
    group: GroupNameArgument,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Tracking server, such as http://mlflow:5000.")],
    ui_url: Annotated[str | None, typer.Option(help="Address of its web UI.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME[=VALUE]",
            help="Variable for the tracking server; without a value, taken from your environment. Repeatable.",
        ),
    ] = None,
    artifact_env: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Variable for the artifact store. Repeatable.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Set the MLflow tracking server of a group; replaces the previous configuration."""
    with open_client() as client:
        client.set_mlflow(
            group,
            address,
            ui_url=ui_url,
            tracking_envs=_parse_variables(env, "--env"),
            artifact_envs=_parse_variables(artifact_env, "--artifact-env"),
        )
    output.emit_result(
        {"group": group, "tracking_uri": address},
        f"New jobs of {output.escape(group)} use the tracking server {output.escape(address)}.",
        json,
    )
    output.print_hint(f"holdfast group mlflow show {group}")


@mlflow_app.command("rm")
def remove_mlflow(group: GroupNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete the MLflow tracking server and its variables from a group."""
    confirm_or_exit(f"Delete the MLflow tracking server of {output.escape(group)}?", yes)
    with open_client() as client:
        client.remove_mlflow(group)
    output.emit_result(
        {"group": group, "removed": "mlflow"},
        f"Removed. New jobs of {output.escape(group)} have no tracking server.",
        json,
    )


def _parse_variables(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """Parse NAME[=VALUE]; a missing value comes from the environment, since other users can see arguments."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise typer.BadParameter(f"{name!r} has no value and is not set in the environment", param_hint=option)
        found[name] = value if equals else os.environ[name]
    return found
