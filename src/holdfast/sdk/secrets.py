"""Calls about secrets."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .calls import Call, build_call, build_path, drop_none, endpoint, ignore_body, make_list_parser


class SecretCalls:
    @endpoint
    def list_secrets(self) -> Call[tuple[api.catalogue.Secret, ...]]:
        """List secrets: all for admins, registry secrets for others."""
        return build_call("GET", "/secrets", make_list_parser(api.catalogue.Secret))

    @endpoint
    def get_secret(self, name: str) -> Call[api.catalogue.Secret]:
        return build_call("GET", build_path("secrets", name), api.catalogue.Secret)

    @endpoint
    def add_secret(
        self, name: str, value: str, **fields: Unpack[api.catalogue.NewSecretFields]
    ) -> Call[api.catalogue.Secret]:
        """Add an SSH key or password for Git; with the kind registry, a pull secret."""
        return build_call("POST", "/secrets", api.catalogue.Secret, body=drop_none(name=name, value=value, **fields))

    @endpoint
    def change_secret(self, name: str, **fields: Unpack[api.catalogue.SecretChange]) -> Call[api.catalogue.Secret]:
        """Change the given fields."""
        return build_call("PATCH", build_path("secrets", name), api.catalogue.Secret, body=fields, repeatable=True)

    @endpoint
    def remove_secret(self, name: str) -> Call[None]:
        """Remove a secret. Fails if a dataset or an image alias uses it."""
        return build_call("DELETE", build_path("secrets", name), ignore_body)
