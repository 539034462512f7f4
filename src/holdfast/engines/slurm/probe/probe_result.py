"""What a probe job found on a node, and what that means for tasks. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from holdfast.core.conditions import Condition, ConditionKind
from holdfast.core.messages import join_messages, msg

NO_FOLDER_CODE, NOT_WRITABLE_CODE = FOLDER_CODES = 40, 41  # of runtime/slurm_probe.sh
MAX_OUTPUT_SIZE = 16 * 1024  # characters
_MAX_CLOCK_DIFFERENCE = 10  # seconds
_MAX_NAMED_USERS = 10
_MIN_PYTHON = (3, 8)  # of file transfers in sessions
_TOOL_LABELS = {"bwrap": "bubblewrap", "apptainer": "Apptainer", "singularity": "Singularity", "enroot": "Enroot"}
_TOOLS = frozenset({"nsenter", "unshare", "setpriv", "bash", "namespaces", *_TOOL_LABELS})


class ProbeState(StrEnum):
    UNKNOWN = "unknown"  # it has not run, for example because the cluster is full
    PASSED = "passed"
    FAILED = "failed"


class Problem(StrEnum):
    REFUSED = "refused"  # Slurm does not accept a job with the options of the settings
    NO_FOLDER = "no-folder"  # the node does not see the server's files
    NOT_WRITABLE = "not-writable"
    NOT_RETURNED = "not-returned"  # the server does not see the node's files
    NO_CONNECTION = "no-connection"  # jobs run, but srun gets no output: sessions do not work


FOLDER_PROBLEMS = frozenset({Problem.NO_FOLDER, Problem.NOT_WRITABLE, Problem.NOT_RETURNED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What one node of a partition has."""

    node: str
    machine: str = ""  # architecture, as `uname -m` prints it
    uid: int = -1  # of the job
    named_uid: int = -1  # of the user with the same name as on the server; -1: the node does not know the name
    python: str = ""  # its version; empty: none
    users: frozenset[str] = frozenset()  # names and uids of users of tasks, such as "ada 1000"; -1: not known there
    tools: frozenset[str] = frozenset()  # of _TOOLS; "namespaces": bubblewrap can isolate tasks
    folder_code: int = 0  # 0: the shared folder can be used
    time: int = 0  # seconds after 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    partition: str  # empty: the cluster's default
    state: ProbeState = ProbeState.UNKNOWN
    problem: Problem | None = None
    facts: NodeFacts | None = None
    clock_difference: int = 0  # seconds by which the node's clock is ahead, beyond the duration of the probe
    detail: str = ""  # Slurm's words
    at: float = 0.0  # seconds after 1970

    @property
    def blocks_tasks(self) -> bool:
        return self.state is ProbeState.FAILED and self.problem in FOLDER_PROBLEMS


def parse_facts(text: str) -> NodeFacts | None:
    """Return what runtime/slurm_probe.sh printed; None if that is not complete."""
    values: dict[str, str] = {}
    tools: set[str] = set()
    users: set[str] = set()
    for line in text[:MAX_OUTPUT_SIZE].splitlines():
        name, _, value = line.partition(" ")
        if name == "tool":
            tools.add(value)
        elif name == "user":
            known, _, number = value.strip().partition(" ")
            users.add(f"{known} {_parse_number(number)}")
        else:
            values[name] = value.strip()
    if "end" not in values or not values.get("node"):
        return None
    return NodeFacts(
        node=values["node"],
        machine=values.get("machine", ""),
        uid=_parse_number(values.get("uid", "")),
        named_uid=_parse_number(values.get("uid-of-user", "")),
        python=values.get("python", ""),
        users=frozenset(users),
        tools=frozenset(tools) & _TOOLS,
        folder_code=_parse_number(values.get("folder", "")),
        time=max(0, _parse_number(values.get("time", ""))),
    )


def _parse_number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else -1


def compute_clock_difference(time: int, began: float, ended: float) -> int:
    """Return by how many seconds a clock is ahead that showed `time` at some moment between two others."""
    if time + 1 < began:
        return round(time - began)
    return max(0, round(time - ended))


def judge_facts(
    partition: str, facts: NodeFacts, *, returned: bool, difference: int, connected: bool, at: float
) -> ProbeResult:
    """`returned`: the server sees the file that the node wrote; `connected`: srun got the output of the node."""
    problem = None
    if facts.folder_code == NOT_WRITABLE_CODE:
        problem = Problem.NOT_WRITABLE
    elif facts.folder_code:
        problem = Problem.NO_FOLDER
    elif not returned:
        problem = Problem.NOT_RETURNED
    elif not connected:
        problem = Problem.NO_CONNECTION
    state = ProbeState.FAILED if problem else ProbeState.PASSED
    return ProbeResult(
        partition=partition, state=state, problem=problem, facts=facts, clock_difference=difference, at=at
    )


# --- conditions and notes ---------------------------------------------------------------------------------------------


def describe_problem(result: ProbeResult) -> tuple[str, str]:
    """Return what does not work, and what to do, of a failed probe."""
    name = result.partition or msg("(default)")
    match result.problem:
        case Problem.NO_FOLDER:
            return (
                msg("Nodes of the partition {name} do not see the shared folder.", name=name),
                msg("Mount the folder of `slurm.folder` on all nodes, at the same path as on the server's machine."),
            )
        case Problem.NOT_WRITABLE:
            return (
                msg("Nodes of the partition {name} cannot write to the shared folder.", name=name),
                msg("Allow the tasks' user to write there. NFS maps root to nobody unless no_root_squash is set."),
            )
        case Problem.NOT_RETURNED:
            return (
                msg("The server does not see files that nodes of the partition {name} write.", name=name),
                msg("Mount the same file system at `slurm.folder` on the server's machine and on all nodes."),
            )
        case Problem.NO_CONNECTION:
            return (
                msg("Sessions do not work: nodes of the partition {name} cannot connect to the server.", name=name),
                msg("Allow connections from the nodes. Set SrunPortRange in slurm.conf to limit the ports."),
            )
    return (
        msg("Slurm does not accept jobs for the partition {name} with the options of the settings.", name=name),
        msg("Change `slurm.partition`, `slurm.account` or `slurm.qos`. See the details."),
    )


