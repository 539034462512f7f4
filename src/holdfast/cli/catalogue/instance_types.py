"""The `instance-type` commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import (
    DescriptionOption,
    DisplayNameOption,
    JsonOption,
    YesOption,
    expand_options,
    make_completer,
    open_client,
)
from ..prompts import confirm_or_exit
from ..quantities import format_resources, format_size, parse_size
from ..slurm_options import SlurmOption, format_slurm_options, merge_slurm_options
from .grants import (
    AllowEveryoneOption,
    EveryoneOption,
    GroupFilterOption,
    GroupNameArgument,
    GroupsOption,
    NewNameArgument,
    format_audience,
    format_description,
    parse_pairs,
    require_group_or_everyone,
    split_groups,
)

if TYPE_CHECKING:
    from holdfast.sdk import InstanceType

instance_type_app = typer.Typer(help="Manage instance types: named resource sizes of tasks.", no_args_is_help=True)


complete_instance_type = make_completer(lambda client: [type.name for type in client.list_instance_types()])
InstanceTypeNameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of the instance type.", autocompletion=complete_instance_type)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceTypeOptions:
    """Options of `holdfast instance-type add` and `set`."""

    gpu: Annotated[int | None, typer.Option(help="Number of GPUs.")] = None
    cpu_request: Annotated[str | None, typer.Option(help="CPU request, if lower than the limit; none: the limit.")] = (
        None
    )
    memory_request: Annotated[
        str | None, typer.Option(help="Memory request, if lower than the limit; none: the limit.")
    ] = None
    display_name: DisplayNameOption = None
    description: DescriptionOption = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Node label to require, on engines that support it. Repeatable."),
    ] = None
    tolerate: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY[=VALUE][:EFFECT]", help="Taint to tolerate, on engines that support it. Repeatable."),
    ] = None

    slurm: SlurmOption = None

    def to_fields(self) -> dict[str, Any]:
        """Return the given fields, without those for Slurm. A request of None: same as the limit."""
        fields: dict[str, Any] = {
            "gpu": self.gpu,
            "display_name": self.display_name,
            "description": self.description,
            "node_selector": parse_pairs(self.label, "--label"),
            "tolerations": _parse_tolerations(self.tolerate),
        }
        if (cpu := self.cpu_request) is not None:
            fields["cpu_request"] = None if cpu.lower() == "none" else _parse_cores(cpu)
        if (memory := self.memory_request) is not None:
            fields["memory_request"] = None if memory.lower() == "none" else _parse_memory(memory, "--memory-request")
        return fields


@instance_type_app.command("ls")
def list_instance_types(group: GroupFilterOption = None, json: JsonOption = False) -> None:
    """List the instance types that you can use."""
    with open_client() as client:
        found = client.list_instance_types(group)
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.print_note(
            "No instance types. An admin can add one: holdfast instance-type add NAME --cpu 2 --memory 8Gi"
        )
        return
    rows = [
        [
            one.name,
            f"{one.cpu:g}",
            format_size(one.memory),
            one.gpu,
            _format_requests(one),
            format_audience(one),
            format_description(one),
        ]
        for one in found
    ]
    columns = ("TYPE", "CORES", "MEMORY", "GPUS", "REQUEST", "FOR", "DESCRIPTION")
    output.emit_table(columns, rows, cut=("DESCRIPTION", "FOR"), drop=("DESCRIPTION", "REQUEST", "FOR"))
    output.print_hint("holdfast submit --instance-type NAME -- command", "holdfast instance-type show NAME")


@instance_type_app.command("show")
def show_instance_type(name: InstanceTypeNameArgument, json: JsonOption = False) -> None:
    """Show an instance type."""
    with open_client() as client:
        found = client.get_instance_type(name)
    if json:
        output.emit_json(found)
        return
    output.emit_styled(f"instance type {output.escape(found.name)}", "bold")
    output.emit_fields(_list_instance_type_fields(found), 13)
    output.print_hint(f"holdfast submit --instance-type {found.name} -- command")


@instance_type_app.command("add")
@expand_options
def add_instance_type(
    name: NewNameArgument,
    *,
    cpu: Annotated[float, typer.Option(help="CPU limit in cores.")] = 1.0,
    memory: Annotated[str, typer.Option(help="Memory limit: 512Mi, 2Gi.")] = "2Gi",
    options: InstanceTypeOptions,
    group: GroupsOption = None,
    everyone: AllowEveryoneOption = False,
    json: JsonOption = False,
) -> None:
    """Add an instance type, for everyone or for groups."""
    slurm = merge_slurm_options(options.slurm, {})
    fields = {**options.to_fields(), "slurm": slurm, "everyone": everyone or None, "groups": split_groups(group)}
    size = _parse_memory(memory, "--memory")
    with open_client() as client:
        added = client.add_instance_type(name, cpu=cpu, memory=size, **fields)
    _report_instance_type(added, "Added", json)
    output.print_hint(f"holdfast submit --instance-type {added.name} -- command")


@instance_type_app.command("set")
@expand_options
def change_instance_type(
    name: InstanceTypeNameArgument,
    *,
    cpu: Annotated[float | None, typer.Option(help="CPU limit in cores.")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory limit: 512Mi, 2Gi.")] = None,
    options: InstanceTypeOptions,
    json: JsonOption = False,
) -> None:
    """Change an instance type; omitted options keep their value. Submitted jobs are not affected."""
    size = None if memory is None else _parse_memory(memory, "--memory")
    fields = options.to_fields()
    with open_client() as client:
        if options.slurm:
            fields["slurm"] = merge_slurm_options(options.slurm, client.get_instance_type(name).slurm)
        changed = client.change_instance_type(name, cpu=cpu, memory=size, **fields)
    _report_instance_type(changed, "Changed", json)


@instance_type_app.command("rm")
def remove_instance_type(name: InstanceTypeNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete an instance type. Submitted jobs are not affected."""
    confirm_or_exit(f"Delete instance type {output.escape(name)}?", yes)
    with open_client() as client:
        client.remove_instance_type(name)
    output.emit_removed(name, json)


