"""group: who shares a queue and a quota."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import Json, Yes, connect
from ..prompts import sure
from ..quantities import parse_duration, parse_size, show_count, show_duration, show_size
from .mlflow import mlflow

if TYPE_CHECKING:
    from holdfast.api.resources import Amount, Quota
    from holdfast.api.server import GroupUse
    from holdfast.sdk import Client, Group

groups = typer.Typer(help="Groups, their quotas and members.", no_args_is_help=True)
members = typer.Typer(help="Members of a group.", no_args_is_help=True)
groups.add_typer(members, name="member")
groups.add_typer(mlflow, name="mlflow")

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

Hold = Annotated[
    str | None,
    typer.Option(
        metavar="HOLD",
        help="Keep failed tasks of jobs that do not say: on, 7d, files, files:7d; off.",
    ),
]
DisplayName = Annotated[str | None, typer.Option(help="What people call it.")]
Volume = Annotated[bool | None, typer.Option("--volume/--no-volume", help="Whether its jobs find a folder that stays.")]
VolumeSize = Annotated[
    str | None, typer.Option(metavar="GB", help="How large that folder is meant to be; not enforced; none: not said.")
]
LaunchOnly = Annotated[
    bool | None,
    typer.Option("--own-jobs/--all-jobs", help="Whether only jobs of this group see it, or all jobs of its members."),
]
HomeLink = Annotated[
    bool | None, typer.Option("--home-link/--no-home-link", help="Whether /home/jovyan/GROUP leads to it.")
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
    output.table(columns, rows, cut=("DESCRIPTION",), drop=("DESCRIPTION", "TIME LIMIT", "MEMBERS", "PER USER"))
    output.hint("holdfast group add NAME", "holdfast group show NAME")


@groups.command("show")
def show_group(name: GroupName, json: Json = False) -> None:
    """Show a group, what it has in use, and its members."""
    with connect() as client:
        group = client.group(name)
        use = _use(client, group.name)
    if json:
        from holdfast.sdk.reading import dump

        output.emit_json({**dump(group), "used": use.used, "users": use.users})
        return
    output.emit(f"{output.safe(group.name)}  {output.safe(group.description)}")
    for label, value in _lines(group, use):
        if value:
            output.emit(f"  {label:<11} {output.safe(value)}")
    for user, admin in sorted(group.members.items()):
        role = " (admin)" if admin else ""
        output.emit(f"  member      {output.safe(user)}{role}{_in_use(use.users.get(user))}")
    for user in sorted(set(use.users) - set(group.members)):
        output.emit(f"  not in it   {output.safe(user)}{_in_use(use.users[user])}")
    output.hint(f"holdfast group member add {group.name} USER", f"holdfast ls --group {group.name}")


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
    display_name: DisplayName = None,
    volume: Volume = None,
    volume_size: VolumeSize = None,
    own_jobs: LaunchOnly = None,
    home_link: HomeLink = None,
    hold: Hold = None,
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
            display_name=display_name,
            shared_volume=volume,
            volume_capacity=None if volume_size is None else _bound(volume_size, int, "--volume-size"),
            launch_only=own_jobs,
            home_symlink=home_link,
            hold=hold,
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
    display_name: DisplayName = None,
    volume: Volume = None,
    volume_size: VolumeSize = None,
    own_jobs: LaunchOnly = None,
    home_link: HomeLink = None,
    hold: Hold = None,
    json: Json = False,
) -> None:
    """Change a group; what is not given stays."""
    with connect() as client:
        now = client.group(name)
        change: dict[str, Any] = {
            "display_name": display_name,
            "description": description,
            "shared_volume": volume,
            "launch_only": own_jobs,
            "home_symlink": home_link,
        }
        if volume_size is not None:
            change["volume_capacity"] = _bound(volume_size, int, "--volume-size")
        if any((cpu, memory, gpu)):
            change["quota"] = _quota(now.quota, cpu, memory, gpu)
        if any((user_cpu, user_memory, user_gpu)):
            change["user_quota"] = _quota(now.user_quota, user_cpu, user_memory, user_gpu)
        if time_limit is not None:
            change["time_limit"] = _seconds(time_limit)
        if hold is not None:
            change["hold"] = hold
        group = client.change_group(name, **change)
    _say(group, "Changed", json)


@groups.command("rm")
def remove_group(name: GroupName, yes: Yes = False, json: Json = False) -> None:
    """Remove a group. Its jobs and their logs stay."""
    sure(f"Remove group {output.safe(name)}?", yes)
    with connect() as client:
        members = len(client.group(name).members)
        client.remove_group(name)
    if json:
        output.emit_json({"removed": name})
        return
    lost = f"{show_count(members, 'member')} no longer {'belongs' if members == 1 else 'belong'} to it. "
    output.emit(
        f"Removed {output.safe(name)}. {lost if members else ''}Its shared files and its volume stay on disk; "
        "a new group of that name does not get them."
    )


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
    from holdfast.api.resources import Quota

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


def _use(client: Client, group: str) -> GroupUse:
    from holdfast.api.server import GroupUse

    found = (use for use in client.capacity().groups if use.name == group)
    return next(found, GroupUse(name=group))


def _lines(group: Group, use: GroupUse) -> list[tuple[str, str]]:
    return [
        ("shown as", group.display_name),
        ("quota", _bounds(group.quota)),
        ("in use", _amount(use.used) or "nothing"),
        ("per user", _bounds(group.user_quota)),
        ("time limit", _limit(group.time_limit)),
        ("hold", group.hold or ""),
        ("volume", _volume(group)),
    ]


def _volume(group: Group) -> str:
    from holdfast.core.identity import group_path

    if not group.shared_volume:
        return ""
    size = "" if group.volume_capacity is None else f", {group.volume_capacity} GB"
    whose = "" if group.launch_only else ", in all jobs of its members"
    return f"/project/{group_path(group.name)}{size}{whose}"


def _amount(amount: Amount) -> str:
    parts = [
        show_count(amount.cpu, "core") if amount.cpu else "",
        show_size(amount.memory) if amount.memory else "",
        show_count(amount.gpu, "GPU") if amount.gpu else "",
    ]
    return ", ".join(part for part in parts if part)


def _in_use(amount: Amount | None) -> str:
    return f"  {_amount(amount)} in use" if amount is not None and _amount(amount) else ""


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


def _summary(group: Group) -> str:
    parts = [
        f"quota {_bounds(group.quota)}",
        f"per user {_bounds(group.user_quota)}",
        f"time limit {_limit(group.time_limit)}",
        f"hold {group.hold}" if group.hold else "",
        f"volume {_volume(group)}" if group.shared_volume else "",
        group.description,
    ]
    return "; ".join(filter(None, parts))


def _say(group: Group, verb: str, json: bool) -> None:
    if json:
        output.emit_json(group)
    else:
        output.emit(f"{verb} {output.safe(group.name)}: {output.safe(_summary(group))}.")
