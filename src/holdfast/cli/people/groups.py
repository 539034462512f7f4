"""The `group` commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import output
from ..options import DescriptionOption, DisplayNameOption, JsonOption, YesOption, expand_options, open_client
from ..prompts import confirm_or_exit
from ..quantities import format_count, format_duration, format_resources, parse_duration, parse_size
from ..slurm_options import SlurmOption, format_slurm_options, merge_slurm_options
from .mlflow import mlflow_app

if TYPE_CHECKING:
    from holdfast.api.groups import GroupFields
    from holdfast.api.resources import Quota, ResourceAmount
    from holdfast.api.server import GroupUsage
    from holdfast.sdk import Client, Group

group_app = typer.Typer(help="Manage groups, their quotas and members.", no_args_is_help=True)
member_app = typer.Typer(help="Manage the members of a group.", no_args_is_help=True)
group_app.add_typer(member_app, name="member")
group_app.add_typer(mlflow_app, name="mlflow")

GroupNameArgument = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")]
UserNameArgument = Annotated[str, typer.Argument(metavar="USER", help="Name of the user.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    """Options of `holdfast group add` and `set`."""

    description: DescriptionOption = None
    cpu: Annotated[str | None, typer.Option(help="CPU quota of the group in cores; none: unlimited.")] = None
    memory: Annotated[str | None, typer.Option(help="Memory quota of the group: 64Gi; none: unlimited.")] = None
    gpu: Annotated[str | None, typer.Option(help="GPU quota of the group; none: unlimited.")] = None
    user_cpu: Annotated[str | None, typer.Option(help="CPU quota of each user in the group; none: unlimited.")] = None
    user_memory: Annotated[
        str | None, typer.Option(help="Memory quota of each user in the group; none: unlimited.")
    ] = None
    user_gpu: Annotated[str | None, typer.Option(help="GPU quota of each user in the group; none: unlimited.")] = None
    time_limit: Annotated[
        str | None, typer.Option(help="Time limit of its jobs: 12h; 0: none; default: the server's.")
    ] = None
    display_name: DisplayNameOption = None
    volume: Annotated[
        bool | None, typer.Option("--volume/--no-volume", help="Give its jobs a persistent shared folder.")
    ] = None
    volume_size: Annotated[
        str | None, typer.Option(metavar="GB", help="Intended size of the shared folder; not enforced; none: not set.")
    ] = None
    own_jobs: Annotated[
        bool | None,
        typer.Option(
            "--own-jobs/--all-jobs",
            help="Mount the shared folder only in jobs of this group, or in all jobs of its members.",
        ),
    ] = None
    home_link: Annotated[
        bool | None, typer.Option("--home-link/--no-home-link", help="Link the shared folder at /home/jovyan/GROUP.")
    ] = None
    hold: Annotated[
        str | None, typer.Option(metavar="HOLD", help="Default hold of its jobs: on, off, 7d, files, files:7d.")
    ] = None

    engine: Annotated[
        str | None, typer.Option(metavar="ENGINE", help="Engine of its jobs; `default` resets it to the server's.")
    ] = None

    slurm: SlurmOption = None

    def to_fields(self, quota: Quota, user_quota: Quota, slurm: Mapping[str, str]) -> GroupFields:
        """Return the given fields; the quotas and options for Slurm are merged with the current ones."""
        fields: GroupFields = {
            "display_name": self.display_name,
            "description": self.description,
            "shared_volume": self.volume,
            "launch_only": self.own_jobs,
            "home_symlink": self.home_link,
        }
        if any((self.cpu, self.memory, self.gpu)):
            fields["quota"] = _merge_quota(quota, self.cpu, self.memory, self.gpu)
        if any((self.user_cpu, self.user_memory, self.user_gpu)):
            fields["user_quota"] = _merge_quota(user_quota, self.user_cpu, self.user_memory, self.user_gpu)
        if self.volume_size is not None:
            fields["volume_capacity"] = _parse_limit(self.volume_size, int, "--volume-size")
        if self.time_limit is not None:
            fields["time_limit"] = None if self.time_limit.lower() == "default" else parse_duration(self.time_limit)
        if self.hold is not None:
            fields["hold"] = self.hold
        if self.engine is not None:
            fields["engine"] = "" if self.engine == "default" else self.engine
        if (options := merge_slurm_options(self.slurm, slurm)) is not None:
            fields["slurm"] = options
        return fields


@group_app.command("ls")
def list_groups(json: JsonOption = False) -> None:
    """List groups."""
    with open_client() as client:
        found = client.list_groups()
    if json:
        output.emit_json({"items": found})
        return
    rows = [
        [
            group.name,
            len(group.members),
            _format_quota(group.quota),
            _format_quota(group.user_quota),
            _format_time_limit(group.time_limit),
            group.description,
        ]
        for group in found
    ]
    columns = ("GROUP", "MEMBERS", "QUOTA", "PER USER", "TIME LIMIT", "DESCRIPTION")
    output.emit_table(columns, rows, cut=("DESCRIPTION",), drop=("DESCRIPTION", "TIME LIMIT", "MEMBERS", "PER USER"))
    output.print_hint("holdfast group add NAME", "holdfast group show NAME")


@group_app.command("show")
def show_group(name: GroupNameArgument, json: JsonOption = False) -> None:
    """Show a group, its usage and its members."""
    with open_client() as client:
        group = client.get_group(name)
        use = _get_group_usage(client, group.name)
    if json:
        from holdfast.sdk.json_conversion import to_json

        output.emit_json({**to_json(group), "used": use.used, "users": use.users})
        return
    output.emit_line(f"{output.escape(group.name)}  {output.escape(group.description)}")
    output.emit_fields(_list_group_fields(group, use), 11)
    for user, admin in sorted(group.members.items()):
        role = " (admin)" if admin else ""
        output.emit_line(f"  member      {output.escape(user)}{role}{_format_usage(use.users.get(user))}")
    for user in sorted(set(use.users) - set(group.members)):
        output.emit_line(f"  non-member  {output.escape(user)}{_format_usage(use.users[user])}")
    output.print_hint(f"holdfast group member add {group.name} USER", f"holdfast ls --group {group.name}")


@group_app.command("add")
@expand_options
def add_group(name: GroupNameArgument, *, options: GroupOptions, json: JsonOption = False) -> None:
    """Add a group."""
    from holdfast.api.resources import Quota

    with open_client() as client:
        group = client.add_group(name, **options.to_fields(Quota(), Quota(), {}))
    _report_group(group, "Added", json)
    output.print_hint(f"holdfast group member add {group.name} USER")


@group_app.command("set")
@expand_options
def change_group(name: GroupNameArgument, *, options: GroupOptions, json: JsonOption = False) -> None:
    """Change a group; omitted options keep their value."""
    with open_client() as client:
        before = client.get_group(name)
        group = client.change_group(name, **options.to_fields(before.quota, before.user_quota, before.slurm))
    _report_group(group, "Changed", json)


@group_app.command("rm")
def remove_group(name: GroupNameArgument, yes: YesOption = False, json: JsonOption = False) -> None:
    """Delete a group. Its jobs and their logs are kept."""
    confirm_or_exit(f"Delete group {output.escape(name)}?", yes)
    with open_client() as client:
        members = len(client.get_group(name).members)
        client.remove_group(name)
    if json:
        output.emit_json({"removed": name})
        return
    lost = f"{format_count(members, 'member')} removed from it. "
    output.emit_line(
        f"Deleted {output.escape(name)}. {lost if members else ''}Its shared files and volume stay on disk; "
        "a new group with this name does not get them."
    )


@member_app.command("add")
def add_member(
    group: GroupNameArgument,
    user: UserNameArgument,
    admin: Annotated[bool, typer.Option("--admin", help="Make the user an admin of the group.")] = False,
    json: JsonOption = False,
) -> None:
    """Add a member, or change their admin role in the group."""
    with open_client() as client:
        client.set_member(group, user, admin=admin)
    text = f"Added {output.escape(user)} to {output.escape(group)}{' as admin' if admin else ''}."
    output.emit_result({"group": group, "user": user, "admin": admin}, text, json)


@member_app.command("rm")
def remove_member(group: GroupNameArgument, user: UserNameArgument, json: JsonOption = False) -> None:
    """Remove a member."""
    with open_client() as client:
        client.remove_member(group, user)
    text = f"Removed {output.escape(user)} from {output.escape(group)}."
    output.emit_result({"group": group, "removed": user}, text, json)


def _merge_quota(before: Quota, cpu: str | None, memory: str | None, gpu: str | None) -> Quota:
    from holdfast.api.resources import Quota

    return Quota(
        cpu=before.cpu if cpu is None else _parse_limit(cpu, float, "--cpu"),
        memory=before.memory if memory is None else _parse_limit(memory, parse_size, "--memory"),
        gpu=before.gpu if gpu is None else _parse_limit(gpu, int, "--gpu"),
    )


def _parse_limit(text: str, parse: Any, option: str) -> Any:
    if text.lower() == "none":
        return None
    try:
        return parse(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint=option) from None


def _get_group_usage(client: Client, group: str) -> GroupUsage:
    from holdfast.api.server import GroupUsage

    found = (use for use in client.get_capacity().groups if use.name == group)
    return next(found, GroupUsage(name=group))


def _list_group_fields(group: Group, use: GroupUsage) -> list[tuple[str, str]]:
    return [
        ("shown as", group.display_name),
        ("quota", _format_quota(group.quota)),
        ("in use", _format_nonzero_resources(use.used) or "nothing"),
        ("per user", _format_quota(group.user_quota)),
        ("time limit", _format_time_limit(group.time_limit)),
        ("hold", group.hold or ""),
        ("engine", group.engine),
        ("slurm", format_slurm_options(group.slurm)),
        ("volume", _format_volume(group)),
    ]


def _format_volume(group: Group) -> str:
    from holdfast.core.identity import format_group_path

    if not group.shared_volume:
        return ""
    size = "" if group.volume_capacity is None else f", {group.volume_capacity} GB"
    whose = "" if group.launch_only else ", in all jobs of its members"
    return f"/project/{format_group_path(group.name)}{size}{whose}"


def _format_nonzero_resources(amount: ResourceAmount) -> str:
    return format_resources(amount.cpu or None, amount.memory or None, amount.gpu or None)


def _format_usage(amount: ResourceAmount | None) -> str:
    return (
        f"  {_format_nonzero_resources(amount)} in use"
        if amount is not None and _format_nonzero_resources(amount)
        else ""
    )


def _format_quota(quota: Quota) -> str:
    return format_resources(quota.cpu, quota.memory, quota.gpu) or "unlimited"


def _format_time_limit(seconds: float | None) -> str:
    return "default" if seconds is None else "none" if seconds == 0 else format_duration(seconds)


def _summarize_group(group: Group) -> str:
    parts = [
        f"quota {_format_quota(group.quota)}",
        f"per user {_format_quota(group.user_quota)}",
        f"time limit {_format_time_limit(group.time_limit)}",
        f"hold {group.hold}" if group.hold else "",
        f"engine {group.engine}" if group.engine else "",
        f"slurm {format_slurm_options(group.slurm)}" if group.slurm else "",
        f"volume {_format_volume(group)}" if group.shared_volume else "",
        group.description,
    ]
    return "; ".join(filter(None, parts))


def _report_group(group: Group, verb: str, json: bool) -> None:
    output.emit_result(group, f"{verb} {output.escape(group.name)}: {output.escape(_summarize_group(group))}.", json)
