"""instance-type: sizes that jobs name instead of writing their resources."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import parse_size, show_count, show_size
from .grants import Everyone, GroupName, Groups, NewEveryone, need_one, parse_pairs, split_groups, who

if TYPE_CHECKING:
    from holdfast.sdk import InstanceType

instance_types = typer.Typer(help="Instance types: sizes that jobs name.", no_args_is_help=True)


def complete_instance_type(incomplete: str) -> list[str]:
    """Names, for the shell's completion; silent when there is no server to ask."""
    from holdfast.core.errors import HoldfastError

    try:
        with connect(timeout=2) as client:
            return [type.name for type in client.instance_types() if type.name.startswith(incomplete)]
    except HoldfastError:
        return []


NewName = Annotated[str, typer.Argument(metavar="NAME", help="What jobs call it: small letters, digits, dashes, dots.")]
TypeName = Annotated[
    str, typer.Argument(metavar="NAME", help="The instance type's name.", autocompletion=complete_instance_type)
]
Cpu = Annotated[float | None, typer.Option(help="Cores.")]
Memory = Annotated[str | None, typer.Option(help="Memory: 512Mi, 2Gi.")]
Gpu = Annotated[int | None, typer.Option(help="GPUs.")]
CpuRequest = Annotated[
    str | None,
    typer.Option(help="Cores that must be free for a task to start, if fewer than it may use; none: as many."),
]
MemoryRequest = Annotated[
    str | None, typer.Option(help="Memory that must be free, if less than a task may use; none: as much.")
]
DisplayName = Annotated[str | None, typer.Option(help="What people call it.")]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
Label = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE", help="A label that machines must have, on engines that know them; may be repeated."
    ),
]
Tolerate = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY[=VALUE][:EFFECT]", help="A taint to put up with, on engines that know them; may be repeated."
    ),
]
OfGroup = Annotated[str | None, typer.Option("--group", "-g", help="Only what the jobs of this group can name.")]


@instance_types.command("ls")
def list_instance_types(group: OfGroup = None, json: Json = False) -> None:
    """List the sizes that your jobs can name."""
    with connect() as client:
        found = client.instance_types(group)
    if json:
        output.emit_json({"items": found})
        return
    if not found:
        output.note("There is none. An admin adds one: holdfast instance-type add NAME --cpu 2 --memory 8Gi")
        return
    rows = [
        [one.name, f"{one.cpu:g}", show_size(one.memory), one.gpu, _needs(one), _who(one), _about(one)] for one in found
    ]
    columns = ("TYPE", "CORES", "MEMORY", "GPUS", "MUST BE FREE", "FOR", "DESCRIPTION")
    output.table(columns, rows, cut=("DESCRIPTION", "FOR"), drop=("DESCRIPTION", "MUST BE FREE", "FOR"))
    output.hint("holdfast submit --instance-type NAME -- command", "holdfast instance-type show NAME")


@instance_types.command("show")
def show_instance_type(name: TypeName, json: Json = False) -> None:
    """Show an instance type."""
    with connect() as client:
        found = client.instance_type(name)
    if json:
        output.emit_json(found)
        return
    output.emit(output.styled(f"instance type {output.safe(found.name)}", "bold", sys.stdout))
    for label, value in _lines(found):
        if value:
            output.emit(f"  {label:<13} {output.safe(value)}")
    output.hint(f"holdfast submit --instance-type {found.name} -- command")


@instance_types.command("add")
def add_instance_type(
    name: NewName,
    cpu: Annotated[float, typer.Option(help="Cores.")] = 1.0,
    memory: Annotated[str, typer.Option(help="Memory: 512Mi, 2Gi.")] = "2Gi",
    gpu: Gpu = None,
    cpu_request: CpuRequest = None,
    memory_request: MemoryRequest = None,
    display_name: DisplayName = None,
    description: Description = None,
    label: Label = None,
    tolerate: Tolerate = None,
    group: Groups = None,
    everyone: NewEveryone = False,
    json: Json = False,
) -> None:
    """Put up a size: for everyone, or for the groups that are named."""
    with connect() as client:
        made = client.add_instance_type(
            name,
            cpu=cpu,
            memory=_size(memory, "--memory"),
            gpu=gpu,
            display_name=display_name,
            description=description,
            node_selector=parse_pairs(label, "--label"),
            tolerations=_tolerations(tolerate),
            everyone=everyone or None,
            groups=split_groups(group),
            **_requests(cpu_request, memory_request),
        )
    _say(made, "Added", json)
    output.hint(f"holdfast submit --instance-type {made.name} -- command")


