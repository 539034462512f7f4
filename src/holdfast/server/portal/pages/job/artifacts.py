"""Artifacts of a job: list, preview and download. A file is never served as a page of the portal."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from urllib.parse import quote

from holdfast.core.errors import NotFound
from holdfast.core.records import ARTIFACTS_INCOMPLETE_EVENT, ARTIFACTS_SAVED_EVENT, Event
from holdfast.services.files.folder_scan import FileEntry
from holdfast.services.jobs.job_pages import JobHeader

from ...visit import Visit
from .view import Section, build_job_address

ROWS_PER_PAGE = 200
MAX_SCANNED_EVENTS = 200  # scanned for missing artifacts
MAX_TEXT_SIZE = 64 * 1024  # bytes
MAX_PICTURE_SIZE = 20 * 1024 * 1024  # bytes
_PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRow:
    item: FileEntry
    download: str
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactPreview:
    """The address of a picture, a text, or neither if there is no preview."""

    name: str
    size: int
    download: str
    picture: str = ""
    text: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsView:
    rows: tuple[ArtifactRow, ...]
    total: int
    bytes: int
    complete: bool  # False: there are more than are listed
    missing: tuple[str, ...]  # messages about missing artifacts, by task
    preview: ArtifactPreview | None
    first: int
    previous: str = ""
    next: str = ""


async def _load_artifacts(visit: Visit, job: JobHeader) -> ArtifactsView:
    id = job.record.summary.id
    found = await visit.services.artifacts.list_job_artifacts(job.record.summary)
    number = visit.get_query_integer("page") or 1
    start = (number - 1) * ROWS_PER_PAGE
    file = visit.query.get("file", "")
    files = [item for item in found.items if not item.name.endswith("/")]
    return ArtifactsView(
        rows=tuple(_build_artifact_row(id, item, number) for item in files[start : start + ROWS_PER_PAGE]),
        total=len(files),
        bytes=sum(item.size for item in files),
        complete=found.complete,
        missing=await _list_missing_artifacts(visit, job),
        preview=await _load_preview(visit, id, file) if file else None,
        first=start + 1,
        previous=build_job_address(id, section="artifacts", page=number - 1) if number > 1 else "",
        next=build_job_address(id, section="artifacts", page=number + 1) if len(files) > start + ROWS_PER_PAGE else "",
    )


def _build_artifact_row(job_id: str, item: FileEntry, number: int) -> ArtifactRow:
    page = number if number > 1 else None
    preview = build_job_address(job_id, section="artifacts", page=page, file=item.name) + "#preview"
    return ArtifactRow(item=item, download=_build_artifact_address(job_id, item.name), preview=preview)


def _build_artifact_address(job_id: str, name: str) -> str:
    return f"/api/v1/jobs/{job_id}/artifacts/{quote(name, safe='/')}"


async def _list_missing_artifacts(visit: Visit, job: JobHeader) -> tuple[str, ...]:
    """Return messages about the newest try of each task whose artifacts are incomplete."""
    newest: dict[str | None, Event] = {}
    for event in await visit.services.job_pages.list_events(job, limit=MAX_SCANNED_EVENTS):
        if event.kind in (ARTIFACTS_SAVED_EVENT, ARTIFACTS_INCOMPLETE_EVENT):
            newest.setdefault(event.task, event)
    return tuple(
        f"{task}: {visit.translate_message(event.message)}" if task else visit.translate_message(event.message)
        for task, event in reversed(newest.items())
        if event.kind == ARTIFACTS_INCOMPLETE_EVENT
    )


async def _load_preview(visit: Visit, job_id: str, name: str) -> ArtifactPreview | None:
    try:
        file = await visit.services.artifacts.open(visit.current_actor, job_id, name)
    except NotFound:
        return None
    found = ArtifactPreview(name=name, size=file.size, download=_build_artifact_address(job_id, name))
    if PurePosixPath(name.lower()).suffix in _PICTURE_SUFFIXES:
        file.file.close()
        shown = file.size <= MAX_PICTURE_SIZE
        return replace(found, picture=f"{found.download}?inline=true" if shown else "")
    end = min(file.size, MAX_TEXT_SIZE)
    async with aclosing(file.iter_chunks(0, end)) as chunks:
        data = b"".join([chunk async for chunk in chunks])
    return replace(found, text=_decode_text(data), cut=file.size > end)


def _decode_text(data: bytes) -> str | None:
    """Decode text, whose last character may be incomplete; None if it is not text."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8", "replace")
    invalid = text[:-1].count("\ufffd")
    return text if invalid * 20 <= len(text) else None


SECTION = Section(
    key="artifacts",
    title=lambda visit: visit.translate_text("Artifacts"),
    template="job/_artifacts.html",
    load=_load_artifacts,
)
