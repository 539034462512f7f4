"""Calls of Docker's API, with a timeout for each, over the daemon's Unix socket. Podman's service answers them too.

No answer never means that something does not exist: such a call raises DaemonUnavailable.
"""

from __future__ import annotations

import asyncio
import errno
import io
import json
import os
import re
import tarfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

import aiodocker
import aiohttp
from aiodocker.utils import compose_auth_header

from holdfast.core.errors import EngineError
from holdfast.core.messages import msg
from holdfast.engines.base import ImageSummary, RegistryCredentials
from holdfast.engines.task_user import MAX_LIST_SIZE

from .limitations import DaemonDescription, parse_description
from .names import ATTEMPT_LABEL, INSTALLATION_LABEL, ContainerNames
from .task_end import ContainerState

T = TypeVar("T")

_CALL_TIMEOUT = 10.0  # seconds
_START_TIMEOUT = 120.0  # seconds to create, start or remove a container: slow disks and large images
_MAX_REMOVE_TRIES = 4
_REMOVE_RETRY_INTERVAL = 0.3  # seconds
_PULL_TIMEOUT = 120.0  # seconds between two lines of progress
_CONNECTION_ERROR = 900  # status of aiodocker when there is no connection
_NEVER = "0001-01-01"  # beginning of StartedAt before the first start
_MAX_ENTRY_SIZE = MAX_LIST_SIZE + 64 * 1024  # bytes read of an archive: a file with its headers
_PARTLY_REMOVED = ("container not known", "layer not known")  # ends of Podman's errors: its storage does not exist
_ID_SIZE = 19  # characters of an image ID that are shown
_IMAGE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/-]{0,254}\Z")
_CONNECTION_REASONS = {  # texts of the operating system
    os.strerror(errno.ENOENT): msg("the socket does not exist"),
    os.strerror(errno.EACCES): msg("the server's user has no access to the socket"),
    os.strerror(errno.ECONNREFUSED): msg("no process listens on the socket"),
    os.strerror(errno.ECONNRESET): msg("the daemon closed the connection"),
    "disconnected": msg("the daemon closed the connection"),
}


class DaemonUnavailable(EngineError):
    """The daemon did not answer: nothing is known."""


