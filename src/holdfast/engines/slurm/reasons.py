"""Why Slurm does not run a job: its pending reasons and its refusals, in plain words. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from holdfast.core.messages import join_messages, msg

_ESTIMATE_STEP = timedelta(minutes=10)
_NEAR_ESTIMATE = timedelta(hours=6)  # estimates that are shown to 10 minutes; others to the hour
_MAX_ESTIMATE = timedelta(days=7)  # Slurm adds up the time limits of all jobs before it


class WaitClass(StrEnum):
    WAIT = "wait"  # it starts by itself
    NEVER = "never"  # it cannot start as it is
    ACT = "act"  # a user or an admin must act on the cluster


# By a part of the reason; the first that fits, so `Job` is last: it is in `PerJob`, too.
_RESOURCES = {"Cpu": "CPUs", "Mem": "memory", "GRES": "GPUs", "Node": "nodes", "Wall": "time", "Job": "jobs"}
_MAINTENANCE = "Reserved for maintenance"  # a detail of ReqNodeNotAvail
_WAIT_TEXTS = {
    "Resources": msg("Waits in Slurm for free resources"),
    "Priority": msg("Waits in Slurm: other jobs have a higher priority"),
    "Dependency": msg("Waits in Slurm for another job, such as an earlier submission of the same task"),
    "BeginTime": msg("Waits in Slurm for its start time"),
    "Licenses": msg("Waits in Slurm for a license"),
    "Reservation": msg("Waits in Slurm for its reservation"),
    "NodeDown": msg("Waits in Slurm: a node that it needs is down"),
    "Nodes required for job are DOWN": msg(
        "Waits in Slurm: nodes that it needs are down, drained or reserved for partitions with a higher priority"
    ),
    _MAINTENANCE: msg(
        "Waits in Slurm: its nodes are reserved for maintenance. A shorter time limit may fit before it."
    ),
    "BurstBufferResources": msg("Waits in Slurm for space in a burst buffer"),
    "BurstBufferStageIn": msg("Waits in Slurm: a burst buffer is filled"),
    "Prolog": msg("Waits in Slurm: its nodes are prepared"),
    "Cleaning": msg("Waits in Slurm: its earlier run is cleaned up"),
    "JobArrayTaskLimit": msg("Waits in Slurm for free resources"),
}
_NEVER_TEXTS = {
    "PartitionConfig": msg("The partition never has what this task requests. Request less, or choose another."),
    "PartitionNodeLimit": msg("The task requests more nodes than its partition allows. Choose another partition."),
    "PartitionTimeLimit": msg("The time limit is longer than the partition allows. Shorten it."),
    "BadConstraints": msg("No node of the cluster fulfils the constraint. Change `constraint`."),
    "DependencyNeverSatisfied": msg("Slurm waits for a job that can never succeed."),
    "InvalidAccount": msg("The account is not valid. Change `account`."),
    "InvalidQOS": msg("The QOS is not valid. Change `qos`."),
    "AccountNotAllowed": msg("The partition does not allow this account. Change `account`."),
    "QOSNotAllowed": msg("The partition does not allow this QOS. Change `qos`."),
    "ReservationDeleted": msg("The reservation was deleted. Change `reservation`."),
}
_ACT_TEXTS = {
    "JobHeldAdmin": msg("An admin holds the job in Slurm. Ask for its release: `scontrol release`."),
    "JobHeldUser": msg("The job is held in Slurm. Release it: `scontrol release`."),
    "PartitionDown": msg("The partition is down. Ask an admin of the cluster."),
    "PartitionInactive": msg("The partition is inactive. Ask an admin of the cluster."),
    "ReqNodeNotAvail": msg("Nodes that it needs are down, drained or reserved. Ask an admin of the cluster."),
    "launch failed requeued held": msg("Slurm could not start it, and holds it. Ask an admin of the cluster."),
    "job requeued in held state": msg(
        "Slurm put it back into the queue, and holds it. Release it: `scontrol release`."
    ),
    "JobHoldMaxRequeue": msg("Slurm could not start it, and holds it. Ask an admin of the cluster."),
    "FrontEndDown": msg("The front end of the cluster is down. Ask an admin of the cluster."),
}
_NODES_PATTERN = re.compile(r"UnavailableNodes:(\S+)")
_JOB_LIMIT_PATTERN = re.compile(r"(?:QOS|Assoc)(?:Max\w*Per(?:Job|Node)|Min)\w*")  # one that a job alone exceeds
_LIMIT_PATTERN = re.compile(r"(?:Assoc|QOS)(?:Grp|Max)?\w*|Max\w+PerAccount")

# What sbatch prints when the same request would fail again.
_REFUSALS = (
    ("Memory specification can not be satisfied", msg("No node has that much memory. Request less.")),
    ("CPU count per node can not be satisfied", msg("No node has that many CPUs. Request fewer.")),
    ("Requested node configuration is not available", msg("No node has what the task requests. Request less.")),
    ("Node count specification invalid", msg("The cluster does not have that many nodes.")),
    ("Invalid node name specified", msg("A node name is not valid.")),
    ("Invalid generic resource (gres) specification", msg("No node has these GPUs. Change the request, or `gres`.")),
    ("Invalid partition name specified", msg("The partition does not exist. Change `partition`.")),
    ("invalid partition specified", msg("The partition does not exist. Change `partition`.")),
    ("Invalid account", msg("The account is not valid for this partition. Change `account`.")),
    ("Invalid qos specification", msg("The QOS is not valid. Change `qos`.")),
    ("Invalid feature specification", msg("No node has this feature. Change `constraint`.")),
    ("Requested reservation is invalid", msg("The reservation is not valid. Change `reservation`.")),
    ("Requested time limit is invalid", msg("The partition does not allow this time limit. Shorten it.")),
    ("Invalid license specification", msg("The cluster does not have these licenses.")),
    ("Requested partition configuration not available", msg("The partition cannot run this task now.")),
    ("Job violates accounting/QOS policy", msg("It exceeds a limit of the account or the QOS. Request less.")),
    ("Access/permission denied", msg("Slurm does not allow this user to submit the job.")),
    ("Invalid user id", msg("The partition does not allow this user. Change `partition`.")),
    ("User's group not permitted", msg("The partition does not allow this user's group.")),
    ("Invalid --", msg("An option of the job is not valid.")),
    ("unrecognized option", msg("An option of the job is not valid.")),
)
# What sbatch prints when the same request may succeed later.
_LATER_REFUSALS = (
    ("SubmitJob", msg("A limit of jobs that wait in Slurm is reached: of this user, the account or the QOS.")),
    ("Required partition not available", msg("The partition takes no jobs now. Ask an admin of the cluster.")),
)
_TOO_LARGE_MARKS = tuple(mark for mark, _ in _REFUSALS[:4])


def classify_reason(reason: str) -> WaitClass:
    key = _get_key(reason)
    if key in _NEVER_TEXTS or _JOB_LIMIT_PATTERN.fullmatch(key):
        return WaitClass.NEVER
    return WaitClass.ACT if key in _ACT_TEXTS else WaitClass.WAIT


def needs_resources(reason: str) -> bool:
    """Return whether it waits for what other jobs use."""
    return _get_key(reason) in ("", "Resources", "Priority", "JobArrayTaskLimit", "Nodes required for job are DOWN")


def find_unavailable_nodes(reason: str) -> str:
    """Return the nodes that it waits for, as Slurm lists them; empty if it names none."""
    found = _NODES_PATTERN.search(reason)
    return found[1] if found else ""


def _get_key(reason: str) -> str:
    """Return the reason without its details."""
    if _MAINTENANCE in reason:
        return _MAINTENANCE
    return reason.partition(",")[0].strip()


def describe_reason(reason: str, start_at: datetime | None = None, now: datetime | None = None) -> str:
    """Return why a job is pending, in a sentence, with Slurm's estimate of its start."""
    key = _get_key(reason)
    text = _describe_key(key)
    if classify_reason(reason) is WaitClass.NEVER:
        return msg("Slurm will never start it as it is: {text}", text=text)
    if start_at is None or now is None or classify_reason(reason) is not WaitClass.WAIT:
        return text
    estimate = round_estimate(start_at, now)
    if estimate is None:
        return text
    shown = msg("expected start: {time}", time=estimate.strftime("%Y-%m-%d %H:%M UTC"))
    return join_messages("; ", (text, shown))


