"""Calls about getting inside tasks; the lines themselves are in `inside`."""

from __future__ import annotations

from holdfast import api

from .exchange import Call, as_a, call, endpoint, segment


class EnteringCalls:
    @endpoint
    def ssh_lines(self, ref: str) -> Call[api.inside.SshLines]:
        """How to get by SSH into those tasks of a job that can be entered, or the reason why not."""
        return call("GET", f"/jobs/{segment(ref)}/ssh", as_a(api.inside.SshLines))

    @endpoint
    def add_short_key(self, public_key: str) -> Call[api.inside.ShortKey]:
        """Let a public key open the SSH gateway for you, for some minutes."""
        return call(
            "POST",
            "/ssh/keys",
            as_a(api.inside.ShortKey),
            body=api.inside.NewShortKey(public_key=public_key),
            repeatable=True,
        )

    @endpoint
    def ticket(self, ref: str) -> Call[api.inside.Ticket]:
        """What a page shows instead of its login to open one line into a job; refused to those who cannot enter it."""
        return call("POST", f"/jobs/{segment(ref)}/tickets", as_a(api.inside.Ticket), repeatable=True)

    @endpoint
    def stacks(self, ref: str, task: str | None = None) -> Call[api.inside.Stacks]:
        """Where the programs of a task are right now: Python stacks of its processes. Without a task: the one that is
        held, else the first that runs."""
        return call("GET", f"/jobs/{segment(ref)}/tasks/{segment(task or '-')}/stacks", as_a(api.inside.Stacks))
