"""What a job asks of datasets -> mounts on every role. Old clients call them storages.

They are worked out each time a job is submitted or run again, since grants change: what an earlier time gave is dropped
first. Who may have a dataset is the admin's word, so the folders that jobs may mount by path do not matter here.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from holdfast.core.access import Actor
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.job import Job, Mount, Role
from holdfast.core.records import Dataset

from .datasets import Datasets
from .mounts import MountRules
from .names import check_name
from .refusals import NoDataset, Unavailable

MOST = 32  # per job
LONGEST = 4096  # characters of a target
_SYSTEM = ("/proc", "/sys", "/dev")
HOW_TO_GET = "`holdfast dataset ls` lists yours; an admin grants others with `holdfast dataset grant NAME GROUP`."
PATH_KEY = ".mountPath"
_OURS = "/run/holdfast"  # where a task's script lies


@dataclass(frozen=True, slots=True)
class Wish:
    name: str
    target: str
    field: str  # where the job says so
    missing: str  # what to say when there is no such dataset


@dataclass(frozen=True, slots=True)
class Wishes:
    named: tuple[Wish, ...] = ()
    defaults: bool = False  # those that the user gets without naming them


class Storages:
    def __init__(self, datasets: Datasets, mounts: MountRules) -> None:
        self._datasets = datasets
        self._mounts = mounts

    async def apply(self, job: Job, actor: Actor, wishes: Wishes) -> Job:
        """The job with what it wishes for mounted; NoDataset for what is not there or not for this user."""
        if not wishes.named and not wishes.defaults:
            return job
        granted = {dataset.name: dataset for dataset in await self._datasets.list(actor)}
        chosen = _chosen(wishes, granted)
        for wish in chosen:
            if wish.name not in granted:
                raise NoDataset(wish.missing, field=wish.field.removesuffix(PATH_KEY), hint=HOW_TO_GET)
        mounts = [(wish, await self._mount(wish, granted[wish.name], actor.name)) for wish in chosen]
        _check_beside(job, mounts)
        added = tuple(mount for _, mount in mounts)
        return replace(job, roles=tuple(replace(role, mounts=(*role.mounts, *added)) for role in job.roles))

    async def prepare(self, job: Job, actor: Actor) -> None:
        """Make the users' own folders that the job's mounts need."""
        names = {mount.dataset for role in job.roles for mount in role.mounts if mount.dataset is not None}
        for name in sorted(names):
            dataset = await self._datasets.get(actor, name)
            if dataset.per_user:
                await self._mounts.look([dataset.path], _make_own, dataset, actor.name)

    async def _mount(self, wish: Wish, dataset: Dataset, user: str) -> Mount:
        try:
            real = str(await self._mounts.folder(dataset.path))
        except UserError as error:
            raise _gone(dataset, error.message) from error
        if real != dataset.path:
            raise _gone(dataset, "a part of its path has become a link")
        source = _own_path(dataset, user) if dataset.per_user else real
        return Mount(source=source, target=wish.target, read_only=dataset.read_only, dataset=dataset.name)


def without_datasets(job: Job) -> Job:
    """The job without what datasets gave it at an earlier time."""
    if not any(mount.dataset is not None for role in job.roles for mount in role.mounts):
        return job
    return replace(job, roles=tuple(_bare(role) for role in job.roles))


def _bare(role: Role) -> Role:
    return replace(role, mounts=tuple(mount for mount in role.mounts if mount.dataset is None))


# -- what a job wishes for


def wishes_of(job: Job) -> Wishes:
    """InvalidJob when a target cannot be one."""
    storages = _storages(job)
    problems: list[Problem] = []
    named = [_own_wish(index, name) for index, name in enumerate(job.datasets)]
    named += [_old_wish(index, item, problems) for index, item in enumerate(storages or ())]
    if len(named) > MOST:
        problems.append(Problem("extras.storages", f"names {len(named)} storages; at most {MOST} are accepted"))
    if not problems:
        _check_apart(named, problems)
    if problems:
        raise InvalidJob(problems)
    return Wishes(tuple(named), defaults=storages == [])


def _storages(job: Job) -> list[Any] | None:
    """As the reader of OpenPAI's files left them; in our own files they may be anything."""
    leftovers = job.extras.get("openpai")
    storages = leftovers.get("storages") if isinstance(leftovers, Mapping) else None
    return storages if isinstance(storages, list) else None