@instance_types.command("set")
def change_instance_type(
    name: TypeName,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    cpu_request: CpuRequest = None,
    memory_request: MemoryRequest = None,
    display_name: DisplayName = None,
    description: Description = None,
    label: Label = None,
    tolerate: Tolerate = None,
    json: Json = False,
) -> None:
    """Change a size; what is not given stays. Jobs that were submitted before keep theirs."""
    with connect() as client:
        changed = client.change_instance_type(
            name,
            cpu=cpu,
            memory=None if memory is None else _size(memory, "--memory"),
            gpu=gpu,
            display_name=display_name,
            description=description,
            node_selector=parse_pairs(label, "--label"),
            tolerations=_tolerations(tolerate),
            **_requests(cpu_request, memory_request),
        )
    _say(changed, "Changed", json)


@instance_types.command("rm")
def remove_instance_type(name: TypeName, yes: Yes = False, json: Json = False) -> None:
    """Remove a size. Jobs that were submitted before keep theirs."""
    sure(f"Remove instance type {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_instance_type(name)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}.")


@instance_types.command("grant")
def grant_instance_type(
    name: TypeName, group: GroupName = None, everyone: Everyone = False, json: Json = False
) -> None:
    """Let the jobs of a group name it, or everyone's."""
    need_one(group, everyone)
    with connect() as client:
        found = (
            client.change_instance_type(name, everyone=True)
            if group is None
            else client.grant_instance_type(name, group)
        )
    _say(found, "Granted", json)


@instance_types.command("revoke")
def revoke_instance_type(
    name: TypeName, group: GroupName = None, everyone: Everyone = False, json: Json = False
) -> None:
    """Take back what was granted. Jobs that were submitted before keep it."""
    need_one(group, everyone)
    with connect() as client:
        if group is None:
            found = client.change_instance_type(name, everyone=False)
        else:
            client.revoke_instance_type(name, group)
            found = client.instance_type(name)
    _say(found, "Changed", json)


def _size(text: str, option: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a size such as 512Mi or 2Gi", param_hint=option) from None


def _requests(cpu: str | None, memory: str | None) -> dict[str, Any]:
    """Those that were given; none: as much as the limit."""
    found: dict[str, Any] = {}
    if cpu is not None:
        found["cpu_request"] = None if cpu.lower() == "none" else _cores(cpu)
    if memory is not None:
        found["memory_request"] = None if memory.lower() == "none" else _size(memory, "--memory-request")
    return found


def _cores(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint="--cpu-request") from None


def _tolerations(given: Sequence[str] | None) -> list[dict[str, str]] | None:
    """KEY=VALUE must be equal, KEY alone must be there; an effect may follow."""
    if not given:
        return None
    found = []
    for text in given:
        taint, _, effect = text.partition(":")
        key, equals, value = taint.partition("=")
        said = {"operator": "Equal" if equals else "Exists", "key": key, "value": value, "effect": effect}
        found.append({part: word for part, word in said.items() if word})
    return found


def _needs(type: InstanceType) -> str:
    """What must be free, where that is less than all."""
    parts = []
    if type.cpu_request is not None:
        parts.append(show_count(type.cpu_request, "core"))
    if type.memory_request is not None:
        parts.append(show_size(type.memory_request))
    return ", ".join(parts) or "all"


def _about(type: InstanceType) -> str:
    return ": ".join(filter(None, (type.display_name, type.description)))


def _who(type: InstanceType) -> str:
    return who(type.everyone, type.groups)


def _lines(type: InstanceType) -> list[tuple[str, str]]:
    tolerations = (" ".join(str(word) for word in each.values()) for each in type.tolerations)
    return [
        ("shown as", type.display_name),
        ("about", type.description),
        ("each task", _limits(type)),
        ("must be free", _needs(type)),
        ("labels", ", ".join(f"{key}={value}" for key, value in type.node_selector.items())),
        ("tolerates", ", ".join(tolerations)),
        ("for", _who(type)),
    ]


def _limits(type: InstanceType) -> str:
    gpus = [show_count(type.gpu, "GPU")] if type.gpu else []
    return ", ".join([show_count(type.cpu, "core"), show_size(type.memory), *gpus])


def _say(type: InstanceType, verb: str, json: bool) -> None:
    if json:
        output.emit_json(type)
    else:
        output.emit(f"{verb} {output.safe(type.name)}: {_limits(type)}, for {output.safe(_who(type))}.")
