"""Choices for a job of a group: instance types, images and datasets; and the data of the side panel."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.access import Permission, has_permission
from holdfast.core.catalogue import ImageAlias, ImageKind, InstanceType
from holdfast.core.identity import format_group_path
from holdfast.core.job import HOST_IMAGE, SHARED_FILES_PATH, Job, Role
from holdfast.core.records import Dataset, Group
from holdfast.core.scheduling.placement import Quota, ResourceAmount
from holdfast.jobspec.quantities import format_duration

from ..kind_names import get_image_kind_name
from ..rendering import format_bytes
from ..usage_lines import UsageLine, build_quota_lines
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChoice:
    name: str
    label: str  # display name
    tip: str  # short description
    about: str = ""
    gpu: int = 0  # of an instance type
    ready: bool = True  # of an image
    needs_gpu: bool = False  # of an image


@dataclass(frozen=True, slots=True, kw_only=True)
class JobChoices:
    group: str  # empty: none chosen yet
    label: str
    types: tuple[JobChoice, ...] = ()
    images: tuple[JobChoice, ...] = ()
    datasets: tuple[JobChoice, ...] = ()
    use: tuple[UsageLine, ...] = ()
    mine: tuple[UsageLine, ...] = ()  # if there is a limit per user
    time_limit: str = ""  # default time limit; empty: no limit
    volume: str = ""  # path of the group's shared folder in jobs
    files: str = SHARED_FILES_PATH

    def to_json(self) -> dict[str, Any]:
        """Return the data that the form needs; the panel is HTML."""
        listed = {key: [asdict(choice) for choice in getattr(self, key)] for key in ("types", "images", "datasets")}
        return {"group": self.group, "time_limit": self.time_limit, **listed}


async def list_submit_groups(visit: Visit) -> list[Group]:
    listed = await visit.services.groups.list(visit.current_actor)
    return [group for group in listed if has_permission(visit.current_actor, Permission.SUBMIT_JOB, group.name)]


async def load_job_choices(visit: Visit, name: str, groups: list[Group]) -> JobChoices:
    """Load the choices; empty for a group that the user cannot submit to."""
    group = next((known for known in groups if known.name == name), None)
    if group is None:
        return JobChoices(group="", label="")
    services = visit.services
    sample = Job(name="", roles=(Role(name="main", commands=()),), group=group.name)
    limit = services.jobs.get_time_limit(sample)
    use, mine = await _load_usage_lines(visit, group)
    types = await services.instance_types.list_usable_types(visit.current_actor, group.name)
    return JobChoices(
        group=group.name,
        label=group.display_name or group.name,
        types=tuple(_build_type_choice(visit, type) for type in sorted(types, key=lambda type: type.name)),
        images=await _list_image_choices(visit, group.name),
        datasets=await _list_dataset_choices(visit, group.name),
        use=use,
        mine=mine,
        time_limit=format_duration(limit) if limit else "",
        volume=f"/project/{format_group_path(group.name)}" if group.shared_volume else "",
    )


def _build_type_choice(visit: Visit, type: InstanceType) -> JobChoice:
    template = visit.translate_text("CPU: {cpu} / Memory: {memory} / GPU: {gpu}")
    tip = template.format(cpu=f"{type.cpu:g}", memory=format_bytes(type.memory), gpu=type.gpu)
    label = type.display_name or type.name
    return JobChoice(name=type.name, label=label, tip=tip, about=type.description, gpu=type.gpu)


async def _list_image_choices(visit: Visit, group: str) -> tuple[JobChoice, ...]:
    """Return aliases, including the host system where an engine has it, then imported images."""
    engine = visit.services.installation.engine
    has_host = any(engine.has_host_image(name) for name in engine.names)
    usable = await visit.services.image_aliases.list_usable_aliases(visit.current_actor, group)
    aliases = [alias for alias in usable if has_host or alias.url != HOST_IMAGE]
    named = {alias.name for alias in aliases}
    imported = [image.name for image in await visit.services.images.list(visit.current_actor)]
    rest = sorted(name for name in imported if name not in named and name.removesuffix(":latest") not in named)
    found = [_build_alias_choice(visit, alias) for alias in aliases]
    found += [_build_image_choice(visit, name) for name in rest if name != HOST_IMAGE or HOST_IMAGE not in named]
    return tuple(found)


def _build_alias_choice(visit: Visit, alias: ImageAlias) -> JobChoice:
    whose = visit.translate_text("System") if alias.everyone else visit.translate_text("Group")
    ready = bool(alias.url or alias.gpu_url)
    tip = f"{whose} / {get_image_kind_name(visit, alias.kind)}"
    return JobChoice(
        name=alias.name,
        # The alias of the host system has a message as name.
        label=visit.translate_message(alias.display_name) or alias.name,
        tip=tip if ready else visit.translate_text("(Not ready) {tip}", tip=tip),
        about=visit.translate_message(alias.description),
        ready=ready,
        needs_gpu=alias.kind is ImageKind.GPU,
    )


def _build_image_choice(visit: Visit, name: str) -> JobChoice:
    return JobChoice(name=name, label=name, tip=visit.translate_text("Imported"))


async def _list_dataset_choices(visit: Visit, group: str) -> tuple[JobChoice, ...]:
    usable = await visit.services.datasets.list_usable_datasets(visit.current_actor, group)
    return tuple(_build_dataset_choice(visit, found, group) for found in usable)


def _build_dataset_choice(visit: Visit, found: Dataset, group: str) -> JobChoice:
    if found.kind == "env":
        tip = visit.translate_text("variables")
    elif found.read_only and group not in found.writable_groups:
        tip = visit.translate_text("read-only")
    else:
        tip = visit.translate_text("read and write")
    return JobChoice(name=found.name, label=found.display_name or found.name, tip=tip, about=found.description)


async def _load_usage_lines(visit: Visit, group: Group) -> tuple[tuple[UsageLine, ...], tuple[UsageLine, ...]]:
    """Return usage of the group and, if there is a limit per user, of the visitor."""
    use = await visit.services.installation.get_group_usage(visit.current_actor, group)
    own = use.users.get(visit.current_actor.name, ResourceAmount())
    mine = build_quota_lines(visit, own, use.user_quota) if use.user_quota != Quota() else ()
    return build_quota_lines(visit, use.used, use.quota), mine
