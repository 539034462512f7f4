"""Calls about the user's own account: SSH keys and login links; and the audit log."""

from __future__ import annotations

from datetime import datetime

from holdfast import api

from .calls import Call, build_path, call, drop_none, endpoint, format_time, ignore_body, parse_as, parse_items


class AccountCalls:
    @endpoint
    def keys(self) -> Call[tuple[api.people.SshKey, ...]]:
        """List the user's SSH keys."""
        return call("GET", "/me/keys", parse_items(api.people.SshKey))

    @endpoint
    def add_key(self, value: str, *, title: str | None = None) -> Call[api.people.SshKey]:
        """Add a public key, as in ~/.ssh/id_ed25519.pub. Default title: its comment."""
        return call("POST", "/me/keys", parse_as(api.people.SshKey), body=drop_none(value=value, title=title))

    @endpoint
    def remove_key(self, id: str) -> Call[None]:
        """Remove a key by its id."""
        return call("DELETE", build_path("me", "keys", id), ignore_body)

    @endpoint
    def end_my_logins(self) -> Call[None]:
        """Log out everywhere: all browsers and saved logins. API tokens stay valid."""
        return call("DELETE", "/me/logins", ignore_body)

    @endpoint
    def login_code(self) -> Call[api.people.LoginCode]:
        """Create a link that logs a browser in as this user. Valid once, for ten minutes."""
        return call("POST", "/login-codes", parse_as(api.people.LoginCode))

    @endpoint
    def audit(
        self,
        *,
        user: str | None = None,
        kind: str | None = None,
        subject: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: int | None = None,
        limit: int | None = None,
    ) -> Call[api.people.AuditPage]:
        """List audit entries, newest first; admins only. `before` is the `next` of the previous page."""
        params = drop_none(
            user=user,
            kind=kind,
            subject=subject,
            since=format_time(since),
            until=format_time(until),
            before=before,
            limit=limit,
        )
        return call("GET", "/audit", parse_as(api.people.AuditPage), params=params)
