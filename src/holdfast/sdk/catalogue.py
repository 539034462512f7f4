"""Calls about what jobs choose from by name: sizes and image aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.api.catalogue import ImageAlias, InstanceType

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment
from .people import UNCHANGED


class CatalogueCalls:
    @endpoint
    def instance_types(self, group: str | None = None) -> Call[tuple[InstanceType, ...]]:
        """Those one may see; with a group, those its jobs can name."""
        return call("GET", "/instance-types", as_items(InstanceType), params=given(group=group))

    @endpoint
    def instance_type(self, name: str) -> Call[InstanceType]:
        return call("GET", _type(name), as_a(InstanceType))

    @endpoint
    def add_instance_type(
        self,
        name: str,
        *,
        cpu: float,
        memory: int,
        gpu: int | None = None,
        cpu_request: float | None = None,
        memory_request: int | None = None,
        display_name: str | None = None,
        description: str | None = None,
        gpu_resource: str | None = None,
        tolerations: Sequence[Mapping[str, Any]] | None = None,
        node_selector: Mapping[str, str] | None = None,
        everyone: bool | None = None,
        groups: Sequence[str] | None = None,
    ) -> Call[InstanceType]:
        """A size for everyone, or for the groups that are named. Requests, where given, are what a machine must have
        free for a task: less than its limits lets a machine take more tasks than it has room for at their most."""
        body = given(
            name=name,
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            cpu_request=cpu_request,
            memory_request=memory_request,
            display_name=display_name,
            description=description,
            gpu_resource=gpu_resource,
            tolerations=_plain(tolerations),
            node_selector=node_selector,
            everyone=everyone,
            groups=_plain(groups),
        )
        return call("POST", "/instance-types", as_a(InstanceType), body=body)

    @endpoint
    def change_instance_type(
        self,
        name: str,
        *,
        cpu: float | None = None,
        memory: int | None = None,
        gpu: int | None = None,
        cpu_request: float | None = UNCHANGED,
        memory_request: int | None = UNCHANGED,
        display_name: str | None = None,
        description: str | None = None,
        gpu_resource: str | None = None,
        tolerations: Sequence[Mapping[str, Any]] | None = None,
        node_selector: Mapping[str, str] | None = None,
        everyone: bool | None = None,
        groups: Sequence[str] | None = None,
    ) -> Call[InstanceType]:
        """Change what is given; a request of None is as much as the limit. Jobs submitted before keep their size."""
        body = given(
            cpu=cpu,
            memory=memory,
            gpu=gpu,
            display_name=display_name,
            description=description,
            gpu_resource=gpu_resource,
            tolerations=_plain(tolerations),
            node_selector=node_selector,
            everyone=everyone,
            groups=_plain(groups),
        )
        requests = {"cpu_request": cpu_request, "memory_request": memory_request}
        body |= {key: value for key, value in requests.items() if value is not UNCHANGED}
        return call("PATCH", _type(name), as_a(InstanceType), body=body, repeatable=True)

    @endpoint
    def remove_instance_type(self, name: str) -> Call[None]:
        """Jobs that were submitted before keep their size."""
        return call("DELETE", _type(name), as_nothing)

    @endpoint
    def grant_instance_type(self, name: str, group: str) -> Call[InstanceType]:
        """Let the jobs of a group name it."""
        return call("PUT", f"{_type(name)}/groups/{segment(group)}", as_a(InstanceType))

    @endpoint
    def revoke_instance_type(self, name: str, group: str) -> Call[None]:
        return call("DELETE", f"{_type(name)}/groups/{segment(group)}", as_nothing)

    @endpoint
    def image_aliases(self, group: str | None = None) -> Call[tuple[ImageAlias, ...]]:
        """Those one may see; with a group, those its jobs can name."""
        return call("GET", "/image-aliases", as_items(ImageAlias), params=given(group=group))

    @endpoint
    def image_alias(self, name: str) -> Call[ImageAlias]:
        return call("GET", _alias(name), as_a(ImageAlias))

    @endpoint
    def add_image_alias(
        self,
        name: str,
        url: str,
        *,
        gpu_url: str | None = None,
        kind: str | None = None,
        display_name: str | None = None,
        description: str | None = None,
        pull_secret: str | None = None,
        owner: str | None = None,
        everyone: bool | None = None,
        groups: Sequence[str] | None = None,
    ) -> Call[ImageAlias]:
        """A name for an image: for everyone, for the groups that are named, or for its owner, a group whose admins look
        after it."""
        body = given(
            name=name,
            url=url,
            gpu_url=gpu_url,
            kind=kind,
            display_name=display_name,
            description=description,
            pull_secret=pull_secret,
            owner=owner,
            everyone=everyone,
            groups=_plain(groups),
        )
        return call("POST", "/image-aliases", as_a(ImageAlias), body=body)

    @endpoint
    def change_image_alias(
        self,
        name: str,
        *,
        url: str | None = None,
        gpu_url: str | None = None,
        kind: str | None = None,
        display_name: str | None = None,
        description: str | None = None,
        pull_secret: str | None = UNCHANGED,
        everyone: bool | None = None,
        groups: Sequence[str] | None = None,
    ) -> Call[ImageAlias]:
        """Change what is given. Jobs that were submitted before keep the image they had."""
        body = given(
            url=url,
            gpu_url=gpu_url,
            kind=kind,
            display_name=display_name,
            description=description,
            everyone=everyone,
            groups=_plain(groups),
        )
        if pull_secret is not UNCHANGED:
            body["pull_secret"] = pull_secret
        return call("PATCH", _alias(name), as_a(ImageAlias), body=body, repeatable=True)

    @endpoint
    def remove_image_alias(self, name: str) -> Call[None]:
        """The images it stands for stay."""
        return call("DELETE", _alias(name), as_nothing)

    @endpoint
    def grant_image_alias(self, name: str, group: str) -> Call[ImageAlias]:
        """Let the jobs of a group name it."""
        return call("PUT", f"{_alias(name)}/groups/{segment(group)}", as_a(ImageAlias))

    @endpoint
    def revoke_image_alias(self, name: str, group: str) -> Call[None]:
        return call("DELETE", f"{_alias(name)}/groups/{segment(group)}", as_nothing)


def _plain(items: Sequence[Any] | None) -> list[Any] | None:
    return None if items is None else list(items)


def _type(name: str) -> str:
    return f"/instance-types/{segment(name)}"


def _alias(name: str) -> str:
    return f"/image-aliases/{segment(name)}"
