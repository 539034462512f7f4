"""Mount the datasets that a job requests on all its roles. OpenPAI clients call them storages.

Mounts are computed at every submission and rerun, because grants change; earlier dataset mounts are dropped first.
Admins grant datasets, so the allowlist of mounts by path does not apply here.

Jobs in PrimeHub's format get all datasets of their group; an unavailable one is skipped with a warning. Datasets of
variables may contain passwords and are not stored with a job: they are read when a task starts, and here only the
grant is checked.
"""

from __future__ import annotations

import asyncio
import os
import posixpath
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from holdfast.core.access import Actor
from holdfast.core.errors import InvalidJob, Problem, UserError
from holdfast.core.job import Job, JobFormat, Mount
from holdfast.core.messages import join_messages, msg
from holdfast.core.records import Dataset
from holdfast.core.volumes import LOCAL_KINDS, is_mountable
from holdfast.engines.base import EngineHealth
from holdfast.shared_folders import SharedFolders

from ..errors import DatasetNotFound, Unavailable
from ..name_suggestions import suggest_name
from .kinds import ENV, GIT
from .mount_rules import MountRules
from .service import Datasets
from .volumes import build_dataset_volume, explain_unmountable

MAX_DATASETS = 32  # per job
MAX_GROUP_DATASETS = 44  # per job: engines mount at most 64 folders, including volumes of groups
GROUP_DATASET_TIMEOUT = 5.0  # seconds that a job waits for a dataset of its group
CACHE_TTL = 10.0  # seconds for which the check of such a dataset is cached
MAX_TARGET_LENGTH = 4096  # characters of a target
_SYSTEM_FOLDERS = ("/proc", "/sys", "/dev")
GRANT_HINT = msg(
    "Run `holdfast dataset ls` to list your datasets. Admins can grant more datasets with `holdfast dataset "
    "grant NAME GROUP`."
)
_MISSING_FOLDER_HINT = msg("Ask an admin: the folder may have moved, or its filesystem may not be mounted.")
MOUNT_PATH_SUFFIX = ".mountPath"
_RUNTIME_FOLDER = "/run/holdfast"  # contains the task's script


@dataclass(frozen=True, slots=True)
class DatasetRequest:
    name: str
    target: str
    field: str  # of the job
    missing: str  # error message if the dataset is not found
    needs_folder: bool = True  # not a dataset of variables


@dataclass(frozen=True, slots=True)
class DatasetRequests:
    named: tuple[DatasetRequest, ...] = ()
    include_defaults: bool = False  # also the user's default datasets


@dataclass(frozen=True, slots=True)
class MountedJob:
    """A job with its datasets mounted."""

    job: Job
    warnings: tuple[str, ...] = ()


