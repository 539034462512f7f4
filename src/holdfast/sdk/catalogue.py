"""Calls about what jobs choose from by name: sizes and image aliases."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment


class CatalogueCalls:
    @endpoint
    def instance_types(self, group: str | None = None) -> Call[tuple[api.catalogue.InstanceType, ...]]:
        """Those one may see; with a group, those its jobs can name."""
        return call("GET", "/instance-types", as_items(api.catalogue.InstanceType), params=given(group=group))

    @endpoint
    def instance_type(self, name: str) -> Call[api.catalogue.InstanceType]:
        return call("GET", _type(name), as_a(api.catalogue.InstanceType))

    @endpoint
    def add_instance_type(
        self, name: str, *, memory: int, **fields: Unpack[api.catalogue.InstanceTypeFields]
    ) -> Call[api.catalogue.InstanceType]:
        """A size for everyone, or for the groups that are named. Requests, where given, are what a machine must have
        free for a task: less than its limits lets a machine take more tasks than it has room for at their most."""
        return call(
            "POST", "/instance-types", as_a(api.catalogue.InstanceType), body=given(name=name, memory=memory, **fields)
        )

    @endpoint
    def change_instance_type(
        self, name: str, **fields: Unpack[api.catalogue.InstanceTypeChange]
    ) -> Call[api.catalogue.InstanceType]:
        """Change what is given; a request of None is as much as the limit. Jobs submitted before keep their size."""
        return call("PATCH", _type(name), as_a(api.catalogue.InstanceType), body=fields, repeatable=True)

    @endpoint
    def remove_instance_type(self, name: str) -> Call[None]:
        """Jobs that were submitted before keep their size."""
        return call("DELETE", _type(name), as_nothing)

    @endpoint
    def grant_instance_type(self, name: str, group: str) -> Call[api.catalogue.InstanceType]:
        """Let the jobs of a group name it."""
        return call("PUT", f"{_type(name)}/groups/{segment(group)}", as_a(api.catalogue.InstanceType))

    @endpoint
    def revoke_instance_type(self, name: str, group: str) -> Call[None]:
        return call("DELETE", f"{_type(name)}/groups/{segment(group)}", as_nothing)

    @endpoint
    def image_aliases(self, group: str | None = None) -> Call[tuple[api.catalogue.ImageAlias, ...]]:
        """Those one may see; with a group, those its jobs can name."""
        return call("GET", "/image-aliases", as_items(api.catalogue.ImageAlias), params=given(group=group))

    @endpoint
    def image_alias(self, name: str) -> Call[api.catalogue.ImageAlias]:
        return call("GET", _alias(name), as_a(api.catalogue.ImageAlias))

    @endpoint
    def add_image_alias(
        self, name: str, url: str, **fields: Unpack[api.catalogue.NewImageAliasFields]
    ) -> Call[api.catalogue.ImageAlias]:
        """A name for an image: for everyone, for the groups that are named, or for its owner, a group whose admins look
        after it."""
        return call("POST", "/image-aliases", as_a(api.catalogue.ImageAlias), body=given(name=name, url=url, **fields))

    @endpoint
    def change_image_alias(
        self, name: str, **fields: Unpack[api.catalogue.ImageAliasChange]
    ) -> Call[api.catalogue.ImageAlias]:
        """Change what is given. Jobs that were submitted before keep the image they had."""
        return call("PATCH", _alias(name), as_a(api.catalogue.ImageAlias), body=fields, repeatable=True)

    @endpoint
    def remove_image_alias(self, name: str) -> Call[None]:
        """The images it stands for stay."""
        return call("DELETE", _alias(name), as_nothing)

    @endpoint
    def grant_image_alias(self, name: str, group: str) -> Call[api.catalogue.ImageAlias]:
        """Let the jobs of a group name it."""
        return call("PUT", f"{_alias(name)}/groups/{segment(group)}", as_a(api.catalogue.ImageAlias))

    @endpoint
    def revoke_image_alias(self, name: str, group: str) -> Call[None]:
        return call("DELETE", f"{_alias(name)}/groups/{segment(group)}", as_nothing)


def _type(name: str) -> str:
    return f"/instance-types/{segment(name)}"


def _alias(name: str) -> str:
    return f"/image-aliases/{segment(name)}"
