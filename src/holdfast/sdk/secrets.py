"""Calls about secrets."""

from __future__ import annotations

from typing import Unpack

from holdfast import api

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment


class SecretCalls:
    @endpoint
    def secrets(self) -> Call[tuple[api.catalogue.Secret, ...]]:
        """All, for admins; those for registries, for others."""
        return call("GET", "/secrets", as_items(api.catalogue.Secret))

    @endpoint
    def secret(self, name: str) -> Call[api.catalogue.Secret]:
        return call("GET", _secret(name), as_a(api.catalogue.Secret))

    @endpoint
    def add_secret(
        self, name: str, value: str, **fields: Unpack[api.catalogue.NewSecretFields]
    ) -> Call[api.catalogue.Secret]:
        """A private SSH key or a password for git; with the kind registry, a password to pull images."""
        return call("POST", "/secrets", as_a(api.catalogue.Secret), body=given(name=name, value=value, **fields))

    @endpoint
    def change_secret(self, name: str, **fields: Unpack[api.catalogue.SecretChange]) -> Call[api.catalogue.Secret]:
        """Change what is given."""
        return call("PATCH", _secret(name), as_a(api.catalogue.Secret), body=fields, repeatable=True)

    @endpoint
    def remove_secret(self, name: str) -> Call[None]:
        """Refused while a dataset or an image goes by it."""
        return call("DELETE", _secret(name), as_nothing)


def _secret(name: str) -> str:
    return f"/secrets/{segment(name)}"
