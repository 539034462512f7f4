"""People of the server that the pages are tried on, and what they do by its API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from tests.e2e.server import Server

from .browser import PASSWORD


def add_user(server: Server, name: str, group: str = "default") -> str:
    """With PASSWORD; their name."""
    with server.client() as client:
        body = {"name": name, "password": PASSWORD, "groups": [group]}
        client.post("/users", json=body).raise_for_status()
    return name


@contextmanager
def client_of(server: Server, user: str) -> Iterator[httpx.Client]:
    """Logged in as them."""
    with server.client() as client:
        login = client.post("/login", json={"user": user, "password": PASSWORD}).raise_for_status().json()
        client.headers["Authorization"] = f"Bearer {login['token']}"
        yield client
