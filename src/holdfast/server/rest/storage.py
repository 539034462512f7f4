"""/storage: disk usage of the server, and pruning."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from holdfast.api import storage as api
from holdfast.core.errors import UserError
from holdfast.core.messages import msg
from holdfast.services.installation.disk_report import PRUNABLE_KINDS, StorageKind
from holdfast.services.installation.pruning import PruneRequest

from ..auth import Caller, ServicesDep
from ..responses import respond_json
from .routing import build_router
from .schemas import Body
from .views import format_time

router = build_router("installation")


@router.get("/storage", response_model=api.Storage)
async def show_storage(actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Disk usage of the server, by kind and by user. It can take some seconds."""
    report = await services.pruning.reports.build_report(actor)
    disk = report.disk
    return respond_json(
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
                    "oldest": format_time(item.oldest),
                    "prunable": item.kind in PRUNABLE_KINDS,
                }
                for item in report.items
            ],
            "users": [
                {"user": user, "logs": sizes.get(StorageKind.LOGS, 0), "artifacts": sizes.get(StorageKind.ARTIFACTS, 0)}
                for user, sizes in report.users.items()
            ],
            "complete": report.complete,
        }
    )


@router.post("/storage/prune", response_model=api.PruneResult)
async def prune_storage(body: Body[api.PruneRequest], actor: Caller, services: ServicesDep) -> Response:
    """Admins only. Delete logs, artifacts, files on hold, images or metrics of jobs that ended long enough ago. A dry
    run unless `dry_run` is false. While `more` is true, send the same request again."""
    request = PruneRequest(
        kinds=frozenset(_parse_kind(kind) for kind in body["kinds"]),
        images=tuple(body.get("images", ())),
        older_than=timedelta(seconds=body.get("older_than", 0)),
        dry_run=body.get("dry_run", True),
    )
    done = await services.pruning.prune_storage(actor, request)
    items = [{"kind": item.kind.value, "count": item.count, "bytes": item.bytes} for item in done.items]
    return respond_json({"items": items, "more": done.more})


def _parse_kind(text: str) -> StorageKind:
    try:
        return StorageKind(text)
    except ValueError:
        known = ", ".join(sorted(PRUNABLE_KINDS))
        raise UserError(
            msg("{text} cannot be pruned", text=repr(text[:50])),
            field="kinds",
            hint=msg("Use one of: {known}.", known=known),
        ) from None
