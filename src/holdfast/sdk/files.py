"""Calls about files: those a group shares, what is kept of jobs, and usage reports."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast import api

from .errors import UnexpectedReply
from .exchange import (
    Call,
    Flow,
    Give,
    Open,
    Request,
    Take,
    Upload,
    as_a,
    as_items,
    as_params,
    as_text,
    call,
    checked,
    endpoint,
    flow,
    segment,
)

IDENTITY = {"Accept-Encoding": "identity"}  # byte for byte
QUIET = 300.0  # seconds without a byte; a large folder takes a while
PAGE = 1000


class FileCalls:
    @endpoint
    def files(
        self,
        group: str,
        path: str = "",
        *,
        recursive: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> Call[api.files.FileList]:
        """What lies in a folder of a group's shared files; recursive: the files in it, wherever they lie below. `after`
        is the `next` of the answer before."""
        params = {"path": path or None, "recursive": recursive, "limit": limit, "after": after}
        return call("GET", _files(group), as_a(api.files.FileList), params=params, timeout=QUIET)

    @flow
    def all_files(self, group: str, path: str = "", *, recursive: bool = True) -> Flow[api.files.File]:
        """The same, however many there are."""
        return _all_files(group, path, recursive)

    @flow
    def read_file(self, group: str, path: str) -> Flow[bytes]:
        """A shared file, piece by piece."""
        return _pieces(f"{_files(group)}/{segment(path, safe='/')}")

    @endpoint
    def put_file(
        self,
        group: str,
        path: str,
        file: str | os.PathLike[str],
        *,
        progress: Callable[[int], None] | None = None,
    ) -> Call[api.files.File]:
        """Send a file to a group's shared files; `progress` is told of each piece. Folders on the way are made, and a
        file of that path is replaced once all of the new one is there."""
        source = Path(file)
        upload = Upload(path=source, size=source.stat().st_size, progress=progress)
        address = f"{_files(group)}/{segment(path, safe='/')}"
        return call("PUT", address, as_a(api.files.File), content=upload, timeout=QUIET)

    @endpoint
    def remove_files(self, group: str, path: str = "", *, recursive: bool = False) -> Call[api.files.RemovedFiles]:
        """A file, or with `recursive` a folder and all that is in it; without a path, everything."""
        params = {"path": path or None, "recursive": recursive}
        return call("DELETE", _files(group), as_a(api.files.RemovedFiles), params=params, timeout=QUIET)

    @endpoint
    def artifacts(self, ref: str) -> Call[api.files.Artifacts]:
        """What was kept of a job's files."""
        return call("GET", _artifacts(ref), as_a(api.files.Artifacts), timeout=QUIET)

    @flow
    def read_artifact(self, ref: str, path: str) -> Flow[bytes]:
        """One of them, piece by piece."""
        return _pieces(f"{_artifacts(ref)}/{segment(path, safe='/')}")

    @endpoint
    def usage_months(self) -> Call[tuple[api.files.Month, ...]]:
        """Months with a usage report, newest first; for admins."""
        return call("GET", "/usage", as_items(api.files.Month), timeout=QUIET)

    @endpoint
    def usage(self, year: int, month: int) -> Call[str]:
        """CSV: what each user in each group was given; for admins."""
        return call("GET", f"/usage/{year}/{month}", as_text, timeout=QUIET)

    @flow
    def usage_details(self, year: int, month: int) -> Flow[bytes]:
        """CSV, piece by piece: a line for each try of each task; for admins."""
        return _pieces(f"/usage/{year}/{month}/details")


def _all_files(group: str, path: str, recursive: bool) -> Flow[api.files.File]:
    after: str | None = None
    while True:
        params = {"path": path or None, "recursive": recursive, "limit": PAGE, "after": after}
        page = yield from call("GET", _files(group), as_a(api.files.FileList), params=params, timeout=QUIET).steps(0)
        for item in page.items:
            yield Give(item)
        after = page.next
        if page.complete:
            return
        if after is None:
            raise UnexpectedReply(f"A folder in {path or group} holds more files than the server lists")


def _pieces(path: str, params: Mapping[str, object] | None = None) -> Flow[bytes]:
    """An answer that breaks off is an error, never a short file."""
    request = Request(
        method="GET", path=f"/api/v1{path}", params=as_params(params or {}), headers=IDENTITY, timeout=QUIET
    )
    checked((yield Open(request)))
    while data := (yield Take()):
        yield Give(data)


def _files(group: str) -> str:
    return f"/groups/{segment(group)}/files"


def _artifacts(ref: str) -> str:
    return f"/jobs/{segment(ref)}/artifacts"
