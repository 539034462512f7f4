"""What requests about notices hold, and what answers do."""

from __future__ import annotations

from pydantic import Field

from .models import Taken

Events = list[str]


class NewRecipient(Taken):
    way: str = Field(max_length=20, description="webhook, slack or mail.")
    address: str = Field(max_length=2000)
    events: Events | None = Field(None, max_length=20, description="Left out: all but started, stopped and retried.")


class RecipientChange(Taken):
    events: Events = Field(max_length=20)


class NoticeAddress(Taken):
    address: str = Field(max_length=2000)
