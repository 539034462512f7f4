"""The contract of engines that collect the artifacts of ended tasks."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import BinaryIO, Protocol, runtime_checkable

from holdfast.core.messages import msg


class SkipReason(StrEnum):
    """Why an entry among the artifacts was skipped; shown to users."""

    TOO_MANY = msg("exceeds the maximum number of artifact files")
    TOO_LARGE = msg("exceeds the maximum size of the artifacts")
    NO_SPACE = msg("not enough disk space")
    LINK = msg("symbolic links are not followed")
    SPECIAL = msg("not a regular file")
    INVALID_NAME = msg("file name is too long or not UTF-8")
    TOO_DEEP = msg("folders are nested too deeply")
    UNREADABLE = msg("cannot be read")


class ArtifactSink(Protocol):
    """Receiver of artifacts. It alone decides what is kept. Blocking, used by one thread."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the collector should stop."""
        ...

    def add_file(self, path: tuple[bytes, ...], size: int, open_file: Callable[[], BinaryIO]) -> None:
        """Add a regular file, by the parts of its path below the artifacts folder. `open_file` is called if the file is
        wanted, and may raise OSError; at most `size` bytes are read."""
        ...

    def skip_entry(self, path: tuple[bytes, ...], why: SkipReason, count: int = 1) -> None:
        """Record an entry that is not an artifact."""
        ...

    def mark_incomplete(self) -> None:
        """Record that there are more entries than were read."""
        ...


class ArtifactsUnavailable(Exception):
    """The artifacts cannot be collected; the text says why, to the user."""


@runtime_checkable
class SupportsArtifacts(Protocol):
    """An engine that can collect the folder `artifacts` of an ended task's home.

    It sets `Observation.artifacts` with EXITED when there may be one. That check must be cheap: it runs for every task
    that ends.
    """

    def collect_artifacts(self, attempt_id: str, sink: ArtifactSink) -> None:
        """Offer every file of it, in the order of the paths. Called in a thread, for an ended task before `remove`, and
        again after a crash; the task's files stay unchanged.

        The folder may be a link. It is resolved as the task would have resolved it, and never leads to a file that the
        task did not see. Below it no link is followed and only regular files are opened: other tasks may change a
        shared folder in the meantime. Names that begin with a dot are skipped at the top. ArtifactsUnavailable when it
        is not a folder; nothing is offered when it does not exist.
        """
        ...
