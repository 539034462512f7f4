"""Pulls of images that admins request. Jobs pull their own: see controller/images/pulls.py."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

from holdfast.core.access import Actor
from holdfast.core.audit import AuditAction, AuditKind
from holdfast.core.catalogue import SecretKind
from holdfast.core.errors import Conflict, UserError
from holdfast.core.image_names import get_registry_host, normalize_registry
from holdfast.core.messages import msg
from holdfast.engines.base import ImageSummary, PullPhase, PullProgress, RegistryCredentials, SupportsImagePulls
from holdfast.engines.engine_set import EngineSet

from ..audit import AuditedStore, AuditEntry
from ..name_suggestions import check_engine
from ..permissions import require_admin
from .images import ADMINS_ONLY_MESSAGE
from .secrets import Secrets

log = logging.getLogger(__name__)

_PullKey = tuple[str, str, str | None]  # engine, image, secret

MAX_WAIT = 2.0  # seconds that a request waits for the end of a pull


@dataclass(frozen=True, slots=True, kw_only=True)
class PullStatus:
    name: str
    phase: PullPhase
    done: int  # bytes
    total: int
    image: ImageSummary | None = None  # once it is there


@dataclass(slots=True, eq=False)
class _RunningPull:
    task: asyncio.Task[ImageSummary]
    progress: PullProgress


class ImagePullRequests:
    def __init__(self, store: AuditedStore, engine: EngineSet, secrets: Secrets) -> None:
        self._store = store
        self._engine = engine
        self._secrets = secrets
        self._pulls: dict[_PullKey, _RunningPull] = {}

    async def pull(self, actor: Actor, name: str, secret: str | None = None, engine: str = "") -> PullStatus:
        """Start a pull, or join one; return its status after a short wait. Raises PullError when it has failed. The
        pull continues without further requests."""
        require_admin(actor, ADMINS_ONLY_MESSAGE)
        check_engine(engine, self._engine.names)
        puller = self._engine.get_engine(engine)
        if not isinstance(puller, SupportsImagePulls):
            raise Conflict(msg("The engine {name} does not pull images", name=puller.name))
        key = (puller.name, name, secret)
        pull = self._pulls.get(key)
        if pull is None:
            credentials = await self._load_credentials(actor, name, secret)
            pull = self._pulls[key] = self._start_pull(puller, actor, name, credentials)
            pull.task.add_done_callback(lambda task: self._forget_pull(key, task))
        done, _ = await asyncio.wait([pull.task], timeout=MAX_WAIT)
        image = pull.task.result() if done else None
        progress = pull.progress
        return PullStatus(name=name, phase=progress.phase, done=progress.done, total=progress.total, image=image)

    def _forget_pull(self, key: _PullKey, task: asyncio.Task[ImageSummary]) -> None:
        self._pulls.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("could not pull an image", extra={"event": "pull", "image": key[1], "error": str(error)})

    async def close(self) -> None:
        tasks = [pull.task for pull in self._pulls.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start_pull(
        self, engine: SupportsImagePulls, actor: Actor, name: str, credentials: RegistryCredentials | None
    ) -> _RunningPull:
        async def pull_and_record() -> ImageSummary:
            image = await engine.pull_image(name, credentials, record_progress)
            await self._store.record_entry(AuditEntry(actor.name, AuditKind.IMAGE, AuditAction.CREATED, name))
            return image

        def record_progress(progress: PullProgress) -> None:
            pull.progress = progress

        pull = _RunningPull(asyncio.create_task(pull_and_record()), PullProgress())
        return pull

    async def _load_credentials(self, actor: Actor, image: str, name: str | None) -> RegistryCredentials | None:
        if name is None:
            return None
        secret = await self._secrets.get(actor, name)
        if secret.kind is not SecretKind.REGISTRY:
            raise UserError(msg("Secret {name} is not for a registry", name=name), field="secret")
        host = get_registry_host(image)
        if normalize_registry(secret.registry_host) != host:
            raise UserError(
                msg(
                    "Secret {name} is for {registry}, but the image is in {host}",
                    name=name,
                    registry=secret.registry_host,
                    host=host,
                ),
                field="secret",
            )
        password = await self._secrets.load_value(name)
        return RegistryCredentials(username=secret.username, password=password or "")