def _describe_key(key: str) -> str:
    text = _WAIT_TEXTS.get(key) or _NEVER_TEXTS.get(key) or _ACT_TEXTS.get(key)
    if text is not None:
        return text
    if _LIMIT_PATTERN.fullmatch(key):
        return _describe_limit(key)
    return msg("Waits in Slurm ({reason})", reason=key) if key else msg("Waits in Slurm's queue")


def _describe_limit(key: str) -> str:
    what = next((name for mark, name in _RESOURCES.items() if mark in key.partition("Per")[0]), "")
    if key.startswith("QOSMin"):
        return msg("Its QOS is for larger jobs only ({reason}). Change `qos`, or request more.", reason=what or key)
    if not _JOB_LIMIT_PATTERN.fullmatch(key):
        return msg("Waits in Slurm: a limit of its account or QOS is reached ({reason})", reason=what or key)
    return msg(
        "It requests more {what} than a limit of its account or QOS allows ({reason}). Request less.",
        what=what or "resources",
        reason=key,
    )


def round_estimate(start_at: datetime, now: datetime) -> datetime | None:
    """Round up Slurm's estimate, which changes all the time; None if it is long ago, or too far away to be useful."""
    distance = start_at - now
    if not -_ESTIMATE_STEP < distance < _MAX_ESTIMATE:
        return None
    step = _ESTIMATE_STEP if distance < _NEAR_ESTIMATE else timedelta(hours=1)
    seconds = int(step.total_seconds())
    return datetime.fromtimestamp(-(-int(start_at.timestamp()) // seconds) * seconds, UTC)


def is_refusal(text: str) -> bool:
    """Return whether sbatch rejected the job itself, so that a retry would fail the same way."""
    return not may_succeed_later(text) and any(mark in text for mark, _ in _REFUSALS)


def may_succeed_later(text: str) -> bool:
    """Return whether sbatch rejected the job for now only."""
    return any(mark in text for mark, _ in _LATER_REFUSALS)


def is_too_large(text: str) -> bool:
    """Return whether sbatch rejected the job because no node, or not the whole cluster, has what it requests."""
    return any(mark in text for mark in _TOO_LARGE_MARKS)


def describe_refusal(text: str) -> str:
    """Return what to change, and Slurm's own words."""
    known = (*_LATER_REFUSALS, *_REFUSALS)
    advice = next((advice for mark, advice in known if mark in text), msg("Slurm does not accept the job."))
    *details, words = text.split("sbatch: error: ")
    words = words.removeprefix("Batch job submission failed: ")
    limit = next((found[0] for each in details if (found := _LIMIT_PATTERN.fullmatch(each.strip()))), "")
    if limit:  # which one, in a line of its own before the error
        words = f"{limit}: {words}"
    return join_messages(" ", (advice, msg("Slurm: {text}", text=words)))
