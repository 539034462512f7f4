"""Everything that keeps a job waiting: what the queue says, and what it will miss once it starts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from holdfast.core.access import Actor, Verb, may
from holdfast.core.job import Dialect, Job, Mount
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.core.scheduling.blockers import Blocker, BlockerKind, Known, Wait
from holdfast.core.states import JobState
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.store import datasets as dataset_rows
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import past_runs
from holdfast.store.jobs.records import JobDetail

from ..control import Control
from .feasibility import Prospects

TIMEOUT = 2.0  # seconds for folders to answer
MAX_FOLDERS = 50  # of a job that are looked at
LONG = 10.0  # seconds for an explanation to be worked out, while others ask too


class _Missing(NamedTuple):
    kind: BlockerKind
    text: str
    help: str

    @property
    def blocker(self) -> Blocker:
        return Blocker(kind=self.kind, text=self.text)


class Blockers:
    def __init__(self, store: Store, control: Control, prospects: Prospects) -> None:
        self._store = store
        self._control = control
        self._prospects = prospects
        self._reach = HangGuard(msg("folders of waiting jobs"))

    async def of(self, actor: Actor, record: JobDetail, patience: float = LONG) -> Wait | None:
        """None when nothing of it waits. Whoever asks may see the job: that has been checked; jobs of groups that they
        do not see are not named. Where all of it is not worked out within so many seconds, the blockers alone."""
        if record.summary.state.final:
            return None
        job_id = record.summary.id

        def sees(group: str) -> bool:
            return may(actor, Verb.SEE_JOB, group)

        wait = await self._control.wait_of(job_id, sees, self._usual, patience)
        if wait is None or record.summary.state is not JobState.PENDING:
            return wait
        missing = await self._missing(record)
        return replace(
            wait,
            blockers=(*wait.blockers, *(each.blocker for each in missing)),
            helps=(*wait.helps, *dict.fromkeys(each.help for each in missing)),
        )

    async def reasons(self, record: JobDetail) -> tuple[str, ...] | None:
        """The same in a line for each, found at once; None when it does not wait."""
        if record.summary.state is not JobState.PENDING:
            return None
        missing = (each.text for each in await self._missing(record))
        return (*self._control.waiting(record.summary.id), *missing)

    async def _missing(self, record: JobDetail) -> list[_Missing]:
        """What it will miss once it starts."""
        return [*await self._images(record.job), *await self._datasets(record), *await self._folders(record.job)]

    async def _usual(self, jobs: Mapping[str, Known]) -> dict[str, float]:
        """Seconds that jobs of the same user and name took, where there were some."""
        if not jobs:
            return {}
        named = {id: (known.user, known.name) for id, known in jobs.items()}
        took = await self._store.read(past_runs.usual_seconds, named.values())
        return {id: took[pair] for id, pair in named.items() if pair in took}

    async def _images(self, job: Job) -> list[_Missing]:
        return [
            _Missing(
                BlockerKind.IMAGE,
                msg(
                    "The image {image} is not known here; unless it is imported before, the job will fail.", image=image
                ),
                msg(
                    "Have an admin import the image, or the job fails: `holdfast image import {image} FILE`.",
                    image=image,
                ),
            )
            for image in await self._prospects.missing_images(job)
        ]

    async def _datasets(self, record: JobDetail) -> list[_Missing]:
        """Those of which it is given variables; folders stay with a job, whatever becomes of their dataset."""
        mounted = {mount.dataset for role in record.job.roles for mount in role.mounts}
        names = [name for name in record.job.datasets if name not in mounted]
        if not names:
            return []
        return await self._store.read(_not_given, record.summary.user, record.job.group, names)

    async def _folders(self, job: Job) -> list[_Missing]:
        mounts = {mount.source: mount for role in job.roles for mount in role.mounts}
        chosen = list(mounts.values())[:MAX_FOLDERS]
        answers = await asyncio.gather(*(self._is_there(mount.source) for mount in chosen))
        goes_without = job.dialect is Dialect.PRIMEHUB
        return [
            _not_there(mount, answer, goes_without and bool(mount.dataset))
            for mount, answer in zip(chosen, answers, strict=True)
            if answer is not True
        ]

    async def _is_there(self, path: str) -> bool | None:
        """None: it does not answer."""
        try:
            found = await self._reach.look(path, partial(os.path.exists, path), TIMEOUT)
        except NotResponding:
            return None
        return found if isinstance(found, bool) else None


def _not_there(mount: Mount, there: bool | None, goes_without: bool) -> _Missing:
    what = msg("The folder that it mounts at {target}", target=mount.target)
    help = msg("See to the folder that it mounts at {target}, or submit the job without it.", target=mount.target)
    if mount.dataset is not None:
        what = msg("The folder of the dataset {dataset}", dataset=mount.dataset)
        help = msg(
            "Have an admin see to the dataset's folder: `holdfast dataset show {dataset}`.", dataset=mount.dataset
        )
    trouble = msg("does not answer") if there is None else msg("is not there")
    if goes_without:
        text = msg(
            "{what} {trouble}; unless it is back before, the job will start without it.", what=what, trouble=trouble
        )
        return _Missing(BlockerKind.DATASET, text, help)
    return _Missing(
        BlockerKind.DATASET,
        msg("{what} {trouble}; unless it is back before, the job will fail.", what=what, trouble=trouble),
        help,
    )


def _not_given(conn: Connection, user: str, group: str, names: Iterable[str]) -> list[_Missing]:
    return list(_refusals(conn, user, group, names))


def _refusals(conn: Connection, user: str, group: str, names: Iterable[str]) -> Iterator[_Missing]:
    owner = people.get_user(conn, user)
    for name in names:
        dataset = dataset_rows.get_dataset(conn, name)
        if dataset is None:
            text = msg("There is no dataset {name} any more; the job will start without its variables.", name=name)
            help = msg("Have an admin add the dataset again: `holdfast dataset add {name}`.", name=name)
            yield _Missing(BlockerKind.DATASET, text, help)
        elif owner is None or not (owner.admin or _is_granted(dataset, owner.groups)):
            text = msg(
                "The dataset {name} is no longer granted to {user}; the job will start without its variables.",
                name=name,
                user=user,
            )
            help = msg(
                "Have an admin grant the dataset again: `holdfast dataset grant {name} {group}`.",
                name=name,
                group=group,
            )
            yield _Missing(BlockerKind.DATASET, text, help)


def _is_granted(dataset: Dataset, groups: Iterable[str]) -> bool:
    return dataset.everyone or any(group in dataset.groups for group in groups)
