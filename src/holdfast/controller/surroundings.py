"""Looks up what a launch needs to know besides its job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.attempt import JobSnapshot
from holdfast.engines.base import Engine, Isolation
from holdfast.launching import Surroundings, wants_job_key, wants_user_keys
from holdfast.store import people
from holdfast.store.database import Store


class SurroundingsOf:
    def __init__(self, store: Store, engine: Engine, derive: Callable[[bytes], bytes] | None) -> None:
        self._store = store
        self._engine = engine
        self._derive = derive
        self._same: Surroundings | None = None  # what most jobs need, once the engine is open

    async def find(self, snapshot: JobSnapshot) -> Surroundings:
        if self._same is None:
            self._same = Surroundings(
                addresses={node.name: node.address for node in self._engine.nodes()},
                isolated=self._engine.health().isolation is not Isolation.NONE,
            )
        user_keys, job_key = wants_user_keys(snapshot.job), wants_job_key(snapshot.job)
        if not user_keys and not job_key:
            return self._same
        return Surroundings(
            addresses=self._same.addresses,
            isolated=self._same.isolated,
            user_keys=await self._keys_of(snapshot.user) if user_keys else (),
            job_seed=self._derive(b"ssh of job " + snapshot.id.encode()) if self._derive and job_key else None,
        )

    async def _keys_of(self, name: str) -> tuple[str, ...]:
        user = await self._store.read(people.get_user, name)
        return public_keys(user.extension) if user else ()


def public_keys(extension: Mapping[str, Any]) -> tuple[str, ...]:
    """What a user keeps under sshKeys; clients write it as they like, so nothing is taken for granted."""
    listed = extension.get("sshKeys")
    values = [each.get("value") for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    return tuple(value for value in values if isinstance(value, str))
