"""Options of the engine and of job environments, from the settings."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import socket
from collections.abc import Collection
from datetime import timedelta
from pathlib import Path
from typing import get_args

from holdfast.core.errors import UserError
from holdfast.core.image_names import normalize_registry
from holdfast.core.messages import msg
from holdfast.engines.base import Engine
from holdfast.engines.embedded.engine import EmbeddedEngine
from holdfast.engines.embedded.images.registry_options import RegistryOptions
from holdfast.engines.embedded.options import EmbeddedOptions
from holdfast.engines.engine_set import EngineSet
from holdfast.full_disk import compute_task_limits
from holdfast.launching import ArtifactLimits, PrimeHubSettings
from holdfast.settings import Settings
from holdfast.settings_engines import EngineKind, ImageSettings
from holdfast.state_folder import get_engine_folder, has_job_data
from holdfast.timezones import find_machine_timezone


def build_engines(
    home: Path,
    settings: Settings,
    own_ports: frozenset[int] = frozenset(),
    *,
    several_users: bool = False,
    used: Collection[str] = (),
) -> EngineSet:
    """Build the engines that the settings choose, and those that still have tasks or logs. `used`: names of the engines
    of active tasks."""
    options = build_engine_options(home, settings, own_ports, several_users=several_users)
    chosen = list(dict.fromkeys((settings.engine.kind, *settings.engine.others)))
    kept = [
        name
        for name in get_args(EngineKind)
        if name not in chosen and (name in used or has_job_data(find_engine_folder(home, settings, name)))
    ]
    return EngineSet([_build_engine(name, home, settings, options) for name in (*chosen, *kept)], retired=kept)


def _build_engine(name: str, home: Path, settings: Settings, options: EmbeddedOptions) -> Engine:
    if name == "embedded":
        return EmbeddedEngine(home, options)
    if name == "slurm":
        return _build_slurm_engine(home, settings, options)
    from holdfast.engines.container import (  # it loads a client that others do not need
        ContainerEngine,
        ContainerOptions,
    )

    fields = {each.name: getattr(options, each.name) for each in dataclasses.fields(options)}
    folder = get_engine_folder(home, name)
    return ContainerEngine(folder, ContainerOptions(socket=settings.engine.socket, **fields))


def _build_slurm_engine(home: Path, settings: Settings, options: EmbeddedOptions) -> Engine:
    from holdfast.engines.slurm import SlurmEngine, SlurmOptions

    slurm = settings.slurm
    if not slurm.folder.startswith("/"):
        raise UserError(
            msg("The engine slurm needs a folder that all nodes share."),
            hint=msg("Set slurm.folder to an absolute path, such as /shared/holdfast."),
        )
    slurm_options = SlurmOptions(
        partition=slurm.partition,
        account=slurm.account,
        qos=slurm.qos,
        constraint=slurm.constraint,
        reservation=slurm.reservation,
        max_queued=slurm.max_queued,
        never_timeout=slurm.never_timeout,
        run_as=slurm.run_as,
        conf=slurm.conf,
        grace=settings.jobs.grace,
        port_start=settings.node.port_start,
        port_end=settings.node.port_end or SlurmOptions().port_end,
        log_cap=options.log_cap,
        unknown_image=options.unknown_image,
        isolation=slurm.isolation,
        node_folder=slurm.node_folder,
        hidden=options.hidden,
        host_show=options.host_show,
        marks=options.marks,
        registries=options.registries,
    )
    return SlurmEngine(find_engine_folder(home, settings, "slurm"), slurm_options)


def find_engine_folder(home: Path, settings: Settings, name: str) -> Path:
    """Return the folder with the tasks and logs of an engine. Slurm's is shared by all nodes, and contains one folder
    for each installation."""
    if name != "slurm" or not settings.slurm.folder:
        return get_engine_folder(home, name)
    tag = hashlib.sha256(os.fsencode(os.path.realpath(home))).hexdigest()[:12]
    return Path(settings.slurm.folder) / tag


def build_engine_options(
    home: Path, settings: Settings, own_ports: frozenset[int] = frozenset(), *, several_users: bool = False
) -> EmbeddedOptions:
    node, images = settings.node, settings.images
    log_bytes, task_bytes, task_files = compute_task_limits(home, settings)
    return EmbeddedOptions(
        cpus=node.cpus,
        memory=node.memory,
        gpus=None if node.gpus is None else tuple(node.gpus),
        port_start=node.port_start,
        port_end=node.port_end,
        reserved_ports=own_ports | _get_fixed_ports(settings),
        pids_max=node.max_processes,
        log_cap=log_bytes,
        task_bytes=task_bytes,
        task_files=task_files,
        marks=settings.disk.to_thresholds(),
        unknown_image=images.unknown,
        registries=_build_registry_options(images),
        isolation=settings.sandbox.isolation,
        multi_user=several_users,
        host_show=tuple(images.host_show),
        library=_find_debugger_paths(),
        hidden=(str(home), settings.files.folder) if settings.files.folder else (str(home),),
        node_name=node.name or socket.gethostname(),
        address=node.address,
        scratch_grace=settings.jobs.grace,
    )


def _build_registry_options(images: ImageSettings) -> RegistryOptions:
    mirrors: dict[str, tuple[str, ...]] = {}
    for line in images.mirrors:
        registry, _, mirror = line.partition("=")
        name = normalize_registry(registry)
        mirrors[name] = (*mirrors.get(name, ()), mirror.strip())
    return RegistryOptions(
        mirrors=mirrors,
        insecure=frozenset(map(normalize_registry, images.insecure_registries)),
        allowed=frozenset(map(normalize_registry, images.registries)),
    )


def _get_fixed_ports(settings: Settings) -> frozenset[int]:
    """Return the ports of all services, including a gateway that cannot listen now."""
    ports = (settings.server.port, settings.ssh.port if settings.ssh.enabled else 0)
    return frozenset(port for port in ports if port)


def _find_debugger_paths() -> tuple[str, ...]:
    """Return paths that every task gets besides its image: the debugger, if installed."""
    found = importlib.util.find_spec("paipdb")
    return tuple(found.submodule_search_locations or ())[:1] if found else ()


def build_platform_options(settings: Settings) -> PrimeHubSettings:
    files = settings.files
    limits = ArtifactLimits(
        bytes=files.artifact_bytes, files=files.artifact_files, keep=timedelta(days=files.artifact_days)
    )
    return PrimeHubSettings(
        timezone=settings.schedules.timezone or find_machine_timezone(),
        sudo=settings.primehub.sudo,
        scratch=settings.primehub.scratch_bytes,
        artifacts=limits if limits.bytes and limits.files else None,
    )
