"""Calls for task access; the WebSocket sessions are in `inside`."""

from __future__ import annotations

from holdfast import api

from .calls import Call, build_call, build_path, endpoint


class TaskAccessCalls:
    @endpoint
    def list_ssh_commands(self, ref: str) -> Call[api.inside.SshCommandList]:
        """Return the ssh commands of running and held tasks, or the reason why there are none."""
        return build_call("GET", build_path("jobs", ref, "ssh"), api.inside.SshCommandList)

    @endpoint
    def add_short_key(self, public_key: str) -> Call[api.inside.TemporaryKey]:
        """Register a temporary public key with the SSH gateway."""
        return build_call(
            "POST",
            "/ssh/keys",
            api.inside.TemporaryKey,
            body=api.inside.NewTemporaryKey(public_key=public_key),
            repeatable=True,
        )

    @endpoint
    def create_ticket(self, ref: str) -> Call[api.inside.Ticket]:
        """Create a ticket for one WebSocket session with a job; fails if shell access is denied."""
        return build_call("POST", build_path("jobs", ref, "tickets"), api.inside.Ticket, repeatable=True)

    @endpoint
    def get_stack_traces(self, ref: str, task: str | None = None) -> Call[api.inside.StackDump]:
        """Return the Python stack traces of a task's processes. Default task: a held one, else the first running."""
        return build_call("GET", build_path("jobs", ref, "tasks", task or "-", "stacks"), api.inside.StackDump)