def _own_wish(index: int, name: str) -> Wish:
    return Wish(name, f"/datasets/{name}", f"datasets[{index}]", f"There is no dataset {name[:100]}")


def _old_wish(index: int, item: Any, problems: list[Problem]) -> Wish:
    field = f"extras.storages[{index}]"
    name = item.get("name") if isinstance(item, Mapping) else None
    path = item.get("mountPath", f"/mnt/{name}") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not isinstance(path, str):
        problems.append(Problem(field, "must have a name and a mountPath, both text"))
        return Wish("", "/", field, "")
    field += PATH_KEY
    target = _target(path, field, problems)
    return Wish(name, target, field, f"Storage {name[:100]} is not found.")


def _target(path: str, field: str, problems: list[Problem]) -> str:
    target = _normal(path)
    why = None
    if not path.startswith("/"):
        why = "is not an absolute path"
    elif len(path) > LONGEST:
        why = f"is longer than {LONGEST} characters"
    elif not path.isprintable():
        why = "holds control characters"
    elif ".." in path.split("/"):
        why = "must not hold '..'"
    elif target == "/":
        why = "would cover the whole file system"
    elif _within(target, _SYSTEM) or _overlap(target, _OURS):
        why = "is the system's own"
    if why is not None:
        problems.append(Problem(field, f"{path[:100]!r} {why}", "Choose a path such as /mnt/data."))
    return target


def _check_apart(wishes: list[Wish], problems: list[Problem]) -> None:
    for index, wish in enumerate(wishes):
        for other in wishes[:index]:
            if _overlap(wish.target, other.target):
                problems.append(
                    Problem(wish.field, f"{wish.target} is, holds or lies within {other.target}, where {other.name} is")
                )


def _chosen(wishes: Wishes, granted: Mapping[str, Dataset]) -> list[Wish]:
    defaults = [dataset.name for dataset in granted.values() if dataset.default] if wishes.defaults else []
    added = [Wish(name, f"/mnt/{name}", "extras.storages", "") for name in defaults]
    return [*wishes.named, *added]


def _check_beside(job: Job, mounts: list[tuple[Wish, Mount]]) -> None:
    """Within a role, nothing may be mounted over or into something else."""
    problems = [
        Problem(wish.field, f"{mount.target} is, holds or lies within {own.target}, which {role.name} mounts already")
        for role in job.roles
        for own in role.mounts
        for wish, mount in mounts
        if _overlap(mount.target, _normal(own.target))
    ]
    if problems:
        raise InvalidJob(problems)


def _normal(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _overlap(one: str, other: str) -> bool:
    return _within(one, (other,)) or _within(other, (one,))


def _within(path: str, folders: tuple[str, ...]) -> bool:
    """Is one of them, or lies below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


# -- folders of each user


def _own_path(dataset: Dataset, user: str) -> str:
    check_name(user, "user", "user")  # it becomes part of a path
    return f"{dataset.path}/{user}"


def _make_own(dataset: Dataset, user: str) -> None:
    """Whoever can write to a folder on the way may put a link there, so each part is opened as what it is."""
    parts = PurePosixPath(_own_path(dataset, user)).parts
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[1:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
        _make(user, fd)
    except OSError as error:
        raise _gone(dataset, f"the folder of {user} in it cannot be made: {error.strerror}") from error
    finally:
        os.close(fd)


def _make(name: str, folder: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise NotADirectoryError(0, "there is something else of that name") from None


def _gone(dataset: Dataset, why: str) -> Unavailable:
    return Unavailable(
        f"The dataset {dataset.name} cannot be mounted now: {why}",
        hint="Ask an admin: the folder may have moved, or its file system may not be mounted.",
    )
