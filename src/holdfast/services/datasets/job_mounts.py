"""What a job asks of datasets -> mounts on every role. Old clients call them storages.

They are worked out each time a job is submitted or run again, since grants change: what an earlier time gave is dropped
first. Who may have a dataset is the admin's word, so the folders that jobs may mount by path do not matter here.

Jobs in PrimeHub's format name none: they get all that their group has. One of these that cannot be had keeps no job
from running; it is left out, with a warning. Datasets of variables are looked up when a task starts (they may hold
passwords, and are stored with no job), so here they are only allowed or not.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from holdfast.core.access import Actor
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.job import Dialect, Job, Mount, Role
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import Dataset

from ..name_suggestions import nearest
from ..names import check_user_name
from ..refusals import NoDataset, Unavailable
from .kinds import ENV, GIT
from .mount_rules import MountRules
from .service import Datasets

MAX_COUNT = 32  # per job
MAX_UNNAMED = 44  # per job: engines mount 64 folders, and groups' volumes are among them
TIMEOUT = 5.0  # seconds that a job waits for a dataset it did not name
CACHE_TTL = 10.0  # seconds in which such a dataset is not looked at again
MAX_LENGTH = 4096  # characters of a target
_SYSTEM = ("/proc", "/sys", "/dev")
HOW_TO_GET = msg("`holdfast dataset ls` lists yours; an admin grants others with `holdfast dataset grant NAME GROUP`.")
PATH_KEY = ".mountPath"
_OURS = "/run/holdfast"  # where a task's script lies


@dataclass(frozen=True, slots=True)
class Wish:
    name: str
    target: str
    field: str  # where the job says so
    missing: str  # what to say when there is no such dataset
    needs_folder: bool = True  # variables will not do


@dataclass(frozen=True, slots=True)
class Wishes:
    named: tuple[Wish, ...] = ()
    defaults: bool = False  # those that the user gets without naming them


@dataclass(frozen=True, slots=True)
class Stored:
    """A job with its datasets mounted."""

    job: Job
    warnings: tuple[str, ...] = ()


class Storages:
    def __init__(self, datasets: Datasets, mounts: MountRules) -> None:
        self._datasets = datasets
        self._mounts = mounts
        self._looked: dict[tuple[str, str], tuple[float, str]] = {}  # (name, path) -> when, and why it cannot be had

    async def apply(self, job: Job, actor: Actor, wishes: Wishes) -> Stored:
        """The job with what it wishes for mounted; NoDataset for what is not there or not for this user."""
        if job.dialect is Dialect.PRIMEHUB:
            return await self._all_of_group(job, actor.name)
        if not wishes.named and not wishes.defaults:
            return Stored(job)
        granted = {dataset.name: dataset for dataset in await self._datasets.list(actor)}
        chosen = _chosen(wishes, granted)
        _check_granted(job, chosen, granted)
        folders = [wish for wish in chosen if granted[wish.name].kind != ENV]
        mounts = [(wish, await self._mount(wish.target, granted[wish.name], actor.name, job.group)) for wish in folders]
        _check_beside(job, mounts)
        return Stored(_with(job, [mount for _, mount in mounts]))

    async def prepare(self, job: Job, actor: Actor) -> None:
        """Make the users' own folders that the job's mounts need."""
        names = {mount.dataset for role in job.roles for mount in role.mounts if mount.dataset is not None}
        for name in sorted(names):
            dataset = await self._datasets.get(actor, name)
            if not dataset.per_user:
                continue
            try:
                await self._mounts.look([dataset.path], _make_own, dataset, actor.name)
            except Unavailable:
                if job.dialect is not Dialect.PRIMEHUB:  # such a job goes without it when it starts
                    raise

    # -- all that a group has

    async def _all_of_group(self, job: Job, user: str) -> Stored:
        found = [dataset for dataset in await self._datasets.of_group(job.group) if dataset.kind != ENV]
        tried = found[:MAX_UNNAMED]
        answers = await asyncio.gather(*(self._try(dataset, user, job.group) for dataset in tried))
        warnings = [answer for answer in answers if isinstance(answer, str)]
        if len(found) > MAX_UNNAMED:
            names = ", ".join(dataset.name for dataset in found[MAX_UNNAMED:])
            warnings.append(
                msg(
                    "these datasets are left out, since a job can have {most_unnamed}: {names}",
                    most_unnamed=MAX_UNNAMED,
                    names=names,
                )
            )
        return Stored(_with(job, [answer for answer in answers if isinstance(answer, Mount)]), tuple(warnings))

    async def _try(self, dataset: Dataset, user: str, group: str) -> Mount | str:
        """The mount, or why the job goes without it. Not looked at for every job: many may come at once."""
        key = dataset.name, dataset.path
        at, why = self._looked.get(key, (0.0, ""))
        target = f"/mnt/dataset-{dataset.name}" + (f"/{dataset.name}" if dataset.kind == GIT else "")
        if not at or time.monotonic() - at > CACHE_TTL:
            why = await self._why_not(dataset)
            self._looked[key] = time.monotonic(), why
        if why:
            return msg("the dataset {name} is left out: {why}", name=dataset.name, why=why)
        return _mount_of(dataset, target, user, group)

    async def _why_not(self, dataset: Dataset) -> str:
        """Empty when it can be had."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._check(dataset)
        except TimeoutError:
            return msg("it does not answer")
        except UserError as error:
            return error.message
        return ""

    # -- one that a job names

    async def _mount(self, target: str, dataset: Dataset, user: str, group: str) -> Mount:
        await self._check(dataset)
        return _mount_of(dataset, target, user, group)

    async def _check(self, dataset: Dataset) -> None:
        """Unavailable when its folder is not there."""
        await self._datasets.ready(dataset)
        try:
            real = str(await self._mounts.folder(dataset.path))
        except UserError as error:
            raise _gone(dataset, _without_path(error.message, dataset.path)) from error
        if real != dataset.path:
            raise _gone(dataset, msg("a part of its path has become a link"))