class DatasetMounter:
    def __init__(
        self, datasets: Datasets, mounts: MountRules, folders: SharedFolders, find_health: Callable[[Job], EngineHealth]
    ) -> None:
        self._datasets = datasets
        self._mounts = mounts
        self._folders = folders
        self._find_health = find_health  # of the engine that would run a job
        self._check_cache: dict[
            tuple[str, str, str], tuple[float, str]
        ] = {}  # (name, path, engine) -> time of the check, and its error

    async def mount_datasets(self, job: Job, actor: Actor, requests: DatasetRequests) -> MountedJob:
        """Return the job with the requested datasets mounted; raise NoDataset if one is not found or not granted."""
        if job.dialect is JobFormat.PRIMEHUB:
            return await self._mount_group_datasets(job, actor.name)
        if not requests.named and not requests.include_defaults:
            return MountedJob(job)
        granted = {dataset.name: dataset for dataset in await self._datasets.list(actor)}
        chosen = _list_requests(requests, granted)
        _check_granted(job, chosen, granted)
        folders = [request for request in chosen if granted[request.name].kind != ENV]
        mounts = []
        for request in folders:
            dataset = granted[request.name]
            await self._check_volume(dataset, job)
            mounts.append((request, self._build_mount(dataset, request.target, actor.name, job.group)))
        _check_role_overlaps(job, mounts)
        return MountedJob(_add_mounts(job, [mount for _, mount in mounts]))

    async def create_user_folders(self, job: Job, actor: Actor) -> None:
        names = {mount.dataset for role in job.roles for mount in role.mounts if mount.dataset is not None}
        for name in sorted(names):
            dataset = await self._datasets.get(actor, name)
            if not dataset.per_user:
                continue
            if not dataset.path:
                raise _build_unavailable_error(dataset, msg("folders of users need it mounted on this server"))
            folder = build_dataset_volume(dataset, actor.name, self._folders).folder
            try:
                await self._mounts.run_guarded([dataset.path], _create_user_folder, dataset, folder)
            except Unavailable:
                if job.dialect is not JobFormat.PRIMEHUB:  # such a job starts without the dataset
                    raise

    # -- all datasets of a group

    async def _mount_group_datasets(self, job: Job, user: str) -> MountedJob:
        found = [dataset for dataset in await self._datasets.list_group_datasets(job.group) if dataset.kind != ENV]
        tried = found[:MAX_GROUP_DATASETS]
        answers = await asyncio.gather(*(self._try_mount(dataset, user, job) for dataset in tried))
        warnings = [answer for answer in answers if isinstance(answer, str)]
        if len(found) > MAX_GROUP_DATASETS:
            names = ", ".join(dataset.name for dataset in found[MAX_GROUP_DATASETS:])
            warnings.append(
                msg(
                    "these datasets are not mounted, because a job can mount at most {max_unnamed}: {names}",
                    max_unnamed=MAX_GROUP_DATASETS,
                    names=names,
                )
            )
        return MountedJob(
            _add_mounts(job, [answer for answer in answers if isinstance(answer, Mount)]), tuple(warnings)
        )

    async def _try_mount(self, dataset: Dataset, user: str, job: Job) -> Mount | str:
        """Return the mount, or a warning why it is skipped. The check is cached: many jobs may arrive at once."""
        key = dataset.name, dataset.path, self._find_health(job).name
        at, why = self._check_cache.get(key, (0.0, ""))
        target = f"/mnt/dataset-{dataset.name}" + (f"/{dataset.name}" if dataset.kind == GIT else "")
        if not at or time.monotonic() - at > CACHE_TTL:
            why = await self._find_mount_error(dataset, job)
            self._check_cache[key] = time.monotonic(), why
        if why:
            return msg("the dataset {name} is not mounted: {why}", name=dataset.name, why=why)
        return self._build_mount(dataset, target, user, job.group)

    async def _find_mount_error(self, dataset: Dataset, job: Job) -> str:
        """Return why it cannot be mounted; empty if it can."""
        try:
            async with asyncio.timeout(GROUP_DATASET_TIMEOUT):
                await self._check_volume(dataset, job)
        except TimeoutError:
            return msg("it is not responding")
        except UserError as error:
            return error.message
        return ""

    async def _check_volume(self, dataset: Dataset, job: Job) -> None:
        """Raise Unavailable if the engine cannot mount it, or its folder is missing."""
        await self._datasets.wait_until_ready(dataset)
        health = self._find_health(job)
        volume = build_dataset_volume(replace(dataset, per_user=False), "", self._folders)
        if not is_mountable(volume, health.volume_kinds):
            why, hint = explain_unmountable(volume, health)
            raise _build_unavailable_error(dataset, why, hint)
        if volume.kind in health.volume_kinds - LOCAL_KINDS:
            return  # the engine mounts it from where it is
        try:
            real = str(await self._mounts.resolve_dataset_folder(dataset.path))
        except UserError as error:
            raise _build_unavailable_error(dataset, _hide_path(error.message, dataset.path)) from error
        if real != dataset.path:
            raise _build_unavailable_error(dataset, msg("a part of its path is now a symbolic link"))

    def _build_mount(self, dataset: Dataset, target: str, user: str, group: str) -> Mount:
        """Build a mount, writable if the dataset or the group's grant is writable."""
        volume = build_dataset_volume(dataset, user, self._folders)
        read_only = dataset.kind == GIT or (dataset.read_only and group not in dataset.writable_groups)
        return Mount(volume=volume, target=target, read_only=read_only, dataset=dataset.name)


def _add_mounts(job: Job, mounts: list[Mount]) -> Job:
    if not mounts:
        return job
    return replace(job, roles=tuple(replace(role, mounts=(*role.mounts, *mounts)) for role in job.roles))


def remove_dataset_mounts(job: Job) -> Job:
    if not any(mount.dataset is not None for role in job.roles for mount in role.mounts):
        return job
    roles = (replace(role, mounts=tuple(mount for mount in role.mounts if mount.dataset is None)) for role in job.roles)
    return replace(job, roles=tuple(roles))


# -- requests of a job


def parse_dataset_requests(job: Job) -> DatasetRequests:
    """Read the datasets that a job requests; raise InvalidJob for an invalid target."""
    storages = _get_storages(job)
    problems: list[Problem] = []
    named = [_request_from_name(index, name) for index, name in enumerate(job.datasets)]
    named += [_request_from_storage(index, item, problems) for index, item in enumerate(storages or ())]
    if len(named) > MAX_DATASETS:
        problems.append(
            Problem(
                "extras.storages",
                msg("lists {named} storages; at most {limit} are allowed", named=len(named), limit=MAX_DATASETS),
            )
        )
    if not problems:
        _add_overlap_problems(named, problems)
    if problems:
        raise InvalidJob(problems)
    return DatasetRequests(tuple(named), include_defaults=storages == [])


def _get_storages(job: Job) -> list[Any] | None:
    """Return the storages of an OpenPAI file; in other formats the value is unchecked."""
    leftovers = job.extras.get("openpai")
    storages = leftovers.get("storages") if isinstance(leftovers, Mapping) else None
    return storages if isinstance(storages, list) else None


def _request_from_name(index: int, name: str) -> DatasetRequest:
    return DatasetRequest(
        name, f"/datasets/{name}", f"datasets[{index}]", msg("Dataset {name} not found", name=name[:100]), False
    )


