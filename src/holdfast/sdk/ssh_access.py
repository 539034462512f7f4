"""Calls for task access; the WebSocket sessions are in `inside`."""

from __future__ import annotations

from holdfast import api

from .calls import Call, build_path, call, endpoint, parse_as


class TaskAccessCalls:
    @endpoint
    def ssh_lines(self, ref: str) -> Call[api.inside.SshLines]:
        """Return the ssh commands of running and held tasks, or the reason why there are none."""
        return call("GET", build_path("jobs", ref, "ssh"), parse_as(api.inside.SshLines))

    @endpoint
    def add_short_key(self, public_key: str) -> Call[api.inside.ShortKey]:
        """Register a temporary public key with the SSH gateway."""
        return call(
            "POST",
            "/ssh/keys",
            parse_as(api.inside.ShortKey),
            body=api.inside.NewShortKey(public_key=public_key),
            repeatable=True,
        )

    @endpoint
    def ticket(self, ref: str) -> Call[api.inside.Ticket]:
        """Create a ticket for one WebSocket session with a job; fails if shell access is denied."""
        return call("POST", build_path("jobs", ref, "tickets"), parse_as(api.inside.Ticket), repeatable=True)

    @endpoint
    def stacks(self, ref: str, task: str | None = None) -> Call[api.inside.Stacks]:
        """Return the Python stack traces of a task's processes. Default task: a held one, else the first running."""
        return call("GET", build_path("jobs", ref, "tasks", task or "-", "stacks"), parse_as(api.inside.Stacks))
