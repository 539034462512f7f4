"""Pulls images from registries into the image store.

Layers are downloaded in parallel and unpacked while they arrive. Every pull proves its own access: the manifest is
always read with the credentials of the pull. A stored layer is only used if the same registry has sent it before, and
confirms that this user may read it; otherwise it is downloaded again, and compared.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from holdfast.core.image_names import ImageReference, parse_reference
from holdfast.disk_space import is_disk_full_error, require_space
from holdfast.engines.base import ImageSummary, PullPhase, PullProgress, RegistryCredentials

from ..image import Image
from .blobs import BlobDownload
from .image_store import ImageStore, get_config_fields
from .layer_pipes import LayerPipe, PipeReader
from .manifests import RemoteImage, RemoteLayer, fetch_remote_image, list_distinct_layers
from .pull_errors import make_name_error, make_registry_error, make_space_error, translate_archive_error
from .registry import RepositoryClient
from .registry_http import RegistryHttp
from .registry_options import RegistryOptions
from .tars import BadArchive

T = TypeVar("T")

_MAX_DOWNLOADS = 4  # layers of one pull at the same time
_MAX_CHECKS = 8  # requests of one pull about stored layers at the same time
_WRITE_THREADS = 4
_UNPACK_THREADS = 256  # of all pulls: one for each connection, since most wait for data
_MAX_BUSY_UNPACKERS = 2  # of these, at the same time; more would slow down the rest of the server


ProgressCallback = Callable[[PullProgress], None]


@dataclass(slots=True, kw_only=True, eq=False)
class _Pull:
    """A pull that callers wait for."""

    reference: ImageReference
    client: RepositoryClient
    has_credentials: bool
    callbacks: list[ProgressCallback] = field(default_factory=list)
    waiting: int = 0
    task: asyncio.Task[ImageSummary] | None = None
    phase: PullPhase = PullPhase.RESOLVING
    done: int = 0
    total: int = 0
    downloads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_DOWNLOADS))
    checks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CHECKS))

    @property
    def name(self) -> str:
        return str(self.reference)

    def enter_phase(self, phase: PullPhase) -> None:
        self.phase = phase
        self.report(0)

    def report(self, count: int) -> None:
        """Tell the callers that `count` more bytes have arrived."""
        self.done += count
        progress = PullProgress(phase=self.phase, done=self.done, total=self.total)
        for callback in self.callbacks:
            callback(progress)


class ImagePuller:
    def __init__(self, store: ImageStore, options: RegistryOptions | None = None) -> None:
        self._store = store
        self._layers = store.layers
        self._options = options or RegistryOptions()
        self._http = RegistryHttp(self._options)
        self._pulls: dict[tuple[str, RegistryCredentials | None], _Pull] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._writers = ThreadPoolExecutor(_WRITE_THREADS, thread_name_prefix="pull-write")
        self._unpackers = ThreadPoolExecutor(_UNPACK_THREADS, thread_name_prefix="pull-unpack")
        self._unpack_slots = threading.Semaphore(_MAX_BUSY_UNPACKERS)

    async def pull_image(
        self, name: str, credentials: RegistryCredentials | None = None, on_progress: ProgressCallback | None = None
    ) -> ImageSummary:
        """Pull it if it is new or has changed. PullError says why not. A second call for the same image joins the
        first; if all callers are cancelled, so is the pull."""
        reference = self._parse_name(name)
        key = str(reference), credentials
        pull = self._pulls.get(key)
        if pull is None:
            client = RepositoryClient(self._http, self._options, reference, credentials)
            pull = self._pulls[key] = _Pull(reference=reference, client=client, has_credentials=credentials is not None)
            pull.task = asyncio.create_task(self._run_pull(pull))
            pull.task.add_done_callback(lambda _: self._pulls.pop(key, None))
        return await self._join_pull(pull, on_progress)

    async def check_access(self, name: str, credentials: RegistryCredentials | None = None) -> str:
        """Return the digest of an image in its registry. PullError if it cannot be pulled with these credentials."""
        reference = self._parse_name(name)
        client = RepositoryClient(self._http, self._options, reference, credentials)
        return await client.check_manifest(reference.version)

    async def close(self) -> None:
        tasks = [pull.task for pull in self._pulls.values() if pull.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._http.close()
        for pool in (self._writers, self._unpackers):
            await asyncio.to_thread(pool.shutdown)

    def _parse_name(self, name: str) -> ImageReference:
        reference = parse_reference(name, self._options.default_registry)
        if reference is None or not self._store.is_valid_name(str(reference)):
            raise make_name_error(name)
        if self._options.allowed and reference.registry not in self._options.allowed:
            raise make_registry_error(reference.registry, self._options.allowed)
        return reference

    async def _join_pull(self, pull: _Pull, on_progress: ProgressCallback | None) -> ImageSummary:
        assert pull.task is not None
        pull.waiting += 1
        if on_progress is not None:
            pull.callbacks.append(on_progress)
        try:
            return await asyncio.shield(pull.task)
        finally:
            pull.waiting -= 1
            if on_progress is not None:
                pull.callbacks.remove(on_progress)
            if not pull.waiting and not pull.task.done():
                pull.task.cancel()
                await asyncio.gather(pull.task, return_exceptions=True)

    async def _run_pull(self, pull: _Pull) -> ImageSummary:
        try:
            pull.enter_phase(PullPhase.RESOLVING)
            remote = await fetch_remote_image(pull.client, pull.reference)
            stored = await asyncio.to_thread(self._store.find_image, pull.name)
            if stored is not None and stored.name == pull.name and stored.digest == remote.digest:
                if not pull.has_credentials:
                    await asyncio.to_thread(self._store.make_public, stored)
                return stored.summarize()
            async with self._reserve_layers(remote):
                await self._fetch_layers(pull, remote)
                pull.enter_phase(PullPhase.UNPACKING)
                return await self._build_image(pull, remote)
        except BadArchive as error:
            raise translate_archive_error(pull.name, error) from error
        except OSError as error:
            if is_disk_full_error(error):
                raise make_space_error(pull.name) from error
            raise

    @asynccontextmanager
    async def _reserve_layers(self, remote: RemoteImage) -> AsyncIterator[None]:
        digests = [layer.digest for layer in remote.layers]
        await asyncio.to_thread(self._layers.reserve, digests)
        try:
            await asyncio.to_thread(self._layers.create_folders)
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(self._layers.release, digests))  # even if cancelled

    # -- layers

    async def _fetch_layers(self, pull: _Pull, remote: RemoteImage) -> None:
        layers = list_distinct_layers(remote.layers)
        usable = await _run_all([self._can_use_stored_layer(pull, layer) for layer in layers])
        missing = [layer for layer, is_usable in zip(layers, usable, strict=True) if not is_usable]
        pull.total = sum(layer.size for layer in missing)
        pull.enter_phase(PullPhase.DOWNLOADING)
        await asyncio.to_thread(require_space, self._store.folder, pull.total, self._store.marks)
        await _run_all([self._fetch_layer(pull, layer) for layer in missing])

    async def _can_use_stored_layer(self, pull: _Pull, layer: RemoteLayer) -> bool:
        """Return whether the layer is stored and this user may read it."""
        registry = pull.reference.registry
        is_known = await asyncio.to_thread(
            lambda: self._layers.has_layer(layer.digest) and self._layers.has_source(layer.digest, registry, layer.blob)
        )
        if not is_known:
            return False
        async with pull.checks:
            return await pull.client.has_blob(layer.blob)

    async def _fetch_layer(self, pull: _Pull, layer: RemoteLayer) -> None:
        """Download and unpack it.

        A manifest can name any digest, so a slow registry must not delay pulls from others: downloads of the same blob
        wait for each other only within a registry. If two registries send the same layer, the first to end is kept.
        """
        registry = pull.reference.registry
        async with self._get_lock(f"{registry} {layer.blob}"):
            if await self._can_use_stored_layer(pull, layer):  # another pull has fetched it meanwhile
                pull.report(layer.size)
                return
            path = self._layers.get_blob_path(registry, layer.blob)
            async with pull.downloads:
                download = BlobDownload(pull.client, pull.name, registry, self._run_in_writer, pull.report)
                await download.run(path, layer.blob, layer.size, lambda pipe: self._unpack_layer(pull, layer, pipe))

    async def _unpack_layer(self, pull: _Pull, layer: RemoteLayer, pipe: LayerPipe) -> None:
        def unpack(cancelled: threading.Event) -> None:
            reader = PipeReader(pipe, self._unpack_slots)
            if self._layers.has_layer(layer.digest):
                self._layers.check_layer(reader, layer.size, layer.digest, cancelled)
            else:
                self._layers.unpack_layer(reader, layer.size, layer.digest, cancelled)
            self._layers.add_source(layer.digest, pull.reference.registry, layer.blob)

        await self._run_in_unpacker(unpack)

    async def _build_image(self, pull: _Pull, remote: RemoteImage) -> ImageSummary:
        fields = Image(
            name=pull.name,
            rootfs="",
            shell=None,
            size=0,
            created_at=datetime.now(UTC),
            source=f"{pull.reference.registry}/{pull.reference.repository}@{remote.digest}",
            digest=remote.digest,
            private=pull.has_credentials,
            layers=tuple(layer.digest for layer in remote.layers),
            **get_config_fields(remote.config),
        )

        def build(cancelled: threading.Event) -> Image:
            layers = [self._layers.get_layer(layer.digest) for layer in remote.layers]
            return self._store.add_from_layers(pull.name, layers, fields, cancelled)

        return (await self._run_in_unpacker(build)).summarize()

    # -- threads

    def _get_lock(self, key: str) -> asyncio.Lock:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    async def _run_in_writer(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._writers, call, *args)

    async def _run_in_unpacker(self, call: Callable[[threading.Event], T]) -> T:
        """Run it in a thread. A cancellation ends the thread's work first, so that it leaves nothing behind."""
        cancelled = threading.Event()

        def run() -> T:
            with self._unpack_slots:
                return call(cancelled)

        work = asyncio.get_running_loop().run_in_executor(self._unpackers, run)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([work])
            if not work.cancelled():
                work.exception()
            raise


async def _run_all(calls: list[Any]) -> list[Any]:
    """Run them together. The first error cancels the others, and is raised once they have ended."""
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
