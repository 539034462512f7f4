"""Resolve the instance types and image aliases of a job to resources and images.

This happens at every submission and rerun, for the group of the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from holdfast.core.access import Actor
from holdfast.core.catalogue import ImageAlias, InstanceType
from holdfast.core.job import Job, JobFormat, Resources, Role
from holdfast.core.messages import join_messages, mark_translatable, msg
from holdfast.core.records import Group
from holdfast.core.scheduling.placement import EPSILON
from holdfast.core.slurm_options import SLURM_ENGINE, scale_options
from holdfast.jobspec.fields import build_similar_name_hint
from holdfast.jobspec.instance_types import override_resources
from holdfast.store import people
from holdfast.store.database import Store

from ..errors import InstanceTypeNotFound, OverQuota
from . import image_aliases as aliasing
from . import instance_types as sizing
from .image_aliases import ImageAliases
from .instance_types import InstanceTypes
from .skus import SkuRequest, count_needed_skus, find_sku_requests, sku_from_type

MAX_LISTED = 20  # instance types in one hint


class CatalogueResolver:
    def __init__(self, store: Store, instance_types: InstanceTypes, image_aliases: ImageAliases) -> None:
        self._store = store
        self._types = instance_types
        self._aliases = image_aliases
        self._cached_types: Mapping[str, InstanceType] = {}
        self._sizes: dict[str, Resources] = {}

    async def load_sizes(self, actor: Actor | None = None) -> Mapping[str, Resources]:
        """Return the sizes that the actor can see, by name; without an actor all."""
        known = await self._types.load_all()
        if known is not self._cached_types:  # cached: called for every job, and types rarely change
            self._cached_types, self._sizes = known, {name: type.resources for name, type in known.items()}
        if actor is None or all(sizing.can_see_type(actor, type) for type in known.values()):
            return self._sizes
        return {name: size for name, size in self._sizes.items() if sizing.can_see_type(actor, known[name])}

    async def resolve_job(self, job: Job) -> Job:
        """Resolve a job; raise NoInstanceType for a type not granted to its group. Membership is already checked."""
        job = _add_missing_type(job)
        skus = find_sku_requests(job)
        types = await self._types.load_all() if skus or any(role.instance_type for role in job.roles) else {}
        aliases = await self._aliases.load_all()
        roles = tuple(
            _resolve_image(
                _resolve_type_options(
                    _resolve_instance_type(role, types, job.group), skus.get(role.name), types, job.group
                ),
                aliases,
                job.group,
            )
            for role in job.roles
        )
        return replace(job, roles=roles) if roles != job.roles else job

    async def list_image_names(self, group: str) -> list[str]:
        """Return the aliases that jobs of the group can use."""
        return [
            alias.name
            for alias in (await self._aliases.load_all()).values()
            if aliasing.is_alias_available(alias, group)
        ]

    async def check_primehub_quota(self, job: Job) -> None:
        """Reject a PrimeHub job that exceeds a quota by itself, as PrimeHub does."""
        if job.dialect is not JobFormat.PRIMEHUB:
            return
        group = await self._store.read(people.get_group, job.group)
        for role in job.roles if group is not None else ():
            for refusal in _iter_exceeded_quotas(role, group):
                raise refusal


def _add_missing_type(job: Job) -> Job:
    """Add the instance type to PrimeHub jobs that were stored before roles had it."""
    mine = job.extras.get("primehub") if job.dialect is JobFormat.PRIMEHUB else None
    name = mine.get("instanceType") if isinstance(mine, Mapping) else None
    if not isinstance(name, str) or not name or any(role.instance_type for role in job.roles):
        return job
    return replace(job, roles=tuple(replace(role, instance_type=name) for role in job.roles))


def _resolve_instance_type(role: Role, types: Mapping[str, InstanceType], group: str) -> Role:
    if not role.instance_type:
        return role
    type = types.get(role.instance_type)
    if type is None or not sizing.is_type_available(type, group):
        raise _build_type_unavailable_error(role.instance_type, types, group)
    own = {key: getattr(role.resources, key) for key in role.own_resources}
    return replace(role, resources=override_resources(type.resources, own))


def _resolve_type_options(role: Role, sku: SkuRequest | None, types: Mapping[str, InstanceType], group: str) -> Role:
    """Set the options for Slurm of its instance type, or of its SKU type in an OpenPAI file."""
    type = types.get(sku.name if sku else role.instance_type)
    options: dict[str, str] = {}
    if type is not None and type.slurm and sizing.is_type_available(type, group):
        needed = count_needed_skus(role.resources, sku_from_type(type)) if sku else 1
        options = scale_options(type.slurm, (sku and sku.number) or needed, role.resources.gpu)
    type_options = {SLURM_ENGINE: options} if options else {}
    return role if role.type_options == type_options else replace(role, type_options=type_options)


def _build_type_unavailable_error(name: str, types: Mapping[str, InstanceType], group: str) -> InstanceTypeNotFound:
    known = sorted(type.name for type in types.values() if sizing.is_type_available(type, group))
    listed = (
        msg("Available: {known}.", known=", ".join(known[:MAX_LISTED]))
        if known
        else msg("No instance types are available to this group.")
    )
    return InstanceTypeNotFound(
        msg("Instance type {name} is not available to the group {group}", group=group, name=name[:100]),
        name=name,
        field="instance_type",
        hint=join_messages(" ", filter(None, (build_similar_name_hint(name, known), listed))),
    )


def _resolve_image(role: Role, aliases: Mapping[str, ImageAlias], group: str) -> Role:
    """Resolve an alias. One that is not granted to the group is ignored: an image may have the same name."""
    alias = aliases.get(role.image)
    url = (
        alias.choose_image(role.resources.gpu)
        if alias is not None and aliasing.is_alias_available(alias, group)
        else ""
    )
    url = "" if url == role.image else url
    return role if url == role.image_url else replace(role, image_url=url)


_QUOTA_LABELS = (
    ("gpu", mark_translatable("GPUs"), msg("Gpu Quota")),
    ("cpu", mark_translatable("cores"), msg("Cpu Quota")),
    ("memory", msg("bytes of memory"), "Memory"),
)


def _iter_exceeded_quotas(role: Role, group: Group | None) -> Iterator[OverQuota]:
    """Yield exceeded quotas in PrimeHub's order: GPUs, cores, memory; the user's before the group's."""
    assert group is not None
    for key, unit, word in _QUOTA_LABELS:
        asked = getattr(role.resources, key)
        for whose, quota in (("User", group.user_quota), ("Group", group.quota)):
            bound: float | None = getattr(quota, key)
            if bound is not None and asked > bound + EPSILON:
                who = (
                    msg("each user of {name}", name=group.name)
                    if whose == "User"
                    else msg("the group {name}", name=group.name)
                )
                yield OverQuota(
                    msg(
                        "{instance_type} has {requested} {unit}, but {who} can use at most {limit}",
                        instance_type=role.instance_type,
                        requested=f"{asked:g}",
                        unit=unit,
                        who=who,
                        limit=f"{bound:g}",
                    ),
                    primehub=msg("{scope} {value} exceeded", scope=whose, value=word),
                    field="instanceType",
                    hint=msg("Choose a smaller instance type, or ask an admin to raise the quota."),
                )
