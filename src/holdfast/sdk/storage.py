"""Calls about the server's disk: what takes room there, and freeing some."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import api

from .exchange import Call, as_a, call, endpoint

SCAN_TIMEOUT = 180.0  # seconds; the server counts every file first


class StorageCalls:
    @endpoint
    def storage(self) -> Call[api.storage.Storage]:
        """What takes room on the server's disk, by kind and by user; for admins."""
        return call("GET", "/storage", as_a(api.storage.Storage), timeout=SCAN_TIMEOUT)

    @endpoint
    def prune_storage(
        self, kinds: Sequence[str], *, images: Sequence[str] = (), older_than: float = 0.0, dry_run: bool = True
    ) -> Call[api.storage.PruneResult]:
        """Remove what is kept of jobs that ended more than `older_than` seconds ago; for admins. `kinds`: logs,
        artifacts, held, images, metrics. Unless `images` are named, those go that no job uses. A dry run only says what
        would be removed. While the result says `more`, call it again."""
        body = api.storage.PruneRequest(kinds=kinds, images=images, older_than=older_than, dry_run=dry_run)
        return call(
            "POST", "/storage/prune", as_a(api.storage.PruneResult), body=body, timeout=SCAN_TIMEOUT, repeatable=True
        )