def _mount_of(dataset: Dataset, target: str, user: str, group: str) -> Mount:
    """Jobs may write if the dataset is for writing, or their group's link to it is."""
    source = _own_path(dataset, user) if dataset.per_user else dataset.path
    read_only = dataset.kind == GIT or (dataset.read_only and group not in dataset.writable_groups)
    return Mount(source=source, target=target, read_only=read_only, dataset=dataset.name)


def _with(job: Job, mounts: list[Mount]) -> Job:
    if not mounts:
        return job
    return replace(job, roles=tuple(replace(role, mounts=(*role.mounts, *mounts)) for role in job.roles))


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
    if len(named) > MAX_COUNT:
        problems.append(
            Problem(
                "extras.storages",
                msg("names {named} storages; at most {most} are accepted", named=len(named), most=MAX_COUNT),
            )
        )
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
    return Wish(
        name, f"/datasets/{name}", f"datasets[{index}]", msg("There is no dataset {name}", name=name[:100]), False
    )


def _old_wish(index: int, item: Any, problems: list[Problem]) -> Wish:
    field = f"extras.storages[{index}]"
    name = item.get("name") if isinstance(item, Mapping) else None
    path = item.get("mountPath", f"/mnt/{name}") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not isinstance(path, str):
        problems.append(Problem(field, msg("must have a name and a mountPath, both text")))
        return Wish("", "/", field, "")
    field += PATH_KEY
    target = _target(path, field, problems)
    return Wish(name, target, field, msg("Storage {name} is not found.", name=name[:100]))


def _target(path: str, field: str, problems: list[Problem]) -> str:
    target = _normal(path)
    why = None
    if not path.startswith("/"):
        why = msg("is not an absolute path")
    elif len(path) > MAX_LENGTH:
        why = msg("is longer than {longest} characters", longest=MAX_LENGTH)
    elif not path.isprintable():
        why = msg("holds control characters")
    elif ".." in path.split("/"):
        why = msg("must not hold '..'")
    elif target == "/":
        why = msg("would cover the whole file system")
    elif _within(target, _SYSTEM) or _overlap(target, _OURS):
        why = msg("is the system's own")
    if why is not None:
        problems.append(
            Problem(field, join_messages(" ", (repr(path[:100]), why)), msg("Choose a path such as /mnt/data."))
        )
    return target


def _check_apart(wishes: list[Wish], problems: list[Problem]) -> None:
    for index, wish in enumerate(wishes):
        for other in wishes[:index]:
            if _overlap(wish.target, other.target):
                problems.append(
                    Problem(
                        wish.field,
                        msg(
                            "{target} is, holds or lies within {target2}, where {name} is",
                            target=wish.target,
                            target2=other.target,
                            name=other.name,
                        ),
                    )
                )


def _chosen(wishes: Wishes, granted: Mapping[str, Dataset]) -> list[Wish]:
    defaults = [dataset.name for dataset in granted.values() if dataset.default] if wishes.defaults else []
    added = [Wish(name, f"/mnt/{name}", "extras.storages", "") for name in defaults]
    return [*wishes.named, *added]


def _check_granted(job: Job, chosen: list[Wish], granted: Mapping[str, Dataset]) -> None:
    """Of several that a file of ours names, all are told; old clients know one at a time."""
    missing = [
        NoDataset(wish.missing, field=wish.field.removesuffix(PATH_KEY), hint=_instead(wish.name, granted))
        for wish in chosen
        if wish.name not in granted or (wish.needs_folder and granted[wish.name].kind == ENV)
    ]
    if len(missing) > 1 and job.dialect is Dialect.HOLDFAST:
        raise InvalidJob([Problem(error.field or "", error.message, error.hint) for error in missing])
    if missing:
        raise missing[0]


def _instead(name: str, granted: Mapping[str, Dataset]) -> str:
    near = nearest(name, [known for known in granted if known != name])
    return f"{near} {HOW_TO_GET}" if near else HOW_TO_GET


def _check_beside(job: Job, mounts: list[tuple[Wish, Mount]]) -> None:
    """Within a role, nothing may be mounted over or into something else."""
    problems = [
        Problem(
            wish.field,
            msg(
                "{target} is, holds or lies within {target2}, which {name} mounts already",
                target=mount.target,
                target2=own.target,
                name=role.name,
            ),
        )
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
    check_user_name(user, "user")  # it becomes part of a path
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
        raise _gone(
            dataset, msg("the folder of {user} in it cannot be made: {strerror}", user=user, strerror=error.strerror)
        ) from error
    finally:
        os.close(fd)


def _make(name: str, folder: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise NotADirectoryError(0, msg("there is something else of that name")) from None


def _without_path(why: str, path: str) -> str:
    """Where a dataset lies is nothing that its users need to know."""
    return why.replace(f"The folder {path}", path).replace(path, "its folder")


def _gone(dataset: Dataset, why: str) -> Unavailable:
    return Unavailable(
        msg("The dataset {name} cannot be mounted now: {why}", name=dataset.name, why=why),
        hint=msg("Ask an admin: the folder may have moved, or its file system may not be mounted."),
    )
