"""How the nodes isolate tasks, as they have reported, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.core.errors import sanitize_output
from holdfast.core.messages import msg
from holdfast.engines.base import Isolation

ISOLATION_FILE, REFUSAL_FILE = "isolation", "refusal"  # in the report folder of the task
_MAX_NAMED_NODES = 3


class IsolationMode(StrEnum):
    """Values of the setting `slurm.isolation`."""

    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class NodeIsolation:
    """How a node runs tasks."""

    way: str = ""  # "bubblewrap" or "none"; empty: not known
    root: str = ""  # of its root filesystem: "overlay", "host" or "read_only"
    why: str = ""  # why there is no isolation


def parse_isolation(data: bytes) -> NodeIsolation:
    way, _, rest = sanitize_output(data).partition(" ")
    return NodeIsolation(way, why=rest) if way == "none" else NodeIsolation(way, root=rest)


def describe_missing_isolation(found: NodeIsolation) -> str:
    """Return what the task must do without; empty if nothing."""
    if found.way == "none":
        why = found.why or msg("unknown reason")
        return msg("The task is not isolated: it sees the files of the node ({why}).", why=why)
    if found.root == "read_only":
        return msg("The task can only change files in its home folder and /tmp: its node does not support overlays.")
    return ""


def is_setup_failure(text: str) -> bool:
    """Return whether a node refused a task that it can run at another time, such as with more disk space."""
    return text.startswith("setup ")


def describe_node_refusal(text: str, node: str) -> str:
    """Return why a node did not run the task, from what it has written."""
    word, _, detail = text.partition(" ")
    match word:
        case "missing":
            return msg("The mount source {source} does not exist on the node {node}.", source=detail, node=node)
        case "link":
            return msg("{source} cannot be mounted: a part of its path is a symbolic link.", source=detail)
        case "setup":
            return msg(
                "The node {node} can isolate tasks, but failed to isolate this one ({why}). Try again.",
                node=node,
                why=detail.removeprefix("bwrap: ") or msg("unknown reason"),
            )
    return msg(
        "The node {node} cannot isolate tasks ({why}). An image, or a volume at another path, needs that. "
        "Enable user namespaces or install bubblewrap there, or choose other nodes with `slurm.constraint`.",
        node=node,
        why=detail.removeprefix("bwrap: ") or msg("unknown reason"),
    )


def find_isolation(nodes: Mapping[str, NodeIsolation], mode: str) -> Isolation:
    """Return what every node guarantees, as far as is known."""
    if mode == IsolationMode.NONE or any(found.way == "none" for found in nodes.values()):
        return Isolation.NONE
    return Isolation.READ_ONLY if nodes or mode != IsolationMode.AUTO else Isolation.NONE


def list_user_notes(mode: str) -> Iterator[str]:
    """Yield what tasks must do without that run as the Unix users of their owners."""
    if mode == IsolationMode.NONE:
        yield msg(
            "Tasks in Slurm are not isolated: they run as the Unix users of their owners and see the files of the node."
        )
        return
    yield msg(
        "Tasks in Slurm run as the Unix users of their owners. On the image `host`, the node's files are read-only."
    )
    yield msg("Nodes do not report to the server: each job says how it is isolated, and changes are seen later.")


def list_isolation_notes(nodes: Mapping[str, NodeIsolation], mode: str) -> Iterator[str]:
    """Yield what tasks must do without that run as the server's user, and the remedy."""
    if mode == IsolationMode.NONE:
        yield msg("Tasks in Slurm are not isolated: they run as the server's user and see the files of the node.")
        return
    yield msg("Tasks in Slurm run as the server's user. On the image `host`, the files of the node are read-only.")
    if not nodes:
        yield msg("How the nodes isolate tasks is known once tasks have run on them.")
    for why in dict.fromkeys(found.why for found in nodes.values() if found.way == "none"):
        unisolated = sorted(name for name, found in nodes.items() if (found.way, found.why) == ("none", why))
        yield msg(
            "Tasks are not isolated on {nodes} ({why}). Enable user namespaces or install bubblewrap there.",
            nodes=_join_names(unisolated),
            why=why or msg("unknown reason"),
        )
    if read_only := sorted(name for name, found in nodes.items() if found.root == "read_only"):
        yield msg(
            "In images, tasks on {nodes} can only change their home folder and /tmp.", nodes=_join_names(read_only)
        )


def _join_names(names: list[str]) -> str:
    more = f", … (+{len(names) - _MAX_NAMED_NODES})" if len(names) > _MAX_NAMED_NODES else ""
    return ", ".join(names[:_MAX_NAMED_NODES]) + more
