"""Everything that keeps a job waiting: what the queue says, and what it will miss once it starts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.blockers import Blocker, BlockerKind, Known, Wait
from holdfast.core.job import Dialect, Job, Mount
from holdfast.core.records import Dataset
from holdfast.core.states import JobState
from holdfast.reach import Reach, Silent
from holdfast.store import datasets as dataset_rows
from holdfast.store import past_runs, people
from holdfast.store.database import Store
from holdfast.store.jobs import JobDetail

from .control import Control
from .prospects import Prospects

PATIENCE = 2.0  # seconds for folders to answer
MOST_FOLDERS = 50  # of a job that are looked at


class Blockers:
    def __init__(self, store: Store, control: Control, prospects: Prospects) -> None:
        self._store = store
        self._control = control
        self._prospects = prospects
        self._reach = Reach("folders of waiting jobs")

    async def of(self, actor: Actor, record: JobDetail) -> Wait | None:
        """None when nothing of it waits. Whoever asks may see the job: that has been checked; jobs of groups that they
        do not see are not named."""
        if record.summary.state.final:
            return None
        job_id = record.summary.id
        wait = await self._control.wait_of(job_id, lambda group: may(actor, Verb.SEE_JOB, group), self._usual)
        if wait is None or record.summary.state is not JobState.PENDING:
            return wait
        missing = [*await self._images(record.job), *await self._datasets(record), *await self._folders(record.job)]
        return replace(wait, blockers=(*wait.blockers, *missing))

    async def _usual(self, jobs: Mapping[str, Known]) -> dict[str, float]:
        """Seconds that jobs of the same user and name took, where there were some."""
        if not jobs:
            return {}
        named = {id: (known.user, known.name) for id, known in jobs.items()}
        took = await self._store.read(past_runs.usual_seconds, named.values())
        return {id: took[pair] for id, pair in named.items() if pair in took}

    async def _images(self, job: Job) -> list[Blocker]:
        return [
            Blocker(
                kind=BlockerKind.IMAGE,
                text=f"The image {image} is not known here; unless it is imported before, the job will fail.",
            )
            for image in await self._prospects.missing_images(job)
        ]

    async def _datasets(self, record: JobDetail) -> list[Blocker]:
        """Those of which it is given variables; folders stay with a job, whatever becomes of their dataset."""
        mounted = {mount.dataset for role in record.job.roles for mount in role.mounts}
        names = [name for name in record.job.datasets if name not in mounted]
        if not names:
            return []
        told = await self._store.read(_not_given, record.summary.user, names)
        return [Blocker(kind=BlockerKind.DATASET, text=text) for text in told]

    async def _folders(self, job: Job) -> list[Blocker]:
        mounts = {mount.source: mount for role in job.roles for mount in role.mounts}
        chosen = list(mounts.values())[:MOST_FOLDERS]
        answers = await asyncio.gather(*(self._is_there(mount.source) for mount in chosen))
        goes_without = job.dialect is Dialect.PRIMEHUB
        return [
            Blocker(kind=BlockerKind.DATASET, text=_not_there(mount, answer, goes_without and bool(mount.dataset)))
            for mount, answer in zip(chosen, answers, strict=True)
            if answer is not True
        ]

    async def _is_there(self, path: str) -> bool | None:
        """None: it does not answer."""
        found: list[bool] = []
        try:
            await self._reach.look(path, partial(_look, path, found), PATIENCE)
        except Silent:
            return None
        return bool(found and found[0])


def _look(path: str, found: list[bool]) -> None:
    found.append(Path(path).exists())


def _not_there(mount: Mount, there: bool | None, goes_without: bool) -> str:
    what = f"The folder that it mounts at {mount.target}"
    if mount.dataset is not None:
        what = f"The folder of the dataset {mount.dataset}"
    trouble = "does not answer" if there is None else "is not there"
    if goes_without:
        return f"{what} {trouble}; unless it is back before, the job will start without it."
    return f"{what} {trouble}; unless it is back before, the job will fail."


def _not_given(conn: Connection, user: str, names: Iterable[str]) -> list[str]:
    return list(_refusals(conn, user, names))


def _refusals(conn: Connection, user: str, names: Iterable[str]) -> Iterator[str]:
    owner = people.get_user(conn, user)
    for name in names:
        dataset = dataset_rows.get_dataset(conn, name)
        if dataset is None:
            yield f"There is no dataset {name} any more; the job will start without its variables."
        elif owner is None or not (owner.admin or _is_granted(dataset, owner.groups)):
            yield f"The dataset {name} is no longer granted to {user}; the job will start without its variables."


def _is_granted(dataset: Dataset, groups: Iterable[str]) -> bool:
    return dataset.everyone or any(group in dataset.groups for group in groups)
