"""Engines of the tests share what the last one knows of the machine's folders. Each would list all of them at its
start, a third of what a short test costs. Folders that changed since are listed again; only files whose mode was changed
in place would not be found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from holdfast.engines.embedded.mount_table import Mount
from holdfast.engines.embedded.sandbox import host
from holdfast.engines.embedded.sandbox.private_files import FolderListing, PrivateFiles

_scan_host = host.scan_host
_known: Mapping[str, FolderListing] | None = None
_is_suspended = False


def _scan_with_memory(
    hidden: Iterable[str],
    mounts: Sequence[Mount],
    packages: PrivateFiles,
    known: Mapping[str, FolderListing] | None = None,
) -> host.HostView:
    global _known
    view = _scan_host(hidden, mounts, packages, _known if known is None and not _is_suspended else known)
    _known = view.memory
    return view


def share() -> None:
    """From here on, in this process."""
    host.scan_host = _scan_with_memory


@contextmanager
def suspend() -> Iterator[None]:
    """For tests of the search itself."""
    global _is_suspended
    _is_suspended = True
    try:
        yield
    finally:
        _is_suspended = False