def _request_from_storage(index: int, item: Any, problems: list[Problem]) -> DatasetRequest:
    field = f"extras.storages[{index}]"
    name = item.get("name") if isinstance(item, Mapping) else None
    path = item.get("mountPath", f"/mnt/{name}") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not isinstance(path, str):
        problems.append(Problem(field, msg("must have a name and a mountPath, both strings")))
        return DatasetRequest("", "/", field, "")
    field += MOUNT_PATH_SUFFIX
    target = _parse_target(path, field, problems)
    return DatasetRequest(name, target, field, msg("Storage {name} is not found.", name=name[:100]))


def _parse_target(path: str, field: str, problems: list[Problem]) -> str:
    target = _normalize_path(path)
    why = None
    if not path.startswith("/"):
        why = msg("is not an absolute path")
    elif len(path) > MAX_TARGET_LENGTH:
        why = msg("is longer than {max_length} characters", max_length=MAX_TARGET_LENGTH)
    elif not path.isprintable():
        why = msg("contains control characters")
    elif ".." in path.split("/"):
        why = msg("must not contain '..'")
    elif target == "/":
        why = msg("would cover the whole filesystem")
    elif _is_within(target, _SYSTEM_FOLDERS) or _is_overlapping(target, _RUNTIME_FOLDER):
        why = msg("is reserved for the system")
    if why is not None:
        problems.append(
            Problem(field, join_messages(" ", (repr(path[:100]), why)), msg("Choose a path such as /mnt/data."))
        )
    return target


def _add_overlap_problems(requests: list[DatasetRequest], problems: list[Problem]) -> None:
    for index, request in enumerate(requests):
        for other in requests[:index]:
            if _is_overlapping(request.target, other.target):
                problems.append(
                    Problem(
                        request.field,
                        msg(
                            "{target} overlaps with {other_target}, the mount path of {name}",
                            target=request.target,
                            other_target=other.target,
                            name=other.name,
                        ),
                    )
                )


def _list_requests(requests: DatasetRequests, granted: Mapping[str, Dataset]) -> list[DatasetRequest]:
    defaults = [dataset.name for dataset in granted.values() if dataset.default] if requests.include_defaults else []
    added = [DatasetRequest(name, f"/mnt/{name}", "extras.storages", "") for name in defaults]
    return [*requests.named, *added]


def _check_granted(job: Job, chosen: list[DatasetRequest], granted: Mapping[str, Dataset]) -> None:
    """Report all missing datasets of a Holdfast file; OpenPAI clients accept only one error."""
    missing = [
        DatasetNotFound(
            request.missing,
            field=request.field.removesuffix(MOUNT_PATH_SUFFIX),
            hint=_suggest_dataset(request.name, granted),
        )
        for request in chosen
        if request.name not in granted or (request.needs_folder and granted[request.name].kind == ENV)
    ]
    if len(missing) > 1 and not job.dialect.emulates_platform:
        raise InvalidJob([Problem(error.field or "", error.message, error.hint) for error in missing])
    if missing:
        raise missing[0]


def _suggest_dataset(name: str, granted: Mapping[str, Dataset]) -> str:
    near = suggest_name(name, [known for known in granted if known != name])
    return f"{near} {GRANT_HINT}" if near else GRANT_HINT


def _check_role_overlaps(job: Job, mounts: list[tuple[DatasetRequest, Mount]]) -> None:
    problems = [
        Problem(
            request.field,
            msg(
                "{target} overlaps with {other_target}, which {name} already mounts",
                target=mount.target,
                other_target=own.target,
                name=role.name,
            ),
        )
        for role in job.roles
        for own in role.mounts
        for request, mount in mounts
        if _is_overlapping(mount.target, _normalize_path(own.target))
    ]
    if problems:
        raise InvalidJob(problems)


def _normalize_path(path: str) -> str:
    return "/" + posixpath.normpath(path).lstrip("/")


def _is_overlapping(one: str, other: str) -> bool:
    return _is_within(one, (other,)) or _is_within(other, (one,))


def _is_within(path: str, folders: tuple[str, ...]) -> bool:
    """Return whether the path is one of the folders or below one."""
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


# -- per-user folders


def _create_user_folder(dataset: Dataset, folder: str) -> None:
    """Create the folder without following symbolic links, which users may have put on the path."""
    parts = PurePosixPath(folder).parts
    user = parts[-1]
    fd = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[1:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            os.close(fd)
            fd = below
        _create_folder(user, fd)
    except OSError as error:
        raise _build_unavailable_error(
            dataset, msg("its folder for {user} cannot be created: {error}", user=user, error=error.strerror)
        ) from error
    finally:
        os.close(fd)


def _create_folder(name: str, folder: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise NotADirectoryError(0, msg("a file with this name already exists")) from None


def _hide_path(why: str, path: str) -> str:
    """Remove the path of a dataset, which is not shown to users."""
    return why.replace(f"The folder {path}", path).replace(path, "its folder")


def _build_unavailable_error(dataset: Dataset, why: str, hint: str = _MISSING_FOLDER_HINT) -> Unavailable:
    return Unavailable(msg("The dataset {name} cannot be mounted now: {why}", name=dataset.name, why=why), hint=hint)
