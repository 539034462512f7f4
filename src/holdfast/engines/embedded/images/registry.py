"""One repository of a registry, by the OCI distribution API: manifests and blobs, from mirrors first."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

import httpx

from holdfast.core.image_names import ImageReference, get_registry_address, is_digest
from holdfast.core.messages import msg
from holdfast.engines.base import PullError, PullFailure, RegistryCredentials

from .pull_errors import (
    make_denied_error,
    make_invalid_error,
    make_not_found_error,
    make_rate_limit_error,
    make_response_error,
)
from .registry_auth import RegistryAuthorizer
from .registry_http import REQUEST_ERRORS, RegistryHttp, parse_retry_time, read_body, translate_request_error
from .registry_options import RegistryOptions

logger = logging.getLogger(__name__)

MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_MAX_MANIFEST_SIZE = 4 * 1024 * 1024  # bytes, as registries limit it
_MAX_ATTEMPTS = 4  # requests until an error counts
_RETRY_INTERVAL = 0.5  # seconds before the first retry; doubled for each further one
_MAX_RETRY_WAIT = 15.0  # seconds to wait if the registry asks for it; longer waits are left to the caller


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A host that serves the repository: the registry itself, or a mirror."""

    host: str
    repository: str
    authorizer: RegistryAuthorizer
    is_mirror: bool