def build_conditions(result: ProbeResult, uid: int, users: Mapping[str, int] | None = None) -> list[Condition]:
    """Return what an admin must fix. `uid`: of the server. `users`: uids of the users of tasks, by name."""
    conditions = []
    facts = result.facts
    if result.state is ProbeState.FAILED:
        message, hint = describe_problem(result)
        detail = join_messages(": ", [part for part in (facts.node if facts else "", result.detail) if part])
        warning = result.problem is Problem.NO_CONNECTION
        conditions.append(_make_condition(message, hint, detail=detail, warning=warning))
    if facts is not None and facts.named_uid not in (-1, uid):
        message = msg("The server's user has another uid on the node {node} than on the server.", node=facts.node)
        hint = msg("Use the same user database on all nodes: Slurm identifies users by their uids.")
        conditions.append(_make_condition(message, hint, warning=True))
    if facts is not None:
        conditions += _check_users(facts, users or {})
    if abs(result.clock_difference) > _MAX_CLOCK_DIFFERENCE and facts is not None:
        message = msg(
            "The clock of the node {node} differs by {seconds} s.", node=facts.node, seconds=result.clock_difference
        )
        hint = msg("Synchronize the clocks of all machines. Slurm rejects messages of other times.")
        conditions.append(_make_condition(message, hint, warning=True))
    return conditions


def _check_users(facts: NodeFacts, users: Mapping[str, int]) -> list[Condition]:
    """Return which users of tasks the node does not know, or knows by other uids."""
    found = {name: int(uid) for name, _, uid in (each.partition(" ") for each in facts.users)}
    unknown = [name for name in users if found.get(name) == -1]
    different = [name for name, uid in users.items() if found.get(name, -1) not in (-1, uid)]
    conditions = []
    if unknown:
        message = msg("The node {node} does not know these Unix users: {names}.", node=facts.node, names=_join(unknown))
        conditions.append(_make_condition(message, msg("Create them on all nodes, with the same uids."), warning=True))
    if different:
        message = msg(
            "These Unix users have other uids on the node {node} than on the server: {names}.",
            node=facts.node,
            names=_join(different),
        )
        hint = msg("Use the same user database on all nodes: Slurm identifies users by their uids.")
        conditions.append(_make_condition(message, hint, warning=True))
    return conditions


def _join(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMED_USERS]) + (", ..." if len(names) > _MAX_NAMED_USERS else "")


def _make_condition(message: str, hint: str, *, detail: str = "", warning: bool = False) -> Condition:
    return Condition(kind=ConditionKind.ENGINE, message=message, hint=hint, detail=detail, warning=warning)


def describe_result(result: ProbeResult) -> str:
    """Return a sentence about what is known of the nodes of a partition."""
    name = result.partition or msg("(default)")
    facts = result.facts
    if facts is None:
        why = result.detail or msg("the probe job has not run")
        return msg("The nodes of the partition {name} are not checked yet: {why}.", name=name, why=why)
    missing = _list_missing(facts)
    parts = [f"Python {facts.python}"] if facts.python else []
    parts += [label for tool, label in _TOOL_LABELS.items() if tool in facts.tools]
    has = msg("Checked on node {node} of the partition {name}.", node=facts.node, name=name)
    found = msg("Found: {tools}.", tools=", ".join(parts)) if parts else ""
    return join_messages(" ", [part for part in (has, found, *missing) if part])


def _list_missing(facts: NodeFacts) -> list[str]:
    missing = []
    version = tuple(_parse_number(part) for part in facts.python.split("."))
    if not facts.python or version < _MIN_PYTHON:
        missing.append(msg("File transfers do not work: install Python 3.8 or newer on the nodes."))
    return missing


# --- file -------------------------------------------------------------------------------------------------------------


def serialize_results(results: Mapping[str, tuple[str, ProbeResult]]) -> str:
    """Return passed results by their fingerprints, as text."""
    rows = [
        {"fingerprint": mark, **asdict(result), "facts": _serialize_facts(result.facts)}
        for mark, result in results.values()
        if result.state is ProbeState.PASSED
    ]
    return json.dumps(rows, sort_keys=True)


def _serialize_facts(facts: NodeFacts | None) -> dict[str, Any] | None:
    return {**asdict(facts), "tools": sorted(facts.tools), "users": sorted(facts.users)} if facts is not None else None


def parse_results(data: bytes) -> dict[str, tuple[str, ProbeResult]]:
    """Return what `serialize_results` wrote, by partition; empty if it is something else."""
    found = {}
    try:
        for row in json.loads(data):
            mark, facts = row.pop("fingerprint"), row.pop("facts")
            result = ProbeResult(**{**row, "state": ProbeState(row["state"]), "problem": None})
            facts = NodeFacts(**{**facts, "tools": frozenset(facts["tools"]), "users": frozenset(facts["users"])})
            found[result.partition] = (str(mark), replace(result, facts=facts))
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}
    return found
