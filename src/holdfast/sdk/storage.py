"""Calls about the disk usage of the server."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import api

from .calls import Call, build_call, endpoint

SCAN_TIMEOUT = 180.0  # seconds; the server counts every file first


class StorageCalls:
    @endpoint
    def get_storage(self) -> Call[api.storage.Storage]:
        """Return the disk usage by kind and by user; admins only."""
        return build_call("GET", "/storage", api.storage.Storage, timeout=SCAN_TIMEOUT)

    @endpoint
    def prune_storage(
        self, kinds: Sequence[str], *, images: Sequence[str] = (), older_than: float = 0.0, dry_run: bool = True
    ) -> Call[api.storage.PruneResult]:
        """Remove data of jobs that ended more than `older_than` seconds ago; admins only. `kinds`: logs, artifacts,
        held, images, metrics. Default `images`: those no job uses. A dry run only reports what would be removed. Repeat
        the call while the result has `more` set."""
        body = api.storage.PruneRequest(kinds=kinds, images=images, older_than=older_than, dry_run=dry_run)
        return build_call(
            "POST", "/storage/prune", api.storage.PruneResult, body=body, timeout=SCAN_TIMEOUT, repeatable=True
        )
