"""What OpenPAI files say under `extras`: placement, priority, runtime plugins, storages, and our own `holdfast`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.core.job import Hold
from holdfast.core.messages import msg
from holdfast.core.notifications import Notify

from .fields import At, Fields, Key, Kind, Wrong, guess_or_list
from .holdfast_keys import HOLD
from .kinds import BOOLEAN, DURATION_KIND, NONE, OBJECT, choice, list_of, object_of, or_none, text
from .notifying import NOTIFY, joined, read_status_mails
from .openpai_prerequisites import PLUGIN_PREFIX, warn_of_unknown_plugin
from .paths import clip

# OpenPAI's own numbers. A job that names no class has 0, as in every other dialect.
PRIORITIES = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}

_LABEL = text(most=1024)
_LABELS = list_of(_LABEL)
_HOLDFAST = object_of(
    {
        "hold": Key(HOLD, msg("Keep a failed task for debugging; false: not even where the group does.")),
        "time_limit": Key(or_none(DURATION_KIND), msg("How long the job may run.")),
        "grace": Key(DURATION_KIND, msg("Time between the polite and the forced stop.")),
        "notify": Key(NOTIFY, msg("Who is told of what.")),
    }
)


@dataclass(slots=True)
class Extras:
    gang: bool = True
    priority: int = 0
    hold: Hold | None = None
    time_limit: timedelta | None = None
    grace: timedelta | None = None
    notify: tuple[Notify, ...] = ()
    plugins: list[dict[str, Any]] = field(default_factory=list)
    storages: list[dict[str, Any]] | None = None  # None: not asked for; []: the user's default ones


def read_extras(at: At, roles: Collection[str]) -> Extras:
    """Keys that mean something here; all others are tolerated."""
    fields = Fields(at)
    extras = Extras(gang=fields.take("gangAllocation", BOOLEAN, True))
    scheduler = fields.get("hivedScheduler")
    if scheduler is not None:
        extras.priority = scheduler.apply(lambda at: _read_scheduler(at, roles), 0)
    plugins = fields.get(PLUGIN_PREFIX)
    if plugins is not None:
        extras.plugins = plugins.apply(lambda at: _read_plugins(at, roles), [])
    extras.storages = _storages(fields, extras.plugins)
    read_our_extras(fields, extras)
    return extras


def read_our_extras(fields: Fields, extras: Extras) -> None:
    ours = fields.take("holdfast", _HOLDFAST, {})
    extras.hold = ours.get("hold")
    extras.time_limit = timedelta(0) if ours.get("time_limit") is NONE else ours.get("time_limit")
    extras.grace = ours.get("grace")
    mails = fields.get("jobStatusChangeNotification")
    extras.notify = joined([*(mails.apply(read_status_mails, ()) if mails else ()), *ours.get("notify", ())])


def _read_scheduler(at: At, roles: Collection[str]) -> int:
    fields = Fields(at)
    priority = fields.take("jobPriorityClass", choice(*PRIORITIES), None)
    for key in ("gangReleaseEnable", "lazyPreemptionEnable", "ignoreK8sSuggestedNodes"):
        fields.take(key, BOOLEAN, None)
    cells = fields.get("taskRoles")
    for name, cell in (cells.apply(At.entries, {}) if cells else {}).items():
        if name not in roles:
            hint = partial(guess_or_list, name, roles)
            cell.problem(msg("is not a task role of this job"), hint, rule="placement", expected=name)
        cell.apply(_check_cell, None)
    return PRIORITIES[priority] if priority else 0


def _check_cell(at: At) -> None:
    fields = Fields(at)
    named = [key for key in ("skuType", "pinnedCellId") if fields.take(key, _LABEL, None) is not None]
    fields.take("affinityGroupName", _LABEL, None)
    if len(named) == 2:
        raise Wrong(msg("has both skuType and pinnedCellId"), msg("Keep one of the two."), rule="placement")


def _read_plugins(at: At, roles: Collection[str]) -> list[dict[str, Any]]:
    calls = (item.apply(lambda item: _read_plugin(item, roles), None) for item in at.items())
    return [call for call in calls if call is not None]


def _read_plugin(at: At, roles: Collection[str]) -> dict[str, Any]:
    fields = Fields(at)
    chosen, named = fields.get("taskroles"), fields.get("plugin")
    if named is not None:
        warn_of_unknown_plugin(named, named.node.value)
    return {
        "plugin": fields.need("plugin", _LABEL, ""),
        "parameters": fields.take("parameters", OBJECT, {}),
        "failurePolicy": fields.take("failurePolicy", choice("fail", "ignore"), "fail"),
        **({"taskroles": _known_roles(chosen, roles)} if chosen else {}),
    }


def _known_roles(at: At, roles: Collection[str]) -> list[str]:
    names = list(at.read(_LABELS, ()))
    for name in names:
        if name not in roles:
            hint = partial(guess_or_list, name, roles)
            at.warn(msg("names {name}, which is not a task role of this job", name=repr(clip(name))), hint)
    return names


def _read_storage(at: At) -> dict[str, Any]:
    fields = Fields(at)
    name = fields.need("name", _LABEL, "")
    return {"name": name, "mountPath": fields.take("mountPath", _LABEL, f"/mnt/{name}")}


_STORAGES = list_of(Kind(_read_storage, {}))


def _storages(fields: Fields, plugins: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    if fields.has("storages"):
        return list(fields.take("storages", _STORAGES, ()))
    team = next((call for call in plugins if call["plugin"] == "teamwise_storage"), None)
    if team is None:
        return None
    # Before `storages` existed, this plugin named them.
    names = team["parameters"].get("storageConfigNames")
    wanted = names if isinstance(names, list) else []
    return [{"name": name, "mountPath": f"/mnt/{name}"} for name in wanted if isinstance(name, str)]
