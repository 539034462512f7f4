"""Calls about shared files, artifacts and usage reports."""

from __future__ import annotations

import os
from collections.abc import Callable

from holdfast import api

from .calls import (
    Call,
    Flow,
    OpenStream,
    ReadChunk,
    Request,
    StreamItem,
    Upload,
    build_call,
    build_path,
    check_reply,
    endpoint,
    make_list_parser,
    parse_text,
    quote_segment,
    stream_method,
)
from .errors import UnexpectedReply

IDENTITY_HEADERS = {"Accept-Encoding": "identity"}  # byte for byte
IDLE_TIMEOUT = 300.0  # seconds without data; large folders take a while
PAGE_SIZE = 1000


class FileCalls:
    @endpoint
    def list_files(
        self, group: str, path: str = "", *, recursive: bool = False, limit: int | None = None, after: str | None = None
    ) -> Call[api.files.FileList]:
        """List a shared folder of a group; `recursive`: all files below it. `after` is the `next` of the last page."""
        return _build_list_files_call(group, path, recursive, limit, after)

    @stream_method
    def iter_files(self, group: str, path: str = "", *, recursive: bool = True) -> Flow[api.files.File]:
        """Iterate over all shared files, page by page."""
        after: str | None = None
        while True:
            page = yield from _build_list_files_call(group, path, recursive, PAGE_SIZE, after).iter_steps(0)
            for item in page.items:
                yield StreamItem(item)
            after = page.next
            if page.complete:
                return
            if after is None:
                raise UnexpectedReply(f"The server cannot list all files in {path or group}")

    @stream_method
    def stream_file(self, group: str, path: str) -> Flow[bytes]:
        return _stream_response(_build_file_path(group, path))

    @endpoint
    def upload_file(
        self, group: str, path: str, file: str | os.PathLike[str], *, progress: Callable[[int], None] | None = None
    ) -> Call[api.files.File]:
        """Upload a file to a group's shared files; `progress` gets the size of each chunk. Missing folders are
        created; an existing file is replaced atomically."""
        upload = Upload.from_file(file, progress)
        return build_call("PUT", _build_file_path(group, path), api.files.File, content=upload, timeout=IDLE_TIMEOUT)

    @endpoint
    def remove_files(self, group: str, path: str = "", *, recursive: bool = False) -> Call[api.files.FileRemovalResult]:
        """Delete a file, or with `recursive` a folder and its content; without a path, everything."""
        params, files = {"path": path or None, "recursive": recursive}, build_path("groups", group, "files")
        return build_call("DELETE", files, api.files.FileRemovalResult, params=params, timeout=IDLE_TIMEOUT)

    @endpoint
    def list_artifacts(self, ref: str) -> Call[api.files.ArtifactList]:
        """List the artifacts of a job."""
        return build_call("GET", build_path("jobs", ref, "artifacts"), api.files.ArtifactList, timeout=IDLE_TIMEOUT)

    @stream_method
    def stream_artifact(self, ref: str, path: str) -> Flow[bytes]:
        return _stream_response(f"{build_path('jobs', ref, 'artifacts')}/{quote_segment(path, safe='/')}")

    @endpoint
    def list_usage_months(self) -> Call[tuple[api.files.Month, ...]]:
        """List the months with a usage report, newest first; admins only."""
        return build_call("GET", "/usage", make_list_parser(api.files.Month), timeout=IDLE_TIMEOUT)

    @endpoint
    def get_usage_csv(self, year: int, month: int) -> Call[str]:
        """Return the usage report of a month as CSV; admins only."""
        return build_call("GET", f"/usage/{year}/{month}", parse_text, timeout=IDLE_TIMEOUT)

    @stream_method
    def stream_usage_details(self, year: int, month: int) -> Flow[bytes]:
        """Stream the detailed usage report as CSV, one row per try of each task; admins only."""
        return _stream_response(f"/usage/{year}/{month}/details")


def _build_list_files_call(
    group: str, path: str, recursive: bool, limit: int | None, after: str | None
) -> Call[api.files.FileList]:
    params = {"path": path or None, "recursive": recursive, "limit": limit, "after": after}
    files = build_path("groups", group, "files")
    return build_call("GET", files, api.files.FileList, params=params, timeout=IDLE_TIMEOUT)


def _stream_response(path: str) -> Flow[bytes]:
    """Stream a response; an incomplete one is an error, not a short file."""
    request = Request(method="GET", path=f"/api/v1{path}", headers=IDENTITY_HEADERS, timeout=IDLE_TIMEOUT)
    check_reply((yield OpenStream(request)))
    while data := (yield ReadChunk()):
        yield StreamItem(data)


def _build_file_path(group: str, path: str) -> str:
    return f"{build_path('groups', group, 'files')}/{quote_segment(path, safe='/')}"