class RepositoryClient:
    """The requests of one user. Only the registry itself gets the credentials; a mirror is asked without them."""

    def __init__(
        self,
        http: RegistryHttp,
        options: RegistryOptions,
        reference: ImageReference,
        credentials: RegistryCredentials | None,
    ) -> None:
        self._http = http
        self._name = str(reference)
        self._registry = reference.registry
        self._has_credentials = credentials is not None
        origin = self._make_endpoint(get_registry_address(reference.registry), reference.repository, credentials)
        mirrors = [
            self._make_endpoint(
                host, f"{prefix}/{reference.repository}" if prefix else reference.repository, None, True
            )
            for host, _, prefix in (mirror.partition("/") for mirror in options.mirrors.get(reference.registry, ()))
        ]
        self._endpoints = [*mirrors, origin]

    def _make_endpoint(
        self, host: str, repository: str, credentials: RegistryCredentials | None, is_mirror: bool = False
    ) -> Endpoint:
        authorizer = RegistryAuthorizer(self._http, host, repository, credentials, self._name)
        return Endpoint(host=host, repository=repository, authorizer=authorizer, is_mirror=is_mirror)

    def drop_mirrors(self) -> bool:
        """Use only the registry itself from now on, after a mirror sent wrong data. False if there is no mirror."""
        had_mirrors = len(self._endpoints) > 1
        self._endpoints = self._endpoints[-1:]
        return had_mirrors

    async def fetch_manifest(self, version: str) -> bytes:
        """Return a manifest or an index by its tag or digest, as the registry stores it."""
        async with self._open("GET", f"manifests/{version}", {"Accept": ", ".join(MANIFEST_TYPES)}) as response:
            content = await self._read_body(response, _MAX_MANIFEST_SIZE)
        if is_digest(version) and await compute_digest(content) != version:
            raise make_invalid_error(self._name, msg("A manifest does not match its digest."))
        return content

    async def check_manifest(self, version: str) -> str:
        """Return the digest of a manifest without reading it, which registries do not count as a pull."""
        async with self._open("HEAD", f"manifests/{version}", {"Accept": ", ".join(MANIFEST_TYPES)}) as response:
            digest = str(response.headers.get("docker-content-digest", ""))
        return digest if is_digest(digest) else await compute_digest(await self.fetch_manifest(version))

    async def has_blob(self, digest: str) -> bool:
        """Return whether the repository contains a blob that this user may read."""
        try:
            async with self._open("HEAD", f"blobs/{digest}", {}):
                return True
        except PullError as error:
            if error.kind in (PullFailure.NOT_FOUND, PullFailure.DENIED):
                return False
            raise

    async def fetch_blob(self, digest: str, max_size: int) -> bytes:
        """Return a small blob."""
        async with self._open("GET", f"blobs/{digest}", {}) as response:
            content = await self._read_body(response, max_size)
        if await compute_digest(content) != digest:
            raise make_invalid_error(self._name, msg("The image's configuration does not match its digest."))
        return content

    @asynccontextmanager
    async def open_blob(self, digest: str, start: int) -> AsyncIterator[tuple[httpx.Response, int]]:
        """Open a blob from byte `start`. Returns the response, and how many of its first bytes to skip."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        async with self._open("GET", f"blobs/{digest}", headers) as response:
            if response.status_code == 206:
                if not response.headers.get("content-range", "").startswith(f"bytes {start}-"):
                    raise make_invalid_error(self._name, msg("The registry sent another part of a layer."))
                yield response, 0
            else:
                yield response, start

    async def _read_body(self, response: httpx.Response, max_size: int) -> bytes:
        try:
            return await read_body(response, max_size, self._name)
        except REQUEST_ERRORS as error:
            raise translate_request_error(self._registry, error) from error

    @asynccontextmanager
    async def _open(self, method: str, path: str, headers: Mapping[str, str]) -> AsyncIterator[httpx.Response]:
        response = await self._send(method, path, headers)
        try:
            yield response
        finally:
            await response.aclose()

    async def _send(self, method: str, path: str, headers: Mapping[str, str]) -> httpx.Response:
        for mirror in self._endpoints[:-1]:
            try:
                return await self._send_once(mirror, method, path, headers)
            except PullError as error:
                logger.info(msg("mirror failed"), extra={"mirror": mirror.host, "reason": error.message})
                if error.is_transient and mirror in self._endpoints:
                    self._endpoints.remove(mirror)
        return await self._send_with_retries(self._endpoints[-1], method, path, headers)

    async def _send_with_retries(
        self, endpoint: Endpoint, method: str, path: str, headers: Mapping[str, str]
    ) -> httpx.Response:
        for attempt in range(_MAX_ATTEMPTS - 1):
            try:
                return await self._send_once(endpoint, method, path, headers)
            except PullError as error:
                wait = _compute_wait(error, attempt)
                if wait is None:
                    raise
            await asyncio.sleep(wait)
        return await self._send_once(endpoint, method, path, headers)

    async def _send_once(
        self, endpoint: Endpoint, method: str, path: str, headers: Mapping[str, str]
    ) -> httpx.Response:
        """Return a successful response, with a new authorization if needed."""
        path = f"/v2/{endpoint.repository}/{path}"
        authorizer = endpoint.authorizer
        try:
            used = authorizer.authorization
            response = await self._http.send(method, endpoint.host, path, headers, used)
            if response.status_code == 401:
                await response.aclose()
                if await authorizer.authorize(response, used):
                    response = await self._http.send(method, endpoint.host, path, headers, authorizer.authorization)
        except REQUEST_ERRORS as error:
            raise translate_request_error(self._registry, error) from error
        failure = self._get_failure(response)
        if failure is not None:
            await response.aclose()
            raise failure
        return response

    def _get_failure(self, response: httpx.Response) -> PullError | None:
        status = response.status_code
        if status in (200, 206):
            return None
        retry_at = parse_retry_time(response.headers, datetime.now(UTC))
        if status == 404:
            return make_not_found_error(self._name, self._registry)
        if status in (401, 403):
            return make_denied_error(self._name, self._registry, has_credentials=self._has_credentials)
        if status == 429:
            return make_rate_limit_error(self._registry, retry_at)
        return make_response_error(self._registry, status, retry_at)


async def compute_digest(content: bytes) -> str:
    digest = await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())
    return f"sha256:{digest}"


def _compute_wait(error: PullError, attempt: int) -> float | None:
    """Return the seconds to wait before a retry; None: do not retry."""
    if not error.is_transient:
        return None
    if error.retry_at is not None:
        wait = max(0.0, (error.retry_at - datetime.now(UTC)).total_seconds())
        return wait if wait <= _MAX_RETRY_WAIT else None
    if error.kind is PullFailure.RATE_LIMITED:
        return None
    return float(_RETRY_INTERVAL * 2**attempt)
