"""Calls about notifications: where one is told of what, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast import api

from .exchange import Call, as_a, as_items, as_nothing, call, endpoint, given, segment

_RECIPIENTS = "/me/notifications/recipients"


class NotificationCalls:
    @endpoint
    def notifications(
        self, *, user: str | None = None, before: int | None = None, limit: int | None = None
    ) -> Call[api.notifications.NotificationPage]:
        """What one was told, newest first; for admins, what another user was. `before` is the `next` of a page."""
        whose = "/me" if user is None else f"/users/{segment(user)}"
        return call(
            "GET",
            f"{whose}/notifications",
            as_a(api.notifications.NotificationPage),
            params=given(before=before, limit=limit),
        )

    @endpoint
    def recipients(self, *, user: str | None = None) -> Call[tuple[api.notifications.Recipient, ...]]:
        """Where one is told of what; for admins, where another user is."""
        whose = "/me" if user is None else f"/users/{segment(user)}"
        return call("GET", f"{whose}/notifications/recipients", as_items(api.notifications.Recipient))

    @endpoint
    def add_recipient(
        self, way: str, address: str, *, events: Iterable[str] | None = None
    ) -> Call[api.notifications.Recipient]:
        """`way` is webhook, slack or mail. Without events: all but started, stopped and retried."""
        body = api.notifications.NewRecipient(way=way, address=address, events=None if events is None else list(events))
        return call("POST", _RECIPIENTS, as_a(api.notifications.Recipient), body=body)

    @endpoint
    def choose_events(self, id: str, events: Iterable[str]) -> Call[api.notifications.Recipient]:
        """Other events for a recipient."""
        return call(
            "PATCH",
            _recipient(id),
            as_a(api.notifications.Recipient),
            body=api.notifications.RecipientChange(events=list(events)),
        )

    @endpoint
    def remove_recipient(self, id: str) -> Call[None]:
        return call("DELETE", _recipient(id), as_nothing)

    @endpoint
    def test_recipient(self, id: str) -> Call[api.notifications.NotificationTest]:
        """Send a notification there now, once, and say what came back."""
        return call("POST", f"{_recipient(id)}/test", as_a(api.notifications.NotificationTest))

    @endpoint
    def notification_secret(self, address: str) -> Call[api.notifications.NotificationSecret]:
        """What the receiver at this address checks signatures with."""
        return call(
            "POST",
            "/me/notifications/secret",
            as_a(api.notifications.NotificationSecret),
            body=api.notifications.NotificationAddress(address=address),
        )


def _recipient(id: str) -> str:
    return f"{_RECIPIENTS}/{segment(id)}"
