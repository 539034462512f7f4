"""What is kept of a job's files: listed, looked at, downloaded. A file is never shown as a page of ours."""

from __future__ import annotations

import re
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import PurePosixPath
from urllib.parse import quote

from holdfast.core.errors import NotFound
from holdfast.services.files.walk import Item
from holdfast.services.jobs.detail import Closeup

from ...visit import Visit
from .view import Section, job_address

PAGE = 200
MAX_EVENTS = 200  # looked through for what was not kept
MAX_TEXT = 64 * 1024  # bytes of a text that are shown
MAX_PICTURE = 20 * 1024 * 1024
_ALL_KEPT = re.compile(r"\d+ files? \([^;()]*\) kept as artifacts\.")
_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".gif", ".webp"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRow:
    item: Item
    download: str
    preview: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Either a picture's address, a text, or neither: then there is nothing to be seen."""

    name: str
    size: int
    download: str
    picture: str = ""
    text: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsData:
    rows: tuple[ArtifactRow, ...]
    total: int
    bytes: int
    complete: bool  # False: there are more than are listed
    told: tuple[str, ...]  # what was not kept, by task
    preview: Preview | None
    first: int
    previous: str = ""
    next: str = ""


async def _load(visit: Visit, job: Closeup) -> ArtifactsData:
    id = job.record.summary.id
    found = await visit.services.artifacts.of(job.record.summary)
    number = visit.number("page") or 1
    start = (number - 1) * PAGE
    file = visit.request.query_params.get("file", "")
    files = [item for item in found.items if not item.name.endswith("/")]
    asked = {"section": "artifacts"}
    return ArtifactsData(
        rows=tuple(_row(id, item, number) for item in files[start : start + PAGE]),
        total=len(files),
        bytes=sum(item.size for item in files),
        complete=found.complete,
        told=await _told(visit, job),
        preview=await _preview(visit, id, file) if file else None,
        first=start + 1,
        previous=job_address(id, asked, page=number - 1) if number > 1 else "",
        next=job_address(id, asked, page=number + 1) if len(files) > start + PAGE else "",
    )


def _row(job_id: str, item: Item, number: int) -> ArtifactRow:
    page = number if number > 1 else None
    preview = job_address(job_id, section="artifacts", page=page, file=item.name) + "#preview"
    return ArtifactRow(item=item, download=_address(job_id, item.name), preview=preview)


def _address(job_id: str, name: str) -> str:
    return f"/api/v1/jobs/{job_id}/artifacts/{quote(name, safe='/')}"


async def _told(visit: Visit, job: Closeup) -> tuple[str, ...]:
    """Of the newest try of each task, where not all was kept: what was can be seen."""
    newest: dict[str | None, str] = {}
    for event in await visit.services.closeup.events(job, limit=MAX_EVENTS):
        if event.kind == "artifacts":
            newest.setdefault(event.task, event.message)
    return tuple(
        f"{task}: {visit.tell(text)}" if task else visit.tell(text)
        for task, text in reversed(newest.items())
        if not _ALL_KEPT.fullmatch(text)
    )


async def _preview(visit: Visit, job_id: str, name: str) -> Preview | None:
    try:
        file = await visit.services.artifacts.open(visit.who, job_id, name)
    except NotFound:
        return None
    found = Preview(name=name, size=file.size, download=_address(job_id, name))
    if PurePosixPath(name.lower()).suffix in _PICTURES:
        file.file.close()
        shown = file.size <= MAX_PICTURE
        return _with(found, picture=f"{found.download}?inline=true" if shown else "")
    end = min(file.size, MAX_TEXT)
    async with aclosing(file.chunks(0, end)) as chunks:
        data = b"".join([chunk async for chunk in chunks])
    return _with(found, text=_as_text(data), cut=file.size > end)


def _with(preview: Preview, *, picture: str = "", text: str | None = None, cut: bool = False) -> Preview:
    return Preview(name=preview.name, size=preview.size, download=preview.download, picture=picture, text=text, cut=cut)


def _as_text(data: bytes) -> str | None:
    """None for what is no text. The last character may be cut in two."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8", "replace")
    strange = text[:-1].count("\ufffd")
    return text if strange * 20 <= len(text) else None


SECTION = Section(
    key="artifacts",
    title=lambda visit: visit.say("Artifacts"),
    template="job/_artifacts.html",
    load=_load,
)
