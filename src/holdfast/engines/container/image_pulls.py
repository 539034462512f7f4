"""Images of the container daemon: which are there, and pulls through the daemon.

The daemon hands an image to anybody once it is there. So those that were pulled with credentials are recorded, and each
job must prove its own access to them by a pull, which is quick.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.core.errors import EngineError
from holdfast.core.image_names import list_name_variants, parse_reference
from holdfast.engines.base import ImageSummary, PullPhase, PullProgress, RegistryCredentials
from holdfast.engines.embedded.images.pull_errors import make_name_error, make_registry_error

from .daemon import Daemon, DaemonError, DaemonUnavailable, ListedImage, PullEvent, shorten_image_name
from .pull_failures import translate_pull_error


class ContainerImages:
    def __init__(self, daemon: Daemon, home: Path, allowed: Collection[str]) -> None:
        """`allowed`: registries to pull from; empty: all."""
        self._daemon = daemon
        self._allowed = allowed
        self._private_file = home / "private-images.json"
        self._private: set[str] = set()
        self._new_marks: dict[str, int] = {}  # private names without a successful pull -> pulls in progress
        self._listed: list[ListedImage] = []  # those that are there
        self._found: list[ImageSummary] = []  # their tags
        self._names: set[str] = set()  # all their spellings

    def load_private_names(self) -> None:
        """Blocking."""
        with suppress(OSError, ValueError):
            self._private = set(map(str, json.loads(self._private_file.read_text())))

    async def refresh(self) -> None:
        self._listed = await self._daemon.list_images()
        self._found = sorted((each for image in self._listed for each in image.summarize()), key=lambda each: each.name)
        self._names = {name for image in self._found for name in list_name_variants(image.name)}

    async def list_images(self) -> list[ImageSummary]:
        """Return the images; the last known ones while the daemon does not respond."""
        with suppress(DaemonUnavailable):
            await self.refresh()
        return self._found

    def has_image(self, name: str) -> bool:
        names = list_name_variants(name)
        return bool(names & self._names) and not names & self._private

    def is_private_image(self, name: str) -> bool:
        """Return whether a job must prove its access to it. A digest is private if the image has any private name."""
        if list_name_variants(name) & self._private:
            return True
        digest = _get_digest_name(name)
        listed = (image for image in self._listed if digest in map(_get_digest_name, image.digests))
        return bool(digest) and any(self._has_private_name(image) for image in listed)

    def _has_private_name(self, image: ListedImage) -> bool:
        private = {_get_digest_name(name) or name for name in self._private}
        return any(list_name_variants(shorten_image_name(name)) & private for name in (*image.tags, *image.digests))

    async def find_exact_name(self, name: str) -> str | None:
        """Return the tag or digest by which the daemon has the image, so that it resolves nothing itself: by an ID or
        a part of a name it would find private images. None if it has no such tag or digest."""
        await self.refresh()
        names = list_name_variants(name)
        tags = (tag for image in self._listed for tag in image.tags)
        tag = next((tag for tag in tags if list_name_variants(shorten_image_name(tag)) & names), None)
        digest = _get_digest_name(name)
        digests = (each for image in self._listed for each in image.digests)
        return tag or next((each for each in digests if digest and _get_digest_name(each) == digest), None)

    def list_public_names(self) -> list[str]:
        return [image.name for image in self._found if not self.is_private_image(image.name)]

    async def check_image_access(self, name: str, credentials: RegistryCredentials | None) -> None:
        """Ask the registry through the daemon. Podman does not support this: access is denied there."""
        try:
            await self._daemon.check_distribution(self._make_full_name(name), credentials)
        except EngineError as error:
            raise translate_pull_error(name, error, has_credentials=credentials is not None) from error

    def _make_full_name(self, name: str) -> str:
        """Return it; PullError if it is not a name, or its registry is not allowed."""
        reference = parse_reference(name)
        if reference is None:
            raise make_name_error(name)
        if self._allowed and reference.registry not in self._allowed:
            raise make_registry_error(reference.registry, self._allowed)
        return str(reference)

    async def pull_image(
        self, name: str, credentials: RegistryCredentials | None, on_progress: Callable[[PullProgress], None] | None
    ) -> ImageSummary:
        full = self._make_full_name(name)
        if credentials is None and await self._is_present(full):
            return self._describe_image(name, full)
        try:
            if credentials is not None:
                await self._pull_private(full, credentials, on_progress)
            else:
                await self._pull(full, None, on_progress)
                await self._set_private(full, False)
        except EngineError as error:
            raise translate_pull_error(name, error, has_credentials=credentials is not None) from error
        await self.refresh()
        return self._describe_image(name, full)

    async def _pull_private(
        self, name: str, credentials: RegistryCredentials, on_progress: Callable[[PullProgress], None] | None
    ) -> None:
        """Pull it, marked as private before it is there. If all pulls fail that began since then, the mark is removed:
        a user cannot block an image for others with invented credentials."""
        if name not in self._private or name in self._new_marks:
            self._new_marks[name] = self._new_marks.get(name, 0) + 1
            await self._set_private(name, True)
        try:
            await self._pull(name, credentials, on_progress)
        except DaemonError:
            if name in self._new_marks:
                self._new_marks[name] -= 1
                if not self._new_marks[name]:
                    del self._new_marks[name]
                    await self._set_private(name, False)
            raise
        except BaseException:
            self._new_marks.pop(name, None)  # it may arrive all the same
            raise
        self._new_marks.pop(name, None)

    async def _is_present(self, name: str) -> bool:
        """Return whether any job can use it by now: the daemon may have been away when the job was planned."""
        with suppress(EngineError):
            await self.refresh()
            return self.has_image(name)
        return False

    def _describe_image(self, name: str, full: str) -> ImageSummary:
        names = list_name_variants(full)
        found = next((image for image in self._found if list_name_variants(image.name) & names), None)
        return found or ImageSummary(name=name, size=None, created_at=None, source=full)

    async def _pull(
        self, name: str, credentials: RegistryCredentials | None, on_progress: Callable[[PullProgress], None] | None
    ) -> None:
        layers: dict[str, tuple[int, int]] = {}  # layer -> bytes that have arrived, and of all

        def record(event: PullEvent) -> None:
            if event.total:
                layers[event.layer] = (event.done, event.total)
            done, total = (sum(column) for column in zip(*layers.values(), strict=True)) if layers else (0, 0)
            phase = PullPhase.UNPACKING if event.is_unpacking else PullPhase.DOWNLOADING
            if on_progress is not None:
                on_progress(PullProgress(phase=phase, done=done, total=total))

        await self._daemon.pull(name, credentials, record)

    async def _set_private(self, name: str, private: bool) -> None:
        if (name in self._private) == private:
            return
        (self._private.add if private else self._private.discard)(name)
        await asyncio.to_thread(self._write_private_names, sorted(self._private))

    def _write_private_names(self, names: list[str]) -> None:
        draft = self._private_file.with_suffix(".new")
        draft.write_text(json.dumps(names))
        draft.replace(self._private_file)


def _get_digest_name(name: str) -> str:
    """Return the full REPOSITORY@DIGEST of a name, without its tag; empty if it has no digest."""
    reference = parse_reference(name)
    return str(replace(reference, tag="")) if reference is not None and reference.digest else ""
