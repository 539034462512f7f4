"""Calls about secrets."""

from __future__ import annotations

from typing import Unpack

from holdfast.api.catalogue import NewSecretFields, Secret, SecretChange

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment


class SecretCalls:
    @endpoint
    def secrets(self) -> Call[tuple[Secret, ...]]:
        """All, for admins; those for registries, for others."""
        return call("GET", "/secrets", as_items(Secret))

    @endpoint
    def secret(self, name: str) -> Call[Secret]:
        return call("GET", _secret(name), as_a(Secret))

    @endpoint
    def add_secret(self, name: str, value: str, **fields: Unpack[NewSecretFields]) -> Call[Secret]:
        """A private SSH key or a password for git; with the kind registry, a password to pull images."""
        return call("POST", "/secrets", as_a(Secret), body=given(name=name, value=value, **fields))

    @endpoint
    def change_secret(self, name: str, **fields: Unpack[SecretChange]) -> Call[Secret]:
        """Change what is given."""
        return call("PATCH", _secret(name), as_a(Secret), body=fields, repeatable=True)

    @endpoint
    def remove_secret(self, name: str) -> Call[None]:
        """Refused while a dataset or an image goes by it."""
        return call("DELETE", _secret(name), as_nothing)


def _secret(name: str) -> str:
    return f"/secrets/{segment(name)}"
