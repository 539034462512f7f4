"""Calls about secrets."""

from __future__ import annotations

from holdfast.api.catalogue import Secret

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
    def add_secret(
        self,
        name: str,
        value: str,
        *,
        display_name: str | None = None,
        kind: str | None = None,
        registry_host: str | None = None,
        username: str | None = None,
    ) -> Call[Secret]:
        """A private SSH key or a password for git; with the kind registry, a password to pull images."""
        body = given(
            name=name,
            value=value,
            display_name=display_name,
            kind=kind,
            registry_host=registry_host,
            username=username,
        )
        return call("POST", "/secrets", as_a(Secret), body=body)

    @endpoint
    def change_secret(
        self,
        name: str,
        *,
        value: str | None = None,
        display_name: str | None = None,
        registry_host: str | None = None,
        username: str | None = None,
    ) -> Call[Secret]:
        """Change what is given."""
        body = given(value=value, display_name=display_name, registry_host=registry_host, username=username)
        return call("PATCH", _secret(name), as_a(Secret), body=body, repeatable=True)

    @endpoint
    def remove_secret(self, name: str) -> Call[None]:
        """Refused while a dataset or an image goes by it."""
        return call("DELETE", _secret(name), as_nothing)


def _secret(name: str) -> str:
    return f"/secrets/{segment(name)}"
