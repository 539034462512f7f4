"""Calls about notifications and their recipients."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast import api

from .calls import Call, build_path, call, drop_none, endpoint, ignore_body, parse_as, parse_items, quote_segment

_RECIPIENTS = "/me/notifications/recipients"


class NotificationCalls:
    @endpoint
    def notifications(
        self, *, user: str | None = None, before: int | None = None, limit: int | None = None
    ) -> Call[api.notifications.NotificationPage]:
        """List notifications, newest first; admins can set `user`. `before` is the `next` of the previous page."""
        whose = "/me" if user is None else build_path("users", user)
        return call(
            "GET",
            f"{whose}/notifications",
            parse_as(api.notifications.NotificationPage),
            params=drop_none(before=before, limit=limit),
        )

    @endpoint
    def recipients(self, *, user: str | None = None) -> Call[tuple[api.notifications.Recipient, ...]]:
        """List recipients; admins can set `user`."""
        whose = "/me" if user is None else build_path("users", user)
        return call("GET", f"{whose}/notifications/recipients", parse_items(api.notifications.Recipient))

    @endpoint
    def add_recipient(
        self, way: str, address: str, *, events: Iterable[str] | None = None
    ) -> Call[api.notifications.Recipient]:
        """Add a recipient. `way`: webhook, slack or mail. Default events: all except started, stopped and retried."""
        body = api.notifications.NewRecipient(way=way, address=address, events=None if events is None else list(events))
        return call("POST", _RECIPIENTS, parse_as(api.notifications.Recipient), body=body)

    @endpoint
    def choose_events(self, id: str, events: Iterable[str]) -> Call[api.notifications.Recipient]:
        """Change the events of a recipient."""
        return call(
            "PATCH",
            _build_recipient_path(id),
            parse_as(api.notifications.Recipient),
            body=api.notifications.RecipientChange(events=list(events)),
        )

    @endpoint
    def remove_recipient(self, id: str) -> Call[None]:
        return call("DELETE", _build_recipient_path(id), ignore_body)

    @endpoint
    def test_recipient(self, id: str) -> Call[api.notifications.NotificationTest]:
        """Send a test notification and return the response."""
        return call("POST", f"{_build_recipient_path(id)}/test", parse_as(api.notifications.NotificationTest))

    @endpoint
    def notification_secret(self, address: str) -> Call[api.notifications.NotificationSecret]:
        """Return the secret that signs notifications to this address."""
        return call(
            "POST",
            "/me/notifications/secret",
            parse_as(api.notifications.NotificationSecret),
            body=api.notifications.NotificationAddress(address=address),
        )


def _build_recipient_path(id: str) -> str:
    return f"{_RECIPIENTS}/{quote_segment(id)}"
