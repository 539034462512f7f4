"""What a daemon, and a server that is not root, cannot do: sentences for `health().notes`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import msg
from holdfast.engines.base import LaunchSpec

NO_GPUS_NOTE = msg("Tasks cannot use GPUs with Podman. Use Docker, or the embedded engine.")
NO_LIVE_RESTORE_NOTE = msg(
    "Tasks do not survive a restart of the Docker daemon. Set `live-restore` in Docker's daemon.json."
)
NO_SESSIONS_NOTE = msg("Holdfast does not run as root: shells and debuggers do not work in containers.")
NO_INSPECTION_NOTE = msg("Holdfast does not run as root: it cannot list the processes and open ports of containers.")
NO_HOME_NOTE = msg(
    "Without root, a task's home is a volume of the daemon: no artifacts, no disk limit, no hold of its files."
)
NO_LIMITS_NOTE = msg("The daemon does not limit memory and CPU. Run it as root, or delegate cgroup v2 to its user.")
DISK_NOTE = msg("Disk limits of tasks count the home only: other files are in the data folder of the daemon.")
SERVER_ONLY_NOTES = (
    DISK_NOTE,
    NO_LIVE_RESTORE_NOTE,
    NO_SESSIONS_NOTE,
    NO_INSPECTION_NOTE,
    NO_HOME_NOTE,
)  # not about the task


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonDescription:
    podman: bool = False
    live_restore: bool = False
    rootless: bool = False
    remapped: bool = False  # root in a container is another user on the machine
    kernel: str = ""  # release
    memory_limits: bool = True


def parse_description(version: Mapping[str, Any], info: Mapping[str, Any]) -> DaemonDescription:
    parts = " ".join(str(part.get("Name")) for part in version.get("Components") or ())
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    rootless = any("rootless" in option for option in options) or bool(info.get("Rootless"))
    return DaemonDescription(
        podman="Podman" in parts,
        live_restore=bool(info.get("LiveRestoreEnabled")),
        rootless=rootless,
        remapped=not rootless and any("userns" in option for option in options),
        kernel=str(info.get("KernelVersion") or ""),
        memory_limits=bool(info.get("MemoryLimit", True)) and not (rootless and str(info.get("CgroupVersion")) == "1"),
    )


def list_limitations(daemon: DaemonDescription, *, has_root: bool) -> tuple[str, ...]:
    """Return what does not work, with the remedy."""
    notes = []
    if daemon.podman:
        notes.append(NO_GPUS_NOTE)
    elif not daemon.live_restore:
        notes.append(NO_LIVE_RESTORE_NOTE)
    if daemon.remapped:
        notes.append(msg("Remapped users are not supported: tasks do not start. Remove `userns-remap` in daemon.json."))
    if daemon.rootless and has_root:
        notes.append(msg("The daemon is rootless: tasks do not start. Use the daemon of root, or run as its user."))
    if not daemon.memory_limits:
        notes.append(NO_LIMITS_NOTE)
    if not has_root:
        notes += [NO_SESSIONS_NOTE, NO_HOME_NOTE]
    else:
        notes.append(DISK_NOTE)
    if not has_root and not daemon.rootless:
        notes.append(NO_INSPECTION_NOTE)
    return tuple(notes)


def find_task_warning(daemon: DaemonDescription, launch: LaunchSpec, *, has_root: bool) -> str:
    """Return what this task must do without, for its job's page; empty if nothing."""
    if not daemon.memory_limits:
        return NO_LIMITS_NOTE
    if not has_root and launch.hold:
        return NO_SESSIONS_NOTE
    return NO_HOME_NOTE if not has_root and launch.scratch else ""


def is_remote(daemon: DaemonDescription, kernel: str) -> bool:
    """Return whether the daemon runs on another machine, or in a virtual machine, by the release of its kernel."""
    return bool(daemon.kernel) and daemon.kernel != kernel


def make_unavailable_condition(detail: str) -> Condition:
    return Condition(
        kind=ConditionKind.ENGINE,
        message=msg("Jobs on the engine docker stay pending: the container daemon does not respond."),
        hint=msg(
            "Start Docker or Podman's service, or set `engine.socket` to its socket. "
            "The server retries every few seconds."
        ),
        detail=detail,
        blocks_starts=True,
    )


def make_remote_condition() -> Condition:
    return Condition(
        kind=ConditionKind.ENGINE,
        message=msg("Jobs on the engine docker stay pending: the container daemon is not on this machine."),
        hint=msg("Set `engine.socket` to a daemon on this machine, not in a virtual machine."),
        blocks_starts=True,
    )
