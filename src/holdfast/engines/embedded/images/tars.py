"""Reads hostile tar archives: limits what tarfile loads into memory, and rejects sparse files.

tarfile has no setting for either. It passes every header to methods of the entry, which are overridden here; the tests
would fail if a new Python called them differently.
"""

from __future__ import annotations

import tarfile
from typing import Any, NoReturn

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_MAX_HEADER_SIZE = 1024 * 1024  # bytes of names and attributes; real ones have a few hundred
_HEADER_TYPES = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class BadArchive(UserError):
    """An archive that cannot be unpacked; the text says why."""

    code = "bad_image"


class NoDiskSpace(BadArchive):
    """The disk has no room for the image."""


class NoShell(BadArchive):
    """Jobs cannot run their commands in the image."""


def _refuse_sparse(*_: Any) -> NoReturn:
    raise BadArchive(
        msg("The archive contains a sparse file, which is not supported."),
        hint=msg("Create the archive again without `--sparse`."),
    )


class TarEntry(tarfile.TarInfo):
    def _proc_member(self, archive: ImageTar) -> Any:
        if self.type in _HEADER_TYPES:
            self._check_header(archive)
        return super()._proc_member(archive)  # type: ignore[misc]

    def _check_header(self, archive: ImageTar) -> None:
        size = self.size
        if self.type == tarfile.XGLTYPE:  # copied into every later entry, so all of them count together
            archive.shared_header_size += max(0, size)
            size = archive.shared_header_size
        if not 0 <= self.size <= size <= _MAX_HEADER_SIZE:
            raise BadArchive(
                msg(
                    "The archive is damaged: a header is larger than {max_header_size} bytes.",
                    max_header_size=_MAX_HEADER_SIZE,
                )
            )

    # The old format, and three formats with extended headers.
    _proc_sparse = _refuse_sparse
    _proc_gnusparse_00 = _refuse_sparse
    _proc_gnusparse_01 = _refuse_sparse
    _proc_gnusparse_10 = _refuse_sparse


class ImageTar(tarfile.TarFile):
    tarinfo = TarEntry
    shared_header_size = 0  # bytes of headers that apply to all entries
    members: list[tarfile.TarInfo]

    def drop_entries(self) -> None:
        """Drop the entries read so far, which tarfile keeps in memory."""
        self.members.clear()
