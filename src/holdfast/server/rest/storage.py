"""/storage: what takes room on the server's disk, and removing what is not needed."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from holdfast.api import storage as api
from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.services.installation.disk_report import PRUNABLE, StorageKind
from holdfast.services.installation.pruning import PruneRequest

from ..answers import answer
from ..auth import Ask, Caller
from .addresses import rest_router
from .schemas import Body
from .views import show_time

router = rest_router("place")


@router.get("/storage", response_model=api.Storage)
async def show_storage(actor: Caller, services: Ask) -> Response:
    """Admins only. What takes room on the server's disk, by kind and by user. It may take some seconds."""
    report = await services.pruning.reports.report(actor)
    disk = report.disk
    return answer(
        {
            "disk": {
                "free": disk.free,
                "total": disk.total,
                "full_below": report.full_below,
                "free_files": disk.free_files,
                "total_files": disk.total_files,
            },
            "items": [
                {
                    "kind": item.kind.value,
                    "bytes": item.bytes,
                    "count": item.count,
                    "oldest": show_time(item.oldest),
                    "prunable": item.kind in PRUNABLE,
                }
                for item in report.items
            ],
            "users": [
                {
                    "user": user,
                    "logs": sizes.get(StorageKind.LOGS, 0),
                    "artifacts": sizes.get(StorageKind.ARTIFACTS, 0),
                }
                for user, sizes in report.users.items()
            ],
            "complete": report.complete,
        }
    )


@router.post("/storage/prune", response_model=api.PruneResult)
async def prune_storage(body: Body[api.PruneRequest], actor: Caller, services: Ask) -> Response:
    """Admins only. Remove logs, artifacts, held files, images or metrics of jobs that ended long enough ago. A dry run
    unless `dry_run` is false. While `more` is true, send the same again."""
    request = PruneRequest(
        kinds=frozenset(_kind(kind) for kind in body["kinds"]),
        images=tuple(body.get("images", ())),
        older_than=timedelta(seconds=body.get("older_than", 0)),
        dry_run=body.get("dry_run", True),
    )
    done = await services.pruning.prune(actor, request)
    items = [{"kind": item.kind.value, "count": item.count, "bytes": item.bytes} for item in done.items]
    return answer({"items": items, "more": done.more})


def _kind(text: str) -> StorageKind:
    try:
        return StorageKind(text)
    except ValueError:
        known = ", ".join(sorted(PRUNABLE))
        raise UserError(
            msg("{text} cannot be pruned", text=repr(text[:50])),
            field="kinds",
            hint=msg("Choose of {known}.", known=known),
        ) from None
