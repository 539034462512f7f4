"""Credentials for the registry of a job's image: of the image alias, or in an OpenPAI job file.

They are only used for the registry that they were given for: an image name is chosen by users, and a registry of their
own must not get the password of another one.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from holdfast.core.attempt import JobSnapshot
from holdfast.core.catalogue import ImageAlias, Secret
from holdfast.core.image_names import get_registry_host, normalize_registry
from holdfast.core.job import Job
from holdfast.engines.base import RegistryCredentials
from holdfast.jobspec.templates import fill_secrets
from holdfast.store import image_aliases as alias_rows
from holdfast.store import secrets as secret_rows
from holdfast.store.database import Store


class RegistryCredentialsLoader:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def load_credentials(self, snapshot: JobSnapshot, image: str) -> RegistryCredentials | None:
        """Return the credentials for one of the job's images; None: anonymous."""
        host = get_registry_host(image)
        found = _find_openpai_credentials(snapshot.job, image, host)
        if found is not None:
            return found
        aliases = {role.image for role in snapshot.job.roles if role.image_url == image}
        return await self._store.read(_load_alias_credentials, sorted(aliases), image, host) if aliases else None


def _load_alias_credentials(conn: Connection, names: list[str], image: str, host: str) -> RegistryCredentials | None:
    for name in names:
        alias = alias_rows.get_image_alias(conn, name)
        secret = _get_pull_secret(conn, alias) if alias and image in (alias.url, alias.gpu_url) else None
        if secret is None or normalize_registry(secret.registry_host) != host:
            continue
        password = secret_rows.load_secret_value(conn, secret.name)
        if password is not None:
            return RegistryCredentials(username=secret.username, password=password)
    return None


def _get_pull_secret(conn: Connection, alias: ImageAlias) -> Secret | None:
    return secret_rows.get_secret(conn, alias.pull_secret) if alias.pull_secret else None


def _find_openpai_credentials(job: Job, image: str, host: str) -> RegistryCredentials | None:
    openpai: Any = job.extras.get("openpai", {})
    registries = openpai.get("registries", {})
    for item in openpai.get("config", {}).get("prerequisites", ()) if registries else ():
        auth = registries.get(item.get("name")) if item.get("uri") == image else None
        if auth and "username" in auth and normalize_registry(auth.get("registryuri", "")) == host:
            password = fill_secrets(auth.get("password", ""), job.secrets)
            return RegistryCredentials(username=fill_secrets(auth["username"], job.secrets), password=password)
    return None
