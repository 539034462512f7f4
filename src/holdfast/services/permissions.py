"""Permission checks that several services share."""

from __future__ import annotations

from holdfast.core.access import Actor, Permission, has_permission
from holdfast.core.errors import Forbidden


def require_admin(actor: Actor, refusal: str, hint: str | None = None) -> None:
    """Raise Forbidden with the message `refusal` unless the actor can manage the installation."""
    if not has_permission(actor, Permission.MANAGE_INSTALLATION):
        raise Forbidden(refusal, hint=hint)