@instance_type_app.command("grant")
def grant_instance_type(
    name: InstanceTypeNameArgument,
    group: GroupNameArgument = None,
    everyone: EveryoneOption = False,
    json: JsonOption = False,
) -> None:
    """Grant a group, or all users, access to an instance type."""
    require_group_or_everyone(group, everyone)
    with open_client() as client:
        found = (
            client.change_instance_type(name, everyone=True)
            if group is None
            else client.grant_instance_type(name, group)
        )
    _report_instance_type(found, "Granted", json)


@instance_type_app.command("revoke")
def revoke_instance_type(
    name: InstanceTypeNameArgument,
    group: GroupNameArgument = None,
    everyone: EveryoneOption = False,
    json: JsonOption = False,
) -> None:
    """Revoke access to an instance type. Submitted jobs are not affected."""
    require_group_or_everyone(group, everyone)
    with open_client() as client:
        if group is None:
            found = client.change_instance_type(name, everyone=False)
        else:
            client.revoke_instance_type(name, group)
            found = client.get_instance_type(name)
    _report_instance_type(found, "Changed", json)


def _parse_memory(text: str, option: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a size such as 512Mi or 2Gi", param_hint=option) from None


def _parse_cores(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint="--cpu-request") from None


def _parse_tolerations(texts: Sequence[str] | None) -> list[dict[str, str]] | None:
    """Parse KEY=VALUE (Equal) and KEY (Exists), each with an optional :EFFECT."""
    found = []
    for text in texts or ():
        taint, _, effect = text.partition(":")
        key, equals, value = taint.partition("=")
        toleration = {"operator": "Equal" if equals else "Exists", "key": key, "value": value, "effect": effect}
        found.append({field: part for field, part in toleration.items() if part})
    return found or None


def _format_requests(type: InstanceType) -> str:
    """Return the requests that are lower than the limits."""
    return format_resources(type.cpu_request, type.memory_request, None) or "same"


def _list_instance_type_fields(type: InstanceType) -> list[tuple[str, str]]:
    tolerations = (" ".join(str(part) for part in each.values()) for each in type.tolerations)
    return [
        ("shown as", type.display_name),
        ("description", type.description),
        ("limits", _format_limits(type)),
        ("requests", _format_requests(type)),
        ("labels", ", ".join(f"{key}={value}" for key, value in type.node_selector.items())),
        ("tolerates", ", ".join(tolerations)),
        ("slurm", format_slurm_options(type.slurm)),
        ("for", format_audience(type)),
    ]


def _format_limits(type: InstanceType) -> str:
    return format_resources(type.cpu, type.memory, type.gpu or None)


def _report_instance_type(type: InstanceType, verb: str, json: bool) -> None:
    text = f"{verb} {output.escape(type.name)}: {_format_limits(type)}, for {output.escape(format_audience(type))}."
    output.emit_result(type, text, json)
