"""group mlflow: where a group's jobs report their experiments."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure

mlflow = typer.Typer(help="Where a group's jobs report their experiments.", no_args_is_help=True)

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@mlflow.command("show")
def show_mlflow(group: GroupName, json: Json = False) -> None:
    """Show where a group's jobs report to. Values of variables are shown to admins of the group alone."""
    with connect() as client:
        found = client.mlflow(group)
    if json:
        output.emit_json(found)
        return
    if found is None:
        output.note(f"None is set for {output.safe(group)}: holdfast group mlflow set {output.safe(group)} ADDRESS")
        return
    output.emit(f"tracking server  {output.safe(found.tracking_uri)}")
    if found.ui_url:
        output.emit(f"pages            {output.safe(found.ui_url)}")
    for name, value in sorted({**found.tracking_envs, **found.artifact_envs}.items()):
        output.emit(f"variable         {output.safe(name)}={output.safe(value)}")


@mlflow.command("set")
def set_mlflow(
    group: GroupName,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="Of the tracking server: http://mlflow:5000.")],
    ui_url: Annotated[str | None, typer.Option(help="Address of its pages.")] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME[=VALUE]",
            help="A variable to reach it; without a value, the one it has here. May be repeated.",
        ),
    ] = None,
    artifact_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME[=VALUE]", help="A variable to reach where it keeps artifacts."),
    ] = None,
    json: Json = False,
) -> None:
    """Set where a group's jobs report to, in place of what was set before."""
    with connect() as client:
        client.set_mlflow(
            group,
            address,
            ui_url=ui_url,
            tracking_envs=_variables(env, "--env"),
            artifact_envs=_variables(artifact_env, "--artifact-env"),
        )
    if json:
        output.emit_json({"group": group, "tracking_uri": address})
    else:
        output.emit(f"Jobs of {output.safe(group)} that start from now on report to {output.safe(address)}.")
    output.hint(f"holdfast group mlflow show {group}")


@mlflow.command("rm")
def remove_mlflow(group: GroupName, yes: Yes = False, json: Json = False) -> None:
    """Forget where a group's jobs report to, with its variables."""
    sure(f"Forget the MLflow of {output.safe(group)}?", yes)
    with connect() as client:
        client.remove_mlflow(group)
    if json:
        output.emit_json({"group": group, "removed": "mlflow"})
    else:
        output.emit(f"Jobs of {output.safe(group)} that start from now on are told of no MLflow.")


def _variables(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """A value that is not written comes from our own environment: others on this machine see what is written."""
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals and name not in os.environ:
            raise typer.BadParameter(f"{name!r} has no value, and is not in the environment", param_hint=option)
        found[name] = value if equals else os.environ[name]
    return found
