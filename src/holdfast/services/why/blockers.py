"""What keeps a job pending: blockers in the queue, and images, datasets and folders that are missing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from sqlalchemy import Connection

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.job import Job, JobFormat, Mount
from holdfast.core.messages import msg
from holdfast.core.records import Dataset
from holdfast.core.scheduling.blockers import ActiveJob, Blocker, BlockerKind, WaitExplanation
from holdfast.core.states import JobState
from holdfast.hang_guard import HangGuard, NotResponding
from holdfast.store import datasets as dataset_rows
from holdfast.store import people
from holdfast.store.database import Store
from holdfast.store.jobs import run_times
from holdfast.store.jobs.records import JobDetail

from ..control import Control
from .feasibility import Feasibility

FOLDER_TIMEOUT = 2.0  # seconds for folders to respond
MAX_CHECKED_FOLDERS = 50  # checked per job
EXPLAIN_TIMEOUT = 10.0  # seconds for a full explanation


class _MissingResource(NamedTuple):
    kind: BlockerKind
    text: str
    help: str

    @property
    def blocker(self) -> Blocker:
        return Blocker(kind=self.kind, text=self.text)


class Blockers:
    def __init__(self, store: Store, control: Control, prospects: Feasibility) -> None:
        self._store = store
        self._control = control
        self._feasibility = prospects
        self._hang_guard = HangGuard(msg("folders of pending jobs"))

    async def explain_wait(
        self, actor: Actor, record: JobDetail, timeout: float = EXPLAIN_TIMEOUT
    ) -> WaitExplanation | None:
        """Explain why a job is pending; None if it is not. The caller has checked permissions. Jobs of groups that the
        actor cannot read are not named. After `timeout` seconds, return the blockers alone."""
        if record.summary.state.final:
            return None
        job_id = record.summary.id

        def can_see(group: str) -> bool:
            return has_permission(actor, Permission.SEE_JOB, group)

        wait = await self._control.explain_wait(job_id, can_see, self._load_usual_durations, timeout)
        if wait is None or record.summary.state is not JobState.PENDING:
            return wait
        missing = await self._find_missing_resources(record)
        return replace(
            wait,
            blockers=(*wait.blockers, *(each.blocker for each in missing)),
            helps=(*wait.helps, *dict.fromkeys(each.help for each in missing)),
        )

    async def list_wait_reasons(self, record: JobDetail) -> tuple[str, ...] | None:
        """Return one line for each reason, without delay; None if the job is not pending."""
        if record.summary.state is not JobState.PENDING:
            return None
        missing = (each.text for each in await self._find_missing_resources(record))
        return (*self._control.list_wait_reasons(record.summary.id), *missing)

    async def _find_missing_resources(self, record: JobDetail) -> list[_MissingResource]:
        """Return what will be missing when the job starts."""
        return [
            *await self._find_missing_images(record.job),
            *await self._find_missing_datasets(record),
            *await self._find_missing_folders(record.job),
        ]

    async def _load_usual_durations(self, jobs: Mapping[str, ActiveJob]) -> dict[str, float]:
        """Return the usual duration in seconds of earlier jobs with the same user and name."""
        if not jobs:
            return {}
        named = {id: (known.user, known.name) for id, known in jobs.items()}
        took = await self._store.read(run_times.estimate_run_seconds, named.values())
        return {id: took[pair] for id, pair in named.items() if pair in took}

    async def _find_missing_images(self, job: Job) -> list[_MissingResource]:
        return [
            _MissingResource(
                BlockerKind.IMAGE,
                msg(
                    "Image {image} is not on this server. The job fails when it starts, unless the image is "
                    "imported first.",
                    image=image,
                ),
                msg("Ask an admin to import the image: `holdfast image import {image} FILE`.", image=image),
            )
            for image in await self._feasibility.list_missing_images(job)
        ]

    async def _find_missing_datasets(self, record: JobDetail) -> list[_MissingResource]:
        """Check datasets that only set variables. A job keeps its mounted folders even if the dataset is deleted."""
        mounted = {mount.dataset for role in record.job.roles for mount in role.mounts}
        names = [name for name in record.job.datasets if name not in mounted]
        if not names:
            return []
        return await self._store.read(_load_missing_datasets, record.summary.user, record.job.group, names)

    async def _find_missing_folders(self, job: Job) -> list[_MissingResource]:
        mounts = {mount.volume.folder: mount for role in job.roles for mount in role.mounts if mount.volume.folder}
        chosen = list(mounts.values())[:MAX_CHECKED_FOLDERS]
        answers = await asyncio.gather(*(self._probe_folder(mount.volume.folder) for mount in chosen))
        goes_without = job.dialect is JobFormat.PRIMEHUB
        return [
            _build_missing_folder(mount, answer, goes_without and bool(mount.dataset))
            for mount, answer in zip(chosen, answers, strict=True)
            if answer is not True
        ]

    async def _probe_folder(self, path: str) -> bool | None:
        """Return whether the folder exists; None if it is not responding."""
        try:
            found = await self._hang_guard.run_once_per_path(path, partial(os.path.exists, path), FOLDER_TIMEOUT)
        except NotResponding:
            return None
        return found if isinstance(found, bool) else None


def _build_missing_folder(mount: Mount, there: bool | None, goes_without: bool) -> _MissingResource:
    what = msg("The folder mounted at {target}", target=mount.target)
    help = msg("Restore the folder mounted at {target}, or submit the job without it.", target=mount.target)
    if mount.dataset is not None:
        what = msg("The folder of dataset {dataset}", dataset=mount.dataset)
        help = msg(
            "Ask an admin to restore the dataset's folder: `holdfast dataset show {dataset}` shows its path.",
            dataset=mount.dataset,
        )
    trouble = msg("is not responding") if there is None else msg("does not exist")
    if goes_without:
        text = msg(
            "{what} {problem}. The job starts without it, unless it is restored first.", what=what, problem=trouble
        )
    else:
        text = msg(
            "{what} {problem}. The job fails when it starts, unless the folder is restored first.",
            what=what,
            problem=trouble,
        )
    return _MissingResource(BlockerKind.DATASET, text, help)


def _load_missing_datasets(conn: Connection, user: str, group: str, names: Iterable[str]) -> list[_MissingResource]:
    owner, found = people.get_user(conn, user), []
    for name in names:
        dataset = dataset_rows.get_dataset(conn, name)
        if dataset is None:
            text = msg("Dataset {name} no longer exists; the job starts without its variables.", name=name)
            help = msg("Ask an admin to add the dataset again: `holdfast dataset add {name}`.", name=name)
            found.append(_MissingResource(BlockerKind.DATASET, text, help))
        elif owner is None or not (owner.admin or _is_granted(dataset, owner.groups)):
            text = msg(
                "{user} no longer has access to dataset {name}; the job starts without its variables.",
                name=name,
                user=user,
            )
            help = msg(
                "Ask an admin to grant access again: `holdfast dataset grant {name} {group}`.", name=name, group=group
            )
            found.append(_MissingResource(BlockerKind.DATASET, text, help))
    return found


def _is_granted(dataset: Dataset, groups: Iterable[str]) -> bool:
    return dataset.everyone or any(group in dataset.groups for group in groups)
