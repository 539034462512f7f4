"""Renders what a container gets: the body of the create call, and the files that its runner reads. Pure.

The body is visible to everybody who may ask the daemon: commands, variables and secrets are only in files.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.engines.base import POSIX_SHELL_OPTIONS, LaunchSpec
from holdfast.engines.embedded.sandbox.gpus import make_gpu_variables
from holdfast.engines.embedded.sandbox.render import SandboxRoot, make_hostname, make_task_env
from holdfast.engines.embedded.sandbox_paths import HOLDFAST_PATH, HOME_PATH
from holdfast.engines.embedded.task_user import TaskUser

from .daemon import ContainerImage

RUNNER_PATH = f"{HOLDFAST_PATH}/runner"
# Docker's default set without these: no new devices, and nothing that reaches beyond the container on the machine's
# network. What remains is what the embedded engine gives.
DROPPED_CAPABILITIES = ("MKNOD", "NET_RAW", "NET_BIND_SERVICE", "AUDIT_WRITE")
_SHELL_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_READONLY_NAMES = frozenset({"SHELLOPTS", "BASHOPTS", "UID", "EUID", "PPID", "BASH_VERSINFO"})  # in bash
_CPU_UNIT = 1_000_000_000  # NanoCpus of one core


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMount:
    source: str
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    pids_max: int
    default_shm: int  # bytes
    network: str


def render_create_body(
    launch: LaunchSpec,
    image: ContainerImage,
    user: TaskUser | None,
    labels: Mapping[str, str],
    mounts: Sequence[ContainerMount],
    limits: ContainerLimits,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "Image": launch.image,
        "Entrypoint": ["/bin/sh"],
        "Cmd": [RUNNER_PATH],
        "User": "0:0",  # of the runner; it becomes the image's user for the command
        # The runner creates a missing one, if the job or the image's user must be able to write to it.
        "WorkingDir": "/" if launch.workdir or (user and image.workdir) else image.workdir or HOME_PATH,
        "Hostname": make_hostname(launch.task),
        "Labels": dict(labels),
        "StopSignal": "SIGTERM",
        "Tty": False,
        "Healthcheck": {"Test": ["NONE"]},  # the image's own would run commands beside the task
        "HostConfig": _render_host_config(launch, mounts, limits),
    }
    if not launch.gpus:
        body["Env"] = ["NVIDIA_VISIBLE_DEVICES=void"]  # else NVIDIA's runtime gives its images all devices
    return body


def _render_host_config(
    launch: LaunchSpec, mounts: Sequence[ContainerMount], limits: ContainerLimits
) -> dict[str, Any]:
    config: dict[str, Any] = {
        "Init": True,  # the runner must not be PID 1, which the kernel shields from signals
        "RestartPolicy": {"Name": "no"},
        "AutoRemove": False,
        "LogConfig": {"Type": "none"},
        "NetworkMode": limits.network,
        "NanoCpus": max(_CPU_UNIT // 100, int(launch.resources.cpu * _CPU_UNIT)),
        "Memory": launch.resources.memory,
        "MemorySwap": launch.resources.memory,  # no swap
        "PidsLimit": limits.pids_max,
        "ShmSize": launch.resources.shm or limits.default_shm,
        "CapDrop": list(DROPPED_CAPABILITIES),
        "SecurityOpt": ["no-new-privileges"],
        "Mounts": [_render_mount(mount) for mount in mounts],
    }
    if launch.gpus:
        ids = [str(index) for index in launch.gpus]
        config["DeviceRequests"] = [{"Driver": "nvidia", "DeviceIDs": ids, "Capabilities": [["gpu"]]}]
    return config


def _render_mount(mount: ContainerMount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }


# --- files ------------------------------------------------------------------------------------------------------------


def make_container_env(
    launch: LaunchSpec, image: ContainerImage, user: TaskUser | None, *, library: bool
) -> dict[str, str]:
    """Return the task's variables. Its shell is not known before the container runs."""
    root = SandboxRoot(
        env=image.env,
        shell="",
        library="library" if library else "",
        task_user=user,
        user=user.name if user else "root",
    )
    env = make_task_env(launch, root, HOME_PATH, make_gpu_variables(launch.gpus, renumbered=True))
    if not env["SHELL"]:
        del env["SHELL"]
    return env


def render_env_file(env: Mapping[str, str]) -> str:
    """Return the variables as shell commands, without names that no shell can set."""
    names = [name for name in env if _SHELL_NAME_PATTERN.match(name) and name not in _READONLY_NAMES]
    return "".join(f"export {name}={shlex.quote(env[name])}\n" for name in names)


def render_task_file(launch: LaunchSpec, image: ContainerImage, user: TaskUser | None) -> str:
    """Return how to run the commands, as variables of the runner."""
    posix = [option for option in launch.shell_options if option in POSIX_SHELL_OPTIONS]
    others = [option for option in launch.shell_options if option not in POSIX_SHELL_OPTIONS]
    values = {
        "options": " ".join(posix),
        "bash_options": " ".join(others),
        "entry": "yes" if launch.entry else "",
        "hold": "yes" if launch.hold else "",
        "workdir": launch.workdir or (image.workdir if user else ""),
        "user": "yes" if user else "",
    }
    return "".join(f"_holdfast_{name}={shlex.quote(value)}\n" for name, value in values.items())
