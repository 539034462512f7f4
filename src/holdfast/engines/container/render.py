"""Renders the body of the call that creates a container. Pure.

The body is visible to everybody who may ask the daemon: commands, variables and secrets are only in files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.engines.base import LaunchSpec
from holdfast.engines.sandbox_paths import HOME_PATH
from holdfast.engines.task_program import make_hostname
from holdfast.engines.task_user import TaskUser

from .daemon import ContainerImage

# Docker's default set without these: no new devices, and nothing that reaches beyond the container on the machine's
# network. What remains is what the embedded engine gives.
DROPPED_CAPABILITIES = ("MKNOD", "NET_RAW", "NET_BIND_SERVICE", "AUDIT_WRITE")
_CPU_UNIT = 1_000_000_000  # NanoCpus of one core


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMount:
    source: str  # empty: a new volume of the daemon, which is removed with the container
    target: str
    read_only: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerLimits:
    pids_max: int
    default_shm: int  # bytes
    network: str


def render_create_body(
    launch: LaunchSpec,
    argv: Sequence[str],
    image: ContainerImage,
    user: TaskUser | None,
    labels: Mapping[str, str],
    mounts: Sequence[ContainerMount],
    limits: ContainerLimits,
) -> dict[str, Any]:
    body: dict[str, Any] = {
        "Image": image.name or launch.image,
        "Entrypoint": [argv[0]],
        "Cmd": list(argv[1:]),
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
    if not mount.source:
        return {"Type": "volume", "Target": mount.target, "VolumeOptions": {"NoCopy": True}}
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }
