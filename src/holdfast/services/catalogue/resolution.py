"""What a job names of what admins put up -> what it gets: the resources of its sizes, the images its aliases stand for.

Worked out each time a job is submitted or run again, for the group it runs in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from holdfast.core.access import Actor
from holdfast.core.catalogue import ImageAlias, InstanceType
from holdfast.core.job import Dialect, Job, Resources, Role
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import EPSILON, Quota
from holdfast.jobspec.fields import guess
from holdfast.jobspec.sizes import sized
from holdfast.store import people
from holdfast.store.database import Store

from ..refusals import NoInstanceType, OverQuota
from . import image_aliases as aliasing
from . import instance_types as sizing
from .image_aliases import ImageAliases
from .instance_types import InstanceTypes

MAX_LISTED = 20  # sizes in one hint


class Catalogue:
    def __init__(self, store: Store, instance_types: InstanceTypes, image_aliases: ImageAliases) -> None:
        self._store = store
        self._types = instance_types
        self._aliases = image_aliases
        self._known: Mapping[str, InstanceType] = {}
        self._sizes: dict[str, Resources] = {}

    async def sizes(self, actor: Actor | None = None) -> Mapping[str, Resources]:
        """All that one may see, by name; without an actor all there are."""
        known = await self._types.known()
        if known is not self._known:  # every job asks, and they seldom change
            self._known, self._sizes = known, {name: type.resources for name, type in known.items()}
        if actor is None or all(sizing.may_see(actor, type) for type in known.values()):
            return self._sizes
        return {name: size for name, size in self._sizes.items() if sizing.may_see(actor, known[name])}

    async def fill(self, job: Job) -> Job:
        """NoInstanceType for a size that the job's group does not have. Whoever asks is known to be in it."""
        job = _with_older_names(job)
        types = await self._types.known() if any(role.instance_type for role in job.roles) else {}
        aliases = await self._aliases.known()
        roles = tuple(_aliased(_sized(role, types, job.group), aliases, job.group) for role in job.roles)
        return replace(job, roles=roles) if roles != job.roles else job

    async def image_names(self, group: str) -> list[str]:
        """The aliases that its jobs can name."""
        return [alias.name for alias in (await self._aliases.known()).values() if aliasing.is_for(alias, group)]

    async def check_quota(self, job: Job) -> None:
        """PrimeHub refuses at once what a quota has no room for, even with nothing else in use."""
        if job.dialect is not Dialect.PRIMEHUB:
            return
        group = await self._store.read(people.get_group, job.group)
        for role in job.roles if group is not None else ():
            for refusal in _over(role, group):
                raise refusal


def _with_older_names(job: Job) -> Job:
    """PrimeHub's jobs that were stored before roles kept the name of their size."""
    mine = job.extras.get("primehub") if job.dialect is Dialect.PRIMEHUB else None
    name = mine.get("instanceType") if isinstance(mine, Mapping) else None
    if not isinstance(name, str) or not name or any(role.instance_type for role in job.roles):
        return job
    return replace(job, roles=tuple(replace(role, instance_type=name) for role in job.roles))


def _sized(role: Role, types: Mapping[str, InstanceType], group: str) -> Role:
    if not role.instance_type:
        return role
    type = types.get(role.instance_type)
    if type is None or not sizing.is_for(type, group):
        raise _unknown(role.instance_type, types, group)
    own = {key: getattr(role.resources, key) for key in role.own_resources}
    return replace(role, resources=sized(type.resources, own))


def _unknown(name: str, types: Mapping[str, InstanceType], group: str) -> NoInstanceType:
    known = sorted(type.name for type in types.values() if sizing.is_for(type, group))
    listed = msg("It has: {known}.", known=", ".join(known[:MAX_LISTED])) if known else msg("It has none.")
    return NoInstanceType(
        msg("The group {group} has no instance type {name}", group=group, name=name[:100]),
        name=name,
        field="instance_type",
        hint=join_messages(" ", filter(None, (guess(name, known), listed))),
    )


def _aliased(role: Role, aliases: Mapping[str, ImageAlias], group: str) -> Role:
    """An alias that is not for the group is no alias: an image may have that name too."""
    alias = aliases.get(role.image)
    url = alias.for_gpus(role.resources.gpu) if alias is not None and aliasing.is_for(alias, group) else ""
    url = "" if url == role.image else url
    return role if url == role.image_url else replace(role, image_url=url)


_ASPECTS = (
    ("gpu", "GPUs", msg("Gpu Quota")),
    ("cpu", "cores", msg("Cpu Quota")),
    ("memory", msg("bytes of memory"), "Memory"),
)


def _over(role: Role, group: Group | None) -> Iterator[OverQuota]:
    """In PrimeHub's order: GPUs, cores, memory; the user's before the group's."""
    assert group is not None
    for key, unit, word in _ASPECTS:
        asked = getattr(role.resources, key)
        for whose, quota in (("User", group.user_quota), ("Group", group.quota)):
            bound = _bound(quota, key)
            if bound is not None and asked > bound + EPSILON:
                who = (
                    msg("each user of {name}", name=group.name)
                    if whose == "User"
                    else msg("the group {name}", name=group.name)
                )
                yield OverQuota(
                    msg(
                        "{instance_type} has {asked} {unit}, and {who} may use at most {bound}",
                        instance_type=role.instance_type,
                        asked=f"{asked:g}",
                        unit=unit,
                        who=who,
                        bound=f"{bound:g}",
                    ),
                    primehub=msg("{whose} {word} exceeded", whose=whose, word=word),
                    field="instanceType",
                    hint=msg("Choose a smaller instance type, or ask an admin for more."),
                )


def _bound(quota: Quota, key: str) -> float | None:
    bound: float | None = getattr(quota, key)
    return bound
