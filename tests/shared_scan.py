"""Engines of the tests share what the first of them found out about the machine's folders. Each would search them all
for private files at its start, more than half of what a short test costs. Servers that tests start search them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.engines.embedded.mount_table import Mount
from holdfast.engines.embedded.sandbox import host
from holdfast.engines.embedded.sandbox.package_scan import PackageScanner
from holdfast.engines.embedded.sandbox.private_files import FolderListing, PrivateFiles

_scan_host = host.scan_host
_find_in_packages = PackageScanner.find_private_files
_known: Mapping[str, FolderListing] | None = None
_is_suspended = False
_is_current = True  # what is known of packages


def _scan_with_memory(
    hidden: Iterable[str],
    mounts: Sequence[Mount],
    packages: PrivateFiles,
    known: Mapping[str, FolderListing] | None = None,
) -> host.HostView:
    """List the folders that have changed since the last engine started."""
    global _known
    view = _scan_host(hidden, mounts, packages, _known if known is None and not _is_suspended else known)
    _known = view.memory
    return view


def _find_once(
    scanner: PackageScanner, mounts: Sequence[Mount], saved: Path, *, only_mounts_changed: bool = False
) -> PrivateFiles:
    """Search packages again only if something was mounted there, or a test of the search has changed them."""
    global _is_current
    is_same = only_mounts_changed or (_is_current and not _is_suspended)
    _is_current = True
    return _find_in_packages(scanner, mounts, saved, only_mounts_changed=is_same)


def share() -> None:
    """From here on, in this process."""
    host.scan_host = _scan_with_memory
    PackageScanner.find_private_files = _find_once  # type: ignore[method-assign]


@contextmanager
def suspend() -> Iterator[None]:
    """For tests of the search itself."""
    global _is_suspended, _is_current
    _is_suspended = True
    try:
        yield
    finally:
        _is_suspended = _is_current = False
