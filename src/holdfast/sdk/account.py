"""Calls about the user's own account: SSH keys and login links; and the audit log."""

from __future__ import annotations

from datetime import datetime

from holdfast import api

from .calls import Call, build_call, build_path, drop_none, endpoint, format_time, ignore_body, make_list_parser


class AccountCalls:
    @endpoint
    def list_keys(self) -> Call[tuple[api.people.SshKey, ...]]:
        """List the user's SSH keys."""
        return build_call("GET", "/me/keys", make_list_parser(api.people.SshKey))

    @endpoint
    def add_key(self, value: str, *, title: str | None = None) -> Call[api.people.SshKey]:
        """Add a public key, as in ~/.ssh/id_ed25519.pub. Default title: its comment."""
        return build_call("POST", "/me/keys", api.people.SshKey, body=drop_none(value=value, title=title))

    @endpoint
    def remove_key(self, id: str) -> Call[None]:
        """Remove a key by its id."""
        return build_call("DELETE", build_path("me", "keys", id), ignore_body)

    @endpoint
    def end_my_logins(self) -> Call[None]:
        """Log out everywhere: all browsers and saved logins. API tokens stay valid."""
        return build_call("DELETE", "/me/logins", ignore_body)

    @endpoint
    def create_login_code(self) -> Call[api.people.LoginCode]:
        """Create a link that logs a browser in as this user. Valid once, for ten minutes."""
        return build_call("POST", "/login-codes", api.people.LoginCode)

    @endpoint
    def list_audit_entries(
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
        return build_call("GET", "/audit", api.people.AuditPage, params=params)
