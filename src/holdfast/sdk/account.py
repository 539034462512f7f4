"""Calls about one's own account: SSH keys, logins in a browser; and for admins, what everybody did."""

from __future__ import annotations

from datetime import datetime

from holdfast import api

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment


class AccountCalls:
    @endpoint
    def keys(self) -> Call[tuple[api.people.SshKey, ...]]:
        """One's SSH keys."""
        return call("GET", "/me/keys", as_items(api.people.SshKey))

    @endpoint
    def add_key(self, value: str, *, title: str | None = None) -> Call[api.people.SshKey]:
        """A public key, as in ~/.ssh/id_ed25519.pub; without a title it goes by its comment."""
        return call("POST", "/me/keys", as_a(api.people.SshKey), body=given(value=value, title=title))

    @endpoint
    def remove_key(self, id: str) -> Call[None]:
        """By its id."""
        return call("DELETE", f"/me/keys/{segment(id)}", as_nothing)

    @endpoint
    def end_my_logins(self) -> Call[None]:
        """Log out everywhere: in browsers, and where `holdfast login` was used. API tokens stay."""
        return call("DELETE", "/me/logins", as_nothing)

    @endpoint
    def login_code(self) -> Call[api.people.LoginCode]:
        """A link that logs a browser in as whoever asks: once, within ten minutes."""
        return call("POST", "/login-codes", as_a(api.people.LoginCode))

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
        """Who changed what about the place, newest first; for admins. `before` is the `next` of the page before."""
        params = given(
            user=user,
            kind=kind,
            subject=subject,
            since=since.isoformat() if since else None,
            until=until.isoformat() if until else None,
            before=before,
            limit=limit,
        )
        return call("GET", "/audit", as_a(api.people.AuditPage), params=params)
