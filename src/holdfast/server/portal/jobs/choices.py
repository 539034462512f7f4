"""What a job of one group can name: sizes, images, datasets; and what its side panel tells. Words are made here."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.core.access import Verb, may
from holdfast.core.catalogue import ImageAlias, ImageKind, InstanceType
from holdfast.core.identity import group_path
from holdfast.core.job import FILES, HOST_IMAGE, Job, Role
from holdfast.core.records import Dataset, Group
from holdfast.core.scheduling.placement import Amount, Quota
from holdfast.jobspec.quantities import render_duration

from ..kind_names import image_kind
from ..rendering import show_bytes
from ..usage_lines import UseLine, quota_lines
from ..visit import Visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    name: str
    label: str  # what people call it
    tip: str  # what it gives, in one line
    about: str = ""
    gpu: int = 0  # of a size
    ready: bool = True  # of an image
    needs_gpu: bool = False  # of an image


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    group: str  # empty: nobody chose one yet
    label: str
    types: tuple[Choice, ...] = ()
    images: tuple[Choice, ...] = ()
    datasets: tuple[Choice, ...] = ()
    use: tuple[UseLine, ...] = ()
    mine: tuple[UseLine, ...] = ()  # where each user has a bound, too
    time_limit: str = ""  # of a job that names none; empty: no limit
    volume: str = ""  # where jobs find the group's shared folder
    files: str = FILES

    def for_scripts(self) -> dict[str, Any]:
        """What the form needs; the panel is HTML."""
        listed = {key: [asdict(choice) for choice in getattr(self, key)] for key in ("types", "images", "datasets")}
        return {"group": self.group, "time_limit": self.time_limit, **listed}


async def groups_to_choose(visit: Visit) -> list[Group]:
    """Those that one may submit to."""
    listed = await visit.services.groups.list(visit.who)
    return [group for group in listed if may(visit.who, Verb.SUBMIT_JOB, group.name)]


async def choices_of(visit: Visit, name: str, groups: list[Group]) -> Choices:
    """Nothing, of a group one cannot submit to."""
    group = next((known for known in groups if known.name == name), None)
    if group is None:
        return Choices(group="", label="")
    services = visit.services
    sample = Job(name="", roles=(Role(name="main", commands=()),), group=group.name)
    limit = services.jobs.time_limit(sample)
    use, mine = await _use(visit, group)
    types = await services.instance_types.usable(visit.who, group.name)
    return Choices(
        group=group.name,
        label=group.display_name or group.name,
        types=tuple(_type(visit, type) for type in sorted(types, key=lambda type: type.name)),
        images=await _images(visit, group.name),
        datasets=await _datasets(visit, group.name),
        use=use,
        mine=mine,
        time_limit=render_duration(limit) if limit else "",
        volume=f"/project/{group_path(group.name)}" if group.shared_volume else "",
    )


def _type(visit: Visit, type: InstanceType) -> Choice:
    tip = visit.say(
        "CPU: {cpu} / Memory: {memory} / GPU: {gpu}",
        cpu=f"{type.cpu:g}",
        memory=show_bytes(type.memory),
        gpu=type.gpu,
    )
    return Choice(name=type.name, label=type.display_name or type.name, tip=tip, about=type.description, gpu=type.gpu)


async def _images(visit: Visit, group: str) -> tuple[Choice, ...]:
    """Aliases first, the machine's own system among them; then what was imported."""
    aliases = await visit.services.image_aliases.usable(visit.who, group)
    named = {alias.name for alias in aliases}
    imported = [image.name for image in await visit.services.images.list(visit.who)]
    rest = sorted(name for name in imported if name not in named and name.removesuffix(":latest") not in named)
    found = [_alias(visit, alias) for alias in aliases]
    found += [_plain_image(visit, name) for name in rest if name != HOST_IMAGE or HOST_IMAGE not in named]
    return tuple(found)


def _alias(visit: Visit, alias: ImageAlias) -> Choice:
    whose = visit.say("System") if alias.everyone else visit.say("Group")
    ready = bool(alias.url or alias.gpu_url)
    tip = f"{whose} / {image_kind(visit, alias.kind)}"
    return Choice(
        name=alias.name,
        label=visit.tell(alias.display_name) or alias.name,  # that of this machine is ours
        tip=tip if ready else visit.say("(Not ready) {tip}", tip=tip),
        about=visit.tell(alias.description),
        ready=ready,
        needs_gpu=alias.kind is ImageKind.GPU,
    )


def _plain_image(visit: Visit, name: str) -> Choice:
    return Choice(name=name, label=name, tip=visit.say("Imported"))


async def _datasets(visit: Visit, group: str) -> tuple[Choice, ...]:
    usable = await visit.services.datasets.usable(visit.who, group)
    return tuple(_dataset(visit, found, group) for found in usable)


def _dataset(visit: Visit, found: Dataset, group: str) -> Choice:
    if found.kind == "env":
        tip = visit.say("variables")
    elif found.read_only and group not in found.writable_groups:
        tip = visit.say("to read")
    else:
        tip = visit.say("to read and write")
    return Choice(name=found.name, label=found.display_name or found.name, tip=tip, about=found.description)


async def _use(visit: Visit, group: Group) -> tuple[tuple[UseLine, ...], tuple[UseLine, ...]]:
    """Of the group and, where each user has a bound, of the visitor."""
    use = await visit.services.place.use_of(visit.who, group)
    own = use.users.get(visit.who.name, Amount())
    mine = quota_lines(visit, own, use.user_quota) if use.user_quota != Quota() else ()
    return quota_lines(visit, use.used, use.quota), mine
