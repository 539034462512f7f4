"""group: who shares a queue and a quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import output
from .options import Json, Yes, connect
from .quantities import parse_duration, parse_size, show_count, show_duration, show_size
from .asking import sure

if TYPE_CHECKING:
    from holdfast.sdk import Group
    from holdfast.sdk.models import Quota

groups = typer.Typer(help="Groups, their quotas and members.", no_args_is_help=True)
members = typer.Typer(help="Members of a group.", no_args_is_help=True)
groups.add_typer(members, name="member")

GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]
UserName = Annotated[str, typer.Argument(metavar="USER", help="The user's name.")]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
Cpu = Annotated[str | None, typer.Option(help="Cores of the whole group; none: no bound.")]
Memory = Annotated[str | None, typer.Option(help="Memory of the whole group: 64Gi; none: no bound.")]
Gpu = Annotated[str | None, typer.Option(help="GPUs of the whole group; none: no bound.")]
UserCpu = Annotated[str | None, typer.Option(help="Cores of each user in it; none: no bound.")]
UserMemory = Annotated[str | None, typer.Option(help="Memory of each user in it; none: no bound.")]
UserGpu = Annotated[str | None, typer.Option(help="GPUs of each user in it; none: no bound.")]
TimeLimit = Annotated[
    str | None, typer.Option(help="How long its jobs may run: 12h; 0: no limit; default: the server's own.")
]


@groups.command("ls")
def list_groups(json: Json = False) -> None:
    """List groups."""
    with connect() as client:
        found = client.groups()
    if json:
        output.emit_json({"items": found})
        return
    rows = [
        [
            group.name,
            len(group.members),
            _bounds(group.quota),
            _bounds(group.user_quota),
            _limit(group.time_limit),
            group.description,
        ]
        for group in found
    ]
    columns = ("GROUP", "MEMBERS", "QUOTA", "PER USER", "TIME LIMIT", "DESCRIPTION")
    output.table(columns, rows, cut=("DESCRIPTION",))
    output.hint("holdfast group add NAME", "holdfast group show NAME")


@groups.command("show")
def show_group(name: GroupName, json: Json = False) -> None:
    """Show a group and its members."""
    with connect() as client:
        group = client.group(name)
    if json:
        output.emit_json(group)
        return
    output.emit(f"{output.safe(group.name)}  {output.safe(group.description)}")
    output.emit(f"  quota       {_bounds(group.quota)}")
    output.emit(f"  per user    {_bounds(group.user_quota)}")
    output.emit(f"  time limit  {_limit(group.time_limit)}")
    for user, admin in sorted(group.members.items()):
        output.emit(f"  member      {output.safe(user)}{' (admin)' if admin else ''}")
    output.hint(f"holdfast group member add {group.name} USER")


@groups.command("add")
def add_group(
    name: GroupName,
    description: Description = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    user_cpu: UserCpu = None,
    user_memory: UserMemory = None,
    user_gpu: UserGpu = None,
    time_limit: TimeLimit = None,
    json: Json = False,
) -> None:
    """Add a group."""
    with connect() as client:
        group = client.add_group(
            name,
            description=description,
            quota=_quota(None, cpu, memory, gpu),
            user_quota=_quota(None, user_cpu, user_memory, user_gpu),
            time_limit=_seconds(time_limit),
        )
    _say(group, "Added", json)
    output.hint(f"holdfast group member add {group.name} USER")


@groups.command("set")
def change_group(
    name: GroupName,
    description: Description = None,
    cpu: Cpu = None,
    memory: Memory = None,
    gpu: Gpu = None,
    user_cpu: UserCpu = None,
    user_memory: UserMemory = None,
    user_gpu: UserGpu = None,
    time_limit: TimeLimit = None,
    json: Json = False,
) -> None:
    """Change a group; what is not given stays."""
    with connect() as client:
        now = client.group(name)
        change: dict[str, Any] = {"description": description}
        if any((cpu, memory, gpu)):
            change["quota"] = _quota(now.quota, cpu, memory, gpu)
        if any((user_cpu, user_memory, user_gpu)):
            change["user_quota"] = _quota(now.user_quota, user_cpu, user_memory, user_gpu)
        if time_limit is not None:
            change["time_limit"] = _seconds(time_limit)
        group = client.change_group(name, **change)
    _say(group, "Changed", json)


@groups.command("rm")
def remove_group(name: GroupName, yes: Yes = False, json: Json = False) -> None:
    """Remove a group. Its jobs and their logs stay."""
    sure(f"Remove group {output.safe(name)}?", yes)
    with connect() as client:
        client.remove_group(name)
    if json:
        output.emit_json({"removed": name})
    else:
        output.emit(f"Removed {output.safe(name)}.")


@members.command("add")
def add_member(
    group: GroupName,
    user: UserName,
    admin: Annotated[bool, typer.Option("--admin", help="May manage the group's members.")] = False,
    json: Json = False,
) -> None:
    """Add a member, or change whether they are an admin of the group."""
    with connect() as client:
        client.set_member(group, user, admin=admin)
    if json:
        output.emit_json({"group": group, "user": user, "admin": admin})
    else:
        output.emit(f"{output.safe(user)} belongs to {output.safe(group)}{' as its admin' if admin else ''}.")


@members.command("rm")
def remove_member(group: GroupName, user: UserName, json: Json = False) -> None:
    """Remove a member."""
    with connect() as client:
        client.remove_member(group, user)
    if json:
        output.emit_json({"group": group, "removed": user})
    else:
        output.emit(f"{output.safe(user)} no longer belongs to {output.safe(group)}.")


def _quota(now: Quota | None, cpu: str | None, memory: str | None, gpu: str | None) -> Quota:
    """The present quota with what was given in place."""
    from holdfast.sdk.models import Quota

    now = now or Quota()
    return Quota(
        cpu=now.cpu if cpu is None else _bound(cpu, float, "--cpu"),
        memory=now.memory if memory is None else _bound(memory, parse_size, "--memory"),
        gpu=now.gpu if gpu is None else _bound(gpu, int, "--gpu"),
    )


def _bound(text: str, parse: Any, option: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        return parse(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint=option) from None


def _seconds(text: str | None) -> float | None:
    return None if text is None or text.lower() == "default" else parse_duration(text)


def _bounds(quota: Quota) -> str:
    parts = []
    if quota.cpu is not None:
        parts.append(show_count(quota.cpu, "core"))
    if quota.memory is not None:
        parts.append(show_size(quota.memory))
    if quota.gpu is not None:
        parts.append(show_count(quota.gpu, "GPU"))
    return ", ".join(parts) or "unbounded"


def _limit(seconds: float | None) -> str:
    return "default" if seconds is None else "none" if seconds == 0 else show_duration(seconds)


def _say(group: Group, verb: str, json: bool) -> None:
    if json:
        output.emit_json(group)
    else:
        output.emit(f"{verb} {output.safe(group.name)}.")
