"""Reading tars that may mean harm: what tarfile would take into memory whole is bounded, sparse files are refused.

tarfile has no setting for either. It hands every header to the entry's own methods, and those are overridden here;
the tests would tell if a new Python called them otherwise.
"""

from __future__ import annotations

import tarfile
from typing import Any, NoReturn

from holdfast.core.errors import UserError
from holdfast.core.messages import msg

_MAX_HEADER_SIZE = 1024 * 1024  # bytes of names and attributes; real ones have a few hundred
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class BadArchive(UserError):
    """An archive that cannot be unpacked, and why."""

    code = "bad_image"


def _refuse_sparse(*_: Any) -> NoReturn:
    raise BadArchive(
        msg("The archive holds a sparse file, which images do not."), hint=msg("Make it anew without --sparse.")
    )


class Entry(tarfile.TarInfo):
    def _proc_member(self, archive: Tar) -> Any:
        if self.type in _HEADERS:
            self._check_header(archive)
        return super()._proc_member(archive)  # type: ignore[misc]

    def _check_header(self, archive: Tar) -> None:
        size = self.size
        if self.type == tarfile.XGLTYPE:  # copied into every entry after it, so all of them count together
            archive.shared += max(0, size)
            size = archive.shared
        if not 0 <= self.size <= size <= _MAX_HEADER_SIZE:
            raise BadArchive(
                msg(
                    "The archive is damaged: a header has more than {largest_header} bytes.",
                    largest_header=_MAX_HEADER_SIZE,
                )
            )

    # The old way, and three ways of describing one in a header of names and attributes.
    _proc_sparse = _refuse_sparse
    _proc_gnusparse_00 = _refuse_sparse
    _proc_gnusparse_01 = _refuse_sparse
    _proc_gnusparse_10 = _refuse_sparse


class Tar(tarfile.TarFile):
    tarinfo = Entry
    shared = 0  # bytes of headers that hold for all entries
    members: list[tarfile.TarInfo]

    def forget(self) -> None:
        """The entries read so far, which tarfile keeps."""
        self.members.clear()
