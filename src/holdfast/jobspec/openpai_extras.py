"""The `extras` of OpenPAI files: placement, priority, runtime plugins, storages, and our own `holdfast`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any

from holdfast.core.job import Hold, Role
from holdfast.core.messages import msg
from holdfast.core.notifications import NotifySpec
from holdfast.core.slurm_options import QUEUE_OPTION_NAMES, SLURM_ENGINE

from .fields import FieldKind, Fields, FieldSpec, FieldValue, InvalidValue, build_name_hint
from .holdfast_keys import HOLD_KIND, SLURM_KEYS
from .kinds import (
    BOOLEAN_KIND,
    DURATION_KIND,
    NONE_KEYWORD,
    OBJECT_KIND,
    make_choice_kind,
    make_list_kind,
    make_object_kind,
    make_optional_kind,
    make_text_kind,
)
from .notify import NOTIFY_KIND, merge_notify, read_status_mails
from .openpai_prerequisites import PLUGIN_PREFIX, warn_unknown_plugin
from .paths import clip_text
from .rules import ENGINE_KIND

# OpenPAI's numbers. A job without a class has 0, as in all file formats.
PRIORITY_CLASSES = {"crit": 120, "prod": 100, "test": 10, "oppo": -1}

_LABEL_KIND = make_text_kind(most=1024)
_LABELS_KIND = make_list_kind(_LABEL_KIND)
_HOLDFAST_KIND = make_object_kind(
    {
        "hold": FieldSpec(HOLD_KIND, msg("Hold failed tasks for debugging; false disables the group's hold.")),
        "time_limit": FieldSpec(make_optional_kind(DURATION_KIND), msg("Maximum run time of the job.")),
        "grace": FieldSpec(DURATION_KIND, msg("Time between SIGTERM and SIGKILL when a task is stopped.")),
        "notify": FieldSpec(NOTIFY_KIND, msg("Notifications for the job.")),
        "engine": FieldSpec(ENGINE_KIND, msg("Engine that runs the job, such as docker.")),
        SLURM_ENGINE: FieldSpec(
            make_object_kind({name: SLURM_KEYS[name] for name in QUEUE_OPTION_NAMES}),  # gres: that of the SKU type
            msg("Options for Slurm, if its engine runs the job."),
        ),
    }
)


@dataclass(slots=True)
class OpenpaiExtras:
    gang: bool = True
    priority: int = 0
    hold: Hold | None = None
    time_limit: timedelta | None = None
    grace: timedelta | None = None
    notify: tuple[NotifySpec, ...] = ()
    engine: str = ""
    slurm: dict[str, str] = field(default_factory=dict)
    plugins: list[dict[str, Any]] = field(default_factory=list)
    storages: list[dict[str, Any]] | None = None  # None: not requested; []: the user's default ones


def read_extras(at: FieldValue, roles: Collection[str]) -> OpenpaiExtras:
    """Read supported keys; all others are ignored."""
    fields = Fields(at)
    extras = OpenpaiExtras(gang=fields.read_optional("gangAllocation", BOOLEAN_KIND, True))
    scheduler = fields.get_field("hivedScheduler")
    if scheduler is not None:
        extras.priority = scheduler.apply_reader(lambda at: _read_scheduler_priority(at, roles), 0)
    plugins = fields.get_field(PLUGIN_PREFIX)
    if plugins is not None:
        extras.plugins = plugins.apply_reader(lambda at: _read_plugins(at, roles), [])
    extras.storages = _collect_storages(fields, extras.plugins)
    read_holdfast_extras(fields, extras)
    return extras


def read_holdfast_extras(fields: Fields, extras: OpenpaiExtras) -> None:
    ours = fields.read_optional("holdfast", _HOLDFAST_KIND, {})
    extras.hold = ours.get("hold")
    extras.engine = ours.get("engine", "")
    extras.slurm = ours.get(SLURM_ENGINE, {})
    extras.time_limit = timedelta(0) if ours.get("time_limit") is NONE_KEYWORD else ours.get("time_limit")
    extras.grace = ours.get("grace")
    mails = fields.get_field("jobStatusChangeNotification")
    extras.notify = merge_notify(
        [*(mails.apply_reader(read_status_mails, ()) if mails else ()), *ours.get("notify", ())]
    )


def add_slurm_options(roles: Iterable[Role], extras: OpenpaiExtras) -> tuple[Role, ...]:
    options = {SLURM_ENGINE: extras.slurm} if extras.slurm else {}
    return tuple(replace(role, engine_options=options) for role in roles)


def _read_scheduler_priority(at: FieldValue, roles: Collection[str]) -> int:
    fields = Fields(at)
    priority = fields.read_optional("jobPriorityClass", make_choice_kind(*PRIORITY_CLASSES), None)
    for key in ("gangReleaseEnable", "lazyPreemptionEnable", "ignoreK8sSuggestedNodes"):
        fields.read_optional(key, BOOLEAN_KIND, None)
    cells = fields.get_field("taskRoles")
    for name, cell in (cells.apply_reader(FieldValue.get_entries, {}) if cells else {}).items():
        if name not in roles:
            hint = partial(build_name_hint, name, roles)
            cell.add_problem(msg("is not a task role of this job"), hint, rule="placement", expected=name)
        cell.apply_reader(_check_cell, None)
    return PRIORITY_CLASSES[priority] if priority else 0


def _check_cell(at: FieldValue) -> None:
    fields = Fields(at)
    named = [key for key in ("skuType", "pinnedCellId") if fields.read_optional(key, _LABEL_KIND, None) is not None]
    fields.read_optional("affinityGroupName", _LABEL_KIND, None)
    if len(named) == 2:
        raise InvalidValue(msg("has both skuType and pinnedCellId"), msg("Remove one of the two."), rule="placement")


def _read_plugins(at: FieldValue, roles: Collection[str]) -> list[dict[str, Any]]:
    calls = (item.apply_reader(lambda item: _read_plugin(item, roles), None) for item in at.list_items())
    return [call for call in calls if call is not None]


def _read_plugin(at: FieldValue, roles: Collection[str]) -> dict[str, Any]:
    fields = Fields(at)
    chosen, named = fields.get_field("taskroles"), fields.get_field("plugin")
    if named is not None:
        warn_unknown_plugin(named, named.node.value)
    return {
        "plugin": fields.read_required("plugin", _LABEL_KIND, ""),
        "parameters": fields.read_optional("parameters", OBJECT_KIND, {}),
        "failurePolicy": fields.read_optional("failurePolicy", make_choice_kind("fail", "ignore"), "fail"),
        **({"taskroles": _read_known_roles(chosen, roles)} if chosen else {}),
    }


def _read_known_roles(at: FieldValue, roles: Collection[str]) -> list[str]:
    names = list(at.read_as_kind(_LABELS_KIND, ()))
    for name in names:
        if name not in roles:
            hint = partial(build_name_hint, name, roles)
            at.add_warning(
                msg("refers to {name}, which is not a task role of this job", name=repr(clip_text(name))), hint
            )
    return names


def _read_storage(at: FieldValue) -> dict[str, Any]:
    fields = Fields(at)
    name = fields.read_required("name", _LABEL_KIND, "")
    return {"name": name, "mountPath": fields.read_optional("mountPath", _LABEL_KIND, f"/mnt/{name}")}


_STORAGES_KIND = make_list_kind(FieldKind(_read_storage, {}))


def _collect_storages(fields: Fields, plugins: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    if fields.has_key("storages"):
        return list(fields.read_optional("storages", _STORAGES_KIND, ()))
    team = next((call for call in plugins if call["plugin"] == "teamwise_storage"), None)
    if team is None:
        return None
    # The form of storages before `storages` existed.
    names = team["parameters"].get("storageConfigNames")
    wanted = names if isinstance(names, list) else []
    return [{"name": name, "mountPath": f"/mnt/{name}"} for name in wanted if isinstance(name, str)]
