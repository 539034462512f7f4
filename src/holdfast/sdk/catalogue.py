"""Calls about instance types and image aliases."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .calls import Call, build_call, build_path, drop_none, endpoint, ignore_body, make_list_parser


class CatalogueCalls:
    @endpoint
    def list_instance_types(self, group: str | None = None) -> Call[tuple[api.catalogue.InstanceType, ...]]:
        """List visible instance types; with `group`, those the group can use."""
        return build_call(
            "GET", "/instance-types", make_list_parser(api.catalogue.InstanceType), params=drop_none(group=group)
        )

    @endpoint
    def get_instance_type(self, name: str) -> Call[api.catalogue.InstanceType]:
        return build_call("GET", build_path("instance-types", name), api.catalogue.InstanceType)

    @endpoint
    def add_instance_type(
        self, name: str, *, memory: int, **fields: Unpack[api.catalogue.InstanceTypeFields]
    ) -> Call[api.catalogue.InstanceType]:
        """Add an instance type for everyone or for groups. Requests lower than the limits allow a node to run more
        tasks than fit at peak usage."""
        return build_call(
            "POST", "/instance-types", api.catalogue.InstanceType, body=drop_none(name=name, memory=memory, **fields)
        )

    @endpoint
    def change_instance_type(
        self, name: str, **fields: Unpack[api.catalogue.InstanceTypeChange]
    ) -> Call[api.catalogue.InstanceType]:
        """Change the given fields; a request of None equals the limit. Submitted jobs are not affected."""
        return build_call(
            "PATCH", build_path("instance-types", name), api.catalogue.InstanceType, body=fields, repeatable=True
        )

    @endpoint
    def remove_instance_type(self, name: str) -> Call[None]:
        """Remove an instance type. Submitted jobs are not affected."""
        return build_call("DELETE", build_path("instance-types", name), ignore_body)

    @endpoint
    def grant_instance_type(self, name: str, group: str) -> Call[api.catalogue.InstanceType]:
        """Grant a group access to an instance type."""
        return build_call("PUT", build_path("instance-types", name, "groups", group), api.catalogue.InstanceType)

    @endpoint
    def revoke_instance_type(self, name: str, group: str) -> Call[None]:
        return build_call("DELETE", build_path("instance-types", name, "groups", group), ignore_body)

    @endpoint
    def list_image_aliases(self, group: str | None = None) -> Call[tuple[api.catalogue.ImageAlias, ...]]:
        """List visible image aliases; with `group`, those the group can use."""
        return build_call(
            "GET", "/image-aliases", make_list_parser(api.catalogue.ImageAlias), params=drop_none(group=group)
        )

    @endpoint
    def get_image_alias(self, name: str) -> Call[api.catalogue.ImageAlias]:
        return build_call("GET", build_path("image-aliases", name), api.catalogue.ImageAlias)

    @endpoint
    def add_image_alias(
        self, name: str, url: str, **fields: Unpack[api.catalogue.NewImageAliasFields]
    ) -> Call[api.catalogue.ImageAlias]:
        """Add an image alias for everyone, for groups, or for its owner: a group whose admins manage it."""
        return build_call(
            "POST", "/image-aliases", api.catalogue.ImageAlias, body=drop_none(name=name, url=url, **fields)
        )

    @endpoint
    def change_image_alias(
        self, name: str, **fields: Unpack[api.catalogue.ImageAliasChange]
    ) -> Call[api.catalogue.ImageAlias]:
        """Change the given fields. Submitted jobs are not affected."""
        return build_call(
            "PATCH", build_path("image-aliases", name), api.catalogue.ImageAlias, body=fields, repeatable=True
        )

    @endpoint
    def remove_image_alias(self, name: str) -> Call[None]:
        """Remove an image alias. Its images are kept."""
        return build_call("DELETE", build_path("image-aliases", name), ignore_body)

    @endpoint
    def grant_image_alias(self, name: str, group: str) -> Call[api.catalogue.ImageAlias]:
        """Grant a group access to an image alias."""
        return build_call("PUT", build_path("image-aliases", name, "groups", group), api.catalogue.ImageAlias)

    @endpoint
    def revoke_image_alias(self, name: str, group: str) -> Call[None]:
        return build_call("DELETE", build_path("image-aliases", name, "groups", group), ignore_body)