class DaemonError(EngineError):
    """The daemon answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    env: Mapping[str, str] = field(default_factory=dict)
    workdir: str = ""
    id: str = ""
    name: str = ""  # by which it was found
    user: str = ""  # as in its configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedImage:
    """An image in the daemon's list, with all its names."""

    tags: tuple[str, ...] = ()  # full names with tags
    digests: tuple[str, ...] = ()  # REPOSITORY@DIGEST
    size: int = 0
    created_at: datetime
    id: str = ""

    def summarize(self) -> list[ImageSummary]:
        """Return a summary for each tag."""
        return [
            ImageSummary(
                name=shorten_image_name(tag), size=self.size, created_at=self.created_at, source=self.id[:_ID_SIZE]
            )
            for tag in self.tags
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullEvent:
    """A line of progress."""

    layer: str
    done: int = 0  # bytes
    total: int = 0
    is_unpacking: bool = False


class Daemon:
    def __init__(self, socket: str, names: ContainerNames) -> None:
        self._socket = socket
        self._names = names
        self._docker: aiodocker.Docker | None = None

    async def close(self) -> None:
        docker, self._docker = self._docker, None
        if docker is not None:
            await docker.close()

    async def describe(self) -> DaemonDescription:
        version = await self._call(lambda docker: docker.version())
        info = await self._call(lambda docker: docker.system.info())
        return parse_description(version, info)

    async def inspect(self, name: str) -> ContainerState | None:
        """Return None if there is no such container. One whose removal was interrupted is removed first: a Podman that
        was killed meanwhile can neither inspect nor start it, and keeps its name."""
        try:
            data = await self._call_or_none(lambda docker: docker.containers.container(name).show())
        except DaemonError as error:
            if not str(error).endswith(_PARTLY_REMOVED):
                raise
            await self._delete(name, force=False)  # an error if it runs
            return None
        return None if data is None else self._parse_state(data)

    def _parse_state(self, data: Mapping[str, Any]) -> ContainerState:
        state = data["State"]
        return ContainerState(
            id=str(data["Id"]),
            status=str(state["Status"]),
            pid=int(state.get("Pid") or 0),
            code=int(state.get("ExitCode") or 0),
            oom=bool(state.get("OOMKilled")),
            started=not str(state.get("StartedAt") or _NEVER).startswith(_NEVER),
            error=str(state.get("Error") or ""),
            own=self._names.is_own(data["Config"].get("Labels") or {}),
        )

    async def create(self, name: str, body: Mapping[str, Any]) -> None:
        await self._call(lambda docker: docker.containers.create(dict(body), name=name), _START_TIMEOUT)

    async def start(self, name: str) -> None:
        await self._call(lambda docker: docker.containers.container(name).start(), _START_TIMEOUT)

    async def kill(self, name: str) -> None:
        """Kill a container of ours, also if it is paused; harmless if it does not run."""
        state = await self.inspect(name)
        if state is None or not state.own:
            return
        for call in (
            lambda docker: docker.containers.container(name).kill(signal="KILL"),
            lambda docker: docker.containers.container(name).unpause(),
        ):
            try:
                await self._call(call)
            except DaemonError:
                continue  # it does not run, or is not paused

    async def terminate(self, name: str) -> bool:
        """Send SIGTERM to all processes of a running container but the first, which would not pass it on. False if it
        does not run yet."""
        return await self._signal_all(name, "kill -TERM -1; kill -CONT -1")  # a stopped one would not handle SIGTERM

    async def continue_processes(self, name: str) -> None:
        """Send SIGCONT to all processes of a running container."""
        await self._signal_all(name, "kill -CONT -1")

    async def _signal_all(self, name: str, command: str) -> bool:
        """Run a command in its own shell: no call of the API reaches all processes."""
        words = ("/bin/sh", "-c", command)
        try:
            exec = await self._call_or_none(lambda docker: docker.containers.container(name).exec(words, user="0"))
            if exec is not None:
                await self._call(lambda docker: exec.start(detach=True))
        except DaemonError:
            return False
        return exec is not None

    async def remove(self, name: str, *, force: bool) -> None:
        """Remove a container, if it exists and is ours. Without `force` a running one is an error."""
        for tries_left in reversed(range(_MAX_REMOVE_TRIES)):
            try:
                state = await self.inspect(name)
            except DaemonError:
                if not force:
                    raise
                await self.release_name(name)  # Podman cannot inspect it
                return
            if state is None or not state.own:
                return
            try:
                await self._delete(name, force=force)
            except DaemonError:
                if not tries_left:
                    raise
                await asyncio.sleep(_REMOVE_RETRY_INTERVAL)  # Podman fails while the container is just ending
            else:
                return

    async def _delete(self, name: str, *, force: bool) -> None:
        await self._call_or_none(
            lambda docker: docker.containers.container(name).delete(force=force, v=True), _START_TIMEOUT
        )

    async def release_name(self, name: str) -> None:
        """Release the name of a container that does not exist: a Podman that was killed while it created the container
        keeps its storage under that name."""
        with suppress(DaemonError):  # creating it again reports what is wrong
            await self._call(lambda docker: docker.containers.container(name).delete(force=True, v=True))

    async def list_attempt_ids(self) -> list[str]:
        """Return the attempts of all containers of this installation."""
        filters = json.dumps({"label": [f"{INSTALLATION_LABEL}={self._names.installation_id}"]})
        found = await self._call(lambda docker: docker.containers.list(all=1, filters=filters))
        labels = [each["Labels"] or {} for each in found]
        return [label[ATTEMPT_LABEL] for label in labels if ATTEMPT_LABEL in label]

    # --- images -------------------------------------------------------------------------------------------------------

    async def find_image(self, name: str) -> ContainerImage | None:
        """Return None if there is no such image on this machine."""
        if not _IMAGE_PATTERN.match(name) or ".." in name:
            return None
        data = await self._call_or_none(lambda docker: docker.images.inspect(name))
        if data is None:
            return None
        config = data.get("Config") or {}
        variables = (line.partition("=") for line in config.get("Env") or ())
        return ContainerImage(
            env={name: value for name, _, value in variables if name},
            workdir=str(config.get("WorkingDir") or ""),
            id=str(data.get("Id") or ""),
            name=name,
            user=str(config.get("User") or ""),
        )

    async def read_archive_entry(self, name: str, path: str) -> tuple[tarfile.TarInfo, bytes] | None:
        """Return a file, folder or link of a container, and the beginning of a file; None if it does not exist."""

        async def read_head(docker: aiodocker.Docker) -> bytes:
            query = {"path": path}
            async with docker._query(f"containers/{name}/archive", params=query) as response:  # reads no whole folder
                head = b""
                while len(head) < _MAX_ENTRY_SIZE and (block := await response.content.readany()):
                    head += block
                response.close()
                return head

        head = await self._call_or_none(read_head)
        return None if head is None else parse_archive_entry(head)

    async def list_images(self) -> list[ListedImage]:
        found = await self._call(lambda docker: docker.images.list())
        return [
            ListedImage(
                tags=tuple(tag for tag in each.get("RepoTags") or () if "<none>" not in tag),
                digests=tuple(digest for digest in each.get("RepoDigests") or () if "<none>" not in digest),
                size=int(each.get("Size") or 0),
                created_at=datetime.fromtimestamp(int(each.get("Created") or 0), UTC),
                id=str(each.get("Id") or ""),
            )
            for each in found
        ]

    async def pull(
        self, name: str, credentials: RegistryCredentials | None, on_event: Callable[[PullEvent], None]
    ) -> None:
        """Pull an image by its full name. A pull that stalls is given up, and continues with the next call."""
        auth = {"username": credentials.username, "password": credentials.password} if credentials else None

        async def run(docker: aiodocker.Docker) -> None:
            events = aiter(docker.images.pull(name, auth=auth, stream=True, timeout=None))
            while True:
                try:
                    async with asyncio.timeout(_PULL_TIMEOUT):
                        event = await anext(events)
                except StopAsyncIteration:
                    return
                if "error" in event:
                    raise DaemonError(500, str(event["error"]))
                on_event(_parse_pull_event(event))

        await self._call(run, None)

    async def check_distribution(self, name: str, credentials: RegistryCredentials | None) -> None:
        """Read the manifest of an image in its registry. DaemonError if these credentials do not allow it."""
        auth = {"username": credentials.username, "password": credentials.password} if credentials else None
        headers = {"X-Registry-Auth": compose_auth_header(auth)} if auth else None
        await self._call(
            lambda docker: docker._query_json(f"distribution/{name}/json", headers=headers), _START_TIMEOUT
        )

    async def remove_image(self, name: str) -> bool:
        """Return False if there is no such image."""
        return await self._call_or_none(lambda docker: docker.images.delete(name)) is not None

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _call_or_none(
        self, call: Callable[[aiodocker.Docker], Awaitable[T]], timeout: float = _CALL_TIMEOUT
    ) -> T | None:
        try:
            return await self._call(call, timeout)
        except DaemonError as error:
            if error.status == 404:
                return None
            raise

    async def _call(self, call: Callable[[aiodocker.Docker], Awaitable[T]], timeout: float | None = _CALL_TIMEOUT) -> T:
        if self._docker is None:
            self._docker = aiodocker.Docker(url=f"unix://{self._socket}")
        try:
            async with asyncio.timeout(timeout):
                return await call(self._docker)
        except aiodocker.DockerError as error:
            if error.status != _CONNECTION_ERROR:
                raise DaemonError(error.status, error.message) from error
            raise self._make_unavailable_error(error) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a timeout, too
            raise self._make_unavailable_error(error) from error

    def _make_unavailable_error(self, error: Exception) -> DaemonUnavailable:
        reason = describe_connection_error(error)
        return DaemonUnavailable(
            msg("The container daemon at {socket} does not respond: {reason}", socket=self._socket, reason=reason)
        )


def describe_connection_error(error: Exception) -> str:
    """Return why there is no connection to the daemon."""
    if isinstance(error, TimeoutError):
        return msg("the request timed out")
    text = error.message if isinstance(error, aiodocker.DockerError) else str(error)
    known = (reason for part, reason in _CONNECTION_REASONS.items() if part.lower() in text.lower())
    return next(known, "") or msg("the connection failed ({error})", error=type(error.__context__ or error).__name__)


def parse_archive_entry(head: bytes) -> tuple[tarfile.TarInfo, bytes] | None:
    """Parse the first entry of a tar, which may end early. None if it is not one."""
    try:
        with tarfile.open(fileobj=io.BytesIO(head), mode="r:") as archive:
            entry = archive.next()
    except (tarfile.TarError, ValueError):
        return None
    return (entry, head[entry.offset_data :][: entry.size]) if entry is not None else None


def _parse_pull_event(data: Mapping[str, Any]) -> PullEvent:
    detail = data.get("progressDetail") or {}
    is_unpacking = str(data.get("status") or "").startswith("Extracting")
    done, total = (0, 0) if is_unpacking else (int(detail.get("current") or 0), int(detail.get("total") or 0))
    return PullEvent(layer=str(data.get("id") or ""), done=done, total=total, is_unpacking=is_unpacking)


def shorten_image_name(tag: str) -> str:
    """Return the name that users write: without the parts that the daemon adds by itself."""
    for prefix in ("docker.io/library/", "docker.io/", "localhost/"):
        tag = tag.removeprefix(prefix)
    return tag.removesuffix(":latest")
