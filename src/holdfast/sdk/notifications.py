"""Calls about notifications and their recipients."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast import api

from .calls import Call, build_call, build_path, drop_none, endpoint, ignore_body, make_list_parser, quote_segment

_RECIPIENTS_PATH = "/me/notifications/recipients"


class NotificationCalls:
    @endpoint
    def list_notifications(
        self, *, user: str | None = None, before: int | None = None, limit: int | None = None
    ) -> Call[api.notifications.NotificationPage]:
        """List notifications, newest first; admins can set `user`. `before` is the `next` of the previous page."""
        whose = "/me" if user is None else build_path("users", user)
        return build_call(
            "GET",
            f"{whose}/notifications",
            api.notifications.NotificationPage,
            params=drop_none(before=before, limit=limit),
        )

    @endpoint
    def list_recipients(self, *, user: str | None = None) -> Call[tuple[api.notifications.Recipient, ...]]:
        """List recipients; admins can set `user`."""
        whose = "/me" if user is None else build_path("users", user)
        return build_call("GET", f"{whose}/notifications/recipients", make_list_parser(api.notifications.Recipient))

    @endpoint
    def add_recipient(
        self, way: str, address: str, *, events: Iterable[str] | None = None
    ) -> Call[api.notifications.Recipient]:
        """Add a recipient. `way`: webhook, slack or mail. Default events: all except started, stopped and retried."""
        body = api.notifications.NewRecipient(way=way, address=address, events=None if events is None else list(events))
        return build_call("POST", _RECIPIENTS_PATH, api.notifications.Recipient, body=body)

    @endpoint
    def set_recipient_events(self, id: str, events: Iterable[str]) -> Call[api.notifications.Recipient]:
        """Change the events of a recipient."""
        return build_call(
            "PATCH",
            _build_recipient_path(id),
            api.notifications.Recipient,
            body=api.notifications.RecipientChange(events=list(events)),
        )

    @endpoint
    def remove_recipient(self, id: str) -> Call[None]:
        return build_call("DELETE", _build_recipient_path(id), ignore_body)

    @endpoint
    def test_recipient(self, id: str) -> Call[api.notifications.NotificationTestResult]:
        """Send a test notification and return the response."""
        return build_call("POST", f"{_build_recipient_path(id)}/test", api.notifications.NotificationTestResult)

    @endpoint
    def get_notification_secret(self, address: str) -> Call[api.notifications.NotificationSecret]:
        """Return the secret that signs notifications to this address."""
        return build_call(
            "POST",
            "/me/notifications/secret",
            api.notifications.NotificationSecret,
            body=api.notifications.NotificationAddress(address=address),
        )


def _build_recipient_path(id: str) -> str:
    return f"{_RECIPIENTS_PATH}/{quote_segment(id)}"
